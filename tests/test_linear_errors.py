"""Errors of linear transforms, as predicted and simulated; and what is refused."""

import jax
import jax.numpy as jnp
import noise_model as noise
import numpy as np
import pytest
from linear_transforms import (
    MATRIX,
    NARROW,
    PARAMS,
    SECURE,
    SLOTS,
    TOP,
    applied,
    bound,
    encrypted,
    keys,
    opened,
    random,
    secret,
)
from making import made_once
from operations import numbers

import fhejax as fhe

# --- errors of the result ---------------------------------------------------------------------------------------------

LAYOUTS = {
    "one vector": {},
    "replicated": {"replicated": True},
    "side by side": {"stride": 4},
    "replicated side by side": {"stride": 4, "replicated": True},
}


def rms(values):
    return np.sqrt(np.mean(np.abs(values) ** 2))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("complex_, size", [(False, 1.0), (True, 100.0)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("params", [SECURE, NARROW])
def test_predicted_error(params, layout, complex_, size):
    """By the simulated circuit, and by the noise model from averages; the keys' errors, then the rounding, prevail."""
    matrix, batch = size * random(0, 48, 48, complex_=complex_) / 8, 4
    transform = fhe.LinearTransform.from_matrix(matrix, params, 2, **LAYOUTS[layout])
    period = transform.data.shape[-1] // 2 if "replicated" in layout else params.slots
    values = np.tile(random(1, batch, period, complex_=complex_), params.slots // period)
    with jax.enable_x64(True):
        y = applied(transform, encrypted(values, params))
        simulated = fhe.apply(transform, fhe.simulate(values, params, secret_key=True))
        noisy = fhe.apply(transform, fhe.simulate(values, params, secret_key=True, noise_seed=1))
        predicted, bits = np.sqrt(np.mean(simulated.variance)), float(np.mean(simulated.error_bits))
        means, drawn = np.asarray(simulated.values), np.asarray(noisy.values)
    assert (y.level, y.scale, y.real) == (simulated.level, simulated.scale, simulated.real)
    error = opened(y) - means
    assert 0.85 < rms(error) / predicted < 1.15
    assert 0.85 < rms(drawn - means) / predicted < 1.15
    assert abs(bits - fhe.precision(means, opened(y))) < 1.5
    np.testing.assert_allclose(exact(matrix, values, layout), means, atol=1e-6 * size)

    plan, weights = transform.plan, row_weights(transform)
    variance = noise.linear_transform(
        params,
        2,
        noise.encrypt_secret(params) + noise.encode(True),
        np.mean(np.abs(values) ** 2),
        plan.terms,
        weights.sum(),
        weights[plan.steps()[:, 2] != 0].sum(),
        noise.encode(not complex_) * transform.data.shape[-1] / params.degree,
    )
    model = noise.slot_deviation(variance, y.scale, params.slots) * (2**0.5 if complex_ else 1)
    assert 0.85 < rms(error) / model < 1.15


def exact(matrix, values, layout):
    stride = LAYOUTS[layout].get("stride", 1)
    places = values.reshape(len(values), -1, stride)
    rows, columns = matrix.shape
    period = 64 if "replicated" in layout else places.shape[1]
    blocks = places.reshape(len(values), -1, period, stride)
    result = np.zeros(blocks.shape, np.result_type(matrix, values))
    result[..., :rows, :] = np.einsum("rc,bkcs->bkrs", matrix, blocks[..., :columns, :])
    return result.reshape(len(values), -1)


def row_weights(transform):
    """The mean of |slot|^2 of each term's diagonal."""
    limbs = jnp.repeat(
        transform.data[:, : transform.level + 1], transform.params.degree // transform.data.shape[-1], -1
    )
    fields = transform.params, transform.level, transform.params.scale_at(transform.level), transform.slots
    decoded = fhe.decode(fhe.Plaintext(limbs, *fields, transform.real), dtype="complex128")
    return np.mean(np.abs(np.asarray(decoded)) ** 2, axis=-1)


@pytest.mark.slow
def test_equals_the_sum_of_rotated_products():
    """The definition, by the operations that users know, within the errors of both."""
    matrix, values = random(0, 30, 30), random(1, 30)
    transform = fhe.LinearTransform.from_matrix(matrix, SECURE)
    x = encrypted(values, SECURE)
    diagonals = {}
    for (r, c), entry in np.ndenumerate(matrix):
        diagonals.setdefault(c - r, np.zeros(SECURE.slots))[r] = entry
    every = keys(tuple(sorted(diagonals)), SECURE)
    naive = fhe.dot_plain(fhe.rotate_many(x, list(diagonals), every), list(diagonals.values()))
    got = applied(transform, x)
    assert jax.tree.structure(got) == jax.tree.structure(naive)
    expected = np.pad(matrix @ values, (0, SECURE.slots - 30))
    errors = opened(got) - expected, opened(naive) - expected
    assert rms(errors[0]) < 1.05 * rms(errors[1])  # rotations are not rounded one by one
    assert np.abs(errors[0] - errors[1]).max() < 2 * bound(transform)


@pytest.mark.slow
@pytest.mark.parametrize("x64", [False, True])
def test_simulated_values_are_differentiated(x64):
    def loss(matrix, values):
        transform = fhe.LinearTransform.from_matrix(matrix, SECURE, encoded=False, slots=16)
        return jnp.sum(fhe.apply(transform, fhe.simulate(values, SECURE, slots=16)).values ** 2)

    with jax.enable_x64(x64):
        matrix, values = jnp.asarray(numbers(0, 4, 3)), jnp.asarray(numbers(1, 3))
        slopes = jax.grad(loss, (0, 1))(matrix, values)
    out = numbers(0, 4, 3) @ numbers(1, 3)
    np.testing.assert_allclose(slopes[0], 2 * np.outer(out, numbers(1, 3)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(slopes[1], 2 * numbers(0, 4, 3).T @ out, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_simulated_blocks():
    blocks, values = [[random(0, 8, 8), random(1, 8, 4)], [None, random(2, 3, 4)]], [random(3, 8), random(4, 4)]
    transform = fhe.LinearTransform.from_blocks(blocks, PARAMS)
    got = fhe.apply(transform, [fhe.simulate(v, PARAMS) for v in values], keys(transform.rotations))
    np.testing.assert_allclose(
        got[0].values[:8], blocks[0][0] @ values[0] + blocks[0][1] @ values[1], rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(got[1].values[:3], blocks[1][1] @ values[1], rtol=1e-5, atol=1e-5)


# --- what is refused --------------------------------------------------------------------------------------------------

X = made_once(lambda: encrypted(random(1, SLOTS)))
make = fhe.LinearTransform
REFUSED = [
    (lambda: make.from_matrix(np.ones(3), PARAMS), ValueError, r"1 dimensions, shape \(3,\); need \(rows, columns\)"),
    (lambda: make.from_matrix(np.ones((0, 3)), PARAMS), ValueError, "at least one row"),
    (lambda: make.from_matrix([["a"]], PARAMS), TypeError, "real or complex numbers"),
    (lambda: make.from_matrix([[1.0, np.nan]], PARAMS), ValueError, r"matrix\[0, 1\] = nan is not finite"),
    (lambda: make.from_matrix([[1e30]], PARAMS, 1), ValueError, "too large for the modulus"),
    (lambda: make.from_matrix(MATRIX, PARAMS, 0), fhe.LevelError, "level 0 is the last"),
    (lambda: make.from_matrix(MATRIX, PARAMS, TOP + 1), ValueError, f"levels 1 to {TOP}"),
    (lambda: make.from_matrix(MATRIX, PARAMS, 1.5), TypeError, "not a Python integer"),
    (lambda: make.from_matrix(MATRIX, 3), TypeError, "got int for the parameters"),
    (lambda: make.from_matrix(MATRIX, PARAMS, slots=3), ValueError, "slots = 3; need a power of two"),
    (lambda: make.from_matrix(MATRIX, PARAMS, stride=3), ValueError, "stride = 3; need a power of two"),
    (lambda: make.from_matrix(MATRIX, PARAMS, stride=SLOTS // 4), ValueError, "which hold 4 entries"),
    (lambda: make.from_diagonals({}, PARAMS), ValueError, "at least one diagonal"),
    (lambda: make.from_diagonals({0: [1.0, 2.0]}, PARAMS), ValueError, rf"shape \(2,\); need \({SLOTS},\)"),
    (lambda: make.from_diagonals({1: 1.0, 1 + SLOTS: 1.0}, PARAMS), ValueError, "two diagonals for step 1"),
    (lambda: make.from_diagonals({0.5: 1.0}, PARAMS), TypeError, "step 0.5 is not an integer"),
    (lambda: make.from_permutation([0, SLOTS], PARAMS), ValueError, f"index {SLOTS} is not a slot"),
    (lambda: make.from_permutation([-1], PARAMS), ValueError, "index -1 is not a slot"),
    (lambda: make.from_permutation([0.5], PARAMS), TypeError, "need integers"),
    (lambda: make.from_permutation([[0]], PARAMS), ValueError, r"shape \(1, 1\)"),
    (lambda: jax.jit(lambda i: make.from_permutation(i, PARAMS).data)(np.arange(3)), TypeError, "must not be traced"),
    (lambda: make.from_function(lambda x: x + 1, 3, PARAMS), ValueError, "not linear.*add constants after"),
    (lambda: make.from_function(lambda x: x**2, 3, PARAMS), ValueError, "not linear"),
    (lambda: make.from_function(jnp.sum, 3, PARAMS), ValueError, r"shape \(\) of 3 entries; need \(rows,\)"),
    (lambda: make.from_function(jnp.sin, 0, PARAMS), ValueError, "at least 1"),
    (lambda: make.from_blocks([], PARAMS), ValueError, "at least one"),
    (lambda: make.from_blocks([[MATRIX], [MATRIX, MATRIX]], PARAMS), ValueError, r"rows of \[1, 2\] blocks"),
    (lambda: make.from_blocks([[MATRIX, MATRIX[:2]]], PARAMS), ValueError, r"blocks of row 0 have \[2, 5\] rows"),
    (lambda: make.from_blocks([[MATRIX, None]], PARAMS), ValueError, "blocks of column 1 have no columns"),
    (lambda: fhe.apply(MATRIX, X(), None), TypeError, "got ndarray for the transform"),
    (lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS), 3.0, None), TypeError, "got float for the ciphertext"),
    (lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS), X() * X(), None), ValueError, "relinearize"),
    (
        lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS), X(), None),
        fhe.MissingKeyError,
        "rotations=transform.rotations",
    ),
    (
        lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS), X(), keys((1,), level=1)),
        fhe.MissingKeyError,
        f"level {TOP}",
    ),
    (lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS), X(), secret()), TypeError, "got SecretKey"),
    (
        lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS), fhe.drop_to_level(X(), 1), keys(())),
        fhe.LevelError,
        f"for level {TOP} and the ciphertext is at level 1",
    ),
    (
        lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS, slots=8), X(), keys(())),
        fhe.ParametersMismatchError,
        f"for 8 slots and the ciphertext has {SLOTS}",
    ),
    (
        lambda: fhe.apply(make.from_matrix(MATRIX, SECURE), X(), None),
        fhe.ParametersMismatchError,
        "parameters differ",
    ),
    (lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS), [X(), X()], None), ValueError, "takes 1 ciphertexts to 1"),
    (lambda: fhe.apply(make.from_blocks([[MATRIX, MATRIX]], PARAMS), X(), None), ValueError, r"\[x0, x1\]"),
    (
        lambda: fhe.apply(make.from_blocks([[MATRIX, MATRIX]], PARAMS), [X(), fhe.simulate(0.0, PARAMS)], None),
        TypeError,
        "some are encrypted",
    ),
]


@pytest.mark.parametrize("call, error, words", REFUSED)
def test_refusals(call, error, words, unchecked):
    with pytest.raises(error, match=words):
        call()
