"""Functions with a branch point at zero: sqrt, rsqrt, log."""

import math

import jax.numpy as jnp
import numpy as np

from fhejax.functions.comparison import KINK, LARGEST_BITS, SMALLEST_GAP, sharp_sign
from fhejax.functions.composite import Composition, Domain, cheapest, cost_of, elementwise, evaluate_chain, plus
from fhejax.functions.fits import (
    affine,
    cost_of_degree,
    fit_of_degree,
    free_domain,
    single_fit,
    truncation_errors,
)
from fhejax.functions.inverse import SEED_DEGREES
from fhejax.operations.arithmetic import multiply, multiply_plain, square, subtract
from fhejax.polynomials.chebyshev import chebyshev_coefficients, chebyshev_nodes
from fhejax.polynomials.evaluation import evaluate
from fhejax.polynomials.polynomial import Polynomial
from fhejax.polynomials.report import evaluate_function


@elementwise
def rsqrt(domain: Domain, bits: float) -> Composition:
    """1 / sqrt(x) in every slot, for a positive domain.

    One minimax polynomial; where degree 255 is not enough, one with a small relative error, and Newton's iteration
    y (3 - x y^2) / 2 behind it, two levels each; or, on still wider domains, a composition of minimax polynomials for
    the sign, written in x = t^2. The error is absolute; relative to 1 / sqrt(x) it is at most sqrt(b) 2^-bits. x's
    error comes out times x^-1.5 / 2.

    On (0.5, 1.5), 12 bits: error 2^-14.3, depth 3, 3 key switches.
    On (0.1, 10), 12 bits: error 2^-16.5, depth 7, 10 key switches.
    On (0.01, 1), 12 bits: error 2^-14.7, depth 6, 10 key switches.
    On (0.0001, 1), 12 bits: error 2^-27.9, depth 13, 27 key switches.

    Source: for the compositions see `fhejax.polynomials.minimax.sign_composition`.
    """
    _check_positive("rsqrt", domain)
    f = lambda x: 1 / jnp.sqrt(x)
    return cheapest("rsqrt", domain, bits, lambda bits: _root_options(f, domain, 2.0**-bits, False))


@elementwise
def sqrt(domain: Domain, bits: float) -> Composition:
    """sqrt(x) in every slot, for a domain that begins at 0 or above.

    One minimax polynomial; where degree 255 is not enough, x times what `rsqrt` does. x's error comes out times
    x^-0.5 / 2; at zero, times the slope of the polynomial there, some 2^bits.

    On (0, 1), 8 bits: error 2^-8, depth 6, 9 key switches.
    On (0, 1), 12 bits: error 2^-12.1, depth 15, 20 key switches.
    On (0.01, 1), 12 bits: error 2^-12.1, depth 5, 6 key switches.
    On (1, 100), 12 bits: error 2^-13.4, depth 6, 8 key switches.
    """
    if domain[0] != 0:
        _check_positive("sqrt", domain)
    return cheapest("sqrt", domain, bits, lambda bits: _root_options(jnp.sqrt, domain, 2.0**-bits, True))


@elementwise
def log(domain: Domain, bits: float) -> Composition:
    """The natural logarithm in every slot, for a positive domain: one minimax polynomial.

    x's error comes out times 1/x.

    On (0.5, 1.5), 12 bits: error 2^-15, depth 3, 3 key switches.
    On (0.1, 10), 12 bits: error 2^-12.1, depth 7, 8 key switches.
    On (0.01, 1), 12 bits: error 2^-12, depth 6, 8 key switches.
    """
    _check_positive("log", domain)
    return cheapest("log", domain, bits, lambda bits: _single(jnp.log, domain, 2.0**-bits))


def _check_positive(name, domain):
    if domain[0] <= 0:
        needed = "0 <= a < b" if name == "sqrt" else "0 < a < b"
        raise ValueError(f"{name}: the domain {domain} reaches {'below' if domain[0] < 0 else 'to'} 0; need {needed}")


def _root_options(f, domain, tolerance, times_x):
    """One polynomial; where that is not enough, iterations for 1/sqrt(x), and a product with x for sqrt."""
    single = _single(f, domain, tolerance)
    yield from single
    if single:
        return
    if domain[0] > 0:
        # By what a relative error is multiplied in the result.
        factor = math.sqrt(domain[1]) if times_x else 1 / math.sqrt(domain[0])
        wide = free_domain(domain, "low")
        errors = truncation_errors(lambda x: 1 / jnp.sqrt(x), wide, jnp.sqrt)
        for degree in SEED_DEGREES:
            if errors[degree] < 0.5:
                yield _newton_option(wide, tolerance / factor, degree, errors[degree], factor, times_x)
    yield from _sign_like_options(f, domain, tolerance, times_x)


def _single(f, domain, tolerance):
    return single_fit(f, f, domain, free_domain(domain, "low"), tolerance, near=domain[0])[1]


def _newton_option(wide, tolerance, degree, error, factor, times_x):
    """y (3 - x y^2) / 2 from a polynomial y for 1/sqrt(x): of a relative error e remains 1.5 e^2 + 0.5 e^3."""
    after, count = lambda error: error**2 * (1.5 + 0.5 * error), 0
    while error > tolerance:
        error, count = after(error), count + 1
    cost = plus(cost_of_degree(degree, wide), 2 * count + times_x, 3 * count + times_x)

    def build():
        seed = fit_of_degree(lambda x: 1 / jnp.sqrt(x), wide, degree, weight=jnp.sqrt)
        error = seed.report.sup_error
        for _ in range(count):
            error = after(error)

        def program(x, keys):
            y, half = evaluate(seed, x, keys), multiply_plain(x, 0.5)
            for _ in range(count):
                cube = multiply(multiply(half, y, keys), square(y, keys), keys)
                y = subtract(multiply_plain(y, 1.5), cube)
            return multiply(x, y, keys) if times_x else y

        return Composition(program, cost, error * factor, (degree,))

    return cost, build


def _sign_like_options(f, domain, tolerance, times_x):
    """For the sign of t = sqrt(x), each p(t) = t q(t^2), written in x: 1/sqrt(x) is the product of the q."""
    low, high = domain
    radius = free_domain((0.0, high), "low")[1]
    if low > 0:
        relative = tolerance / math.sqrt(high) if times_x else tolerance * math.sqrt(low)
        gaps = [math.sqrt(low / radius)]
    else:
        relative = tolerance / math.sqrt(radius)
        gaps = [share * relative / KINK for share in (1.0, 0.85, 0.7)]
    for gap in gaps:
        if SMALLEST_GAP < gap < 0.9 and relative > 2.0**-LARGEST_BITS:
            composition = _sign_like(f, domain, radius, sharp_sign(gap, relative), times_x)
            if composition.error <= tolerance:
                yield composition.cost, lambda composition=composition: composition
                return


def _sign_like(f, domain, radius, odd, times_x):
    first, *others = map(_over_its_argument, odd)
    first = affine(first, 1 / math.sqrt(radius), 0.0, (0.0, radius))

    def compose(x, value, times):
        y, root = value(first, x), None
        if others or times_x:
            root = times(x, y)
        for polynomial in others:
            factor, last = value(polynomial, times(root, y)), polynomial is others[-1]
            y = y if last and times_x else times(y, factor)
            root = root if last and not times_x else times(root, factor)
        return root if times_x else y

    def program(x, keys):
        return compose(x, lambda p, x: evaluate(p, x, keys), lambda x, y: multiply(x, y, keys))

    low, high = domain
    x = np.concatenate([np.linspace(low, high, 1 << 14), np.geomspace(max(low, 1e-14 * high), high, 1 << 14)])
    values = compose(x, lambda p, x: evaluate_chain([p], x), lambda x, y: x * y)
    error = float(np.max(np.abs(values - evaluate_function(f, np.clip(x, low, high)))))
    products = int(bool(others or times_x)), max(0, 3 * len(others) - 1)
    cost = plus(cost_of([first, *others]), products[0] + 2 * len(others), sum(products))
    return Composition(program, cost, error, (first.degree, *(p.degree for p in others)))


def _over_its_argument(odd):
    """p(sqrt(z)) / sqrt(z), a polynomial on (0, 1)."""
    z = (1 + chebyshev_nodes((odd.degree + 1) // 2).astype(np.float64)) / 2
    values = evaluate_chain([odd], np.sqrt(z)) / np.sqrt(z)
    return Polynomial(chebyshev_coefficients(values), (0.0, 1.0))
