"""The operations of simulated values: each in floats, and the error that encryption would add.

Errors go through the operations as the values do, products of errors included. What is added is taken from the noise
model, at the scale of the result. Left out is what lies below 2^-14 of the rounding that follows it: the rounding of
the numbers that multiply a ciphertext.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from fhejax.kinds import noise
from fhejax.kinds.draws import as_complex, disturbed, label_of, mixed, padded
from fhejax.scheme.encoding import checked_numbers, decode, result_dtype
from fhejax.scheme.values import Plaintext, galois_steps


def _compiled(*static: int):
    """Compiled, with static positional arguments."""
    return functools.partial(jax.jit, static_argnums=static)


@_compiled(1, 2, 3, 4)
def change_level(x, factor, top, level, scale):
    x = dataclasses.replace(x, label=mixed(f"level {level} {scale:.7g}", x.label), level=level, scale=scale)
    return rounded(x) if level < top else x


@jax.jit
def add(x, y):
    return _sum(x, y)


@jax.jit
def subtract(x, y):
    return _sum(x, _times(y, -1.0))


@jax.jit
def negate(x):
    return dataclasses.replace(_times(x, -1.0), label=mixed("negate", x.label))


def plaintext_like(x, values):
    params, level, scale = x.params, x.level, x.scale
    if isinstance(values, Plaintext):
        return _plaintext(x, decode(values), values.level, values.scale)
    array, *_ = checked_numbers(values, params, level, scale, x.slots)
    return _plaintext(x, padded(array, x.slots), level, scale)


@_compiled(2, 3)
def _plaintext(like, array, level, scale):
    real = not jnp.issubdtype(array.dtype, jnp.complexfloating)
    label = jnp.broadcast_to(label_of(array), (*array.shape[:-1], 2))
    fields = {"level": level, "scale": scale, "slots": array.shape[-1], "real": real, "components": 1}
    x = dataclasses.replace(like, values=array, errors=jnp.zeros_like(array)[..., None, :], label=label, **fields)
    return disturbed(x, "encode", noise.encode(real), False)


@_compiled(2)
def add_plain(x, plain, negative):
    return _sum(x, _times(plain, -1.0) if negative else plain)


@_compiled(2)
def add_number(x, number, negative):
    return _plus(x, -jnp.asarray(number) if negative else number)


@_compiled(1)
def multiply_integer(x, factor):
    return dataclasses.replace(_times(x, float(factor)), label=mixed(f"times {factor}", x.label))


@_compiled(2)
def multiply_number(x, number, scale):
    return rounded(dataclasses.replace(_weighted(x, number), level=x.level - 1, scale=scale))


@_compiled(3)
def multiply_plain(x, plain, more, scale):
    total = functools.reduce(_sum, [_product(a, b) for a, b in ((x, plain), *more)])
    return rounded(dataclasses.replace(total, level=x.level - 1, scale=scale, components=x.components))


@jax.jit
def tensor(x, y):
    return dataclasses.replace(_product(x, y), components=3)


@_compiled(3)
def multiply(x, y, key, scale):
    return switched_and_rounded(_product(x, y), x.level, scale)


@jax.jit
def relinearize(x, key):
    x = dataclasses.replace(x, label=mixed("relinearize", x.label), components=2)
    return disturbed(x, "key switch", noise.key_switch(x.params, x.level), True)


def automorphisms(x, elements, keys):
    return _automorphisms(x, tuple(elements))


@functools.partial(jax.jit, static_argnums=1)
def _automorphisms(x, elements):
    """All together: draws that are compiled once."""

    def moved(leaf):
        steps = [galois_steps(x.params.degree).get(element) for element in elements]
        return jnp.stack([jnp.conj(leaf) if step is None else jnp.roll(leaf, -step, axis=-1) for step in steps])

    label = jnp.stack([mixed(f"automorphism {element}", x.label) for element in elements])
    results = dataclasses.replace(x, values=moved(x.values), errors=moved(x.errors), label=label)
    results = disturbed(results, "key switch", noise.key_switch(x.params, x.level), True)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], results) for i in range(len(elements))]


def combine(like, level, scale, terms, weights, products, constant, key):
    weights = jnp.asarray(weights)
    parts = [multiplied(x, y) for x, y in products]
    for x, weight in zip(terms, weights.astype(like.values.real.dtype), strict=True):
        if weight.ndim:
            plain_scale = scale * like.params.moduli[level + 1] / x.scale
            parts.append(multiplied(x, _plaintext(x, weight, level + 1, plain_scale)))
        else:
            parts.append((x.values * weight, x.errors * weight))
    values, errors = (functools.reduce(jnp.add, each) for each in zip(*parts, strict=True))
    numbers = [weights.ravel()]
    if constant is not None:
        values = values + jnp.asarray(constant).astype(values.dtype)
        numbers.append(jnp.ravel(constant))
    # One label for the whole: a circuit of many sums would be mostly labels, and be compiled slowly.
    operands = [*(x for pair in products for x in pair), *terms]
    label = mixed(f"combine {level}", *(x.label for x in operands), label_of(jnp.concatenate(numbers)))
    real, noisy = all(x.real for x in operands), any(x.noisy for x in operands)
    fields = {"level": level, "scale": scale, "real": real, "components": 2, "noisy": noisy}
    total = dataclasses.replace(like, values=values, errors=errors, label=label, **fields)
    return switched_and_rounded(total, level + 1, scale) if products else rounded(total)


@_compiled(2)
def weighted_sums(x, weights, scale):
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


@jax.jit
def tensor_sum(first, xs, ys):
    real = all(each.real for each in (*xs, *ys))
    if not real:
        xs, ys = ([as_complex(each) for each in operands] for operands in (xs, ys))
    parts = [multiplied(x, y) for x, y in zip(xs, ys, strict=True)]
    values, errors = (functools.reduce(jnp.add, each) for each in zip(*parts, strict=True))
    # One label for the whole, as of `combine`.
    label = mixed("sum of products", *(each.label for each in (*xs, *ys)))
    noisy = any(each.noisy for each in (*xs, *ys))
    fields = {"scale": first.scale * ys[0].scale, "real": real, "components": 3, "noisy": noisy}
    return dataclasses.replace(first, values=values, errors=errors, label=label, **fields)


@_compiled(2)
def relinearize_rescale(x, key, scale):
    return switched_and_rounded(x, x.level, scale)


@jax.jit
def multiply_by_i(x):
    x = as_complex(x)
    return dataclasses.replace(x, values=1j * x.values, errors=1j * x.errors, label=mixed("times i", x.label))


def decrypt(x: Any, secret: Any, dtype: Any) -> Any:
    return x.values.astype(result_dtype("decrypt", x.real, dtype))


def _of_one_kind(x, y):
    """Both real, or both with complex errors."""
    return (x, y) if x.real and y.real else (as_complex(x), as_complex(y))


def _product(x, y):
    """x y, errors and their product included, before any rounding."""
    x, y = _of_one_kind(x, y)
    values, errors = multiplied(x, y)
    return _both(x, y, values, errors, mixed("product", x.label, y.label), scale=x.scale * y.scale)


def multiplied(x: Any, y: Any) -> tuple[jax.Array, jax.Array]:
    """The values and the errors of a product, of operands of one kind."""
    u, v = x.values[..., None, :], y.values[..., None, :]
    return x.values * y.values, u * y.errors + v * x.errors + x.errors * y.errors


def _sum(x, y):
    x, y = _of_one_kind(x, y)
    label, components = mixed("sum", x.label, y.label), max(x.components, y.components)
    return _both(x, y, x.values + y.values, x.errors + y.errors, label, components=components)


def _both(x, y, values, errors, label, **fields):
    fields |= {"real": x.real and y.real, "noisy": x.noisy or y.noisy}
    return dataclasses.replace(x, values=values, errors=errors, label=label, **fields)


def _times(x, factor):
    return dataclasses.replace(x, values=x.values * factor, errors=x.errors * factor, label=mixed("times", x.label))


def _weighted(x, weight):
    """x times a number."""
    weight = jnp.asarray(weight).astype(x.values.dtype)
    return dataclasses.replace(_times(x, weight), label=mixed("weighted", x.label, label_of(weight)))


def _plus(x, number):
    number = jnp.asarray(number).astype(x.values.dtype)
    return dataclasses.replace(x, values=x.values + number, label=mixed("plus", x.label, label_of(number)))


def switched_and_rounded(x: Any, level: int, scale: float) -> Any:
    """A relinearisation merged with the rescale from `level`."""
    keys = noise.key_errors(x.params, level) / float(x.params.moduli[level]) ** 2
    x = dataclasses.replace(x, label=mixed("switch", x.label), level=level - 1, scale=scale, components=2)
    return disturbed(x, "rescale", noise.rounding(x.params) + keys, True)


def rounded(x: Any) -> Any:
    """x with the error of a division that ended at its level and scale."""
    if x.components == 1:
        return disturbed(x, "rescale", 1 / 12, False)
    return disturbed(x, "rescale", noise.rounding(x.params, x.components), True)
