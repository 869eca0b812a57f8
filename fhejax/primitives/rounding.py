"""Floating-point coefficients to residues, and residues back to floats.

Both go through exact integers, so that no scale and no modulus is too large for a double. A double is read as
m 2^e with an integer m < 2^53; a product of two has an integer of 106 bits, held in two words.

Source: Knuth, "The Art of Computer Programming", volume 2, 4.3.2 (mixed radix, Garner's algorithm).
"""

import itertools
import math
import operator
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float64

from fhejax import _compat
from fhejax.primitives.define import check_residues, define_primitive
from fhejax.primitives.modular import (
    Residues,
    add_mod,
    limb_constants,
    multiply_high,
    multiply_mod,
    power_of_two_table,
    subtract_mod,
)
from fhejax.primitives.ntt import inverse_ntt, ntt


def round_to_residues(a: Float64[Array, "*batch N"], scale: float, moduli: tuple[int, ...]) -> Residues:
    """round(a scale) modulo each prime, exactly.

    The product of the two doubles is taken as a rational number and rounded to the nearest integer, ties away from
    zero, whatever its size. An infinity or NaN gives residues without meaning.

    Args:
      a: `float64[*batch, N]`.
      scale: positive and finite; static.
      moduli: distinct odd primes below 2^61.

    Returns:
      `uint64[*batch, limbs, N]`, reduced.

    Raises:
      TypeError: `a` is not `float64`.
      ValueError: the scale is not positive and finite.
    """
    return _round_to_residues(a, scale=float(scale), moduli=moduli)


def residues_to_float(x: Residues, moduli: tuple[int, ...]) -> Float64[Array, "*batch N"]:
    """The centred integers, in (-Q/2, Q/2), that the residues stand for.

    Args:
      x: `uint64[*batch, limbs, N]`, coefficient form, reduced.
      moduli: one prime a limb; Q is their product.

    Returns:
      `float64[*batch, N]`: exact below 2^53 in absolute value, else with a relative error of at most 5 2^-53; infinite
      where the integer exceeds the largest double.

    Raises:
      TypeError: `x` is not `uint64`.
      ValueError: the limb count differs from `len(moduli)`.
    """
    return _residues_to_float(x, moduli=moduli)


def encode_coefficients(a: Float64[Array, "*batch N"], scale: float, moduli: tuple[int, ...]) -> Residues:
    """`round_to_residues`, carried to NTT form. Arguments and errors as there."""
    return _encode_coefficients(a, scale=float(scale), moduli=moduli)


def decode_coefficients(x: Residues, moduli: tuple[int, ...]) -> Float64[Array, "*batch N"]:
    """`residues_to_float` of residues in NTT form. Arguments and errors as there."""
    return _decode_coefficients(x, moduli=moduli)


def places(moduli: tuple[int, ...]) -> np.ndarray:
    """The product of the moduli below each, to the nearest double: `float64[limbs]`."""
    products = itertools.accumulate(moduli[:-1], operator.mul, initial=1)
    return np.array([float(p) if p <= int(sys.float_info.max) else math.inf for p in products])


def _split_scale(scale: float) -> tuple[int, int]:
    """(m, e) with scale = m 2^e and m < 2^53."""
    mantissa, exponent = math.frexp(scale)
    return int(math.ldexp(mantissa, 53)), exponent - 53


def _reference_round(a, *, scale, moduli):
    factor, factor_exponent = _split_scale(scale)
    bits = lax.bitcast_convert_type(a, jnp.uint64)
    field = (bits >> 52).astype(jnp.int64) & 0x7FF
    mantissa = (bits & jnp.uint64((1 << 52) - 1)) | jnp.where(field > 0, jnp.uint64(1 << 52), jnp.uint64(0))
    exponent = jnp.maximum(field, 1) - 1075 + factor_exponent
    high, low = multiply_high(mantissa, jnp.uint64(factor)), mantissa * jnp.uint64(factor)
    high, low = _round_shift(high, low, jnp.maximum(-exponent, 0))
    residues = _reduce_two_words(high[..., None, :], low[..., None, :], moduli)
    largest = max(2047 - 1075 + factor_exponent, 0)
    powers = jnp.take(power_of_two_table(moduli, largest + 1), jnp.maximum(exponent, 0), axis=1)
    q, mu, shift = (jnp.asarray(constant) for constant in limb_constants(moduli))
    residues = multiply_mod(residues, jnp.moveaxis(powers, 0, -2), q, mu, shift)
    return jnp.where((bits >> 63 == 1)[..., None, :], subtract_mod(jnp.zeros_like(residues), residues, q), residues)


def _round_shift(high, low, count):
    """floor(x / 2^count + 1/2) for the 106-bit x = high 2^64 + low, in two words."""
    less = jnp.clip(count - 1, 0, 127).astype(jnp.uint64)  # from 107 on the result is 0 in any case
    short = jnp.minimum(less, 63)
    carried = jnp.where(short > 0, high << (64 - jnp.maximum(short, 1)), 0)
    low_part = jnp.where(less < 64, low >> short | carried, high >> (jnp.maximum(less, 64) - 64))
    high_part = jnp.where(less < 64, high >> short, 0)
    plus_one = low_part + 1
    rounded_high = high_part + (plus_one == 0).astype(jnp.uint64)
    rounded = rounded_high >> 1, plus_one >> 1 | rounded_high << 63
    return tuple(jnp.where(count > 0, new, old) for new, old in zip(rounded, (high, low), strict=True))


def _reduce_two_words(high, low, moduli):
    q, mu, shift = (jnp.asarray(constant) for constant in limb_constants(moduli))
    word = jnp.asarray(np.array([[(1 << 64) % modulus] for modulus in moduli], np.uint64))
    return add_mod(multiply_mod(_remainder(high, q), word, q, mu, shift), _remainder(low, q), q)


def _remainder(x, q):
    return lax.rem(*jnp.broadcast_arrays(x, q))


def _mixed_radix_digits(x: jax.Array, moduli: tuple[int, ...]) -> jax.Array:
    """v_i in limb i, `uint64[*batch, limbs, N]`, with x = v_0 + q_0 (v_1 + q_1 (v_2 + ...)) and 0 <= v_i < q_i."""
    q, mu, shift = (jnp.asarray(constant) for constant in limb_constants(moduli))
    inverses = np.array([[pow(a, -1, b) if a != b else 0 for b in moduli] for a in moduli], np.uint64)[..., None]
    limb = np.arange(len(moduli))[:, None]

    def take_digit(i, x):
        """Digit i is known: (x - v_i) / q_i in the limbs above it."""
        digit = lax.dynamic_slice_in_dim(x, i, 1, axis=-2)
        quotient = multiply_mod(subtract_mod(x, _remainder(digit, q), q), jnp.asarray(inverses)[i], q, mu, shift)
        return jnp.where(limb > i, quotient, x)

    # A loop, not an unrolled one: XLA takes half a minute to compile twenty steps.
    return lax.fori_loop(0, len(moduli) - 1, take_digit, x)


def _reference_to_float(x, *, moduli):
    """Of a negative number the complement: Q - x has the digits q_i - 1 - v_i, plus 1."""
    digits = jnp.moveaxis(_mixed_radix_digits(x, moduli), -2, 0)
    negative = jnp.zeros(digits[0].shape, bool)
    for digit, q in zip(digits, moduli, strict=True):  # against (Q - 1) / 2, whose digits are (q_i - 1) / 2
        negative = jnp.where(digit == q // 2, negative, digit > q // 2)
    total = jnp.zeros(digits[0].shape, jnp.float64)
    for i, (digit, q, place) in enumerate(zip(digits, moduli, places(moduli), strict=True)):
        digit = jnp.where(negative, jnp.uint64(q - (i > 0)) - digit, digit)
        total = total + jnp.where(digit == 0, 0.0, digit.astype(jnp.float64) * place)  # a place may be infinite
    return jnp.where(negative, -total, total)


def _compose_encode(a, *, scale, moduli):
    return ntt(round_to_residues(a, scale, moduli), moduli)


def _compose_decode(x, *, moduli):
    return residues_to_float(inverse_ntt(x, moduli), moduli)


def _abstract_round(name):
    def abstract(a, *, scale, moduli):
        if a.dtype != np.float64 or not a.ndim:
            raise TypeError(f"{name}: got {a.dtype}{list(a.shape)}; need float64[*batch, N], made under x64")
        if not 0 < scale < math.inf:
            raise ValueError(f"{name}: scale = {scale}; need a positive finite number")
        return _compat.like([a], (*a.shape[:-1], len(moduli), a.shape[-1]), np.uint64, a.ndim - 1)

    return abstract


def _abstract_to_float(name):
    def abstract(x, *, moduli):
        check_residues(name, x, moduli)
        return _compat.like([x], (*x.shape[:-2], x.shape[-1]), np.float64, x.ndim - 2)

    return abstract


def _with_places(*, moduli):
    return {"places": places(moduli)}


_round_to_residues = define_primitive(
    "round_to_residues", abstract=_abstract_round("round_to_residues"), reference=_reference_round
)
_residues_to_float = define_primitive(
    "residues_to_float",
    abstract=_abstract_to_float("residues_to_float"),
    reference=_reference_to_float,
    derived=_with_places,
)
_encode_coefficients = define_primitive(
    "encode_coefficients", abstract=_abstract_round("encode_coefficients"), composition=_compose_encode
)
_decode_coefficients = define_primitive(
    "decode_coefficients",
    abstract=_abstract_to_float("decode_coefficients"),
    composition=_compose_decode,
    derived=_with_places,
)
