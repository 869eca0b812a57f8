"""Sums of products of ciphertexts, of ciphertexts times numbers, and of a constant: one pass over all operands.

Memory bounds such sums, so each operand is read once, and of those at a higher level only the limbs that are needed.
"""

import functools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt64

from fhejax import _compat
from fhejax.primitives.define import align_batch, batch_shape, check_residues, define_primitive
from fhejax.primitives.modular import add, multiply_scalar
from fhejax.primitives.multiply_ciphertexts import tensor

# Each with limbs of its own number.
Pair = UInt64[Array, "... 2 _ N"]
Ciphertext = UInt64[Array, "... components _ N"]


def combination(
    xs: Sequence[Pair],
    ys: Sequence[Pair],
    terms: Sequence[Ciphertext],
    weights: UInt64[Array, "... numbers limbs"],
    moduli: tuple[int, ...],
) -> UInt64[Array, "... components_out limbs N"]:
    """The sum of `tensor(x_i, y_i)` and weights[i] terms[i], and a constant.

    Args:
      xs, ys: as many of each, `uint64[*batch, 2, limbs, N]` in NTT form; limbs beyond `len(moduli)` are not read.
      terms: the same, with two components, or all with three.
      weights: a number for each term, `uint64[*batch, terms, len(moduli)]`, reduced; one more is a constant.
      moduli: q_0..q_l.

    Returns:
      `uint64[*batch, components, len(moduli), N]`: three components if there are products, or as many as a term has.

    Raises:
      TypeError: an operand is not `uint64`.
      ValueError: shapes do not fit, or there is no operand but a constant.
    """
    if len(xs) != len(ys):
        raise ValueError(f"combination: got {len(xs)} x and {len(ys)} y; need as many of each")
    operands = align_batch(*((each, 3) for each in (*xs, *ys, *terms)), (weights, 2))
    return _combination(*operands, products=len(xs), moduli=moduli)


def _compose(*operands, products, moduli):
    *data, weights = operands
    limbs, number = len(moduli), lambda i: weights[..., i, :]
    data = [each[..., :limbs, :] for each in data]
    xs, ys, terms = data[:products], data[products : 2 * products], data[2 * products :]
    parts = [tensor(x, y, moduli) for x, y in zip(xs, ys, strict=True)]
    parts += [multiply_scalar(term, number(i)[..., None, :], moduli) for i, term in enumerate(terms)]
    if weights.shape[-2] > len(terms):
        # A constant polynomial has one value everywhere.
        constant = number(-1)[..., None, :, None]
        parts.append(jnp.broadcast_to(constant, (*constant.shape[:-1], data[0].shape[-1])))
    components = max(part.shape[-3] for part in parts)
    total = functools.reduce(lambda x, y: add(x, y, moduli), (_padded(part, components) for part in parts))
    batch = batch_shape("combination", *((each, 3) for each in data), (weights, 2))
    return jnp.broadcast_to(total, (*batch, *total.shape[-3:]))


def _padded(x, components):
    return jnp.pad(x, [(0, 0)] * (x.ndim - 3) + [(0, components - x.shape[-3]), (0, 0), (0, 0)])


def _abstract(*operands, products, moduli):
    name, (*data, weights) = "combination", operands
    terms = data[2 * products :]
    if not data:
        raise ValueError(f"{name}: there are neither products nor terms")
    if weights.dtype != np.uint64:
        raise TypeError(f"{name}: weights are uint64, got {weights.dtype}")
    if weights.shape[-1] != len(moduli) or weights.shape[-2] - len(terms) not in (0, 1):
        raise ValueError(
            f"{name}: weights of shape {weights.shape}; need {len(moduli)} numbers for each of {len(terms)} "
            "terms, and as many or none for a constant"
        )
    components = 3 if products else terms[0].shape[-3]
    for i, each in enumerate(data):
        check_residues(name, each, moduli, "*batch, components, limbs, N", or_more=True)
        have, _, degree = each.shape[-3:]
        expected = 2 if i < 2 * products else terms[0].shape[-3]
        if have != expected or not 2 <= have <= components or degree != data[0].shape[-1]:
            raise ValueError(
                f"{name}: an operand of shape {each.shape}; need {expected} components of degree {data[0].shape[-1]}"
            )
    batch = batch_shape(name, *((each, 3) for each in data), (weights, 2))
    return _compat.like(operands, (*batch, components, len(moduli), data[0].shape[-1]), np.uint64, len(batch))


_combination = define_primitive(
    "combination",
    abstract=_abstract,
    composition=_compose,
)
