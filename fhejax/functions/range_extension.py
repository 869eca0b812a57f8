"""Wide domains for functions with flat tails: odd polynomials that carry the tails closer, before the function itself.

Let s be odd and near enough to 1 from x = c on. An odd polynomial p that rises up to x = c and stays in [p(c), 1] from
there to the end of the domain moves nothing of s apart: s(x) = t(p(x)), where t is s after the inverse of p up to p(c),
and constant behind. With the values of p as domain, t is less steep than s by the slope of p at zero, at most its
degree; it may be extended again in the same way, or is what a last polynomial of moderate degree approximates.

Sources: Cheon, Kim & Park, "Efficient Homomorphic Evaluation on Large Intervals", 2022, where p is x - 4/27 x^3,
repeated; here it is the minimax approximation of the sign with |x| >= c, the steepest there is for each degree.
"""

import functools
from collections.abc import Callable, Iterator

import numpy as np

from fhejax.functions.composite import Cost, cost_of, evaluate_chain, plus
from fhejax.functions.fits import cost_of_degree, estimated_degree, fit_least
from fhejax.polynomials.minimax import sign_composition
from fhejax.polynomials.polynomial import Polynomial

# The share of the tolerance that taking a tail as constant may spend, on each side of its middle.
_TAIL = 0.125
_DEGREES = ((3,), (5,), (7,), (11,), (15,), (27,), (3, 7), (7, 7), (7, 15), (15, 15), (7, 7, 7))


def saturating_options(
    step: Callable, radius: float, tolerance: float
) -> Iterator[tuple[Cost, list[Polynomial], Callable]]:
    """Compositions for an odd rising function that goes to 1: (about the cost of all, stages, fit of the last one).

    The stages are evaluated one after the other, and then what `fit` returns, which is a polynomial.
    """
    corner = _corner(step, 2 * _TAIL * tolerance) / radius
    left = tolerance * (1 - 2 * _TAIL)
    for degrees in _DEGREES if corner < 0.25 else ():
        stages, ratio = sign_stages(degrees, corner)
        if ratio > 0.95:
            continue
        target = _target(lambda x: step(radius * x), stages, corner, ratio)
        degree = estimated_degree(target, (-1.0, 1.0), left, parity="odd")
        if degree is None:
            continue
        carried = [Polynomial(stages[0].coefficients, (-radius, radius), "odd"), *stages[1:]]
        cost = plus(cost_of_degree(degree, (-1.0, 1.0), "odd"), *cost_of(carried))
        yield cost, carried, functools.partial(fit_least, target, (-1.0, 1.0), left, parity="odd")


def sign_stages(degrees: tuple[int, ...], corner: float) -> tuple[list[Polynomial], float]:
    """(polynomials, ratio): one after the other they take [corner, 1] to [ratio, 1]; they are odd."""
    *stages, last = sign_composition(degrees, corner)
    error = last.report.sup_error
    return [*stages, Polynomial(last.coefficients / (1 + error), parity="odd")], (1 - error) / (1 + error)


def _corner(step, distance):
    """Where the function comes within a distance of 1."""
    low, high = 0.0, 1.0
    while step(high) < 1 - distance:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if step(middle) < 1 - distance else (low, middle)
    return high


def _target(unit, stages, corner, ratio):
    """The function of y = p(x), where unit is that of x; constant for |y| above ratio = p(corner)."""
    x = corner * np.sin(np.linspace(0, np.pi / 2, 1 << 14))
    y = np.maximum.accumulate(evaluate_chain(stages, x))
    tail = (1 + unit(corner)) / 2

    def target(values):
        values = np.asarray(values, np.float64)
        size = np.minimum(np.abs(values), ratio)
        inner = _inverse(stages, size, np.interp(size, y, x), corner)
        inside = np.minimum(unit(inner), tail)
        return np.sign(values) * np.where(np.abs(values) >= ratio, tail, inside)

    return target


def _inverse(stages, y, x, corner):
    """The x below the corner with p(x) = y, by the secant method from a good guess."""
    before = np.clip(x * (1 - 1e-6), 0, corner)
    error_before, error = evaluate_chain(stages, before) - y, evaluate_chain(stages, x) - y
    for _ in range(2):
        slope = np.where(error == error_before, 1.0, error - error_before)
        step = np.where(error == error_before, 0.0, error * (x - before) / slope)
        before, error_before, x = x, error, np.clip(x - step, 0, corner)
        error = evaluate_chain(stages, x) - y
    return x
