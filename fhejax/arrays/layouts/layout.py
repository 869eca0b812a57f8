"""Where the entries of an array lie in the slots of ciphertexts.

Slots are numbered through all ciphertexts of an array; that number is a position. Each axis of the array is written in
mixed radix, as digits (size, stride), the most significant first, and an entry lies at

    offset + the sum of digit * stride over the digits of its index.

Transposing, slicing and most reshaping change these numbers and move nothing. Slots that no entry owns hold anything.
Here [[a, b, c], [d, e, f]] in 16 slots, where `.` is such a slot:

    row            a b c . d e f . . . . . . . . .
    dense          a b c d e f . . . . . . . . . .
    column         a d b e c f . . . . . . . . . .
    replicated     a b c . d e f . a b c . d e f .
    diagonal       a e b f c d . . . . . . . . . .      row i of the k-th diagonal is the entry [i, (i + k) % 3]
    columns        a d . .  and  b e . .  and  c f . .  a ciphertext for each index of the last axis

Source: layouts as strided digits: NVIDIA, CUTLASS documentation, "CuTe Layouts"; diagonals: Halevi & Shoup,
"Algorithms in HElib", 2014, section 4.3; columns: Bae, Cheon, Hanrot, Park & Stehle, "Plaintext-Ciphertext Matrix
Multiplication and FHE Bootstrapping: Fast and Fused", 2024.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Digit(NamedTuple):
    """One digit of an index: how many values it takes, and how far apart in the slots they are."""

    size: int
    stride: int


Digits = tuple[Digit, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the entries of an array lie; made by `Layout.row` and the other methods below, or by their names.

    Attributes:
      shape: of the array.
      axes: for each axis its digits, the most significant first; their sizes multiply to the axis's size or more. A
        digit lies inside ciphertexts (stride below `slots`) or counts them (stride a multiple of `slots`).
      slots: of each ciphertext.
      offset: the position of the entry [0, ..., 0].
      copies: where each entry stands again: all sums of these digits further on, in the same ciphertext.
      diagonal: whether the last two axes count the rows i and the diagonals (j - i) % columns, in place of i and j.
    """

    shape: tuple[int, ...]
    axes: tuple[Digits, ...]
    slots: int
    offset: int = 0
    copies: Digits = ()
    diagonal: bool = False

    @classmethod
    def row(cls, shape: Sequence[int], slots: int) -> "Layout":
        """Row after row, each axis but the first padded to a power of two, so that no row is cut by a ciphertext's end.

        Example:
          >>> from fhejax.arrays.layouts.layout import Layout
          >>> Layout.row((2, 3), 16).positions().tolist()
          [[0, 1, 2], [4, 5, 6]]
        """
        shape = _checked_shape("Layout.row", shape, slots)
        return cls(shape, nest(shape, range(len(shape)), slots, 1), slots)

    @classmethod
    def dense(cls, shape: Sequence[int], slots: int) -> "Layout":
        """One entry behind the other, without gaps: what every `reshape` is free from.

        Rows may be cut by a ciphertext's end, so that sums and products of a dense array may have to convert it first.

        Example:
          >>> from fhejax.arrays.layouts.layout import Layout
          >>> Layout.dense((2, 3), 16).positions().tolist()
          [[0, 1, 2], [3, 4, 5]]
        """
        shape = _checked_shape("Layout.dense", shape, slots)
        digits = [Digit(size, math.prod(shape[axis + 1 :])) for axis, size in enumerate(shape)]
        axes = [split_at(each, slots) if slots % each.stride == 0 else (each,) * (each.size > 1) for each in digits]
        return cls(shape, tuple(axes), slots)

    @classmethod
    def column(cls, shape: Sequence[int], slots: int) -> "Layout":
        """Column after column: the first axis varies fastest.

        Example:
          >>> from fhejax.arrays.layouts.layout import Layout
          >>> Layout.column((2, 3), 16).positions().tolist()
          [[0, 2, 4], [1, 3, 5]]
        """
        shape = _checked_shape("Layout.column", shape, slots)
        return cls(shape, nest(shape, range(len(shape))[::-1], slots, 1), slots)

    @classmethod
    def replicated(cls, shape: Sequence[int], slots: int) -> "Layout":
        """As `row`, and the whole array again and again, until the slots are full.

        Raises:
          ValueError: the array does not fit one ciphertext.

        Example:
          >>> from fhejax.arrays.layouts.layout import Layout
          >>> Layout.replicated((3,), 16).copies
          (Digit(size=4, stride=4),)
        """
        shape = _checked_shape("Layout.replicated", shape, slots)
        period = math.prod(map(padded_size, shape))
        if period > slots:
            raise ValueError(
                f"Layout.replicated: an array of shape {shape} takes {period} slots, and a ciphertext has {slots}; "
                "Layout.row takes several"
            )
        copies = (Digit(slots // period, period),) if period < slots else ()
        return cls(shape, nest(shape, range(len(shape)), slots, 1), slots, copies=copies)

    @classmethod
    def interleaved(cls, shape: Sequence[int], slots: int) -> "Layout":
        """A batch: the first axis varies fastest, behind it the others as in `row`.

        Entry i of every member lies side by side, so that what is done to the members costs as much as for one.

        Raises:
          ValueError: a batch of more than `slots`, or no axis at all.

        Example:
          >>> from fhejax.arrays.layouts.layout import Layout
          >>> Layout.interleaved((2, 3), 16).positions().tolist()
          [[0, 2, 4], [1, 3, 5]]
        """
        shape = _checked_shape("Layout.interleaved", shape, slots)
        if not shape:
            raise ValueError("Layout.interleaved: an array without axes has no batch; type Layout.replicated")
        return cls(shape, nest(shape, [*range(1, len(shape)), 0], slots, 1), slots)

    @classmethod
    def images(cls, shape: Sequence[int], slots: int, channels: int | None = None) -> "Layout":
        """Images, `[channels, height, width]` or a batch: channels outermost, the batch innermost, all of it repeated.

        A ciphertext takes as many images as have room; further ones are in further ciphertexts. What is done to the
        images of a ciphertext costs as much as for one. Where channels come round again, a convolution finds each of
        them on one side, which is about half the diagonals.

        Args:
          shape: of the array.
          slots: of each ciphertext.
          channels: how many there shall be room for, those of later layers included; those of the shape if None.

        Raises:
          ValueError: another number of axes, or fewer channels than the shape has.

        Example:
          >>> from fhejax.arrays.layouts.layout import Layout
          >>> Layout.images((2, 1, 2, 3), 32).positions()[:, 0].tolist()
          [[[0, 2, 4], [8, 10, 12]], [[1, 3, 5], [9, 11, 13]]]
          >>> Layout.images((20, 1, 8, 8), 4096, channels=8)
          Layout(shape=(20, 1, 8, 8), 3:4096 8:1, 1, 8:64, 8:8; copies=8:512, slots=4096)
        """
        shape = _checked_shape("Layout.images", shape, slots)
        if len(shape) not in (3, 4):
            raise ValueError(
                f"Layout.images: got shape {shape}; need [channels, height, width] or [batch, channels, height, width]"
            )
        *batch, own, height, width = shape
        channels = own if channels is None else channels
        if channels < own:
            raise ValueError(f"Layout.images: channels = {channels}, and the images have {own}")
        pixels = padded_size(height) * padded_size(width)
        together = slots // (padded_size(channels) * pixels)
        if not together:
            return cls.row(shape, slots)
        together = min(together, padded_size(math.prod(batch)))
        inner = nest((own, height, width), range(3), slots, together)
        outer = [split_at(Digit(size, 1), together) for size in batch]
        outer = [tuple(Digit(size, slots if by == together else by) for size, by in digits) for digits in outer]
        period = padded_size(own) * pixels * together
        copies = (Digit(slots // period, period),) if period < slots else ()
        return cls(shape, (*outer, *inner), slots, copies=copies)

    @classmethod
    def diagonals(cls, shape: Sequence[int], slots: int) -> "Layout":
        """Matrices by their diagonals, one behind the other: what products of a matrix and a vector take.

        Raises:
          ValueError: fewer than two axes.

        Example:
          >>> from fhejax.arrays.layouts.layout import Layout
          >>> Layout.diagonals((2, 3), 16).positions().tolist()
          [[0, 2, 4], [5, 1, 3]]
        """
        shape = _checked_shape("Layout.diagonals", shape, slots)
        if len(shape) < 2:
            raise ValueError(f"Layout.diagonals: an array of shape {shape} has no matrices; need at least two axes")
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        return cls(shape, nest(shape, order, slots, 1), slots, diagonal=True)

    @classmethod
    def columns(cls, shape: Sequence[int], slots: int) -> "Layout":
        """A ciphertext for each index of the last axis: products with matrices from the right take no rotations.

        Raises:
          ValueError: the array has no axis, or a column does not fit a ciphertext.

        Example:
          >>> from fhejax.arrays.layouts.layout import Layout
          >>> Layout.columns((2, 3), 16).positions().tolist()
          [[0, 16, 32], [1, 17, 33]]
        """
        shape = _checked_shape("Layout.columns", shape, slots)
        if not shape:
            raise ValueError("Layout.columns: an array without axes has no columns; type Layout.replicated")
        *lead, last = shape
        inner = nest(tuple(lead), range(len(lead)), slots, 1)
        if math.prod(map(padded_size, lead)) > slots:
            raise ValueError(
                f"Layout.columns: a column of shape {tuple(lead)} does not fit the {slots} slots of a ciphertext; type "
                "Layout.row"
            )
        return cls(shape, (*inner, (Digit(last, slots),)), slots)

    @property
    def size(self) -> int:
        """How many entries there are."""
        return math.prod(self.shape)

    @property
    def ciphertexts(self) -> int:
        """How many ciphertexts hold them."""
        return int(self.positions().max()) // self.slots + 1 if self.size else 0

    def positions(self) -> np.ndarray:
        """The position of each entry, its first copy: `int64[*shape]`."""
        return _positions(self)

    def copy_offsets(self) -> np.ndarray:
        """How far behind its first copy each entry stands again, ascending from 0: `int64[copies]`."""
        return digit_offsets(self.copies)

    def __repr__(self) -> str:
        axes = [" ".join(f"{size}:{by}" for size, by in digits) or "1" for digits in self.axes]
        parts = [", ".join(axes)] * (axes != [])
        parts += [f"offset={self.offset}"] * (self.offset != 0)
        parts += [f"copies={' '.join(f'{size}:{by}' for size, by in self.copies)}"] * (self.copies != ())
        parts += ["diagonal"] * self.diagonal
        return f"Layout(shape={self.shape}, {'; '.join(parts)}{', ' * (parts != [])}slots={self.slots})"


NAMED = {
    "row": Layout.row,
    "dense": Layout.dense,
    "column": Layout.column,
    "replicated": Layout.replicated,
    "diagonal": Layout.diagonals,
    "interleaved": Layout.interleaved,
    "images": Layout.images,
    "columns": Layout.columns,
}


def as_layout(operation: str, layout: "Layout | str", shape: Sequence[int], slots: int) -> Layout:
    """The layout of a name, or a layout; refused if it is neither, or for another shape or number of slots."""
    if isinstance(layout, str):
        if layout not in NAMED:
            raise ValueError(f"{operation}: unknown layout {layout!r}; there are {', '.join(map(repr, NAMED))}")
        return NAMED[layout](shape, slots)
    if not isinstance(layout, Layout):
        raise TypeError(f"{operation}: got {type(layout).__name__} for the layout; type one of {', '.join(NAMED)}")
    if (layout.shape, layout.slots) != (tuple(shape), slots):
        raise ValueError(
            f"{operation}: the layout is for shape {layout.shape} in {layout.slots} slots, and the array has shape "
            f"{tuple(shape)} in {slots}"
        )
    return layout


@functools.lru_cache(maxsize=256)
def _positions(layout: Layout) -> np.ndarray:
    shape = layout.shape
    indices = list(np.indices(shape, np.int64, sparse=True))
    if layout.diagonal:
        indices[-1] = (indices[-1] - indices[-2]) % shape[-1]
    total = np.full(shape, layout.offset, np.int64)
    for index, digits in zip(indices, layout.axes, strict=True):
        total += _distance(index, digits)
    total.flags.writeable = False
    return total


def _distance(index: np.ndarray, digits: Digits) -> np.ndarray:
    """The sum of digit * stride."""
    total = np.zeros_like(index)
    for size, stride in reversed(digits):
        total += index % size * stride
        index = index // size
    return total


def nest(shape: Sequence[int], order: Sequence[int], slots: int, stride: int) -> tuple[Digits, ...]:
    """Axes one inside the other, the last of `order` with the given stride."""
    axes: list[Digits] = [()] * len(shape)
    for axis in reversed(order):
        axes[axis] = split_at(Digit(shape[axis], stride), slots)
        stride *= padded_size(shape[axis])
    return tuple(axes)


def digit_offsets(digits: Digits) -> np.ndarray:
    """Every sum of digits times their strides, ascending: `int64[sums]`."""
    found = [sum(each) for each in itertools.product(*(range(0, size * by, by) for size, by in digits))]
    return np.array(sorted(found), np.int64)


def split_at(digit: Digit, slots: int) -> Digits:
    """A digit whose stride is a power of two, in two where it runs over the end of a ciphertext."""
    size, stride = digit
    inside = slots // stride
    if size == 1:
        return ()
    if stride >= slots or size <= inside:
        return (digit,)
    return (Digit(-(-size // inside), slots), Digit(inside, stride))


def padded_size(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()


def _checked_shape(operation: str, shape: Sequence[int], slots: int) -> tuple[int, ...]:
    shape = tuple(int(size) for size in shape)
    if 0 in shape or min(shape, default=1) < 0:
        raise ValueError(f"{operation}: shape {shape}; each axis needs at least one entry")
    if slots < 1 or slots & (slots - 1):
        raise ValueError(f"{operation}: slots = {slots}; need a power of two")
    return shape
