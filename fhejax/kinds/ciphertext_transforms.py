"""Linear transforms of ciphertexts, by double hoisting (see `fhejax.primitives.double_hoisting`)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.primitives.double_hoisting import (
    IDENTITY,
    Basis,
    chained_sum,
    hoisted_sums,
    plain_sum,
    raised_rotations,
    rotated_sum,
)
from fhejax.scheme.encoding import encoded_diagonals


def transformed(first: Any, xs: Sequence[Any], transform: Any, keys: dict[int, tuple[int, Any]]) -> list[Any]:
    params, level, slots = transform.params, transform.level, transform.slots
    operands = {element: key.operand for element, key in keys.values()}
    work = _work(transform.plan, {step: element for step, (element, _) in keys.items()} | {0: IDENTITY})
    basis = Basis(params.moduli_at(level), params.special_moduli, params.digit_size)
    data = [x.data for x in xs]
    if transform.values is None:
        outputs = _apply_encoded(data, transform.data, operands, work, basis)
    else:
        outputs = _apply_numbers(data, transform.values, operands, work, basis, params, level)
    scale, real = params.scale_at(level - 1), transform.real and all(x.real for x in xs)
    return [type(first)(output, params, level - 1, scale, slots, real) for output in outputs]


class _Work(NamedTuple):
    """A plan in galois elements: what the compiled program depends on."""

    outputs: int
    babies: tuple[tuple[int, int], ...]  # which input, which element
    sums: tuple[tuple[int, ...], ...]  # the babies of each
    giants: tuple[tuple[int, int], ...]  # of each sum: which output, which element
    repeated: bool  # whether an element is the one of all sums but the first, which are rotated one after another


def _work(plan, elements):
    babies = tuple((i, elements[step]) for i, step in plan.babies)
    sums = tuple(each.terms for each in plan.sums)
    steps = [min(each.step, plan.stride) if plan.repeated else each.step for each in plan.sums]
    giants = tuple((each.output, elements[step]) for each, step in zip(plan.sums, steps, strict=True))
    return _Work(plan.outputs, babies, sums, giants, plan.repeated)


@_compat.jit(3, 4)
def _apply_encoded(ciphertexts, plains, keys, work, basis):
    return _gathered(hoisted_sums(ciphertexts, plains, keys, work.babies, work.sums, basis), keys, work, basis)


@_compat.jit(3, 4, 5, 6)
def _apply_numbers(ciphertexts, values, keys, work, basis, params, level):
    """Encodes the plaintexts of one inner sum at a time."""
    pairs = jnp.stack(jnp.broadcast_arrays(*raised_rotations(ciphertexts, keys, work.babies, basis)))
    most, count = max(map(len, work.sums)), sum(map(len, work.sums))
    # Sums of fewer terms are filled up with the row of zeros behind the last one.
    rows, babies = np.full((len(work.sums), most), count), np.zeros((len(work.sums), most), int)
    for i, terms in enumerate(work.sums):
        rows[i, : len(terms)] = np.arange(len(terms)) + sum(map(len, work.sums[:i]))
        babies[i, : len(terms)] = terms
    padded = jnp.concatenate([values, jnp.zeros_like(values[..., :1, :])], axis=-2)

    def inner_sum(numbers):
        row, baby = numbers
        plains = encoded_diagonals(jnp.take(padded, row, axis=-2), params, level)
        return plain_sum([jnp.take(pairs, baby[i], axis=0) for i in range(most)], plains, basis)

    sums = jax.lax.map(inner_sum, (jnp.asarray(rows), jnp.asarray(babies)))
    return _gathered([sums[i] for i in range(len(work.sums))], keys, work, basis)


def _gathered(sums, keys, work, basis):
    """One ciphertext for each output."""
    results = []
    for output in range(work.outputs):
        own = [(pair, element) for pair, (j, element) in zip(sums, work.giants, strict=True) if j == output]
        gather = chained_sum if work.repeated else rotated_sum
        results.append(gather([pair for pair, _ in own], [element for _, element in own], keys, basis))
    return results
