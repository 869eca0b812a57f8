"""The operations of simulated values: each in floats, and the error that encryption would add.

Errors go through the operations as the values do, products of errors included. What is added is taken from the noise
model, at the scale of the result. Left out is what lies below 2^-14 of the rounding that follows it: the rounding of
the numbers that multiply a ciphertext.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from fhejax.kinds import ciphertext_operations, noise
from fhejax.kinds.simulated import Simulated, as_complex, disturbed, label_of, mixed, padded
from fhejax.scheme.encoding import checked_numbers, decode
from fhejax.scheme.values import Plaintext, galois_steps


def _simulated(*static: int):
    """Registers a function under its own name for simulated values, compiled, with static positional arguments."""
    return lambda f: getattr(ciphertext_operations, f.__name__).register(Simulated, jax.jit(f, static_argnums=static))


@_simulated(1, 2, 3, 4)
def change_level(x, factor, top, level, scale):
    x = dataclasses.replace(x, label=mixed(f"level {level} {scale:.7g}", x.label), level=level, scale=scale)
    return rounded(x) if level < top else x


@_simulated()
def add(x, y):
    return _sum(x, y)


@_simulated()
def subtract(x, y):
    return _sum(x, _times(y, -1.0))


@_simulated()
def negate(x):
    return dataclasses.replace(_times(x, -1.0), label=mixed("negate", x.label))


@ciphertext_operations.plaintext_like.register(Simulated)
def plaintext_like(x, values):
    params, level, scale = x.params, x.level, x.scale
    if isinstance(values, Plaintext):
        return _plaintext(decode(values), params, values.level, values.scale, x.noisy)
    array, *_ = checked_numbers(values, params, level, scale, x.slots)
    return _plaintext(padded(array, x.slots), params, level, scale, x.noisy)


@functools.partial(jax.jit, static_argnums=(1, 2, 3, 4))
def _plaintext(array, params, level, scale, noisy):
    real = not jnp.issubdtype(array.dtype, jnp.complexfloating)
    label = jnp.broadcast_to(label_of(array), (*array.shape[:-1], 2))
    x = Simulated(
        array, jnp.zeros_like(array)[..., None, :], label, params, level, scale, array.shape[-1], real, 1, noisy
    )
    return disturbed(x, "encode", noise.encode(real), False)


@_simulated(2)
def add_plain(x, plain, negative):
    return _sum(x, _times(plain, -1.0) if negative else plain)


@_simulated(2)
def add_number(x, number, negative):
    return _plus(x, -jnp.asarray(number) if negative else number)


@_simulated(1)
def multiply_integer(x, factor):
    return dataclasses.replace(_times(x, float(factor)), label=mixed(f"times {factor}", x.label))


@_simulated(2)
def multiply_number(x, number, scale):
    return rounded(dataclasses.replace(_weighted(x, number), level=x.level - 1, scale=scale))


@_simulated(3)
def multiply_plain(x, plain, more, scale):
    total = functools.reduce(_sum, [_product(a, b) for a, b in ((x, plain), *more)])
    return rounded(dataclasses.replace(total, level=x.level - 1, scale=scale, components=x.components))


@_simulated()
def tensor(x, y):
    return dataclasses.replace(_product(x, y), components=3)


@_simulated(3)
def multiply(x, y, key, scale):
    return switched_and_rounded(_product(x, y), x.level, scale)


@_simulated()
def relinearize(x, key):
    x = dataclasses.replace(x, label=mixed("relinearize", x.label), components=2)
    return disturbed(x, "key switch", noise.key_switch(x.params, x.level), True)


@ciphertext_operations.automorphisms.register(Simulated)
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


@ciphertext_operations.combine.register(Simulated)
def combine(like, level, scale, terms, weights, products, constant, key):
    weights = jnp.asarray(weights)
    parts = [multiplied(x, y) for x, y in products]
    for x, weight in zip(terms, weights.astype(like.values.real.dtype), strict=True):
        if weight.ndim:
            plain_scale = scale * like.params.moduli[level + 1] / x.scale
            parts.append(multiplied(x, _plaintext(weight, x.params, level + 1, plain_scale, x.noisy)))
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
    total = Simulated(values, errors, label, like.params, level, scale, like.slots, real, 2, noisy)
    return switched_and_rounded(total, level + 1, scale) if products else rounded(total)


def _of_one_kind(x, y):
    """Both real, or both with complex errors."""
    return (x, y) if x.real and y.real else (as_complex(x), as_complex(y))


def _product(x, y):
    """x y, errors and their product included, before any rounding."""
    x, y = _of_one_kind(x, y)
    fields = x.params, x.level, x.scale * y.scale, x.slots, x.real and y.real, x.components, x.noisy or y.noisy
    return Simulated(*multiplied(x, y), mixed("product", x.label, y.label), *fields)


def multiplied(x: Simulated, y: Simulated) -> tuple[jax.Array, jax.Array]:
    """The values and the errors of a product, of operands of one kind."""
    u, v = x.values[..., None, :], y.values[..., None, :]
    return x.values * y.values, u * y.errors + v * x.errors + x.errors * y.errors


def _sum(x, y):
    x, y = _of_one_kind(x, y)
    fields = x.params, x.level, x.scale, x.slots, x.real and y.real, max(x.components, y.components), x.noisy or y.noisy
    return Simulated(x.values + y.values, x.errors + y.errors, mixed("sum", x.label, y.label), *fields)


def _times(x, factor):
    return dataclasses.replace(x, values=x.values * factor, errors=x.errors * factor, label=mixed("times", x.label))


def _weighted(x, weight):
    """x times a number."""
    weight = jnp.asarray(weight).astype(x.values.dtype)
    return dataclasses.replace(_times(x, weight), label=mixed("weighted", x.label, label_of(weight)))


def _plus(x, number):
    number = jnp.asarray(number).astype(x.values.dtype)
    return dataclasses.replace(x, values=x.values + number, label=mixed("plus", x.label, label_of(number)))


def switched_and_rounded(x: Simulated, level: int, scale: float) -> Simulated:
    """A relinearisation merged with the rescale from `level`."""
    keys = noise.key_errors(x.params, level) / float(x.params.moduli[level]) ** 2
    x = dataclasses.replace(x, label=mixed("switch", x.label), level=level - 1, scale=scale, components=2)
    return disturbed(x, "rescale", noise.rounding(x.params) + keys, True)


def rounded(x: Simulated) -> Simulated:
    """x with the error of a division that ended at its level and scale."""
    if x.components == 1:
        return disturbed(x, "rescale", 1 / 12, False)
    return disturbed(x, "rescale", noise.rounding(x.params, x.components), True)
