"""Encryption with a public key, and decryption to coefficients, each as one operation.

Encryption is modulo Q p, followed by a division by p: with v, e_0, e_1 small and (b, a) the key, component c is
(v key_c + e_c) / p, rounded. The kernel never holds a polynomial modulo Q p: with t_c the centred coefficients of
v key_c + e_c modulo p, the component is (v key_c + (e_c - t_c)) / p modulo each q, and e_c - t_c has coefficients of
one word. So a limb takes three transforms, and the prime p three.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64, UInt64

from fhejax import _compat
from fhejax.primitives.basis import mod_down
from fhejax.primitives.define import align_batch, batch_shape, check_residues, define_primitive
from fhejax.primitives.modular import add, multiply_add
from fhejax.primitives.ntt import ntt
from fhejax.primitives.rounding import decode_coefficients, places
from fhejax.primitives.sampling import Seeds, check_words, sample_gaussian, sample_ternary, threshold_words


def encrypt_public(
    seed: Seeds,
    key: UInt64[Array, "*#batch key_count 2 key_limbs N"],
    message: UInt64[Array, "*#batch message_count limbs N"],
    moduli: tuple[int, ...],
    special: int,
    deviation: float,
) -> UInt64[Array, "... count 2 limbs N"]:
    """Encryptions of polynomials, each with randomness of its own.

    Args:
      seed: `uint32[*batch, 8]`.
      key: the public key in NTT form, `uint64[*batch, count, 2, key limbs, N]`; its first limbs are those of `moduli`,
        and its last one is modulo `special`.
      message: `uint64[*batch, count, len(moduli), N]` in NTT form; either count may be 1, and serve all.
      moduli: q_0..q_l.
      special: the prime p that encryption divides by.
      deviation: of the errors.

    Returns:
      `uint64[*batch, count, 2, len(moduli), N]` in NTT form. Encryption i takes the ternary polynomial i and the
      Gaussian ones 2i and 2i + 1 of the seed.

    Raises:
      TypeError: an operand is not `uint64`.
      ValueError: shapes do not fit.
    """
    seed, key, message = align_batch((jnp.asarray(seed), 1), (key, 4), (message, 3))
    return _encrypt_public(seed, key, message, moduli=moduli, special=(special,), deviation=float(deviation))


def decrypt_coefficients(
    data: UInt64[Array, "... components limbs N"], secret: UInt64[Array, "... key_limbs N"], moduli: tuple[int, ...]
) -> Float64[Array, "... N"]:
    """The centred coefficients of c_0 + c_1 s + c_2 s^2 + .., as `residues_to_float` gives them.

    Args:
      data: a ciphertext, `uint64[*batch, components, len(moduli), N]` in NTT form.
      secret: s in NTT form, `uint64[*batch, key limbs, N]`; its first limbs are those of `moduli`.
      moduli: q_0..q_l.

    Returns:
      `float64[*batch, N]`.

    Raises:
      TypeError: an operand is not `uint64`.
      ValueError: shapes do not fit.
    """
    data, secret = align_batch((data, 3), (secret, 2))
    return _decrypt_coefficients(data, secret, moduli=moduli)


def _compose_encrypt(seed, key, message, *, moduli, special, deviation):
    basis, limbs, degree = moduli + special, len(moduli), message.shape[-1]
    (count,) = np.broadcast_shapes(key.shape[-4:-3], message.shape[-3:-2])
    key = jnp.concatenate([key[..., :limbs, :], key[..., -1:, :]], axis=-2)
    v = ntt(sample_ternary(seed, count, basis, degree), basis)[..., None, :, :]
    e = ntt(sample_gaussian(seed, 2 * count, basis, degree, deviation), basis)
    e = e.reshape(*e.shape[:-3], count, 2, len(basis), degree)
    masked = mod_down(multiply_add(v, key, e, basis), moduli, special)
    c0 = add(masked[..., 0, :, :], message, moduli)
    return jnp.stack([c0, jnp.broadcast_to(masked[..., 1, :, :], c0.shape)], axis=-3)


def _compose_decrypt(data, secret, *, moduli):
    s, message = secret[..., : len(moduli), :], data[..., -1, :, :]
    for i in range(data.shape[-3] - 2, -1, -1):
        message = multiply_add(message, s, data[..., i, :, :], moduli)
    batch = batch_shape("decrypt_coefficients", (data, 3), (secret, 2))  # of one component the secret's was not seen
    return jnp.broadcast_to(decode_coefficients(message, moduli), (*batch, data.shape[-1]))


def _abstract_encrypt(seed, key, message, *, moduli, special, deviation):
    name = "encrypt_public"
    check_words(name, "a seed", seed, 8)
    check_residues(name, message, moduli, "*batch, count, limbs, N")
    shape, counts = key.shape, {key.shape[-4], message.shape[-3]} - {1} if key.ndim > 3 else set()
    if key.dtype != np.uint64 or key.ndim < 4 or shape[-3] != 2 or shape[-2] <= len(moduli) or len(counts) > 1:
        raise ValueError(
            f"{name}: key {key.dtype}{list(shape)} for a message {list(message.shape)}; need uint64[*batch, count, 2, "
            f"limbs > {len(moduli)}, N]"
        )
    batch = batch_shape(name, (seed, 1), (key, 4), (message, 3))
    result = (*batch, counts.pop() if counts else 1, 2, len(moduli), message.shape[-1])
    return _compat.like([seed, key, message], result, np.uint64, len(batch))


def _abstract_decrypt(data, secret, *, moduli):
    name = "decrypt_coefficients"
    check_residues(name, data, moduli, "*batch, components, limbs, N")
    if secret.dtype != np.uint64 or secret.shape[-2] < len(moduli) or secret.shape[-1] != data.shape[-1]:
        raise ValueError(f"{name}: a secret {secret.dtype}{list(secret.shape)} for a ciphertext {list(data.shape)}")
    batch = batch_shape(name, (data, 3), (secret, 2))
    return _compat.like([data, secret], (*batch, data.shape[-1]), np.float64, len(batch))


_encrypt_public = define_primitive(
    "encrypt_public",
    abstract=_abstract_encrypt,
    composition=_compose_encrypt,
    derived=lambda *, deviation, **_: {"thresholds": threshold_words(deviation)},
)
_decrypt_coefficients = define_primitive(
    "decrypt_coefficients",
    abstract=_abstract_decrypt,
    composition=_compose_decrypt,
    derived=lambda *, moduli: {"places": places(moduli)},
)
