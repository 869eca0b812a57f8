"""Linear transforms of slots, planned and encoded once, as values that programs take as arguments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.errors import LevelError, static_integer
from fhejax.linear.diagonals import Diagonals, for_terms, numbers, of_entries, of_indices, of_mapping, of_matrix
from fhejax.linear.plan import Plan, planned
from fhejax.parameters.parameters import Parameters
from fhejax.scheme.encoding import checked_numbers, checked_slots, encoded_diagonals
from fhejax.scheme.values import Pickled, size_of

_STATIC = {"static": True}


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class LinearTransform(Pickled):
    """A linear map of slots, ready for ciphertexts of one level: `fhejax.apply(transform, x, keys)`.

    Made by `from_matrix`, `from_blocks`, `from_diagonals`, `from_entries`, `from_permutation` or `from_function`. Give
    it to jitted functions as an argument: what they close over becomes a constant of the program.

    Attributes:
      data: `uint64[*batch, terms, level + 1 + special primes, width]`, the diagonals encoded at the canonical scale of
        the level, in NTT form, those that repeat in the slots without repetition; None where `values` are kept.
      values: floating or complex `[*batch, terms, width / 2]`, the diagonals as numbers; None where they are encoded.
      params: the parameter set.
      level: of the ciphertexts that it is applied to; the result is one lower.
      slots: of the ciphertexts.
      shape: (rows, columns), over all blocks.
      real: whether the diagonals are real.
      plan: which rotations it takes; `plan.hoisted`, `plan.switched` and `plan.mod_downs` say at what cost.
    """

    data: Any
    values: Any
    params: Parameters = field(metadata=_STATIC)
    level: int = field(metadata=_STATIC)
    slots: int = field(metadata=_STATIC)
    shape: tuple[int, int] = field(metadata=_STATIC)
    real: bool = field(metadata=_STATIC)
    plan: Plan = field(metadata=_STATIC)

    @classmethod
    def from_matrix(
        cls,
        matrix: Any,
        params: Parameters,
        level: int | None = None,
        *,
        slots: int | None = None,
        stride: int = 1,
        replicated: bool = False,
        encoded: bool = True,
    ) -> "LinearTransform":
        """Multiplies vectors by a matrix, m @ x.

        Entry i of a vector lies in slot i * stride; what stands in slots behind the last entry does not matter, and is
        zero in the result. Here (a, b, c) in 16 slots, where `.` is anything:

            stride=1           a b c . . . . . . . . . . . . .
            stride=4           a a a a b b b b c c c c . . . .     four vectors, the j-th in slots i * 4 + j
            replicated=True    a b c . a b c . a b c . a b c .     repeated after a power of two

        With a stride, `stride` vectors lie side by side and all are multiplied, for the price of one. Replicated
        vectors take half the diagonals of a square matrix, and plaintexts that are smaller by as much as they repeat;
        the result is replicated again, with the period of the larger of rows and columns.

        Args:
          matrix: real or complex `[rows, columns]`. Known zeros save work; traced entries are all taken to differ from
            zero.
          params: the parameter set.
          level: of the ciphertexts, at least 1; the top if None.
          slots: of the ciphertexts; `params.slots` if None.
          stride: a power of two up to the slots.
          replicated: whether the vector is repeated all through the slots.
          encoded: whether to encode the diagonals now, once. False keeps them as numbers, which take a few hundredths
            of the memory, and encodes them at every use; simulated values can then be differentiated by them.

        Raises:
          LevelError: the level is 0, and the product needs one.
          TypeError: no numbers.
          ValueError: rows or columns exceed the slots, a value that is not finite or too large, or a level, stride or
            number of slots that does not fit.

        Source: Halevi & Shoup, "Algorithms in HElib", 2014, section 4.3.

        Example:
          >>> import fhejax as fhe, numpy as np
          >>> params = fhe.Parameters.for_depth(1)
          >>> transform = fhe.LinearTransform.from_matrix([[1.0, 2.0], [0.0, 3.0]], params)
          >>> transform.rotations
          (1,)
          >>> y = fhe.apply(transform, fhe.simulate([5.0, 7.0, 100.0], params))
          >>> y.values[:2].round(4).tolist()
          [19.0, 21.0]
        """
        name = "LinearTransform.from_matrix"
        slots = _checked_slots(name, params, slots)
        diagonals = of_matrix(name, matrix, slots, stride, replicated)
        return _transform(name, {(0, 0): diagonals}, np.shape(matrix), params, level, slots, encoded)

    @classmethod
    def from_blocks(
        cls,
        blocks: Sequence[Sequence[Any]],
        params: Parameters,
        level: int | None = None,
        *,
        slots: int | None = None,
        stride: int = 1,
        replicated: bool = False,
        encoded: bool = True,
    ) -> "LinearTransform":
        """Multiplies a vector that lies in several ciphertexts by a matrix in blocks, into several ciphertexts.

        y_i = sum over j of blocks[i][j] @ x_j. The rotations of an input are shared by all outputs, and those of an
        output are of the sum over all inputs.

        Args:
          blocks: rows of matrices, as for `numpy.block`; None is a block of zeros.
          params, level, slots, stride, replicated, encoded: as for `from_matrix`.

        Raises:
          As `from_matrix`; ValueError also where the shapes of blocks do not fit each other.
        """
        name = "LinearTransform.from_blocks"
        slots, blocks = _checked_slots(name, params, slots), [list(row) for row in blocks]
        heights, widths = _block_sizes(name, blocks)
        diagonals = {
            (i, j): of_matrix(name, block, slots, stride, replicated)
            for i, row in enumerate(blocks)
            for j, block in enumerate(row)
            if block is not None
        }
        return _transform(name, diagonals, (sum(heights), sum(widths)), params, level, slots, encoded)

    @classmethod
    def from_diagonals(
        cls,
        diagonals: Mapping[int, Any],
        params: Parameters,
        level: int | None = None,
        *,
        slots: int | None = None,
        encoded: bool = True,
        key_cost: float = 0.0,
    ) -> "LinearTransform":
        """The sum over steps k of diagonals[k] * rotate(x, k).

        Args:
          diagonals: by step, taken modulo the slots; each real or complex `[slots]`, or a number for all of them.
          params, level, slots, encoded: as for `from_matrix`.
          key_cost: how much work a rotation key is worth, in transforms (NTT) of one limb: where memory is short, some
            hundreds make plans with fewer keys and somewhat more work.

        Raises:
          As `from_matrix`; ValueError also for a diagonal of another shape, TypeError for steps that are no integers.
        """
        name = "LinearTransform.from_diagonals"
        slots = _checked_slots(name, params, slots)
        blocks = {(0, 0): of_mapping(name, diagonals, slots)}
        return _transform(name, blocks, (slots, slots), params, level, slots, encoded, key_cost)

    @classmethod
    def from_entries(
        cls,
        rows: Any,
        columns: Any,
        values: Any,
        params: Parameters,
        level: int | None = None,
        *,
        slots: int | None = None,
        shape: tuple[int, int] | None = None,
        encoded: bool = True,
    ) -> "LinearTransform":
        """A sparse matrix by its entries, between slots that are numbered through several ciphertexts.

        Args:
          rows, columns: integers `[entries]`, to which slot and from which: slot + slots * ciphertext.
          values: real or complex `[entries]`, added where a row and a column meet twice. Traced values may be; the
            rows and columns decide which rotations there are.
          shape: (rows, columns) of the matrix, which decide how many ciphertexts there are; as many as the entries
            need if None.
          params, level, slots, encoded: as for `from_matrix`.

        Raises:
          As `from_matrix`; ValueError also for no entries, shapes that differ or a slot outside of the matrix,
          TypeError for rows or columns that are no integers.
        """
        name = "LinearTransform.from_entries"
        slots, (rows, columns) = _checked_slots(name, params, slots), _checked_places(name, rows, columns)
        values = numbers(name, "values", values)
        if values.shape != rows.shape:
            raise ValueError(f"{name}: got {len(rows)} rows and columns and values of shape {values.shape}")
        least = (int(rows.max()) + 1, int(columns.max()) + 1)
        shape = least if shape is None else shape
        if shape[0] < least[0] or shape[1] < least[1]:
            raise ValueError(f"{name}: entries reach row {least[0] - 1} and column {least[1] - 1} of a shape {shape}")
        outputs, inputs = (-(-size // slots) for size in shape)
        diagonals = of_entries(rows, columns, values, slots, outputs, inputs)
        return _transform(name, diagonals, shape, params, level, slots, encoded)

    @classmethod
    def from_permutation(
        cls,
        indices: Any,
        params: Parameters,
        level: int | None = None,
        *,
        slots: int | None = None,
        encoded: bool = True,
    ) -> "LinearTransform":
        """x[indices], with zeros behind it.

        Args:
          indices: integers `[count]` from 0 to slots - 1; a slot may be taken several times, or not at all.
          params, level, slots, encoded: as for `from_matrix`.

        Raises:
          As `from_matrix`; ValueError also for an index that is no slot, TypeError for indices that are no integers.
        """
        name = "LinearTransform.from_permutation"
        slots = _checked_slots(name, params, slots)
        diagonals = of_indices(name, indices, slots)
        return _transform(name, {(0, 0): diagonals}, (len(indices), slots), params, level, slots, encoded)

    @classmethod
    def from_function(
        cls,
        function: Callable[[Any], Any],
        columns: int,
        params: Parameters,
        level: int | None = None,
        *,
        slots: int | None = None,
        stride: int = 1,
        replicated: bool = False,
        encoded: bool = True,
    ) -> "LinearTransform":
        """What a linear function of arrays does, such as `jnp.cumsum` or a convolution.

        Args:
          function: from `[columns]` to `[rows]`, made of JAX operations; it is evaluated in double precision.
          columns: how many entries it takes.
          params, level, slots, stride, replicated, encoded: as for `from_matrix`.

        Raises:
          As `from_matrix`; ValueError also for a function that is not linear, such as one that adds a constant, or
          that does not return a vector.
        """
        name = "LinearTransform.from_function"
        matrix = _matrix_of(name, function, static_integer(name, "columns", columns))
        slots = _checked_slots(name, params, slots)
        diagonals = of_matrix(name, matrix, slots, stride, replicated)
        return _transform(name, {(0, 0): diagonals}, matrix.shape, params, level, slots, encoded)

    @property
    def rotations(self) -> tuple[int, ...]:
        """The steps that `fhejax.evaluation_keys(seed, secret_key, rotations=...)` has to make keys for."""
        return self.plan.rotations

    @_compat.x64
    def encoded(self) -> "LinearTransform":
        """The same with its diagonals encoded now, if it was made with `encoded=False`."""
        if self.values is None:
            return self
        values = self.values if _compat.is_traced(self.values) else np.asarray(self.values)
        return replace(self, data=_encode_once(values, self.params, self.level), values=None)

    def __repr__(self) -> str:
        plan = self.plan
        kind = ("real" if self.real else "complex") + ("" if self.values is None else ", not encoded")
        blocks = f"{plan.outputs} x {plan.inputs} ciphertexts, " if plan.inputs * plan.outputs > 1 else ""
        return (
            f"LinearTransform({self.shape[0]} x {self.shape[1]} {kind}, {blocks}level={self.level}, "
            f"slots={self.slots}, {plan.terms} diagonals, key switches={plan.hoisted} hoisted + "
            f"{plan.switched}, {size_of(self)})"
        )


_encode = _compat.jit(1, 2)(encoded_diagonals)


def _encode_once(values, params, level):
    """The same, with equal diagonals encoded once where they are known."""
    if not isinstance(values, np.ndarray):
        return _encode(values, params, level)
    different, which = np.unique(values, axis=0, return_inverse=True)
    if len(different) == len(values):
        return _encode(values, params, level)
    return jnp.take(_encode(different, params, level), which.ravel(), axis=-3, mode="clip")


@_compat.x64
def _transform(name, blocks: dict[tuple[int, int], Diagonals], shape, params, level, slots, encoded, key_cost=0.0):
    """The transform of blocks of diagonals, by (output, input)."""
    level = _checked_level(name, params, level)
    plan = planned({key: each.steps.tolist() for key, each in blocks.items()}, slots, params, level, key_cost)
    first = np.cumsum([0, *(len(each.steps) for each in blocks.values())])
    row = {
        (*key, step): start + i
        for (key, each), start in zip(blocks.items(), first.tolist(), strict=False)
        for i, step in enumerate(each.steps.tolist())
    }
    steps = plan.steps()
    rows = [row[j, i, (baby + giant) % slots] for i, j, baby, giant in steps.tolist()]
    values = for_terms(list(blocks.values()), np.array(rows), steps[:, 3])
    values, *_ = checked_numbers(values, params, level, None, values.shape[-1])
    real = not jnp.issubdtype(values.dtype, jnp.complexfloating)
    data = _encode_once(values, params, level) if encoded else None
    kept = None if encoded else _compat.as_array(values)
    return LinearTransform(data, kept, params, level, slots, (int(shape[0]), int(shape[1])), real, plan)


def _checked_level(name, params, level):
    level = params.fresh_level if level is None else static_integer(name, "level", level)
    if not 0 <= level <= params.max_level:
        raise ValueError(f"{name}: level = {level}; there are levels 1 to {params.max_level}")
    if level == 0:
        raise LevelError(
            f"{name}: a linear transform takes a level, and level 0 is the last; make parameters with more depth, such "
            f"as Parameters.for_depth({params.max_level + 1}), or bootstrap before it"
        )
    return level


def _checked_places(name, rows, columns):
    arrays = [np.asarray(places) for places in (rows, columns)]
    if not all(np.issubdtype(array.dtype, np.integer) for array in arrays):
        raise TypeError(f"{name}: got rows of {arrays[0].dtype} and columns of {arrays[1].dtype}; need integers")
    if arrays[0].ndim != 1 or arrays[0].shape != arrays[1].shape or not len(arrays[0]):
        raise ValueError(
            f"{name}: got rows {arrays[0].shape} and columns {arrays[1].shape}; need (entries,), at least 1"
        )
    if min(array.min() for array in arrays) < 0:
        raise ValueError(f"{name}: rows and columns count from 0; got {min(array.min() for array in arrays)}")
    return [array.astype(np.int64) for array in arrays]


def _checked_slots(name, params, slots):
    if not isinstance(params, Parameters):
        raise TypeError(f"{name}: got {type(params).__name__} for the parameters; type {name}(..., params, level)")
    return checked_slots(name, params, slots)


def _block_sizes(name, blocks):
    """The rows of each row of blocks and the columns of each column; each must have a block that is not None."""
    shapes = [[None if block is None else np.shape(block) for block in row] for row in blocks]
    if not shapes or not shapes[0] or len({len(row) for row in shapes}) > 1:
        raise ValueError(f"{name}: got rows of {[len(row) for row in shapes]} blocks; need equally many, at least one")
    for shape in (shape for row in shapes for shape in row):
        if shape is not None and len(shape) != 2:
            raise ValueError(f"{name}: got a block of shape {shape}; need (rows, columns)")
    sizes = []
    for axis, lines in enumerate((shapes, list(zip(*shapes, strict=True)))):
        for number, line in enumerate(lines):
            found = {shape[axis] for shape in line if shape is not None}
            if len(found) != 1:
                what = "row" if axis == 0 else "column"
                raise ValueError(
                    f"{name}: the blocks of {what} {number} have {sorted(found) or 'no'} {what}s; they need one "
                    "number, as for numpy.block, and at least one block that is not None"
                )
        sizes.append([next(shape[axis] for shape in line if shape is not None) for line in lines])
    return sizes


@_compat.x64
def _matrix_of(name, function, columns):
    """The matrix of a linear function, by its columns."""
    if columns < 1:
        raise ValueError(f"{name}: columns = {columns}; need at least 1")
    shape = jax.eval_shape(function, jax.ShapeDtypeStruct((columns,), jnp.float64)).shape
    if len(shape) != 1:
        raise ValueError(f"{name}: the function makes an array of shape {shape} of {columns} entries; need (rows,)")
    matrix = jax.vmap(function, out_axes=1)(jnp.eye(columns))
    probe = jnp.cos(jnp.arange(columns) + 0.5)
    expected = function(probe)
    error, size = jnp.max(jnp.abs(matrix @ probe - expected)), jnp.max(jnp.abs(matrix)) + jnp.max(jnp.abs(expected))
    if not _compat.is_traced(error) and not error <= 1e-6 * columns * size:
        raise ValueError(
            f"{name}: the function is not linear: at one vector it is off by {float(error):.3g} from the matrix of its "
            "values at unit vectors; add constants after fhejax.apply"
        )
    return matrix
