"""The errors of encrypted polynomials beside those that the simulated circuit predicts for the same values.

The errors of a series of degree d are largest within 1/d^2 of the ends of its domain, and those of a sigmoid within 1/d
of its middle, where few slots would be. So some are put there, and over a batch they are enough for a root mean square.
"""

import jax
import numpy as np
import pytest
from making import made_once
from numpy.polynomial import chebyshev

import fhejax as fhe

SMALL = fhe.Parameters.for_depth(8, log_degree=11, security=None)
SECURE = {degree: fhe.Parameters.for_depth((degree + 1).bit_length() - 1) for degree in (7, 31, 127)}
BATCH = {11: 8, 14: 2}  # by log2(N): some 2^13 slots in all, or more

# The spread of a root mean square is some 3 %: the slots share 2^10 values of one secret.
RMS, WORST = (0.9, 1.1), (0.3, 1.5)


@made_once
def keys(params):
    seeds = fhe.split_seed(np.arange(8, 16, dtype=np.uint32), 4)
    secret = fhe.secret_key(seeds[0], params)
    return secret, fhe.public_key(seeds[1], secret), fhe.evaluation_keys(seeds[2], secret), seeds[3]


def series(kind, degree):
    """Coefficients that decay, as those of functions do."""
    k = np.arange(degree + 1)
    if kind == "sigmoid":
        return chebyshev.chebinterpolate(lambda u: 1 / (1 + np.exp(-degree / 4 * u)), degree)
    keep = {"dense": k >= 0, "odd": k % 2 == 1, "even": k % 2 == 0}[kind]
    return np.where(keep, np.random.default_rng(degree).normal(size=degree + 1) / (1 + k), 0.0)


def points(degree, params):
    """Half of them with the density of Chebyshev's nodes, the others within some nodes of an end or of the middle."""
    rng = np.random.default_rng(degree)
    angles = rng.uniform(0, np.pi, (BATCH[params.log_degree], params.slots))
    angles[:, ::4] *= 4 / np.pi / degree
    angles[:, 1::4] = np.pi / 2 - angles[:, 1::4] * 4 / np.pi / degree
    return np.cos(angles) * rng.choice([-1, 1], angles.shape)


def check(coefficients, x, params, want, public=False):
    """The root mean square, and the worst slot of an encryption, beside the predicted ones."""
    secret, public_key, evaluation, seed = keys(params)
    polynomial = fhe.Polynomial(coefficients)
    with jax.enable_x64(True):
        operand = fhe.encrypt(seed, public_key if public else secret, x)
        out = fhe.evaluate(polynomial, operand, evaluation)
        simulated = fhe.evaluate(polynomial, fhe.simulate(x, params, secret_key=not public))
        np.testing.assert_allclose(simulated.values, want, atol=1e-12)
        error = np.abs(np.asarray(fhe.decrypt(secret, out)) - want)
        predicted = np.sqrt(np.mean(np.asarray(simulated.variance)))
        predicted_worst = np.mean(2.0 ** -np.asarray(simulated.error_bits))
    assert out.scale == simulated.scale == params.scale_at(out.level) and out.level == simulated.level
    assert RMS[0] < np.sqrt(np.mean(error**2)) / predicted < RMS[1]
    assert WORST[0] < np.mean(np.max(error, axis=-1)) / predicted_worst < WORST[1]


def slow_above(most, degrees):
    return [pytest.param(degree, marks=pytest.mark.slow if degree > most else ()) for degree in degrees]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["dense", "odd", "even", "sigmoid"])
@pytest.mark.parametrize("degree", slow_above(7, [7, 15, 31, 63, 127, 255]))
def test_error_is_the_predicted_one(degree, kind):
    coefficients, x = series(kind, degree), points(degree, SMALL)
    check(coefficients, x, SMALL, chebyshev.chebval(x, coefficients))


@pytest.mark.slow
@pytest.mark.parametrize("degree", slow_above(31, SECURE))
@pytest.mark.parametrize("public", [False, True])
def test_in_secure_rings(degree, public):
    params = SECURE[degree]
    coefficients, x = series("dense", degree), points(degree, params)
    check(coefficients, x, params, chebyshev.chebval(x, coefficients), public)


@pytest.mark.slow
def test_of_a_polynomial_in_each_slot():
    x, rng = points(7, SMALL), np.random.default_rng(1)
    coefficients = rng.normal(size=(8, SMALL.slots)) / np.arange(1, 9)[:, None]
    check(coefficients, x, SMALL, np.einsum("bsk,ks->bs", chebyshev.chebvander(x, 7), coefficients))
