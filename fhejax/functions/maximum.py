"""Functions with a kink: abs, relu, maximum, minimum."""

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fhejax.functions.comparison import KINK, LARGEST_BITS, SMALLEST_GAP, carried, differences, radius_of, sharp_sign
from fhejax.functions.composite import cheapest, computed, measured_chain
from fhejax.functions.fits import cost_of_degree, estimated_degree, fit_least, free_domain, plus_half_of_x, symmetric
from fhejax.operations.arithmetic import add, subtract
from fhejax.operations.levels import Encrypted
from fhejax.scheme.values import EvaluationKeys

_SINGLE_DEGREE = 31  # up to here, no composition is cheaper


def abs(x: Encrypted, keys: EvaluationKeys | None = None, *, domain: Sequence[Any], bits: float | int) -> Encrypted:
    """|x| in every slot, near zero too.

    One minimax polynomial, even on a symmetric domain; or x times a composition for the sign, with so small a gap that
    |x| is as precise inside.

    Args:
      x: a ciphertext or simulated values.
      keys: evaluation keys.
      domain: (a, b) that the slots lie in.
      bits: the absolute error is to be at most 2^-bits.

    Returns:
      Level out: lower by the depth. Scale out: canonical. Error added: 2^-bits, x's error times at most about 2, and
      roundings. Keys needed: relinearisation.

      On (-1, 1), 8 bits: error 2^-8, depth 7, 11 key switches.
      On (-1, 1), 12 bits: error 2^-12, depth 14, 22 key switches.
      On (-8, 8), 8 bits: error 2^-8.1, depth 14, 20 key switches.

    Raises:
      LevelError: not enough levels are left.
      ValueError: a domain that is none, or bits that are not reachable.

    Source: for the composition see `fhejax.functions.sign`.
    """
    return computed("abs", _abs, x, keys, domain, bits)


def relu(x: Encrypted, keys: EvaluationKeys | None = None, *, domain: Sequence[Any], bits: float | int) -> Encrypted:
    """max(x, 0) in every slot, near zero too: (x + |x|) / 2, computed as `abs` is, and one bit more precise.

    Args:
      x: a ciphertext or simulated values.
      keys: evaluation keys.
      domain: (a, b) that the slots lie in.
      bits: the absolute error is to be at most 2^-bits.

    Returns:
      As `abs`.

      On (-1, 1), 8 bits: error 2^-8.1, depth 6, 8 key switches.
      On (-1, 1), 13 bits: error 2^-13, depth 14, 22 key switches.
      On (-8, 8), 8 bits: error 2^-8, depth 13, 17 key switches.

    Raises:
      As `abs`.

    Source: Lee, Lee, Lee, Kim, Kim & No, "Precise Approximation of Convolutional Neural Networks for Homomorphically
    Encrypted Data", 2021.
    """
    return computed("relu", functools.partial(_relu, "relu"), x, keys, domain, bits)


def maximum(
    x: Encrypted, y: Any, keys: EvaluationKeys | None = None, *, domain: Sequence[Any], bits: float | int
) -> Encrypted:
    """The larger of two, however near they are: y + relu(x - y).

    Operands between 0 and 1 save the level that a difference wider than (-1, 1) takes to be scaled.

    Args:
      x: a ciphertext or simulated values.
      y: another, an array or a number.
      keys: evaluation keys.
      domain: (a, b) that the slots of both lie in.
      bits: the absolute error is to be at most 2^-bits.

    Returns:
      As `abs`.

      On (0, 1), 8 bits: error 2^-8.1, depth 6, 8 key switches.
      On (-1, 1), 8 bits: error 2^-8, depth 8, 11 key switches.
      On (0, 1), 12 bits: error 2^-12.1, depth 13, 20 key switches.

    Raises:
      As `abs`.
    """
    return add(y, _excess("maximum", x, y, keys, domain, bits))


def minimum(
    x: Encrypted, y: Any, keys: EvaluationKeys | None = None, *, domain: Sequence[Any], bits: float | int
) -> Encrypted:
    """The smaller of two, however near they are: x - relu(x - y). Arguments, result and errors as for `maximum`."""
    return subtract(x, _excess("minimum", x, y, keys, domain, bits))


def _excess(name, x, y, keys, domain, bits):
    compose = functools.partial(_relu, name)
    return computed(name, compose, subtract(x, y), keys, differences(name, domain), bits)


@functools.lru_cache(maxsize=256)
def _abs(domain, bits):
    parity = "even" if symmetric(domain) else None
    fitted = np.abs, free_domain(domain), parity
    return cheapest("abs", domain, bits, lambda bits: _options(jnp.abs, domain, bits, fitted, lambda p: p, 1.0, 0.0))


@functools.lru_cache(maxsize=256)
def _relu(name, domain, bits):
    if symmetric(domain):
        fitted, finish = (lambda x: np.abs(x) / 2, free_domain(domain), "even"), plus_half_of_x
    else:
        fitted, finish = (_positive, free_domain(domain), None), lambda p: p
    return cheapest(name, domain, bits, lambda bits: _options(_positive, domain, bits, fitted, finish, 0.5, 0.5))


def _positive(x):
    return np.maximum(x, 0.0)


def _options(f, domain, bits, fitted, finish, factor, offset):
    """One polynomial; or x (factor sign(x) + offset), if that may be cheaper."""
    target, wide, parity = fitted
    degree = estimated_degree(target, wide, 2.0**-bits, parity=parity)
    if degree is not None:
        fit = functools.partial(fit_least, target, wide, 2.0**-bits, parity=parity)
        yield cost_of_degree(degree, wide, parity), lambda: measured_chain(f, [finish(fit())], domain, near=0.0)
    if degree is None or degree > _SINGLE_DEGREE:
        composition = _by_sign(f, domain, bits, factor, offset)
        if composition is not None:
            yield composition.cost, lambda: composition


def _by_sign(f, domain, bits, factor, offset):
    """With a gap g, x sign(x) is off by about KINK g inside of it: so much is allowed there, and no more behind it."""
    radius = radius_of(domain)
    tolerance = 2.0**-bits / factor / radius
    for share in (1.0, 0.95, 0.85, 0.7):
        gap = share * tolerance / KINK
        if SMALLEST_GAP < gap < 0.5 and tolerance > 2.0**-LARGEST_BITS:
            polynomials = carried(sharp_sign(gap, tolerance), radius, factor, offset)
            composition = measured_chain(f, polynomials, domain, times_input=True, near=0.0)
            if composition.error <= 2.0**-bits:
                return composition
    return None
