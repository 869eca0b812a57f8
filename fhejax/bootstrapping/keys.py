"""The keys of bootstrapping: rotations, conjugation, products; and to a sparse secret and back.

The secret of all other keys is dense. Raising the modulus adds multiples of q_0 whose size grows with the secret's
weight, so just before it a ciphertext is switched to an ephemeral secret of weight h, and just after it back. Of the
sparse secret nothing is ever public but that one key modulo q_0 p_0, a modulus so small that its weight does no harm.

Source: Bossuat, Troncoso-Pastoriza & Hubaux, "Bootstrapping for Approximate Homomorphic Encryption with Negligible
Failure-Probability by Using Sparse-Secret Encapsulation", 2022, section 3.
"""

import jax
import jax.numpy as jnp

from fhejax import _compat
from fhejax.primitives.key_generation import switching_key
from fhejax.primitives.ntt import ntt
from fhejax.primitives.sampling import sample_uniform
from fhejax.random import split_seed


@_compat.jit(2, 3)
def encapsulation_keys(seed, secret, params, weight):
    """The key from the secret to a sparse one modulo q_0 p_0, and the one back at the top level, seeded.

    Args:
      seed: `uint32[8]`.
      secret: `uint64[limbs(QP), N]`, the dense secret.
      params: the parameter set.
      weight: the Hamming weight of the sparse secret.

    Returns:
      Two `SeededKey`s.
    """
    secret_seed, down_seed, up_seed = split_seed(seed, 3)
    moduli, special = params.moduli, params.special_moduli
    sparse = ntt(_sparse_ternary(secret_seed, weight, moduli + special, params.degree), moduli + special)
    rows = jnp.array([0, len(moduli)])
    size, deviation = params.digit_size, params.error_deviation
    (mask, error), (mask_up, error_up) = split_seed(down_seed, 2), split_seed(up_seed, 2)
    down = switching_key(mask, error, secret[rows], sparse[rows], moduli[:1], special[:1], 1, deviation, True)
    return down, switching_key(mask_up, error_up, sparse, secret, moduli, special, size, deviation, True)


def _sparse_ternary(seed, weight, moduli, degree):
    """Exactly `weight` coefficients 1 or -1: those places where a uniform stream is least, signs from another."""
    draws = sample_uniform(seed, 2, moduli[:1], degree)[:, 0]
    _, places = jax.lax.top_k(-draws[0].astype(jnp.int64), weight)
    negative = draws[1, places] % 2 == 1
    values = [jnp.where(negative, jnp.uint64(q - 1), jnp.uint64(1)) for q in moduli]
    return jnp.zeros((len(moduli), degree), jnp.uint64).at[:, places].set(jnp.stack(values))
