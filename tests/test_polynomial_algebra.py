"""Sums, products, compositions and derivatives of polynomials, and the power basis; all in the clear."""

import fractions
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.polynomial import chebyshev, polynomial as power
from polynomial_cases import DOMAIN, X, close, random, values

import fhejax as fhe

coefficients = st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=12).map(np.array)


def by_numpy(polynomial, x=X):
    """The values by NumPy, which compiles nothing for each new degree."""
    low, high = polynomial.domain
    return chebyshev.chebval((2 * x - (low + high)) / (high - low), polynomial.coefficients)


@settings(deadline=None, max_examples=50)
@given(coefficients, coefficients)
def test_signs_are_pointwise(a, b):
    p, q = fhe.Polynomial(a, DOMAIN), fhe.Polynomial(b, DOMAIN)
    for result, want in [
        (p + q, by_numpy(p) + by_numpy(q)),
        (p - q, by_numpy(p) - by_numpy(q)),
        (p * q, by_numpy(p) * by_numpy(q)),
        (-p, -by_numpy(p)),
        (p + 2, by_numpy(p) + 2),
        (0.5 - p, 0.5 - by_numpy(p)),
        (np.float64(3) * p, 3 * by_numpy(p)),
    ]:
        assert result.coefficients.dtype == np.float64 and isinstance(result.coefficients, np.ndarray)
        assert result.domain == DOMAIN and result.report is None
        close(by_numpy(result), want, 1e-12)
    assert (p + q).degree == max(p.degree, q.degree) and (p * q).degree == p.degree + q.degree


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-99, 99), min_size=1, max_size=9), st.lists(st.integers(-99, 99), min_size=1, max_size=9))
def test_products_of_integers_are_exact(a, b):
    want = np.zeros(len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            want[i + j] += x * y / 2
            want[abs(i - j)] += x * y / 2
    assert (fhe.Polynomial(a) * fhe.Polynomial(b)).coefficients.tolist() == want.tolist()


@settings(deadline=None, max_examples=30)
@given(coefficients.filter(lambda c: len(c) < 7), coefficients.filter(lambda c: len(c) < 7))
def test_composition_is_pointwise(a, b):
    inner = fhe.Polynomial(b / max(1.0, np.sum(np.abs(b))), DOMAIN)
    outer = fhe.Polynomial(a, (-1.5, 1.25))
    composed = outer.compose(inner)
    assert composed.domain == DOMAIN and composed.degree == outer.degree * inner.degree
    close(by_numpy(composed), by_numpy(outer, by_numpy(inner)), 1e-11)


def test_composition_leaves_exact_zeros():
    """So that plans stay cheap: interpolation would leave 1e-17 there."""
    third, fifth = (fhe.Polynomial([0.0] * k + [1.0]) for k in (3, 5))
    assert third.compose(fifth).coefficients.tolist() == [0.0] * 15 + [1.0]


def test_composition_carries_to_another_domain():
    p = fhe.Polynomial(random(6), (-2, 6))
    moved = p.compose(fhe.Polynomial.from_power([0, 1], (0, 3)))
    assert moved.domain == (0.0, 3.0) and moved.degree == 6
    close(values(moved, np.linspace(0, 3, 9)), values(p, np.linspace(0, 3, 9)))


@settings(deadline=None, max_examples=50)
@given(coefficients)
def test_derivative_is_that_of_numpy(c):
    p = fhe.Polynomial(c, DOMAIN)
    want = chebyshev.Chebyshev(c, DOMAIN).deriv()
    assert p.derivative().degree == max(p.degree - 1, 0)
    close(p.derivative().coefficients, want.coef)


def traced(function):
    """The function with traced coefficients, under jit."""
    return lambda *series: jax.jit(lambda *c: function(*(fhe.Polynomial(x, DOMAIN) for x in c)).coefficients)(*series)


@pytest.mark.slow
@pytest.mark.parametrize("slots", [(), (3,)])
def test_traced_coefficients_give_the_same(slots):
    a, b = random(5, 1, *slots), random(4, 2)
    operations = {
        "sum": lambda p, q: p + q - 2.0,
        "product": lambda p, q: q * p * 3,
        "composition": lambda p, q: p.compose(q),
        "other composition": lambda p, q: q.compose(p),
        "derivative": lambda p, q: p.derivative(),
        "constant's derivative": lambda p, q: (q - q).derivative().derivative().derivative().derivative().derivative(),
        "from power": lambda p, q: fhe.Polynomial.from_power(p.coefficients, (0, 3)),
        "to power": lambda p, q: fhe.Polynomial(p.to_power()),
    }
    for name, operation in operations.items():
        known = operation(fhe.Polynomial(a, DOMAIN), fhe.Polynomial(b, DOMAIN)).coefficients
        assert isinstance(known, np.ndarray), name
        with jax.enable_x64(True):
            got = traced(operation)(a, b)
            assert got.dtype == np.float64
            close(got, known, 1e-12)
        with jax.enable_x64(False):
            got = traced(operation)(a, b)
        assert got.dtype == np.float32
        close(got, known, 1e-4)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "function",
    [
        lambda p, q: p * q + p,
        lambda p, q: p.compose(q * 0.1),
        lambda p, q: p.derivative() * q,
        lambda p, q: fhe.Polynomial(q.to_power(), DOMAIN) * fhe.Polynomial.from_power(p.coefficients, DOMAIN),
    ],
)
def test_gradients_are_finite_differences(function):
    a, b, direction = random(4, 1), random(3, 2), random(4, 3)
    with jax.enable_x64(True):

        @jax.jit
        def loss(c):
            return jnp.sum(function(fhe.Polynomial(c, DOMAIN), fhe.Polynomial(b, DOMAIN)).coefficients ** 2)

        slope = jax.grad(loss)(jnp.asarray(a)) @ direction
        step = 1e-6
        difference = (loss(a + step * direction) - loss(a - step * direction)) / (2 * step)
        np.testing.assert_allclose(slope, difference, rtol=1e-6)


def test_numbers_may_be_traced_and_arrays_say_so():
    p = fhe.Polynomial([1.0, 2.0])
    assert jax.jit(lambda t: (t * p + t).coefficients)(3.0).tolist() == [6, 6]
    assert jnp.float32(2) * p is not NotImplemented and (np.int64(2) * p).coefficients.tolist() == [2, 4]
    for attempt in (lambda: np.ones(3) * p, lambda: p + np.ones(3), lambda: jnp.ones(3) - p):
        with pytest.raises(
            TypeError, match=r"array of shape \(3,\); need a number .* Polynomial\(array\[None\], p.domain"
        ):
            attempt()
    gains = fhe.Polynomial(np.array([1.0, 2.0, 3.0])[None], p.domain)
    assert (gains * p).coefficients.tolist() == [[1, 2, 3], [2, 4, 6]]
    for attempt in (lambda: p + "a", lambda: [1.0] * p, lambda: p - None):
        with pytest.raises(TypeError, match=r"unsupported operand|can't multiply"):
            attempt()
    with pytest.raises(TypeError, match="complex"):
        p * np.array(1j)


def test_parity_follows_where_it_is_certain():
    odd, even = (fhe.Polynomial(random(4), parity=parity) for parity in ("odd", "even"))
    none, constant = fhe.Polynomial(random(4)), fhe.Polynomial([2.0])
    parities = {
        "odd": [odd + odd, odd * even, even * odd, -odd, 3 * odd, odd * constant, even.derivative(), sum([odd, odd])],
        "even": [even + even, odd * odd, even * even, even + 1, 1 - even, even + constant, odd.derivative()],
        None: [odd + even, odd + 1, odd - none, none * odd, none + none, none.derivative(), none + 1],
    }
    parities["odd"] += [odd.compose(odd), odd - 0]
    parities["even"] += [none.compose(even), even.compose(odd), even.compose(even), odd.compose(even)]
    parities[None] += [even.compose(none), none.compose(odd), fhe.Polynomial(random(4), (0, 4), "odd").compose(odd)]
    for parity, polynomials in parities.items():
        for p in polynomials:
            assert p.parity == parity
            places = {"odd": [0], "even": [1], None: []}[parity]
            assert all(not np.any(p.coefficients[place::2]) for place in places)


@pytest.mark.parametrize(
    "attempt, error, says",
    [
        (
            lambda p, q: p + q,
            ValueError,
            r"add: .* \(-1.0, 1.0\) and \(0.0, 1.0\); .* q.compose\(.*domain=\(-1.0, 1.0\)",
        ),
        (lambda p, q: p * q, ValueError, "multiply: polynomials on the domains"),
        (lambda p, q: p - q, ValueError, "subtract: polynomials on the domains"),
        (lambda p, q: p.compose(2.0), TypeError, r"compose: got float; .* type polynomial\(x\)"),
        (
            lambda p, q: fhe.Polynomial(np.ones((2, 3))) + fhe.Polynomial(np.ones((2, 4))),
            ValueError,
            r"add: .*\(2, 4\)",
        ),
        (
            lambda p, q: fhe.Polynomial(np.ones((2, 3))).compose(fhe.Polynomial(np.ones((2, 4)))),
            ValueError,
            "compose: ",
        ),
        (lambda p, q: fhe.Polynomial([1.0], (1e308, 1.5e308)), ValueError, "two finite numbers"),
    ],
)
def test_refuses(attempt, error, says, unchecked):
    with pytest.raises(error, match=says):
        attempt(fhe.Polynomial([1.0, 2.0]), fhe.Polynomial([1.0, 2.0], (0, 1)))


# --- the power basis ---------------------------------------------------------------------------------------------


def by_fractions(powers, domain):
    """The Chebyshev coefficients of sum a_k x^k, in fractions, by the definition."""
    low, high = map(fractions.Fraction, domain)
    total = [fractions.Fraction(0)] * len(powers)
    power_of_x = [fractions.Fraction(1)]
    for a in powers:
        for j, c in enumerate(power_of_x):
            total[j] += fractions.Fraction(a) * c
        longer = [c * (low + high) / 2 for c in power_of_x] + [fractions.Fraction(0)]
        for j, c in enumerate(power_of_x):
            for place in (j + 1, abs(j - 1)):
                longer[place] += c * (high - low) / 4
        power_of_x = longer
    return total


domains = st.tuples(st.floats(-100, 100), st.floats(2**-10, 100)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@settings(deadline=None, max_examples=50)
@given(coefficients, domains)
def test_from_power_is_rounded_once(powers, domain):
    want = [float(c) for c in by_fractions(powers.tolist(), domain)]
    assert fhe.Polynomial.from_power(powers, domain).coefficients.tolist() == want


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-99, 99), min_size=1, max_size=6), st.integers(-4, 4), st.integers(1, 8))
def test_to_power_undoes_it(powers, low, width):
    """Exactly: so small, the Chebyshev coefficients are doubles."""
    p = fhe.Polynomial.from_power(powers, (low, low + width))
    assert p.coefficients.tolist() == by_fractions(powers, p.domain)
    assert p.to_power().tolist() == powers


@pytest.mark.parametrize("degree", [0, 1, 2, 7, 31, 63])
def test_to_power_is_that_of_chebyshev(degree):
    c = np.random.default_rng(degree).integers(-8, 9, degree + 1)
    want = [0] * (degree + 1)
    before, now = [1], [0, 1]
    for coefficient in c.tolist():
        for i, a in enumerate(before):
            want[i] += coefficient * a
        following = [0] + [2 * a for a in now]
        for i, a in enumerate(before):
            following[i] -= a
        before, now = now, following
    assert fhe.Polynomial(c).to_power().tolist() == [float(a) for a in want]


def test_power_basis_of_slots_and_values():
    c = random(6, 0, 41)
    p = fhe.Polynomial(c, DOMAIN)
    close(power.polyval(X, p.to_power(), tensor=False), values(p), 1e-11)
    close(fhe.Polynomial.from_power(p.to_power(), DOMAIN).coefficients, c, 1e-11)


def test_high_degrees_are_right_or_refused():
    p = fhe.Polynomial.from_power([0.0] * 1023 + [1.0])
    x = np.array([-1.0, 0.5, 0.99, 1.0])
    close(values(p, x), x**1023, 1e-12)
    close(values(fhe.Polynomial([0.0] * 1023 + [1.0]), x), np.cos(1023 * np.arccos(x)), 1e-9)
    with pytest.raises(ValueError, match=r"to_power: .* too large for a double"):
        fhe.Polynomial(np.ones(1024)).to_power()
    with pytest.raises(ValueError, match=r"from_power: .* not finite"):
        fhe.Polynomial.from_power([1.0, math.inf])
