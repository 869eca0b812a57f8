"""Key generation: secret, public and evaluation keys, each from a seed of its own.

Secrets are uniform ternary; errors are discrete Gaussian with deviation 3.19: what the security table assumes.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.errors import static_integer
from fhejax.parameters.parameters import Parameters
from fhejax.primitives.automorphism import automorphism_source
from fhejax.primitives.key_generation import switching_key
from fhejax.primitives.key_switch import SeededKey
from fhejax.primitives.modular import multiply, multiply_add, negate
from fhejax.primitives.ntt import ntt
from fhejax.primitives.sampling import sample_gaussian, sample_ternary, sample_uniform
from fhejax.report.progress import meter
from fhejax.scheme.random import Seed, numbered_seeds, seed_for, split_seed
from fhejax.scheme.values import EvaluationKeys, PublicKey, SecretKey, SwitchingKey

RELINEARIZATION = 0  # where keys are numbered by their galois elements, which are odd


def secret_key(seed: Seed, params: Parameters) -> SecretKey:
    """Makes a secret key: uniform ternary coefficients.

    Args:
      seed: `uint32[8]` of its own, from `new_seed` or `split_seed`.
      params: the parameter set.

    Raises:
      TypeError: `seed` is not a seed, or `params` not parameters.

    Example:
      >>> import fhejax as fhe
      >>> params = fhe.Parameters.for_depth(1)
      >>> fhe.secret_key(fhe.new_seed(), params)  # doctest: +ELLIPSIS
      SecretKey(Parameters(N=2^13, ...), data hidden)
    """
    if not isinstance(params, Parameters):
        raise TypeError(
            f"secret_key: got {type(params).__name__} for the parameters; type secret_key(seed, params) with "
            "params = fhejax.Parameters.for_depth(...)"
        )
    return SecretKey(_secret(seed_for("secret_key", seed), params), params)


def public_key(seed: Seed, secret: SecretKey) -> PublicKey:
    """Makes the key with which anyone can encrypt for the owner of `secret`.

    Args:
      seed: `uint32[8]` of its own.
      secret: the secret key.

    Raises:
      TypeError: `seed` is not a seed, or `secret` not a secret key.
      ValueError: `secret` is a batch.
    """
    check_one("public_key", secret)
    return PublicKey(_public(seed_for("public_key", seed, secret), secret.data, secret.params), secret.params)


def evaluation_keys(
    seed: Seed,
    secret: SecretKey,
    rotations: Iterable[int] = (),
    conjugation: bool = False,
    level: int | None = None,
    *,
    seeded: bool = False,
) -> EvaluationKeys:
    """Makes the keys for computing on ciphertexts: relinearisation always, rotations and conjugation as asked.

    A seed and a secret determine each key, whichever others are made; a key for a lower level is a part of it.

    Args:
      seed: `uint32[8]` of its own.
      secret: the secret key.
      rotations: steps, any integers; taken modulo N/2. A step of 0 needs no key.
      conjugation: whether to make the key for `conjugate`.
      level: the highest level at which the keys will be used; that of fresh ciphertexts if None. Lower levels make
        smaller keys.
      seeded: whether to leave out the random half of every key and draw it again from a seed at each use. That halves
        the keys, in memory and in files, and makes key switches slower; results are the same, bit for bit.

    Raises:
      TypeError: `seed` is not a seed, `secret` not a secret key, or a rotation or the level not an integer.
      ValueError: `level` is out of range, or `secret` is a batch.

    Source: Han & Ki, "Better Bootstrapping for Approximate Homomorphic Encryption", 2020, section 3.
    """
    check_one("evaluation_keys", secret)
    params = secret.params
    level = params.fresh_level if level is None else static_integer("evaluation_keys", "level", level)
    if not 0 <= level <= params.max_level:
        raise ValueError(f"evaluation_keys: level = {level}; there are levels 0 to {params.max_level}")
    elements = {galois_element(params, step) for step in _integers(rotations)} - {1}
    if conjugation:
        elements.add(2 * params.degree - 1)
    return switching_keys(seed, secret, level, dict.fromkeys(elements, level), seeded)


def switching_keys(
    seed: Seed,
    secret: SecretKey,
    relinearization: int | None,
    galois: Mapping[int, int],
    seeded: bool,
    progress: bool = False,
    full: Collection[int] = (),
) -> EvaluationKeys:
    """Makes keys, each up to a level of its own.

    Args:
      seed: `uint32[8]`.
      secret: a single secret key.
      relinearization: the highest level of products; None for no key.
      galois: by galois element, the highest level of the automorphism.
      seeded: as for `evaluation_keys`.
      progress: whether to show a progress meter, which needs tqdm.
      full: elements whose keys are not seeded, whatever the others are; `RELINEARIZATION` for that of products.
    """
    params = secret.params
    levels = ({} if relinearization is None else {RELINEARIZATION: relinearization}) | dict(sorted(galois.items()))
    root, made = seed_for("evaluation_keys", seed, secret), {}
    with meter("evaluation_keys", progress, len(levels), "evaluation keys", "key") as watcher:
        for element, level in levels.items():
            # One seed and another choice of keys may not draw one mask for two keys: a key's seed is its element's.
            (child,) = numbered_seeds(root, [element])
            key = _made(child, secret.data, element, params, level, seeded and element not in full)
            made[element] = _as_value(key, params, level)
            if watcher is not None:
                jax.block_until_ready(made[element])
                watcher.update(1)
    return EvaluationKeys(made.pop(RELINEARIZATION, None), made, params)


def restricted(secret: SecretKey, params: Parameters) -> SecretKey:
    """The same secret for parameters whose primes are among its own."""
    primes = secret.params.moduli + secret.params.special_moduli
    rows = [primes.index(q) for q in params.moduli + params.special_moduli]
    return SecretKey(_taken(secret.data, tuple(rows)), params)


@_compat.jit(1)
def _taken(data, rows):
    return data[..., np.array(rows), :]


def galois_element(params: Parameters, step: int) -> int:
    """The galois element of a rotation: 5^step mod 2N."""
    return pow(5, step % (params.degree // 2), 2 * params.degree)


def check_secret(operation: str, secret: object) -> SecretKey:
    """The secret key, or a refusal of anything else where one is meant.

    Raises:
      TypeError: it is something else.
    """
    if not isinstance(secret, SecretKey):
        raise TypeError(
            f"{operation}: got {type(secret).__name__} for the secret key; type fhejax.secret_key(seed, params)"
        )
    return secret


def check_one(operation: str, secret: SecretKey) -> None:
    """Refuses a batch: each secret needs randomness of its own.

    Raises:
      TypeError: it is no secret key.
      ValueError: it is a batch.
    """
    check_secret(operation, secret)
    batch = secret.data.shape[:-2]
    if batch:
        name = f"fhejax.{operation}" if operation.isidentifier() else operation
        raise ValueError(
            f"{operation}: got a batch of secret keys, shape {batch}; each needs a seed of its own: "
            f"type jax.vmap({name})(fhejax.split_seed(seed, {batch[0]}), secrets)"
        )


def _integers(rotations: Iterable[int]) -> list[int]:
    if not isinstance(rotations, Iterable):
        raise TypeError(f"evaluation_keys: rotations = {rotations!r}; type rotations=({rotations!r},)")
    steps = list(rotations)
    for step in steps:
        if isinstance(step, bool) or not isinstance(step, (int, np.integer)):
            raise TypeError(f"evaluation_keys: rotation step {step!r} is not an integer")
    return [int(step) for step in steps]


@_compat.jit(1)
def _secret(seed, params):
    moduli = params.moduli + params.special_moduli
    return ntt(sample_ternary(seed, 1, moduli, params.degree)[..., 0, :, :], moduli)


@_compat.jit(2)
def _public(seed, secret, params):
    """(-a s + e, a) modulo q_0..q_L and p_0."""
    limbs = len(params.moduli) + 1
    moduli = params.moduli + params.special_moduli[:1]
    a = sample_uniform(seed, 1, moduli, params.degree)[..., 0, :, :]
    e = ntt(sample_gaussian(seed, 1, moduli, params.degree, params.error_deviation)[..., 0, :, :], moduli)
    b = multiply_add(negate(a, moduli), secret[..., :limbs, :], e, moduli)
    return jnp.stack([b, a], axis=-3)


def _as_value(key: Any, params: Parameters, level: int) -> SwitchingKey:
    if isinstance(key, SeededKey):
        return SwitchingKey(key.first, params, level, key.mask_seed)
    return SwitchingKey(key, params, level)


def _made(seed, secret, element, params, level, seeded):
    """From s^2 to s, or from s to phi^-1(s): the automorphism itself comes after the key switch."""
    if element == RELINEARIZATION:
        square = _square(secret, params.moduli + params.special_moduli)
        return _switching_key(seed, square, secret, params, level, seeded)
    target = _permuted(secret, automorphism_source(params.degree, pow(element, -1, 2 * params.degree)))
    return _switching_key(seed, secret, target, params, level, seeded)


@_compat.jit(1)
def _square(secret, moduli):
    return multiply(secret, secret, moduli)


# An automorphism by its permutation: one program for all rotations, where the primitive's element makes one for each.
@_compat.jit()
def _permuted(secret, source):
    return jnp.take(secret, source, axis=-1, mode="clip")


# One program for all keys of a level.
@_compat.jit(3, 4, 5)
def _switching_key(seed, source, target, params, level, seeded):
    # The masks' seed is published in seeded keys: it is a child of the key's seed, and tells nothing about the errors'.
    mask_seed, error_seed = split_seed(seed, 2)
    moduli, size = params.moduli_at(level), params.digit_size
    return switching_key(
        mask_seed, error_seed, source, target, moduli, params.special_moduli, size, params.error_deviation, seeded
    )
