"""Change of basis: from residues modulo some primes to residues of the same integer modulo others.

ModUp, ModDown, rescale, and ModDown merged with rescale are all one conversion followed by arithmetic. The integer
meant is the centred one, in (-C/2, C/2) for a source basis with product C.

The rule, the same in every lowering: y_i = x_i (C/c_i)^-1 mod c_i, so that x = sum y_i (C/c_i) - v C with
v = round(sum y_i / c_i). The quotients are taken in fixed point: with t the bit length of c_i and
top_i = y_i brought to 52 bits (shifted left by 52 - t, or right by t - 52),

    v = floor((2^50 + sum floor(top_i floor(2^(t + 51) / c_i) / 2^52)) / 2^51),

which uses 52-bit products only. Each term is too small by less than 2 units of 2^-51, so v is right unless x lies
within (limbs) 2^-49 C of +-C/2, where the result is congruent to x but may lie just outside the interval. With one
source prime c, v = [y > (c - 1) / 2], which is exact.

Source: Halevi, Polyakov & Shoup, "An Improved RNS Variant of the BFV Homomorphic Encryption Scheme", 2019, section
2; Han & Ki, "Better Bootstrapping for Approximate Homomorphic Encryption", 2020, section 3.
"""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt64

from fhejax import _compat
from fhejax.primitives.define import check_residues, define_primitive
from fhejax.primitives.modular import (
    Residues,
    add_mod,
    limb_constants,
    multiply_high,
    multiply_mod,
    multiply_scalar,
    subtract,
)
from fhejax.primitives.ntt import inverse_ntt, ntt


def convert_basis(x: Residues, source: tuple[int, ...], target: tuple[int, ...]) -> UInt64[Array, "... target N"]:
    """Carries centred integers from one basis to another, in coefficient form.

    Args:
      x: `uint64[*batch, len(source), N]`, reduced.
      source: the primes that `x` is reduced by.
      target: the primes wanted.

    Returns:
      `uint64[*batch, len(target), N]`, reduced: the same integers, taken in (-C/2, C/2).

    Raises:
      TypeError: `x` is not `uint64`.
      ValueError: the limb count differs from `len(source)`.
    """
    return _convert_basis(x, source=source, target=target)


def mod_raise(x: Residues, source: tuple[int, ...], more: tuple[int, ...]) -> UInt64[Array, "... raised N"]:
    """Extends a polynomial to further primes, in NTT form: ModRaise from q_0 to the whole chain, or ModUp of a digit.

    Args:
      x: `uint64[*batch, len(source), N]`.
      source: the primes that `x` is reduced by.
      more: the primes to add.

    Returns:
      `uint64[*batch, len(source) + len(more), N]`: the same centred integers, limbs of `source` first. After ModRaise a
      ciphertext of m encrypts m + q_0 I for a small integer polynomial I.

    Raises:
      TypeError: `x` is not `uint64`.
      ValueError: the limb count differs.

    Source: Cheon, Han, Kim, Kim & Song, "Bootstrapping for Approximate Homomorphic Encryption", 2018, section 3.
    """
    return _mod_raise(x, source=source, more=more)


def mod_down(x: Residues, keep: tuple[int, ...], drop: tuple[int, ...]) -> UInt64[Array, "... kept N"]:
    """Divides by the product D of the dropped primes and rounds to nearest, in NTT form.

    Rescaling drops the last ciphertext prime; ModDown drops the special primes; both at once is the merged ModDown.

    Args:
      x: `uint64[*batch, len(keep) + len(drop), N]`, limbs of `keep` first.
      keep: the primes that stay.
      drop: the primes to divide by.

    Returns:
      `uint64[*batch, len(keep), N]`: (x - [x]_D) / D with [x]_D centred.

    Raises:
      TypeError: `x` is not `uint64`.
      ValueError: the limb count differs, or nothing is kept.
    """
    return _mod_down(x, keep=keep, drop=drop)


def inverse_products(moduli: tuple[int, ...], factors: tuple[int, ...]) -> np.ndarray:
    """(product of `factors`)^-1 modulo each of `moduli`: `uint64[limbs]`."""
    product = math.prod(factors)
    return np.array([pow(product, -1, q) for q in moduli], np.uint64)


def _reference_convert(x, *, source, target):
    product = math.prod(source)
    cofactors = [product // c for c in source]
    inverses = np.array([[pow(f, -1, c)] for f, c in zip(cofactors, source, strict=True)], np.uint64)
    y = multiply_mod(x, inverses, *(jnp.asarray(c) for c in limb_constants(source)))
    constants = [jnp.asarray(c) for c in limb_constants(target)]
    q = constants[0]
    column = lambda value: np.array([[value % d] for d in target], np.uint64)
    total = multiply_mod(_reduce(_overflow(y, source)[..., None, :], target), column(-product), *constants)
    for i, cofactor in enumerate(cofactors):
        term = multiply_mod(_reduce(y[..., i : i + 1, :], target), column(cofactor), *constants)
        total = add_mod(total, term, q)
    return total


def _reduce(y, target):
    """y mod d for each target prime, any y < 2^64: `[..., 1, N] -> [..., limbs, N]`."""
    q = np.array(target, np.uint64)[:, None]
    mu = np.array([[(1 << 64) // d] for d in target], np.uint64)
    r = y - multiply_high(y, mu) * q  # the estimate is at most one too small
    return jnp.minimum(r, r - q)


def _overflow(y, source):
    """v = round(sum y_i / c_i), `uint64[..., N]`, by the fixed-point rule of this module."""
    if len(source) == 1:
        return (y[..., 0, :] > np.uint64(source[0] // 2)).astype(np.uint64)
    total = jnp.full((*y.shape[:-2], y.shape[-1]), 1 << 50, np.uint64)
    for i, c in enumerate(source):
        t = c.bit_length()
        row = y[..., i, :]
        top = row << np.uint64(52 - t) if t <= 52 else row >> np.uint64(t - 52)
        total = total + multiply_high(top, jnp.uint64(((1 << (t + 51)) // c) << 12))
    return total >> np.uint64(51)


def _compose_mod_raise(x, *, source, more):
    raised = ntt(convert_basis(inverse_ntt(x, source), source, more), more)
    return jnp.concatenate([x, raised], axis=-2)


def _compose_mod_down(x, *, keep, drop):
    kept = len(keep)
    remainder = inverse_ntt(x[..., kept:, :], drop)
    lifted = ntt(convert_basis(remainder, drop, keep), keep)
    return multiply_scalar(subtract(x[..., :kept, :], lifted, keep), jnp.asarray(inverse_products(keep, drop)), keep)


def _abstract_convert(x, *, source, target):
    check_residues("convert_basis", x, source)
    return _compat.like([x], (*x.shape[:-2], len(target), x.shape[-1]), x.dtype, x.ndim - 2)


def _abstract_mod_raise(x, *, source, more):
    check_residues("mod_raise", x, source)
    return _compat.like([x], (*x.shape[:-2], len(source) + len(more), x.shape[-1]), x.dtype, x.ndim - 2)


def _abstract_mod_down(x, *, keep, drop):
    check_residues("mod_down", x, keep + drop)
    if not keep or not drop:
        raise ValueError(f"mod_down: keeps {len(keep)} moduli and drops {len(drop)}; both must be at least one")
    return _compat.like([x], (*x.shape[:-2], len(keep), x.shape[-1]), x.dtype, x.ndim - 2)


_convert_basis = define_primitive(
    "convert_basis",
    abstract=_abstract_convert,
    reference=_reference_convert,
)
_mod_raise = define_primitive(
    "mod_raise",
    abstract=_abstract_mod_raise,
    composition=_compose_mod_raise,
)
_mod_down = define_primitive(
    "mod_down",
    abstract=_abstract_mod_down,
    composition=_compose_mod_down,
)
