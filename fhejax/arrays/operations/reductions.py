"""Sums over axes of encrypted arrays, and what is made of them.

A digit that counts ciphertexts is added up. One inside of them takes rotations: with w_n[p] the sum of the n slots p,
p + s, p + 2 s, ...,

    w_2n[p] = w_n[p] + w_n[p + n s]        w_(m+n)[p] = w_n[p] + w_m[p + n s]

which is right at the first entry whatever stands in slots that no entry owns. Where the digit goes all the way round
the slots, or is followed by copies, the sum stands in all its places, and the digit becomes copies.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fhejax.arrays.layouts.axis_digits import joined
from fhejax.arrays.layouts.broadcasting import compact, merged
from fhejax.arrays.layouts.layout import Digit, Digits, Layout, sums
from fhejax.arrays.layouts.record import Arranged, Array, taken
from fhejax.arrays.layouts.shapes import reduced_shape
from fhejax.arrays.operations.elementwise import cleaned, mapped, multiply, scaled, square, subtract
from fhejax.arrays.operations.views import plain
from fhejax.functions.sqrt_log import sqrt
from fhejax.operations import arithmetic
from fhejax.operations.rotations import conjugate, rotate

Axis = int | Sequence[int] | None


def summed(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The sum over axes, as `numpy.sum`.

    Level out: the same. Keys needed: rotations, about log2(n) for n entries of an axis inside a ciphertext. Slots that
    no entry owns hold sums of other entries.

    Raises:
      numpy.exceptions.AxisError: there is no such axis.
      ValueError: the entries of some sums are cut by the end of a ciphertext where those of others are not.
      MissingKeyError: a rotation has no key.
    """
    reduced_shape(x.shape, axis, keepdims)
    plan = planned(x.layout, axis, bool(keepdims))
    if plan is None:
        raise ValueError(
            f"sum: in {x.layout}, the entries of some sums lie otherwise than those of others, by a ciphertext's end "
            f"or on diagonals; type x.to_layout('row').sum({axis})"
        )
    target = plan.target
    start = _Slots(x.ciphertext, tuple(range(x.layout.ciphertexts)), target.copies)
    parts = [functools.reduce(functools.partial(_added, x), steps, start) for steps in plan.parts]
    found = parts[0]
    for part in parts[1:]:
        found = _Slots(arithmetic.add(found.ciphertext, part.ciphertext), found.numbers, target.copies)
    target, numbers = compact(replace(target, copies=found.copies))
    places = [found.numbers.index(number) if number in found.numbers else 0 for number in numbers]
    ciphertext = (
        found.ciphertext if places == list(range(len(found.numbers))) else taken(found.ciphertext, np.array(places))
    )
    return replace(x, ciphertext=ciphertext, layout=target)


class _Step(NamedTuple):
    """One digit that is added up.

    Attributes:
      stride: of the digit.
      numbers: the ciphertexts of the result.
      runs: entries in one ciphertext, by how many there are and by how far they begin behind their sum's place: how
        many ciphertexts further on. Runs of one kind are added before they are rotated.
    """

    stride: int
    numbers: tuple[int, ...]
    runs: tuple[tuple[tuple[int, int], tuple[int, ...]], ...]


class _Plan(NamedTuple):
    """How a sum is made: each part of the axes by some steps; and where the first of its entries lies."""

    target: Layout
    parts: tuple[tuple[_Step, ...], ...]


@functools.lru_cache(maxsize=256)
def planned(layout: Layout, axis: Axis, keepdims: bool) -> _Plan | None:
    """How the sum over axes of an array of a layout is made; None where its entries would have to move.

    Args:
      layout: of the array.
      axis, keepdims: as of `numpy.sum`.
    """
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
    return None if None in parts else _Plan(target, tuple(part for part in parts if part is not None))


def mean(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The mean over axes, as `numpy.mean`; zeros in slots that no entry owns. Level out: one lower. See `summed`."""
    return scaled(summed(x, axis, keepdims), 1.0 / _count(x, axis))


def variance(x: Array, axis: Axis = None, ddof: int | float = 0, keepdims: bool = False) -> Array:
    """The variance over axes, as `numpy.var`: the mean square less the square of the mean.

    Both are large where the mean is large beside the deviation, and so is the error then. Level out: two lower. Keys
    needed: as `summed`, and relinearisation; of complex arrays, conjugation.
    """
    count = _count(x, axis)
    squares = scaled(summed(squared_sizes(x), axis, keepdims), 1.0 / (count - ddof))
    return subtract(squares, squared_sizes(scaled(summed(x, axis, keepdims), (count * (count - ddof)) ** -0.5)))


def norm(x: Array, axis: Axis = None, keepdims: bool = False, *, domain: Sequence[Any], bits: float | int) -> Array:
    """The Euclidean norm over axes, as `numpy.linalg.norm` of vectors.

    Args:
      x: an array.
      axis, keepdims: as of `summed`.
      domain: (a, b) that the norms lie in, with 0 <= a < b.
      bits: the absolute error of the square root is to be at most 2^-bits.

    Returns:
      Level out: lower by one for the square, one for what stands in slots that no entry owns (where there are such),
      and the depth of `fhejax.functions.sqrt` on (a^2, b^2). Keys needed: as `variance`.
    """
    low, high = (float(end) ** 2 for end in domain)
    squares = cleaned(summed(squared_sizes(x), axis, keepdims), fill=(low + high) / 2)
    return mapped(squares, sqrt, domain=(low, high), bits=bits)


def squared_sizes(x: Array) -> Array:
    """|x|^2: one level. Keys needed: relinearisation; of complex arrays, conjugation."""
    if x.ciphertext.real:
        return square(x)
    return multiply(x, replace(x, ciphertext=conjugate(x.ciphertext, x.keys)))


class _Part(NamedTuple):
    """Entries that are added up: those at the offset plus each sum of the digits."""

    offset: int
    digits: Digits


class _Slots(NamedTuple):
    """Ciphertexts by their numbers in a layout, and where what they hold stands again."""

    ciphertext: Any
    numbers: tuple[int, ...]
    copies: Digits


def _parts(axes: Sequence[tuple[Digits, int]]) -> list[_Part]:
    """All entries of these axes; strides are made positive, the largest first."""
    parts = []
    for each in itertools.product(*(_exact(joined(digits, count), count) for digits, count in axes)):
        digits = [digit for part in each for digit in part.digits]
        offset = sum(part.offset for part in each) + sum(min(0, (size - 1) * by) for size, by in digits)
        ordered = sorted((Digit(size, abs(by)) for size, by in digits), key=lambda digit: -digit.stride)
        parts.append(_Part(offset, joined(ordered, math.prod(size for size, _ in digits))))
    return parts


def _exact(digits: Digits, count: int) -> list[_Part]:
    """An axis in parts the digits of which are all used: whole blocks, and the rest of the last one."""
    if not digits:
        return [_Part(0, ())]
    (_, stride), *lower = digits
    whole, rest = divmod(count, math.prod(size for size, _ in lower))
    parts = [_Part(0, (Digit(whole, stride), *lower))] if whole > 1 else [_Part(0, tuple(lower))]
    lower = joined(lower, rest)
    return parts + [_Part(whole * stride + part.offset, part.digits) for part in _exact(lower, rest) if rest]


def _steps(slots: int, base: np.ndarray, part: _Part) -> tuple[_Step, ...] | None:
    """How a part is added up for each of the positions `base`; None where ciphertexts end in some sums only."""
    steps, digits = [], part.digits or (Digit(1, slots),)
    for i, digit in enumerate(digits):
        # Sums of one digit stand at the first of their entries; those of the last one where they belong.
        last = i + 1 == len(digits)
        places = base if last else np.unique(base[:, None] + part.offset + sums(digits[i + 1 :]))
        ahead = part.offset * last + np.arange(digit.size) * digit.stride
        jumps = (np.unique(places % slots)[:, None] + ahead) // slots
        if (jumps != jumps[0]).any():
            return None
        runs: dict[tuple[int, int], list[int]] = {}
        for jump in np.unique(jumps[0]).tolist():
            inside = np.flatnonzero(jumps[0] == jump)
            runs.setdefault((len(inside), int(ahead[inside[0]]) - jump * slots), []).append(jump)
        kinds = tuple((kind, tuple(each)) for kind, each in runs.items())
        steps.append(_Step(digit.stride, tuple(np.unique(places // slots).tolist()), kinds))
    return tuple(steps)


def _added(x: Arranged, state: _Slots, step: _Step) -> _Slots:
    """The sums of one digit."""
    slots, total = x.layout.slots, None
    for (length, ahead), jumps in step.runs:
        each = [_chosen(state, [number + jump for number in step.numbers]) for jump in jumps]
        window = _window(functools.reduce(arithmetic.add, each), length, step.stride, x.keys)
        window = rotate(window, ahead, x.keys) if ahead % slots else window
        total = window if total is None else arithmetic.add(total, window)
    (length, ahead), _ = step.runs[0]
    copies, old = state.copies, sums(state.copies)
    # Where a turn by the whole digit leaves all copies what they are, the sum stands in all places of the digit.
    round_about = np.array_equal(np.sort((old + length * step.stride) % slots), old)
    if len(step.runs) == 1 and ahead == 0 and length > 1 and round_about:
        copies = merged((*copies, Digit(length, step.stride)))
    return _Slots(total, step.numbers, copies)


def _chosen(state: _Slots, numbers: list[int]) -> Any:
    places = [state.numbers.index(number) for number in numbers]
    return state.ciphertext if places == list(range(len(state.numbers))) else taken(state.ciphertext, np.array(places))


def _count(x: Arranged, axis: Axis) -> int:
    """How many entries each sum has."""
    return math.prod(x.shape[each] for each in reduced_shape(x.shape, axis, False)[0])


def _window(x: Any, length: int, stride: int, keys: Any) -> Any:
    """In each slot the sum of `length` slots from it on, `stride` apart."""
    result, block = None, 1
    while True:
        if length % 2:
            result = x if result is None else arithmetic.add(x, rotate(result, block * stride, keys))
        length //= 2
        if length == 0:
            return result
        x = arithmetic.add(x, rotate(x, block * stride, keys))
        block *= 2
