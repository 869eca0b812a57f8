"""The Polynomial type: values, parity, slots, pytrees, files and pictures; all in the clear."""

import copy
import math
import pickle
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import chebyshev
from polynomial_cases import CASES, DOMAIN, X, close, random, values

import fhejax as fhe
from fhejax.polynomials.polynomial import effective_coefficients, known_coefficients, pattern
from fhejax.polynomials.report import FitReport, with_report


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


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "complex64"])
@pytest.mark.parametrize("degree", [0, 1, 2, 15])
def test_call_is_the_series(degree, dtype):
    within = {"float64": 1e-14, "bfloat16": 2e-2}.get(dtype, 1e-5)
    coefficients = np.random.default_rng(degree).normal(size=degree + 1)
    with jax.enable_x64(dtype == "float64"):
        x = jnp.linspace(-3, 5, 40).reshape(5, 8).astype(dtype)
        got = jax.jit(fhe.Polynomial(coefficients, (-3, 5)))(x)
        assert got.dtype == x.dtype and got.shape == x.shape
        want = chebyshev.chebval((np.asarray(x).astype(complex).real - 1) / 4, coefficients)
        np.testing.assert_allclose(np.asarray(got).astype(complex), want, atol=within * np.sum(np.abs(coefficients)))


def test_call_takes_integers_and_lists():
    np.testing.assert_allclose(fhe.Polynomial([1, 2, 3])([-1, 0, 1]), [2, -2, 6])


def test_gradients_in_x_and_in_coefficients():
    coefficients = np.array([0.3, -0.2, 0.5, 0.1, -0.4])
    with jax.enable_x64(True):
        polynomial, x = fhe.Polynomial(coefficients, (-2, 2)), jnp.linspace(-1.5, 1.5, 7)
        slope = jax.vmap(jax.grad(polynomial))(x)
        np.testing.assert_allclose(slope, chebyshev.chebval(x / 2, chebyshev.chebder(coefficients)) / 2, atol=1e-14)
        gradient = jax.grad(lambda p: p(x).sum())(polynomial)
        assert isinstance(gradient, fhe.Polynomial) and gradient.domain == (-2.0, 2.0)
        np.testing.assert_allclose(gradient.coefficients, chebyshev.chebvander(x / 2, 4).sum(0), atol=1e-14)


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


# --- objects, pictures -------------------------------------------------------------------------------------------


def test_is_a_pytree_with_a_static_domain():
    polynomial = fhe.Polynomial([1.0, 2.0], (0, 8))
    ((path, leaf),) = jax.tree_util.tree_leaves_with_path(polynomial)
    assert jax.tree_util.keystr(path) == ".coefficients" and leaf is polynomial.coefficients
    assert jax.tree.structure(polynomial) != jax.tree.structure(fhe.Polynomial([1.0, 2.0]))
    doubled = jax.jit(lambda p: jax.tree.map(lambda c: 2 * c, p))(polynomial)
    assert doubled.domain == (0.0, 8.0) and doubled.coefficients.tolist() == [2, 4]
    assert repr(jax.tree.map(lambda _: None, polynomial)) == "Polynomial(None, domain=(0.0, 8.0))"


def test_degree_and_depth():
    depths = [fhe.Polynomial(np.ones(degree + 1)).depth for degree in range(40)]
    assert depths == [math.ceil(math.log2(degree + 1)) for degree in range(40)]
    assert fhe.Polynomial([1, 2, 3, 0, 0]).degree == 4 and fhe.Polynomial([1, 2, 3, 0, 0]).depth == 2
    assert [fhe.Polynomial(np.ones(4), domain).depth for domain in [(3, 5), (0, 1), (0, 4), (-8, 8)]] == [2, 2, 3, 3]
    assert [fhe.Polynomial(np.ones(n), (-8, 8)).depth for n in (1, 2, 3)] == [0, 1, 3]
    jax.jit(lambda p: np.testing.assert_equal((p.degree, p.depth), (4, 3)))(fhe.Polynomial([1, 2, 3, 0, 0.0]))


@pytest.mark.parametrize(
    "coefficients, shown",
    [
        ([0.0], "0"),
        ([-0.5, 0.0, 0.25], "-0.5 + 0.25 T2"),
        ([0.0, 1.0, -1e-7], "1 T1 - 1e-07 T2"),
        (np.arange(1, 10), "1 + 2 T1 + 3 T2 + 4 T3 + ... + 9 T8"),
    ],
)
def test_repr_is_the_series(coefficients, shown):
    assert repr(fhe.Polynomial(coefficients)).startswith(f"Polynomial({shown}, degree={len(coefficients) - 1}, ")


@pytest.mark.parametrize(
    "arguments, error, says",
    [
        (([],), ValueError, r"shape \(0,\); need \(degree \+ 1,\)"),
        ((1.5,), ValueError, r"shape \(\); need"),
        ((np.ones((2, 2, 2)),), ValueError, r"shape \(2, 2, 2\); need"),
        (([1j],), TypeError, "complex128; need real numbers"),
        ((["a"],), TypeError, "need real numbers"),
        (([1.0], (1, 1)), ValueError, r"domain = \(1.0, 1.0\); need two finite numbers, the lower first"),
        (([1.0], (1, -1)), ValueError, "the lower first"),
        (([1.0], (0, math.inf)), ValueError, "two finite numbers"),
        (([1.0], (math.nan, 1)), ValueError, "two finite numbers"),
        (([1.0], 3), ValueError, "domain = 3; need two numbers"),
        (([1.0], (0, 1, 2)), ValueError, "need two numbers"),
    ],
)
def test_refuses_what_is_no_polynomial(arguments, error, says, unchecked):
    with pytest.raises(error, match=f"Polynomial: .*{says}"):
        fhe.Polynomial(*arguments)


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
