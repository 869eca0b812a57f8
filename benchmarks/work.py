"""What each operation cannot do without: transforms of a limb, and bytes to and from memory.

With L limbs, k special primes, digits of alpha primes and beta = ceil(L / alpha) digits, a key switch transforms

  L to coefficients, each digit to the L + k - alpha primes that are not its own: beta (L + k) in all,
  and in ModDown, for both halves, k back and L forward: 2 (L + k).

Nothing else is counted: neither basis conversions nor products, neither sampling nor the complex transform of
encoding. So a bound is what no program of this structure can beat, not what a perfect one would take.
"""

import types
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fhejax import Parameters


class Work(NamedTuple):
    """What an operation has to do at least.

    Attributes:
      moved: bytes of the operands, read once, and of the results, written once.
      forward, inverse: transforms of one limb modulo each prime.
    """

    moved: int
    forward: Mapping[int, int] = types.MappingProxyType({})
    inverse: Mapping[int, int] = types.MappingProxyType({})

    def transforms(self) -> tuple[int, int]:
        """How many, forward and inverse."""
        return sum(self.forward.values()), sum(self.inverse.values())


def of_operations(params: Parameters, rotations: int) -> dict[str, Work]:
    """The work of each operation at the top level; of `ntt` and `inverse_ntt`, for all limbs.

    Args:
      params: the parameter set.
      rotations: how many rotations `rotate_many` makes.
    """
    q, special = params.moduli, params.special_moduli
    limb, limbs, digits = 8 * params.degree, len(q), params.digits
    slots, plain, lower, tensor = 8 * params.slots, limbs * limb, 2 * (limbs - 1) * limb, 3 * limbs * limb
    ciphertext, public_key, key = 2 * plain, 2 * (limbs + 1) * limb, 2 * digits * (limbs + len(special)) * limb
    all_of, rescale = _times(1, q), (_times(2, q[:-1]), _times(2, q[-1:]))
    key_switch = _key_switch(params, 1, q, special)
    many = _key_switch(params, rotations, q, special)
    # ModDown by P and the rescale are one.
    product = _key_switch(params, 1, q[:-1], (*special, q[-1]))
    # The ternary polynomial and two errors; the errors are divided by the special prime in coefficient form.
    encrypt = _times(3, q) + _times(1, special[:1]), _times(2, special[:1])
    return {
        "ntt": Work(2 * plain, all_of),
        "inverse_ntt": Work(2 * plain, inverse=all_of),
        "encode": Work(slots + plain, all_of),
        "decode": Work(plain + slots, inverse=all_of),
        "encrypt": Work(plain + public_key + ciphertext, *encrypt),
        "encode_encrypt": Work(slots + public_key + ciphertext, *encrypt),
        "decrypt": Work(ciphertext + plain + slots, inverse=all_of),
        "add": Work(3 * ciphertext),
        "subtract": Work(3 * ciphertext),
        "raw_multiply_plain": Work(2 * ciphertext + plain),
        "multiply_plain": Work(ciphertext + plain + lower, *rescale),
        "multiply": Work(2 * ciphertext + key + lower, *product),
        "square": Work(ciphertext + key + lower, *product),
        "rescale": Work(ciphertext + lower, *rescale),
        "rotate": Work(2 * ciphertext + key, *key_switch),
        f"rotate_many({rotations})": Work((1 + rotations) * ciphertext + rotations * key, *many),
        "conjugate": Work(2 * ciphertext + key, *key_switch),
        "relinearize": Work(tensor + key + ciphertext, *key_switch),
        # The errors forward; the masks are drawn in evaluation form.
        "evaluation_key": Work((limbs + len(special)) * limb + key, _times(digits, (*q, *special))),
    }


def _key_switch(
    params: Parameters, count: int, kept: Iterable[int], dropped: Iterable[int]
) -> tuple[Counter[int], Counter[int]]:
    """One ModUp, and as many ModDowns as `count`; forward and inverse."""
    q, digits = params.moduli, params.digits
    forward = _times(digits - 1, q) + _times(digits, params.special_moduli)
    return forward + _times(2 * count, kept), _times(1, q) + _times(2 * count, dropped)


def _times(count: int, moduli: Iterable[int]) -> Counter[int]:
    return Counter({modulus: count for modulus in moduli})
