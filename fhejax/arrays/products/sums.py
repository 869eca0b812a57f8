"""Sums that products of arrays are made of: of ciphertexts times numbers, and of products of ciphertexts.

Each is one pass over its operands with one rescale at the end. `fhejax.kinds.simulated_sums` registers the same
functions for simulated values. Operands have been checked and aligned.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from fhejax import _compat
from fhejax.kinds.ciphertext_operations import for_each_kind
from fhejax.primitives import modular
from fhejax.primitives.basis import mod_down
from fhejax.primitives.combination import combination
from fhejax.primitives.multiply_ciphertexts import relinearize_rescale
from fhejax.primitives.ntt import ntt
from fhejax.primitives.rounding import round_to_residues
from fhejax.primitives.weighted_sums import weighted_sums
from fhejax.scheme.values import Ciphertext


@for_each_kind
def weighted(x: Any, weights: Any, scale: float) -> Any:
    """For each column of the weights the sum of x_i times weights[i], rescaled to `scale`, one level lower.

    Args:
      x: a batch `[*batch, terms]`.
      weights: real or complex `[terms, sums]`; encoded at the scale at which the product is canonical.
      scale: of the result.

    Returns:
      `[*batch, sums]`.
    """
    real = x.real and not jnp.iscomplexobj(weights)
    return Ciphertext(_weighted(x.data, weights, x.params, x.level), x.params, x.level - 1, scale, x.slots, real)


@for_each_kind
def tensor_sum(first: Any, xs: Sequence[Any], ys: Sequence[Any]) -> Any:
    """The sum of the raw products x_i y_i, of three components, at the level of all.

    Args:
      first: of `xs`, by whose kind the work is done.
      xs, ys: as many of each, of two components, each at one scale; batch axes are broadcast.
    """
    data = _tensor_sum([x.data for x in xs], [y.data for y in ys], first.params.moduli_at(first.level))
    real = all(each.real for each in (*xs, *ys))
    return Ciphertext(data, first.params, first.level, first.scale * ys[0].scale, first.slots, real)


@for_each_kind
def finished(x: Any, key: Any, scale: float) -> Any:
    """A sum of raw products relinearised and rescaled to `scale` with a single rounding, one level lower."""
    data = _relinearized(x.data, key, x.params, x.level)
    return Ciphertext(data, x.params, x.level - 1, scale, x.slots, x.real)


@_compat.jit(2)
def _tensor_sum(xs, ys, moduli):
    return combination(xs, ys, [], jnp.zeros((0, len(moduli)), jnp.uint64), moduli)


@_compat.jit(2, 3)
def _weighted(data, weights, params, level):
    moduli = params.moduli_at(level)
    if jnp.iscomplexobj(weights):
        # i x is x times X^(N/2), exactly.
        monomial = jnp.zeros((len(moduli), params.degree), jnp.uint64).at[:, params.degree // 2].set(1)
        data = jnp.concatenate([data, modular.multiply(data, ntt(monomial, moduli), moduli)], axis=-4)
        weights = jnp.concatenate([jnp.real(weights), jnp.imag(weights)])
    numbers = jnp.swapaxes(weights, -1, -2).astype(jnp.float64)
    residues = round_to_residues(numbers, params.plain_scale_at(level), moduli)
    return mod_down(weighted_sums(data, residues, moduli), moduli[:-1], moduli[-1:])


@_compat.jit(2, 3)
def _relinearized(data, key, params, level):
    return relinearize_rescale(data, key, params.moduli_at(level), params.special_moduli, params.digit_size)
