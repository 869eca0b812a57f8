"""NumPy judges shapes: its results and its errors, word for word, without any data."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def dummy(shape: Sequence[int]) -> np.ndarray:
    """An array of a shape that takes one byte."""
    return np.broadcast_to(np.int8(0), tuple(shape))


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape of what an elementwise operation gives, or NumPy's error."""
    try:
        return np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        np.add(*map(dummy, shapes))
        raise


def matmul_shape(x: Sequence[int], y: Sequence[int]) -> tuple[int, ...]:
    """The shape of a matrix product, or NumPy's error."""
    x, y = tuple(x), tuple(y)
    if not x or not y or x[-1] != y[-2:][0]:
        np.matmul(dummy(x), dummy(y))
    try:
        batch = np.broadcast_shapes(x[:-2], y[:-2])
    except ValueError:
        np.matmul(dummy(x), dummy(y))
        raise
    return (*batch, *x[-2:-1], *(y[-1:] if len(y) > 1 else ()))


def reduced_shape(shape: Sequence[int], axis: Any, keepdims: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes that a reduction takes away, ascending, and the shape of its result; or NumPy's error."""
    result = np.add.reduce(dummy(shape), axis=axis, keepdims=bool(keepdims)).shape
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis).tolist()
    return tuple(sorted(each % len(shape) for each in axes)), result


def flat_indices(shape: Sequence[int]) -> np.ndarray:
    """The number of each entry, `int64[*shape]`."""
    return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(tuple(shape))
