"""The noise model against real ciphertexts: the root mean square error over slots and a batch, and the worst slot.

Each operation is measured alone: its own error is the difference between the decryptions before and after it, or the
operands are such that the term in question outweighs the others.
"""

import math

import jax
import jax.numpy as jnp
import noise_model as noise
import numpy as np
import pytest
from making import made_once

import fhejax as fhe

# The spread of a measurement is about 1 %: the norm of one secret, and some 2^15 slots.
LEAST, MOST = 0.94, 1.06
BATCH = 8

SECURE = fhe.Parameters.for_depth(2)
# Special primes hardly larger than a digit, so that a key switch shows the errors of its keys.
NARROW = fhe.Parameters.from_bits(12, (40, 40, 40), (41,), scale_bits=35, digit_size=1, security=None)
NARROW_PAIRS = fhe.Parameters.from_bits(12, (40, 40, 40), (41, 40), scale_bits=35, digit_size=2, security=None)


def seed(*words: int) -> jax.Array:
    return jnp.array([*words, *range(len(words), 8)], jnp.uint32)


@made_once
def secret(params):
    return fhe.secret_key(seed(1), params)


@made_once
def public(params):
    return fhe.public_key(seed(2), secret(params))


@made_once
def keys(params):
    return fhe.evaluation_keys(seed(3), secret(params), rotations=(3,), conjugation=True)


def complexes(number: int, amplitude: float, params) -> np.ndarray:
    """A batch of complex slots with a mean of |slot|^2 of amplitude^2."""
    rng = np.random.default_rng(number)
    parts = rng.uniform(-1, 1, (2, BATCH, params.slots)) * amplitude * math.sqrt(3 / 2)
    return parts[0] + 1j * parts[1]


def encrypted(number: int, values, params, key=secret):
    return fhe.encrypt(seed(4, number), key(params), values)


def opened(x) -> np.ndarray:
    kind = "float64" if x.real else "complex128"
    return np.asarray(fhe.decrypt(secret(x.params), x, dtype=kind))


def decoded(plain) -> np.ndarray:
    return np.asarray(fhe.decode(plain, dtype="float64" if plain.real else "complex128"))


def deviation(error: np.ndarray) -> float:
    """Of a slot's real part and of its imaginary part, taken together."""
    return math.sqrt(np.mean(np.abs(error) ** 2) / (2 if np.iscomplexobj(error) else 1))


def check(error: np.ndarray, variance: float, x):
    ratio = deviation(error) / noise.slot_deviation(variance, x.scale, x.slots)
    assert LEAST < ratio < MOST


@pytest.mark.parametrize("real", [True, False])
def test_encode(real):
    values = complexes(1, 1.0, SECURE)
    values = values.real if real else values
    plain = fhe.encode(values, SECURE)
    check(decoded(plain) - values, noise.encode(real), plain)


@pytest.mark.parametrize("slots", [8, 512])
def test_encode_fewer_slots(slots):
    values = np.random.default_rng(2).uniform(-1, 1, (2**13 // slots, slots))
    plain = fhe.encode(values, SECURE, slots=slots)
    check(decoded(plain) - values, noise.encode(real=True), plain)


def test_encode_number():
    x = encrypted(1, complexes(1, 1.0, SECURE)[0], SECURE)
    numbers = np.random.default_rng(3).uniform(-1, 1, 100)
    errors = [np.mean(opened(x + float(number)) - opened(x)) - number for number in numbers]
    measured = math.sqrt(np.mean(np.square(np.real(errors))))
    predicted = noise.slot_deviation(noise.encode_number(x.slots), x.scale, x.slots)
    assert 0.85 < measured / predicted < 1.15  # one hundred samples only


@pytest.mark.parametrize("key, model", [(public, noise.encrypt_public), (secret, noise.encrypt_secret)])
@pytest.mark.parametrize("params", [SECURE, NARROW])
def test_encrypt(key, model, params):
    plain = fhe.encode(complexes(4, 1.0, params), params)
    x = encrypted(1, plain, params, key)
    check(opened(x) - decoded(plain), model(params), x)


@pytest.mark.parametrize("slots", [8, 512])
def test_encrypt_fewer_slots(slots):
    plain = fhe.encode(np.zeros((2**12 // slots, slots)), SECURE, slots=slots)
    x = encrypted(1, plain, SECURE)
    check(opened(x), noise.encrypt_secret(SECURE), x)


@pytest.mark.parametrize("operation, sign", [(fhe.add, 1), (fhe.subtract, -1)])
def test_add(operation, sign):
    u, v = complexes(5, 1.0, SECURE), complexes(6, 1.0, SECURE)
    x, y = encrypted(1, u, SECURE), encrypted(2, v, SECURE, public)
    fresh = [noise.encrypt_secret(SECURE), noise.encrypt_public(SECURE)]
    # The noisier operand may not hide the other one.
    x, fresh[0] = fhe.multiply_plain(x, 8), 64 * fresh[0]
    check(opened(operation(x, y)) - (8 * u + sign * v), noise.add(*fresh), x)


def test_add_array():
    x, values = encrypted(1, complexes(5, 1.0, SECURE), SECURE), complexes(6, 1.0, SECURE)
    check(opened(x + values) - opened(x) - values, noise.encode(real=False), x)


@pytest.mark.parametrize("message, values", [(300.0, 0.1), (0.1, 100.0), (0.1, 0.1)])
def test_multiply_plain(message, values):
    """In turn the rounding of the array, the operand's error, and the rounding of the rescale outweigh the others."""
    u, v = complexes(7, message, SECURE), complexes(8, values, SECURE)
    x = encrypted(1, u, SECURE)
    fresh = noise.encrypt_secret(SECURE)
    predicted = noise.multiply_plain(SECURE, x.level, fresh, message**2, values**2, noise.encode(real=False))
    out = fhe.multiply_plain(x, v)
    check(opened(out) - u * v, predicted, out)


def test_multiply_plain_real():
    """The error of real values times a real array stays in the real part."""
    u, v = complexes(7, 300.0, SECURE).real, complexes(8, 0.1, SECURE).real
    x = encrypted(1, u, SECURE)
    predicted = noise.multiply_plain(
        SECURE, x.level, noise.encrypt_secret(SECURE), np.mean(u**2), np.mean(v**2), noise.encode(real=True)
    )
    out = fhe.multiply_plain(x, v)
    check(opened(out) - u * v, predicted, out)


def test_multiply_number():
    u = complexes(7, 0.1, SECURE)
    x = encrypted(1, u, SECURE)
    predicted = noise.multiply_plain(
        SECURE, x.level, noise.encrypt_secret(SECURE), 0.01, 30.5**2, noise.encode_number(x.slots)
    )
    out = fhe.multiply_plain(x, 30.5)
    check(opened(out) - 30.5 * u, predicted, out)


def test_rescale_rounding():
    """At the square of the scale the rounding of encoding and the error of encryption vanish beside that of rescale."""
    plain = fhe.encode(complexes(9, 1.0, SECURE), SECURE, scale=SECURE.scale_at(2) ** 2)
    x = encrypted(1, plain, SECURE)
    out = fhe.rescale(x)
    check(opened(out) - opened(x), noise.rescale(SECURE, x.level, 0.0), out)


def test_rescale_rounding_of_three_components():
    x = encrypted(1, complexes(9, 1.0, SECURE), SECURE) * encrypted(2, complexes(10, 1.0, SECURE), SECURE)
    out = fhe.rescale(x)
    assert out.components == 3
    check(opened(out) - opened(x), noise.rescale(SECURE, x.level, 0.0, components=3), out)


def test_rescale_of_an_error():
    factor = 2**46
    plain = fhe.encode(complexes(9, 2.0**-46, SECURE), SECURE, scale=SECURE.scale_at(2) ** 2)
    x = fhe.multiply_plain(encrypted(1, plain, SECURE), factor)
    out = fhe.rescale(x)
    before = factor**2 * noise.encrypt_secret(SECURE)
    predicted = noise.rescale(SECURE, x.level, before)
    assert predicted > 50 * noise.rounding(SECURE)
    check(opened(out) - factor * complexes(9, 2.0**-46, SECURE), predicted, out)


def test_product():
    """Without messages the two errors multiply each other."""
    x, y = (encrypted(i, np.zeros((BATCH, SECURE.slots), complex), SECURE) for i in (1, 2))
    out = x * y
    fresh = noise.encrypt_secret(SECURE)
    check(opened(out), noise.product(SECURE, x.level, fresh, fresh, 0.0, 0.0), out)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("params", [SECURE, NARROW, NARROW_PAIRS])
def test_relinearize(params):
    x, y = (encrypted(i, np.zeros((BATCH, params.slots), complex), params) for i in (1, 2))
    before = x * y
    out = fhe.relinearize(before, keys(params))
    check(opened(out) - opened(before), noise.relinearize(params, out.level, 0.0), out)


@pytest.mark.parametrize("message_x, message_y", [(100.0, 0.1), (0.1, 100.0), (0.1, 0.1)])
def test_multiply(message_x, message_y):
    """In turn the error of y, that of x, and the rounding of the merged ModDown outweigh the others."""
    u, v = complexes(11, message_x, SECURE), complexes(12, message_y, SECURE)
    x, y = encrypted(1, u, SECURE), fhe.multiply_plain(encrypted(2, v / 2, SECURE), 2)
    fresh = noise.encrypt_secret(SECURE)
    predicted = noise.multiply(SECURE, x.level, fresh, 4 * fresh, message_x**2, message_y**2)
    out = fhe.multiply(x, y, keys(SECURE))
    check(opened(out) - u * v, predicted, out)


@pytest.mark.parametrize("params", [NARROW, NARROW_PAIRS])
def test_multiply_divides_the_key_errors(params):
    """The merged division by P q leaves nothing of the key errors that a ModDown alone would leave."""
    x, y = (encrypted(i, complexes(i, 0.01, params), params) for i in (1, 2))
    predicted = noise.multiply(params, x.level, *[noise.encrypt_secret(params)] * 2, 1e-4, 1e-4)
    assert noise.key_switch(params, x.level) > 2 * predicted
    out = fhe.multiply(x, y, keys(params))
    check(opened(out) - complexes(1, 0.01, params) * complexes(2, 0.01, params), predicted, out)


def test_square():
    u = complexes(11, 30.0, SECURE)
    x = encrypted(1, u, SECURE)
    predicted = noise.square(SECURE, x.level, noise.encrypt_secret(SECURE), 900.0)
    assert predicted > 20 * noise.rounding(SECURE)
    out = fhe.square(x, keys(SECURE))
    check(opened(out) - u**2, predicted, out)


@pytest.mark.parametrize("params", [SECURE, NARROW, NARROW_PAIRS])
@pytest.mark.parametrize("level", [2, 1, 0])
def test_rotate(params, level):
    """The narrow sets show the digits alive at each level, above the rounding."""
    x = fhe.drop_to_level(encrypted(1, complexes(13, 0.1, params), params), level)
    added = noise.rotate(params, level, 0.0)
    check(opened(fhe.rotate(x, 3, keys(params))) - np.roll(opened(x), -3, axis=-1), added, x)
    check(opened(fhe.conjugate(x, keys(params))) - opened(x).conj(), added, x)


def test_key_errors_are_seen():
    """Else `test_rotate` would test the rounding alone."""
    assert noise.key_errors(NARROW, 2) > 5 * noise.rounding(NARROW)
    assert noise.key_errors(NARROW_PAIRS, 1) > 2 * noise.rounding(NARROW_PAIRS)
    assert noise.key_errors(NARROW_PAIRS, 0) < 0.01 * noise.rounding(NARROW_PAIRS)
    assert noise.key_errors(SECURE, 2) < 0.1 * noise.rounding(SECURE)


@pytest.mark.parametrize("params, level", [(SECURE, 1), (SECURE, 0), (NARROW, 1), (NARROW, 0)])
@pytest.mark.parametrize("factor", [1, 64])
def test_drop_to_level(params, level, factor):
    """With the factor of 64 the operand's error outweighs the rounding."""
    u = complexes(14, 0.1, params)
    x = fhe.multiply_plain(encrypted(1, u, params), factor)
    out = fhe.drop_to_level(x, level)
    before = factor**2 * noise.encrypt_secret(params)
    check(opened(out) - factor * u, noise.drop_to_level(params, x.level, before, level), out)


def test_drop_to_the_same_level_adds_nothing():
    assert noise.drop_to_level(SECURE, 2, 10.0, 2) == 10.0


def test_worst_slot_fresh_and_after_a_product():
    """At N = 2^14 and a scale of 2^40: 22 bits fresh, 20 after a multiplication."""
    params = fhe.Parameters.for_depth(6)
    assert (params.log_degree, params.scale_at(6)) == (14, 2.0**40)
    u, v = (np.random.default_rng(i).uniform(-1, 1, params.slots) for i in (1, 2))
    x, y = encrypted(1, u, params, public), encrypted(2, v, params, public)
    fresh = noise.encrypt_public(params) + noise.encode(real=True)
    after = noise.multiply(params, 6, fresh, fresh, np.mean(u**2), np.mean(v**2))
    out = fhe.multiply(x, y, keys(params))
    _check_bits(x, u, fresh, least=22)
    _check_bits(out, u * v, after, least=20)


def _check_bits(x, expected, variance, least):
    measured = fhe.precision(expected, opened(x))
    predicted = noise.bits(noise.slot_deviation(variance, x.scale, x.slots), x.slots)
    assert measured >= least and predicted >= least
    assert abs(measured - predicted) < 0.5


def test_bits_of_one_slot():
    assert noise.bits(2.0**-10, 1) == pytest.approx(10.5)


def test_variances_may_be_arrays():
    """So that a value can carry one for each ciphertext of a batch, and be differentiated."""
    with jax.enable_x64(True):
        x = jnp.array([1.0, 4.0])
        y = jax.jit(lambda x: noise.rotate(SECURE, 2, noise.multiply(SECURE, 2, x, x, 1.0, 1.0)))(x)
    single = [noise.rotate(SECURE, 2, noise.multiply(SECURE, 2, v, v, 1.0, 1.0)) for v in (1.0, 4.0)]
    np.testing.assert_allclose(y, single, rtol=1e-12)
