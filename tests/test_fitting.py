"""Fitting: errors of interpolation, the least degree for a tolerance, reports, and refusals that say what to type."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.polynomial import chebyshev

import fhejax as fhe
from fhejax import polynomials
from fhejax.polynomials import FitReport, fit
from fhejax.polynomials.report import evaluate_function, resolution

gelu = functools.partial(jax.nn.gelu, approximate=False)
reciprocal = lambda x: 1 / x
rsqrt = lambda x: 1 / jnp.sqrt(x)

# log2 of the sup error of interpolation for degrees 7, 15, 31, ..., as the literature has it; below -30, where that is
# whole numbers at best, as interpolation in 40 digits has it.
KNOWN = [
    (gelu, (-8, 8), [-1.3, -4.5, -13.4, -41.64]),
    (gelu, (-16, 16), [0, -1.4, -4.5, -14]),
    (jax.nn.silu, (-8, 8), [-2.4, -6.8, -15.7, -33.39]),
    (jax.nn.silu, (-16, 16), [-0.2, -2.5, -7.0, -16, -34]),
    (jax.nn.sigmoid, (-8, 8), [-5.1, -9.5, -18.3, -36]),
    (jnp.tanh, (-8, 8), [-2.2, -4.2, -8.7, -17.7, -35.68]),
    (jnp.exp, (-4, 0), [-16.7, -45.88]),
    (jnp.exp, (-16, 0), [-6.4, -20.8]),
    (rsqrt, (0.1, 10), [-0.7, -3.3, -8.4, -18.1, -37]),
    (reciprocal, (0.1, 10), [1.9, -0.3, -4.9, -14.2, -32.76]),
]
ENTRIES = [(f, domain, 8 * 2**place - 1, bits) for f, domain, row in KNOWN for place, bits in enumerate(row)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("f, domain, degree, bits", ENTRIES)
def test_interpolation_has_the_known_errors(f, domain, degree, bits):
    assert abs(fit(f, domain, degree).report.bits + bits) < 0.2


def test_interpolation_down_to_double_precision():
    """In 40 digits the errors are 2^-46.8 and 2^-63.2."""
    assert fit(gelu, (-16, 16), 127).report.bits > 44
    assert fit(jnp.exp, (-16, 0), 31).report.bits > 50


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-4, 4), min_size=1, max_size=20), st.floats(-4, 4), st.floats(0.5, 8), st.integers(0, 3))
def test_interpolation_of_a_polynomial_is_the_polynomial(coefficients, low, width, more):
    domain = (low, low + width)
    f = lambda x: chebyshev.chebval((2 * x - 2 * low - width) / width, coefficients)
    fitted = fit(f, domain, len(coefficients) - 1 + more)
    scale = 1e-13 * (1 + np.sum(np.abs(coefficients)))
    np.testing.assert_allclose(fitted.coefficients, [*coefficients, *[0.0] * more], atol=scale)
    assert fitted.domain == domain and fitted.report.sup_error < scale


@pytest.mark.parametrize("method", ["chebyshev", "minimax"])
@pytest.mark.parametrize("parity, f", [("odd", jnp.tanh), ("even", jnp.cos)])
def test_parity_leaves_the_other_coefficients_zero(method, parity, f):
    for degree in (8, 9):
        fitted = fit(f, (-2, 2), degree, method, parity=parity)
        assert fitted.degree == degree and fitted.parity == parity
        assert not np.any(fitted.coefficients[int(parity == "even") :: 2])
        assert fitted.report.sup_error <= 1.5 * fit(f, (-2, 2), degree, method).report.sup_error


def test_parity_is_about_the_middle_of_the_domain():
    shifted = fit(lambda x: jnp.tanh(x - 0.3), (-1.7, 2.3), 7, "minimax", parity="odd")
    centered = fit(jnp.tanh, (-2, 2), 7, "minimax", parity="odd")
    np.testing.assert_allclose(shifted.coefficients, centered.coefficients, atol=1e-9)


# --- under JAX ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("method", ["chebyshev", "minimax"])
def test_fits_stand_inside_of_traced_functions(method, x64):
    with jax.enable_x64(x64):
        slope = jax.grad(lambda t: fit(jnp.tanh, (-1, 1), 9, method)(t))
        for function in (slope, jax.jit(slope), lambda t: jax.vmap(slope)(t[None])[0]):
            np.testing.assert_allclose(function(jnp.asarray(0.3)), 1 - math.tanh(0.3) ** 2, atol=1e-4)
        assert fit(jnp.tanh, (-1, 1), 9, method).coefficients.dtype == np.float64


@pytest.mark.parametrize("x64", [False, True])
def test_functions_get_and_return_doubles(x64):
    seen = []
    with jax.enable_x64(x64):
        fitted = fit(lambda x: seen.append(jnp.asarray(x).dtype) or jnp.exp(x), (0, 1), 15)
    assert set(seen) == {np.dtype("float64")} and fitted.report.sup_error < 4e-15


def test_functions_that_depend_on_traced_values_are_refused():
    with pytest.raises(TypeError, match="f depends on a traced value"):
        jax.jit(lambda t: fit(lambda x: t * x, (-1, 1), 3)(t))(0.3)


@pytest.mark.slow
def test_functions_of_numpy_and_constants():
    assert fit(np.tanh, (-1, 1), 9).report.sup_error == pytest.approx(fit(jnp.tanh, (-1, 1), 9).report.sup_error)
    assert fit(lambda x: 3, (-1, 1), 2).coefficients.tolist() == pytest.approx([3, 0, 0])
    line = fhe.Polynomial([0.5, 2.0])
    np.testing.assert_allclose(fit(line, (-1, 1), 1).coefficients, line.coefficients, atol=1e-15)


def test_resolution_is_that_of_the_values():
    x = np.zeros(3)
    assert resolution(np.tanh, x) == 2.0**-52
    assert resolution(lambda x: jnp.tanh(x).astype(jnp.float32), x) == 2.0**-23
    assert fit(lambda x: jnp.tanh(x).astype(jnp.float32), (-1, 1), 15, "minimax").report.sup_error < 2.0**-22


def test_evaluated_keeps_shapes_and_compiles_once():
    shapes = set()
    x = np.linspace(0, 1, 3000).reshape(2, 1500)
    np.testing.assert_array_equal(evaluate_function(lambda x: shapes.add(x.shape) or 2 * x, x), 2 * x)
    assert shapes == {(1024,)}


# --- the report --------------------------------------------------------------------------------------------------


def test_report_of_the_errors():
    fitted = fit(jnp.exp, (-1, 1), 4)
    x = np.linspace(-1, 1, 200_001)
    error = np.abs(np.exp(x) - chebyshev.chebval(x, fitted.coefficients))
    report = fitted.report
    assert error.max() <= report.sup_error <= error.max() * (1 + 1e-9)
    assert report.mean_error == pytest.approx(math.sqrt(np.mean(error**2)), rel=1e-3)
    assert report.bits == -math.log2(report.sup_error) and report.mean_bits == -math.log2(report.mean_error)
    assert (report.method, report.degree, report.depth) == ("chebyshev", 4, 3)
    assert report.lower_bound is None and report.gap is None and report.history is None


@pytest.mark.parametrize("method", ["chebyshev", "minimax"])
def test_mean_error_is_that_of_the_data(method):
    data = np.random.default_rng(0).normal(size=(40, 50))  # some of it outside
    fitted = fit(jnp.exp, (-3, 3), 6, method, samples=data)
    error = np.exp(data) - chebyshev.chebval(data / 3, fitted.coefficients)
    assert fitted.report.mean_error == pytest.approx(math.sqrt(np.mean(error**2)), rel=1e-9)
    assert fitted.report.sup_error == fit(jnp.exp, (-3, 3), 6, method).report.sup_error
    density = fit(jnp.exp, (-3, 3), 6, method, samples=lambda x: np.where(x > 2, 1.0, 0.0)).report.mean_error
    x = np.linspace(2, 3, 10_001)
    error = np.exp(x) - chebyshev.chebval(x / 3, fitted.coefficients)
    assert density == pytest.approx(math.sqrt(np.mean(error**2)), rel=1e-2)


def test_report_reads_as_a_table():
    report = FitReport("minimax", 7, 3, 2.0**-10, 2.0**-11, 2.0**-10 / 1.01)
    assert report.gap == pytest.approx(0.01)
    assert repr(report) == str(report)
    assert repr(report).splitlines() == [
        "minimax fit of degree 7, depth 3",
        "sup error    0.000977   10.00 bits",
        "mean error   0.000488   11.00 bits",
        "lower bound  0.000967   10.01 bits",
        "gap          1.0e-02",
    ]
    assert "steps        2" in repr(dataclasses.replace(report, history=(2.0, 1.0)))


@pytest.mark.parametrize(
    "errors, gap, bits", [((0.0, 0.0), 0.0, math.inf), ((0.25, 0.0), math.inf, 2.0), ((0.25, 0.5), 0.0, 2.0)]
)
def test_gap_of_nothing(errors, gap, bits):
    report = FitReport("minimax", 1, 1, errors[0], 0.0, errors[1])
    assert report.gap == gap and report.bits == bits


def test_report_is_no_part_of_the_pytree():
    fitted = fit(jnp.exp, (-1, 1), 3)
    assert len(jax.tree.leaves(fitted)) == 1 and jax.tree.map(lambda x: x, fitted).report is None


# --- the least degree --------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", ["chebyshev", "minimax"])
@pytest.mark.parametrize(
    "f, domain, tolerance, parity",
    [
        (jax.nn.sigmoid, (-8, 8), 2**-10, None),
        (jnp.tanh, (-4, 4), 1e-4, "odd"),
        (jnp.cos, (-4, 4), 1e-5, "even"),
        (jnp.exp, (-1, 1), 0.4, None),
        (lambda x: 0 * x + 2, (-1, 1), 1e-12, None),
    ],
)
def test_least_degree(method, f, domain, tolerance, parity):
    fitted = fit(f, domain, method=method, tolerance=tolerance, parity=parity)
    assert fitted.report.sup_error <= tolerance
    step, least = (2 if parity else 1), int(parity == "odd")
    for degree in range(least, fitted.degree, step):
        assert fit(f, domain, degree, method, parity=parity).report.sup_error > tolerance


@pytest.mark.slow
def test_least_degree_where_interpolation_is_not_monotone():
    """Interpolation of |x| is better at even degrees, the minimax error is the same at the odd ones above them."""
    best = fit(jnp.abs, (-1, 1), method="minimax", tolerance=0.03)
    assert best.degree == 10 and fit(jnp.abs, (-1, 1), 9, "minimax").report.sup_error > 0.03
    assert fit(jnp.abs, (-1, 1), tolerance=0.03).report.sup_error <= 0.03


@pytest.mark.slow
def test_tolerance_that_nothing_reaches():
    with pytest.raises(ValueError, match=r"at degree 1023 is .* still above tolerance = 1e-09; allow a larger one"):
        fit(jnp.abs, (-1, 1), tolerance=1e-9)


# --- the front ---------------------------------------------------------------------------------------------------


def test_gradient_is_a_method():
    data = np.random.default_rng(0).normal(size=500)
    fitted = fit(jnp.tanh, (-5, 5), 7, "gradient", samples=data, steps=5, parity="odd")
    assert fitted.report.method == "gradient" and len(fitted.report.history) == 5
    assert fitted.report.mean_error < fit(jnp.tanh, (-5, 5), 7, samples=data).report.mean_error


def test_domains_of_several_intervals():
    fitted = fit(jnp.sign, [(0.5, 1), (-1, -0.5)], 5, "minimax")
    assert fitted.domain == (-1.0, 1.0)
    assert fit(jnp.exp, [(0, 1)], 3).domain == fit(jnp.exp, np.array([0, 1]), 3).domain == (0.0, 1.0)


def test_names_for_users():
    assert polynomials.Polynomial is fhe.Polynomial
    for name in ("fit", "FitReport", "sign_composition", "best_sign_degrees", "ConvergenceError"):
        assert hasattr(polynomials, name)


@pytest.mark.parametrize(
    "arguments, options, error, says",
    [
        ((3.0, (-1, 1), 3), {}, TypeError, "got float for f"),
        ((jnp.exp, (-1, 1)), {}, ValueError, "got neither of degree and tolerance"),
        ((jnp.exp, (-1, 1), 3), {"tolerance": 0.1}, ValueError, "got both of degree and tolerance"),
        ((jnp.exp, (-1, 1)), {"tolerance": 0.0}, ValueError, "tolerance = 0.0; need a positive number"),
        ((jnp.exp, (-1, 1), 3, "remez"), {}, ValueError, "choose one of 'chebyshev', 'minimax', 'gradient'"),
        ((jnp.exp, (-1, 1), 3), {"digits": 5}, TypeError, "unknown option 'digits'; method=\"chebyshev\" takes none"),
        ((jnp.exp, (-1, 1), 3, "minimax"), {"step": 5}, TypeError, 'method="minimax" takes digits, besides parity'),
        ((jnp.exp, (-1, 1), 3, "gradient"), {"step": 5}, TypeError, "takes per_slot, .* steps, progress"),
        ((jnp.exp, (-1, 1), 3), {"weight": jnp.exp}, ValueError, "interpolation knows no weight"),
        ((jnp.exp, (-1, 1), 3), {"parity": "both"}, ValueError, 'choose "odd", "even" or None'),
        ((jnp.exp, 3, 3), {}, ValueError, r"domain = 3; need two numbers, such as \(-8, 8\)"),
        ((jnp.exp, (1, 2, 3), 3), {}, ValueError, "need two numbers"),
        ((jnp.exp, (1, -1), 3), {}, ValueError, "the lower first"),
        ((jnp.exp, (1, 1), 3), {}, ValueError, "more than 2.-32 apart"),
        ((jnp.exp, (0, math.inf), 3), {}, ValueError, "need finite numbers"),
        ((jnp.exp, [(-1, 0), (0, 1)], 3, "minimax"), {}, ValueError, "touch or overlap: type them as one"),
        ((jnp.exp, [(-1, 0), (0.5, 1)], 3), {}, ValueError, 'several intervals type method="minimax"'),
        ((jnp.exp, (-1, 1), 2.5), {}, TypeError, "degree = 2.5; need an integer"),
        ((jnp.exp, (-1, 1), -1), {}, ValueError, 'degree = -1; method="chebyshev" takes 0 to 1023'),
        ((jnp.exp, (-1, 1), 256, "minimax"), {}, ValueError, "takes 0 to 255"),
        ((jnp.sin, (-1, 1), 0), {"parity": "odd"}, ValueError, "and parity 'odd' takes 1 to 1023"),
        ((jnp.exp, (-1, 1), 3), {"parity": "odd"}, ValueError, r"but f\(-1\) = 0.367879 and f\(1\) = 2.71828; leave"),
        ((jnp.sign, [(-1, -0.5), (0.2, 1)], 3, "minimax"), {"parity": "odd"}, ValueError, "not symmetric about"),
        ((jnp.log, (-1, 1), 3), {}, ValueError, r"f\(-0.382683\) = nan; f must be finite where it is fitted"),
        ((reciprocal, (-1, 1), 2), {}, ValueError, r"f\(0\) = inf; f must be finite"),
        ((lambda x: x[:5], (-1, 1), 3), {}, ValueError, "it must work elementwise"),
        ((lambda x: 1j * x, (-1, 1), 3), {}, TypeError, "f returned complex128"),
    ],
)
def test_refuses(arguments, options, error, says, unchecked):
    with pytest.raises(error, match=f"fit: .*{says}"):
        fit(*arguments, **options)
