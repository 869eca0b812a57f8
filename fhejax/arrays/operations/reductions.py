"""Sums over axes of encrypted arrays, and what is made of them.

A digit that counts ciphertexts is added up. One inside of them takes rotations: with w_n[p] the sum of the n slots p,
p + s, p + 2 s, ...,

    w_2n[p] = w_n[p] + w_n[p + n s]        w_(m+n)[p] = w_n[p] + w_m[p + n s]

which is right at the first entry whatever stands in slots that no entry owns. Where the digit goes all the way round
the slots, or is followed by copies, the sum stands in all its places, and the digit becomes copies.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fhejax.arrays.layouts.broadcasting import coalesce_copies, compact
from fhejax.arrays.layouts.layout import Digit, Digits, digit_offsets
from fhejax.arrays.layouts.record import Arranged, Array, take_ciphertexts
from fhejax.arrays.layouts.shapes import reduced_shape
from fhejax.arrays.operations.elementwise import clean, map, multiply, scale, square, subtract
from fhejax.arrays.operations.sum_plan import Axis, Step, plan_sum
from fhejax.functions.sqrt_log import sqrt
from fhejax.operations import arithmetic
from fhejax.operations.rotations import conjugate, rotate


def sum(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The sum over axes, as `numpy.sum`.

    Level out: the same. Keys needed: rotations, about log2(n) for n entries of an axis inside a ciphertext. Slots that
    no entry owns hold sums of other entries.

    Raises:
      numpy.exceptions.AxisError: there is no such axis.
      ValueError: the entries of some sums are cut by the end of a ciphertext where those of others are not.
      MissingKeyError: a rotation has no key.
    """
    reduced_shape(x.shape, axis, keepdims)
    plan = plan_sum(x.layout, axis, bool(keepdims))
    if plan is None:
        raise ValueError(
            f"sum: in {x.layout}, the entries of some sums lie otherwise than those of others, by a ciphertext's end "
            f"or on diagonals; type x.to_layout('row').sum({axis})"
        )
    target = plan.target
    start = _Slots(x.ciphertext, tuple(range(x.layout.ciphertexts)), target.copies)
    parts = [functools.reduce(functools.partial(_add_digit, x), steps, start) for steps in plan.parts]
    found = parts[0]
    for part in parts[1:]:
        found = _Slots(arithmetic.add(found.ciphertext, part.ciphertext), found.numbers, target.copies)
    target, numbers = compact(replace(target, copies=found.copies))
    kept = [number if number in found.numbers else found.numbers[0] for number in numbers]
    return replace(x, ciphertext=_take_numbers(found, kept), layout=target)


def mean(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The mean over axes, and zeros in slots that no entry owns. Level out: one lower. Keys needed: as `sum`."""
    return scale(sum(x, axis, keepdims), 1.0 / _count(x, axis))


def var(x: Array, axis: Axis = None, ddof: int | float = 0, keepdims: bool = False) -> Array:
    """The variance over axes, as `numpy.var`: the mean square less the square of the mean.

    Both are large where the mean is large beside the deviation, and so is the error then. Level out: two lower. Keys
    needed: as `sum`, and relinearisation; of complex arrays, conjugation.
    """
    count = _count(x, axis)
    squares = scale(sum(squared_sizes(x), axis, keepdims), 1.0 / (count - ddof))
    return subtract(squares, squared_sizes(scale(sum(x, axis, keepdims), (count * (count - ddof)) ** -0.5)))


def norm(x: Array, axis: Axis = None, keepdims: bool = False, *, domain: Sequence[Any], bits: float | int) -> Array:
    """The Euclidean norm over axes; `(x * x).sum(axis)` is its square, and cheaper.

    Args:
      axis, keepdims: as of `sum`.
      domain: (a, b) that the norms lie in, with 0 <= a < b.
      bits: the absolute error of the square root is to be at most 2^-bits.

    Returns:
      Level out: lower by one for the square, one for what stands in slots that no entry owns (where there are such),
      and the depth of `fhejax.functions.sqrt` on (a^2, b^2). Keys needed: as `var`.
    """
    low, high = (float(end) ** 2 for end in domain)
    squares = clean(sum(squared_sizes(x), axis, keepdims), fill=(low + high) / 2)
    return map(squares, sqrt, domain=(low, high), bits=bits)


def squared_sizes(x: Array) -> Array:
    """|x|^2: one level. Keys needed: relinearisation; of complex arrays, conjugation."""
    if x.ciphertext.real:
        return square(x)
    return multiply(x, replace(x, ciphertext=conjugate(x.ciphertext, x.keys)))


class _Slots(NamedTuple):
    """Ciphertexts by their numbers in a layout, and where what they hold stands again."""

    ciphertext: Any
    numbers: tuple[int, ...]
    copies: Digits


def _add_digit(x: Arranged, state: _Slots, step: Step) -> _Slots:
    """The sums of one digit."""
    slots, total = x.layout.slots, None
    for (length, ahead), jumps in step.runs:
        each = [_take_numbers(state, [number + jump for number in step.numbers]) for jump in jumps]
        window = _window(functools.reduce(arithmetic.add, each), length, step.stride, x.keys)
        window = rotate(window, ahead, x.keys) if ahead % slots else window
        total = window if total is None else arithmetic.add(total, window)
    (length, ahead), _ = step.runs[0]
    copies, old = state.copies, digit_offsets(state.copies)
    # Where a turn by the whole digit leaves all copies what they are, the sum stands in all places of the digit.
    round_about = np.array_equal(np.sort((old + length * step.stride) % slots), old)
    if len(step.runs) == 1 and ahead == 0 and length > 1 and round_about:
        copies = coalesce_copies((*copies, Digit(length, step.stride)))
    return _Slots(total, step.numbers, copies)


def _take_numbers(state: _Slots, numbers: list[int]) -> Any:
    places = [state.numbers.index(number) for number in numbers]
    if places == list(range(len(state.numbers))):
        return state.ciphertext
    return take_ciphertexts(state.ciphertext, np.array(places))


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
