"""Sums of plaintexts times rotations of ciphertexts: what a linear transform on slots is made of.

With baby steps b and giant steps g, a transform is the sum over g of rotate(sum over b of p_gb rotate(x, b), g). By
double hoisting no rotation is brought back to q_0..q_l before it is needed there:

  1. ModUp of the ciphertexts, once; every rotation by b is an inner product with its key, and stays modulo QP, times P;
  2. the inner sums are taken modulo QP, where the plaintexts are encoded too;
  3. of each inner sum, the second component alone is divided by P (ModDown) and switched by the key of g, and what
     comes of it is gathered modulo QP;
  4. one division by P q_l, of both components, ends the transform and rescales it.

Plaintexts whose values repeat have residues that repeat: with values of period w / 2 in all slots, m(X) is a polynomial
in X^(N/w), and in the order of the NTT each of w residues stands for N/w positions in a row. Only the w are kept.

Source: Bossuat, Mouchet, Troncoso-Pastoriza & Hubaux, "Efficient Bootstrapping for Approximate Homomorphic Encryption
with Non-Sparse Keys", 2021, section 4, algorithm 6; baby and giant steps: Halevi & Shoup, "Faster Homomorphic Linear
Transformations in HElib", 2018.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt64

from fhejax import _compat
from fhejax.primitives.automorphism import automorphism
from fhejax.primitives.basis import mod_down
from fhejax.primitives.define import align_batch, batch_shape, check_residues, define_primitive
from fhejax.primitives.key_switch import (
    Key,
    Pair,
    check_key,
    gadget_product,
    inner_product,
    key_operands,
    keys_of,
    mod_up,
    trim_key,
)
from fhejax.primitives.modular import add, multiply, multiply_add, multiply_scalar

IDENTITY = 1  # the galois element of no rotation


class Basis(NamedTuple):
    """The primes q_0..q_l and p_0..p_(k-1), and how many of the former make a digit."""

    moduli: tuple[int, ...]
    special: tuple[int, ...]
    digit_size: int

    @property
    def extended(self) -> tuple[int, ...]:
        """q_0..q_l, p_0..p_(k-1)."""
        return self.moduli + self.special


Ciphertexts = Sequence[UInt64[Array, "... 2 limbs N"]]
Plains = UInt64[Array, "... terms extended_limbs width"]


def hoisted_sums(
    ciphertexts: Ciphertexts,
    plains: Plains,
    keys: Mapping[int, Key],
    babies: tuple[tuple[int, int], ...],
    sums: tuple[tuple[int, ...], ...],
    basis: Basis,
) -> list[Pair]:
    """Sums of plaintexts times rotations, modulo QP and times P: steps 1 and 2 of double hoisting.

    Args:
      ciphertexts: arrays `uint64[*batch, 2, len(moduli), N]` in NTT form.
      plains: `uint64[*batch, terms, limbs(QP), width]`: one for each term of the sums, in their order.
      keys: by galois element, of this level or a higher one.
      babies: which ciphertext and which galois element.
      sums: for each, which of `babies` its terms multiply; each at least one.
      basis: the primes.

    Returns:
      For each of `sums` an array `uint64[*batch, 2, len(moduli) + len(special), N]`.

    Raises:
      TypeError: an operand is not `uint64`.
      ValueError: shapes do not fit.
    """
    own = [keys[element] for element in _switched(tuple(element for _, element in babies))]
    operands = align_batch(*((x, 3) for x in ciphertexts), (plains, 3), *key_operands("hoisted_sums", *own))
    return _hoisted_sums(
        *operands,
        inputs=len(ciphertexts),
        sources=tuple(i for i, _ in babies),
        elements=tuple(element for _, element in babies),
        sizes=tuple(map(len, sums)),
        terms=tuple(i for each in sums for i in each),
        **basis._asdict(),
    )


def add_rotation(total: Pair, pair: Pair, key: Key, element: int, basis: Basis) -> Pair:
    """Adds the rotation of an inner sum, modulo QP and times P: step 3 of double hoisting.

    Args:
      total: `uint64[*batch, 2, limbs(QP), N]`, what it is added to.
      pair: the inner sum, of the same shape.
      key: for `element`, of this level or a higher one.
      element: the galois element.
      basis: the primes.

    Returns:
      `uint64[*batch, 2, limbs(QP), N]`.

    Raises:
      As `hoisted_sums`.
    """
    operands = align_batch((total, 3), (pair, 3), *key_operands("add_rotation", key))
    return _add_rotation(*operands, element=element, **basis._asdict())


def rotated_sum(
    sums: Sequence[Pair], elements: Sequence[int], keys: Mapping[int, Key], basis: Basis
) -> UInt64[Array, "... 2 limbs_rescaled N"]:
    """The sum of rotations of what `hoisted_sums` made, divided by P and rescaled: steps 3 and 4 of double hoisting.

    Args:
      sums: arrays `uint64[*batch, 2, limbs(QP), N]`, at least one.
      elements: a galois element for each.
      keys: by galois element, of this level or a higher one.
      basis: the primes, at least two of them q_0..q_l.

    Returns:
      `uint64[*batch, 2, len(moduli) - 1, N]`.
    """
    total = jnp.zeros_like(sums[0])
    if IDENTITY in elements:
        total = sums[elements.index(IDENTITY)]
    for pair, element in zip(sums, elements, strict=True):
        if element != IDENTITY:
            total = add_rotation(total, pair, keys[element], element, basis)
    return mod_down(total, basis.moduli[:-1], basis.moduli[-1:] + basis.special)


def chained_sum(
    sums: Sequence[Pair], elements: Sequence[int], keys: Mapping[int, Key], basis: Basis
) -> UInt64[Array, "... 2 limbs_rescaled N"]:
    """As `rotated_sum`, with each sum rotated together with those behind it: S_0 + phi_1(S_1 + phi_2(S_2 + ...)).

    Args:
      sums, keys, basis: as for `rotated_sum`.
      elements: a galois element for each; that of the first is the identity.
    """
    total = sums[-1]
    for pair, element in zip(reversed(sums[:-1]), reversed(elements[1:]), strict=True):
        total = add_rotation(pair, total, keys[element], element, basis)
    return mod_down(total, basis.moduli[:-1], basis.moduli[-1:] + basis.special)


def raised_rotations(
    ciphertexts: Ciphertexts, keys: Mapping[int, Key], babies: tuple[tuple[int, int], ...], basis: Basis
) -> list[Pair]:
    """Rotations modulo QP and times P, with ModUp done once for each ciphertext: step 1 of double hoisting.

    Arguments as for `hoisted_sums`.

    Returns:
      For each of `babies` an array `uint64[*batch, 2, len(moduli) + len(special), N]`.
    """
    rotated = {i for i, element in babies if element != IDENTITY}
    digits = {i: mod_up(ciphertexts[i][..., 1, :, :], *basis) for i in sorted(rotated)}
    lifted = {i: _lift(ciphertexts[i], basis) for i in sorted({i for i, _ in babies})}
    trimmed = {element: trim_key(keys[element], *basis) for _, element in babies if element != IDENTITY}
    results = []
    for i, element in babies:
        if element == IDENTITY:
            results.append(_with_special_limbs(lifted[i], basis))
            continue
        switched = inner_product(digits[i], trimmed[element], basis.extended)
        results.append(automorphism(_add_first(switched, lifted[i][..., 0, :, :], basis), element))
    return results


def plain_sum(pairs: Sequence[Pair], plains: Plains, basis: Basis) -> Pair:
    """The sum of pairs times plaintexts, modulo QP: step 2 of double hoisting.

    Args:
      pairs: arrays `uint64[*batch, 2, limbs(QP), N]`.
      plains: `uint64[*batch, terms, limbs(QP), width]`, one for each pair; see the module for the width.
      basis: the primes.

    Returns:
      `uint64[*batch, 2, limbs(QP), N]`.
    """
    plains = jnp.repeat(plains, pairs[0].shape[-1] // plains.shape[-1], axis=-1)[..., None, :, :]
    total = multiply(pairs[0], plains[..., 0, :, :, :], basis.extended)
    for i, pair in enumerate(pairs[1:], start=1):
        total = multiply_add(pair, plains[..., i, :, :, :], total, basis.extended)
    return total


def _switched(elements: tuple[int, ...]) -> list[int]:
    """Those that need a key, in the order of their first use."""
    return [element for element in dict.fromkeys(elements) if element != IDENTITY]


def _lift(x, basis):
    """x times P, modulo q_0..q_l; modulo the special primes it is zero."""
    product = math.prod(basis.special)
    return multiply_scalar(x, jnp.asarray(np.array([product % q for q in basis.moduli], np.uint64)), basis.moduli)


def _with_special_limbs(x, basis):
    zeros = jnp.zeros((*x.shape[:-2], len(basis.special), x.shape[-1]), x.dtype)
    return jnp.concatenate([x, zeros], axis=-2)


def _add_first(pair, x, basis):
    """x added to the first component of a pair; x may lack the special limbs."""
    limbs = x.shape[-2]
    first = add(pair[..., 0, :limbs, :], x, basis.extended[:limbs])
    first = jnp.concatenate([first, pair[..., 0, limbs:, :]], axis=-2)
    return jnp.stack(jnp.broadcast_arrays(first, pair[..., 1, :, :]), axis=-3)


def _compose_sums(*operands, moduli, special, digit_size, inputs, sources, elements, sizes, terms):
    ciphertexts, plains, keys = operands[:inputs], operands[inputs], keys_of(operands[inputs + 1 :])
    basis = Basis(moduli, special, digit_size)
    by_element = dict(zip(_switched(elements), keys, strict=True))
    pairs = raised_rotations(ciphertexts, by_element, tuple(zip(sources, elements, strict=True)), basis)
    batch = batch_shape("hoisted_sums", *((x, 3) for x in operands[: inputs + 1]), *key_operands("hoisted_sums", *keys))
    results, first = [], 0
    for size in sizes:
        own = slice(first, first + size)
        total = plain_sum([pairs[i] for i in terms[own]], plains[..., own, :, :], basis)
        results.append(jnp.broadcast_to(total, (*batch, *total.shape[-3:])))
        first += size
    return results


def _compose_rotation(total, pair, *key, moduli, special, digit_size, element):
    basis = Basis(moduli, special, digit_size)
    (key,) = keys_of(key)
    second = mod_down(pair[..., 1, :, :], moduli, special)
    switched = gadget_product(second, key, *basis)
    return add(total, automorphism(_add_first(switched, pair[..., 0, :, :], basis), element), basis.extended)


def _abstract_sums(*operands, moduli, special, digit_size, inputs, sources, elements, sizes, terms):
    name = "hoisted_sums"
    ciphertexts, plains, keys = operands[:inputs], operands[inputs], keys_of(operands[inputs + 1 :])
    degree = ciphertexts[0].shape[-1]
    for x in ciphertexts:
        check_residues(name, x, moduli, "*batch, 2, limbs, N")
        if x.shape[-3] != 2 or x.shape[-1] != degree:
            raise ValueError(f"{name}: a ciphertext of shape {x.shape}; need two components of degree {degree}")
    check_residues(name, plains, moduli + special, "*batch, terms, limbs, width")
    if plains.shape[-3] != sum(sizes) or degree % plains.shape[-1]:
        raise ValueError(
            f"{name}: plaintexts of shape {plains.shape}; need (*batch, {sum(sizes)}, {len(moduli + special)}, width) "
            f"with a width that divides {degree}"
        )
    for key in keys:
        check_key(name, ciphertexts[0], key, moduli, special, digit_size)
    if len(keys) != len(_switched(elements)) or len(terms) != sum(sizes) or not all(sizes):
        raise ValueError(f"{name}: {len(keys)} keys and {len(terms)} terms do not fit elements and sums")
    batch = batch_shape(name, *((x, 3) for x in operands[: inputs + 1]), *key_operands(name, *keys))
    shape = (*batch, 2, len(moduli) + len(special), degree)
    return [_compat.like(operands, shape, np.uint64, len(batch)) for _ in sizes]


def _abstract_rotation(total, pair, *operands, moduli, special, digit_size, element):
    name = "add_rotation"
    (key,) = keys_of(operands)
    for x in (total, pair):
        check_residues(name, x, moduli + special, "*batch, 2, limbs, N")
        if x.shape[-3:] != pair.shape[-3:] or x.shape[-3] != 2:
            raise ValueError(
                f"{name}: pairs of shapes {total.shape} and {pair.shape}; need two components of one degree"
            )
    check_key(name, _compat.like([pair], (len(moduli), pair.shape[-1]), np.uint64, 0), key, moduli, special, digit_size)
    batch = batch_shape(name, (total, 3), (pair, 3), *key_operands(name, key))
    return _compat.like((total, pair, *operands), (*batch, *pair.shape[-3:]), np.uint64, len(batch))


_hoisted_sums = define_primitive(
    "hoisted_sums",
    abstract=_abstract_sums,
    composition=_compose_sums,
    multiple_results=True,
)
_add_rotation = define_primitive(
    "add_rotation",
    abstract=_abstract_rotation,
    composition=_compose_rotation,
)
