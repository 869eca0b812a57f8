"""The digits of an axis, cut and put together: what views do to a layout.

An axis of `count` entries is written in digits (size, stride), the most significant first (see
`fhejax.arrays.layouts.layout`). The sizes below the first one are exact; the first may be larger than what is used of
it.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from fhejax.arrays.layouts.layout import Digit, Digits


def coalesce(digits: Iterable[Digit], count: int) -> Digits:
    """The same places in as few digits as can be, the first one as large as it is used."""
    found: list[Digit] = []
    for digit in _trim(tuple(digits), count):
        if found and found[-1].stride == digit.size * digit.stride:
            digit = Digit(found.pop().size * digit.size, digit.stride)
        found.append(digit)
    return _trim(tuple(found), count)


def canonical(digits: Iterable[Digit], count: int, slots: int) -> Digits:
    """The one way to write an axis: `coalesce`, and split where ciphertexts end."""
    return tuple(part for i, digit in enumerate(coalesce(digits, count)) for part in _split(digit, slots, exact=i > 0))


def place(index: int, digits: Digits) -> int:
    """How far the entry of an index lies behind the first one."""
    total = 0
    for size, stride in reversed(digits):
        index, digit = divmod(index, size)
        total += digit * stride
    return total


def slice_digits(digits: Digits, start: int, step: int, count: int) -> tuple[int, Digits] | None:
    """The entries start, start + step, ... of joined digits: how far behind the first one they begin, and their digits.

    None where digits cannot say it. The step may be negative.
    """
    places = np.array([place(start + step * i, digits) for i in range(count)])
    strides = np.unique(np.diff(places)).tolist()
    if len(strides) < 2:
        return int(places[0]), tuple(Digit(count, stride) for stride in strides)
    if step < 0:
        forward = slice_digits(digits, start + step * (count - 1), -step, count)
        backward = None if forward is None else _backward(coalesce(forward[1], count), count)
        return None if forward is None or backward is None else (forward[0] + backward[0], backward[1])
    *upper, (size, stride) = digits
    block, first = divmod(start, size)
    if step % size == 0:
        low = 1
    elif size % step == 0 and first < step:
        low = size // step
    else:
        return None
    rest = slice_digits(tuple(upper), block, max(step // size, 1), -(-count // low))
    lowest = (Digit(low, step * stride),) if low > 1 else ()
    return None if rest is None else (rest[0] + first * stride, (*rest[1], *lowest))


def reshape_digits(axes: Sequence[Digits], shape: Sequence[int], target: Sequence[int]) -> tuple[Digits, ...] | None:
    """The axes of an array that is given another shape, entry after entry; None where digits cannot say it."""
    old = [(digits, count) for digits, count in zip(axes, shape, strict=True) if count > 1]
    new = [count for count in target if count > 1]
    found: list[Digits] = []
    while old:  # the fewest axes of as many entries, before and after
        here, there = 1, 1
        while math.prod(count for _, count in old[:here]) != math.prod(new[:there]):
            if math.prod(count for _, count in old[:here]) < math.prod(new[:there]):
                here += 1
            else:
                there += 1
        group = _reshape_group(old[:here], new[:there])
        if group is None:
            return None
        found += group
        old, new = old[here:], new[there:]
    return tuple(found.pop(0) if count > 1 else () for count in target)


def split_copies(copies: Digits, count: int) -> tuple[Digits, Digits] | None:
    """An axis along copies, the nearest first: its digits, and the copies that are left; None if there are too few."""
    own: list[Digit] = []
    left: list[Digit] = []
    for size, stride in sorted(copies, key=lambda digit: digit.stride):
        need = -(-count // math.prod(digit.size for digit in own))
        if need == 1:
            left.append(Digit(size, stride))
        elif need >= size:
            own.append(Digit(size, stride))
        else:
            block = 1 << (need - 1).bit_length()
            own.append(Digit(need, stride))
            left += [Digit(size // block, stride * block)] * (size // block > 1)
    if math.prod(digit.size for digit in own) < count:
        return None
    return tuple(reversed(own)), tuple(left)


def _trim(digits: Digits, count: int) -> Digits:
    digits = tuple(digit for digit in digits if digit.size > 1)
    while digits:
        low = math.prod(digit.size for digit in digits[1:])
        used = -(-count // low)
        if used > 1:
            return (Digit(used, digits[0].stride), *digits[1:])
        digits = digits[1:]
    return ()


def _split(digit: Digit, slots: int, exact: bool) -> Digits:
    """`split_at` for digits that may go backward; one that must be exact is split only where that keeps it so."""
    size, stride = digit
    inside = slots // abs(stride)
    if slots % stride or inside == 1 or size <= inside or (exact and size % inside):
        return (digit,)
    return (Digit(-(-size // inside), slots if stride > 0 else -slots), Digit(inside, stride))


def _backward(digits: Digits, count: int) -> tuple[int, Digits] | None:
    """The same entries from the last one to the first."""
    if len(digits) > 1 and math.prod(size for size, _ in digits) != count:
        return None
    return place(count - 1, digits), tuple(Digit(size, -stride) for size, stride in digits)


def _pop_digits(rest: list[Digit], count: int) -> Digits | None:
    """Takes from the end of `rest` the digits of an axis."""
    own: list[Digit] = []
    while count > 1:
        if not rest:
            return None
        size, stride = rest.pop()
        if count % size == 0:
            own.insert(0, Digit(size, stride))
            count //= size
        elif size % count == 0:
            rest.append(Digit(size // count, stride * count))
            own.insert(0, Digit(count, stride))
            count = 1
        else:
            return None
    return tuple(own)


def _reshape_group(axes: Sequence[tuple[Digits, int]], target: Sequence[int]) -> list[Digits] | None:
    """The same for axes of more than one entry each; of those that are put together, only the first may be inexact."""
    if len(axes) == 1 == len(target):
        return [axes[0][0]]
    kept = [coalesce(*axis) for axis in axes]
    if any(math.prod(size for size, _ in own) != count for own, (_, count) in zip(kept[1:], axes[1:], strict=True)):
        return None
    rest = list(coalesce((digit for own in kept for digit in own), math.prod(target)))
    found: list[Digits] = []
    for count in reversed(target[1:]):
        own = _pop_digits(rest, count)
        if own is None:
            return None
        found.insert(0, own)
    return [tuple(rest), *found] if math.prod(size for size, _ in rest) >= target[0] else None
