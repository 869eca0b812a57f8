"""Which rotations a linear transform takes: baby steps and giant steps, chosen by what they cost.

A transform is known by its diagonals: it adds up d_k * rotate(x, k) over steps k. With k = g + b,

    sum over g of rotate(sum over b of rotate(d_(g+b), -g) * rotate(x, b), g)

takes one rotation for each baby step b and one for each giant step g, in place of one for each k. Babies are rotations
of one ciphertext and are hoisted, which makes them cheaper than giants: so there are more of them. With several inputs
every input has babies of its own, and with several outputs every output has giants of its own.

Source: Halevi & Shoup, "Faster Homomorphic Linear Transformations in HElib", 2018, section 6; costs under double
hoisting: Bossuat, Mouchet, Troncoso-Pastoriza & Hubaux, "Efficient Bootstrapping for Approximate Homomorphic Encryption
with Non-Sparse Keys", 2021, section 4.3.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fhejax.parameters import Parameters

# What is done to one limb, in transforms of one: a product with a key's limb, and reading and writing it.
_PRODUCT, _PASS = 0.4, 0.25
# Step sizes are tried until so many steps have been sorted.
_EFFORT = 2_000_000


class Sum(NamedTuple):
    """An inner sum, and where it goes."""

    output: int
    step: int  # by which the sum is rotated
    terms: tuple[int, ...]  # the baby steps that it adds up, as numbers in `Plan.babies`


class Plan(NamedTuple):
    """How a linear transform is computed. Steps are of slots, from 0 to slots - 1.

    Attributes:
      inputs, outputs: of how many ciphertexts, into how many.
      babies: rotations of inputs, (input, step) each; among them those by 0, which cost nothing.
      sums: inner sums; each term has a plaintext of its own, in the order in which terms stand here.
    """

    inputs: int
    outputs: int
    babies: tuple[tuple[int, int], ...]
    sums: tuple[Sum, ...]

    @property
    def rotations(self) -> tuple[int, ...]:
        """The steps that need a key."""
        steps = {step for _, step in self.babies} | {each.step for each in self.sums}
        return tuple(sorted(steps - {0}))

    @property
    def terms(self) -> int:
        """Products with a plaintext."""
        return sum(len(each.terms) for each in self.sums)

    @property
    def hoisted(self) -> int:
        """Baby steps: key switches that share their ModUp, and need no ModDown."""
        return sum(step != 0 for _, step in self.babies)

    @property
    def switched(self) -> int:
        """Giant steps: key switches of an inner sum."""
        return sum(each.step != 0 for each in self.sums)

    @property
    def mod_downs(self) -> int:
        """Divisions by P: of one component for each giant step, of both for each output."""
        return self.switched + self.outputs

    def steps(self) -> np.ndarray:
        """Input, output, baby step and giant step of each term, `int64[terms, 4]`."""
        rows = [(*self.babies[i], each) for each in self.sums for i in each.terms]
        return np.array([(i, each.output, baby, each.step) for i, baby, each in rows], np.int64).reshape(-1, 4)


def planned(steps: Mapping[tuple[int, int], Sequence[int]], slots: int, params: Parameters, level: int) -> Plan:
    """The cheapest plan whose giant steps are multiples of one number.

    Args:
      steps: those of the diagonals that differ from zero, by (output, input); every output has one, and so has every
        input.
      slots: of the ciphertexts.
      params: the parameter set.
      level: at which the plan is run.
    """
    # A step and the same less a full turn are one; the one nearer to zero keeps neighbours together.
    rows = [(j, i, (k + slots // 2) % slots - slots // 2) for (j, i), each in steps.items() for k in sorted(set(each))]
    output, source, step = np.array(rows, np.int64).T
    splits = [(size, shift) for size in _sizes(step) for shift in (0, size // 2)]
    cost = functools.partial(_cost, output, source, step, slots, costs(params, level))
    baby, giant = _split(step, slots, *min(splits, key=lambda split: cost(*split)))
    babies = sorted(set(zip(source.tolist(), baby.tolist(), strict=True)))
    number = {each: i for i, each in enumerate(babies)}
    sums: dict[tuple[int, int], list[int]] = {}
    for j, i, b, g in zip(output.tolist(), source.tolist(), baby.tolist(), giant.tolist(), strict=True):
        sums.setdefault((j, g), []).append(number[i, b])
    ordered = sorted(sums.items())
    inputs, outputs = int(source.max()) + 1, int(output.max()) + 1
    return Plan(inputs, outputs, tuple(babies), tuple(Sum(j, g, tuple(sorted(terms))) for (j, g), terms in ordered))


def costs(params: Parameters, level: int) -> tuple[float, float]:
    """What a baby step and a giant step cost at a level, in transforms of one limb.

    Both multiply every digit with both halves of a key, modulo all primes. A giant step also divides one component by
    P, and raises it to digits again.
    """
    limbs, special = level + 1, len(params.special_moduli)
    digits, extended = len(params.digit_moduli(level)), limbs + special
    baby = 2 * extended * (digits * _PRODUCT + _PASS)
    return baby, baby + 2 * extended * _PASS + special + limbs + digits * extended


def _sizes(step):
    """Numbers of baby steps to try: all of them, or as many as can be tried in a moment, and powers of two.

    With the last one every step can be a baby.
    """
    unit = math.gcd(*step.tolist()) or 1
    span = 2 * int(np.abs(step).max()) // unit + 2
    few = min(span, max(64, _EFFORT // len(step)))
    return sorted({unit * size for size in (*range(1, few + 1), *(1 << i for i in range(span.bit_length())), span)})


def _split(step, slots, size, shift):
    """Babies from -shift to size - shift - 1, and giants, modulo the slots."""
    baby = (step + shift) % size - shift
    return baby % slots, (step - baby) % slots


def _cost(output, source, step, slots, each, size, shift):
    baby_cost, giant_cost = each
    baby, giant = _split(step, slots, size, shift)
    babies, giants = np.unique(source * slots + baby), np.unique(output * slots + giant)
    return baby_cost * np.count_nonzero(babies % slots) + giant_cost * np.count_nonzero(giants % slots)
