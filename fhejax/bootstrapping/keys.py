"""The keys of bootstrapping: rotations, conjugation, products; and to a sparse secret and back.

The secret of all other keys is dense. Raising the modulus adds multiples of q_0 whose size grows with the secret's
weight, so just before it a ciphertext is switched to an ephemeral secret of weight h, and just after it back. Of the
sparse secret nothing is ever public but that one key modulo q_0 p_0, a modulus so small that its weight does no harm.

Source: Bossuat, Troncoso-Pastoriza & Hubaux, "Bootstrapping for Approximate Homomorphic Encryption with Negligible
Failure-Probability by Using Sparse-Secret Encapsulation", 2022, section 3.
"""

import jax.numpy as jnp

from fhejax import _compat
from fhejax.primitives.key_generation import switching_key
from fhejax.primitives.ntt import ntt
from fhejax.primitives.sampling import sample_sparse_ternary
from fhejax.scheme.random import split_seed


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
    basis = moduli + special
    sparse = ntt(sample_sparse_ternary(secret_seed, 1, basis, params.degree, weight)[0], basis)
    rows = jnp.array([0, len(moduli)])
    size, deviation = params.digit_size, params.error_deviation
    (mask, error), (mask_up, error_up) = split_seed(down_seed, 2), split_seed(up_seed, 2)
    down = switching_key(mask, error, secret[rows], sparse[rows], moduli[:1], special[:1], 1, deviation, True)
    return down, switching_key(mask_up, error_up, sparse, secret, moduli, special, size, deviation, True)
