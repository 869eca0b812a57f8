"""Random residues, keys and encryptions by the emulated CUDA handlers, against the reference, bit for bit."""

import jax
import numpy as np
import pytest
from emulation import assert_equals_cpu, assert_equals_reference
from hypothesis import given, settings, strategies as st
from residues import chain, random_residues

from fhejax.primitives import sampling
from fhejax.primitives.encryption import decrypt_coefficients, encrypt_public
from fhejax.primitives.key_generation import switching_key

BITS = (20, 31, 49, 50, 51, 61)
DEGREES = [1, 2, 4, 8, 64, 1000, 4096]


def words(seed, *shape):
    return np.random.default_rng(seed).integers(0, 1 << 32, shape, dtype=np.uint32)


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys, places", [((8,), (1, 4)), ((2, 8), (300, 4)), ((3, 1, 8), (1, 2, 5, 4)), ((0, 8), (3, 4))]
)
def test_chacha20(keys, places):
    assert_equals_reference(sampling.chacha20, words(0, *keys), words(1, *places))


SAMPLES = {
    "uniform": (sampling.sample_uniform, {}),
    "ternary": (sampling.sample_ternary, {}),
    "gaussian": (sampling.sample_gaussian, {"deviation": 3.2}),
    "narrow": (sampling.sample_gaussian, {"deviation": 0.05}),
    "wide": (sampling.sample_gaussian, {"deviation": 80.0}),
}


@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name, degree):
    function, parameters = SAMPLES[name]
    moduli = chain(16, BITS if degree < 4096 else BITS[:2])
    count = 3 if degree < 1000 else 1
    draw = lambda seed: function(seed, count, moduli, degree, **parameters)
    assert_equals_reference(draw, words(degree, 8), seed=degree)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("batch", [(0,), (3,), (2, 2)])
def test_batches_of_seeds(name, batch):
    function, parameters = SAMPLES[name]
    draw = lambda seed: function(seed, 2, chain(16, (30, 55)), 40, **parameters)
    assert_equals_reference(draw, words(5, *batch, 8))


@pytest.mark.parametrize("degree, weight", [(1, 0), (1, 1), (2, 2), (8, 3), (64, 64), (1000, 192)])
def test_sparse_samples(degree, weight):
    moduli = chain(16, BITS)
    for batch, count in [((), 1), ((2,), 3)]:
        draw = lambda seed, count=count: sampling.sample_sparse_ternary(seed, count, moduli, degree, weight)
        assert_equals_reference(draw, words(degree + weight, *batch, 8), seed=weight)


# --- keys -------------------------------------------------------------------------------------------------------------


def make_key(arrays, moduli, special, digit_size, seeded, **options):
    def make(*operands):
        key = switching_key(*operands, moduli, special, digit_size, 3.2, seeded)
        return key.first if seeded else key

    assert_equals_reference(make, *arrays, **options)


@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize("n", [2, 16, 512])
def test_switching_keys(n, seeded, arithmetic):
    primes = chain(n, BITS)
    moduli, special = primes[:4], primes[4:]
    secrets = [random_residues(seed, primes, n) for seed in range(2)]
    for digit_size in (1, 3):
        make_key([words(0, 8), words(1, 8), *secrets], moduli, special, digit_size, seeded, seed=n)


def test_keys_transformed_in_two_launches(arithmetic):
    n = 1 << 12
    primes = chain(n, (45, 61, 50))
    secrets = [random_residues(seed, primes, n) for seed in range(2)]
    make_key([words(0, 8), words(1, 8), *secrets], primes[:2], primes[2:], 1, False, check=False)


def test_keys_of_secrets_with_more_limbs_and_batches(arithmetic):
    n = 16
    primes = chain(n, (30, 40, 50, 55, 60))
    source, target = random_residues(0, primes, n, (2, 1)), random_residues(1, primes, n, (1, 3))
    seeds = words(0, 2, 3, 8), words(1, 2, 3, 8)
    make_key([*seeds, source, target], primes[:2], primes[4:], 2, False)
    make_key([seeds[0][0, 0], seeds[1][0, 0], source, target], primes[:2], primes[4:], 2, False)


# --- encryption and decryption ----------------------------------------------------------------------------------------


def assert_encrypts(seeds, key, message, moduli, special, **options):
    encrypt = lambda *operands: encrypt_public(*operands, moduli, special, 3.2)
    assert_equals_reference(encrypt, seeds, key, message, **options)


@pytest.mark.parametrize("n", [2, 16, 512])
def test_encryption(n, arithmetic):
    moduli = chain(n, BITS)
    for special in (moduli[-1], moduli[2]):
        moduli_of_message = tuple(q for q in moduli if q != special)
        key = random_residues(0, (*moduli_of_message, special), n, (1, 2))
        message = random_residues(1, moduli_of_message, n, (3,))
        assert_encrypts(words(2, 8), key, message, moduli_of_message, special, seed=n)


def test_encryption_in_two_launches(arithmetic):
    n = 1 << 12
    moduli = chain(n, (45, 61, 50))
    key = random_residues(0, moduli, n, (1, 2))
    assert_encrypts(words(2, 8), key, random_residues(1, moduli[:2], n, (1,)), moduli[:2], moduli[2], check=False)


@pytest.mark.parametrize(
    "seeds, keys, messages", [((2,), (3, 2), (1, 1)), ((2, 2), (1, 2, 1), (1, 1, 3)), ((0,), (1, 1), (1, 2))]
)
def test_encryption_broadcasts(seeds, keys, messages, arithmetic):
    """Keys at a higher level, too."""
    moduli = chain(16, (30, 45, 50, 60))
    keys = (1, *keys[1:]) if seeds == (2,) else keys
    key, message = random_residues(0, moduli, 16, (*keys, 2)), random_residues(1, moduli[:2], 16, messages)
    assert_encrypts(words(2, *seeds, 8), key, message, moduli[:2], moduli[3])


@pytest.mark.parametrize("components", [1, 2, 3])
@pytest.mark.parametrize("n", [2, 16, 512])
def test_decryption(n, components, arithmetic):
    moduli = chain(n, BITS)
    data, secret = random_residues(0, moduli[:5], n, (2, 1, components)), random_residues(1, moduli, n, (1, 3))
    decrypt = lambda *operands: decrypt_coefficients(*operands, moduli[:5])
    assert_equals_cpu(decrypt, data, secret, seed=n)


@settings(deadline=None, max_examples=8)
@given(
    seed=st.integers(0, 2**32 - 1),
    log_n=st.integers(1, 9),
    bits=st.lists(st.integers(20, 61), min_size=2, max_size=4),
    deviation=st.floats(0.1, 80),
)
def test_any_encryption(seed, log_n, bits, deviation):
    n = 1 << log_n
    moduli = chain(n, tuple(bits))
    key, message = random_residues(seed, moduli, n, (1, 2)), random_residues(seed, moduli[:-1], n, (1,))
    encrypt = lambda *operands: encrypt_public(*operands, moduli[:-1], moduli[-1], deviation)
    assert_equals_reference(encrypt, words(seed, 8), key, message, seed=seed)


def test_lowered_for_cuda():
    moduli = chain(16, (30, 55))
    seed = jax.ShapeDtypeStruct((8,), np.uint32)
    with jax.enable_x64(True):
        for name, (function, parameters) in {
            **SAMPLES,
            "sparse_ternary": (sampling.sample_sparse_ternary, {"weight": 4}),
        }.items():
            draw = lambda seed, f=function, p=parameters: f(seed, 2, moduli, 16, **p)
            text = jax.jit(draw).trace(seed).lower(lowering_platforms=("cuda",)).as_text()
            assert f"@fhejax_sample_{'gaussian' if name in ('narrow', 'wide') else name}_v1" in text
