"""Encryption and decryption as whole operations: against their definition in Python integers, and in every lowering."""

import math
from fractions import Fraction

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from references import lowerings
from residues import centred, chain, compose, negacyclic_product, on_device, random_residues, spread

import fhejax as fhe
from fhejax.primitives import native
from fhejax.primitives.encryption import decrypt_coefficients, encrypt_public
from fhejax.primitives.ntt import inverse_ntt, ntt
from fhejax.primitives.rounding import decode_coefficients, encode_coefficients, residues_to_float, round_to_residues
from fhejax.primitives.sampling import sample_gaussian, sample_ternary

SEED = np.arange(8, dtype=np.uint32) * np.uint32(0x9E3779B9)
SIZES = [(50, 40, 40), (61, 30), (40, 61, 20), (30,)]


def operands(bits, special_bits, degree, batch=(), key_limbs_more=0):
    """A chain, its special prime, a public key (any residues will do) and messages."""
    primes = chain(degree, (*bits, special_bits))
    moduli, special = primes[:-1], primes[-1]
    others = chain(degree, (45,) * key_limbs_more)
    key = random_residues(1, (*moduli, *others, special), degree, (1, 2))
    return moduli, special, key, random_residues(2, moduli, degree, (3,))


def small_integers(sampler, count, degree, *arguments):
    (modulus,) = chain(degree, (50,))
    rows = np.asarray(sampler(SEED, count, (modulus,), degree, *arguments))[:, 0]
    return [[centred(int(x), modulus) for x in row] for row in rows]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("lowering", native.LOWERINGS)
@pytest.mark.parametrize("special_bits", [50, 61, 20])
@pytest.mark.parametrize("bits", SIZES)
def test_encryption_is_its_definition(bits, special_bits, lowering):
    """round((v key + e) / p) + message, in Python integers modulo Q p."""
    degree = 16
    moduli, special, key, message = operands(bits, special_bits, degree)
    basis = (*moduli, special)
    product = math.prod(basis)
    v = small_integers(sample_ternary, 3, degree)
    e = small_integers(sample_gaussian, 6, degree, 3.19)
    keys = [compose(row, basis) for row in np.asarray(inverse_ntt(key[0], basis))]
    expected = []
    for i in range(3):
        parts = []
        for c in range(2):
            masked = negacyclic_product(v[i], keys[c], product)
            sums = [centred(x + y, product) for x, y in zip(masked, e[2 * i + c], strict=True)]
            # By the centred remainder, as a division with rounding to nearest does: p is odd.
            parts.append([(x - centred(x, special)) // special for x in sums])
        expected.append([spread(part, moduli) for part in parts])
    expected = np.array(expected)
    expected[:, 0] = (expected[:, 0] + np.asarray(inverse_ntt(message, moduli))) % np.array(moduli, np.uint64)[:, None]
    with fhe.lowering(lowering):
        got = encrypt_public(SEED, key, message, moduli, special, 3.19)
    np.testing.assert_array_equal(inverse_ntt(got, moduli), expected)


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(
    log_degree=st.integers(3, 9),
    bits=st.lists(st.sampled_from([20, 30, 40, 49, 50, 51, 55, 60, 61]), min_size=1, max_size=6),
    special_bits=st.sampled_from([20, 40, 50, 55, 61]),
    more=st.sampled_from([0, 2]),
)
def test_the_composition_agrees(log_degree, bits, special_bits, more):
    degree = 1 << log_degree
    moduli, special, key, message = operands(tuple(bits), special_bits, degree, key_limbs_more=more)
    results = []
    for lowering in ("native", "composed"):
        with fhe.lowering(lowering):
            data = encrypt_public(SEED, key, message, moduli, special, 3.19)
            results.append((data, decrypt_coefficients(data, key[:, 0], moduli), decode_coefficients(message, moduli)))
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("lowering", native.LOWERINGS)
@pytest.mark.parametrize("components", [1, 2, 3])
def test_decryption_is_horner_s_rule(components, lowering):
    degree, moduli = 16, chain(16, (50, 61, 40))
    product = math.prod(moduli)
    data = random_residues(3, moduli, degree, (2, components))
    secret = random_residues(4, (*moduli, *chain(16, (45,))), degree, (2,))
    with fhe.lowering(lowering):
        got = np.asarray(decrypt_coefficients(data, secret, moduli))
    rows, s = np.asarray(inverse_ntt(data, moduli)), np.asarray(inverse_ntt(secret[:, :3], moduli))
    for entry in range(2):
        power, total = [1] + [0] * (degree - 1), [0] * degree
        for row in rows[entry]:
            term = negacyclic_product(compose(row, moduli), power, product)
            total = [a + b for a, b in zip(total, term, strict=True)]
            power = negacyclic_product(power, compose(s[entry], moduli), product)
        for value, exact in zip(got[entry], total, strict=True):
            exact = centred(exact, product)
            assert abs(Fraction(float(value)) - exact) <= 5 * Fraction(2.0**-53) * abs(exact)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("degree", [8, 32, 2**10, 2**13, 2**15, 2**17])
def test_fused_operations_are_their_parts(degree):
    """Rings of every size, with primes on both sides of 2^50, against compositions of smaller kernels."""
    moduli, special, key, message = operands((61, 40, 50, 36), 55, degree)
    coefficients = on_device(np.random.default_rng(degree).uniform(-1, 1, degree) * 2.0**30)
    encoded = encode_coefficients(coefficients, 2.0**40, moduli)
    np.testing.assert_array_equal(encoded, ntt(round_to_residues(coefficients, 2.0**40, moduli), moduli))
    np.testing.assert_array_equal(
        decode_coefficients(message, moduli), residues_to_float(inverse_ntt(message, moduli), moduli)
    )
    data = encrypt_public(SEED, key, message, moduli, special, 3.19)
    with fhe.lowering("composed"):
        np.testing.assert_array_equal(data, encrypt_public(SEED, key, message, moduli, special, 3.19))
        expected = decrypt_coefficients(data, key[:, 0], moduli)
    np.testing.assert_array_equal(decrypt_coefficients(data, key[:, 0], moduli), expected)


@pytest.mark.parametrize("scale", [2.0**40, 1.1 * 2.0**100, 2.0**-20, 2.0**1000])
def test_encoding_any_size(scale):
    moduli = chain(16, (61, 40, 50))
    a = on_device(np.array([2.0**k * sign for k in (-300, -40, 0, 20, 70, 104, 200, 900) for sign in (1, -1.5)]))
    expected = ntt(round_to_residues(a, scale, moduli), moduli)
    np.testing.assert_array_equal(encode_coefficients(a, scale, moduli), expected)


def test_vmap_is_a_leading_axis():
    moduli, special, key, message = operands((50, 40), 50, 16)
    seeds = fhe.split_seed(SEED, 2)
    encrypt = lambda seed, key, message: encrypt_public(seed, key, message, moduli, special, 3.19)
    messages, keys = np.stack([message, message[::-1]]), np.stack([key, np.asarray(key) // 2])
    messages, keys = on_device(messages), on_device(keys)
    expected = [encrypt(seed, key, m) for seed, m in zip(seeds, messages, strict=True)]
    np.testing.assert_array_equal(jax.jit(jax.vmap(encrypt, in_axes=(0, None, 0)))(seeds, key, messages), expected)
    expected = [encrypt(seed, k, message) for seed, k in zip(seeds, keys, strict=True)]
    np.testing.assert_array_equal(jax.vmap(encrypt, in_axes=(0, 0, None))(seeds, keys, message), expected)
    secret = random_residues(5, moduli, 16)
    data = encrypt(SEED, key, message)
    mapped = jax.vmap(lambda d: decrypt_coefficients(d, secret, moduli))(data)
    np.testing.assert_array_equal(mapped, decrypt_coefficients(data, secret, moduli))


def test_one_key_serves_many_messages_without_copies():
    params = fhe.Parameters.for_depth(1, log_degree=4, security=None)
    public = fhe.public_key(SEED, fhe.secret_key(SEED + np.uint32(1), params))
    program = str(jax.make_jaxpr(fhe.encrypt)(SEED, public, fhe.encode(np.ones((3, 8)), params)))
    *_, limbs, degree = public.data.shape
    assert f"[2,{limbs},{degree}]" in program and f"[3,2,{limbs},{degree}]" not in program


def test_no_messages():
    moduli, special, key, message = operands((50, 40), 50, 16)
    for lowering in lowerings():
        with fhe.lowering(lowering):
            assert encrypt_public(SEED, key, message[:0], moduli, special, 3.19).shape == (0, 2, 2, 16)


def test_every_instruction_set_has_the_same_bits():
    """Encoding, encryption, both ways of sampling a key, decryption and decoding."""

    def parts():
        for bits, log_degree in ((40, 4), (55, 10), (36, 12)):
            params = fhe.Parameters.for_depth(3, bits, log_degree=log_degree, security=None)
            seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 4)
            sk = fhe.secret_key(seeds[0], params)
            plain = fhe.encode(np.linspace(-1, 1, params.slots) * 1e3, params)
            yield fhe.decode(plain, dtype="float64")
            for key in (sk, fhe.public_key(seeds[1], sk)):
                x = fhe.encrypt(seeds[2], key, plain)
                yield from (x.data, fhe.decrypt(sk, x, dtype="float64"))

    extension = native.cpu_extension()
    default, results = extension.instruction_set(), []
    for name in extension.instruction_sets():
        extension.choose_instruction_set(name)
        try:
            results.append([np.asarray(part) for part in parts()])
        finally:
            extension.choose_instruction_set(default)
    for result in results:
        jax.tree.map(np.testing.assert_array_equal, result, results[0])


@pytest.mark.parametrize(
    "change, error, says",
    [
        (lambda s, k, m: (s, k[..., :2, :], m), ValueError, "encrypt_public: key uint64"),
        (lambda s, k, m: (s, k[:, :1], m), ValueError, "encrypt_public: key uint64"),
        (lambda s, k, m: (s, k, m[:, :1]), ValueError, "2 moduli"),
        (lambda s, k, m: (s, on_device(np.concatenate([k, k])), m), ValueError, "encrypt_public: key uint64"),
        (lambda s, k, m: (s[:7], k, m), ValueError, "a seed is uint32"),
    ],
)
def test_refuses(change, error, says, unchecked):
    moduli, special, key, message = operands((50, 40), 50, 16)
    with pytest.raises(error, match=says):
        encrypt_public(*change(SEED, key, message), moduli, special, 3.19)
