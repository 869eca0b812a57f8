"""The canonical embedding: complex slots <-> the real coefficients of a polynomial.

Slot j of a polynomial m of degree below N is m(zeta^(5^j)), zeta = exp(i pi / N). Rotating slots is then X -> X^5, and
conjugating them X -> X^(2N - 1). Fewer slots, n < N/2, live in the subring of X^(N/2n): the polynomial of degree below
2n that holds them, with X^(N/2n) for X.

With u_k = a_k + i a_(k+n) and N = 2n, slot j is the sum of u_k w_j^k over k < n, where w_j = exp(i pi 5^j / 2n). The
even and the odd k are two such sums of half the length at w_j^2, and w_(j+n/2) = -w_j: an FFT by decimation in time
whose slots stand in natural order.

Lowerings agree up to rounding. Coefficients are within 2^-52 log2(2n) times the largest modulus of a slot of the exact
ones; slots within 2^-52 log2(2n) times the 2-norm of the coefficients.

Source: Cheon, Han, Kim, Kim & Song, "Bootstrapping for Approximate Homomorphic Encryption", 2018, section 5.
"""

import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex128, Float64

from fhejax import _compat
from fhejax.primitives.automorphism import bit_reversal
from fhejax.primitives.define import define_primitive


def slots_to_coefficients(z: Complex128[Array, "*batch n"], degree: int) -> Float64[Array, "*batch N"]:
    """The real polynomial that takes the slots' values.

    Args:
      z: `complex128[*batch, n]`, n a power of two up to `degree / 2`.
      degree: the ring degree N, a power of two.

    Returns:
      `float64[*batch, N]`, coefficients of X^0 first; only every (N/2n)-th differs from zero. None exceeds the largest
      modulus among the slots, so nothing overflows on the way.

    Raises:
      TypeError: `z` is not `complex128`.
      ValueError: n or the degree does not fit.
    """
    return _slots_to_coefficients(z, degree=degree)


def coefficients_to_slots(a: Float64[Array, "*batch N"], slots: int) -> Complex128[Array, "*batch n"]:
    """The values of polynomials at the slots.

    With n < N/2 slots only every (N/2n)-th coefficient counts: the others are noise, and leaving them out is the mean
    over the N/2n places at which each slot is found.

    Args:
      a: `float64[*batch, N]`, coefficients of X^0 first.
      slots: n, a power of two up to N/2.

    Returns:
      `complex128[*batch, n]`.

    Raises:
      TypeError: `a` is not `float64`.
      ValueError: `slots` does not fit.
    """
    return _coefficients_to_slots(a, slots=slots)


@functools.lru_cache(maxsize=64)
def _twiddles(half: int) -> np.ndarray:
    """exp(i pi 5^j / 4 half) for j < half, by angles up to pi/4 and quarter turns, which keeps the last bit."""
    power = np.ones(1, np.int64)
    while power.size < half:
        power = np.concatenate([power, power * pow(5, power.size, 8 * half) % (8 * half)])
    turns, rest = np.divmod(power + half, 2 * half)
    angle = np.pi * (rest - half) / (4 * half)
    return (np.cos(angle) + 1j * np.sin(angle)) * np.array([1, 1j, -1, -1j])[turns % 4]


def _reference_inverse(z, *, degree):
    *lead, n = z.shape
    z, half = z / n, n // 2  # divided first, so that no sum overflows
    while half:
        pairs = z.reshape(*lead, n // (2 * half), 2, half)
        even, odd = pairs[..., 0, :], pairs[..., 1, :]
        odd, even = (even - odd) * jnp.asarray(_twiddles(half).conj()), even + odd
        z, half = jnp.stack([even, odd], axis=-2).reshape(*lead, n), half // 2
    z = jnp.take(z, jnp.asarray(bit_reversal(n)), axis=-1)
    a = jnp.concatenate([z.real, z.imag], axis=-1)[..., None]
    return jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, degree // (2 * n) - 1)]).reshape(*lead, degree)


def _reference_forward(a, *, slots):
    *lead, degree = a.shape
    a = a[..., :: degree // (2 * slots)]
    z = jnp.take(a[..., :slots] + 1j * a[..., slots:], jnp.asarray(bit_reversal(slots)), axis=-1)
    half = 1
    while half < slots:
        pairs = z.reshape(*lead, slots // (2 * half), 2, half)
        even, odd = pairs[..., 0, :], pairs[..., 1, :] * jnp.asarray(_twiddles(half))
        z, half = jnp.stack([even + odd, even - odd], axis=-2).reshape(*lead, slots), half * 2
    return z


def _check(name, x, dtype, slots, degree):
    if x.dtype != dtype or not x.ndim:
        raise TypeError(f"{name}: got {x.dtype}{list(x.shape)}; need {np.dtype(dtype)}[*batch, n], made under x64")
    powers = not slots & (slots - 1) and not degree & (degree - 1)
    if not powers or not 1 <= slots <= degree // 2:
        raise ValueError(f"{name}: {slots} slots in degree {degree}; need powers of two with slots up to degree / 2")


def _abstract_inverse(z, *, degree):
    _check("slots_to_coefficients", z, np.complex128, z.shape[-1] if z.ndim else 0, degree)
    return _compat.like([z], (*z.shape[:-1], degree), np.float64, z.ndim - 1)


def _abstract_forward(a, *, slots):
    _check("coefficients_to_slots", a, np.float64, slots, a.shape[-1] if a.ndim else 0)
    return _compat.like([a], (*a.shape[:-1], slots), np.complex128, a.ndim - 1)


_slots_to_coefficients = define_primitive(
    "slots_to_coefficients",
    abstract=_abstract_inverse,
    reference=_reference_inverse,
)
_coefficients_to_slots = define_primitive(
    "coefficients_to_slots",
    abstract=_abstract_forward,
    reference=_reference_forward,
)
