"""Functions with a jump, sign, step and compare; and with a kink, abs, maximum and minimum."""

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fhejax.functions.composite import (
    Composition,
    Domain,
    apply_composition,
    chain,
    cheapest,
    elementwise,
    evaluate_chain,
    measure_chain,
)
from fhejax.functions.fits import affine, free_domain, plus_half_of_x, single_fit, symmetric
from fhejax.kinds.base import Encrypted
from fhejax.operations.arithmetic import add, subtract
from fhejax.polynomials.checks import checked_domain
from fhejax.polynomials.minimax import best_sign_degrees, sign_composition
from fhejax.polynomials.polynomial import Polynomial
from fhejax.scheme.values import EvaluationKeys

# Where |x| is below the gap g of a composition for the sign, x sign(x) is off by at most this times g.
KINK = 0.118

SMALLEST_GAP = 2.0**-24  # of the domain
LARGEST_BITS = 40

_SINGLE_DEGREE = 31  # up to here, no composition is cheaper than a polynomial for |x|


def sign(
    x: Encrypted,
    keys: EvaluationKeys | None = None,
    *,
    domain: Sequence[Any],
    bits: float | int,
    gap: float | int,
) -> Encrypted:
    """-1 or 1 in every slot, by its sign; within the gap about zero a value between them, and 0 at zero.

    Odd polynomials one after the other, each of them minimax for what the one before leaves.

    Args:
      x: a ciphertext or simulated values.
      keys: evaluation keys.
      domain: (a, b) that the slots lie in.
      bits: the absolute error is to be at most 2^-bits where |x| >= gap. Nearer to zero, |result| <= 1 + 2^-bits.
      gap: the smallest |x| of which the sign is to be right, 2^-24 of the domain or more.

    Returns:
      Level out: lower by the depth. Scale out: canonical. Error added: 2^-bits and roundings; x's error makes no
      difference except near zero, where it comes out times up to about 1/gap. Keys needed: relinearisation.

      On (-1, 1), gap 2^-4, 8 bits: error 2^-8, depth 7, 10 key switches.
      On (-1, 1), gap 2^-8, 12 bits: error 2^-12.5, depth 12, 19 key switches.
      On (-1, 1), gap 2^-8, 20 bits: error 2^-20.8, depth 13, 20 key switches.
      On (-1, 1), gap 2^-12, 12 bits: error 2^-12.8, depth 17, 24 key switches.

    Raises:
      LevelError: not enough levels are left.
      ValueError: a gap that is too small, or not inside the domain; bits that are not reachable.

    Source: Lee, Lee, No & Kim, "Minimax Approximation of Sign Function by Composite Polynomial for Homomorphic
    Comparison", 2021.
    """
    return apply_composition("sign", _jump("sign", gap), x, keys, domain, bits)


def step(
    x: Encrypted,
    keys: EvaluationKeys | None = None,
    *,
    domain: Sequence[Any],
    bits: float | int,
    gap: float | int,
) -> Encrypted:
    """1 where x is positive, 0 where it is negative, 1/2 at zero: (1 + sign(x)) / 2.

    Args:
      x: a ciphertext or simulated values.
      keys: evaluation keys.
      domain: (a, b) that the slots lie in.
      bits: the absolute error is to be at most 2^-bits where |x| >= gap.
      gap: the smallest |x| of which the sign is to be right.

    Returns:
      As `sign`.

      On (-1, 1), gap 2^-8, 12 bits: error 2^-12.1, depth 12, 18 key switches.
      On (-8, 8), gap 2^-8, 12 bits: error 2^-12, depth 16, 24 key switches.

    Raises:
      As `sign`.
    """
    return apply_composition("step", _jump("step", gap), x, keys, domain, bits)


def compare(
    x: Encrypted,
    y: Any,
    keys: EvaluationKeys | None = None,
    *,
    domain: Sequence[Any],
    bits: float | int,
    gap: float | int,
) -> Encrypted:
    """1 where x > y, 0 where x < y, 1/2 where they are equal: step(x - y).

    Operands between 0 and 1 save the level that a difference wider than (-1, 1) takes to be scaled.

    Args:
      x: a ciphertext or simulated values.
      y: another, an array or a number.
      keys: evaluation keys.
      domain: (a, b) that the slots of both lie in.
      bits: the absolute error is to be at most 2^-bits where |x - y| >= gap.
      gap: the smallest difference that is to be told.

    Returns:
      As `sign`.

      On (0, 1), gap 2^-8, 12 bits: error 2^-12.1, depth 12, 18 key switches.
      On (-1, 1), gap 2^-8, 12 bits: error 2^-12.5, depth 14, 20 key switches.

    Raises:
      As `sign`.
    """
    compose, difference = _jump("compare", gap), subtract(x, y)
    return apply_composition("compare", compose, difference, keys, _differences("compare", domain), bits)


@elementwise
def abs(domain: Domain, bits: float) -> Composition:
    """|x| in every slot, near zero too.

    One minimax polynomial, even on a symmetric domain; or x times a composition for the sign, with so small a gap that
    |x| is as precise inside. x's error comes out times at most about 2. For the composition see `sign`.

    On (-1, 1), 8 bits: error 2^-8, depth 7, 11 key switches.
    On (-1, 1), 12 bits: error 2^-12, depth 14, 22 key switches.
    On (-8, 8), 8 bits: error 2^-8.1, depth 14, 20 key switches.
    """
    parity = "even" if symmetric(domain) else None
    return cheapest("abs", domain, bits, lambda bits: _with_kink(jnp.abs, np.abs, domain, bits, parity, 1.0, 0.0))


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
    compose = functools.partial(relu_composition, name)
    return apply_composition(name, compose, subtract(x, y), keys, _differences(name, domain), bits)


@functools.lru_cache(maxsize=256)
def relu_composition(name: str, domain: Domain, bits: float) -> Composition:
    """max(x, 0), for the function of that name."""
    if symmetric(domain):
        target, parity, finish = lambda x: np.abs(x) / 2, "even", plus_half_of_x
    else:
        target, parity, finish = _positive, None, lambda p: p
    options = lambda bits: _with_kink(_positive, target, domain, bits, parity, 0.5, 0.5, finish)
    return cheapest(name, domain, bits, options)


def _positive(x):
    return np.maximum(x, 0.0)


def _with_kink(f, target, domain, bits, parity, factor, offset, finish=lambda p: p):
    """One polynomial; or x (factor sign(x) + offset), if that may be cheaper."""
    wide, tolerance = free_domain(domain), 2.0**-bits
    degree, options = single_fit(f, target, domain, wide, tolerance, parity=parity, finish=finish, near=0.0)
    yield from options
    if degree > _SINGLE_DEGREE:
        composition = _by_sign(f, domain, bits, factor, offset)
        if composition is not None:
            yield composition.cost, lambda: composition


def _differences(name: str, domain: Sequence[Any]) -> Domain:
    """The domain of x - y, for operands in the domain given."""
    low, high = checked_domain(name, domain)
    return low - high, high - low


def _radius(domain: Domain) -> float:
    """Of the domain about zero that a composition for the sign is carried to."""
    radius = max(-domain[0], domain[1])
    return free_domain((-radius, radius))[1]


def sharp_sign(gap: float, tolerance: float) -> tuple[Polynomial, ...]:
    """The cheapest minimax composition on (-1, 1) for the sign of x with |x| >= gap, within a tolerance."""
    return sign_composition(best_sign_degrees(gap, min(tolerance, 0.9)), gap)


def _on_radius(polynomials: Sequence[Polynomial], radius: float, factor: float, offset: float) -> list[Polynomial]:
    """A composition on (-1, 1) carried to (-radius, radius), with factor p + offset for its result p."""
    domains = [(-radius, radius)] + [(-1.0, 1.0)] * (len(polynomials) - 1)
    inner = [affine(p, 1.0, 0.0, domain) for p, domain in zip(polynomials[:-1], domains, strict=False)]
    return [*inner, affine(polynomials[-1], factor, offset, domains[-1])]


def _jump(name, gap):
    return functools.partial(_composition, name, float(gap))


@functools.lru_cache(maxsize=256)
def _composition(name, gap, domain, bits):
    radius, farthest = _radius(domain), max(-domain[0], domain[1])
    if not SMALLEST_GAP * radius <= gap < farthest:
        raise ValueError(
            f"{name}: gap = {gap:g}; on the domain {domain} it is from {SMALLEST_GAP * radius:.3g} to below "
            f"{farthest:g}: so near to the jump the result may lie between both values"
        )
    if bits > LARGEST_BITS:
        raise ValueError(f"{name}: bits = {bits:g}; {LARGEST_BITS} bits are reachable; ask for fewer")
    factor, offset = (1.0, 0.0) if name == "sign" else (0.5, 0.5)
    polynomials = _on_radius(sharp_sign(gap / radius, 2.0**-bits / factor), radius, factor, offset)
    x = np.concatenate([np.geomspace(gap, radius, 1 << 14), np.linspace(gap, radius, 1 << 14)])
    error = float(np.max(np.abs(evaluate_chain(polynomials, x) - factor - offset)))
    return chain(polynomials, error)


def _by_sign(f, domain, bits, factor, offset):
    """With a gap g, x sign(x) is off by about KINK g inside of it: so much is allowed there, and no more behind it."""
    radius = _radius(domain)
    tolerance = 2.0**-bits / factor / radius
    for share in (1.0, 0.95, 0.85, 0.7):
        gap = share * tolerance / KINK
        if SMALLEST_GAP < gap < 0.5 and tolerance > 2.0**-LARGEST_BITS:
            polynomials = _on_radius(sharp_sign(gap, tolerance), radius, factor, offset)
            composition = measure_chain(f, polynomials, domain, times_input=True, near=0.0)
            if composition.error <= 2.0**-bits:
                return composition
    return None
