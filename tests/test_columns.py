"""Columns times a matrix in the clear: against NumPy, beside the operations that they stand for, and under JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from product_cases import SECRET, SLOTS, TOP, encrypted, numbers, opened, simulated, stacked, with_its_keys
from references import assert_equals_reference

import fhejax as fhe
from fhejax.arrays.layouts.layout import Layout
from fhejax.arrays.products.columns import columns_times_matrix


@pytest.mark.sampled(2)
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("shape, p", [((5, 3), 4), ((SLOTS, 2), 1), ((3,), 2), ((2, 3, 1), 3), ((1, 1), 1)])
def test_columns(shape, p, complex_, x64):
    a, w = numbers(*shape), numbers(shape[-1], p, index=1)
    w = w + 1j * numbers(shape[-1], p, index=2) if complex_ else w
    with jax.enable_x64(x64):
        x = encrypted(a, "columns")
        y, plan = with_its_keys(lambda x: columns_times_matrix(x, w), x)
        assert (y.level, y.ciphertext.real) == (TOP - 1, not complex_)
        np.testing.assert_array_equal(y.layout.positions(), Layout.columns((a @ w).shape, SLOTS).positions())
        assert plan.rotations == {} and plan.relinearization is None
        got = opened(y)
        traced = jax.jit(columns_times_matrix)(x, jnp.asarray(w))
        assert np.abs(opened(traced) - a @ w).max() < (1e-6 if x64 else 1e-5)
        simulated_ = columns_times_matrix(simulated(a, "columns"), w)
        assert np.abs(np.asarray(simulated_.decrypt(None)) - a @ w).max() < 1e-5
    assert np.abs(got - a @ w).max() < 2.0**-24


def test_columns_are_the_sum_of_products():
    """Against `multiply_plain` and `add`, to the rounding of both."""
    a, w = numbers(4, 3), numbers(3, 2, index=1)
    x = encrypted(a, "columns")
    got = columns_times_matrix(x, w)
    columns = [jax.tree.map(lambda leaf, i=i: leaf[i], x.ciphertext) for i in range(3)]
    for j in range(2):
        one = sum(
            (fhe.multiply_plain(c, float(w[i, j])) for i, c in enumerate(columns[1:], 1)), columns[0] * w[0, j].item()
        )
        mine = jax.tree.map(lambda leaf, j=j: leaf[j], got.ciphertext)
        difference = np.asarray(fhe.decrypt(SECRET, mine - one, dtype="float64"))
        assert np.abs(difference).max() < 2.0**-28


@pytest.mark.slow
def test_the_errors_of_columns_are_as_predicted():
    a, w = numbers(SLOTS, 12), 10 * numbers(12, 20, index=1)
    with jax.enable_x64(True):
        y, expected = (columns_times_matrix(make(a, "columns"), w).ciphertext for make in (encrypted, simulated))
        error = np.asarray(fhe.decrypt(SECRET, y, dtype="float64")) - np.asarray(expected.values)
        assert 0.5 < np.sqrt(np.mean(error**2) / np.mean(expected.variance)) < 1.3


def test_columns_under_vmap_and_of_every_lowering():
    w = numbers(3, 2, index=1)
    x = stacked([encrypted(numbers(4, 3, index=i), "columns", i) for i in range(2)])
    mapped_ = jax.vmap(lambda x: columns_times_matrix(x, w))(x)
    direct = columns_times_matrix(x, w)
    np.testing.assert_array_equal(mapped_.ciphertext.data, direct.ciphertext.data)
    with fhe.lowering("composed"):
        np.testing.assert_array_equal(columns_times_matrix(x, w).ciphertext.data, direct.ciphertext.data)
    assert_equals_reference(direct, lambda x: columns_times_matrix(x, w), x)


@pytest.mark.slow
def test_gradients_of_simulated_columns():
    x = simulated(numbers(4, 3), "columns")
    loss = lambda w: jnp.sum(columns_times_matrix(x, w).ciphertext.values[:, :4] ** 2)
    w = jnp.asarray(numbers(3, 2, index=1), jnp.float32)
    expected = 2 * numbers(4, 3).T @ (numbers(4, 3) @ np.asarray(w))
    assert np.abs(jax.grad(loss)(w) - expected).max() < 1e-4


def test_refuses():
    x = simulated(numbers(4, 3), "columns")
    with pytest.raises(ValueError, match=r"type x.to_layout\('columns'\)"):
        columns_times_matrix(simulated(numbers(4, 3), "row"), numbers(3, 2))
    with pytest.raises(ValueError, match="w has shape"):
        columns_times_matrix(x, numbers(3))
    with pytest.raises(ValueError, match="size"):
        columns_times_matrix(x, numbers(4, 2))
    with pytest.raises(ValueError, match=r"w\[0, 1\] = inf is not finite"):
        columns_times_matrix(x, np.array([[1, np.inf], [1, 1], [1, 1]]))
    with pytest.raises(ValueError, match="too large for the modulus"):
        columns_times_matrix(x, np.full((3, 2), 1e60))
    bottom = fhe.EncryptedArray(fhe.drop_to_level(x.ciphertext, 0), None, x.layout)
    with pytest.raises(fhe.LevelError, match="at level 0"):
        columns_times_matrix(bottom, numbers(3, 2))
