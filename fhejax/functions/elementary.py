"""exp, sin and cos."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from fhejax.functions.composite import SQUARE, cheapest, computed, measured_chain, plus
from fhejax.functions.fits import cost_of_degree, estimated_degree, fit_least, free_domain, symmetric
from fhejax.operations.levels import Encrypted
from fhejax.polynomials.polynomial import Polynomial
from fhejax.scheme.values import EvaluationKeys

_DOUBLE_ANGLE = Polynomial([0.0, 0.0, 1.0], parity="even")  # cos 2t = T_2(cos t)
_MOST_DOUBLINGS = 6


def exp(x: Encrypted, keys: EvaluationKeys | None = None, *, domain: Sequence[Any], bits: float | int) -> Encrypted:
    """e^x in every slot.

    One minimax polynomial: at each depth it is at least as precise as squares of one for e^(x / 2^k), which are taken
    only where degree 255 is not enough. The error is absolute. Where e^x is small, its relative error is large; to
    have 2^-bits of e^x everywhere on (a, b), ask for -a / ln 2 bits more.

    Args:
      x: a ciphertext or simulated values.
      keys: evaluation keys.
      domain: (a, b) that the slots lie in.
      bits: the absolute error is to be at most 2^-bits.

    Returns:
      Level out: lower by the depth. Scale out: canonical. Error added: 2^-bits, x's error times e^x, and roundings.
      Keys needed: relinearisation.

      On (-1, 1), 12 bits: error 2^-18.2, depth 3, 3 key switches.
      On (-4, 0), 12 bits: error 2^-13.9, depth 4, 3 key switches.
      On (-16, 0), 12 bits: error 2^-15.3, depth 5, 5 key switches.
      On (-16, 0), 20 bits: error 2^-21.3, depth 5, 7 key switches.

    Raises:
      LevelError: not enough levels are left.
      ValueError: a domain that is none, or bits that are not reachable.
    """
    return computed("exp", _exp, x, keys, domain, bits)


def sin(x: Encrypted, keys: EvaluationKeys | None = None, *, domain: Sequence[Any], bits: float | int) -> Encrypted:
    """sin(x) in every slot: one minimax polynomial, odd on a symmetric domain; beyond degree 255 as `cos`.

    Args:
      x: a ciphertext or simulated values.
      keys: evaluation keys.
      domain: (a, b) that the slots lie in.
      bits: the absolute error is to be at most 2^-bits.

    Returns:
      Level out: lower by the depth. Scale out: canonical. Error added: 2^-bits, x's error, and roundings. Keys needed:
      relinearisation.

      On (-1, 1), 12 bits: error 2^-18.3, depth 3, 3 key switches.
      On (-3.2, 3.2), 12 bits: error 2^-22.9, depth 5, 5 key switches.

    Raises:
      LevelError: not enough levels are left.
      ValueError: a domain that is none, or bits that are not reachable.
    """
    return computed("sin", _sin, x, keys, domain, bits)


def cos(x: Encrypted, keys: EvaluationKeys | None = None, *, domain: Sequence[Any], bits: float | int) -> Encrypted:
    """cos(x) in every slot: one minimax polynomial, even on a symmetric domain; beyond degree 255, the cosine of a part
    of the angle, doubled by cos 2t = 2 cos^2 t - 1, one level and two bits of precision each.

    Args:
      x: a ciphertext or simulated values.
      keys: evaluation keys.
      domain: (a, b) that the slots lie in.
      bits: the absolute error is to be at most 2^-bits.

    Returns:
      As `sin`.

      On (-1, 1), 12 bits: error 2^-14.5, depth 3, 2 key switches.
      On (-3.2, 3.2), 12 bits: error 2^-14.3, depth 5, 3 key switches.
      On (-100, 100), 12 bits: error 2^-13.4, depth 8, 12 key switches.
    """
    return computed("cos", _cos, x, keys, domain, bits)


@functools.lru_cache(maxsize=256)
def _exp(domain, bits):
    return cheapest("exp", domain, bits, lambda bits: _first(lambda count: _exp_options(domain, bits, count)))


def _exp_options(domain, bits, count):
    """exp(x / 2^count), squared that often."""
    parts, wide = 2**count, free_domain(domain, "high")
    # An error of the first polynomial comes out at most so many times as large.
    growth = parts * math.exp(wide[1] * (1 - 1 / parts))
    inner = lambda x: jnp.exp(x / parts)
    return _options(jnp.exp, inner, domain, wide, 2.0**-bits / growth, None, [SQUARE] * count)


@functools.lru_cache(maxsize=256)
def _sin(domain, bits):
    wide, parity = free_domain(domain), "odd" if symmetric(domain) else None

    def options(bits, count):
        if count == 0:
            return _options(jnp.sin, jnp.sin, domain, wide, 2.0**-bits, parity, [])
        return _angle_options(jnp.sin, math.pi / 2, domain, bits, count)

    return cheapest("sin", domain, bits, lambda bits: _first(functools.partial(options, bits)))


@functools.lru_cache(maxsize=256)
def _cos(domain, bits):
    options = functools.partial(_angle_options, jnp.cos, 0.0, domain)
    return cheapest("cos", domain, bits, lambda bits: _first(functools.partial(options, bits)))


def _angle_options(f, shift, domain, bits, count):
    """cos((x - shift) / 2^count), and the double angle that often: each lets errors grow by 4 at most."""
    inner = lambda x: jnp.cos((x - shift) / 2**count)
    parity = "even" if symmetric(domain) and not shift else None
    return _options(f, inner, domain, free_domain(domain), 2.0**-bits / 4**count, parity, [_DOUBLE_ANGLE] * count)


def _options(f, inner, domain, wide, tolerance, parity, doublings):
    """A polynomial for `inner`, and the doublings; nothing if no degree is enough."""
    degree = estimated_degree(inner, wide, tolerance, parity=parity)
    if degree is None:
        return []
    cost = plus(cost_of_degree(degree, wide, parity), len(doublings), len(doublings))
    return [(cost, lambda: measured_chain(f, [fit_least(inner, wide, tolerance, parity=parity), *doublings], domain))]


def _first(options):
    """The options of the fewest doublings that give any: more of them are deeper."""
    return next((found for count in range(_MOST_DOUBLINGS + 1) if (found := options(count))), [])
