"""Seeds: 256 random bits from which ChaCha20 draws everything secret.

A seed is used once. Whoever needs several splits one; the streams are defined in `fhejax.primitives.sampling`.
`jax.random` is never used for secrets: its keys hold 64 bits, and often only 32 of them are random.
"""

import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32

from fhejax import _compat
from fhejax.errors import static_integer
from fhejax.primitives.sampling import chacha20, fresh_for

Seed = UInt32[Array | np.ndarray, "8"]

_SPLIT = 1

# What a seed is taken for, the third word of the nonce; 0 is split_seed. Each use has streams of its own, so that a
# seed given to two of them by mistake does not make an encryption of a secret and its mask cancel.
_USES = {"secret_key": 1, "public_key": 2, "evaluation_keys": 3, "encrypt": 4, "bootstrapping_keys": 5}


def new_seed() -> UInt32[Array, "8"]:
    """A fresh seed from the operating system's generator.

    Returns:
      `uint32[8]`.

    Raises:
      ValueError: called inside a function that is being traced, where it would be the same at every call.

    Example:
      >>> import fhejax as fhe
      >>> fhe.new_seed().shape
      (8,)
    """
    if _compat.is_traced(jnp.zeros(())):
        raise ValueError(
            "new_seed: called while JAX traces a function, so the compiled program would use one and the same seed at "
            "every call; make the seed outside and pass it as an argument"
        )
    return jnp.asarray(np.frombuffer(os.urandom(32), np.uint32))


def split_seed(seed: Seed, n: int) -> UInt32[Array, "n 8"]:
    """Seeds that tell nothing about each other, nor about the one they come from.

    Args:
      seed: `uint32[8]`, used for nothing else.
      n: how many.

    Returns:
      `uint32[n, 8]`: unpack it, index it, or map over it. Seed `i` does not depend on `n`.

    Raises:
      TypeError: `seed` is not a seed, or `n` not an integer.
      ValueError: `seed` has another shape, or `n` is below 1.

    Example:
      >>> import fhejax as fhe
      >>> for_key, for_message = fhe.split_seed(fhe.new_seed(), 2)
    """
    words = check_seed("split_seed", seed)
    n = static_integer("split_seed", "n", n)
    if n < 1:
        raise ValueError(f"split_seed: n = {n}; need at least 1")
    return numbered_seeds(words, range(n))


def numbered_seeds(seed: Any, numbers: Sequence[int]) -> jax.Array:
    """The seeds of `split_seed` that have these numbers, `uint32[len(numbers), 8]`."""
    place = np.zeros((len(numbers), 4), np.uint32)
    place[:, 1], place[:, 2] = _SPLIT, numbers
    return chacha20(seed, _compat.as_array(place))[:, :8]


def seed_for(use: str, seed: Any, *values: Any) -> jax.Array:
    """The seed that a function draws from, told apart from that of every other function given the same seed.

    Args:
      use: the function's name.
      seed: `uint32[8]`.
      *values: everything that the randomness will be combined with.

    Raises:
      TypeError, ValueError: `seed` is not a seed.
      ValueError: under `vmap`, one seed for many values.
    """
    words = fresh_for(check_seed(use, seed), *values)
    place = np.array([[0, _SPLIT, 0, _USES[use]]], np.uint32)
    return chacha20(words, _compat.as_array(place))[0, :8]


def check_seed(operation: str, seed: object) -> jax.Array:
    """Refuses anything but a seed; returns it as a JAX array.

    Raises:
      TypeError: not a `uint32` array.
      ValueError: another shape.
    """
    said = f"{operation}: a seed is uint32[8] from fhejax.new_seed() or split_seed"
    if not isinstance(seed, (jax.Array, np.ndarray)):
        raise TypeError(f"{said}, not {type(seed).__name__}{f' {seed}' if isinstance(seed, int) else ''}")
    if jnp.issubdtype(seed.dtype, jax.dtypes.prng_key) or (seed.dtype == np.uint32 and seed.shape == (2,)):
        raise TypeError(f"{said}, not a jax.random key: that holds at most 64 random bits")
    if seed.dtype != np.uint32:
        raise TypeError(f"{said}; got {seed.dtype}{list(seed.shape)}")
    if seed.shape != (8,):
        raise ValueError(f"{said}; got uint32{list(seed.shape)}; of several seeds take one, or use vmap")
    return jnp.asarray(seed)
