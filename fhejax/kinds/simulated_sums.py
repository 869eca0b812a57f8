"""Sums of simulated values times numbers, and of products of simulated values.

Left out, as everywhere, is the rounding of the numbers that multiply a ciphertext.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from fhejax.arrays.products import sums
from fhejax.kinds.simulated import Simulated, as_complex, label_of, mixed
from fhejax.kinds.simulated_operations import multiplied, rounded, switched_and_rounded


@sums.weighted.register(Simulated)
@functools.partial(jax.jit, static_argnums=2)
def _(x, weights, scale):
    weights = jnp.asarray(weights)
    if jnp.iscomplexobj(weights):
        x = as_complex(x)
    weights = weights.astype(x.values.dtype)
    values, errors = (
        jnp.einsum(form, each, weights, precision="highest")
        for form, each in (("...ts,tj->...js", x.values), ("...tes,tj->...jes", x.errors))
    )
    ahead = jnp.moveaxis(x.label, -2, 0)
    label, _ = jax.lax.scan(lambda total, each: (mixed("weighted", total, each), None), ahead[0], ahead)
    label = mixed("of columns", label[..., None, :], jax.vmap(label_of, 1)(weights))
    total = dataclasses.replace(x, values=values, errors=errors, label=label, level=x.level - 1, scale=scale)
    return rounded(total)


@sums.tensor_sum.register(Simulated)
@jax.jit
def _(first, xs, ys):
    real = all(each.real for each in (*xs, *ys))
    if not real:
        xs, ys = ([as_complex(each) for each in operands] for operands in (xs, ys))
    parts = [multiplied(x, y) for x, y in zip(xs, ys, strict=True)]
    values, errors = (functools.reduce(jnp.add, each) for each in zip(*parts, strict=True))
    # One label for the whole, as of `combine`.
    label = mixed("sum of products", *(each.label for each in (*xs, *ys)))
    noisy = any(each.noisy for each in (*xs, *ys))
    scale = first.scale * ys[0].scale
    return Simulated(values, errors, label, first.params, first.level, scale, first.slots, real, 3, noisy)


@sums.finished.register(Simulated)
@functools.partial(jax.jit, static_argnums=2)
def _(x, key, scale):
    return switched_and_rounded(x, x.level, scale)
