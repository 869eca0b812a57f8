"""Chebyshev series by themselves: their values on arrays, what they are made of, and how they are shown."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import chebyshev

import fhejax as fhe


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
