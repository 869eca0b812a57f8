"""Least squares in the Chebyshev basis: closed forms against NumPy's, and what the data enter through."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.polynomial import chebyshev
from polynomial_cases import closed_form

from fhejax.polynomials.least_squares import guard_points, triangle

DOMAIN = (-3.0, 5.0)
DATA = np.random.default_rng(0).normal(0.5, 0.8, (100, 6)).clip(-2.5, 4)
SHARES = (np.arange(20000) + 0.5) / 20000
WEIGHT = lambda x: 1 / (1 + x**2)


def series(coefficients, x, domain=DOMAIN):
    low, high = domain
    return chebyshev.chebval((2 * x - low - high) / (high - low), coefficients, tensor=False)


def gelu(x):
    with jax.enable_x64(True):
        return np.asarray(jax.nn.gelu(x))


@settings(deadline=None, max_examples=30)
@given(
    coefficients=st.lists(st.floats(-10, 10), min_size=1, max_size=12),
    low=st.floats(-100, 100),
    width=st.floats(1e-3, 1e3),
    seed=st.integers(0, 2**32 - 1),
)
def test_least_squares_finds_a_polynomial_that_is_one(coefficients, low, width, seed):
    """Two samples, far fewer than the coefficients: the guard finds them."""
    domain = (low, low + width)
    f = lambda x: series(np.array(coefficients), x, domain)
    samples = np.random.default_rng(seed).uniform(*domain, 2)
    fitted = closed_form(f, domain, len(coefficients) - 1, samples=samples)
    # u is known to 2^-52 of the largest |x| / width, and T_k has slopes up to k^2.
    rounding = 2.0**-52 * (1 + max(map(abs, domain)) / width) * np.sum(np.arange(1, 13) ** 2) * 10
    np.testing.assert_allclose(fitted.coefficients, coefficients, rtol=0, atol=100 * rounding)


@settings(deadline=None, max_examples=20)
@given(count=st.integers(1, 60), degree=st.integers(0, 8), slots=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_the_triangle_stands_for_all_samples(count, degree, slots, seed):
    generator = np.random.default_rng(seed)
    points, factors = generator.uniform(*DOMAIN, (slots, count)), generator.uniform(0, 1, (slots, count))
    c = generator.normal(size=degree + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fhejax.polynomials.least_squares._BLOCK", 64)  # in many blocks
        a = triangle(np.tanh, DOMAIN, np.arange(degree + 1), points, factors)
    expected = np.sum((factors * (series(c, points) - np.tanh(points))) ** 2, axis=1)
    np.testing.assert_allclose(np.sum((a @ [*c, -1.0]) ** 2, axis=1), expected, rtol=1e-10)


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("parity, start", [(None, 0), ("even", 0), ("odd", 1)])
def test_least_squares_solves_what_it_says(parity, start, weight):
    f = {None: np.exp, "even": np.cos, "odd": np.sin}[parity]
    domain, step, degree, share = (-4.0, 4.0), 1 if parity is None else 2, 9, 0.01
    fitted = closed_form(f, domain, degree, samples=DATA, guard_weight=share, weight=weight, parity=parity)
    guard = guard_points(domain, degree)
    x = np.concatenate([DATA.ravel(), guard])
    root = np.sqrt(np.concatenate([np.full(DATA.size, 1 / DATA.size), np.full(guard.size, share / guard.size)]))
    root *= 1 if weight is None else weight(x)
    rows = chebyshev.chebvander(x / 4, degree)[:, start::step]
    expected = np.linalg.lstsq(root[:, None] * rows, root * f(x), rcond=None)[0]
    np.testing.assert_allclose(fitted.coefficients[start::step], expected, rtol=0, atol=1e-11)
    assert fitted.parity == parity and np.all(np.delete(fitted.coefficients, np.s_[start::step]) == 0)


def test_least_squares_per_slot_is_one_by_one():
    fitted = closed_form(np.tanh, DOMAIN, 7, samples=DATA, per_slot=True)
    single = [closed_form(np.tanh, DOMAIN, 7, samples=column).coefficients for column in DATA.T]
    np.testing.assert_allclose(fitted.coefficients, np.stack(single, axis=1), rtol=0, atol=1e-11)


def test_a_density_is_its_samples():
    """An exponential density, not normalised, and none, against their quantiles."""
    low, high = np.exp([-1.5, 1.5])
    kinds = lambda x: 7 * np.exp(x / 4), None, 4 * np.log(low + (high - low) * SHARES), 12 * SHARES - 6
    fits = [closed_form(np.tanh, (-6, 6), 9, samples=samples) for samples in kinds]
    rising, uniform, *sampled = (each.coefficients for each in fits)
    np.testing.assert_allclose((rising, uniform), sampled, rtol=0, atol=1e-6)
    assert np.max(np.abs(rising - uniform)) > 1e-3
