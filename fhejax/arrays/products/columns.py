"""Matrix products without rotations: of arrays whose contracted axis counts ciphertexts.

With a ciphertext for each index that is summed over, a product is a sum of ciphertexts times numbers (`x @ w` in the
clear) or times ciphertexts. Entries that meet have to stand in the same slots, so for encrypted x and y

| x `[*batch, n, m]` | y `[*batch, m, p]` | the product |
|---|---|---|
| "columns": n in the slots | a ciphertext an entry, in all slots | "columns" |
| a ciphertext an entry, in all slots | p in the slots, a ciphertext a row | a ciphertext a row |
| a ciphertext an entry, the batch in the slots | the same | the same |

Source: Bae, Cheon, Hanrot, Park & Stehle, "Plaintext-Ciphertext Matrix Multiplication and FHE Bootstrapping: Fast and
Fused", 2024, section 3.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fhejax import _compat
from fhejax.arrays.layouts.axis_digits import coalesce
from fhejax.arrays.layouts.layout import Digit, Digits, Layout
from fhejax.arrays.layouts.record import Array, merge_batch_axes, take_ciphertexts
from fhejax.arrays.layouts.shapes import matmul_shape
from fhejax.arrays.products.pairs import align_operands, relinearize_sum
from fhejax.errors import LevelError
from fhejax.linear.diagonals import numbers
from fhejax.operations.levels import product_scale, to_canonical


def columns_times_matrix(x: Array, w: Any) -> Array:
    """x @ w for `w[m, p]` in the clear, maybe traced, and `x[*lead, m]` whose last axis counts ciphertexts.

    Every ciphertext of the product is a sum of those of x times numbers: one level, and no key switch.
    """
    w = numbers("columns_times_matrix", "w", w)
    if w.ndim != 2:
        raise ValueError(f"columns_times_matrix: w has shape {w.shape}; need (rows, columns)")
    shape, layout = matmul_shape(x.shape, w.shape), x.layout
    digits, lead = coalesce(layout.axes[-1], x.shape[-1]), layout.axes[:-1]
    inside = all(by % layout.slots for each in lead for _, by in each)
    if layout.diagonal or not inside or digits not in ((), (Digit(x.shape[-1], layout.slots),)):
        raise ValueError(
            f"columns_times_matrix: the last axis does not count ciphertexts, in {layout}; type x.to_layout('columns')"
        )
    ciphertext = to_canonical(x.ciphertext)
    if ciphertext.level == 0:
        raise LevelError(
            "columns_times_matrix: the operand is at level 0 and a product needs one more; make parameters with more "
            f"depth, such as Parameters.for_depth({x.params.max_level + 1}), or bootstrap"
        )
    params, level = x.params, ciphertext.level
    _check_weights(w, ciphertext)
    scale = product_scale(params, level, ciphertext.scale * params.plain_scale_at(level))
    axes = (*lead, (Digit(shape[-1], layout.slots),) if shape[-1] > 1 else ())
    return replace(x, ciphertext=ciphertext._weighted_sums(w, scale), layout=replace(layout, shape=shape, axes=axes))


def multiply_without_rotations(x: Array, y: Array, keys: Any) -> Array | None:
    """x @ y without rotations, one key switch a ciphertext of it; None where the layouts do not allow it."""
    meeting = _match(x.layout, y.layout)
    if meeting is None:
        return None
    one, other = align_operands(x, y)
    # [n, m] ciphertexts and [m, p], broadcast against each other for each of the m.
    xs = [take_ciphertexts(one, meeting.x[:, i, None]) for i in range(meeting.x.shape[1])]
    ys = [take_ciphertexts(other, meeting.y[None, i]) for i in range(meeting.y.shape[0])]
    total = xs[0]._tensor_sum(xs, ys)
    return replace(x, ciphertext=merge_batch_axes(relinearize_sum(total, keys)), keys=keys, layout=meeting.target)


class _Match(NamedTuple):
    """Which ciphertexts are multiplied, by their numbers; n or p is 1 where that axis lies in the slots."""

    x: np.ndarray  # int64[n, m]
    y: np.ndarray  # int64[m, p]
    target: Layout  # of the product


def _match(x: Layout, y: Layout) -> _Match | None:
    slots, shape = x.slots, matmul_shape(x.shape, y.shape)
    if x.slots != y.slots or x.diagonal or y.diagonal or min(len(x.shape), len(y.shape)) < 2:
        return None
    *x_batch, x_rows, x_inner = (coalesce(*each) for each in zip(x.axes, x.shape, strict=True))
    *y_batch, y_inner, y_columns = (coalesce(*each) for each in zip(y.axes, y.shape, strict=True))
    free = [_counts(digits, slots) for digits in (x_rows, y_columns)]
    batch = [digits for digits in (*x_batch, *y_batch) if digits]
    if not (_counts(x_inner, slots) and _counts(y_inner, slots)) or any(_counts(each, slots) for each in batch):
        return None
    if any(_mixed(each, slots) for each in (*batch, x_rows, y_columns)):
        return None
    own = [layout.positions() for layout in (x, y)]
    places = [own[0][..., :, :1] % slots, own[1][..., :1, :] % slots]
    host = _host(places, x, y)
    if host is None:
        return None
    where = (x, y)[host]
    copies = tuple(where.copies) if x.copies == y.copies else ()
    axes = _target_axes(where, host, shape, (x_rows, y_columns), free)
    target = Layout(shape, axes, slots, int(places[host].min()), copies)
    numbers_x, numbers_y = (each[(0,) * (each.ndim - 2)] // slots for each in own)
    return _Match(numbers_x if free[0] else numbers_x[:1], numbers_y if free[1] else numbers_y[:, :1], target)


def _host(places: list[np.ndarray], x: Layout, y: Layout) -> int | None:
    """Which operand's places in the slots the product takes: wherever its entries are, the other one's stand too."""
    for host, other in ((0, y), (1, x)):
        steps = np.unique((places[host] - places[1 - host]) % x.slots)
        if np.isin(steps, other.copy_offsets() % x.slots).all():
            return host
    return None


def _target_axes(where, host, shape, free_digits, free):
    """Batch axes as those of the host; rows and columns in the slots as they are, or counting ciphertexts anew."""
    batch: tuple[Digits, ...] = ((),) * (len(shape) - len(where.shape)) + where.axes[:-2]
    counts = [size if counting else 1 for size, counting in zip(shape[-2:], free, strict=True)]
    strides = (counts[1] * where.slots, where.slots)
    axes = list(free_digits)
    for i, (size, counting) in enumerate(zip(shape[-2:], free, strict=True)):
        if counting:
            axes[i] = (Digit(size, strides[i]),) if size > 1 else ()
    return (*batch, *axes)


def _counts(digits: Digits, slots: int) -> bool:
    """Whether an axis counts ciphertexts, or has one entry."""
    return all(by % slots == 0 for _, by in digits)


def _mixed(digits: Digits, slots: int) -> bool:
    return len({by % slots == 0 for _, by in digits}) > 1


def _check_weights(w: Any, x: Any) -> None:
    """Refuses weights that do not fit below the modulus, where they can be looked at."""
    if _compat.is_traced(w):
        return
    params, level = x.params, x.level
    largest = float(np.abs(w).max()) * params.plain_scale_at(level)
    if 2 * largest >= math.prod(params.moduli_at(level)):
        raise ValueError(
            f"columns_times_matrix: a weight of {np.abs(w).max():.6g} is too large for the modulus at level {level}; "
            "scale the matrix down"
        )
