"""Switching keys from a secret to another, made limb by limb: errors and masks are drawn where they are used.

For each digit i: (-a_i target + e_i + P g_i source, a_i) modulo q_0..q_l and the special primes, where g_i is 1 modulo
the primes of the digit and 0 modulo all others.

Source: Han & Ki, "Better Bootstrapping for Approximate Homomorphic Encryption", 2020, section 3.
"""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt64

from fhejax import _compat
from fhejax.primitives.define import align_batch, batch_shape, check_residues, define_primitive
from fhejax.primitives.key_switch import KeyArray, SeededKey, key_masks
from fhejax.primitives.modular import add, multiply_add, multiply_scalar, negate
from fhejax.primitives.ntt import ntt
from fhejax.primitives.sampling import Seeds, check_words, refuse_deviation, sample_gaussian, threshold_words

Secret = UInt64[Array, "... _ N"]


def switching_key(
    mask_seed: Seeds,
    error_seed: Seeds,
    source: Secret,
    target: Secret,
    moduli: tuple[int, ...],
    special: tuple[int, ...],
    digit_size: int,
    deviation: float,
    seeded: bool,
) -> SeededKey | KeyArray:
    """A key that switches from one secret to another.

    Args:
      mask_seed: `uint32[*batch, 8]`, of the second halves; it is part of a seeded key, and public.
      error_seed: `uint32[*batch, 8]`, secret.
      source, target: `uint64[*batch, limbs, N]` in NTT form: q_0..q_l first, then perhaps others, last p_0..p_(k-1).
      moduli: q_0..q_l.
      special: p_0..p_(k-1).
      digit_size: primes a digit.
      deviation: of the errors, as for `sample_gaussian`.
      seeded: whether the second halves are left out.

    Raises:
      TypeError: an operand of another dtype.
      ValueError: shapes do not fit, or `deviation` is one that `sample_gaussian` refuses.
    """
    operands = align_batch((jnp.asarray(mask_seed), 1), (jnp.asarray(error_seed), 1), (source, 2), (target, 2))
    parameters = {"moduli": moduli, "special": special, "digit_size": digit_size, "deviation": float(deviation)}
    made = _switching_key(*operands, **parameters, seeded=seeded)
    if not seeded:
        return made
    return SeededKey(made, jnp.broadcast_to(mask_seed, (*made.shape[:-3], 8)))


def _compose(mask_seed, error_seed, source, target, *, moduli, special, digit_size, deviation, seeded):
    limbs, basis = len(moduli), moduli + special
    source, target = (
        jnp.concatenate([each[..., :limbs, :], each[..., each.shape[-2] - len(special) :, :]], axis=-2)
        for each in (source, target)
    )
    digits, degree = math.ceil(limbs / digit_size), source.shape[-1]
    a = key_masks(mask_seed, digits, moduli, special, degree)
    e = ntt(sample_gaussian(error_seed, digits, basis, degree, deviation), basis)
    b = multiply_add(a, negate(target, basis)[..., None, :, :], e, basis)
    b = jnp.broadcast_to(b, (*jnp.broadcast_shapes(b.shape[:-3], source.shape[:-2]), *b.shape[-3:]))
    product = math.prod(special)
    factors = jnp.asarray(np.array([product % q for q in moduli], np.uint64))
    message = multiply_scalar(source[..., :limbs, :], factors, moduli)
    for i in range(digits):
        own = slice(i * digit_size, min((i + 1) * digit_size, limbs))
        b = b.at[..., i, own, :].set(add(b[..., i, own, :], message[..., own, :], moduli[own]))
    return b if seeded else jnp.stack([b, jnp.broadcast_to(a, b.shape)], axis=-3)


def _abstract(mask_seed, error_seed, source, target, *, moduli, special, digit_size, deviation, seeded):
    name, basis = "switching_key", moduli + special
    refuse_deviation(name, basis, source.shape[-1], deviation)
    for seed in (mask_seed, error_seed):
        check_words(name, "a seed", seed, 8)
    for secret in (source, target):
        check_residues(name, secret, basis, or_more=True)
        if secret.shape[-1] != source.shape[-1]:
            raise ValueError(f"{name}: secrets of shapes {source.shape} and {target.shape}; need one degree")
    batch = batch_shape(name, (mask_seed, 1), (error_seed, 1), (source, 2), (target, 2))
    halves = () if seeded else (2,)
    shape = (*batch, math.ceil(len(moduli) / digit_size), *halves, len(basis), source.shape[-1])
    return _compat.like((mask_seed, error_seed, source, target), shape, np.uint64, len(batch))


_switching_key = define_primitive(
    "switching_key",
    abstract=_abstract,
    composition=_compose,
    derived=lambda *, deviation, **_: {"thresholds": threshold_words(deviation)},
)
