"""Fitting by minimax: the polynomial with the least sup error, with a certificate of how close to the least it is.

And compositions of such polynomials for the sign, which no single polynomial of moderate degree approximates.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mpmath
import numpy as np
from numpy.polynomial import chebyshev

from fhejax.polynomials.chebyshev import chebyshev_coefficients, chebyshev_nodes
from fhejax.polynomials.plan import planned
from fhejax.polynomials.polynomial import Polynomial
from fhejax.polynomials.remez import ConvergenceError, Problem, exchange
from fhejax.polynomials.report import (
    Intervals,
    check_parity,
    evaluate_function,
    measure_errors,
    resolution,
    with_report,
)

LARGEST_DEGREE = 255

# A composition's polynomials are fitted at least up to here from 1, however precise those before are.
_NARROWEST = 1 - 2.0**-20
_DEEPEST = 5


def fit_minimax(
    f: Callable,
    domain: Intervals,
    degree: int,
    *,
    parity: str | None = None,
    weight: Callable | None = None,
    samples: Any = None,
    digits: int | None = None,
) -> Polynomial:
    """The polynomial whose largest weighted error over the intervals is the least, with a lower bound in its report.

    f is evaluated in double precision: errors below 2^-48 of its values are not resolved. With `digits`, f and the
    weight are functions on mpmath's numbers, and the work is done in so many decimal digits, some thirty times slower.
    """
    problem = _problem(f, domain, degree, parity, weight, digits)
    best = exchange(problem, _rough_start(problem))
    coefficients = np.pad(best.coefficients, (0, degree - problem.degree))
    with mpmath.workdps(digits or 15):
        polynomial = measure_errors(
            Polynomial(coefficients, (domain[0][0], domain[-1][1]), parity),
            problem.target,
            domain,
            "minimax",
            weight=problem.weight,
            samples=samples,
            near=best.reference,
            points=64 if problem.exact else 4096,
            numbers=_to_mpf if problem.exact else np.asarray,
            lower_bound=best.lower_bound,
        )
    _check_rounding(polynomial, problem, best)
    return polynomial


def sign_composition(degrees: Sequence[int] = (15, 15, 27), gap: float = 2.0**-9) -> tuple[Polynomial, ...]:
    """Odd polynomials p_1, ..., p_k on (-1, 1) such that p_k(... p_1(x)) is the sign of x for gap <= |x| <= 1.

    Each is the minimax polynomial of its degree on what the one before makes of the domain, divided by its largest
    value so that the next one takes (-1, 1) again, and no level is lost in between. The last one is not divided; its
    `report.sup_error` is that of the composition. The other reports are about the sign divided by the same number.

    Args:
      degrees: odd, that of p_1 first.
      gap: the smallest magnitude of which the sign is to be right; the error is below 1 nearer to zero too.

    Returns:
      One polynomial for each degree. Results are kept, and equal arguments return the same.

    Raises:
      ValueError: an even degree, none, or a gap that is not between 0 and 1.

    Degrees (15, 15, 27) with the gap 2^-9 have the error 2^-13.3, and x (1 + sign(x)) / 2 then differs from relu by
    less than 2^-13 everywhere in (-1, 1), in 13 levels and one more.

    Source: Lee, Lee, No & Kim, "Minimax Approximation of Sign Function by Composite Polynomial for Homomorphic
    Comparison", 2021, section 4; the degrees for a precision of 13 bits, Lee, Lee, Lee, Kim, Kim & No, "Precise
    Approximation of Convolutional Neural Networks for Homomorphically Encrypted Data", 2021.

    Example:
      >>> from fhejax.polynomials.minimax import sign_composition
      >>> polynomials = sign_composition((7, 7), gap=2**-3)
      >>> [p.depth for p in polynomials], round(polynomials[-1].report.bits, 2)
      ([3, 3], 8.43)
    """
    degrees = tuple(degrees)
    if not degrees or any(degree != int(degree) or degree < 1 or degree % 2 == 0 for degree in degrees):
        raise ValueError(f"sign_composition: degrees = {degrees}; need odd ones, such as (15, 15, 27)")
    return _sign_composition(degrees, _checked_gap("sign_composition", gap))


def best_sign_degrees(gap: float, error: float) -> tuple[int, ...]:
    """The degrees of the cheapest `sign_composition`: of least depth, then with the fewest key switches.

    Args:
      gap: the smallest magnitude of which the sign is to be right.
      error: the largest that is allowed where |x| is at least the gap.

    Returns:
      Degrees up to 31, that of the first polynomial first. Of equal cost, those with the smallest error.

    Raises:
      ValueError: a gap that is not from 2^-24 to 1, or an error that is not from 2^-40 to 1.

    Source: Lee, Lee, No & Kim, 2021 (see `sign_composition`), section 4, by dynamic programming over the depth.

    Example:
      >>> from fhejax.polynomials.minimax import best_sign_degrees
      >>> best_sign_degrees(gap=2**-9, error=2**-13)
      (15, 15, 27)
    """
    if not 2.0**-40 <= error < 1 or gap < 2.0**-24:
        raise ValueError(f"best_sign_degrees: gap = {gap}, error = {error}; need at least 2^-24 and 2^-40")
    return _best_sign_degrees(_checked_gap("best_sign_degrees", gap), float(error))


def _problem(f, domain, degree, parity, weight, digits):
    needed = degree - (parity is not None and degree % 2 != (parity == "odd"))  # the last one is of no use
    if not 0 <= needed <= LARGEST_DEGREE:
        raise ValueError(
            f"fit: degree = {degree} for minimax; need 0 to {LARGEST_DEGREE}, and at least 1 for an odd polynomial"
        )
    if digits is None:
        evaluate, noise = evaluate_function, resolution(f, np.array(domain[0]))
    else:
        evaluate, noise = _in_digits, mpmath.mpf(10) ** -digits
    target = functools.partial(evaluate, f)
    weight = None if weight is None else functools.partial(_positive, functools.partial(evaluate, weight))
    problem = Problem(target, weight, domain, needed, parity, noise, digits is not None)
    check_parity(target, domain, parity)
    return problem


_to_mpf = np.vectorize(mpmath.mpf, otypes=[object])


def _in_digits(f, x):
    """The values of f on an array of mpmath's numbers."""
    return np.reshape(np.array([_number(f, point) for point in np.ravel(x)], dtype=object), np.shape(x))


def _number(f, x):
    try:
        value = f(_to_mpf(x).item())
    except (TypeError, AttributeError) as error:
        raise TypeError(
            "fit: with digits, f is called on numbers of mpmath, one at a time; write it with mpmath's functions, such "
            f"as lambda x: mpmath.tanh(x). It failed with: {error}"
        ) from error
    if not isinstance(value, mpmath.mpf | int):
        raise TypeError(
            f"fit: with digits, f must return numbers of mpmath, and returned {type(value).__name__}; write it with "
            "mpmath's functions, such as lambda x: mpmath.tanh(x)"
        )
    if not mpmath.isfinite(value):
        raise ValueError(f"fit: f({float(x):.6g}) = {value}; f must be finite where it is fitted")
    return mpmath.mpf(value)


def _positive(weight, x):
    values = weight(x)
    if not np.all(values > 0):
        first = np.argmin(np.ravel(values > 0))
        raise ValueError(
            f"fit: weight({float(np.ravel(x)[first]):.6g}) = {float(np.ravel(values)[first]):.6g}; it must be positive"
        )
    return values


def _rough_start(problem):
    """The reference that double precision finds, for a problem in more digits: it takes most exchanges away."""
    if not problem.exact:
        return None
    rounded = lambda function: None if function is None else lambda x: function(_to_mpf(x)).astype(np.float64)
    rough = dataclasses.replace(
        problem, target=rounded(problem.target), weight=rounded(problem.weight), noise=2.0**-52, exact=False
    )
    try:
        return exchange(rough).reference
    except ConvergenceError:
        return None


def _check_rounding(polynomial, problem, best):
    """Between the intervals, and for absurd degrees, a series can be so large that rounding it loses the fit."""
    reference = _to_mpf(best.reference) if problem.exact else best.reference
    largest, scale = max(abs(polynomial.coefficients)), float(max(abs(problem.target(reference))))
    error = polynomial.report.sup_error
    if error > 2 * best.error and error > 2.0**-24 * scale:
        raise ConvergenceError(
            f"fit: minimax of degree {polynomial.degree} has the error {best.error:.3g}, but {error:.3g} after its "
            f"coefficients, up to {largest:.3g}, are rounded to doubles: it is that large between the intervals. Take "
            "a lower degree, or intervals with less between them"
        )


def _checked_gap(operation, gap):
    if not 0 < gap < 1:
        raise ValueError(f"{operation}: gap = {gap}; need a number between 0 and 1, such as 2**-9")
    return float(gap)


def _low_after(error):
    """What the next polynomial's domain begins at, after division by 1 + error."""
    return min((1 - error) / (1 + error), _NARROWEST)


@functools.lru_cache(maxsize=64)
def _sign_composition(degrees, gap):
    polynomials, low = [], gap
    for place, degree in enumerate(degrees, 1):
        polynomial = _sign_fit(degree, low)
        error = polynomial.report.sup_error
        polynomials.append(polynomial if place == len(degrees) else _divide(polynomial, 1 + error))
        low = _low_after(error)
    return tuple(polynomials)


@functools.lru_cache(maxsize=256)  # compositions begin alike
def _sign_fit(degree, low):
    return fit_minimax(np.sign, [(-1.0, -low), (low, 1.0)], degree, parity="odd")


def _divide(polynomial, divisor):
    """With a report about the sign divided by the same number."""
    report = polynomial.report
    errors = {name: getattr(report, name) / divisor for name in ("sup_error", "mean_error", "lower_bound")}
    divided = Polynomial(polynomial.coefficients / divisor, polynomial.domain, polynomial.parity)
    return with_report(divided, dataclasses.replace(report, **errors))


class _State(NamedTuple):
    """A composition so far. Values with an error of e lie between (1 - e) / (1 + e) and 1, once divided by 1 + e."""

    degrees: tuple[int, ...]
    switches: int  # key switches
    error: float


@functools.lru_cache(maxsize=64)
def _best_sign_degrees(gap, error):
    """By depth, all compositions that no other one of the depth beats in both key switches and error."""
    reached = [[_State((), 0, (1 - gap) / (1 + gap))]]
    while True:
        depth = len(reached)
        steps = [step for step in _sign_steps() if step[0] <= depth]
        states = [_extend(state, *step[1:]) for step in steps for state in reached[depth - step[0]]]
        promising = [state for state in states if state.error <= 1.1 * error]
        for state in sorted(promising, key=lambda state: (state.switches, state.error)):
            if _composition_error(state.degrees, gap) <= error:
                return state.degrees
        reached.append(_pareto(states))


@functools.cache
def _sign_steps():
    """(depth, key switches, degree) for the largest odd degree at each cost."""
    largest = {}
    for degree in range(3, 1 << _DEEPEST, 2):
        switches, _ = planned((tuple(bool(k % 2) for k in range(degree + 1)),)).cost
        largest[degree.bit_length(), switches] = degree
    return sorted((*cost, degree) for cost, degree in largest.items())


def _extend(state, switches, degree):
    series, (low, high) = _error_map(degree)
    place = min(max(_logit(state.error), low), high)
    error = 1 / (1 + math.exp(-chebyshev.chebval((2 * place - low - high) / (high - low), series)))
    return _State((*state.degrees, degree), state.switches + switches, error)


@functools.cache
def _error_map(degree):
    """How a polynomial maps the error before it to its own: a series in log(e / (1 - e)) of both, straight at the ends.

    Within 0.5 % of the error; from gaps of 2^-24 to where the error drops below 2^-42.
    """
    low, high = _logit(2.0 ** (-84 / (degree + 1))), 24 * math.log(2)
    places = (low + high) / 2 + (high - low) / 2 * chebyshev_nodes(24)
    errors = [_sign_error(degree, 1 / (1 + 2 * math.exp(place))) for place in places]  # (1 - e) / (1 + e)
    return chebyshev_coefficients(np.array([_logit(error) for error in errors])), (low, high)


def _composition_error(degrees, gap):
    low = gap
    for degree in degrees:
        error = _sign_error(degree, low)
        low = _low_after(error)
    return error


def _sign_error(degree, low):
    return exchange(Problem(np.sign, None, [(-1.0, -low), (low, 1.0)], degree, "odd", 2.0**-52, False)).error


def _logit(error):
    return math.log(error) - math.log1p(-error)


def _pareto(states):
    kept = []
    for state in sorted(states, key=lambda state: (state.switches, state.error)):
        if not kept or state.error < kept[-1].error:
            kept.append(state)
    return kept
