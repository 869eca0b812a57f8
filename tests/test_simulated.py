"""Simulated values: the types of the encrypted circuit, its values, its errors, and JAX's transformations of it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import operations
import pytest
from making import made_once
from operations import OPERATIONS, PARAMS, VARIANTS, seed

import fhejax as fhe
from fhejax.kinds import noise

TABLE = OPERATIONS | VARIANTS
ENCRYPTED = {  # what computes with ciphertexts; not what makes or opens them
    name: operation
    for name, operation in TABLE.items()
    if operation.operands[0].split()[-1] in ("ciphertext", "product") or operation.operands[-1] == "ciphertext"
    if name != "decrypt" and not name.startswith("decrypt,")
}
WITHOUT_KEYS = operations.Keys(None, None, None)


def simulated_operand(kind, index, **options):
    """As `operations.operand`, with simulated values for ciphertexts."""
    x, values = operations.operand(kind, index)
    if kind.split()[-1] == "ciphertext":
        x = fhe.simulate(values, PARAMS, **options)
        return fhe.drop_to_level(x, operations.DEPLETED) if "low" in kind else x
    if kind == "product":
        return simulated_operand("ciphertext", index, **options) * simulated_operand("ciphertext", index + 1, **options)
    return x


def simulated_entries(operation, **options):
    return tuple(simulated_operand(kind, 2 * i, **options) for i, kind in enumerate(operation.operands))


def types_of(result):
    return [
        (x.level, x.scale, x.slots, x.real, x.components, x.shape)
        for x in (result if isinstance(result, list) else [result])
    ]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", ENCRYPTED)
def test_types_and_values_are_those_of_the_encrypted_circuit(name):
    operation = ENCRYPTED[name]
    encrypted = operation.run(operations.keys(), *operations.entries(operation))
    result = operation.run(WITHOUT_KEYS, *simulated_entries(operation))
    assert types_of(result) == types_of(encrypted)
    values = np.stack([x.values for x in result]) if isinstance(result, list) else result.values
    np.testing.assert_allclose(values, operations.expected(operation), atol=2e-6, rtol=2e-6)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", ENCRYPTED)
def test_real_keys_are_accepted(name):
    operation = ENCRYPTED[name]
    with_keys = operation.run(operations.keys(), *simulated_entries(operation))
    without = operation.run(WITHOUT_KEYS, *simulated_entries(operation))
    jax.tree.map(
        np.testing.assert_array_equal,
        *(jax.tree.map(lambda x: x.values, each, is_leaf=is_simulated) for each in (with_keys, without)),
    )


def is_simulated(x):
    return isinstance(x, fhe.Simulated)


# --- errors, against those measured --------------------------------------------------------------------------------

SECURE = fhe.Parameters.for_depth(6)
NARROW = fhe.Parameters.from_bits(
    12, (40, 40, 40), (41,), scale_bits=35, digit_size=1, security=None
)  # key errors show


@made_once
def keys(params):
    secret = fhe.secret_key(seed(1), params)
    return operations.Keys(
        secret,
        fhe.public_key(seed(2), secret),
        fhe.evaluation_keys(
            seed(3), secret, rotations=[1 << i for i in range(params.log_degree - 1)], conjugation=True
        ),
    )


CIRCUITS = {
    "fresh": (lambda x, y, k: x),
    "sum": (lambda x, y, k: x + y),
    "twice the same": (lambda x, y, k: x + x),
    "difference that leaves a part": (lambda x, y, k: 3 * x - 2 * x),
    "product": (lambda x, y, k: fhe.multiply(x, y, k)),
    "square": (lambda x, y, k: fhe.square(x, k)),
    "large product": (lambda x, y, k: fhe.multiply(64 * x, 64 * y, k)),
    "raw products": (lambda x, y, k: fhe.rescale(fhe.relinearize(x * y + x * x, k))),
    "raw product, rescaled first": (lambda x, y, k: fhe.relinearize(fhe.rescale(x * y), k)),
    "numbers": (lambda x, y, k: 0.57 * x + 0.31 * x + 0.77 * x),
    "array": (lambda x, y, k: x * np.linspace(-2, 2, x.slots)),
    "small array": (lambda x, y, k: (1024 * x) * np.random.default_rng(0).uniform(-1e-3, 1e-3, x.slots)),
    "dot_plain": (lambda x, y, k: fhe.dot_plain([x, y], [np.linspace(0, 1, x.slots), np.linspace(1, 0, x.slots)])),
    "rotation": (lambda x, y, k: fhe.rotate(x, 1, k)),
    "composed rotation": (lambda x, y, k: fhe.rotate(x, 7, k)),
    "rotations that meet": (lambda x, y, k: sum(fhe.rotate_many(x, (1, 2, 4), k), x)),
    "there and back": (lambda x, y, k: x - fhe.conjugate(x, k)),
    "lower level": (lambda x, y, k: fhe.drop_to_level(x, 1)),
    "x (2 - x y), a step of Newton": (lambda x, y, k: fhe.multiply(x, 2 - fhe.multiply(x, y, k), k)),
    "polynomial": (lambda x, y, k: fhe.evaluate(fhe.Polynomial([0.1, 0.5, 0.3, -0.2]), x, k)),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "params, secret_key",
    [
        pytest.param(SECURE, False, id="secure-public", marks=pytest.mark.slow),
        pytest.param(SECURE, True, id="secure-secret"),
        pytest.param(NARROW, False, id="narrow-public"),
        pytest.param(NARROW, True, id="narrow-secret", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", CIRCUITS)
def test_errors_are_those_of_the_encrypted_circuit(name, params, secret_key):
    """To 1/8 for the deviation and half a bit for the worst of 8192 slots, correlations included."""
    circuit, key = CIRCUITS[name], keys(params)
    with jax.enable_x64(True):
        u, v = (np.random.default_rng(i).uniform(-1, 1, params.slots) for i in (1, 2))
        x, y = (fhe.encrypt(seed(4, i), key.secret if secret_key else key.public, w) for i, w in enumerate((u, v)))
        try:
            got = fhe.decrypt(key.secret, circuit(x, y, key.evaluation))
        except fhe.LevelError:
            pytest.skip("deeper than these parameters")
        x, y = (fhe.simulate(w, params, secret_key=secret_key) for w in (u, v))
        simulated = circuit(x, y, key.evaluation)
        error = np.asarray(got - simulated.values)
        predicted, bits = np.sqrt(np.mean(simulated.variance)), float(simulated.error_bits)
    assert 7 / 8 < np.sqrt(np.mean(error**2)) / predicted < 8 / 7
    assert abs(-np.log2(np.max(np.abs(error))) - bits) < (0.5 if params is SECURE else 0.8)  # 8192 slots, or 2048


def test_difference_of_equal_values_is_exact():
    x = fhe.simulate([0.1, 0.2], SECURE)
    assert not np.any((x - x).errors)


@pytest.mark.slow
@pytest.mark.parametrize("slots", [1, 64, 4096])
def test_sparse_packing(slots):
    params, key = SECURE, keys(SECURE)
    with jax.enable_x64(True):
        values = np.random.default_rng(5).uniform(-1, 1, (16, slots))
        x = fhe.encrypt(seed(6), key.public, fhe.encode(values, params, slots=slots))
        error = fhe.decrypt(key.secret, fhe.square(x, key.evaluation)) - values**2
        simulated = fhe.square(fhe.simulate(values, params, slots=slots), None)
        ratio = np.sqrt(np.mean(error**2) / np.mean(simulated.variance))
    assert simulated.shape == (16,) and simulated.slots == slots
    assert abs(np.log2(ratio)) < (1 if slots == 1 else 0.25)


PHASES = np.exp(2j * np.pi * np.random.default_rng(6).uniform(size=SECURE.slots))
COMPLEX = {  # of a real and a complex value; errors of the real one have imaginary parts too
    "square": lambda x, z, k: fhe.square(z, k),
    "conjugate": lambda x, z, k: fhe.conjugate(z, k),
    "real times array": lambda x, z, k: (64 * x) * PHASES,
    "real square times array": lambda x, z, k: fhe.square(8 * x, k) * (8 * PHASES),
    "twice": lambda x, z, k: (64 * x) * PHASES + (64 * x) * PHASES[::-1],
    "real plus complex": lambda x, z, k: 64 * x + z,
    "real plus array": lambda x, z, k: 64 * x - PHASES,
    "real times complex": lambda x, z, k: fhe.multiply(64 * x, 8 * z, k),
    "raw product": lambda x, z, k: fhe.rescale(fhe.relinearize(64 * x * z, k)),
    "complex times real array": lambda x, z, k: (64 * z) * PHASES.real,
    "real by a complex matrix": lambda x, z, k: fhe.apply(_diagonals(x.level), 64 * x, k),
}


@made_once
def _diagonals(level):
    return fhe.LinearTransform.from_diagonals({0: PHASES, 1: PHASES[::-1]}, SECURE, level)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("noisy", [False, True])
def test_complex_values(name, noisy):
    params, key, circuit = SECURE, keys(SECURE), COMPLEX[name]
    with jax.enable_x64(True):
        rng = np.random.default_rng(7)
        real, imaginary, other = rng.uniform(-1, 1, (3, params.slots))
        x, z = (fhe.encrypt(seed(8, i), key.public, v) for i, v in enumerate((real, imaginary + 1j * other)))
        got = fhe.decrypt(key.secret, circuit(x, z, key.evaluation))
        run = lambda s: circuit(*(fhe.simulate(v, params, noise_seed=s) for v in (real, imaginary + 1j * other)), None)
        exact = run(None)
        error = (run(1).values if noisy else got) - exact.values
        predicted = np.sqrt(np.mean(exact.variance))
        ratios = [np.sqrt(np.mean(np.abs(part) ** 2)) / predicted for part in (error, error.real * 2**0.5)]
    assert not exact.real and exact.values.dtype == exact.errors.dtype == np.complex128
    assert all(7 / 8 < ratio < 8 / 7 for ratio in ratios)


# --- failures ------------------------------------------------------------------------------------------------------


def at_level_0(x):
    encrypted = isinstance(x, (fhe.Ciphertext, fhe.Simulated))
    return fhe.drop_to_level(fhe.rescale(x) if encrypted and x.components == 3 else x, 0) if encrypted else x


@pytest.mark.parametrize("name", [name for name in ENCRYPTED if ENCRYPTED[name].level == operations.TOP - 1])
def test_out_of_levels_in_the_same_words(name):
    operation = ENCRYPTED[name]
    messages = []
    for entries in (operations.entries(operation), simulated_entries(operation)):
        depleted = [at_level_0(x) for x in entries]
        with pytest.raises((fhe.LevelError, fhe.ScaleError)) as caught:
            operation.run(operations.keys(), *depleted)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_encrypted_and_simulated_do_not_mix():
    x, y = operations.operand("ciphertext", 0)[0], simulated_operand("ciphertext", 0)
    for mix in (lambda: x + y, lambda: y - x, lambda: fhe.multiply(x, y, operations.keys().evaluation), lambda: y * x):
        with pytest.raises(TypeError, match="encrypt all or simulate all"):
            mix()


def test_values_that_do_not_fit():
    with pytest.raises(ValueError, match="too large for the modulus"):
        fhe.simulate([1e300], PARAMS)
    with pytest.raises(ValueError, match="is not finite"):
        fhe.simulate([np.nan], PARAMS)
    with pytest.raises(ValueError, match="too large"):
        fhe.simulate([1.0], PARAMS, level=0) + 1e30
    with pytest.raises(ValueError, match="level = 9"):
        fhe.simulate([1.0], PARAMS, level=9)


# --- transformations -----------------------------------------------------------------------------------------------


def circuit(weights, x):
    """A bit of everything, with noise in every part."""
    y = fhe.multiply(weights[0] * x + weights[1], x, None)
    return fhe.evaluate(fhe.Polynomial(jnp.stack([weights[2], weights[0], weights[1]])), fhe.rotate(y, 1, None), None)


WEIGHTS = jnp.array([0.7, -0.3, 0.2])
DEEP = fhe.Parameters.for_depth(5, log_degree=5, security=None)


@pytest.mark.slow
@pytest.mark.parametrize("noise_seed, x64", [(None, False), (5, True)])
def test_jit_and_vmap_change_nothing(noise_seed, x64):
    with jax.enable_x64(x64):
        values = operations.numbers(1, 3, DEEP.slots)
        x = fhe.simulate(values, DEEP, noise_seed=noise_seed)
        eager = circuit(WEIGHTS, x)
        assert eager.values.dtype == eager.errors.dtype == (np.float64 if x64 else np.float32)
        for transformed in (jax.jit(circuit)(WEIGHTS, x), jax.vmap(circuit, (None, 0))(WEIGHTS, x)):
            assert jax.tree.structure(transformed) == jax.tree.structure(eager)
            jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), transformed, eager)
        for i in range(3):
            one = circuit(WEIGHTS, jax.tree.map(lambda leaf, i=i: leaf[i], x))
            np.testing.assert_allclose(one.values, eager.values[i], rtol=1e-5, atol=1e-6)


def test_scan_and_cond_carry_one_type():
    x = fhe.simulate(operations.numbers(1, DEEP.slots), DEEP)
    step = lambda x, _: (jax.lax.cond(jnp.sum(x.values) > 0, lambda x: fhe.rotate(x, 1, None), lambda x: -x, x), None)
    rolled, _ = jax.lax.scan(step, x, length=3)
    assert (rolled.level, rolled.scale, rolled.shape) == (x.level, x.scale, ())


@pytest.mark.slow
@pytest.mark.parametrize("noise_seed", [None, 7])
def test_gradients_equal_finite_differences(noise_seed):
    with jax.enable_x64(True):
        x = np.linspace(-1, 1, DEEP.slots)
        simulated = lambda w, scale: circuit(w, fhe.simulate(scale * x, DEEP, noise_seed=noise_seed))
        losses = {
            "values": lambda w, scale: jnp.sum(simulated(w, scale).values * x),
            "errors": lambda w, scale: 1e9 * jnp.mean(simulated(w, scale).variance) ** 0.5,
        }
        for loss in losses.values():
            at = (jnp.asarray(WEIGHTS, float), 0.9)
            by_weights, by_scale = jax.jit(jax.grad(loss, argnums=(0, 1)))(*at)
            for i in range(3):
                step = 1e-6 * jnp.eye(3)[i]
                slope = (loss(at[0] + step, 0.9) - loss(at[0] - step, 0.9)) / 2e-6
                np.testing.assert_allclose(by_weights[i], slope, rtol=1e-5, atol=1e-6)
            slope = (loss(at[0], 0.9 + 1e-6) - loss(at[0], 0.9 - 1e-6)) / 2e-6
            np.testing.assert_allclose(by_scale, slope, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_noise_in_the_values():
    """One draw of the errors that are predicted; another for another seed, and for each entry of a batch."""
    with jax.enable_x64(True):
        values = np.random.default_rng(9).uniform(-1, 1, (2, SECURE.slots))
        run = lambda s: fhe.square(fhe.simulate(values, SECURE, noise_seed=s), None)
        exact, noisy = run(None), run(11)
        error = noisy.values - exact.values
        predicted = np.sqrt(np.mean(exact.variance))
        assert 7 / 8 < np.sqrt(np.mean(error**2)) / predicted < 8 / 7
        for other in (run(12).values[0], run(np.array([11, 1], np.uint32)).values[0], exact.values[0] + error[1]):
            assert 0.5 < np.sqrt(np.mean((noisy.values[0] - other) ** 2)) / predicted / np.sqrt(2) < 2
        np.testing.assert_array_equal(noisy.values, jax.jit(run)(11).values)


def test_opening():
    values = operations.numbers(1, DEEP.slots)
    x = fhe.simulate(values, DEEP)
    assert fhe.decrypt(None, x).dtype == np.float32
    assert fhe.decrypt(None, x, dtype="complex64").dtype == np.complex64
    np.testing.assert_array_equal(fhe.decrypt(None, x), values)


def test_repr_and_dry_run():
    x = fhe.simulate(np.ones((2, 3)), DEEP, noise_seed=1)
    assert repr(x) == "Simulated(level=5, scale=2^40.00, slots=16 real, shape=(2,), noisy, N=2^5)"
    shape = jax.eval_shape(lambda x: x * x, x)
    assert repr(shape) == "Simulated(level=5, scale=2^80.00, slots=16 real, shape=(2,), 3 components, noisy, N=2^5)"
    assert repr(jax.tree.map(lambda leaf: None, x)).startswith("Simulated(level=5")


def test_encoding_is_simulated_too():
    """Where nothing else disturbs: a plaintext operand's rounding, seen by a large message."""
    params = SECURE
    with jax.enable_x64(True):
        x = fhe.simulate(np.full(params.slots, 2.0**20), params, secret_key=True)
        plain = fhe.encode(np.full(params.slots, 1e-6), params)
        deviation = noise.slot_deviation(noise.encode(True), plain.scale, params.slots)
        for operand in (plain, np.full(params.slots, 1e-6)):
            error = (x * operand).errors - 1e-6 * x.errors
            assert 0.9 < np.sqrt(np.mean(error**2)) / (2.0**20 * deviation) < 1.1
