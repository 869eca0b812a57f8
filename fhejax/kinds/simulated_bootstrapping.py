"""Bootstrapping of simulated values.

Raising the modulus adds q_0 I to the message, with a draw of I as it is distributed: t / q_0 is a sum of h + 1 uniform
numbers, one for each coefficient of the sparse secret that is not zero, and one that t modulo q_0 decides. The other
stages are those of ciphertexts. Between raising and the sine, single precision would hold 15 bits of the message beside
its multiple of q_0, so a whole bootstrapping is computed in double precision, whatever the caller's flag. It leaves the
values as they are, and their gradients: all that it adds is an error.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.kinds import noise
from fhejax.kinds.domains import warn_outside
from fhejax.kinds.draws import as_complex, disturbed, hashed, mixed
from fhejax.primitives.embedding import coefficients_to_slots, slots_to_coefficients

_RANGE = 1 + 2.0**-10  # rounding may carry values so far beyond 1, which does no harm
_WORDS = (
    "coefficients",
    "what bootstrapping is made for,",
    "and comes out wrong: messages are at most 1; divide the values, and multiply the result",
)


def refresh(x: Any, stages: Any, keys: Any) -> Any:
    height, fixed = keys.bootstrapping.height, jax.lax.stop_gradient(x)
    values, errors, like = _in_double(fixed, stages, keys, x.values.dtype)
    values = values + height * (x.values - fixed.values)
    errors = errors + height * (x.errors - fixed.errors)
    return dataclasses.replace(like, values=values, errors=errors)


@_compat.x64
def _in_double(x, stages, keys, kind):
    """The values and errors in the caller's type, and the result as it is."""
    wide = np.complex128 if np.issubdtype(kind, np.complexfloating) else np.float64
    x = dataclasses.replace(x, values=x.values.astype(wide), errors=x.errors.astype(wide))
    result = stages(dataclasses.replace(x, noisy=False), keys)
    # What the polynomials leave of the multiples is an error as any other.
    exact = keys.bootstrapping.height * x.values
    errors = result.errors + (result.values - exact)[..., None, :]
    result = stages(x, keys) if x.noisy else dataclasses.replace(result, values=exact)
    return result.values.astype(kind), errors.astype(kind), result


def mod_raise(x: Any, keys: Any) -> Any:
    how, x = keys.bootstrapping, as_complex(x)
    coefficients = _coefficients(jax.lax.stop_gradient(x.values))
    narrow = dataclasses.replace(x, values=coefficients.astype(x.values.real.dtype), noisy=False)
    warn_outside(narrow, "bootstrap", (-_RANGE, _RANGE), _WORDS)
    return _raised(x, how.preset.secret_weight, how.raised)


@_compat.x64
@jax.jit
def _coefficients(values):
    return slots_to_coefficients(values.astype(jnp.complex128), 2 * values.shape[-1])


@functools.partial(jax.jit, static_argnums=(1, 2))
def _raised(x, weight, factor):
    params, label = x.params, mixed("raise", x.label)
    x = disturbed(dataclasses.replace(x, label=label), "to sparse", noise.key_switch_to_sparse(params, weight), False)
    multiples = _multiples(mixed("multiples", label), weight, x.slots).astype(x.values.dtype)
    top = params.max_level
    # Integers modulo q_0, times the factor, at another scale.
    message, whole = (size * factor / params.scale_at(top) for size in (x.scale, params.moduli[0]))
    values, errors = message * x.values + whole * multiples, message * x.errors
    x = dataclasses.replace(x, values=values, errors=errors, level=top, scale=params.scale_at(top))
    return disturbed(x, "to dense", noise.key_switch(params, top), True)


@_compat.x64
def _multiples(label, weight, slots):
    """The integers that multiply q_0, as slots of the polynomial that has them for coefficients."""
    position = jnp.arange(2 * slots, dtype=jnp.uint32)

    def add_uniform(i, total):
        words = hashed(hashed(position * np.uint32(0x9E3779B1) ^ label[..., :1]) ^ label[..., 1:] ^ hashed(i))
        return total + (words >> np.uint32(8)).astype(jnp.float32) / np.float32(2**24) - np.float32(0.5)

    zeros = jnp.zeros((*label.shape[:-1], 2 * slots), jnp.float32)
    total = jax.lax.fori_loop(np.uint32(1), np.uint32(1 + weight), add_uniform, zeros)
    return coefficients_to_slots(jnp.round(total).astype(jnp.float64), slots)


def repack(x: Any, slots: int) -> Any:
    if slots < x.slots:
        return dataclasses.replace(x, values=x.values[..., :slots], errors=x.errors[..., :slots], slots=slots)
    # Errors between the coefficients of fewer slots are left out: the way back would take them away again.
    values, errors = (jnp.concatenate([part, part], axis=-1) for part in (x.values, x.errors))
    return dataclasses.replace(x, values=values, errors=errors, slots=slots)


def with_imaginary(x: Any, y: Any) -> Any:
    # What `as_complex` would add are errors like all of the real ones; but most of those were made real with the slots.
    # Left out are those that the sine alone has added since.
    values, errors = x.values + 1j * y.values, x.errors + 1j * y.errors
    return dataclasses.replace(x, values=values, errors=errors, label=mixed("plus i", x.label, y.label), real=False)


def known_real(x: Any) -> Any:
    return dataclasses.replace(x, values=x.values.real, errors=x.errors.real, real=True)
