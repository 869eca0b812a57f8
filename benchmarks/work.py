"""What each operation cannot do without: transforms of a limb, and bytes to and from memory.

With L limbs, k special primes, digits of alpha primes and beta = ceil(L / alpha) digits, a key switch transforms

  L to coefficients, each digit to the L + k - alpha primes that are not its own: beta (L + k) in all,
  and in ModDown, for both halves, k back and L forward: 2 (L + k).

Nothing else is counted: neither basis conversions nor products, neither sampling nor the complex transform of
encoding. So a bound is what no program of this structure can beat, not what a perfect one would take.
"""

from typing import NamedTuple

from fhejax import Parameters


class Work(NamedTuple):
    """What an operation has to do at least.

    Attributes:
      transforms: NTTs of one limb, either direction.
      moved: bytes of the operands, read once, and of the results, written once.
    """

    transforms: int
    moved: int

    def multiply_adds(self, log_degree: int) -> int:
        """vpmadd52 on eight words: (N / 2) log2(N) butterflies a transform, three for each eight of them."""
        return self.transforms * 3 * ((log_degree << (log_degree - 1)) // 8)


def of_operations(params: Parameters, rotations: int) -> dict[str, Work]:
    """The work of each operation at the top level; of `ntt` and `inverse_ntt`, for one limb.

    Args:
      params: the parameter set.
      rotations: how many rotations `rotate_many` makes.
    """
    limbs, extended, digits = len(params.moduli), len(params.moduli) + len(params.special_moduli), params.digits
    limb = 8 * params.degree
    slots, plain, lower, tensor = 8 * params.slots, limbs * limb, 2 * (limbs - 1) * limb, 3 * limbs * limb
    ciphertext, public_key, key = 2 * plain, 2 * (limbs + 1) * limb, 2 * digits * extended * limb
    mod_up, mod_down = digits * extended, 2 * extended
    rescale = 2 * limbs  # for both halves, one limb back and the others forward
    return {
        "ntt": Work(1, 2 * limb),
        "inverse_ntt": Work(1, 2 * limb),
        "encode": Work(limbs, slots + plain),
        "decode": Work(limbs, plain + slots),
        # One ternary and two error polynomials forward; then a division by the special prime.
        "encrypt": Work(3 * (limbs + 1) + 2 * (limbs + 1), plain + public_key + ciphertext),
        "decrypt": Work(limbs, ciphertext + plain + slots),
        "add": Work(0, 3 * ciphertext),
        "multiply_plain": Work(rescale, ciphertext + plain + lower),
        # ModDown by P and the rescale are one: k + 1 limbs back, L - 1 forward, as many as ModDown alone.
        "multiply": Work(mod_up + mod_down, 2 * ciphertext + key + lower),
        "square": Work(mod_up + mod_down, ciphertext + key + lower),
        "rescale": Work(rescale, ciphertext + lower),
        "rotate": Work(mod_up + mod_down, 2 * ciphertext + key),
        f"rotate_many({rotations})": Work(
            mod_up + rotations * mod_down, (1 + rotations) * ciphertext + rotations * key
        ),
        "conjugate": Work(mod_up + mod_down, 2 * ciphertext + key),
        "relinearize": Work(mod_up + mod_down, tensor + key + ciphertext),
        # The errors forward; the masks are drawn in evaluation form.
        "evaluation_key": Work(digits * extended, extended * limb + key),
    }
