"""Activations with two tails: sigmoid, tanh, gelu, silu."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from fhejax.functions.composite import cheapest, computed, measured_chain, plus
from fhejax.functions.fits import (
    affine,
    cost_of_degree,
    estimated_degree,
    fit_least,
    free_domain,
    plus_half_of_x,
    symmetric,
)
from fhejax.functions.range_extension import saturating
from fhejax.operations.levels import Encrypted
from fhejax.scheme.values import EvaluationKeys

# Degrees up to here are not beaten by polynomials that carry tails closer.
_SINGLE_DEGREE = 63

_erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: Encrypted, keys: EvaluationKeys | None = None, *, domain: Sequence[Any], bits: float | int) -> Encrypted:
    """1 / (1 + exp(-x)) in every slot.

    One minimax polynomial, odd about 1/2 on a symmetric domain; on wide domains polynomials that carry the tails closer
    go before it (`fhejax.functions.range_extension`), if that is shallower or takes fewer key switches.

    Args:
      x: a ciphertext or simulated values.
      keys: evaluation keys.
      domain: (a, b) that the slots lie in.
      bits: the absolute error is to be at most 2^-bits.

    Returns:
      Level out: lower by the depth. Scale out: canonical. Error added: 2^-bits, x's error times at most 1/4, and
      roundings. Keys needed: relinearisation.

      On (-8, 8), 12 bits: error 2^-12.3, depth 6, 7 key switches.
      On (-8, 8), 20 bits: error 2^-21.2, depth 7, 9 key switches.
      On (-128, 128), 12 bits: error 2^-12.4, depth 10, 15 key switches.

    Raises:
      LevelError: not enough levels are left.
      ValueError: a domain that is none, or bits that are not reachable.
    """
    return computed("sigmoid", _sigmoid, x, keys, domain, bits)


def tanh(x: Encrypted, keys: EvaluationKeys | None = None, *, domain: Sequence[Any], bits: float | int) -> Encrypted:
    """tanh(x) in every slot. As `sigmoid`, of which it is 2 sigmoid(2 x) - 1; x's error comes out times at most 1.

    Args:
      x: a ciphertext or simulated values.
      keys: evaluation keys.
      domain: (a, b) that the slots lie in.
      bits: the absolute error is to be at most 2^-bits.

    Returns:
      As `sigmoid`.

      On (-1, 1), 12 bits: error 2^-14.9, depth 3, 4 key switches.
      On (-8, 8), 12 bits: error 2^-15, depth 7, 10 key switches.
      On (-128, 128), 12 bits: error 2^-12.2, depth 11, 18 key switches.
    """
    return computed("tanh", _tanh, x, keys, domain, bits)


def gelu(x: Encrypted, keys: EvaluationKeys | None = None, *, domain: Sequence[Any], bits: float | int) -> Encrypted:
    """x Phi(x) in every slot, with the distribution function Phi of the normal distribution (not its tanh form).

    One minimax polynomial; on a symmetric domain x / 2 and an even one, which is cheaper. On very wide domains x times
    a composition for Phi, one level more than that of `sigmoid`.

    Args:
      x: a ciphertext or simulated values.
      keys: evaluation keys.
      domain: (a, b) that the slots lie in.
      bits: the absolute error is to be at most 2^-bits.

    Returns:
      Level out: lower by the depth. Scale out: canonical. Error added: 2^-bits, x's error times at most 1.13, and
      roundings. Keys needed: relinearisation.

      On (-8, 8), 12 bits: error 2^-13, depth 6, 7 key switches.
      On (-8, 8), 20 bits: error 2^-21.6, depth 7, 8 key switches.
      On (-32, 32), 12 bits: error 2^-12.2, depth 8, 12 key switches.
      On (-128, 128), 12 bits: error 2^-12.2, depth 12, 18 key switches.

    Raises:
      LevelError: not enough levels are left.
      ValueError: a domain that is none, or bits that are not reachable.

    Example:
      >>> import fhejax as fhe
      >>> x = fhe.simulate([-1.0, 0.0, 2.0], fhe.Parameters.for_depth(5))
      >>> y = fhe.functions.gelu(x, domain=(-4, 4), bits=10)
      >>> y.level, [round(float(value), 2) for value in y.values[:3]]
      (0, [-0.16, 0.0, 1.95])
    """
    return computed("gelu", _gelu, x, keys, domain, bits)


def silu(x: Encrypted, keys: EvaluationKeys | None = None, *, domain: Sequence[Any], bits: float | int) -> Encrypted:
    """x sigmoid(x) in every slot. As `gelu`; x's error comes out times at most 1.1.

    Args:
      x: a ciphertext or simulated values.
      keys: evaluation keys.
      domain: (a, b) that the slots lie in.
      bits: the absolute error is to be at most 2^-bits.

    Returns:
      As `gelu`.

      On (-8, 8), 12 bits: error 2^-13.4, depth 6, 6 key switches.
      On (-8, 8), 20 bits: error 2^-22.3, depth 7, 8 key switches.
      On (-128, 128), 12 bits: error 2^-12.3, depth 12, 18 key switches.
    """
    return computed("silu", _silu, x, keys, domain, bits)


@functools.lru_cache(maxsize=256)
def _sigmoid(domain, bits):
    half = lambda x: np.tanh(x / 2)
    return cheapest("sigmoid", domain, bits, lambda bits: _flat_tails(jax.nn.sigmoid, half, domain, bits, 0.5, 0.5))


@functools.lru_cache(maxsize=256)
def _tanh(domain, bits):
    return cheapest("tanh", domain, bits, lambda bits: _flat_tails(np.tanh, np.tanh, domain, bits, 1.0, 0.0))


@functools.lru_cache(maxsize=256)
def _gelu(domain, bits):
    exact = functools.partial(jax.nn.gelu, approximate=False)
    twice = lambda x: _erf(x / math.sqrt(2))
    return cheapest("gelu", domain, bits, lambda bits: _linear_tails(exact, twice, domain, bits))


@functools.lru_cache(maxsize=256)
def _silu(domain, bits):
    half = lambda x: np.tanh(x / 2)
    return cheapest("silu", domain, bits, lambda bits: _linear_tails(jax.nn.silu, half, domain, bits))


def _flat_tails(f, step, domain, bits, factor, offset):
    """Options for f = factor step + offset, where step is odd and goes to 1."""
    tolerance = 2.0**-bits
    if symmetric(domain):
        finish = lambda p: affine(p, factor, offset)
        single = _single(f, step, domain, tolerance / factor, "odd", finish)
    else:
        single = _single(f, f, domain, tolerance, None, lambda p: p)
    yield from single[1]
    if single[0] > _SINGLE_DEGREE:
        for cost, stages, fit in saturating(step, max(map(abs, domain)), tolerance / factor):
            yield cost, functools.partial(_composed, f, stages, fit, domain, factor, offset, False)


def _linear_tails(f, step, domain, bits):
    """Options for f = x (step(x) + 1) / 2, where step is odd and goes to 1."""
    tolerance, radius = 2.0**-bits, max(map(abs, domain))
    if symmetric(domain):
        single = _single(f, lambda x: x * step(x) / 2, domain, tolerance, "even", plus_half_of_x)
    else:
        single = _single(f, f, domain, tolerance, None, lambda p: p)
    yield from single[1]
    if single[0] > _SINGLE_DEGREE:
        for cost, stages, fit in saturating(step, radius, 2 * tolerance / radius):
            yield plus(cost, 1, 1), functools.partial(_composed, f, stages, fit, domain, 0.5, 0.5, True)


def _single(f, fitted, domain, tolerance, parity, finish):
    """(degree, options) for the polynomial that `finish` makes of the fit."""
    wide = free_domain(domain)
    degree = estimated_degree(fitted, wide, tolerance, parity=parity)
    if degree is None:
        return math.inf, []
    build = lambda: measured_chain(f, [finish(fit_least(fitted, wide, tolerance, parity=parity))], domain)
    return degree, [(cost_of_degree(degree, wide, parity), build)]


def _composed(f, stages, fit, domain, factor, offset, times_input):
    return measured_chain(f, [*stages, affine(fit(), factor, offset)], domain, times_input)
