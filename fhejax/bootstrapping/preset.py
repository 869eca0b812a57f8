"""What a bootstrapping is made of: its chain of primes, and how its levels are spent.

From the bottom of the chain upwards:

    q_0 | slots to coefficients | levels for programs | the sine | coefficients to slots

Coefficients-to-slots and the sine have primes of their own size, as large as the kernels are fast with, since their
rounding decides the precision. The sine's last product ends near the programs' scale.

Source: sizes after Bossuat, Mouchet, Troncoso-Pastoriza & Hubaux, "Efficient Bootstrapping for Approximate Homomorphic
Encryption with Non-Sparse Keys", 2021, table 5.
"""

import dataclasses
import math
from dataclasses import dataclass

from fhejax.parameters.moduli import choose_special_moduli
from fhejax.parameters.parameters import Parameters
from fhejax.parameters.primes import largest_primes, nearest_prime
from fhejax.parameters.security import require_sparse_security


@dataclass(frozen=True, slots=True)
class Preset:
    """A recipe; `parameters` makes the chain.

    Attributes:
      log_degree: log2 of the ring degree N.
      base_bits: of q_0.
      scale_bits: log2 of the programs' scale.
      depth: levels for programs, from one bootstrapping to the next.
      slot_levels: of slots-to-coefficients.
      sine_bits: log2 of the scale of the sine and of coefficients-to-slots.
      first_bits: log2 of the scales at the first levels of the sine. The cosine is flat near 0, where most multiples of
        q_0 are: what the first products lose there, the doublings make much of.
      coefficient_levels: of coefficients-to-slots.
      special_bits: of each special prime.
      digit_size: primes in a digit of a key switch.
      cosine_degree: of the even polynomial that stands for the cosine.
      doublings: how often its angle is doubled.
      arcsine_degree: of the odd polynomial that makes the sine straight; 1 leaves it as curved as it is.
      secret_weight: the Hamming weight of the ephemeral secret.
      bound: K, the largest multiple of q_0 that the sine covers.
      security: as for `Parameters`.
      exit_bits: by so much the scale at which the sine ends exceeds the programs' scale, so that its rounding is not
        what is seen.
      low_bits: log2 of the scale below the levels of programs, where slots become coefficients. Of a wider scale than
        the sine's precision, that of programs may be; None if it is the same.
      key_cost: how much work a MiB of rotation keys is worth, in transforms of one limb; see `LinearTransform`.
      log_slots: log2 of the slots, if fewer than N/2; see `packed`.
    """

    log_degree: int
    base_bits: int
    scale_bits: int
    depth: int
    slot_levels: int
    sine_bits: int
    first_bits: tuple[int | float, ...]
    coefficient_levels: int
    special_bits: tuple[int, ...]
    digit_size: int
    cosine_degree: int = 30
    doublings: int = 3
    arcsine_degree: int = 7
    secret_weight: int = 32
    bound: int = 16
    security: int | None = 128
    exit_bits: int = 3
    low_bits: int | None = None
    key_cost: int | float = 2.8
    log_slots: int | None = None

    @property
    def slots(self) -> int:
        """The packing that the recipe is for."""
        return 1 << (self.log_degree - 1 if self.log_slots is None else self.log_slots)

    @property
    def sine_depth(self) -> int:
        """Levels of the sine: polynomial, doublings, arcsine."""
        return depth_of(self.cosine_degree) + self.doublings + depth_of(self.arcsine_degree)

    @property
    def level(self) -> int:
        """The level at which a refreshed ciphertext comes out where slots-to-coefficients went first."""
        return self.slot_levels + self.depth

    @property
    def sine_level(self) -> int:
        """The level at which the sine begins."""
        return self.level + self.sine_depth

    @property
    def top_level(self) -> int:
        """The level to which ciphertexts are raised."""
        return self.sine_level + self.coefficient_levels

    def packed(self, slots: int) -> "Preset":
        """The recipe for fewer slots, whose transforms have fewer stages: in fewer levels, of as many stages each.

        Args:
          slots: a power of two up to N/2.
        """
        stages, full = slots.bit_length() - 1, self.log_degree - 1 if self.log_slots is None else self.log_slots
        if stages == full:
            return self

        def levels(most):
            return min(most, math.ceil(max(stages, 1) / math.ceil(full / most)))

        return dataclasses.replace(
            self,
            log_slots=stages,
            slot_levels=levels(self.slot_levels),
            coefficient_levels=levels(self.coefficient_levels),
        )

    def with_depth(self, depth: int) -> "Preset":
        """The recipe for another number of levels for programs."""
        return dataclasses.replace(self, depth=depth)

    def parameters(self, slots: int | None = None) -> Parameters:
        """The parameter set, with primes of these sizes that keep the scales.

        Args:
          slots: the packing; if None, the one that the recipe is for.

        Raises:
          InsecureParametersError: log2(QP) exceeds the limit, or q_0 p_0 that of the ephemeral secret.
          ValueError: sizes for which there are no primes, or q_0 is beyond the sine's scale.
        """
        order = 2 << self.log_degree
        base = largest_primes(1, self.base_bits, order)[0]
        # A little below a power of two, so that every prime is, which kernels tell their fast paths by.
        below = 1 - 2.0**-16
        high = below * 2.0**self.sine_bits
        low = min(2.0**self.scale_bits, high)
        exit = 2.0**self.exit_bits * low
        used = {base}
        head, rest = [below * 2.0**bits for bits in self.first_bits], self.sine_depth - len(self.first_bits)
        raised = _following([high] * (self.coefficient_levels + 1), order, used)
        sine = _following([*head, *[high] * (rest + 1)], order, used)
        lower = _following([exit, *[low] * self.level], order, used)
        anchors = {self.top_level: high, self.sine_level: (*head, high)[0], self.level: exit}
        if self.low_bits is not None:
            lower = lower[: self.depth + 1] + _following([2.0**self.low_bits] * self.slot_levels, order, used)
            anchors[self.slot_levels - 1] = 2.0**self.low_bits
        moduli = (base, *lower[::-1], *sine[::-1], *raised[::-1])
        special = choose_special_moduli(self.log_degree, self.special_bits, moduli)
        if self.security is not None:
            require_sparse_security("Preset", self.log_degree, self.secret_weight, (base, special[0]))
        if self.base_bits > self.sine_bits:
            raise ValueError(
                f"Preset: base_bits = {self.base_bits} and sine_bits = {self.sine_bits}; q_0 may not be beyond the "
                "scale of the sine, which a raised ciphertext is multiplied up to"
            )
        return Parameters.from_moduli(
            self.log_degree,
            moduli,
            special,
            scale=anchors,
            digit_size=self.digit_size,
            slots=self.slots if slots is None else slots,
            fresh_level=self.level,
            security=self.security,
        )


def depth_of(degree: int) -> int:
    """Levels that a polynomial takes."""
    return math.ceil(math.log2(degree + 1))


def _following(scales, order, used):
    """Primes from the top down, each nearest to what leads from one scale to the next."""
    chosen, now = [], scales[0]
    for after in scales[1:]:
        q = nearest_prime(round(now * now / after), order, used)
        used.add(q)
        chosen.append(q)
        now = now * now / q
    return tuple(chosen)


PRESETS = {
    "C": Preset(16, 46, 41, 11, 3, 50, (53, 56, 54), 4, (50,) * 7, 6),
    # A scale for iterations: at 2^40, one rescale alone costs all beyond 27 bits.
    "M": Preset(16, 45, 50, 9, 3, 50, (53, 56, 54), 4, (50,) * 7, 6, exit_bits=0, low_bits=40),
    "A": Preset(16, 54, 48, 7, 3, 55, (57, 59, 57.9), 4, (61,) * 6, 6, cosine_degree=54, doublings=2),
    "B2": Preset(15, 41, 35, 3, 2, 44, (46, 49, 47), 2, (52, 52), 2, arcsine_degree=3, exit_bits=2),
    "T": Preset(11, 45, 40, 5, 2, 50, (53, 56, 54), 2, (50,) * 4, 3, security=None),
}
