"""Weights, polynomials and their ranges, trained together through the simulated circuit; then run on ciphertexts."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from making import made_once
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import fhejax as fhe
from fhejax.polynomials.gradient import fit_loss

# Digits of 4 x 4 pixels, two hidden layers of 16 units; a level for each matrix, and two for each cubic polynomial.
WIDTH, CLASSES, STEPS = 16, 10, 400
# A scale at which the noise can be seen: the errors of the scores are about 2^-14.
PARAMS = fhe.Parameters.for_depth(7, scale_bits=28, log_degree=10, security=None)
STRIDE = PARAMS.slots // WIDTH  # images in a ciphertext
BATCH = 4  # ciphertexts
TURNS = 4  # a matrix takes 4 rotations of its operand, and 4 of their sums


def model(weights, x, keys):
    """The network on one ciphertext, or on a simulated one: the scores, and what enters each activation."""
    inputs = []
    for layer in weights["hidden"]:
        size = jnp.exp(layer["log_range"])
        inputs.append(affine(x, layer["matrix"] / size, layer["bias"] / size, keys))
        x = fhe.evaluate(layer["activation"], inputs[-1], keys)
    return affine(x, **weights["output"], keys=keys), inputs


def affine(x, matrix, bias, keys):
    """The sum over k of the k-th diagonal times x turned by k; `lax.scan` carries what is summed by Horner's rule."""
    turned = fhe.rotate_many(x, [k * STRIDE for k in range(TURNS)], keys)
    step = lambda total, row: (fhe.rotate(total, TURNS * STRIDE, keys) + fhe.dot_plain(turned, list(row)), None)
    total, _ = jax.lax.scan(step, fhe.drop_to_level(0 * x, x.level - 1), diagonals(matrix), reverse=True)
    return total + jnp.repeat(bias, STRIDE)


def diagonals(matrix):
    """Diagonal k = 4 j + i at [j, i], turned back by 4 j, in slots."""
    i, k = np.arange(WIDTH), np.arange(WIDTH)[:, None]
    turned = i - k // TURNS * TURNS
    diagonals = matrix[turned % WIDTH, (turned + k) % WIDTH]
    return jnp.repeat(diagonals, STRIDE, axis=1).reshape(-1, TURNS, PARAMS.slots)


def pack(images):
    """Pixel p of image i to slot `p * STRIDE + i`: `[count, WIDTH]` to `[ciphertexts, slots]`, filled up with zeros."""
    images = np.pad(images, ((0, -len(images) % (BATCH * STRIDE)), (0, 0)))
    return images.reshape(-1, STRIDE, WIDTH).swapaxes(1, 2).reshape(-1, PARAMS.slots)


def unpack(slots):
    """The inverse, for scores."""
    return slots.reshape(-1, WIDTH, STRIDE).swapaxes(1, 2).reshape(-1, WIDTH)[:, :CLASSES]


@functools.cache
def digits():
    """Training and test images `[count, WIDTH]`, and their labels."""
    pixels, labels = load_digits(return_X_y=True)
    pixels = pixels.reshape(-1, 4, 2, 4, 2).mean((2, 4)).reshape(-1, WIDTH) / 16
    return train_test_split(pixels, labels, test_size=360, random_state=0)


def initial():
    first, second, third = (
        jax.random.normal(key, (WIDTH, WIDTH)) / 4 for key in jax.random.split(jax.random.key(0), 3)
    )
    fitted = fhe.polynomial.fit(lambda u: jax.nn.gelu(4 * u), (-1, 1), 3)
    layer = lambda matrix: {
        "matrix": matrix,
        "bias": jnp.zeros(WIDTH),
        "activation": jax.tree.map(jnp.asarray, fitted),
        "log_range": jnp.full((), np.log(4.0)),
    }
    return {"hidden": [layer(first), layer(second)], "output": {"matrix": third, "bias": jnp.zeros(WIDTH)}}


def loss(weights, x, labels, seed):
    """The cross-entropy under noise, with each activation held near GELU, and what enters it within its domain."""
    scores, inputs = model(weights, fhe.simulate(x, PARAMS, noise_seed=seed), None)
    total = jnp.mean(optax.softmax_cross_entropy_with_integer_labels(unpack(scores.values), labels))
    for layer, entering in zip(weights["hidden"], inputs, strict=True):
        size, u = jnp.exp(layer["log_range"]), entering.values
        total += 0.03 * fit_loss(layer["activation"], lambda u, size=size: jax.nn.gelu(size * u), u)
        total += 10 * jnp.mean(jax.nn.relu(jnp.max(jnp.abs(u), axis=-1) - 0.8) ** 2)
    return total


@made_once
def trained():
    """The weights, and the losses on the way."""
    images, _, labels, _ = digits()
    optimizer = optax.adam(optax.cosine_decay_schedule(0.03, STEPS))

    @jax.jit
    def step(weights, state, x, labels, seed):
        value, gradient = jax.value_and_grad(loss)(weights, x, labels, seed)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(weights, updates), state, value

    weights, losses, rng = initial(), [], np.random.default_rng(0)
    state = optimizer.init(weights)
    with warnings.catch_warnings():
        # Before the ranges are learnt, a value may lie outside.
        warnings.simplefilter("ignore", fhe.OutOfRangeWarning)
        for seed in range(STEPS):
            chosen = rng.choice(len(images), BATCH * STRIDE, replace=False)
            weights, state, value = step(weights, state, pack(images[chosen]), labels[chosen], seed)
            losses.append(float(value))
    return weights, losses


@made_once
def simulated():
    """The scores of the test images as simulated, without noise but with its size; and what enters the activations."""
    run = jax.jit(lambda weights, x: model(weights, fhe.simulate(x, PARAMS), None))
    return run(trained()[0], pack(digits()[1]))


@made_once
def decrypted():
    """The scores of the test images, computed encrypted."""
    seeds = fhe.split_seed(fhe.new_seed(), 4)
    secret = fhe.secret_key(seeds[0], PARAMS)
    public = fhe.public_key(seeds[1], secret)
    keys = fhe.evaluation_keys(seeds[2], secret, rotations=[STRIDE * k for k in range(1, TURNS + 1)])
    x = fhe.encrypt(seeds[3], public, pack(digits()[1]))
    scores, _ = jax.jit(model)(trained()[0], x, keys)
    return np.asarray(fhe.decrypt(secret, scores, dtype="float64"))


@pytest.mark.slow
def test_all_of_it_is_trained():
    weights, losses = trained()
    assert np.mean(losses[-20:]) < 0.15 * losses[0]
    moved = jax.tree.map(lambda new, old: float(jnp.max(jnp.abs(new - old))), weights, initial())
    assert min(jax.tree.leaves(moved)) > 0.01, moved
    scores = unpack(np.asarray(simulated()[0].values))[:360]
    assert np.mean(scores.argmax(-1) == digits()[3]) > 0.87  # with GELU, in the clear, it is 0.89 to 0.93


@pytest.mark.slow
def test_ranges_hold_the_test_images():
    for entering in simulated()[1]:
        assert 0.3 < np.max(np.abs(entering.values)) < 1


@pytest.mark.slow
def test_encrypted_predictions_are_the_simulated_ones():
    """Image by image, for all of them; the noise is what the simulation says, and the margins are far above it."""
    values = np.asarray(simulated()[0].values, np.float64)
    deviation = np.sqrt(np.mean(simulated()[0].variance))
    expected, got = unpack(values)[:360], unpack(decrypted())[:360]
    np.testing.assert_array_equal(got.argmax(-1), expected.argmax(-1))
    assert 0.5 < np.sqrt(np.mean((decrypted() - values) ** 2)) / deviation < 1.3
    second, first = np.sort(expected, axis=-1)[:, -2:].T
    assert np.min(first - second) > 10 * deviation
