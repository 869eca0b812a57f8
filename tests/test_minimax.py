"""Minimax: certificates, closed forms, a linear program as an oracle, and published compositions for the sign."""

import functools
import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings, strategies as st
from numpy.polynomial import chebyshev

from fhejax.polynomials import ConvergenceError, best_sign_degrees, fit, sign_composition
from fhejax.polynomials.minimax import fit_minimax

minimax = functools.partial(fit, method="minimax")
reciprocal = lambda x: 1 / x
rsqrt = lambda x: 1 / jnp.sqrt(x)
ABOUT_ZERO = [(-1, -0.01), (0.01, 1)]

FUNCTIONS = {
    "gelu": (jax.nn.gelu, (-16, 16)),
    "sigmoid": (jax.nn.sigmoid, (-8, 8)),
    "tanh": (jnp.tanh, (-8, 8)),
    "reciprocal": (reciprocal, (0.1, 10)),
    "rsqrt": (rsqrt, (0.1, 10)),
    "sqrt": (jnp.sqrt, (0, 1)),
    "exp": (jnp.exp, (-16, 0)),
    "relu": (jax.nn.relu, (-1, 1)),
    "abs": (jnp.abs, (-1, 1)),
    "sine": (jnp.sin, (0, 30)),
    "sign": (jnp.sign, ABOUT_ZERO),
    "exp on three": (jnp.exp, [(-3, -2), (0, 0.5), (4, 4.25)]),
}


def values(polynomial, x):
    low, high = polynomial.domain
    return chebyshev.chebval((2 * x - low - high) / (high - low), polynomial.coefficients)


def grid(domain, points=20_001):
    return np.concatenate([np.linspace(*interval, points) for interval in np.reshape(domain, (-1, 2))])


# --- certificates ------------------------------------------------------------------------------------------------


@pytest.mark.sampled(8)
@pytest.mark.parametrize("degree", [1, 2, 7, 16, 31, 63])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_certificates(name, degree):
    f, domain = FUNCTIONS[name]
    fitted = minimax(f, domain, degree)
    report, x = fitted.report, grid(domain)
    largest = np.max(np.abs(f(x)))
    assert np.max(np.abs(np.asarray(f(x), np.float64) - values(fitted, x))) <= report.sup_error + 1e-6 * largest
    if report.sup_error > 2.0**-32 * largest:
        assert report.gap < 1e-6
    else:  # what double precision resolves
        assert report.sup_error - report.lower_bound < 2.0**-38 * largest


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gelu", "tanh", "abs", "sign"])
def test_certificates_of_degree_127(name):
    assert minimax(*FUNCTIONS[name], 127).report.gap < 1e-4


@pytest.mark.parametrize("x64", [False, True])
def test_the_error_alternates(x64):
    with jax.enable_x64(x64):
        fitted = minimax(jnp.exp, (-1, 2), 6)
    x = np.linspace(-1, 2, 100_001)
    error = np.exp(x) - values(fitted, x)
    extreme = np.sign(error[np.abs(error) > 0.999 * fitted.report.lower_bound])
    assert 1 + np.count_nonzero(np.diff(extreme)) == 8


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(-2, 2), min_size=3, max_size=6), st.integers(0, 12), st.floats(0.5, 3))
def test_between_the_lower_bound_and_interpolation(frequencies, degree, width):
    f = lambda x: sum(np.sin(frequency * x + place) for place, frequency in enumerate(frequencies))
    best, interpolated = minimax(f, (-width, width), degree).report, fit(f, (-width, width), degree).report
    assert best.lower_bound <= best.sup_error + 1e-15
    assert best.sup_error <= interpolated.sup_error * (1 + 1e-9) + 1e-14
    assert interpolated.sup_error >= best.lower_bound - 1e-15


def linear_program(f, x, degree, weight=np.ones_like):
    """The least weighted sup error on points."""
    basis = chebyshev.chebvander(x / np.max(np.abs(x)), degree) * weight(x)[:, None]
    target, ones = f(x) * weight(x), np.ones((len(x), 1))
    return scipy.optimize.linprog(
        [*[0.0] * (degree + 1), 1.0],
        A_ub=np.block([[basis, -ones], [-basis, -ones]]),
        b_ub=np.concatenate([target, -target]),
        bounds=[(None, None)] * (degree + 1) + [(0, None)],
    ).fun


@pytest.mark.sampled(3)
@pytest.mark.parametrize("domain", [(-1, 1), [(-1, -0.3), (0.5, 1)], [(-2, -1), (-0.1, 0.1), (1.5, 2)]])
@pytest.mark.parametrize("weight", [None, lambda x: np.exp(-x), lambda x: 1 / (0.1 + x**2)])
def test_equals_a_linear_program(domain, weight):
    fitted = minimax(np.cosh, domain, 3, weight=weight)
    want = linear_program(np.cosh, grid(domain, 1501), 3, weight or np.ones_like)
    assert want <= fitted.report.sup_error < want * 1.00001
    assert fitted.report.gap < 1e-6


def test_weights_for_a_relative_error():
    fitted = minimax(jnp.exp, (-4, 0), 5, weight=lambda x: jnp.exp(-x))
    x = grid((-4, 0))
    relative = np.max(np.abs(1 - values(fitted, x) / np.exp(x)))
    assert relative == pytest.approx(fitted.report.sup_error, rel=1e-6)
    plain = minimax(jnp.exp, (-4, 0), 5)
    assert relative < 0.2 * np.max(np.abs(1 - values(plain, x) / np.exp(x)))


# --- closed forms ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [1, 2, 5, 12])
def test_powers(degree):
    """x^n less T_n / 2^(n-1)."""
    assert minimax(lambda x: x**degree, (-1, 1), degree - 1).report.sup_error == pytest.approx(2.0 ** (1 - degree))


def test_absolute_value():
    fitted = minimax(jnp.abs, (-1, 1), 2)
    assert fitted.report.sup_error == pytest.approx(1 / 8)
    np.testing.assert_allclose(fitted.coefficients, [0.625, 0, 0.5], atol=1e-7)
    assert minimax(jnp.abs, (-1, 1), 3).report.sup_error == pytest.approx(1 / 8)


@pytest.mark.parametrize("degree", [1, 4, 20])
@pytest.mark.parametrize("a", [1.1, 2.0])
def test_reciprocal(a, degree):
    """Chebyshev, 1892: of 1 / (x - a) on (-1, 1)."""
    want = (a - math.sqrt(a * a - 1)) ** degree / (a * a - 1)
    assert minimax(lambda x: 1 / (x - a), (-1, 1), degree).report.sup_error == pytest.approx(want, rel=1e-6)


def test_lines():
    """The slope is that of the chord, and the line is half way between it and the tangent that is parallel to it."""
    slope = math.sinh(1)
    error = (math.cosh(1) - slope + slope * math.log(slope)) / 2
    fitted = minimax(jnp.exp, (-1, 1), 1)
    assert fitted.coefficients[1] == pytest.approx(slope) and fitted.report.sup_error == pytest.approx(error - 0.0)


def test_a_line_for_the_sign():
    """p(x) = c x with 1 - c eps = c - 1."""
    assert minimax(jnp.sign, ABOUT_ZERO, 1, parity="odd").report.sup_error == pytest.approx(0.99 / 1.01)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("parity", [None, "odd"])
@pytest.mark.parametrize("degree", [3, 8, 31, 63])
def test_polynomials_are_found_exactly(parity, degree):
    fitted = minimax(lambda x: 4 * x**3 - 3 * x, (-1, 1), degree, parity=parity)
    np.testing.assert_allclose(fitted.coefficients, np.eye(degree + 1)[3], atol=4e-15)
    assert fitted.report.sup_error < 1e-14


@pytest.mark.parametrize("value", [0.0, 3.0])
@pytest.mark.parametrize("degree", [0, 1, 15])
def test_constants(value, degree):
    fitted = minimax(lambda x: value + 0 * x, (-1, 2), degree)
    assert fitted.report.sup_error == 0 and fitted.coefficients[0] == value


# --- parity ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [3, 4, 9, 10, 31])
def test_odd_functions_have_odd_best_polynomials(degree):
    """Also where the reference is symmetric, so that the first level is zero."""
    free, odd = (minimax(jnp.tanh, (-4, 4), degree, parity=parity) for parity in (None, "odd"))
    assert free.report.sup_error == pytest.approx(odd.report.sup_error, rel=1e-6)
    np.testing.assert_allclose(free.coefficients, odd.coefficients, atol=1e-6)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("degree", [2, 3, 10, 63])
def test_even_functions(degree):
    free, even = (minimax(jnp.abs, (-1, 1), degree, parity=parity).report for parity in (None, "even"))
    assert free.sup_error == pytest.approx(even.sup_error, rel=1e-6) and even.gap < 1e-6


@pytest.mark.sampled(4)
@pytest.mark.parametrize("gap", [0.5, 2**-5, 2**-13, 2**-20])
@pytest.mark.parametrize("degree", [1, 7, 31, 63])
def test_odd_polynomials_for_the_sign(gap, degree):
    report = minimax(jnp.sign, [(-1, -gap), (gap, 1)], degree, parity="odd").report
    assert report.gap < 1e-6 or report.sup_error < 2.0**-40


# --- more digits -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_in_more_digits():
    for f, exact, degree in [(jnp.exp, mpmath.exp, 7), (jnp.abs, abs, 8)]:
        double, more = minimax(f, (-1, 1), degree).report, minimax(exact, (-1, 1), degree, digits=30).report
        assert more.lower_bound == pytest.approx(double.lower_bound, rel=1e-6) and more.gap < 1e-6


@pytest.mark.slow
def test_lower_bounds_below_double_precision():
    """The sup error is then that of rounding the coefficients."""
    report = minimax(mpmath.exp, (-1, 1), 17, digits=40).report
    assert report.lower_bound == pytest.approx(2.0**-17 / math.factorial(18), rel=0.02)
    assert report.sup_error < 2.0**-51


@pytest.mark.parametrize(
    "f, error, says",
    [
        (jnp.exp, TypeError, "mpmath"),
        (math.exp, TypeError, "returned float; write it with mpmath's functions"),
        (lambda x: x.real_part, TypeError, "It failed with"),
        (lambda x: mpmath.inf, ValueError, "f must be finite"),
    ],
)
def test_digits_need_functions_of_mpmath(f, error, says):
    with pytest.raises(error, match=f"fit: .*{says}"):
        minimax(f, (-1, 1), 3, digits=20)


# --- what cannot be --------------------------------------------------------------------------------------------------


def test_weights_are_positive():
    with pytest.raises(ValueError, match=r"fit: weight\(-.*\) = -.*; it must be positive"):
        minimax(jnp.exp, (-1, 1), 3, weight=lambda x: x)


def test_jumps_have_no_good_polynomial():
    """Half of the jump is the least error: it is found, or refused with what to do."""
    try:
        report = minimax(lambda x: jnp.where(x > 0.1, 1.0, 0.0), (-1, 1), 9).report
    except ConvergenceError as error:
        assert "leave a gap" in str(error)
    else:
        assert report.sup_error == pytest.approx(0.5, rel=1e-2)


@pytest.mark.slow
def test_noise_is_no_polynomial():
    """Random values at each point, the same at each call."""
    noise = lambda x: np.modf(np.abs(np.sin(1e4 * x) * 1e5))[0]
    try:
        assert minimax(noise, (-1, 1), 5).report.sup_error > 0.4
    except ConvergenceError as error:
        assert "did not converge" in str(error) and "take a lower degree" in str(error)


@pytest.mark.slow
def test_series_too_large_between_the_intervals():
    with pytest.raises(ConvergenceError, match=r"rounded to doubles: .* a lower degree"):
        minimax(*FUNCTIONS["exp on three"], 127)


# --- the sign as a composition -----------------------------------------------------------------------------------


def composed(polynomials, x):
    for polynomial in polynomials:
        x = values(polynomial, x)
    return x


@pytest.mark.parametrize("degrees, gap", [((3,), 0.3), ((7, 7), 0.1), ((15, 15, 27), 2**-9), ((7, 3, 5), 0.9)])
def test_sign_composition(degrees, gap):
    polynomials = sign_composition(degrees, gap)
    assert [p.degree for p in polynomials] == list(degrees)
    assert all(p.domain == (-1.0, 1.0) and p.parity == "odd" and p.report.gap < 1e-2 for p in polynomials[:2])
    assert sum(p.depth for p in polynomials) == sum((degree + 1 - 1).bit_length() for degree in degrees)
    x = np.concatenate([np.geomspace(gap, 1, 20_001), np.linspace(gap, 1, 20_001)])
    for stage in range(1, len(degrees)):
        assert np.max(composed(polynomials[:stage], x)) <= 1 + 1e-12
    error = np.max(np.abs(composed(polynomials, x) - 1))
    assert error == pytest.approx(polynomials[-1].report.sup_error, rel=1e-4, abs=1e-11)
    np.testing.assert_allclose(composed(polynomials, -x), -composed(polynomials, x), atol=1e-13)


# Degrees by the precision of relu(x) = x (1 + sign(x)) / 2 on (-1, 1) in bits, with the gap that gets it.
RELU = {
    4: ((5,), 2**-1.55),
    5: ((13,), 2**-2.38),
    6: ((3, 7), 2**-2.71),
    7: ((7, 7), 2**-3.57),
    8: ((7, 15), 2**-4.38),
    9: ((15, 15), 2**-5.31),
    10: ((7, 7, 13), 2**-6.33),
    11: ((7, 7, 27), 2**-7.26),
    12: ((7, 15, 27), 2**-8.2),
    13: ((15, 15, 27), 2**-9),
    14: ((15, 27, 29), 2**-9.98),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("bits", RELU)
def test_published_degrees_reach_the_published_precision(bits):
    polynomials = sign_composition(*RELU[bits])
    x = np.concatenate([np.geomspace(2.0**-16, 1, 40_001), np.linspace(0, 1, 40_001)])
    assert np.max(x * np.abs(1 - composed(polynomials, x)) / 2) < 2.0**-bits


@pytest.mark.slow
def test_degrees_15_15_27_have_13_bits_in_13_levels():
    polynomials = sign_composition((15, 15, 27))
    assert polynomials[-1].report.sup_error < 2.0**-13 and polynomials[-1].report.gap < 1e-6
    assert sum(p.depth for p in polynomials) == 13
    assert best_sign_degrees(gap=2.0**-9, error=2.0**-13) == (15, 15, 27)


def test_compositions_are_kept():
    assert sign_composition([3, 5], 0.2) is sign_composition((3, 5), 0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "gap, error, degrees",
    [(0.9, 0.5, (3,)), (2**-3, 2**-4, (3, 7)), (2**-6, 2**-8, (15, 27)), (2**-13, 2**-20, (15, 15, 29, 29))],
)
def test_best_sign_degrees(gap, error, degrees):
    assert best_sign_degrees(gap, error) == degrees
    assert sign_composition(degrees, gap)[-1].report.sup_error <= error


@pytest.mark.parametrize(
    "attempt, says",
    [
        (lambda: sign_composition(()), r"degrees = \(\); need odd ones"),
        (lambda: sign_composition((15, 4)), r"degrees = \(15, 4\); need odd ones"),
        (lambda: sign_composition((3,), 0.0), "gap = 0.0; need a number between 0 and 1"),
        (lambda: best_sign_degrees(1.5, 0.1), "gap = 1.5; need a number between"),
        (lambda: best_sign_degrees(2**-30, 0.1), "need at least 2.-24"),
        (lambda: best_sign_degrees(0.1, 2**-50), "need at least 2.-24 and 2.-40"),
        (lambda: fit_minimax(np.sin, [(-1.0, 1.0)], 0, parity="odd"), "at least 1 for an odd polynomial"),
    ],
)
def test_refuses(attempt, says):
    with pytest.raises(ValueError, match=says):
        attempt()
