"""Fitting by interpolation at Chebyshev nodes: immediate, and within a small factor of the best sup error."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fhejax.polynomials.polynomial import Polynomial
from fhejax.polynomials.report import check_parity, evaluate_function, measure_errors

LARGEST_DEGREE = 1023


def fit_chebyshev(
    f: Callable, domain: tuple[float, float], degree: int, *, parity: str | None = None, samples: Any = None
) -> Polynomial:
    """The polynomial that equals f at the degree + 1 zeros of the next Chebyshev polynomial, with a report.

    Its sup error is at most 2 + (2/pi) ln(degree + 1) times the least one. See Trefethen, "Approximation Theory and
    Approximation Practice", 2013, chapters 3 and 15.
    """
    if not 0 <= degree <= LARGEST_DEGREE:
        raise ValueError(f"fit: degree = {degree} for chebyshev; need 0 to {LARGEST_DEGREE}")
    target = functools.partial(evaluate_function, f)
    check_parity(target, [domain], parity)
    low, high = domain
    nodes = np.clip((low + high) / 2 + (high - low) / 2 * chebyshev_nodes(degree + 1), low, high)
    coefficients = chebyshev_coefficients(target(nodes))
    if parity is not None:
        coefficients[int(parity == "even") :: 2] = 0.0
    return measure_errors(Polynomial(coefficients, domain, parity), target, [domain], "chebyshev", samples=samples)


def chebyshev_nodes(count: int) -> np.ndarray:
    """`float64[count]`: cos(pi (j + 1/2) / count), exactly symmetric about 0."""
    return np.sin(np.pi * np.arange(count - 1, -count, -2) / (2 * count))


def chebyshev_coefficients(values: Any, cosines: Any = None) -> Any:
    """The series, c_0 first, that takes these values at as many Chebyshev nodes: a discrete cosine transform.

    Of any kind of numbers; `cosines` are then cos(pi m / (2 count)) in that kind, `[4 count]`.
    """
    count = len(values)
    if cosines is None:
        cosines = np.cos(np.pi * np.arange(4 * count) / (2 * count))
    k, j = np.arange(count)[:, None], np.arange(count)
    coefficients = cosines[k * (2 * j + 1) % (4 * count)] @ values * (2 / count)
    coefficients[0] = coefficients[0] / 2
    return coefficients
