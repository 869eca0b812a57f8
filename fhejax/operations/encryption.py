"""Encryption and decryption.

fhejax is IND-CPA secure. It is not IND-CPA-D secure: a decrypted value carries the noise of its ciphertext, and
noise known to an adversary tells about the secret key (Li & Micciancio, 2021). Do not publish decryptions of
ciphertexts that an adversary chose or computed.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.kinds.base import Kind
from fhejax.kinds.ciphertext import Ciphertext
from fhejax.kinds.requirements import check_same_params
from fhejax.primitives.encryption import encrypt_public
from fhejax.primitives.modular import add, multiply_add, negate
from fhejax.primitives.ntt import ntt
from fhejax.primitives.sampling import sample_gaussian, sample_uniform
from fhejax.scheme.encoding import encode
from fhejax.scheme.keys import check_secret
from fhejax.scheme.random import Seed, seed_for
from fhejax.scheme.values import Plaintext, PublicKey, SecretKey


def encrypt(seed: Seed, key: PublicKey | SecretKey, values: Any) -> Ciphertext:
    """Encrypts slots.

    A whole batch takes one seed: each entry has randomness of its own. Under `vmap`, map the seed as well.

    Args:
      seed: `uint32[8]`, used for nothing else: the same seed twice gives away the difference of the messages.
      key: a public key, or the secret key; a batch of them broadcasts against that of the values.
      values: real or complex `[*batch, k]` with k at most `params.slots`, or a Plaintext.

    Returns:
      A ciphertext. Level out: the top (or the plaintext's). Scale out: `params.scale_at(level)` (or the plaintext's).
      Error added, as a coefficient's deviation: sqrt((1 + 2N/3)/12) with a public key, 3.19 with the secret key;
      1/sqrt(12) from rounding the encoding. Keys needed: none but `key`.

    Raises:
      TypeError: `seed` is not a seed, or `key` not a key that encrypts.
      ValueError: values that do not fit (see `encode`), or under `vmap` one seed for many messages.

    Source: Cheon, Kim, Kim & Song, "Homomorphic Encryption for Arithmetic of Approximate Numbers", 2017; encryption
    modulo Q p followed by a division by p, as in Lattigo.

    Example:
      >>> import fhejax as fhe
      >>> params = fhe.Parameters.for_depth(1)
      >>> sk = fhe.secret_key(fhe.new_seed(), params)
      >>> fhe.encrypt(fhe.new_seed(), fhe.public_key(fhe.new_seed(), sk), [1.0, 2.0])
      Ciphertext(level=1, scale=2^40.00, slots=4096 real, shape=(), N=2^13, 256.0 KiB)
    """
    if not isinstance(key, (PublicKey, SecretKey)):
        raise TypeError(f"encrypt: got {type(key).__name__} for the key; type encrypt(seed, public_key, values)")
    if not isinstance(values, Plaintext):
        values = encode(values, key.params)
    check_same_params("encrypt", key, values)
    with_key = _encrypt_public if isinstance(key, PublicKey) else _encrypt_secret
    data = with_key(seed_for("encrypt", seed, key, values), key.data, values.data, key.params, values.level)
    return Ciphertext(data, values.params, values.level, values.scale, values.slots, values.real)


def decrypt(secret: SecretKey | None, ciphertext: Kind, *, dtype: Any = None) -> jax.Array:
    """Decrypts slots.

    The result carries the ciphertext's noise, and with it a little about the secret key: see the head of this module
    before publishing it.

    Args:
      secret: the secret key; unused, and perhaps None, for a simulated ciphertext.
      ciphertext: of any level and scale, of two or three components.
      dtype: of the result; JAX's default floating (or complex) type if None, so float32 while jax_enable_x64 is off.

    Returns:
      `[*batch, slots]`, real where the ciphertext's values are known to be real, else complex.

    Raises:
      TypeError: `secret` is not a secret key, or `ciphertext` not a ciphertext.
      ParametersMismatchError: they belong to different parameter sets.
    """
    if not isinstance(ciphertext, Kind):
        check_secret("decrypt", secret)  # perhaps the two are exchanged
        raise TypeError(
            f"decrypt: got {type(ciphertext).__name__} for the ciphertext; type decrypt(secret_key, ciphertext)"
        )
    return ciphertext._decrypt(secret, dtype)


def _encryptions(messages: tuple[int, ...], keys: tuple[int, ...]) -> tuple[int, ...]:
    """The batch shape of a result. Each entry has randomness of its own: shared by two keys it would betray both."""
    try:
        return np.broadcast_shapes(messages, keys)
    except ValueError:
        raise ValueError(
            f"encrypt: a batch of messages {messages} and a batch of keys {keys} do not broadcast"
        ) from None


@_compat.jit(3, 4)
def _encrypt_public(seed, key, message, params, level):
    """(v b + e0, v a + e1) modulo q_0..q_l and p_0, divided by p_0, plus the message."""
    batch = _encryptions(message.shape[:-2], key.shape[:-3])
    key, message = _in_one_row(key, 3, batch), _in_one_row(message, 2, batch)
    moduli, special = params.moduli_at(level), params.special_moduli[0]
    data = encrypt_public(seed, key, message, moduli, special, params.error_deviation)
    return data.reshape(*batch, *data.shape[-3:])


def _in_one_row(x, own, batch):
    """All batch axes as one; a single entry stays single."""
    lead, rest = x.shape[: x.ndim - own], x.shape[x.ndim - own :]
    if math.prod(lead) != 1 and lead != batch:
        x = jnp.broadcast_to(x, (*batch, *rest))
    return x.reshape(math.prod(x.shape[: x.ndim - own]), *rest)


@_compat.jit(3, 4)
def _encrypt_secret(seed, secret, message, params, level):
    """(-a s + e + message, a)."""
    moduli, batch = params.moduli_at(level), _encryptions(message.shape[:-2], secret.shape[:-2])
    count, shape = math.prod(batch), (*batch, level + 1, params.degree)
    a = sample_uniform(seed, count, moduli, params.degree).reshape(shape)
    e = ntt(sample_gaussian(seed, count, moduli, params.degree, params.error_deviation), moduli).reshape(shape)
    masked = multiply_add(negate(a, moduli), secret[..., : level + 1, :], e, moduli)
    c0 = add(masked, message, moduli)
    return jnp.stack([c0, a], axis=-3)
