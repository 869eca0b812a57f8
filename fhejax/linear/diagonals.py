"""Linear maps of slots as sums of diagonals: y = sum over steps k of d_k * rotate(x, k).

Entry (r, c) of a matrix carries slot c to slot r, so it stands on the diagonal of step c - r, at slot r. How vectors
lie in the slots decides which steps meet; here a vector (a, b, c) and its matrix of 3 x 3, in 16 slots:

    one behind the other     a b c . . . . . . . . . . . . .     steps -2 to 2
    stride=4                 a . . . b . . . c . . . . . . .     steps -8, -4, 0, 4, 8: four vectors side by side
    replicated=True          a b c . a b c . a b c . a b c .     steps 0 to 3: -1 and 3 are one

Source: Halevi & Shoup, "Algorithms in HElib", 2014, section 4.3.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat


class Diagonals(NamedTuple):
    """The diagonals of a map that may differ from zero, at least one; the period is a power of two."""

    steps: np.ndarray  # int64[count], ascending, each from 0 to slots - 1
    values: Any  # floating or complex [count, period], of NumPy where they are known; repeated through the slots


def of_matrix(operation: str, matrix: Any, slots: int, stride: int, replicated: bool) -> Diagonals:
    """Those of a real or complex `[rows, columns]`; known zeros are left out."""
    matrix = numbers(operation, "matrix", matrix)
    if stride not in [1 << i for i in range(slots.bit_length())]:
        raise ValueError(f"{operation}: stride = {stride!r}; need a power of two from 1 to {slots}, the slots")
    places = slots // stride
    _check_matrix(operation, matrix.shape, slots, stride, places)
    period = 1 << (max(matrix.shape) - 1).bit_length() if replicated else places
    rows, columns = np.indices(matrix.shape).reshape(2, -1)
    if isinstance(matrix, np.ndarray):
        kept = np.flatnonzero(matrix)
        rows, columns = rows[kept], columns[kept]
    steps, diagonal = np.unique((columns - rows) % period, return_inverse=True)
    values = _scatter(matrix[rows, columns], diagonal, rows, (len(steps), period))
    repeat = jnp.repeat if isinstance(values, jax.Array) else np.repeat
    return shorten(steps * stride, repeat(values, stride, axis=-1))


def of_mapping(operation: str, diagonals: Mapping[int, Any], slots: int) -> Diagonals:
    """Those given by their steps, taken modulo the slots: each a number for all slots, or `[slots]`."""
    if not isinstance(diagonals, Mapping) or not diagonals:
        raise ValueError(f"{operation}: got {diagonals!r}; need at least one diagonal, {{step: values, ...}}")
    rows: dict[int, Any] = {}
    for step, given in diagonals.items():
        if isinstance(step, bool) or not isinstance(step, (int, np.integer)):
            raise TypeError(f"{operation}: the step {step!r} is not an integer")
        values, step = numbers(operation, f"diagonals[{step}]", given), int(step) % slots
        if values.shape not in [(), (slots,)]:
            raise ValueError(
                f"{operation}: diagonals[{step}] has shape {values.shape}; need ({slots},), the slots, or ()"
            )
        if step in rows:
            raise ValueError(f"{operation}: two diagonals for step {step}: steps are taken modulo {slots}, the slots")
        rows[step] = values
    steps = np.array(sorted(rows), np.int64)
    traced = _compat.is_traced(list(rows.values()))
    module = jnp if traced else np
    values = module.stack([module.broadcast_to(rows[step], (slots,)) for step in steps.tolist()])
    if not traced:
        kept = np.any(values != 0, axis=1)
        steps, values = steps[kept], values[kept]
    return shorten(steps, values)


def of_indices(operation: str, indices: Any, slots: int) -> Diagonals:
    """Those of y = x[indices]."""
    if _compat.is_traced(indices):
        raise TypeError(f"{operation}: the indices decide which rotations there are, so they must not be traced")
    array = np.asarray(indices)
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{operation}: got indices of dtype {array.dtype}; need integers")
    if array.ndim != 1 or not 1 <= len(array) <= slots:
        raise ValueError(f"{operation}: got indices of shape {array.shape}; need (count,) with 1 to {slots}, the slots")
    if array.min() < 0 or array.max() >= slots:
        raise ValueError(
            f"{operation}: index {array[(array < 0) | (array >= slots)][0]} is not a slot, 0 to {slots - 1}"
        )
    places = np.arange(len(array))
    steps, diagonal = np.unique((array - places) % slots, return_inverse=True)
    return shorten(steps, _scatter(np.ones(len(array)), diagonal, places, (len(steps), slots)))


def of_entries(
    rows: np.ndarray, columns: np.ndarray, values: Any, slots: int, outputs: int, inputs: int
) -> dict[tuple[int, int], Diagonals]:
    """Those of a sparse map between slots that are numbered through several ciphertexts, by (output, input).

    Entries that meet are added; ciphertexts without any get a block of zeros.
    """
    (to, places), (start, sources) = np.divmod(rows, slots), np.divmod(columns, slots)
    steps, blocks = (sources - places) % slots, to * inputs + start
    found = {}
    for block in np.unique(blocks).tolist():
        own = np.flatnonzero(blocks == block)
        different, diagonal = np.unique(steps[own], return_inverse=True)
        filled = _scatter(values[own], diagonal, places[own], (len(different), slots))
        found[divmod(block, inputs)] = shorten(different, filled)
    zeros = shorten(np.zeros(0, np.int64), None)
    found |= {(output, 0): zeros for output in {*range(outputs)} - {output for output, _ in found}}
    return found | {(0, source): zeros for source in {*range(inputs)} - {source for _, source in found}}


def shorten(steps: np.ndarray, values: Any) -> Diagonals:
    """The same with the shortest period, where values are known; a zero map has one diagonal, of zeros."""
    if not len(steps):
        return Diagonals(np.zeros(1, np.int64), np.zeros((1, 1)))
    while isinstance(values, np.ndarray) and values.shape[-1] > 1:
        half = values.shape[-1] // 2
        if not np.array_equal(values[:, :half], values[:, half:]):
            break
        values = values[:, :half]
    return Diagonals(np.asarray(steps, np.int64), values)


def for_terms(blocks: Sequence[Diagonals], rows: np.ndarray, turns: np.ndarray) -> Any:
    """Rows of the blocks' diagonals, numbered through, each rolled so that `rotate` by its step undoes it."""
    period = max(block.values.shape[-1] for block in blocks)
    module = np if all(isinstance(block.values, np.ndarray) for block in blocks) else jnp
    values = module.concatenate(
        [module.tile(block.values, (1, period // block.values.shape[-1])) for block in blocks], axis=0
    )
    return values[rows[:, None], (np.arange(period) - turns[:, None]) % period]


def numbers(operation: str, name: str, values: Any) -> Any:
    """An array of doubles, real or complex; of NumPy where the values are known, and then finite. Refused otherwise."""
    if _compat.is_traced(values):
        array = jnp.asarray(values)
    else:
        array = np.asarray(values)
    if not (jnp.issubdtype(array.dtype, jnp.number) or array.dtype == bool):
        raise TypeError(f"{operation}: {name} has dtype {array.dtype}; need real or complex numbers")
    if not isinstance(array, np.ndarray):
        # A copy: with x64 off, eager vmap holds a NumPy double behind a float32 tracer (as in encode).
        return jnp.array(array, copy=True)
    array = array.astype(np.complex128 if jnp.issubdtype(array.dtype, jnp.complexfloating) else np.float64)
    if not np.isfinite(array).all():
        index = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
        raise ValueError(f"{operation}: {name}[{', '.join(map(str, index))}] = {array[index]} is not finite")
    return array


def _scatter(entries, diagonal, places, shape):
    if isinstance(entries, np.ndarray):
        values = np.zeros(shape, entries.dtype)
        np.add.at(values, (diagonal, places), entries)
        return values
    return jnp.zeros(shape, entries.dtype).at[diagonal, places].add(entries)


def _check_matrix(operation, shape, slots, stride, places):
    if len(shape) != 2:
        raise ValueError(f"{operation}: got an array of {len(shape)} dimensions, shape {shape}; need (rows, columns)")
    if 0 in shape:
        raise ValueError(f"{operation}: got a matrix of shape {shape}; need at least one row and one column")
    if max(shape) > places:
        room = f"{slots} slots" if stride == 1 else f"{slots} slots with stride {stride}, which hold {places} entries"
        raise ValueError(
            f"{operation}: a matrix of shape {shape} does not fit {room}: rows and columns may be at most {places}; "
            "cut it into blocks for several ciphertexts (LinearTransform.from_blocks), or take a larger ring"
        )
