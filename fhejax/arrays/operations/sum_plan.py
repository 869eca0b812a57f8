"""How sums over axes are made: which digits are added up, and where the results lie. See `reductions`."""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fhejax.arrays.layouts.axis_digits import coalesce
from fhejax.arrays.layouts.layout import Digit, Digits, Layout, digit_offsets
from fhejax.arrays.layouts.shapes import reduced_shape
from fhejax.arrays.operations.views import plain

Axis = int | Sequence[int] | None


class Step(NamedTuple):
    """One digit that is added up."""

    stride: int  # of the digit
    numbers: tuple[int, ...]  # the ciphertexts of the result
    # Entries in one ciphertext, by how many there are and by how far they begin behind their sum's place: how many
    # ciphertexts further on. Runs of one kind are added before they are rotated.
    runs: tuple[tuple[tuple[int, int], tuple[int, ...]], ...]


class SumPlan(NamedTuple):
    """How a sum is made: each part of the axes by some steps; and where the first of its entries lies."""

    target: Layout
    parts: tuple[tuple[Step, ...], ...]


@functools.lru_cache(maxsize=256)
def plan_sum(layout: Layout, axis: Axis, keepdims: bool) -> SumPlan | None:
    """How the sum over axes of an array of a layout is made; None where its entries would have to move."""
    layout, ndim = plain(layout), len(layout.shape)
    axes, shape = reduced_shape(layout.shape, axis, keepdims)
    if layout.diagonal and ndim - 2 in axes and ndim - 1 not in axes:
        return None
    first, *others = _parts([(layout.axes[each], layout.shape[each]) for each in axes])
    kept = [() if each in axes else digits for each, digits in enumerate(layout.axes)]
    if not keepdims:
        kept = [digits for each, digits in enumerate(kept) if each not in axes]
    diagonal = layout.diagonal and not {ndim - 2, ndim - 1} & set(axes)
    target = Layout(shape, tuple(kept), layout.slots, layout.offset + first.offset, layout.copies, diagonal)
    base = np.unique(target.positions())
    shifted = [_Part(part.offset - first.offset, part.digits) for part in (first, *others)]
    parts = [_steps(layout.slots, base, part) for part in shifted]
    return None if None in parts else SumPlan(target, tuple(part for part in parts if part is not None))


class _Part(NamedTuple):
    """Entries that are added up: those at the offset plus each sum of the digits."""

    offset: int
    digits: Digits


def _parts(axes: Sequence[tuple[Digits, int]]) -> list[_Part]:
    """All entries of these axes; strides are made positive, the largest first."""
    parts = []
    for each in itertools.product(*(_exact(coalesce(digits, count), count) for digits, count in axes)):
        digits = [digit for part in each for digit in part.digits]
        offset = sum(part.offset for part in each) + sum(min(0, (size - 1) * by) for size, by in digits)
        ordered = sorted((Digit(size, abs(by)) for size, by in digits), key=lambda digit: -digit.stride)
        parts.append(_Part(offset, coalesce(ordered, math.prod(size for size, _ in digits))))
    return parts


def _exact(digits: Digits, count: int) -> list[_Part]:
    """An axis in parts the digits of which are all used: whole blocks, and the rest of the last one."""
    if not digits:
        return [_Part(0, ())]
    (_, stride), *lower = digits
    whole, rest = divmod(count, math.prod(size for size, _ in lower))
    parts = [_Part(0, (Digit(whole, stride), *lower))] if whole > 1 else [_Part(0, tuple(lower))]
    lower = coalesce(lower, rest)
    return parts + [_Part(whole * stride + part.offset, part.digits) for part in _exact(lower, rest) if rest]


def _steps(slots: int, base: np.ndarray, part: _Part) -> tuple[Step, ...] | None:
    """How a part is added up for each of the positions `base`; None where ciphertexts end in some sums only."""
    steps, digits = [], part.digits or (Digit(1, slots),)
    for i, digit in enumerate(digits):
        # Sums of one digit stand at the first of their entries; those of the last one where they belong.
        last = i + 1 == len(digits)
        places = base if last else np.unique(base[:, None] + part.offset + digit_offsets(digits[i + 1 :]))
        ahead = part.offset * last + np.arange(digit.size) * digit.stride
        jumps = (np.unique(places % slots)[:, None] + ahead) // slots
        if (jumps != jumps[0]).any():
            return None
        runs: dict[tuple[int, int], list[int]] = {}
        for jump in np.unique(jumps[0]).tolist():
            inside = np.flatnonzero(jumps[0] == jump)
            runs.setdefault((len(inside), int(ahead[inside[0]]) - jump * slots), []).append(jump)
        kinds = tuple((kind, tuple(each)) for kind, each in runs.items())
        steps.append(Step(digit.stride, tuple(np.unique(places // slots).tolist()), kinds))
    return tuple(steps)
