"""The product of two ciphertexts as one operation: tensor, relinearisation and rescale.

With d0 = x0 y0, d1 = x0 y1 + x1 y0, d2 = x1 y1, the key switch of d2 is left times P, d0 and d1 are lifted by P to meet
it, and one division by P q_l ends both the key switch and the rescale: a single rounding, and about 2l transforms less.

Source: Kim, Polyakov & Zucca, "Revisiting Homomorphic Encryption Schemes for Finite Fields", 2021, section 4.
"""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt64

from fhejax import _compat
from fhejax.primitives.basis import mod_down
from fhejax.primitives.define import align_batch, batch_shape, check_residues, define_primitive
from fhejax.primitives.key_switch import Key, check_key, gadget_product, key_operands, keys_of
from fhejax.primitives.modular import add, multiply, multiply_add, multiply_scalar

Pair = UInt64[Array, "... 2 limbs N"]


def multiply_ciphertexts(
    x: UInt64[Array, "... 2 _ N"],
    y: UInt64[Array, "... 2 _ N"],
    key: Key,
    moduli: tuple[int, ...],
    special: tuple[int, ...],
    digit_size: int,
) -> UInt64[Array, "... 2 limbs_out N"]:
    """The relinearised and rescaled product of two ciphertexts.

    Args:
      x, y: `uint64[*batch, 2, limbs, N]` in NTT form; limbs beyond `len(moduli)` are not read.
      key: the relinearisation key, `uint64[*batch, digits, 2, limbs(QP), N]` or a `SeededKey`.
      moduli: q_0..q_l, with l at least 1.
      special: p_0..p_(k-1).
      digit_size: primes a digit.

    Returns:
      `uint64[*batch, 2, len(moduli) - 1, N]`.

    Raises:
      TypeError: an operand is not `uint64`.
      ValueError: shapes do not fit, or no modulus would be left.
    """
    operands = align_batch((x, 3), (y, 3), *key_operands("multiply_ciphertexts", key))
    return _multiply_ciphertexts(*operands, moduli=moduli, special=special, digit_size=digit_size)


def tensor(x: Pair, y: Pair, moduli: tuple[int, ...]) -> UInt64[Array, "... 3 limbs N"]:
    """(x0 y0, x0 y1 + x1 y0, x1 y1), value by value."""
    x0, x1, y0, y1 = x[..., 0, :, :], x[..., 1, :, :], y[..., 0, :, :], y[..., 1, :, :]
    middle = multiply_add(x0, y1, multiply(x1, y0, moduli), moduli)
    return jnp.stack([multiply(x0, y0, moduli), middle, multiply(x1, y1, moduli)], axis=-3)


def relinearize_rescale(
    d: UInt64[Array, "... 3 limbs N"], key: Key, moduli: tuple[int, ...], special: tuple[int, ...], digit_size: int
) -> UInt64[Array, "... 2 limbs_out N"]:
    """A sum of raw products brought back to two components and rescaled, with a single rounding.

    Arguments and errors as for `multiply_ciphertexts`, with `d` in place of the tensor product.
    """
    operands = align_batch((d, 3), *key_operands("relinearize_rescale", key))
    return _relinearize_rescale(*operands, moduli=moduli, special=special, digit_size=digit_size)


def _compose_ending(d, *key, moduli, special, digit_size):
    (key,) = keys_of(key)
    switched = gadget_product(d[..., 2, :, :], key, moduli, special, digit_size)
    lift = jnp.asarray(np.array([math.prod(special) % q for q in moduli], np.uint64))
    limbs = len(moduli)
    total = add(switched[..., :limbs, :], multiply_scalar(d[..., :2, :, :], lift, moduli), moduli)
    total = jnp.concatenate([total, switched[..., limbs:, :]], axis=-2)
    return mod_down(total, moduli[:-1], moduli[-1:] + special)


def _compose(x, y, *key, moduli, special, digit_size):
    (key,) = keys_of(key)
    x, y = (each[..., : len(moduli), :] for each in (x, y))
    return relinearize_rescale(tensor(x, y, moduli), key, moduli, special, digit_size)


def _abstract(x, y, *operands, moduli, special, digit_size):
    name = "multiply_ciphertexts"
    (key,) = keys_of(operands)
    for operand in (x, y):
        check_residues(name, operand, moduli, "*batch, 2, limbs, N", or_more=True)
        if operand.shape[-3] != 2 or operand.shape[-1] != x.shape[-1]:
            raise ValueError(f"{name}: operands of shapes {x.shape} and {y.shape}; need two components of one degree")
    one = _compat.like([x], (len(moduli), x.shape[-1]), np.uint64, 0)
    check_key(name, one, key, moduli, special, digit_size)
    if len(moduli) < 2:
        raise ValueError(f"{name}: one modulus is left, and a product takes one")
    batch = batch_shape(name, (x, 3), (y, 3), *key_operands(name, key))
    return _compat.like((x, y, *operands), (*batch, 2, len(moduli) - 1, x.shape[-1]), np.uint64, len(batch))


def _abstract_ending(d, *operands, moduli, special, digit_size):
    name = "relinearize_rescale"
    (key,) = keys_of(operands)
    check_residues(name, d, moduli, "*batch, 3, limbs, N")
    if d.shape[-3] != 3:
        raise ValueError(f"{name}: an operand of shape {d.shape}; need three components")
    check_key(name, d, key, moduli, special, digit_size)
    if len(moduli) < 2:
        raise ValueError(f"{name}: one modulus is left, and a product takes one")
    batch = batch_shape(name, (d, 3), *key_operands(name, key))
    return _compat.like((d, *operands), (*batch, 2, len(moduli) - 1, d.shape[-1]), np.uint64, len(batch))


_multiply_ciphertexts = define_primitive(
    "multiply_ciphertexts",
    abstract=_abstract,
    composition=_compose,
)
_relinearize_rescale = define_primitive(
    "relinearize_rescale",
    abstract=_abstract_ending,
    composition=_compose_ending,
)
