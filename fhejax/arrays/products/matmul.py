"""Matrix products of encrypted arrays, as `numpy.matmul`: how each is computed, and what is prepared beforehand.

| operands | by | |
|---|---|---|
| a matrix in the clear | a linear map | one level; key switches of the map |
| one in the clear, for the layout "columns" | weighted sums of ciphertexts | one level; no key switch |
| a vector in the clear | a product and a sum, or a map where the layout allows none | one level; log2(n) rotations |
| an encrypted matrix | `fhejax.arrays.products.ciphertext_products` | see there |
| an encrypted vector | a product and a sum | one level; relinearisation and log2(n) rotations |
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fhejax import _compat
from fhejax.arrays.layouts.axis_digits import canonical, coalesce
from fhejax.arrays.layouts.broadcasting import widen
from fhejax.arrays.layouts.layout import Digit, Layout, as_layout
from fhejax.arrays.layouts.maps import ArrayMap, map_of_entries
from fhejax.arrays.layouts.record import Arranged, Array, apply_map
from fhejax.arrays.layouts.shapes import flat_indices, matmul_shape
from fhejax.arrays.operations import reductions
from fhejax.arrays.operations.conversions import default_layout, to_layout
from fhejax.arrays.operations.elementwise import align_slots, layout_for, multiply
from fhejax.arrays.operations.sum_plan import plan_sum
from fhejax.arrays.operations.views import broadcast_to, expand_dims, plain, reshape
from fhejax.arrays.products.ciphertext_products import ciphertext_product
from fhejax.arrays.products.columns import columns_times_matrix
from fhejax.arrays.products.diagonal_products import diagonals_times_vector
from fhejax.linear.diagonals import numbers
from fhejax.parameters.parameters import Parameters


def matmul(x: Any, y: Any, layout: Layout | str | None = None) -> Any:
    """x @ y, as `numpy.matmul`, one of which at least is an encrypted array.

    Args:
      x, y: encrypted arrays, arrays in the clear, or for one of them an `ArrayMap` (`matmul_map`), which is applied to
        the other. Leading axes are batches and are broadcast. What is in the clear may be traced.
      layout: of the result, a name or a layout. If None: with a matrix in the clear, the new axis stands where the old
        one stood, if it has room there; else "replicated" where x stood in copies, or "row".

    Returns:
      Level out: one lower with an operand in the clear or a vector; see
      `fhejax.arrays.products.ciphertext_products` for encrypted matrices. Slots that no entry owns are zero behind
      maps, and hold other sums behind vectors. Keys needed: the rotations of `matmul_map(...)`; see the head of this
      module for the others.

    Raises:
      ValueError: shapes that do not fit, in NumPy's words.
      MissingKeyError, LevelError: as `fhejax.apply`.

    Example:
      >>> import fhejax as fhe, numpy as np
      >>> params = fhe.Parameters.for_depth(1)
      >>> x = fhe.EncryptedArray.simulate([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], params)
      >>> (x @ np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 1.0]]) + 0.5).decrypt(None).round(4).tolist()
      [[1.5, 7.5], [4.5, 16.5]]
    """
    for linear, operand in ((x, y), (y, x)):
        if isinstance(linear, ArrayMap):
            return apply_map(operand, linear)
    x, y = _operand(x), _operand(y)
    shape = matmul_shape(x.shape, y.shape)
    product = _product(x, y, layout)
    if layout is None:
        return product
    return to_layout(product, as_layout("matmul", layout, shape, product.layout.slots))


def matmul_map(
    x: Any,
    y: Any,
    params: Parameters,
    level: int | None = None,
    *,
    layout: Layout | str | None = None,
    encoded: bool = True,
) -> ArrayMap:
    """A product with a matrix in the clear, planned and encoded once, for all arrays of a layout.

    `matmul_map(x.layout, w, x.params, x.level)` is what x @ w does, and `matmul_map(w, x.layout, x.params, x.level)`
    what w @ x does; `x @ prepared` applies either.

    Args:
      x, y: one of them a `Layout`, that of the encrypted operand; the other in the clear, with one axis or more. Known
        zeros save work.
      params: the parameter set.
      level: of the encrypted operand; the top if None.
      layout: of the result, as of `matmul`.
      encoded: as for `fhejax.LinearTransform.from_matrix`.

    Raises:
      LevelError: the level is 0.
      TypeError: not one layout and one array of numbers.
      ValueError: shapes that do not fit, in NumPy's words.

    Example:
      >>> import fhejax as fhe, numpy as np
      >>> params = fhe.Parameters.for_depth(2)
      >>> x = fhe.Layout.interleaved((16, 100), params.slots)
      >>> first = fhe.matmul_map(x, np.ones((100, 64)), params)
      >>> second = fhe.matmul_map(first.target, np.ones((64, 10)), params, level=1)
      >>> second.target.shape, len(second.rotations)
      ((16, 10), 17)
    """
    if isinstance(x, Layout) == isinstance(y, Layout):
        raise TypeError(
            f"matmul_map: got {type(x).__name__} and {type(y).__name__}; type matmul_map(x.layout, w, x.params, "
            "x.level) for x @ w, or matmul_map(w, x.layout, x.params, x.level) for w @ x"
        )
    left = isinstance(y, Layout)
    source, w = plain(y if left else x), numbers("matmul_map", "the matrix", x if left else y)
    shape = matmul_shape(*((w.shape, source.shape) if left else (source.shape, w.shape)))
    axis = len(source.shape) - (2 if left and len(source.shape) > 1 else 1)
    size = None if w.ndim == 1 else w.shape[-2 if left else -1]
    found = _in_place(source, axis, size)
    if found is None or found.shape != shape:
        found = default_layout(shape, source)
    target = found if layout is None else as_layout("matmul_map", layout, shape, source.slots)
    parts = _for_one_ciphertext(source, target, axis, w.ndim) if target is found else None
    own, other = (source, target) if parts is None else parts
    entries = _entries(own.shape, w, left)
    linear = map_of_entries("matmul_map", own, other, entries, params, level, encoded)
    return replace(linear, source=source, target=target)


def dot(x: Any, y: Any) -> Any:
    """As `numpy.dot`: with a number x * y, else x @ y."""
    x, y = (_operand(each) for each in (x, y))
    if x.ndim == 0 or y.ndim == 0:
        return multiply(*((x, y) if isinstance(x, Arranged) else (y, x)))
    if y.ndim > 2:
        raise ValueError(
            f"dot: the second operand has shape {y.shape}; type x @ y, which takes its leading axes as batches"
        )
    return matmul(x, y)


def outer(x: Any, y: Any, layout: Layout | str | None = None) -> Any:
    """All products of an entry of x and an entry of y, as `numpy.outer`; one of which at least is encrypted.

    Args:
      x, y: encrypted arrays, or one of them in the clear; read as vectors.
      layout: of the result `[x.size, y.size]`; where x and y meet by copies that they have, if None, and else as of
        `matmul`.

    Returns:
      Level out: one lower. Two lower where both are encrypted and have to be brought beside each other first. Keys
      needed: where both are encrypted, relinearisation; and the rotations of what is brought elsewhere.
    """
    x, y = (_operand(each) for each in (x, y))
    x, y = (reshape(each, -1) if isinstance(each, Arranged) else each.reshape(-1) for each in (x, y))
    shape = (x.shape[0], y.shape[0])
    if not isinstance(y, Arranged):
        return _outer_plain(x, 0, y, shape, layout)
    if not isinstance(x, Arranged):
        return _outer_plain(y, 1, x, shape, layout)
    column, row = expand_dims(x, 1), expand_dims(y, 0)
    if layout is None and align_slots(column, row) is not None:
        return multiply(column, row)
    target = as_layout("outer", default_layout(shape, x.layout) if layout is None else layout, shape, x.layout.slots)
    column, row = (to_layout(each, layout_for(target, each.shape)) for each in (column, row))
    return multiply(column, row)


def _operand(x: Any) -> Any:
    return x if isinstance(x, Arranged) or _compat.is_traced(x) else np.asarray(x)


def _product(x: Any, y: Any, layout: Layout | str | None) -> Any:
    if isinstance(x, Arranged) and isinstance(y, Arranged):
        if y.ndim == 1:
            return diagonals_times_vector(x, y) if plain(x.layout).diagonal else reductions.sum(multiply(x, y), -1)
        return reductions.sum(multiply(expand_dims(x, 1), y), -2) if x.ndim == 1 else ciphertext_product(x, y)
    if isinstance(x, Arranged):
        if y.ndim == 1 and layout is None and plan_sum(x.layout, -1, False) is not None:
            return reductions.sum(multiply(x, y), -1)
        if y.ndim == 2 and layout is None and _counts(x.layout):
            return columns_times_matrix(x, y)
        return apply_map(x, matmul_map(x.layout, y, x.params, x.level, layout=layout, encoded=False))
    axis = -1 if y.ndim == 1 else -2
    if x.ndim == 1 and layout is None and plan_sum(y.layout, axis, False) is not None:
        return reductions.sum(multiply(y, x if y.ndim == 1 else x[:, None]), axis)
    return apply_map(y, matmul_map(x, y.layout, y.params, y.level, layout=layout, encoded=False))


def _counts(layout: Layout) -> bool:
    """Whether the last axis counts ciphertexts, and no other does."""
    *lead, last = layout.axes
    inside = all(stride % layout.slots for digits in lead for _, stride in digits)
    return (
        not layout.diagonal and inside and coalesce(last, layout.shape[-1]) == (Digit(layout.shape[-1], layout.slots),)
    )


def _in_place(source: Layout, axis: int, size: int | None) -> Layout | None:
    """A layout with another size of one axis, or without it, that leaves the others' entries; None without room."""
    digits = coalesce(source.axes[axis], source.shape[axis])
    if source.diagonal or len(digits) > 1 or (size is not None and size > 1 and not digits):
        return None
    stride = next((digit.stride for digit in digits), source.slots)
    axes, shape = list(source.axes), list(source.shape)
    if size is None:
        del axes[axis], shape[axis]
    else:
        axes[axis] = canonical((Digit(size, stride),), size, source.slots) if size > 1 else ()
        shape[axis] = size
    found = replace(source, axes=tuple(axes), shape=tuple(shape))
    places, slots = found.positions(), source.slots
    copies = found.copy_offsets()
    everywhere = places[..., None] + copies
    distinct = len(np.unique(everywhere)) == everywhere.size
    if not distinct or places.min() < 0 or (places % slots + copies[-1]).max() >= slots:
        return None
    if size is not None and stride % slots and np.ptp(places // slots, axis=axis).any():
        return None
    return found


def _for_one_ciphertext(source: Layout, target: Layout, axis: int, ndim: int) -> tuple[Layout, Layout] | None:
    """Source and target inside a ciphertext, where a product does to each the same; else None.

    `ndim` is of the operand in the clear: with 2 or 1 it has no batch.
    """
    if ndim > 2 or source.ciphertexts != target.ciphertexts or source.ciphertexts == 1:
        return None
    if len(source.shape) - len(target.shape) != (ndim == 1) or source.diagonal:
        return None
    parts = _inside(source, axis), _inside(target, axis if ndim > 1 else None)
    return parts if parts[0].ciphertexts == parts[1].ciphertexts == 1 else None


def _inside(layout: Layout, axis: int | None) -> Layout:
    """The layout without the digits that count ciphertexts, but for those of one axis."""
    axes, shape = list(layout.axes), list(layout.shape)
    for each, digits in enumerate(layout.axes):
        if each != axis and digits and digits[0].stride % layout.slots == 0:
            axes[each] = digits[1:]
            shape[each] = math.prod(size for size, _ in digits[1:])
    return replace(layout, axes=tuple(axes), shape=tuple(shape), offset=layout.offset % layout.slots)


def _entries(shape: tuple[int, ...], w: Any, left: bool) -> tuple[np.ndarray, np.ndarray, Any]:
    """Rows, columns and weights of the product of a matrix and an encrypted array of a shape."""
    x, y = flat_indices(shape), flat_indices(w.shape)
    x, y = (y, x) if left else (x, y)
    x, y = (x[None] if x.ndim == 1 else x), (y[:, None] if y.ndim == 1 else y)
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    rows = flat_indices((*batch, x.shape[-2], y.shape[-1]))[..., None]
    parts = np.broadcast_arrays(rows, x[..., :, None, :], y.swapaxes(-1, -2)[..., None, :, :])
    rows, first, second = (part.ravel() for part in parts)
    return _nonzero(rows, *((second, w.ravel()[first]) if left else (first, w.ravel()[second])))


def _nonzero(rows: np.ndarray, columns: np.ndarray, weights: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    """Entries without known zeros; one at least."""
    if isinstance(weights, np.ndarray):
        kept = np.flatnonzero(weights) if weights.any() else [0]
        return rows[kept], columns[kept], weights[kept]
    return rows, columns, weights


def _outer_plain(x: Array, axis: int, w: Any, shape: tuple[int, int], layout: Layout | str | None) -> Array:
    """The outer product of a vector in the clear and an encrypted one, which lies along an axis of the result."""
    along = expand_dims(x, 1 - axis)
    if layout is None and widen(along.layout, shape) is not None:
        return multiply(broadcast_to(along, shape), w[:, None] if axis else w)
    target = as_layout("outer", default_layout(shape, x.layout) if layout is None else layout, shape, x.layout.slots)
    places = np.indices(shape).reshape(2, -1)
    weights = numbers("outer", "the operand in the clear", w)[places[1 - axis]]
    entries = _nonzero(np.arange(math.prod(shape)), places[axis], weights)
    return apply_map(x, map_of_entries("outer", x.layout, target, entries, x.params, x.level, encoded=False))
