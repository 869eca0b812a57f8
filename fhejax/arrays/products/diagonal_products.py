"""Products of an encrypted matrix that lies by its diagonals, and an encrypted vector.

With d_k[i] = x[i, (i + k) % m], the product is the sum over k of d_k times the vector rotated by k. In the layout
"diagonal" the d_k lie one behind the other: one linear map puts the rotated vectors beside them, and after one product
the diagonals are added up by about log2(m) rotations. With a ciphertext for each diagonal (`ciphertext_diagonals`) and
a vector in copies, rotations of the vector, hoisted, are all there is, and one level.

Source: Halevi & Shoup, "Algorithms in HElib", 2014, section 4.3.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fhejax.arrays.layouts.axis_digits import joined
from fhejax.arrays.layouts.layout import Digit, Layout
from fhejax.arrays.layouts.maps import map_of_entries
from fhejax.arrays.layouts.record import Array, applied, taken
from fhejax.arrays.layouts.shapes import flat_indices, matmul_shape
from fhejax.arrays.operations.elementwise import multiply
from fhejax.arrays.operations.reductions import summed
from fhejax.arrays.products.sums import finished, tensor_sum
from fhejax.errors import LevelError
from fhejax.operations import arithmetic
from fhejax.operations.encryption import check_same_params
from fhejax.operations.levels import align, product_scale, to_canonical
from fhejax.operations.rotations import rotate_many


def ciphertext_diagonals(shape: Sequence[int], slots: int) -> Layout:
    """A matrix `[n, m]` by its diagonals, each in a ciphertext of its own.

    Raises:
      ValueError: another number of axes, or rows that do not fit a ciphertext.

    Example:
      >>> from fhejax.arrays.products.diagonal_products import ciphertext_diagonals
      >>> ciphertext_diagonals((2, 2), 4).positions().tolist()
      [[0, 4], [5, 1]]
    """
    if len(shape) != 2 or not 1 <= shape[0] <= slots or shape[1] < 1:
        raise ValueError(f"ciphertext_diagonals: got shape {tuple(shape)}; need (n, m) with n up to {slots}, the slots")
    n, m = shape
    axes = tuple((Digit(size, by),) if size > 1 else () for size, by in ((n, 1), (m, slots)))
    return Layout((n, m), axes, slots, diagonal=True)


def diagonals_times_vector(x: Array, v: Array) -> Array:
    """x @ v for an encrypted matrix that lies by its diagonals.

    Args:
      x: `[*batch, n, m]`, in the layout "diagonal" or `ciphertext_diagonals`.
      v: `[m]`.

    Returns:
      `[*batch, n]`, where the rows of x lie. Level out: one lower with a ciphertext for each diagonal, for m a power of
      two and v in copies m apart; else two below v and one below x. Keys needed: relinearisation; rotations by 1 to
      m - 1, or those of the map and of a sum.

    Raises:
      LevelError: too few levels are left.
      ValueError: shapes that do not fit, in NumPy's words, or another layout.
    """
    check_same_params("matmul", x, v)
    shape = matmul_shape(x.shape, v.shape)
    if not x.layout.diagonal or len(v.shape) != 1:
        raise ValueError(
            f"diagonals_times_vector: got {x.layout} and a vector of shape {v.shape}; type x.to_layout('diagonal') @ v"
        )
    keys = x.keys if x.keys is not None else v.keys
    if _rotations_do(x.layout, v.layout):
        one, other = align("matmul", to_canonical(x.ciphertext), to_canonical(v.ciphertext))
        if one.level == 0:
            raise LevelError(
                "matmul: the operands are at level 0 and a product needs one more; make parameters with more depth, "
                f"such as Parameters.for_depth({x.params.max_level + 1}), or bootstrap"
            )
        count, stride = x.shape[-1], _stride(v.layout)
        rotated = rotate_many(taken(other, 0), [k * stride for k in range(count)], keys)
        total = tensor_sum(rotated[0], rotated, [taken(one, k) for k in range(count)])
        key = arithmetic.relinearization_key("matmul", keys, total)
        total = finished(total, key, product_scale(total.params, total.level, total.scale))
        layout = replace(x.layout, shape=shape, axes=x.layout.axes[:-1], diagonal=False)
        return replace(x, ciphertext=taken(total, None), keys=keys, layout=layout)
    return summed(multiply(x, _beside(x, v)), -1)


def _beside(x: Array, v: Array) -> Array:
    """The vector, each entry beside those of the matrix that it multiplies."""
    places = np.broadcast_to(np.arange(v.shape[0]), x.shape).ravel()
    entries = flat_indices(x.shape).ravel(), places, np.ones(len(places))
    keys = v.keys if v.keys is not None else x.keys
    moved = applied(
        replace(v, keys=keys), map_of_entries("matmul", v.layout, x.layout, entries, v.params, v.level, encoded=False)
    )
    return replace(moved, keys=x.keys if x.keys is not None else keys)


def _rotations_do(x: Layout, v: Layout) -> bool:
    """Whether there is a ciphertext for each diagonal, and the vector goes all the way round the slots in copies."""
    *batch, rows, columns = (joined(*each) for each in zip(x.axes, x.shape, strict=True))
    m, stride = x.shape[-1], _stride(v)
    if any(batch) or columns != ((Digit(m, x.slots),) if m > 1 else ()) or x.copies or x.offset >= stride:
        return False
    if rows not in ((), (Digit(x.shape[-2], stride),)) or m * stride > x.slots or x.slots % (m * stride):
        return False
    around = np.arange(0, x.slots, m * stride)
    return v.offset == x.offset and np.array_equal(v.copy_offsets(), around) and v.ciphertexts == 1


def _stride(v: Layout) -> int:
    """How far apart the entries of a vector are; of one entry, as far as its copies."""
    digits = joined(v.axes[0], v.shape[0])
    if len(digits) == 1:
        return abs(digits[0].stride)
    return min((by for _, by in v.copies), default=v.slots)
