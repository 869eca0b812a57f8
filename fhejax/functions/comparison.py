"""Functions with a jump: sign, step, compare."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fhejax.functions.composite import Domain, chain, chained, computed, cost_of
from fhejax.functions.fits import affine, free_domain
from fhejax.operations.arithmetic import subtract
from fhejax.operations.levels import Encrypted
from fhejax.polynomials.checks import checked_domain
from fhejax.polynomials.minimax import best_sign_degrees, sign_composition
from fhejax.polynomials.polynomial import Polynomial
from fhejax.scheme.values import EvaluationKeys

# Where |x| is below the gap g of a composition for the sign, x sign(x) is off by at most this times g.
KINK = 0.118

SMALLEST_GAP = 2.0**-24  # of the domain
LARGEST_BITS = 40

# g_1 to g_4 of Cheon, Kim & Kim, times 2^10: steep at 0, and within [-1, 1] where their argument is.
_STEEP = (
    (0, 2126, 0, -1359),
    (0, 3334, 0, -6108, 0, 3796),
    (0, 4589, 0, -16577, 0, 25614, 0, -12860),
    (0, 5850, 0, -34974, 0, 97015, 0, -113492, 0, 46623),
)


def sign(
    x: Encrypted,
    keys: EvaluationKeys | None = None,
    *,
    domain: Sequence[Any],
    bits: float | int,
    gap: float | int,
    family: str = "minimax",
) -> Encrypted:
    """-1 or 1 in every slot, by its sign; within the gap about zero a value between them, and 0 at zero.

    Odd polynomials one after the other, each of them minimax for what the one before leaves ("minimax"), or the fixed
    ones of Cheon, Kim & Kim ("cheon": deeper, but small coefficients and no fit).

    Args:
      x: a ciphertext or simulated values.
      keys: evaluation keys.
      domain: (a, b) that the slots lie in.
      bits: the absolute error is to be at most 2^-bits where |x| >= gap. Nearer to zero, |result| <= 1 + 2^-bits.
      gap: the smallest |x| of which the sign is to be right, 2^-24 of the domain or more.
      family: "minimax" or "cheon".

    Returns:
      Level out: lower by the depth. Scale out: canonical. Error added: 2^-bits and roundings; x's error makes no
      difference except near zero, where it comes out times up to about 1/gap. Keys needed: relinearisation.

      On (-1, 1), gap 2^-4, 8 bits: error 2^-8, depth 7, 10 key switches.
      On (-1, 1), gap 2^-8, 12 bits: error 2^-12.5, depth 12, 19 key switches.
      On (-1, 1), gap 2^-8, 20 bits: error 2^-20.8, depth 13, 20 key switches.
      On (-1, 1), gap 2^-12, 12 bits: error 2^-12.8, depth 17, 24 key switches.
      On (-1, 1), gap 2^-8, 12 bits, "cheon": error 2^-17.3, depth 18, 24 key switches.

    Raises:
      LevelError: not enough levels are left.
      ValueError: a gap that is too small, or not inside the domain; bits that are not reachable; an unknown family.

    Source: Lee, Lee, No & Kim, "Minimax Approximation of Sign Function by Composite Polynomial for Homomorphic
    Comparison", 2021; Cheon, Kim & Kim, "Efficient Homomorphic Comparison Methods with Optimal Complexity", 2020.
    """
    return computed("sign", _jump("sign", gap, family), x, keys, domain, bits)


def step(
    x: Encrypted,
    keys: EvaluationKeys | None = None,
    *,
    domain: Sequence[Any],
    bits: float | int,
    gap: float | int,
    family: str = "minimax",
) -> Encrypted:
    """1 where x is positive, 0 where it is negative, 1/2 at zero: (1 + sign(x)) / 2.

    Args:
      x: a ciphertext or simulated values.
      keys: evaluation keys.
      domain: (a, b) that the slots lie in.
      bits: the absolute error is to be at most 2^-bits where |x| >= gap.
      gap: the smallest |x| of which the sign is to be right.
      family: as for `sign`.

    Returns:
      As `sign`.

      On (-1, 1), gap 2^-8, 12 bits: error 2^-12.1, depth 12, 18 key switches.
      On (-8, 8), gap 2^-8, 12 bits: error 2^-12, depth 16, 24 key switches.

    Raises:
      As `sign`.
    """
    return computed("step", _jump("step", gap, family), x, keys, domain, bits)


def compare(
    x: Encrypted,
    y: Any,
    keys: EvaluationKeys | None = None,
    *,
    domain: Sequence[Any],
    bits: float | int,
    gap: float | int,
    family: str = "minimax",
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
      family: as for `sign`.

    Returns:
      As `sign`.

      On (0, 1), gap 2^-8, 12 bits: error 2^-12.1, depth 12, 18 key switches.
      On (-1, 1), gap 2^-8, 12 bits: error 2^-12.5, depth 14, 20 key switches.

    Raises:
      As `sign`.
    """
    compose, difference = _jump("compare", gap, family), subtract(x, y)
    return computed("compare", compose, difference, keys, differences("compare", domain), bits)


def differences(name: str, domain: Sequence[Any]) -> Domain:
    """The domain of x - y, for operands in the domain given."""
    low, high = checked_domain(name, domain)
    return low - high, high - low


def radius_of(domain: Domain) -> float:
    """Of the domain about zero that a composition for the sign is carried to."""
    radius = max(-domain[0], domain[1])
    return free_domain((-radius, radius))[1]


def sharp_sign(gap: float, tolerance: float) -> tuple[Polynomial, ...]:
    """The cheapest minimax composition on (-1, 1) for the sign of x with |x| >= gap, within a tolerance."""
    return sign_composition(best_sign_degrees(gap, min(tolerance, 0.9)), gap)


def carried(polynomials: Sequence[Polynomial], radius: float, factor: float, offset: float) -> list[Polynomial]:
    """A composition on (-1, 1) carried to (-radius, radius), with factor p + offset for its result p."""
    domains = [(-radius, radius)] + [(-1.0, 1.0)] * (len(polynomials) - 1)
    inner = [affine(p, 1.0, 0.0, domain) for p, domain in zip(polynomials[:-1], domains, strict=False)]
    return [*inner, affine(polynomials[-1], factor, offset, domains[-1])]


@functools.lru_cache(maxsize=256)
def cheon_composition(gap: float, tolerance: float) -> tuple[Polynomial, ...]:
    """The cheapest f_n(... f_n(g_n(... g_n(x)))) that is the sign of x for gap <= |x| <= 1, within a tolerance.

    Source: Cheon, Kim & Kim, 2020 (see `sign`), algorithm 3.
    """
    found = []
    for n in range(1, len(_STEEP) + 1):
        steep, flat = (Polynomial.from_power(a).coefficients for a in (np.array(_STEEP[n - 1]) / 2**10, _flat(n)))
        steep, flat = Polynomial(steep, parity="odd"), Polynomial(flat, parity="odd")
        low, before, stages = gap, 0.0, ()
        while low > 1.05 * before:  # a g_n that gains no more ends it
            found.append(stages + (flat,) * _repetitions(flat, low, tolerance))
            low, before, stages = _least(steep, low), low, (*stages, steep)
    return min(found, key=cost_of)


def _repetitions(flat, low, tolerance):
    count = 0
    while low < 1 - tolerance:
        low, count = _least(flat, low), count + 1
    return count


def _least(polynomial, low):
    return float(np.min(chained([polynomial], np.linspace(low, 1, 4096))))


def _flat(n):
    """f_n = sum of 4^-i C(2i, i) x (1 - x^2)^i for i up to n: flat at 1 and -1. In powers of x."""
    total, power = np.zeros(2 * n + 2), np.array([0.0, 1.0])
    for i in range(n + 1):
        total[: len(power)] += math.comb(2 * i, i) / 4**i * power
        power = np.convolve(power, [1.0, 0.0, -1.0])
    return total


def _jump(name, gap, family):
    if family not in ("minimax", "cheon"):
        raise ValueError(f'{name}: family = {family!r}; choose "minimax" or "cheon"')
    return functools.partial(_composition, name, float(gap), family)


@functools.lru_cache(maxsize=256)
def _composition(name, gap, family, domain, bits):
    radius = radius_of(domain)
    if not SMALLEST_GAP * radius <= gap < max(map(abs, domain)):
        raise ValueError(
            f"{name}: gap = {gap:g}; on the domain {domain} it is from {SMALLEST_GAP * radius:.3g} to below "
            f"{max(map(abs, domain)):g}: so near to the jump the result may lie between both values"
        )
    if bits > LARGEST_BITS:
        raise ValueError(f"{name}: bits = {bits:g}; {LARGEST_BITS} bits are reachable; ask for fewer")
    factor, offset = (1.0, 0.0) if name == "sign" else (0.5, 0.5)
    compose = sharp_sign if family == "minimax" else cheon_composition
    polynomials = carried(compose(gap / radius, 2.0**-bits / factor), radius, factor, offset)
    x = np.concatenate([np.geomspace(gap, radius, 1 << 14), np.linspace(gap, radius, 1 << 14)])
    error = float(np.max(np.abs(chained(polynomials, x) - factor - offset)))
    return chain(polynomials, error)
