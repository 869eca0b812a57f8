"""Sums of ciphertexts times numbers: the product of a matrix of residues and one of rows.

Every output meets every input, so that inputs have to be read once for many outputs: the kernel takes blocks of all
inputs that the cache holds, and from each makes that block of all outputs, with products added up in two words and
reduced rarely.

Source: Bae, Cheon, Hanrot, Park & Stehle, "Plaintext-Ciphertext Matrix Multiplication and FHE Bootstrapping: Fast and
Fused", 2024, section 3: the product is one of integers, done by the methods for these.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt64

from fhejax import _compat
from fhejax.primitives.define import align_batch, batch_shape, check_residues, define_primitive
from fhejax.primitives.modular import add_mod, limb_constants, multiply_mod


def weighted_sums(
    x: UInt64[Array, "... terms components limbs N"],
    weights: UInt64[Array, "... sums limbs terms"],
    moduli: tuple[int, ...],
) -> UInt64[Array, "... sums components limbs N"]:
    """y_j = the sum over i of weights[j, :, i] x_i, in every limb.

    Args:
      x: `uint64[*batch, terms, components, limbs, N]`, reduced; at least one term.
      weights: `uint64[*batch, sums, limbs, terms]`, reduced; at least one sum.
      moduli: one prime a limb.

    Returns:
      `uint64[*batch, sums, components, limbs, N]`, reduced.

    Raises:
      TypeError: an operand is not `uint64`.
      ValueError: shapes do not fit.
    """
    return _weighted_sums(*align_batch((x, 4), (weights, 3)), moduli=moduli)


def _reference(x, weights, *, moduli):
    q, mu, shift = (jnp.asarray(constant) for constant in limb_constants(moduli))
    # Term by term: [terms, *batch, 1, components, limbs, N] and [terms, *batch, sums, 1, limbs, 1].
    rows = jnp.moveaxis(x, -4, 0)[..., None, :, :, :]
    numbers = jnp.moveaxis(weights, -1, 0)[..., None, :, None]

    def add_term(total, term):
        row, number = term
        return add_mod(total, multiply_mod(row, number, q, mu, shift), q), None

    shape = jnp.broadcast_shapes(rows.shape[1:], numbers.shape[1:])
    return jax.lax.scan(add_term, jnp.zeros(shape, jnp.uint64), (rows, numbers))[0]


def _abstract(x, weights, *, moduli):
    name = "weighted_sums"
    check_residues(name, x, moduli, "*batch, terms, components, limbs, N")
    check_residues(name, weights, moduli, "*batch, sums, limbs, terms")
    if x.shape[-4] != weights.shape[-1] or 0 in (*x.shape[-4:], *weights.shape[-3:]):
        raise ValueError(
            f"{name}: weights {weights.shape} do not fit terms {x.shape}: need (*batch, sums, limbs, terms)"
        )
    batch = batch_shape(name, (x, 4), (weights, 3))
    return _compat.like((x, weights), (*batch, weights.shape[-3], *x.shape[-3:]), np.uint64, len(batch))


_weighted_sums = define_primitive(
    "weighted_sums",
    abstract=_abstract,
    reference=_reference,
)
