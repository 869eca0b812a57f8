"""On a GPU: every primitive and whole operations, bit for bit what the reference makes of them on the CPU.

The tests of single handlers (tests/test_cuda*.py) run on a GPU too where JAX computes on one.
"""

import functools

import jax
import numpy as np
import pytest
import test_instruction_sets
from operations import (
    OPERATIONS,
    PARAMS,
    VARIANTS,
    entries,
    expected,
    keys,
    make_keys,
    operand,
    stacked,
    tolerance,
    user_seeds,
    values_of,
)
from residues import random_residues

import fhejax as fhe
from fhejax import _compat
from fhejax.primitives import embedding, native, rounding, sampling
from fhejax.primitives.define import definitions
from fhejax.primitives.weighted_sums import weighted_sums

HOST = jax.devices("cpu")[0]


@functools.cache
def device() -> jax.Device:
    """The first GPU. Skips the test where there is none, or no kernels for it."""
    if not _compat.has_devices("cuda"):
        pytest.skip(
            "needs an NVIDIA GPU and a jax with its plugin (jax[cuda13]); this process has neither or one alone"
        )
    if native.cuda_extension() is None:
        pytest.skip(f"fhejax has no CUDA kernels here: {native._load_cuda()[1]}")
    return jax.devices("cuda")[0]


def put(value, where):
    with jax.enable_x64(True):
        return jax.device_put(value, where)


def on(where, function, operands, lowering="native"):
    """The jitted call with operands on a device, whose results stay there, as arrays of NumPy."""
    with jax.default_device(where), fhe.lowering(lowering):
        results = jax.jit(lambda *x: function(*x))(*put(operands, where))
        assert all(leaf.devices() == {where} for leaf in jax.tree.leaves(results))
    return jax.tree.map(np.asarray, results)


def assert_same_bits(got, wanted):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        if np.issubdtype(a.dtype, np.integer):
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@pytest.fixture(params=["integer", "double"])
def arithmetic(request, monkeypatch):
    device()
    monkeypatch.setenv("FHEJAX_CUDA_ARITHMETIC", request.param)


# --- primitives -------------------------------------------------------------------------------------------------------

_SWITCH = ((61, 50, 50, 51, 49), (61, 61), 2)
CASES = [
    ("transforms", 3, 3),
    ("transforms", 13, 2),
    ("value_by_value", 104),
    ("conversions", 2, 50),
    ("conversions", 8, 61),
    ("divisions", 9, (61, 30, 49), (61, 60)),
    ("inner_products", 15),
    ("switches", 8, (50, 40, 40, 40, 40, 40, 40), (50, 50, 50), 3, ()),
    ("switches", 10, *_SWITCH, (3,)),
    ("permutations", 1024),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case[:3])))
def test_primitives(case, arithmetic):
    name, *key = case
    function, operands = test_instruction_sets.CASES[name](*key)
    assert_same_bits(on(device(), function, operands), on(HOST, function, operands, "reference"))


@functools.cache
def programs():
    """What the cases above leave out, on operands of the CPU: exact, but for the embedding."""
    moduli, n = PARAMS.moduli, PARAMS.degree
    sample = dict(count=2, moduli=moduli, degree=n)
    with jax.default_device(HOST):
        seed, x = user_seeds(0)[0], operand("ciphertext", 0)[0]
        seeded = fhe.evaluation_keys(seed, keys().secret, rotations=(1, 2), seeded=True)
        transform = fhe.LinearTransform.from_diagonals({i: 1 + i * 1j for i in range(12)}, PARAMS)
        rotations = fhe.evaluation_keys(seed, keys().secret, rotations=transform.rotations)
        rows = random_residues(0, moduli, n, (2, 2))
    polynomial = fhe.Polynomial([0.25, 0.5, 0.0, -0.125, 0.1, 0.0, 0.2])
    weights = np.arange(6 * len(moduli), dtype=np.uint64).reshape(3, len(moduli), 2)
    return {
        "keys": (make_keys, (user_seeds(0),)),
        "seeded keys": (lambda s, k: fhe.evaluation_keys(s, k, rotations=(1,), seeded=True), (seed, keys().secret)),
        "rotation with a seeded key": (lambda x, k: fhe.rotate(x, 1, k), (x, seeded)),
        "apply": (lambda t, x, k: fhe.apply(t, x, k), (transform, x, rotations)),
        "evaluate": (lambda x, k: fhe.evaluate(polynomial, x, k), (x, keys().evaluation)),
        "weighted sums": (lambda x, w: weighted_sums(x, w, moduli), (rows, weights)),
        "uniform": (lambda s: sampling.sample_uniform(s, **sample), (seed,)),
        "ternary": (lambda s: sampling.sample_ternary(s, **sample), (seed,)),
        "gaussian": (lambda s: sampling.sample_gaussian(s, deviation=3.2, **sample), (seed,)),
        "sparse": (lambda s: sampling.sample_sparse_ternary(s, weight=4, **sample), (seed,)),
        "chacha20": (sampling.chacha20, (seed, np.arange(12, dtype=np.uint32).reshape(3, 4))),
        "round": (lambda a: rounding.round_to_residues(a, 2.0**40, moduli), (np.linspace(-1, 1, n),)),
        "encode": (lambda a: rounding.encode_coefficients(a, 2.0**40, moduli), (np.linspace(-1, 1, n),)),
        "residues to float": (lambda x: rounding.residues_to_float(x, moduli), (rows[0, 0],)),
        "decode": (lambda x: rounding.decode_coefficients(x, moduli), (rows[0, 0],)),
        "slots to coefficients": (
            lambda z: embedding.slots_to_coefficients(z, n),
            (np.linspace(-1, 1, n // 2) + 0.5j,),
        ),
        "coefficients to slots": (lambda a: embedding.coefficients_to_slots(a, n // 2), (np.linspace(-1, 1, n),)),
        "sums": (lambda x: (x + x, x - x, -x), (x,)),
        "product": (lambda x, k: fhe.multiply(x, x, k), (x, keys().evaluation)),
        "encrypt": (lambda s, k, p: fhe.encrypt(s, k, p), (seed, keys().public, operand("plaintext", 0)[0])),
        "decrypt": (lambda k, x: fhe.decrypt(k, x), (keys().secret, x)),
    }


NAMES = [
    *("keys", "seeded keys", "rotation with a seeded key", "apply", "evaluate", "weighted sums", "uniform", "ternary"),
    *("gaussian", "sparse", "chacha20", "round", "encode", "residues to float", "decode", "slots to coefficients"),
    *("coefficients to slots", "sums", "product", "encrypt", "decrypt"),
]


@pytest.mark.parametrize("name", NAMES)
def test_programs(name):
    where = device()
    function, operands = programs()[name]
    assert_same_bits(on(where, function, operands), on(HOST, function, operands, "reference"))


def test_every_primitive_is_among_them():
    """Needs no GPU."""
    calls = [test_instruction_sets.CASES[name](*key) for name, *key in CASES] + list(programs().values())
    found = set()
    for function, operands in calls:
        found |= names_in(_compat.x64(jax.make_jaxpr(function))(*put(operands, HOST)).jaxpr)
    assert programs().keys() == set(NAMES) and found == set(definitions)


def names_in(jaxpr):
    found = set()
    for equation in jaxpr.eqns:
        found.add(equation.primitive.name)
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            inner = getattr(value, "jaxpr", value)
            found |= names_in(inner) if hasattr(inner, "eqns") else set()
    return found & set(definitions)


# --- whole operations -------------------------------------------------------------------------------------------------

# Encoding rounds what a complex FFT makes of values, and its last bits are each device's own.
EXACT = {
    name: operation
    for name, operation in (OPERATIONS | VARIANTS).items()
    if all(kind.split()[-1] in ("ciphertext", "product", "plaintext", "seed") for kind in operation.operands)
}


@pytest.mark.parametrize("name", EXACT)
def test_operations_have_the_bits_of_the_cpu(name):
    """Of its kernels, which test_instruction_sets.py holds to the reference."""
    where, operation = device(), EXACT[name]
    run = lambda *operands: operation.run(*operands)
    operands = keys(), *entries(operation)
    assert_same_bits(on(where, run, operands), on(HOST, run, operands))


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in EXACT])
def test_operations_mean_what_numpy_makes(name):
    where, operation = device(), OPERATIONS[name]
    with jax.default_device(where):
        result = operation.run(put(keys(), where), *put(entries(operation), where))
    with jax.default_device(HOST):
        assert np.abs(values_of(put(result, HOST)) - expected(operation)).max() < tolerance(operation)


def test_batches():
    where, operation = device(), OPERATIONS["multiply ciphertext"]
    run = jax.vmap(lambda k, x, y: operation.run(k, x, y), (None, 0, 0))
    operands = keys(), *stacked(operation, 3)
    assert_same_bits(on(where, run, operands), on(HOST, run, operands))


def test_a_program_moves_nothing_between_host_and_device():
    where = device()
    x, evaluation = put((operand("ciphertext", 0)[0], keys().evaluation), where)
    program = jax.jit(lambda x, keys: fhe.rotate(fhe.multiply(x, x, keys) + x, 1, keys))
    jax.block_until_ready(program(x, evaluation))
    with jax.transfer_guard("disallow"):
        jax.block_until_ready(program(x, evaluation))


def test_keys_wait_in_the_host():
    where = device()
    x, evaluation = put((operand("ciphertext", 0)[0], keys().evaluation), where)
    waiting = put(evaluation, jax.sharding.SingleDeviceSharding(where, memory_kind="pinned_host"))
    program = jax.jit(lambda x, keys: fhe.rotate(x, 1, jax.device_put(keys, jax.memory.Space.Device)))
    assert_same_bits(jax.tree.map(np.asarray, program(x, waiting)), jax.tree.map(np.asarray, program(x, evaluation)))


def test_calls_in_loops_repeat_themselves():
    """Loops and repeated calls are where XLA records command buffers."""
    where = device()
    x, evaluation = put((operand("ciphertext", 0)[0], keys().evaluation), where)
    loop = jax.jit(lambda x, keys: jax.lax.fori_loop(0, 5, lambda i, x: fhe.rotate(x, 1, keys), x))
    first = jax.tree.map(np.asarray, loop(x, evaluation))
    for _ in range(4):
        assert_same_bits(jax.tree.map(np.asarray, loop(x, evaluation)), first)
    with jax.default_device(HOST):
        assert_same_bits(jax.tree.map(np.asarray, loop(*put((x, evaluation), HOST))), first)


def test_a_small_bootstrapping():
    where = device()
    with jax.default_device(HOST):
        how = fhe.Bootstrapping("T", 8)
        secret = fhe.secret_key(user_seeds(1)[0], how.params)
        given = how.keys(user_seeds(1)[1], secret)
        x = fhe.drop_to_level(fhe.encrypt(user_seeds(1)[2], secret, np.full(8, 0.5)), how.input_level)
    run = lambda x, keys: fhe.bootstrap(x, keys)
    assert_same_bits(on(where, run, (x, given)), on(HOST, run, (x, given)))
