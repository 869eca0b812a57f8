"""TenSEAL (Microsoft SEAL) and fhejax decrypt each other's ciphertexts."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from seal_format import (
    from_seal_slots,
    read_ciphertext,
    read_message,
    read_parameters,
    read_secret_key,
    to_seal_slots,
    version_of,
    write_ciphertext,
    write_message,
)

import fhejax as fhe
from fhejax.primitives.ntt import inverse_ntt

tenseal = pytest.importorskip("tenseal")
seal = pytest.importorskip("tenseal.sealapi")
pytest.importorskip("zstandard", reason="TenSEAL's messages are compressed")

SLOTS, SCALE = 4096, 2.0**40

# A fresh error is mostly that of rounding c_1, times the secret: a coefficient has the deviation sqrt((1 + 2N/3)/12),
# the real part of a slot sqrt(N/2) times that over the scale, 2^-29.6. As a product of two polynomials a slot has the
# tails of a Laplace distribution: 2^-25, 24 deviations, is passed by one of 4096 slots with probability 2^-37.
FRESH = 2.0**-25


class Peer(NamedTuple):
    """TenSEAL's context with its secret key, and the same in fhejax."""

    context: Any
    parameters_blob: bytes
    secret_blob: bytes
    secret: fhe.SecretKey


@pytest.fixture(scope="module")
def peer():
    # 160 bits in all: within SEAL's limit for N = 8192 and within fhejax's.
    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, poly_modulus_degree=2 * SLOTS, coeff_mod_bit_sizes=[60, 40, 60])
    context.global_scale = SCALE
    saved = read_message(context.serialize(save_public_key=False, save_secret_key=True, save_galois_keys=False))
    secret_blob = read_message(saved[3])[1]
    degree, (*moduli, special) = read_parameters(saved[1])
    params = fhe.Parameters.from_moduli(degree.bit_length() - 1, moduli, [special], scale=SCALE)
    secret = fhe.SecretKey(to_device(read_secret_key(secret_blob, degree)), params=params)
    return Peer(context, saved[1], secret_blob, secret)


def to_device(residues):
    with jax.enable_x64(True):
        return jnp.asarray(residues)


def random_reals(seed):
    return np.random.default_rng(seed).uniform(-1, 1, SLOTS)


def from_tenseal(vector, params):
    """A TenSEAL vector of real values as a ciphertext of fhejax, which decrypts to them in its own order."""
    _, scale, data = read_ciphertext(read_message(vector.serialize())[2])
    return fhe.Ciphertext(to_device(data), params, level=data.shape[1] - 1, scale=scale, slots=SLOTS, real=True)


def to_tenseal(ciphertext, template, context):
    """A ciphertext of fhejax as a TenSEAL vector; `template`, of the same level, gives the name of that level."""
    message = read_message(template.serialize())
    message[2] = to_seal(ciphertext, message[2])
    message[3] = ciphertext.scale
    return tenseal.ckks_vector_from(context, write_message(message))


def to_seal(ciphertext, template_blob):
    template = read_ciphertext(template_blob)
    data = np.asarray(ciphertext.data)
    assert data.shape == template.data.shape
    return write_ciphertext(template._replace(scale=ciphertext.scale, data=data), version_of(template_blob))


def test_what_is_read_is_written_again(peer):
    vector = tenseal.ckks_vector(peer.context, random_reals(0))
    message = read_message(vector.serialize())
    first = read_ciphertext(message[2])
    message[2] = write_ciphertext(first, version_of(message[2]))
    again = read_ciphertext(message[2])
    assert (again.parms_id, again.scale) == (first.parms_id, first.scale)
    np.testing.assert_array_equal(again.data, first.data)
    assert read_message(write_message(message)) == message
    assert tenseal.ckks_vector_from(peer.context, write_message(message)).decrypt() == vector.decrypt()


def test_seal_slots_are_the_powers_of_three():
    slots, order = 8, 32
    ours = np.array([np.exp(2j * np.pi * pow(5, k, order) / order) for k in range(slots)])
    theirs = np.array([np.exp(2j * np.pi * pow(3, j, order) / order) for j in range(slots)])
    np.testing.assert_allclose(to_seal_slots(ours), theirs, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(from_seal_slots(to_seal_slots(ours)), ours)


def test_secret_key_of_tenseal_is_ternary(peer):
    """Roots and order are the same: other ones would leave no small coefficients, or others in each limb."""
    params = peer.secret.params
    moduli = params.moduli + params.special_moduli
    with jax.enable_x64(True):
        residues = np.asarray(inverse_ntt(peer.secret.data, moduli))
    small = [[int(x) - q * (x > q // 2) for x in limb.tolist()] for limb, q in zip(residues, moduli, strict=True)]
    assert set(small[0]) == {-1, 0, 1}
    assert small[1] == small[0] and small[2] == small[0]


def test_fhejax_decrypts_what_tenseal_encrypted(peer):
    values = random_reals(1)
    ciphertext = from_tenseal(tenseal.ckks_vector(peer.context, values), peer.secret.params)
    got = fhe.decrypt(peer.secret, ciphertext, dtype=np.float64)
    np.testing.assert_allclose(to_seal_slots(np.asarray(got)), values, rtol=0, atol=FRESH)


@pytest.mark.parametrize("public", [True, False])
def test_tenseal_decrypts_what_fhejax_encrypted(peer, public):
    values = random_reals(2)
    key = fhe.public_key(fhe.new_seed(), peer.secret) if public else peer.secret
    ciphertext = fhe.encrypt(fhe.new_seed(), key, from_seal_slots(values))
    template = tenseal.ckks_vector(peer.context, np.zeros(SLOTS))
    got = to_tenseal(ciphertext, template, peer.context).decrypt()
    np.testing.assert_allclose(got, values, rtol=0, atol=FRESH)


def test_tenseal_decrypts_what_fhejax_multiplied(peer):
    """Both factors by TenSEAL, the key and the product by fhejax."""
    x, y = random_reals(3), random_reals(4)
    vectors = [tenseal.ckks_vector(peer.context, values) for values in (x, y)]
    keys = fhe.evaluation_keys(fhe.new_seed(), peer.secret)
    product = fhe.multiply(*[from_tenseal(vector, peer.secret.params) for vector in vectors], keys)
    assert product.level == 0
    template = vectors[0] * 0.5  # rescaled, so of level 0 as well
    got = to_tenseal(product, template, peer.context).decrypt()
    # Each factor's error, that of the rescale's rounding, and a key switch that adds far less.
    np.testing.assert_allclose(got, x * y, rtol=0, atol=4 * FRESH)


def test_seal_decrypts_complex_slots(peer, tmp_path):
    """TenSEAL's vectors are real; the SEAL within it is not, and where 3^j = -5^k it holds the conjugate."""
    values = random_reals(5) + 1j * random_reals(6)
    ciphertext = fhe.encrypt(fhe.new_seed(), peer.secret, from_seal_slots(values))
    template = read_message(tenseal.ckks_vector(peer.context, np.zeros(SLOTS)).serialize())[2]
    got = decrypt_by_seal(peer, to_seal(ciphertext, template), tmp_path)
    np.testing.assert_allclose(got.real, values.real, rtol=0, atol=FRESH)
    np.testing.assert_allclose(got.imag, values.imag, rtol=0, atol=FRESH)


def decrypt_by_seal(peer, ciphertext_blob, folder):
    """The complex slots of a ciphertext."""
    parameters = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
    parameters.load(saved(folder / "parameters", peer.parameters_blob))
    context = seal.SEALContext(parameters, True, seal.SEC_LEVEL_TYPE.TC128)
    secret, ciphertext, plain = seal.SecretKey(), seal.Ciphertext(), seal.Plaintext()
    secret.load(context, saved(folder / "secret", peer.secret_blob))
    ciphertext.load(context, saved(folder / "ciphertext", ciphertext_blob))
    seal.Decryptor(context, secret).decrypt(ciphertext, plain)
    return np.array(seal.CKKSEncoder(context).decode_complex(plain))


def saved(path, blob):
    path.write_bytes(blob)
    return str(path)
