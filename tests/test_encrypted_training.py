"""Training under encryption: its steps are those of `jax.grad` in the clear, and its noise is the one predicted."""

import functools

import jax
import numpy as np
import pytest
from example_modules import example_module
from hypothesis import given, settings, strategies as st
from making import made_once
from operations import seed

import fhejax as fhe

training = example_module("encrypted_training.py")

STEPS, COLUMNS = 3, 31
MOMENTA = training.nesterov(STEPS)
# Small, so that there are eight patients in a ciphertext.
PARAMS = fhe.Parameters.for_depth(training.depth(STEPS), scale_bits=30, log_degree=10, security=None)
POLYNOMIAL = fhe.polynomial.fit(training.curve, (-training.REACH, training.REACH), 4, "chebyshev")


@functools.cache
def patients(number):
    """Rows that a plane through zero separates, but for some: margins of all sizes."""
    rng = np.random.default_rng(number)
    return np.clip(rng.normal(0.3, 1.0, (number, COLUMNS)), -3, 3)


def packed(number):
    return training.pack(patients(number), PARAMS.slots)


def simulated(number):
    values = [fhe.simulate(each, PARAMS, secret_key=True) for each in packed(number)]
    return training.train(values, training.slope_of(POLYNOMIAL, number), MOMENTA, None)


@made_once
def encrypted(number):
    """The weights after each step as they are decrypted, `[steps, slots]`, and the ciphertexts."""
    run = lambda data, keys: training.train(data, training.slope_of(POLYNOMIAL, number), MOMENTA, keys)
    secret = fhe.secret_key(seed(1), PARAMS)
    data = [fhe.encrypt(seed(10 + i), secret, each) for i, each in enumerate(packed(number))]
    history = run(data, fhe.plan_keys(run, data).generate(seed(2), secret))
    return np.array([fhe.decrypt(secret, each, dtype="float64") for each in history]), history


@pytest.mark.slow
@settings(deadline=None, max_examples=6)
@given(st.integers(1, 24), st.integers(1, STEPS))
def test_the_steps_are_those_of_jax_grad(number, steps):
    """To rounding: what is computed without noise, on all the slots, is `jax.grad` of the whole loss in the clear."""
    momenta = training.nesterov(steps)
    expected = training.train_in_clear(patients(number), POLYNOMIAL, momenta)
    with jax.enable_x64(True):
        data = [fhe.simulate(each, PARAMS) for each in packed(number)]
        history = training.train(data, training.slope_of(POLYNOMIAL, number), momenta, None)
        rows = [training.unpack(each.values, COLUMNS) for each in history]
    for want, got in zip(expected, rows, strict=True):
        np.testing.assert_allclose(got, np.broadcast_to(want, got.shape), rtol=0, atol=1e-12 * np.max(np.abs(want)))


def test_the_slope_is_the_derivative_of_the_polynomial():
    a0, a1, a3 = training.slope_of(POLYNOMIAL, 1)
    powers = POLYNOMIAL.derivative().to_power() * training.RATE * training.GAIN**2 * training.REACH
    np.testing.assert_allclose([a0, a1, 0, a3], powers * training.REACH ** np.arange(4), atol=1e-12 * abs(a0))


@pytest.mark.slow
@pytest.mark.parametrize("number", [5, 8, 21])
def test_the_noise_is_the_one_predicted(number):
    """One ciphertext that is partly filled, one that is full, three of which the last is partly filled."""
    decrypted, _ = encrypted(number)
    for got, want in zip(decrypted, simulated(number), strict=True):
        in_features = np.arange(PARAMS.slots) % (2 * training.WIDTH) < COLUMNS
        error = (got - np.asarray(want.values, np.float64))[in_features]
        deviation = np.sqrt(np.mean(np.asarray(want.variance)[in_features]))
        assert 0.5 < np.sqrt(np.mean(error**2)) / deviation < 1.3
        assert np.max(np.abs(error)) < 6 * deviation
        assert deviation < 2**-12 * np.max(np.abs(want.values))


@pytest.mark.slow
@pytest.mark.parametrize("number", [5, 21])
def test_encrypted_weights_are_those_in_the_clear(number):
    decrypted, _ = encrypted(number)
    expected = training.train_in_clear(patients(number), POLYNOMIAL, MOMENTA)
    for got, want in zip(decrypted, expected, strict=True):
        rows = training.unpack(got, COLUMNS)
        assert fhe.precision(np.broadcast_to(want, rows.shape), rows) > 12


@pytest.mark.slow
def test_levels():
    """All are used, and there is not one too few; the steps before the last keep one less for their weights."""
    _, history = encrypted(5)
    assert [each.level for each in history] == [6, 2, 0]
    fewer = fhe.Parameters.for_depth(training.depth(STEPS) - 1, scale_bits=30, log_degree=10, security=None)
    slope = training.slope_of(POLYNOMIAL, 5)
    run = lambda values: training.train([fhe.simulate(values, fewer)], slope, MOMENTA, None)
    with pytest.raises(fhe.LevelError):
        jax.eval_shape(run, *packed(5))


@pytest.mark.slow
def test_real_patients_stay_within_reach():
    """And the polynomial trains as well as the curve itself, within one test patient of 114, on several splits."""
    x, y = training.load_breast_cancer(return_X_y=True)
    for split in range(5):
        parts = training.train_test_split(x, y, test_size=0.2, random_state=split)
        scaled = [training.scaled(part, parts[0]) for part in parts[:2]]
        signed, signed_test = (training.by_sign(*pair) for pair in zip(scaled, parts[2:], strict=True))
        exact, polynomial = (
            training.train_in_clear(signed, curve, training.nesterov(8)) for curve in (training.curve, POLYNOMIAL)
        )
        assert max(np.max(np.abs(signed @ weights)) for weights in polynomial) < training.REACH
        accuracies = [training.accuracy(weights[-1], signed_test) for weights in (exact, polynomial)]
        assert abs(accuracies[0] - accuracies[1]) <= 0.01
        losses = [training.mean_loss(weights, signed) for weights in polynomial]
        assert all(np.diff(losses) < 0) and losses[-1] < 0.15
