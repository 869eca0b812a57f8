"""Where the product of two encrypted matrices is computed: a grid of slots, and what stands in it.

For x of `rows` x `inner` and y of `inner` x `columns`, entry (i, j) of the product lies at (i * columns + j) * stride,
plus an offset below the stride for each member of an interleaved batch; the three sizes are powers of two. With

    s(i, j) = x[i, (i + j) % inner]

the product is the sum over k of s(i, j + k) y[(i + j + k) % inner, j] (see
`fhejax.arrays.products.ciphertext_products`). Columns beyond the last one of s stand in the row behind it:

    a rotation of s by k holds   s(i, j + k)                  where j + k < columns: "near"
                                 s(i + 1, j + k - columns)    elsewhere: "far"

so the other factor is made in two parts, one for each; the products of far ones belong one row further on.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fhejax.arrays.layouts.axis_digits import coalesce
from fhejax.arrays.layouts.layout import Digit, Digits, Layout, nest, padded_size


class Grid(NamedTuple):
    """Where a product is computed; rows, columns and inner are padded to powers of two."""

    batch: tuple[Digits, ...]  # of each batch axis that lies inside ciphertexts
    rows: int
    columns: int
    inner: int
    stride: int  # of the columns
    slots: int
    offset: int = 0  # of the first entry

    @property
    def steps(self) -> int:
        """How many columns the first factor is rotated by: k is below this, and the rest of the sum in blocks."""
        return min(self.inner, self.columns)

    @property
    def blocks(self) -> int:
        """How many such blocks there are, with a first factor each."""
        return self.inner // self.steps

    @property
    def row(self) -> int:
        """How far apart rows are."""
        return self.columns * self.stride

    def layout(self, shape: Sequence[int], period: int) -> Layout:
        """An array `[*batch, rows, columns]` on the grid, with copies every `period` slots."""
        *_, n, p = shape
        axes = (*self.batch, coalesce((Digit(n, self.row),), n), coalesce((Digit(p, self.stride),), p))
        copies = (Digit(self.slots // period, period),) if period < self.slots else ()
        return Layout(tuple(shape), axes, self.slots, self.offset, copies)

    def parts(self) -> list[tuple[int, bool]]:
        """The parts of the second factor: which k, from 0 to inner - 1, and whether it is the far one."""
        near = [(k, False) for k in range(self.inner)]
        return near + [(k, True) for k in range(self.inner) if k % self.steps]


class Inside(NamedTuple):
    """An operand within each of its ciphertexts, and what counts these."""

    layout: Layout  # [*batch, rows, columns], in one ciphertext
    counting: tuple[Digits, ...]  # of each batch axis, the digits that count ciphertexts


def inside(name: str, layout: Layout, ndim: int) -> Inside:
    """An operand as one of `ndim` axes, the first ones single; refused where a matrix is spread over ciphertexts."""
    shape = (1,) * (ndim - len(layout.shape)) + layout.shape
    axes: tuple[Digits, ...] = ((),) * (ndim - len(layout.shape)) + layout.axes
    sizes, own, counting = [], [], []
    for size, digits in zip(shape, axes, strict=True):
        outer = tuple(digit for digit in digits if digit.stride % layout.slots == 0)
        inner = digits[len(outer) :]
        own.append(inner)
        counting.append(outer)
        sizes.append(math.prod(digit.size for digit in inner) if outer else size)
        if digits[: len(outer)] != outer or any(digit.stride < 0 for digit in digits):
            raise _spread(name, layout)
    if any(counting[-2:]):
        raise _spread(name, layout)
    found = Layout(tuple(sizes), tuple(own), layout.slots, layout.offset, layout.copies, layout.diagonal)
    if not 0 <= found.positions().min() <= found.positions().max() < layout.slots:
        raise _spread(name, layout)
    return Inside(found, tuple(counting[:-2]))


def natural_grid(y: Layout, rows: int, batch: Sequence[int]) -> Grid | None:
    """The grid on which rotations of y by whole rows are all that its part of the product takes; or None.

    Rows of y have to follow each other all the way round the slots.
    """
    *own, m, p = y.shape
    *lead, row, column = (coalesce(digits, size) for digits, size in zip(y.axes, y.shape, strict=True))
    if tuple(own) != tuple(batch) or y.diagonal or len(row) > 1 or len(column) > 1:
        return None
    span = y.offset + sum((size - 1) * by for digits in lead for size, by in digits)
    stride = column[0].stride if column else padded_size(span + 1)
    columns = row[0].stride // stride if row else padded_size(p)
    inner = padded_size(m)
    grid = Grid(tuple(y.axes[:-2]), padded_size(rows), columns, inner, stride, y.slots, y.offset)
    period = inner * grid.row
    fits = padded_size(stride) == stride and padded_size(columns) == columns >= p and span < stride
    if not fits or period > y.slots or grid.rows * grid.row > y.slots:
        return None
    where = grid.layout(y.shape, period)
    same = (where.positions(), y.positions()), (where.copy_offsets(), y.copy_offsets())
    return grid if all(np.array_equal(*pair) for pair in same) else None


def plain_grid(shape: Sequence[int], inner: int, slots: int) -> Grid | None:
    """The grid of an interleaved batch, whatever the operands' layouts; None where it does not fit a ciphertext."""
    *batch, n, p = shape
    stride = math.prod(map(padded_size, batch))
    axes = nest(tuple(batch), range(len(batch)), slots, 1)
    grid = Grid(axes, padded_size(n), padded_size(p), padded_size(inner), stride, slots)
    return grid if max(grid.rows, grid.inner) * grid.row <= slots else None


def beside_grid(y: Layout, rows: int, batch: Sequence[int]) -> Grid | None:
    """The grid of a batch that lies one member behind the other, as y does; None if products have no room there."""
    *own, m, p = y.shape
    if tuple(own) != tuple(batch) or not any(y.axes[:-2]) or any(by < 0 for digits in y.axes for _, by in digits):
        return None
    grid = Grid(tuple(y.axes[:-2]), padded_size(rows), padded_size(p), padded_size(m), 1, y.slots)
    least = min(by for digits in grid.batch for _, by in digits)
    room = grid.layout((*own, rows, p), y.slots).positions().max() < y.slots
    return grid if room and grid.rows * grid.row <= least else None


def first_entries(grid: Grid, x: Layout, shape: Sequence[int], inner: int) -> tuple[np.ndarray, np.ndarray]:
    """Which entry of the first factors `[blocks, *batch, rows, grid.columns]` is which of x, by flat indices.

    The shape is that of the product inside a ciphertext; batch axes of x may be single.
    """
    *batch, n, _ = shape
    full = (grid.blocks, *batch, n, grid.columns)
    block, *members, i, j = np.indices(full, sparse=True)
    source = (i + j + block * grid.steps) % grid.inner
    kept = np.broadcast_to(source < inner, full)
    places = np.ravel_multi_index(
        [np.broadcast_to(each, full)[kept] for each in (*_single(members, x.shape[:-2]), i, source)], x.shape
    )
    return np.flatnonzero(kept), places


def row_steps(grid: Grid, slots: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The second factors of a natural grid, for all slots: which part, to which slot, and from which slot of y."""
    place = np.arange(slots)
    column = place // grid.stride % grid.columns
    found = []
    for number, (k, far) in enumerate(grid.parts()):
        block, step = divmod(k, grid.steps)
        own = (column + step >= grid.columns) if far else (column + step < grid.columns)
        ahead = column + step + (1 - grid.columns if far else 0) + block * grid.steps
        source = (place + ahead % grid.inner * grid.row) % slots
        found.append((np.full(np.count_nonzero(own), number), place[own], source[own]))
    part, to, start = (np.concatenate(each) for each in zip(*found, strict=True))
    return part, to, start


def second_entries(grid: Grid, y: Layout, target: Layout, inner: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The second factors for any layout of y: which part, to which slot, and from which slot of y.

    The target is that of the product in one ciphertext; first copies only.
    """
    *members, i, j = np.indices(target.shape, sparse=True)
    places, positions, found = target.positions(), y.positions(), []
    for number, (k, far) in enumerate(grid.parts()):
        block, step = divmod(k, grid.steps)
        column = j + step - grid.columns * far
        source = (i + column + block * grid.steps) % grid.inner
        own = np.broadcast_to((column >= 0) & (column < grid.columns) & (source < inner), target.shape)
        index = tuple(np.broadcast_to(each, target.shape)[own] for each in (*_single(members, y.shape[:-2]), source, j))
        to = (places[own] - grid.row * far) % grid.slots
        found.append((np.full(len(to), number), to, positions[index]))
    part, to, start = (np.concatenate(each) for each in zip(*found, strict=True))
    return part, to, start


def _single(members: Sequence[np.ndarray], sizes: Sequence[int]) -> list[np.ndarray]:
    """Indices of batch axes, 0 along those of one entry."""
    return [each % size for each, size in zip(members, sizes, strict=True)]


def _spread(name: str, layout: Layout) -> ValueError:
    return ValueError(
        f"matmul: the matrices of {name} lie across ciphertexts, in {layout}; type {name}.to_layout('row') if each "
        f"fits one, or {name}.to_layout('interleaved') for a batch; else multiply blocks, "
        "x[..., :a, :b] @ y[..., :b, :c]"
    )
