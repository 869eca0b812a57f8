"""Products of an encrypted matrix that lies by its diagonals, and an encrypted vector.

With d_k[i] = x[i, (i + k) % m], the product is the sum over k of d_k times the vector rotated by k. In the layout
"diagonal" the d_k lie one behind the other: one linear map puts the rotated vectors beside them, and after one product
the diagonals are added up by about log2(m) rotations. With a ciphertext for each diagonal and a vector
in copies, rotations of the vector, hoisted, are all there is, and one level.

Source: Halevi & Shoup, "Algorithms in HElib", 2014, section 4.3.
"""

from dataclasses import replace

import numpy as np

from fhejax.arrays.layouts.axis_digits import coalesce
from fhejax.arrays.layouts.layout import Digit, Layout
from fhejax.arrays.layouts.maps import map_of_entries
from fhejax.arrays.layouts.record import Array, apply_map, keys_of, take_ciphertexts
from fhejax.arrays.layouts.shapes import flat_indices, matmul_shape
from fhejax.arrays.operations import reductions
from fhejax.arrays.operations.elementwise import multiply
from fhejax.arrays.products.pairs import align_operands, relinearize_sum
from fhejax.kinds.requirements import check_same_params
from fhejax.operations.rotations import rotate_many


def diagonals_times_vector(x: Array, v: Array) -> Array:
    """x @ v for an encrypted matrix `[*batch, n, m]` that lies by its diagonals, where the rows of x lie.

    One level with a ciphertext for each diagonal, m a power of two, and v in copies m apart; else two below v.
    """
    check_same_params("matmul", x, v)
    shape = matmul_shape(x.shape, v.shape)
    if not x.layout.diagonal or len(v.shape) != 1:
        raise ValueError(
            f"diagonals_times_vector: got {x.layout} and a vector of shape {v.shape}; type x.to_layout('diagonal') @ v"
        )
    keys = keys_of(x, v)
    if _rotations_do(x.layout, v.layout):
        one, other = align_operands(x, v)
        count, stride = x.shape[-1], _stride(v.layout)
        rotated = rotate_many(take_ciphertexts(other, 0), [k * stride for k in range(count)], keys)
        total = rotated[0]._tensor_sum(rotated, [take_ciphertexts(one, k) for k in range(count)])
        layout = replace(x.layout, shape=shape, axes=x.layout.axes[:-1], diagonal=False)
        return replace(x, ciphertext=take_ciphertexts(relinearize_sum(total, keys), None), keys=keys, layout=layout)
    return reductions.sum(multiply(x, _beside(x, v)), -1)


def _beside(x: Array, v: Array) -> Array:
    """The vector, each entry beside those of the matrix that it multiplies."""
    places = np.broadcast_to(np.arange(v.shape[0]), x.shape).ravel()
    entries = flat_indices(x.shape).ravel(), places, np.ones(len(places))
    keys = keys_of(v, x)
    moved = apply_map(
        replace(v, keys=keys), map_of_entries("matmul", v.layout, x.layout, entries, v.params, v.level, encoded=False)
    )
    return replace(moved, keys=keys_of(x, v))


def _rotations_do(x: Layout, v: Layout) -> bool:
    """Whether there is a ciphertext for each diagonal, and the vector goes all the way round the slots in copies."""
    *batch, rows, columns = (coalesce(*each) for each in zip(x.axes, x.shape, strict=True))
    m, stride = x.shape[-1], _stride(v)
    if any(batch) or columns != ((Digit(m, x.slots),) if m > 1 else ()) or x.copies or x.offset >= stride:
        return False
    if rows not in ((), (Digit(x.shape[-2], stride),)) or m * stride > x.slots or x.slots % (m * stride):
        return False
    around = np.arange(0, x.slots, m * stride)
    return v.offset == x.offset and np.array_equal(v.copy_offsets(), around) and v.ciphertexts == 1


def _stride(v: Layout) -> int:
    """How far apart the entries of a vector are; of one entry, as far as its copies."""
    digits = coalesce(v.axes[0], v.shape[0])
    if len(digits) == 1:
        return abs(digits[0].stride)
    return min((by for _, by in v.copies), default=v.slots)
