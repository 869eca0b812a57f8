"""Activations: with two tails, sigmoid, tanh, gelu and silu; with a kink, relu."""

import functools
import math

import jax
import numpy as np

from fhejax.functions.comparison import relu_composition
from fhejax.functions.composite import Composition, Domain, cheapest, elementwise, measure_chain, plus
from fhejax.functions.fits import affine, free_domain, plus_half_of_x, single_fit, symmetric
from fhejax.functions.range_extension import saturating_options

# Degrees up to here are not beaten by polynomials that carry tails closer.
_SINGLE_DEGREE = 63

_erf = np.vectorize(math.erf, otypes=[np.float64])


@elementwise
def sigmoid(domain: Domain, bits: float) -> Composition:
    """1 / (1 + exp(-x)) in every slot.

    One minimax polynomial, odd about 1/2 on a symmetric domain; on wide domains polynomials that carry the tails closer
    go before it (`fhejax.functions.range_extension`), if that is shallower or takes fewer key switches. x's error comes
    out times at most 1/4.

    On (-8, 8), 12 bits: error 2^-12.3, depth 6, 7 key switches.
    On (-8, 8), 20 bits: error 2^-21.2, depth 7, 9 key switches.
    On (-128, 128), 12 bits: error 2^-12.4, depth 10, 15 key switches.
    """
    half = lambda x: np.tanh(x / 2)
    return cheapest("sigmoid", domain, bits, lambda bits: _flat_tails(jax.nn.sigmoid, half, domain, bits, 0.5, 0.5))


@elementwise
def tanh(domain: Domain, bits: float) -> Composition:
    """tanh(x) in every slot. As `sigmoid`, of which it is 2 sigmoid(2 x) - 1; x's error comes out times at most 1.

    On (-1, 1), 12 bits: error 2^-14.9, depth 3, 4 key switches.
    On (-8, 8), 12 bits: error 2^-15, depth 7, 10 key switches.
    On (-128, 128), 12 bits: error 2^-12.2, depth 11, 18 key switches.
    """
    return cheapest("tanh", domain, bits, lambda bits: _flat_tails(np.tanh, np.tanh, domain, bits, 1.0, 0.0))


@elementwise
def gelu(domain: Domain, bits: float) -> Composition:
    """x Phi(x) in every slot, with the distribution function Phi of the normal distribution (not its tanh form).

    One minimax polynomial; on a symmetric domain x / 2 and an even one, which is cheaper. On very wide domains x times
    a composition for Phi, one level more than that of `sigmoid`. x's error comes out times at most 1.13.

    On (-8, 8), 12 bits: error 2^-13, depth 6, 7 key switches.
    On (-8, 8), 20 bits: error 2^-21.6, depth 7, 8 key switches.
    On (-32, 32), 12 bits: error 2^-12.2, depth 8, 12 key switches.
    On (-128, 128), 12 bits: error 2^-12.2, depth 12, 18 key switches.

    Example:
      >>> import fhejax as fhe
      >>> x = fhe.simulate([-1.0, 0.0, 2.0], fhe.Parameters.for_depth(5))
      >>> y = fhe.functions.gelu(x, domain=(-4, 4), bits=10)
      >>> y.level, [round(float(value), 2) for value in y.values[:3]]
      (0, [-0.16, 0.0, 1.95])
    """
    exact = functools.partial(jax.nn.gelu, approximate=False)
    twice = lambda x: _erf(x / math.sqrt(2))
    return cheapest("gelu", domain, bits, lambda bits: _linear_tails(exact, twice, domain, bits))


@elementwise
def silu(domain: Domain, bits: float) -> Composition:
    """x sigmoid(x) in every slot. As `gelu`; x's error comes out times at most 1.1.

    On (-8, 8), 12 bits: error 2^-13.4, depth 6, 6 key switches.
    On (-8, 8), 20 bits: error 2^-22.3, depth 7, 8 key switches.
    On (-128, 128), 12 bits: error 2^-12.3, depth 12, 18 key switches.
    """
    half = lambda x: np.tanh(x / 2)
    return cheapest("silu", domain, bits, lambda bits: _linear_tails(jax.nn.silu, half, domain, bits))


@elementwise
def relu(domain: Domain, bits: float) -> Composition:
    """max(x, 0) in every slot, near zero too: (x + |x|) / 2, computed as `abs` is, and one bit more precise.

    On (-1, 1), 8 bits: error 2^-8.1, depth 6, 8 key switches.
    On (-1, 1), 13 bits: error 2^-13, depth 14, 22 key switches.
    On (-8, 8), 8 bits: error 2^-8, depth 13, 17 key switches.

    Source: Lee, Lee, Lee, Kim, Kim & No, "Precise Approximation of Convolutional Neural Networks for Homomorphically
    Encrypted Data", 2021.
    """
    return relu_composition("relu", domain, bits)


def _flat_tails(f, step, domain, bits, factor, offset):
    """Options for f = factor step + offset, where step is odd and goes to 1."""
    tolerance = 2.0**-bits
    if symmetric(domain):
        finish = lambda p: affine(p, factor, offset)
        degree, options = _single(f, step, domain, tolerance / factor, "odd", finish)
    else:
        degree, options = _single(f, f, domain, tolerance)
    yield from options
    if degree > _SINGLE_DEGREE:
        for cost, stages, fit in saturating_options(step, max(map(abs, domain)), tolerance / factor):
            yield cost, functools.partial(_compose, f, stages, fit, domain, factor, offset, False)


def _linear_tails(f, step, domain, bits):
    """Options for f = x (step(x) + 1) / 2, where step is odd and goes to 1."""
    tolerance, radius = 2.0**-bits, max(map(abs, domain))
    if symmetric(domain):
        degree, options = _single(f, lambda x: x * step(x) / 2, domain, tolerance, "even", plus_half_of_x)
    else:
        degree, options = _single(f, f, domain, tolerance)
    yield from options
    if degree > _SINGLE_DEGREE:
        for cost, stages, fit in saturating_options(step, radius, 2 * tolerance / radius):
            yield plus(cost, 1, 1), functools.partial(_compose, f, stages, fit, domain, 0.5, 0.5, True)


def _single(f, target, domain, tolerance, parity=None, finish=lambda p: p):
    return single_fit(f, target, domain, free_domain(domain), tolerance, parity=parity, finish=finish)


def _compose(f, stages, fit, domain, factor, offset, times_input):
    return measure_chain(f, [*stages, affine(fit(), factor, offset)], domain, times_input)
