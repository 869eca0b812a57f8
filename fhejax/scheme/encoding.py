"""Encoding: arrays of numbers to plaintexts, and back.

The values become the slots of a polynomial (see `fhejax.primitives.embedding`), its coefficients are multiplied by the
scale and rounded to integers, and these are kept as residues in NTT form. Both functions work with `jax_enable_x64`
off: 64-bit values do not pass through 32 bits on the way.
"""

import functools
import math
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify

from fhejax import _compat
from fhejax.parameters.parameters import Parameters
from fhejax.primitives.embedding import coefficients_to_slots, slots_to_coefficients
from fhejax.primitives.rounding import decode_coefficients, encode_coefficients
from fhejax.scheme.values import Plaintext

_TOGETHER = 8  # plaintexts encoded at a time, which bounds the memory that encoding takes


def encode(
    values: Any, params: Parameters, *, level: int | None = None, scale: float | None = None, slots: int | None = None
) -> Plaintext:
    """Encodes numbers as a plaintext.

    Values that are not finite, or too large, are found in eager calls. Inside `jit` and `vmap` no value can be looked
    at; there `jax.experimental.checkify` finds them, and without it the plaintext is garbage.

    Args:
      values: real or complex numbers `[*batch, k]` with k from 1 to `slots`, an array or nested lists; zeros are put
        behind them. A single number goes into every slot.
      params: the parameter set.
      level: of the plaintext, from 0 to `params.max_level`; `params.fresh_level` if None.
      scale: what the slots are multiplied by, static; `params.scale_at(level)` if None.
      slots: how many there are, a power of two up to N/2; `params.slots` if None.

    Returns:
      A plaintext with `data` of shape `[*batch, level + 1, N]`, real if the dtype is. Error added: 1/sqrt(12) standard
      deviation in a coefficient, by rounding, and a relative 2^-52 log2(N) by floating point.

    Raises:
      TypeError: the values are not numbers, or the scale is not static.
      ValueError: a value that is not finite, or too large for the modulus; no values, or more than slots; a level,
        scale or number of slots that does not fit.

    Source: Cheon, Kim, Kim & Song, "Homomorphic Encryption for Arithmetic of Approximate Numbers", 2017, section 3.2.

    Example:
      >>> import jax, numpy as np, fhejax as fhe
      >>> params = fhe.Parameters.for_depth(1)
      >>> fhe.decode(fhe.encode([0.5, -2.0], params, slots=2)).round(6).tolist()
      [0.5, -2.0]

      Looking for faults inside `jit`:

      >>> from jax.experimental import checkify
      >>> program = jax.jit(lambda x: fhe.encode(x, params))
      >>> error, _ = checkify.checkify(program)(np.array([1.0, np.nan]))
      >>> error.get()
      'encode: a value is not finite (`check` failed)'
    """
    array, level, scale, slots = checked_numbers(values, params, level, scale, slots)
    data, finite, fits = _encode(array, params, level, scale, slots)
    if _compat.is_traced(array):
        # Under the caller's x64 flag: checkify cannot join error codes that were made under both.
        checkify.debug_check(finite, "encode: a value is not finite")
        checkify.debug_check(
            fits, f"encode: a value is too large for the modulus at level {level} and scale {scale:.4g}"
        )
    real = not jnp.issubdtype(array.dtype, jnp.complexfloating)
    return Plaintext(data, params, level, scale, slots, real)


def checked_numbers(
    values: Any, params: Parameters, level: int | None, scale: float | None, slots: int | None
) -> tuple[Any, int, float, int]:
    """The arguments of `encode`, checked as far as they are known, and with their defaults: array, level, scale, slots.

    Raises:
      As `encode`.
    """
    level = _checked_level(params, level)
    scale = _checked_scale(params, level, scale)
    slots = checked_slots("encode", params, slots)
    array = _numbers(values)
    if array.ndim:
        _check_count(array.shape, slots, params)
    if _compat.is_traced(array):
        # With x64 off, eager vmap holds a NumPy double behind a float32 tracer. Under x64 they would contradict.
        return jnp.array(array, copy=True), level, scale, slots
    _check_values(_doubles(np.asarray(array)), params, level, scale, slots)
    return array, level, scale, slots


def decode(plaintext: Plaintext, *, dtype: Any = None) -> jax.Array:
    """Decodes a plaintext.

    Args:
      plaintext: of any level, scale and number of slots.
      dtype: a floating or complex dtype, honoured whether `jax_enable_x64` is on or off; if None, JAX's default float
        (or complex), which is 32 bits a number while the flag is off.

    Returns:
      `[*batch, slots]`, real if `plaintext.real`.

    Raises:
      TypeError: not a plaintext, or a dtype that cannot hold the slots.

    Example:
      >>> import fhejax as fhe
      >>> params = fhe.Parameters.for_depth(1)
      >>> fhe.decode(fhe.encode([1 + 2j], params, slots=1), dtype="complex128").round(6)
      Array([1.+2.j], dtype=complex128)
    """
    if not isinstance(plaintext, Plaintext):
        hint = "; type decrypt(secret_key, ciphertext)" if type(plaintext).__name__ == "Ciphertext" else ""
        raise TypeError(f"decode: got {type(plaintext).__name__}; need a Plaintext{hint}")
    x = plaintext
    return _decode(x.data, x.params, x.level, x.scale, x.slots, x.real, result_dtype("decode", x.real, dtype))


def encoded_diagonals(values: Any, params: Parameters, level: int) -> jax.Array:
    """Diagonals as plaintexts modulo QP at the canonical scale of the level, without repetition.

    Args:
      values: floating or complex `[*batch, terms, period]`, the period a power of two.
      params: the parameter set.
      level: of the ciphertexts that they multiply.

    Returns:
      `uint64[*batch, terms, limbs(QP), 2 period]`: of N values in NTT form each that stands for the N / (2 period)
      in a row that are equal.
    """
    moduli, scale = params.moduli_at(level) + params.special_moduli, params.plain_scale_at(level)
    *lead, period = values.shape

    def encode(slots):
        coefficients = slots_to_coefficients(slots.astype(jnp.complex128), params.degree)
        return encode_coefficients(coefficients, scale, moduli)[..., :: params.degree // (2 * period)]

    rows = jax.lax.map(encode, values.reshape(-1, period), batch_size=_TOGETHER)
    return rows.reshape(*lead, len(moduli), 2 * period)


def result_dtype(operation: str, real: bool, dtype: Any) -> np.dtype:
    """The dtype of decoded slots; None stands for the default under the x64 flag of the moment.

    Raises:
      TypeError: `dtype` is neither floating nor complex, or cannot hold complex slots.
    """
    if dtype is None:
        return jax.dtypes.canonicalize_dtype(float if real else complex)
    dtype = np.dtype(dtype)
    if jnp.issubdtype(dtype, jnp.complexfloating) or (real and jnp.issubdtype(dtype, jnp.floating)):
        return dtype
    kind, wanted = ("real", "a floating or complex dtype") if real else ("complex", "a complex dtype, or take jnp.real")
    raise TypeError(f"{operation}: the slots are {kind}, got dtype {dtype}; give {wanted}")


@_compat.x64
@functools.partial(jax.jit, static_argnums=(1, 2, 3, 4))
def _encode(values, params, level, scale, slots):
    """The residues, whether every value is finite, and whether every coefficient fits."""
    moduli = params.moduli_at(level)
    coefficients = _coefficients(values, params.degree, slots)
    largest = _to_float(Fraction(math.prod(moduli), 2) / Fraction(scale))
    fits = jnp.all(jnp.abs(coefficients) <= largest)
    return encode_coefficients(coefficients, scale, moduli), jnp.all(jnp.isfinite(values)), fits


def _coefficients(values, degree, slots):
    if values.ndim == 0:
        values = jnp.broadcast_to(values, (slots,))
    padding = [(0, 0)] * (values.ndim - 1) + [(0, slots - values.shape[-1])]
    return slots_to_coefficients(jnp.pad(values.astype(jnp.complex128), padding), degree)


@_compat.x64
@functools.partial(jax.jit, static_argnums=(1, 2, 3, 4, 5, 6))
def _decode(data, params, level, scale, slots, real, dtype):
    moduli = params.moduli_at(level)
    return slots_of(decode_coefficients(data, moduli), scale, slots, real, dtype)


def slots_of(coefficients: jax.Array, scale: float, slots: int, real: bool, dtype: np.dtype) -> jax.Array:
    """The slots `[*batch, slots]` of scaled coefficients `float64[*batch, N]`; traced under x64."""
    z = coefficients_to_slots(coefficients / scale, slots)
    return (z.real if real else z).astype(dtype)


@_compat.x64
def _numbers(values):
    """A NumPy or JAX array of real or complex numbers."""
    array = values if isinstance(values, jax.Array) else jnp.asarray(values) if _compat.is_traced(values) else None
    if array is None:
        array = np.asarray(values)
    if not (jnp.issubdtype(array.dtype, jnp.number) or array.dtype == bool):
        raise TypeError(
            f"encode: got {type(values).__name__} of dtype {array.dtype}; need real or complex numbers (dtype float, "
            "complex, int or bool)"
        )
    return _doubles(array) if isinstance(array, np.ndarray) else array


def _doubles(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if np.issubdtype(array.dtype, np.complexfloating) else np.float64, copy=False)


def _check_count(shape: tuple[int, ...], slots: int, params: Parameters):
    if shape[-1] == 0:
        raise ValueError(f"encode: got no values (shape {shape}); need 1 to {slots}, the slots, in the last axis")
    if shape[-1] > slots:
        room = f", or type slots=... (up to {params.degree // 2})" if slots < params.degree // 2 else ""
        raise ValueError(
            f"encode: got {shape[-1]} values for {slots} slots (shape {shape}); give at most {slots} in the last "
            f"axis{room}"
        )


def _check_values(array: np.ndarray, params: Parameters, level: int, scale: float, slots: int):
    """Refuses values that are not finite or do not fit. No coefficient exceeds the largest modulus of a slot."""
    peaks = [float(np.max(np.abs(part), initial=0.0)) for part in (np.real(array), np.imag(array))]
    if not all(map(math.isfinite, peaks)):
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"encode: values[{', '.join(map(str, index))}] = {array[index]} is not finite")
    half = Fraction(math.prod(params.moduli_at(level)), 2)
    if sum(map(Fraction, peaks)) * Fraction(scale) < half:
        return
    with jax.ensure_compile_time_eval():
        peak = float(np.max(np.abs(_concrete_coefficients(array, params.degree, slots))))
    # Complex values near the largest double may have overflowed; an infinite coefficient, or NaN, is too large.
    if not math.isfinite(peak) or Fraction(peak) * Fraction(scale) >= half:
        raise ValueError(
            f"encode: values up to {max(peaks):.4g} are too large for the modulus: level {level} and scale {scale:.4g} "
            f"hold |value| <= {_to_float(half / Fraction(scale)):.4g}; take a higher level or a smaller scale"
        )


@_compat.x64
@functools.partial(jax.jit, static_argnums=(1, 2))
def _concrete_coefficients(values, degree, slots):
    return _coefficients(values, degree, slots)


def _to_float(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return math.inf


def _checked_level(params: Parameters, level: int | None) -> int:
    if level is None:
        return params.fresh_level
    if not isinstance(level, (int, np.integer)) or not 0 <= level <= params.max_level:
        raise ValueError(f"encode: level = {level!r}; there are levels 0 to {params.max_level}")
    return int(level)


def _checked_scale(params: Parameters, level: int, scale: float | None) -> float:
    if scale is None:
        return params.scale_at(level)
    if _compat.is_traced(scale):
        raise TypeError("encode: the scale is part of the plaintext's type, so it must be static; got a traced value")
    scale, modulus = float(scale), math.prod(params.moduli_at(level))
    if not 0 < scale < math.inf or 2 * Fraction(scale) >= modulus:
        raise ValueError(
            f"encode: scale = {scale:.4g}; need a positive number below half the modulus, "
            f"2^{math.log2(modulus) - 1:.1f} at level {level}"
        )
    return scale


def checked_slots(operation: str, params: Parameters, slots: int | None) -> int:
    """A number of slots; that of the parameters if None.

    Raises:
      ValueError: no power of two up to N/2.
    """
    if slots is None:
        return params.slots
    if slots not in [1 << i for i in range(params.log_degree)]:
        raise ValueError(f"{operation}: slots = {slots!r}; need a power of two from 1 to N/2 = {params.degree // 2}")
    return int(slots)
