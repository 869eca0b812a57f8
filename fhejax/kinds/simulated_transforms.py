"""Linear transforms of simulated values.

The diagonals meet the errors as they meet the values. What encryption adds, besides the rounding that ends each output:
an error of the key for every hoisted rotation, and the rounding of every plaintext. Both are sums of many independent
errors in every slot, so each output gets one draw, with their deviation in each slot. Left out is what the division by
q_l leaves nothing of: the errors of the giant steps, which are added to inner sums.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.kinds import noise
from fhejax.kinds.draws import as_complex, disturbed, label_of, mixed
from fhejax.kinds.simulated_operations import rounded
from fhejax.primitives.embedding import coefficients_to_slots
from fhejax.primitives.rounding import decode_coefficients


def transformed(first: Any, xs: Any, transform: Any, keys: Any) -> list[Any]:
    values = transform.values
    if values is None:
        values = _decoded(transform.data, transform.params, transform.level, transform.real)
    if not (transform.real and all(x.real for x in xs)):
        xs = [as_complex(x) for x in xs]
    kind = jnp.result_type(*(x.values.dtype for x in xs))
    return _transformed(xs, values.astype(kind), transform.plan, transform.real)


@_compat.jit(1, 2, 3)
def _decoded(data, params, level, real):
    """The diagonals of their plaintexts, `[*batch, terms, period]`."""
    width = data.shape[-1]
    # Values that fit one level lower than the message need no more primes than two.
    limbs = jnp.repeat(data[..., : min(level, 1) + 1, :], params.degree // width, axis=-1)
    coefficients = decode_coefficients(limbs, params.moduli_at(min(level, 1)))
    slots = coefficients_to_slots(coefficients / params.plain_scale_at(level), width // 2)
    return slots.real if real else slots


@functools.partial(jax.jit, static_argnums=(2, 3))
def _transformed(xs, values, plan, real):
    first, steps = xs[0], plan.steps()
    params, level, slots = first.params, first.level, first.slots
    values = jnp.tile(values, slots // values.shape[-1])
    inputs = jnp.stack([jnp.concatenate([x.values[..., None, :], x.errors], axis=-2).astype(values.dtype) for x in xs])

    def add_term(totals, term):
        """One diagonal: to the values and errors, the squares of the values, and those of rotated diagonals."""
        total, squares, weights = totals
        diagonal, (i, j, baby, giant) = term
        diagonal, x = jnp.roll(diagonal, -giant), jnp.roll(inputs[i], -baby - giant, axis=-1)
        square = jnp.abs(x[..., 0, :]) ** 2
        keyed = jnp.where(baby != 0, jnp.abs(diagonal) ** 2, 0)
        return (total.at[j].add(diagonal * x), squares.at[j].add(square), weights.at[j].add(keyed)), None

    shape = plan.outputs, *inputs.shape[1:]
    small = jnp.zeros((*shape[:-2], slots), inputs.real.dtype)
    zeros = jnp.zeros(shape, inputs.dtype), small, jnp.zeros((plan.outputs, slots), inputs.real.dtype)
    (total, squares, weights), _ = jax.lax.scan(add_term, zeros, (values, jnp.asarray(steps.astype(np.int32))))

    encoding = noise.encode(not jnp.iscomplexobj(inputs)) * (values.shape[-1] / slots)
    encoding *= (first.scale / params.plain_scale_at(level)) ** 2
    variance = encoding * squares + noise.key_errors(params, level) * weights.reshape(
        plan.outputs, *(1,) * (small.ndim - 2), slots
    )
    label = mixed("linear transform", *(x.label for x in xs), label_of(values))
    real = real and all(x.real for x in xs)
    noisy = any(x.noisy for x in xs)
    # All outputs together: draws that are compiled once.
    own = jnp.stack(
        [jnp.broadcast_to(mixed(f"output {j}", label), (*small.shape[1:-1], 2)) for j in range(plan.outputs)]
    )
    x = dataclasses.replace(first, values=total[..., 0, :], errors=total[..., 1:, :], label=own, real=real, noisy=noisy)
    exact = _disturbed_by(x, variance)
    results = rounded(dataclasses.replace(exact, level=level - 1, scale=params.scale_at(level - 1)))
    return [jax.tree.map(lambda leaf, j=j: leaf[j], results) for j in range(plan.outputs)]


def _disturbed_by(x, variance):
    """x with an independent error of another variance in each slot."""
    unit = dataclasses.replace(x, values=jnp.zeros_like(x.values), errors=jnp.zeros_like(x.errors))
    unit = disturbed(unit, "linear transform", 1.0, False)
    deviation = jnp.sqrt(variance)
    return dataclasses.replace(
        x, values=x.values + unit.values * deviation, errors=x.errors + unit.errors * deviation[..., None, :]
    )
