"""Entries brought elsewhere: other layouts, and indexing by arrays. One level, and the key switches of a map."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fhejax.arrays.layouts.broadcasting import spread
from fhejax.arrays.layouts.layout import Layout, as_layout, digit_offsets, padded_size
from fhejax.arrays.layouts.maps import ArrayMap, map_of_entries
from fhejax.arrays.layouts.record import Arranged, Array, apply_map, rows
from fhejax.arrays.layouts.shapes import flat_indices


def to_layout(x: Array, layout: Layout | str) -> Array:
    """The same array in another layout, with zeros in every slot that no entry owns.

    Where the entries lie there already, nothing is done, and other slots stay as they are. Level out: one lower, or
    then the same. Keys needed: `x.conversion(layout).rotations`.
    """
    layout = as_layout("to_layout", layout, x.shape, x.layout.slots)
    found = spread(x.layout, layout)
    if found is not None and np.array_equal(digit_offsets(found[1]), layout.copy_offsets()):
        return replace(x, ciphertext=rows(x, found[0]), layout=layout)
    return apply_map(x, conversion(x, layout, encoded=False))


def conversion(x: Arranged, layout: Layout | str, *, encoded: bool = True) -> ArrayMap:
    """The map into another layout: its `repr` says what it costs, and `x @ conversion` applies it.

    Args:
      layout: a name, or a layout of this shape.
      encoded: whether to encode its plaintexts now, once, for many arrays. False is for looking.
    """
    layout = as_layout("conversion", layout, x.shape, x.layout.slots)
    return _gather_map("conversion", x, layout, np.arange(x.size), encoded)


def gather(x: Array, index: Any) -> Array:
    """Indexing by arrays of integers or booleans, as NumPy takes them, with values."""
    return _gather("x[...]", x, flat_indices(x.shape)[index], None)


def take(x: Array, indices: Any, axis: int | None = None, *, layout: Layout | str | None = None) -> Array:
    """Entries by their numbers along an axis, as `numpy.take`.

    Args:
      indices: integers.
      axis: along which; of the raveled array if None.
      layout: of the result; "replicated" if None and the array stands in copies, as far as it fits, else "row".

    Returns:
      Level out: one lower. Keys needed: the rotations of a map, one for each different distance at most.
    """
    return _gather("take", x, np.take(flat_indices(x.shape), np.asarray(indices), axis), layout)


def default_layout(shape: tuple[int, ...], like: Layout) -> Layout:
    """Where a new array is put: in copies as the one that it is made of, if it fits, or row after row."""
    if like.copies and math.prod(map(padded_size, shape)) <= like.slots:
        return Layout.replicated(shape, like.slots)
    return Layout.row(shape, like.slots)


def _gather(operation, x, flat, layout):
    if not flat.size:
        raise ValueError(f"{operation}: no entry is left; encrypted arrays have at least one")
    target = default_layout(flat.shape, x.layout) if layout is None else layout
    target = as_layout(operation, target, flat.shape, x.layout.slots)
    return apply_map(x, _gather_map(operation, x, target, flat.ravel(), encoded=False))


def _gather_map(operation, x, target, sources, encoded):
    """The map that brings the entries with these numbers to those of the target, in order."""
    entries = np.arange(len(sources)), sources, np.ones(len(sources))
    return map_of_entries(operation, x.layout, target, entries, x.params, x.level, encoded)
