"""The Polynomial type: values, parity, slots, algebra, the power basis, files and pictures; all in the clear."""

import copy
import fractions
import math
import pickle
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.polynomial import chebyshev, polynomial as power
from polynomial_cases import CASES

import fhejax as fhe
from fhejax.polynomials.polynomial import effective_coefficients, known_coefficients, pattern
from fhejax.polynomials.report import FitReport, with_report

X = np.linspace(-2, 6, 41)
DOMAIN = (-2.0, 6.0)


def values(polynomial, x=X):
    with jax.enable_x64(True):
        return np.asarray(polynomial(x))


def by_numpy(polynomial, x=X):
    """The values by NumPy, which compiles nothing for each new degree."""
    low, high = polynomial.domain
    return chebyshev.chebval((2 * x - (low + high)) / (high - low), polynomial.coefficients)


def close(got, want, within=1e-13):
    np.testing.assert_allclose(got, want, rtol=0, atol=within * max(1.0, np.max(np.abs(want))))


def random(degree, seed=0, *slots):
    return np.random.default_rng([degree, seed]).normal(size=(degree + 1, *slots))


coefficients = st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=12).map(np.array)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reported_cases_in_the_clear(case):
    close(values(case.polynomial, case.x), case.right)
    assert case.polynomial.depth >= math.ceil(math.log2(len(known_coefficients(case.polynomial))))


def test_reported_cases_cover_every_thread():
    threads = {case.thread for case in CASES}
    assert threads >= {f"FIDESlib #{n}" for n in (24, 42)} | {f"OpenFHE #{n}" for n in (530, 558, 958, 959)}
    assert "Lattigo #235" in threads and len({case.name for case in CASES}) == len(CASES)


# --- values ------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "dtype", ["float8_e4m3fn", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
)
def test_any_type_comes_back(dtype):
    with jax.enable_x64(dtype in ("float64", "complex128")):
        x = jnp.array([-0.5, 0.25, 1.0]).astype(dtype)
        got = fhe.Polynomial([0.5, -1.0, 0.25])(x)
        assert got.dtype == x.dtype
        close(np.asarray(got.astype(complex)), chebyshev.chebval([-0.5, 0.25, 1.0], [0.5, -1.0, 0.25]), 0.07)


@pytest.mark.slow
@pytest.mark.parametrize("x64", [False, True])
def test_one_polynomial_a_slot(x64):
    c, within = random(5, 0, 41), 1e-13 if x64 else 1e-5
    want = chebyshev.chebval((X - 2) / 4, c, tensor=False)
    with jax.enable_x64(x64):
        p = fhe.Polynomial(c, DOMAIN)
        assert p.degree == 5 and p.depth == 4
        close(p(X), want, within)
        close(jax.jit(lambda p, x: p(x))(p, np.stack([X, -X]))[0], want, within)
        close(jax.vmap(p)(np.stack([X, X]))[1], want, within)
        batch = jax.vmap(lambda c: fhe.Polynomial(c, DOMAIN))(np.stack([c, 2 * c]))
        close(jax.vmap(lambda p: p(X))(batch)[1], 2 * want, 2 * within)
        slope = jax.grad(lambda p: p(jnp.asarray(X)).sum())(p)
        close(slope.coefficients, chebyshev.chebvander((X - 2) / 4, 5).T, within)
    assert repr(p) == "Polynomial(float64[6, 41], degree=5, domain=(-2.0, 6.0), depth=4)"


def test_slots_must_be_those_of_x():
    p = fhe.Polynomial(np.ones((3, 4)))
    for x in (0.5, np.ones(3), np.ones((4, 1))):
        with pytest.raises(ValueError, match=r"shape \(3, 4\) .* x is \[\.\.\., 4\]; .* jax.vmap"):
            p(x)


def test_a_ciphertext_is_sent_to_evaluate():
    params = fhe.Parameters.for_depth(1, log_degree=4, security=None)
    x = fhe.encrypt(fhe.new_seed(), fhe.secret_key(fhe.new_seed(), params), [1.0])
    with pytest.raises(TypeError, match=r"got Ciphertext for x; .* type fhejax.evaluate\(polynomial, x, keys\)"):
        fhe.Polynomial([1.0])(x)


@pytest.mark.slow
def test_eager_vmap_with_x64_off():
    """There JAX holds NumPy doubles behind tracers of float32."""
    c = random(4, 0, 3).T
    want = [chebyshev.chebval(0.5, row * [0, 1, 0, 1, 0]) for row in c]
    with jax.enable_x64(False):
        close(jax.vmap(lambda c: fhe.Polynomial(c, parity="odd")(0.5))(c), want, 1e-6)
        got = jax.vmap(lambda c: (fhe.Polynomial(c, parity="odd") * 2 + 1.5).derivative().coefficients)(c)
        assert got.dtype == np.float32
        close(got, [chebyshev.chebder(2 * row * [0, 1, 0, 1, 0]) for row in c], 1e-5)


# --- parity ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parity, zeroed", [("odd", [0, 2, 0, 4, 0]), ("even", [1, 0, 3, 0, 5]), (None, [1, 2, 3, 4, 5])]
)
@pytest.mark.parametrize("traced", [False, True])
def test_parity_takes_the_others_as_zero(parity, zeroed, traced):
    def check(p):
        assert p.degree == 4 and p.coefficients.shape == (5,)
        assert p.depth == {"odd": 2, "even": 3, None: 3}[parity]
        assert pattern(p) == tuple(c != 0 for c in zeroed)[: 4 if parity == "odd" else 5]
        assert (known_coefficients(p) is None) == traced
        return p(jnp.linspace(-1, 1, 9)), effective_coefficients(p)

    p = fhe.Polynomial([1.0, 2, 3, 4, 5], parity=parity)
    got, effective = (jax.jit(check) if traced else check)(p)
    assert effective.tolist() == zeroed
    close(got, chebyshev.chebval(np.linspace(-1, 1, 9), zeroed), 1e-6)


@pytest.mark.parametrize("parity", ["odd", "even"])
def test_gradients_of_the_other_parity_are_zero(parity):
    p = fhe.Polynomial(jnp.array([1.0, jnp.nan, 3.0] if parity == "even" else [jnp.nan, 2.0, jnp.nan]), parity=parity)
    gradient = jax.grad(lambda p: p(jnp.array(0.3)))(p)
    assert gradient.parity == parity
    want = np.where(np.arange(3) % 2 == (parity == "odd"), [1, 0.3, 2 * 0.3**2 - 1], 0)
    close(gradient.coefficients, want, 1e-6)


def test_pattern_of_slots_and_of_zeros():
    assert pattern(fhe.Polynomial([[0, 0], [1, 0], [0, 0], [0, 2], [0, 0]])) == (False, True, False, True)
    assert pattern(fhe.Polynomial([0, 0, 0])) == (False,) and known_coefficients(fhe.Polynomial([0, 0])).tolist() == [0]
    assert pattern(fhe.Polynomial([1, 2], parity="even")) == (True,)
    assert pattern(fhe.Polynomial([3], parity="odd")) == (False,)
    assert known_coefficients(fhe.Polynomial(np.ones((3, 2)), parity="odd")).tolist() == [[0, 0], [1, 1]]


def test_parity_is_static():
    odd, none = fhe.Polynomial([0, 1.0], parity="odd"), fhe.Polynomial([0, 1.0])
    assert jax.tree.structure(odd) != jax.tree.structure(none)
    assert jax.tree.map(lambda c: 2 * c, odd).parity == "odd" and "parity='odd'" in repr(odd)
    exported = jax.export.export(jax.jit(lambda p: p(0.5)))(fhe.Polynomial(np.float32([9, 1]), (0, 2), "odd"))
    again = jax.export.deserialize(exported.serialize())
    assert again.in_tree == exported.in_tree
    assert again.call(fhe.Polynomial(np.float32([9, 1]), (0, 2), "odd")) == -0.5
    with pytest.raises(ValueError, match="tree"):
        again.call(fhe.Polynomial(np.float32([9, 1]), (0, 2)))


@pytest.mark.parametrize("parity", ["Odd", "", 1, ["odd"]])
def test_refuses_other_parities(parity, unchecked):
    with pytest.raises(ValueError, match="need 'odd', 'even' or None"):
        fhe.Polynomial([1.0], parity=parity)


# --- algebra -----------------------------------------------------------------------------------------------------


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


# --- objects, pictures -------------------------------------------------------------------------------------------


def test_report_stays_outside_the_tree():
    report = FitReport("chebyshev", 1, 1, 0.25, 0.125)
    p = with_report(fhe.Polynomial([0, 1.0], (0, 1), "odd"), report)
    assert p.report is report and (p.domain, p.parity) == ((0.0, 1.0), "odd")
    assert jax.tree.structure(p) == jax.tree.structure(fhe.Polynomial([0, 1.0], (0, 1), "odd"))
    assert jax.tree.map(lambda c: c, p).report is None and (p + 1).report is None
    assert fhe.Polynomial([1.0]).report is None


def test_identity_copies_and_pickles():
    p = fhe.Polynomial([1.0, 2.0], (0, 1), "odd")
    assert p == p and p != fhe.Polynomial([1.0, 2.0], (0, 1), "odd") and len({p, p}) == 1
    for again in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert again.coefficients.tolist() == [1, 2] and (again.domain, again.parity) == (p.domain, p.parity)


@pytest.fixture
def plt(monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.setattr(plt, "show", lambda *args, **kwargs: pytest.fail("shown"))
    yield plt
    plt.close("all")


def test_plot_draws_the_curve(plt):
    p = fhe.Polynomial([0.5, 0.25, -1.0], DOMAIN)
    ax = p.plot()
    (line,) = ax.lines
    x, y = line.get_data()
    assert (x[0], x[-1]) == DOMAIN and np.all(np.diff(x) > 0)
    close(y, chebyshev.chebval((x - 2) / 4, p.coefficients))
    own = plt.figure().subplots()
    assert p.plot(ax=own) is own and len(plt.get_fignums()) == 2


@pytest.mark.sampled(1)
@pytest.mark.parametrize("f", [np.tanh, jnp.tanh, lambda x: 0 * x + 0.5])
def test_plot_draws_the_error_below(f, plt):
    p = fhe.Polynomial([0.5], DOMAIN)
    curve, error = p.plot(f)
    assert error.get_yscale() == "log" and len(curve.lines) == 2 and curve.get_legend() is not None
    x, y = error.lines[0].get_data()
    want = np.abs(0.5 - np.asarray(f(x)))
    close(np.nan_to_num(y), want, 1e-6)
    curve.figure.canvas.draw()
    pair = plt.subplots(2)[1]
    assert list(p.plot(f, ax=pair)) == list(pair)
    with pytest.raises(ValueError, match="plot: got 1 axes; need 2"):
        p.plot(f, ax=pair[0])


def test_plot_refuses(monkeypatch, plt):
    with pytest.raises(ValueError, match=r"Polynomial\(p.coefficients\[:, slot\], p.domain\).plot\(\)"):
        fhe.Polynomial(np.ones((2, 3))).plot()
    with pytest.raises(ValueError, match="no values yet"):
        jax.jit(lambda p: p.plot())(fhe.Polynomial([1.0]))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install fhejax\[plot\]"):
        fhe.Polynomial([1.0]).plot()
