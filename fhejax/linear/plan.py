"""Which rotations a linear transform takes: baby steps and giant steps, chosen by what they cost.

A transform is known by its diagonals: it adds up d_k * rotate(x, k) over steps k. With k = g + b,

    sum over g of rotate(sum over b of rotate(d_(g+b), -g) * rotate(x, b), g)

takes one rotation for each baby step b and one for each giant step g, in place of one for each k. Babies are rotations
of one ciphertext and are hoisted, which makes them cheaper than giants: so there are more of them. With several inputs
every input has babies of its own, and with several outputs every output has giants of its own.

Each step needs a key. Where keys are dear, sums S_i are rotated one after another, all by the same step g, which takes
as many key switches and one key for all of them:

    S_0 + rotate(S_1 + rotate(S_2 + ..., g), g)

Source: Halevi & Shoup, "Faster Homomorphic Linear Transformations in HElib", 2018, section 6; costs under double
hoisting: Bossuat, Mouchet, Troncoso-Pastoriza & Hubaux, "Efficient Bootstrapping for Approximate Homomorphic Encryption
with Non-Sparse Keys", 2021, section 4.3; one key for all giant steps: Kim, Lee, Cheon, Kim, Kim & Ahn, "ARK: Fully
Homomorphic Encryption Accelerator with Runtime Data Generation and Inter-Operation Key Reuse", 2022, section 4.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fhejax.parameters.parameters import Parameters

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
      repeated: whether the sums of each output are rotated one after another, all by `stride`.
    """

    inputs: int
    outputs: int
    babies: tuple[tuple[int, int], ...]
    sums: tuple[Sum, ...]
    repeated: bool = False

    @property
    def stride(self) -> int:
        """The least step of a sum; where sums are rotated one after another, their steps are 0, 1, 2, ... of it."""
        return min((each.step for each in self.sums if each.step), default=0)

    @property
    def rotations(self) -> tuple[int, ...]:
        """The steps that need a key."""
        giants = {self.stride} if self.repeated else {each.step for each in self.sums}
        return tuple(sorted(({step for _, step in self.babies} | giants) - {0}))

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


def planned(
    steps: Mapping[tuple[int, int], Sequence[int]], slots: int, params: Parameters, level: int, key_cost: float = 0.0
) -> Plan:
    """The cheapest plan for diagonals by (output, input) whose giant steps are multiples of one number.

    `key_cost` is in transforms of a limb; without it sums are not rotated one after another, which saves keys alone.
    """
    # A step and the same less a full turn are one; the one nearer to zero keeps neighbours together.
    rows = [(j, i, (k + slots // 2) % slots - slots // 2) for (j, i), each in steps.items() for k in sorted(set(each))]
    output, source, step = np.array(rows, np.int64).T
    least, ways = int(step.min()), (False, True) if key_cost else (False,)
    starts = {least, 0} & {*step.tolist()} if key_cost else {0}
    splits = [
        _Split(start, size, shift, repeated)
        for start in sorted(starts, key=abs)
        for size in _sizes(step - start)
        for shift in (0, size // 2)
        for repeated in ways
    ]
    cost = functools.partial(_cost, output, source, step, slots, (*costs(params, level), key_cost))
    split = min(splits, key=cost)
    baby, giant = _parts(step, slots, split)
    babies = sorted(set(zip(source.tolist(), baby.tolist(), strict=True)))
    number = {each: i for i, each in enumerate(babies)}
    sums: dict[tuple[int, int], list[int]] = {}
    for j, i, b, g in zip(output.tolist(), source.tolist(), baby.tolist(), giant.tolist(), strict=True):
        sums.setdefault((j, g), []).append(number[i, b])
    ordered = sorted(sums.items())
    inputs, outputs = int(source.max()) + 1, int(output.max()) + 1
    sums_of = tuple(Sum(j, g, tuple(sorted(terms))) for (j, g), terms in ordered)
    return Plan(inputs, outputs, tuple(babies), sums_of, split.repeated)


def costs(params: Parameters, level: int) -> tuple[float, float]:
    """What a baby step and a giant step cost at a level, in transforms of one limb.

    Both multiply all digits by a key modulo QP. A giant step also divides one component by P, and raises it again.
    """
    limbs, special = level + 1, len(params.special_moduli)
    digits, extended = len(params.digit_moduli(level)), limbs + special
    baby = 2 * extended * (digits * _PRODUCT + _PASS)
    return baby, baby + 2 * extended * _PASS + special + limbs + digits * extended


def _sizes(step):
    """Numbers of baby steps to try: all, or as many as take a moment, and powers of two; the last makes all babies."""
    unit = math.gcd(*step.tolist()) or 1
    span = 2 * int(np.abs(step).max()) // unit + 2
    few = min(span, max(64, _EFFORT // len(step)))
    return sorted({unit * size for size in (*range(1, few + 1), *(1 << i for i in range(span.bit_length())), span)})


class _Split(NamedTuple):
    """Babies from start - shift to start + size - shift - 1, giants that are multiples of size."""

    start: int
    size: int
    shift: int
    repeated: bool


def _parts(step, slots, split):
    """Babies and giants, modulo the slots."""
    baby = (step - split.start + split.shift) % split.size - split.shift + split.start
    return baby % slots, (step - baby) % slots


def _cost(output, source, step, slots, each, split):
    baby_cost, giant_cost, key_cost = each
    baby, giant = _parts(step, slots, split)
    babies, giants = np.unique(source * slots + baby), np.unique(output * slots + giant)
    cost = baby_cost * np.count_nonzero(babies % slots) + giant_cost * np.count_nonzero(giants % slots)
    if not key_cost:
        return cost
    steps, strides = set((babies % slots).tolist()) - {0}, set((giants % slots).tolist()) - {0}
    if split.repeated:
        if not strides or not is_chain(giants.tolist(), slots):
            return math.inf
        strides = {min(strides)}
    return cost + key_cost * len(steps | strides)


def is_chain(giants: Sequence[int], slots: int) -> bool:
    """Whether the giants (slots * output + step, ascending) of every output are 0, 1, 2, ... times the least of all."""
    stride = min((giant % slots for giant in giants if giant % slots), default=0)
    outputs: dict[int, list[int]] = {}
    for giant in giants:
        outputs.setdefault(giant // slots, []).append(giant % slots)
    return all(own == [i * stride for i in range(len(own))] for own in outputs.values())
