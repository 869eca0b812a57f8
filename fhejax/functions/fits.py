"""Minimax polynomials of the least cost, on domains that cost no level where that is possible."""

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.polynomial import chebyshev

from fhejax.functions.composite import Cost, Domain, Option, cost_of, measure_chain, plus
from fhejax.polynomials.chebyshev import chebyshev_coefficients, chebyshev_nodes, fit_chebyshev
from fhejax.polynomials.minimax import fit_minimax
from fhejax.polynomials.polynomial import Polynomial
from fhejax.polynomials.remez import ConvergenceError
from fhejax.polynomials.report import evaluate_function

LARGEST_DEGREE = 255
# Up to here a fit takes a fraction of a second, so that another one, for a better error at equal cost, is affordable.
_AFFORDABLE = 63
# Relative to the largest value; smaller errors are not resolved in double precision.
_RESOLUTION = 2.0**-45


def fit_least(
    f: Callable, domain: Domain, tolerance: float, *, parity: str | None = None, weight: Callable | None = None
) -> Polynomial:
    """The minimax polynomial of the least degree within a (weighted) tolerance, or of a larger one that costs no more.

    If no degree up to 255 reaches it, the best there is.
    """
    errors = truncation_errors(f, domain, weight)
    step = 2 if parity else 1
    degrees = _degrees(parity)
    fitted = functools.cache(lambda degree: fit_of_degree(f, domain, degree, parity, weight))
    error = lambda degree: fitted(degree).report.sup_error
    degree = _guess(errors, tolerance, degrees)
    degree = degrees[-1] if degree is None else degree
    if degree != degrees[-1]:
        ratio = error(degree) / max(errors[degree], 2.0**-1000)
        better = _guess(errors, tolerance, degrees, [ratio])
        degree = degrees[-1] if better is None else better
    while error(degree) > tolerance and degree < degrees[-1]:
        degree = min(degree + (step if degree <= _AFFORDABLE else 4 * step), degrees[-1])
    while degrees[0] < degree <= _AFFORDABLE and error(degree - step) <= tolerance:
        degree -= step
    if error(degree) <= tolerance:
        degree = raise_degree(degree, domain, parity, errors)
    return fitted(degree)


def estimated_degree(
    f: Callable, domain: Domain, tolerance: float, *, parity: str | None = None, weight: Callable | None = None
) -> int | None:
    """About the degree that `fit_least` finds, at once; None if it is above 255."""
    return _guess(truncation_errors(f, domain, weight), tolerance, _degrees(parity))


def cost_of_degree(degree: int, domain: Domain, parity: str | None = None) -> Cost:
    """The levels and key switches of a polynomial of this degree."""
    coefficients = np.zeros(degree + 1)
    coefficients[int(parity == "odd") :: 2 if parity else 1] = 1.0
    return cost_of([Polynomial(coefficients, domain)])


def single_fit(
    f: Callable,
    target: Callable,
    domain: Domain,
    wide: Domain,
    tolerance: float,
    *,
    parity: str | None = None,
    finish: Callable[[Polynomial], Polynomial] = lambda p: p,
    then: Sequence[Polynomial] = (),
    near: float | None = None,
) -> tuple[float | int, list[Option]]:
    """(degree, options) for f on a domain: a fit of the target on a wider one, finished, and then further polynomials.

    Infinity and none where degree 255 is not enough.
    """
    degree = estimated_degree(target, wide, tolerance, parity=parity)
    if degree is None:
        return math.inf, []
    fit = functools.partial(fit_least, target, wide, tolerance, parity=parity)
    build = lambda: measure_chain(f, [finish(fit()), *then], domain, near=near)
    return degree, [(plus(cost_of_degree(degree, wide, parity), *cost_of(then)), build)]


def truncation_errors(f: Callable, domain: Domain, weight: Callable | None = None) -> np.ndarray:
    """The sup error of the Chebyshev series of f cut off behind T_n, for n up to 255, on a grid."""
    low, high = domain
    onto = lambda u: np.clip((low + high) / 2 + (high - low) / 2 * np.asarray(u, np.float64), low, high)
    coefficients = chebyshev_coefficients(evaluate_function(f, onto(chebyshev_nodes(LARGEST_DEGREE + 1))))
    u = np.cos(np.linspace(0, np.pi, 1024))
    series = np.cumsum(chebyshev.chebvander(u, LARGEST_DEGREE) * coefficients, axis=1)
    errors = np.abs(series - evaluate_function(f, onto(u))[:, None])
    return np.max(errors if weight is None else errors * evaluate_function(weight, onto(u))[:, None], axis=0)


def free_domain(domain: Domain, anchor: str = "middle") -> Domain:
    """The domain widened so that carrying it to (-1, 1) takes no level; if it is wider than 2, as it is.

    The anchor stays: "low", "high", or "middle".
    """
    low, high = domain
    most, middle = math.floor(2 / (high - low) * (1 + 1e-12)), (low + high) / 2
    # Where rounding spoils one number of parts, a few fewer may do, or else a power of two.
    for parts in [*range(most, max(most - 8, 0), -1), *(1 << i for i in reversed(range(most.bit_length())))]:
        width = 2 / parts
        wide = {
            "low": (low, low + width),
            "high": (high - width, high),
            "middle": (middle - width / 2, middle + width / 2),
        }[anchor]
        if wide[0] <= low and wide[1] >= high and (2 / (wide[1] - wide[0])).is_integer():
            return wide
    return domain


def symmetric(domain: Domain) -> bool:
    """Whether the domain is symmetric about zero."""
    return domain[0] == -domain[1]


def affine(polynomial: Polynomial, factor: float, offset: float, domain: Domain | None = None) -> Polynomial:
    """factor p + offset; with a domain, p carried to it."""
    coefficients = factor * np.asarray(polynomial.coefficients)
    coefficients[0] += offset
    return Polynomial(coefficients, domain or polynomial.domain, None if offset else polynomial.parity)


def plus_half_of_x(even: Polynomial) -> Polynomial:
    """p + x / 2, for an even polynomial on a symmetric domain."""
    coefficients = np.array(even.coefficients)
    coefficients = np.pad(coefficients, (0, max(0, 2 - len(coefficients))))
    coefficients[1] += even.domain[1] / 2
    return Polynomial(coefficients, even.domain)


def _degrees(parity):
    return range(int(parity == "odd"), LARGEST_DEGREE + 1, 2 if parity else 1)


def _guess(errors, tolerance, degrees, ratios=(0.6, 0.4)):
    """The degree, by what the minimax error is of that of the series cut off: 0.6 for smooth functions, 0.4 for |x|."""
    found = (degree for ratio in ratios for degree in degrees if ratio * errors[degree] <= tolerance)
    return next(found, None)


def raise_degree(degree: int, domain: Domain, parity: str | None, errors: np.ndarray) -> int:
    """The largest degree at the cost of this one, as far as its error is resolved, and a fit affordable."""
    cost = cost_of_degree(degree, domain, parity)
    most = min(2 ** degree.bit_length() - 1, _AFFORDABLE)
    larger = [n for n in _degrees(parity) if degree < n <= most and errors[n] > _RESOLUTION * errors[0]]
    return next((n for n in reversed(larger) if cost_of_degree(n, domain, parity) == cost), degree)


def fit_of_degree(f, domain, degree, parity=None, weight=None):
    try:
        return fit_minimax(f, [domain], degree, parity=parity, weight=weight)
    except ConvergenceError:
        return fit_chebyshev(f, domain, degree, parity=parity)
