"""1/x: minimax polynomials in closed form, and Goldschmidt's iteration behind them."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fhejax.functions.composite import Composition, Cost, Domain, cheapest, cost_of, elementwise, measure_chain, plus
from fhejax.functions.fits import LARGEST_DEGREE, free_domain, raise_degree
from fhejax.kinds.base import Encrypted
from fhejax.operations.arithmetic import add, multiply, square, subtract
from fhejax.polynomials.chebyshev import chebyshev_coefficients, chebyshev_nodes
from fhejax.polynomials.evaluation import evaluate
from fhejax.polynomials.polynomial import Polynomial
from fhejax.scheme.values import EvaluationKeys

# Degrees that an iteration may start from, where no polynomial is enough by itself.
SEED_DEGREES = (15, 31, 63, 127)
_MOST_FACTORS = 24
_RESOLUTION = 2.0**-48


@elementwise
def reciprocal(domain: Domain, bits: float) -> Composition:
    """1/x in every slot, for a domain of positive numbers or one of negative ones.

    One minimax polynomial; where degree 255 is not enough, one with a relative error r, and Goldschmidt's factors
    (1 + r) (1 + r^2) (1 + r^4) ... behind it, one level more for each. The error is absolute; relative to 1/x it is at
    most b 2^-bits on (a, b). x's error comes out times 1/x^2.

    On (0.5, 1.5), 12 bits: error 2^-13.8, depth 3, 4 key switches.
    On (0.1, 1), 12 bits: error 2^-12.1, depth 5, 6 key switches.
    On (0.01, 1), 12 bits: error 2^-12.2, depth 6, 12 key switches.
    On (0.1, 10), 12 bits: error 2^-12.7, depth 7, 10 key switches.
    On (0.0001, 1), 12 bits: error 2^-17.2, depth 12, 23 key switches.

    Source: Goldschmidt, "Applications of Division by Convergence", 1964; for the polynomials see `best_reciprocal`.
    """
    low, high = domain
    if low <= 0 <= high:
        raise ValueError(f"reciprocal: the domain {domain} contains the pole at 0; need 0 < a < b, or a < b < 0")
    return cheapest("reciprocal", domain, bits, lambda bits: _options(domain, 2.0**-bits))


class Inverse(NamedTuple):
    """1/x = y (1 + r) (1 + r^2) (1 + r^4) ..., with y from a polynomial and r = 1 - x y."""

    seed: Polynomial
    factors: int
    error: float  # relative

    @property
    def cost(self) -> Cost:
        """x y, and for each factor a product, and a square between them."""
        return plus(cost_of([self.seed]), self.factors + (self.factors > 0), 2 * self.factors)

    def __call__(self, x: Encrypted, keys: EvaluationKeys | None) -> Encrypted:
        y, residual = evaluate(self.seed, x, keys), None
        for _ in range(self.factors):
            residual = subtract(1.0, multiply(x, y, keys)) if residual is None else square(residual, keys)
            y = add(y, multiply(y, residual, keys))
        return y


def relative_inverses(domain: Domain, tolerance: float) -> Iterator[Inverse]:
    """Ways to 1/x on a positive domain, with a relative error within the tolerance."""
    errors = [_relative_error(domain, degree) for degree in range(LARGEST_DEGREE + 1)]
    reached = [degree for degree, error in enumerate(errors) if error <= tolerance]
    for degree in reached[:1] or SEED_DEGREES:
        counts = [count for count in range(_MOST_FACTORS) if errors[degree] ** 2**count <= tolerance]
        if counts:
            yield Inverse(_relative_polynomial(domain, degree), counts[0], errors[degree] ** 2 ** counts[0])


def best_reciprocal(domain: Domain, tolerance: float) -> Polynomial | None:
    """The cheapest minimax polynomial for 1/x on a positive domain within the tolerance; None above degree 255.

    Source: Chebyshev, as in Rivlin, "An Introduction to the Approximation of Functions", 1969, section 1.3.
    """
    low, high = domain
    # In u from -1 to 1, 1/x is 2 / (b - a) / (u + w) with w = (b + a) / (b - a). Its Chebyshev series is geometric, of
    # the ratio -q, and cut off behind T_n it is best once c_n is divided by 1 - q^2.
    q = (math.sqrt(high) - math.sqrt(low)) / (math.sqrt(high) + math.sqrt(low))
    root = 2 * math.sqrt(low * high) / (high - low)  # of w^2 - 1
    errors = 2 / (high - low) / root**2 * q ** np.arange(LARGEST_DEGREE + 1)
    reached = np.flatnonzero(errors <= tolerance)
    if not len(reached):
        return None
    degree = raise_degree(int(reached[0]), domain, None, errors)
    coefficients = 4 / (high - low) / root * (-q) ** np.arange(degree + 1)
    coefficients[0] /= 2
    coefficients[-1] /= 1 - q * q
    return Polynomial(coefficients, domain)


def _options(domain, tolerance):
    """Those for -x on negative domains, with signs turned."""
    negative, nearest = domain[1] < 0, min(map(abs, domain))
    wide = free_domain((-domain[1], -domain[0]) if negative else domain, "low")
    if tolerance > _RESOLUTION / nearest:
        single = best_reciprocal(wide, tolerance)
        ways = [] if single is None else [Inverse(single, 0, 0.0)]
        ways += [way._replace(error=way.error / nearest) for way in relative_inverses(wide, tolerance * nearest)]
        yield from (_option(way._replace(seed=_reflect(way.seed)) if negative else way, domain) for way in ways)


def _option(inverse, domain):
    """Measured, if it is one polynomial."""
    if inverse.factors:
        return inverse.cost, lambda: Composition(inverse, inverse.cost, inverse.error, (inverse.seed.degree,))
    return inverse.cost, lambda: measure_chain(lambda x: 1 / x, [inverse.seed], domain)


def _reflect(polynomial):
    """-p(-x)."""
    low, high = polynomial.domain
    signs = -((-1.0) ** np.arange(polynomial.degree + 1))
    return Polynomial(signs * polynomial.coefficients, (-high, -low))


def _relative_error(domain, degree):
    """The least there is: 1 - x p(x) = T_(degree + 1)(u), divided by its value at x = 0."""
    low, high = domain
    exponent = (degree + 1) * math.acosh((high + low) / (high - low))
    return 1 / math.cosh(exponent) if exponent < 700 else 0.0


def _relative_polynomial(domain, degree):
    low, high = domain
    u = chebyshev_nodes(2 * (degree + 1)).astype(np.float64)
    residual = (-1) ** (degree + 1) * np.cos((degree + 1) * np.arccos(u)) * _relative_error(domain, degree)
    values = (1 - residual) / ((low + high) / 2 + (high - low) / 2 * u)
    return Polynomial(chebyshev_coefficients(values)[: degree + 1], domain)
