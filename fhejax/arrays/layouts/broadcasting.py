"""Layouts that meet: which array stands wherever another one does, by its copies."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fhejax.arrays.layouts.axis_digits import canonical, split_copies
from fhejax.arrays.layouts.layout import Digit, Digits, Layout, digit_offsets


def spread(layout: Layout, wide: Layout) -> tuple[tuple[int, ...], Digits] | None:
    """For each ciphertext of `wide`, which one of a broadcast array stands for it; and the copies that both have.

    None where the array does not stand wherever one of the layout `wide` does, or does not broadcast to it.
    """
    if layout == wide:
        return tuple(range(layout.ciphertexts)), layout.copies
    if layout.slots != wide.slots or len(layout.shape) > len(wide.shape):
        return None
    if any(size not in (1, full) for size, full in zip(layout.shape[::-1], wide.shape[::-1], strict=False)):
        return None
    (source, here), (target, there) = (np.divmod(each.positions(), each.slots) for each in (layout, wide))
    steps, own = np.unique(there - here), layout.copy_offsets()
    numbers = np.zeros(wide.ciphertexts, np.int64)
    numbers[target] = source
    if not np.isin(steps, own).all() or not np.array_equal(numbers[target], np.broadcast_to(source, target.shape)):
        return None
    kept: Digits = ()
    for digit in (part for each in wide.copies for part in _halves(each)):
        if np.isin(steps[:, None] + digit_offsets((*kept, digit)), own).all():
            kept = (*kept, digit)
    return tuple(numbers.tolist()), coalesce_copies(kept)


def narrow(layout: Layout, shape: Sequence[int]) -> Layout | None:
    """Where an array of this shape has to lie to stand wherever one of the layout does: copies, where it is broadcast.

    None where there are no such copies.
    """
    aligned = (1,) * (len(layout.shape) - len(shape)) + tuple(shape)
    offset, copies, axes = layout.offset, list(layout.copies), []
    for digits, size, full in zip(layout.axes, aligned, layout.shape, strict=True):
        axes.append(digits if size == full else ())
        for i, (count, stride) in enumerate(digits if size < full else ()):
            used = min(count, -(-full // math.prod(digit.size for digit in digits[i + 1 :])))
            offset += min(0, (used - 1) * stride)
            copies += [Digit(used, abs(stride))] * (used > 1 and stride % layout.slots != 0)
    diagonal = layout.diagonal and tuple(shape)[-2:] == layout.shape[-2:]
    axes = tuple(axes[len(axes) - len(shape) :])
    found, _ = compact(Layout(tuple(shape), axes, layout.slots, offset, coalesce_copies(copies), diagonal))
    inside = (found.positions() % found.slots).max() + found.copy_offsets()[-1] < found.slots
    return found if inside and spread(found, layout) is not None else None


def widen(layout: Layout, shape: Sequence[int]) -> Layout | None:
    """An array broadcast to a shape along its copies; None if it has too few."""
    aligned = (1,) * (len(shape) - len(layout.shape)) + layout.shape
    axes: list[Digits] = [()] * (len(shape) - len(layout.shape)) + list(layout.axes)
    copies = layout.copies
    for axis in reversed(range(len(shape))):
        if aligned[axis] < shape[axis]:
            found = split_copies(copies, shape[axis])
            if found is None or (layout.diagonal and axis >= len(shape) - 2):
                return None
            own, copies = found
            axes[axis] = canonical(own, shape[axis], layout.slots)
    return replace(layout, shape=tuple(shape), axes=tuple(axes), copies=coalesce_copies(copies))


def compact(layout: Layout) -> tuple[Layout, tuple[int, ...]]:
    """The same without ciphertexts that hold no entry, and which ciphertexts are left.

    Those between others go where the digits that count ciphertexts can say it.
    """
    slots, positions = layout.slots, layout.positions()
    used, rank = np.unique(positions // slots, return_inverse=True)
    if len(used) == used[-1] + 1 and used[0] == 0:
        return layout, tuple(range(len(used)))
    wanted = rank.reshape(positions.shape) * slots + positions % slots
    counting = {abs(by): count for digits in layout.axes for count, by in digits if by % slots == 0}
    strides, following = {}, slots
    for stride in sorted(counting):
        strides[stride] = following
        following *= counting[stride]
    axes = [
        tuple(Digit(count, strides.get(abs(by), abs(by)) * (1 if by > 0 else -1)) for count, by in digits)
        for digits in layout.axes
    ]
    found = replace(layout, axes=tuple(axes))
    found = replace(found, offset=layout.offset + int((wanted - found.positions()).flat[0]))
    if np.array_equal(found.positions(), wanted):
        return found, tuple(used.tolist())
    first, last = int(used[0]), int(used[-1])
    return replace(layout, offset=layout.offset - first * slots), tuple(range(first, last + 1))


def coalesce_copies(copies: Sequence[Digit]) -> Digits:
    """Copies in as few digits as can be, those far apart first."""
    found: list[Digit] = []
    for size, stride in sorted(copies, key=lambda digit: digit.stride):
        if found and stride == found[-1].size * found[-1].stride:
            nearer = found.pop()
            size, stride = size * nearer.size, nearer.stride
        found.append(Digit(size, stride))
    return tuple(reversed(found))


def _halves(digit: Digit) -> Digits:
    """A digit in those of size two that it is made of, and what is left of it."""
    parts, (size, stride) = [], digit
    while size % 2 == 0:
        parts.append(Digit(2, stride))
        size, stride = size // 2, stride * 2
    return (*parts, Digit(size, stride)) if size > 1 else tuple(parts)
