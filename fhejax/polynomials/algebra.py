"""Arithmetic on the coefficients of Chebyshev series: arrays `[degree + 1]`, or `[degree + 1, slots]`, c_0 first.

What is known is computed by NumPy in double precision; what is traced by JAX, so that it has gradients. Between the
Chebyshev and the power basis the way leads over Python's integers: doubles are integers over a power of two, so that
only the results are rounded, once.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np


def add(a: Any, b: Any) -> Any:
    """The sum of two series."""
    (a, b), xp = _align(a, b), _library(a, b)
    length = max(len(a), len(b))

    def padded(series):
        return xp.pad(series, [(0, length - len(series))] + [(0, 0)] * (series.ndim - 1))

    return padded(a) + padded(b)


def multiply(a: Any, b: Any) -> Any:
    """The product of two series, by T_i T_j = (T_(i+j) + T_|i-j|) / 2."""
    (a, b), xp = _align(a, b), _library(a, b)
    halves = a[:, None] * b[None] / 2
    i, j = np.arange(len(a))[:, None], np.arange(len(b))
    total = xp.zeros((len(a) + len(b) - 1, *halves.shape[2:]), halves.dtype)
    if xp is jnp:
        return total.at[i + j].add(halves).at[abs(i - j)].add(halves)
    np.add.at(total, i + j, halves)
    np.add.at(total, abs(i - j), halves)
    return total


def compose(outer: Any, inner: Any) -> Any:
    """The series sum_k outer_k T_k(w), where w is the series `inner`; by Clenshaw's recurrence."""
    after, second = outer[:0], outer[:0]
    for k in range(len(outer) - 1, 0, -1):
        product = multiply(2 * inner, after) if len(after) else after
        after, second = add(add(product, -second), outer[k : k + 1]), after
    product = multiply(inner, after) if len(after) else after
    return add(add(product, -second), outer[:1])


def derivative(series: Any) -> Any:
    """The derivative by u, by c'_j = 2 (sum of k c_k over k = j + 1, j + 3, ...), halved for j = 0."""
    xp, degree = _library(series), len(series) - 1
    if degree == 0:
        return 0 * series
    shape = (-1,) + (1,) * (series.ndim - 1)
    terms = series[:0:-1] * np.arange(degree, 0, -1).reshape(shape).astype(series.dtype) * 2
    pairs = xp.concatenate([terms, 0 * terms[: degree % 2]]).reshape(-1, 2, *series.shape[1:])
    sums = xp.cumsum(pairs, axis=0).reshape(-1, *series.shape[1:])[:degree][::-1]
    return xp.concatenate([sums[:1] / 2, sums[1:]])


def from_power(powers: Any, domain: tuple[float, float]) -> Any:
    """The series on a domain of a_0 + a_1 x + a_2 x^2 + ..."""
    return _convert(_exact_from_power, powers, domain)


def to_power(series: Any, domain: tuple[float, float]) -> Any:
    """The a_i of a_0 + a_1 x + a_2 x^2 + ... of a series on a domain."""
    return _convert(_exact_to_power, series, domain)


def _library(*arrays: Any) -> Any:
    return np if all(isinstance(array, np.ndarray) for array in arrays) else jnp


def _align(a, b):
    """A series for all slots, beside one for each of them, gets an axis."""
    most = max(a.ndim, b.ndim)
    return tuple(x[:, None] if x.ndim < most else x for x in (a, b))


# --- the power basis ---------------------------------------------------------------------------------------------


def _convert(exact: Callable[..., Any], coefficients: Any, domain: tuple[float, float]) -> Any:
    if isinstance(coefficients, np.ndarray):
        return exact(coefficients, domain)
    matrix = jnp.asarray(_matrix(exact, len(coefficients), domain), coefficients.dtype)
    return jnp.tensordot(matrix, coefficients, 1, precision="highest")


@functools.lru_cache(maxsize=64)
def _matrix(exact: Callable[..., Any], size: int, domain: tuple[float, float]) -> np.ndarray:
    return exact(np.eye(size), domain)


def _exact_from_power(powers, domain):
    """Horner's rule with x = (W u + S) / A; every step multiplies what there is by 2 A."""
    scale, shift, width = _affine(domain)
    integers, bits = _dyadic(powers)
    total, denominator = integers[-1:], 1
    for power in integers[-2::-1]:
        denominator *= 2 * scale
        product = width * _times_2u(total)
        product[:-1] += 2 * shift * total
        product[0] += power * denominator
        total = product
    return _round(total, denominator << bits)


def _times_2u(series):
    """2 u T_j = T_(j+1) + T_|j-1|."""
    zero = 0 * series[:1]
    product = np.concatenate([zero, series]) + np.concatenate([series[1:], zero, zero])
    product[1] += series[0]
    return product


def _exact_to_power(series, domain):
    """Clenshaw's recurrence with u = (A x - S) / W; every step multiplies what there is by W."""
    scale, shift, width = _affine(domain)
    integers, bits = _dyadic(series)
    after = second = 0 * integers
    denominator = 1
    for k in range(len(series) - 1, -1, -1):
        factor = 2 if k else 1
        product = factor * (scale * np.concatenate([0 * after[:1], after[:-1]]) - shift * after) - width**2 * second
        product[0] += integers[k] * denominator
        after, second = product, after
        denominator *= width if k else 1
    return _round(after, denominator << bits)


def _affine(domain):
    """Integers (A, S, W) with u = (A x - S) / W from -1 to 1 over the domain."""
    (low, high), bits = _dyadic(np.array(domain))
    numbers = 2 << bits, low + high, high - low
    return tuple(number // math.gcd(*numbers) for number in numbers)


def _dyadic(values):
    """(integers, bits) with values = integers / 2^bits, exactly."""
    ratios = [float(value).as_integer_ratio() for value in values.flat]
    bits = max(denominator.bit_length() for _, denominator in ratios) - 1
    integers = [numerator << (bits + 1 - denominator.bit_length()) for numerator, denominator in ratios]
    return np.array(integers, object).reshape(values.shape), bits


def _round(integers, denominator):
    """Python's quotient of two integers is the double next to it, or an OverflowError."""
    return np.array([int(integer) / denominator for integer in integers.flat]).reshape(integers.shape)
