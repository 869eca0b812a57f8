"""exp, sin and cos."""

import functools
import math

import jax.numpy as jnp

from fhejax.functions.composite import SQUARE, Composition, Domain, cheapest, elementwise
from fhejax.functions.fits import free_domain, single_fit, symmetric
from fhejax.polynomials.polynomial import Polynomial

_DOUBLE_ANGLE = Polynomial([0.0, 0.0, 1.0], parity="even")  # cos 2t = T_2(cos t)
_MOST_DOUBLINGS = 6


@elementwise
def exp(domain: Domain, bits: float) -> Composition:
    """e^x in every slot.

    One minimax polynomial: at each depth it is at least as precise as squares of one for e^(x / 2^k), which are taken
    only where degree 255 is not enough. The error is absolute. Where e^x is small, its relative error is large; to
    have 2^-bits of e^x everywhere on (a, b), ask for -a / ln 2 bits more. x's error comes out times e^x.

    On (-1, 1), 12 bits: error 2^-18.2, depth 3, 3 key switches.
    On (-4, 0), 12 bits: error 2^-13.9, depth 4, 3 key switches.
    On (-16, 0), 12 bits: error 2^-15.3, depth 5, 5 key switches.
    On (-16, 0), 20 bits: error 2^-21.3, depth 5, 7 key switches.
    """
    return cheapest("exp", domain, bits, lambda bits: _first(lambda count: _exp_options(domain, bits, count)))


@elementwise
def sin(domain: Domain, bits: float) -> Composition:
    """sin(x) in every slot: one minimax polynomial, odd on a symmetric domain; beyond degree 255 as `cos`.

    x's error comes out times at most 1.

    On (-1, 1), 12 bits: error 2^-18.3, depth 3, 3 key switches.
    On (-3.2, 3.2), 12 bits: error 2^-22.9, depth 5, 5 key switches.
    """
    wide, parity = free_domain(domain), "odd" if symmetric(domain) else None

    def options(bits, count):
        if count == 0:
            return single_fit(jnp.sin, jnp.sin, domain, wide, 2.0**-bits, parity=parity)[1]
        return _angle_options(jnp.sin, math.pi / 2, domain, bits, count)

    return cheapest("sin", domain, bits, lambda bits: _first(functools.partial(options, bits)))


@elementwise
def cos(domain: Domain, bits: float) -> Composition:
    """cos(x) in every slot: one minimax polynomial, even on a symmetric domain; beyond degree 255, the cosine of a part
    of the angle, doubled by cos 2t = 2 cos^2 t - 1, one level and two bits of precision each.

    x's error comes out times at most 1.

    On (-1, 1), 12 bits: error 2^-14.5, depth 3, 2 key switches.
    On (-3.2, 3.2), 12 bits: error 2^-14.3, depth 5, 3 key switches.
    On (-100, 100), 12 bits: error 2^-13.4, depth 8, 12 key switches.
    """
    options = functools.partial(_angle_options, jnp.cos, 0.0, domain)
    return cheapest("cos", domain, bits, lambda bits: _first(functools.partial(options, bits)))


def _exp_options(domain, bits, count):
    """exp(x / 2^count), squared that often."""
    parts, wide = 2**count, free_domain(domain, "high")
    # An error of the first polynomial comes out at most so many times as large.
    growth = parts * math.exp(wide[1] * (1 - 1 / parts))
    inner = lambda x: jnp.exp(x / parts)
    return single_fit(jnp.exp, inner, domain, wide, 2.0**-bits / growth, then=[SQUARE] * count)[1]


def _angle_options(f, shift, domain, bits, count):
    """cos((x - shift) / 2^count), and the double angle that often: each lets errors grow by 4 at most."""
    inner = lambda x: jnp.cos((x - shift) / 2**count)
    parity, then = "even" if symmetric(domain) and not shift else None, [_DOUBLE_ANGLE] * count
    return single_fit(f, inner, domain, free_domain(domain), 2.0**-bits / 4**count, parity=parity, then=then)[1]


def _first(options):
    """The options of the fewest doublings that give any: more of them are deeper."""
    return next((found for count in range(_MOST_DOUBLINGS + 1) if (found := options(count))), [])
