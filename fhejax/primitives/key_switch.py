"""Hybrid key switching: a polynomial times a key, by digits, with special primes.

The primes q_0..q_l are grouped into digits of `digit_size` primes with products Q_i. A key holds, for each digit,
an encryption of P g_i s' where g_i = 1 modulo the primes of digit i and 0 modulo the others. Then
sum_i [c]_{Q_i} key_i encrypts P c s', and ModDown divides by P and with it the noise.

A key may be longer than the polynomial: for a lower level, the limbs q_0..q_l and the special primes of its first
digits are used.

The second halves of a key are masks, drawn from a seed of their own by `key_masks`. A seeded key holds that seed in
their place, and kernels draw a mask block by block where they multiply by it.

Source: Han & Ki, "Better Bootstrapping for Approximate Homomorphic Encryption", 2020, section 3; hoisting: Halevi &
Shoup, "Faster Homomorphic Linear Transformations in HElib", 2018, section 5.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32, UInt64

from fhejax import _compat
from fhejax.primitives.automorphism import automorphism
from fhejax.primitives.basis import convert_basis, mod_down
from fhejax.primitives.define import align_batch, batch_shape, check_residues, define_primitive
from fhejax.primitives.modular import Residues, add, multiply, multiply_add
from fhejax.primitives.ntt import inverse_ntt, ntt
from fhejax.primitives.sampling import Seeds, check_words, sample_uniform


class SeededKey(NamedTuple):
    """A switching key without its second halves.

    Attributes:
      first: `uint64[*batch, digits, limbs(QP), N]`.
      mask_seed: `uint32[*batch, 8]`, from which `key_masks` draws the second halves.
    """

    first: UInt64[Array, "... digits key_limbs N"]
    mask_seed: UInt32[Array, "... 8"]


KeyArray = UInt64[Array, "... digits 2 key_limbs N"]
Key = KeyArray | SeededKey
Pair = UInt64[Array, "... 2 limbs_out N"]


def key_masks(
    mask_seed: Seeds, digits: int, moduli: tuple[int, ...], special: tuple[int, ...], degree: int
) -> UInt64[Array, "*batch digits limbs N"]:
    """The second halves of a key: `sample_uniform` modulo the special primes and then q_0..q_l.

    In that order a prime's stream does not depend on l, so that a key of a higher level contains those of lower ones.

    Args:
      mask_seed: `uint32[*batch, 8]`.
      digits: how many.
      moduli: q_0..q_l.
      special: p_0..p_(k-1).
      degree: the number of coefficients N.

    Returns:
      `uint64[*batch, digits, len(moduli) + len(special), N]`, in the usual order of limbs.
    """
    return jnp.roll(sample_uniform(mask_seed, digits, special + moduli, degree), -len(special), axis=-2)


def mod_up(x: Residues, moduli: tuple[int, ...], special: tuple[int, ...], digit_size: int) -> Array:
    """The digits of a polynomial, each modulo all primes, in NTT form.

    Args:
      x: `uint64[*batch, len(moduli), N]` in NTT form.
      moduli: q_0..q_l.
      special: p_0..p_(k-1).
      digit_size: primes a digit.

    Returns:
      `uint64[*batch, digits, len(moduli) + len(special), N]`: [x]_{Q_i} centred, for each digit i.
    """
    coefficients = inverse_ntt(x, moduli)
    digits = []
    for first in range(0, len(moduli), digit_size):
        own = slice(first, min(first + digit_size, len(moduli)))
        others = moduli[: own.start] + moduli[own.stop :] + special
        raised = ntt(convert_basis(coefficients[..., own, :], moduli[own], others), others)
        parts = [raised[..., : own.start, :], x[..., own, :], raised[..., own.start :, :]]
        digits.append(jnp.concatenate(parts, axis=-2))
    return jnp.stack(digits, axis=-3)


def inner_product(digits: Array, key: KeyArray, moduli: tuple[int, ...]) -> Pair:
    """sum_i digits_i key_i for both halves of a key.

    Args:
      digits: `uint64[*batch, digits, limbs, N]`.
      key: `uint64[*batch, digits, 2, limbs, N]`.
      moduli: one prime a limb.

    Returns:
      `uint64[*batch, 2, limbs, N]`.
    """
    return _inner_product(*align_batch((digits, 3), (key, 4)), moduli=moduli)


def gadget_product(x: Residues, key: Key, moduli: tuple[int, ...], special: tuple[int, ...], digit_size: int) -> Pair:
    """The switched polynomial still times P: ModUp and the inner product with the key, without ModDown.

    Args:
      x: `uint64[*batch, len(moduli), N]` in NTT form.
      key: `uint64[*batch, digits, 2, limbs(QP), N]` or a `SeededKey`, of this level or a higher one.
      moduli: q_0..q_l.
      special: p_0..p_(k-1).
      digit_size: primes a digit, as when the key was made.

    Returns:
      `uint64[*batch, 2, len(moduli) + len(special), N]`.

    Raises:
      TypeError: an operand is not `uint64`.
      ValueError: limbs, digits or ring degrees do not fit.
    """
    operands = align_batch((x, 2), *key_operands("gadget_product", key))
    return _gadget_product(*operands, moduli=moduli, special=special, digit_size=digit_size)


def key_switch(x: Residues, key: Key, moduli: tuple[int, ...], special: tuple[int, ...], digit_size: int) -> Pair:
    """The pair (u0, u1) with u0 + u1 s = x s' + noise, for a key that switches from s' to s.

    Arguments and errors as for `gadget_product`.

    Returns:
      `uint64[*batch, 2, len(moduli), N]`.
    """
    operands = align_batch((x, 2), *key_operands("key_switch", key))
    return _key_switch(*operands, moduli=moduli, special=special, digit_size=digit_size)


def hoisted_rotations(
    ciphertext: UInt64[Array, "... 2 limbs N"],
    keys: Sequence[UInt64[Array, "... _ 2 _ N"] | SeededKey],
    elements: tuple[int, ...],
    moduli: tuple[int, ...],
    special: tuple[int, ...],
    digit_size: int,
) -> list[Pair]:
    """Several automorphisms of one ciphertext, with ModUp done once.

    The key for an element g switches from s to phi_g^-1(s); the automorphism comes last, so that a rotation alone
    and the same rotation among others have the same bits.

    Args:
      ciphertext: `uint64[*batch, 2, len(moduli), N]` in NTT form.
      keys: one for each element, as for `gadget_product`, each of a level of its own.
      elements: galois elements.
      moduli, special, digit_size: as for `gadget_product`.

    Returns:
      One array like `ciphertext` for each element.
    """
    aligned = align_batch((ciphertext, 3), *key_operands("hoisted_rotations", *keys))
    parameters = {"moduli": moduli, "special": special, "digit_size": digit_size}
    return _hoisted_rotations(*aligned, elements=elements, **parameters)


def key_operands(name: str, *keys: Any) -> list[tuple[Any, int]]:
    """The arrays of keys, in a row as primitives take them, with the number of axes that are their own.

    Raises:
      TypeError: residues that are not `uint64`, or a seed that is not `uint32`.
    """
    operands = []
    for key in keys:
        residues = key
        if isinstance(key, SeededKey):
            residues = key.first
            check_words(name, "the seed of a key's masks", key.mask_seed, 8)
        if residues.dtype != np.uint64:
            raise TypeError(f"{name}: the key is {residues.dtype}, not uint64; make keys with fhejax.evaluation_keys")
        operands += [(key.first, 3), (key.mask_seed, 1)] if isinstance(key, SeededKey) else [(key, 4)]
    return operands


def keys_of(operands: Sequence[Any]) -> list[Any]:
    """The keys whose arrays `key_operands` put in a row: a seed belongs to the residues before it."""
    keys: list[Any] = []
    for operand in operands:
        keys.append(SeededKey(keys.pop(), operand) if operand.dtype == np.uint32 else operand)
    return keys


def trim_key(key, moduli, special, digit_size):
    """The part of a key that a polynomial with these moduli needs, with both halves."""
    limbs, digits = len(moduli), -(-len(moduli) // digit_size)

    def trim(residues):
        return jnp.concatenate([residues[..., :limbs, :], residues[..., residues.shape[-2] - len(special) :, :]], -2)

    if not isinstance(key, SeededKey):
        return trim(key[..., :digits, :, :, :])
    first = trim(key.first[..., :digits, :, :])
    masks = key_masks(key.mask_seed, digits, moduli, special, first.shape[-1])
    return jnp.stack(jnp.broadcast_arrays(first, masks), axis=-3)


def _compose_gadget_product(x, *key, moduli, special, digit_size):
    digits = mod_up(x, moduli, special, digit_size)
    (key,) = keys_of(key)
    return inner_product(digits, trim_key(key, moduli, special, digit_size), moduli + special)


def _compose_key_switch(x, *key, moduli, special, digit_size):
    (key,) = keys_of(key)
    return mod_down(gadget_product(x, key, moduli, special, digit_size), moduli, special)


def _compose_hoisted_rotations(ciphertext, *keys, elements, moduli, special, digit_size):
    digits = mod_up(ciphertext[..., 1, :, :], moduli, special, digit_size)
    results = []
    for key, element in zip(keys_of(keys), elements, strict=True):
        product = inner_product(digits, trim_key(key, moduli, special, digit_size), moduli + special)
        u = mod_down(product, moduli, special)
        c0 = add(u[..., 0, :, :], ciphertext[..., 0, :, :], moduli)
        results.append(automorphism(jnp.stack([c0, u[..., 1, :, :]], axis=-3), element))
    batch = batch_shape("hoisted_rotations", (ciphertext, 3), *key_operands("hoisted_rotations", *keys_of(keys)))
    return [jnp.broadcast_to(result, (*batch, *result.shape[-3:])) for result in results]


def _reference_inner_product(digits, key, *, moduli):
    digits = digits[..., None, :, :]  # beside both halves of the key
    total = multiply(digits[..., 0, :, :, :], key[..., 0, :, :, :], moduli)
    for i in range(1, key.shape[-4]):
        total = multiply_add(digits[..., i, :, :, :], key[..., i, :, :, :], total, moduli)
    return total


def _abstract_inner_product(digits, key, *, moduli):
    check_residues("inner_product", digits, moduli, "*batch, digits, limbs, N")
    check_residues("inner_product", key, moduli, "*batch, digits, 2, limbs, N")
    if digits.shape[-3] != key.shape[-4] or key.shape[-3] != 2 or digits.shape[-1] != key.shape[-1]:
        raise ValueError(f"inner_product: digits {digits.shape} do not fit the key {key.shape}")
    batch = batch_shape("inner_product", (digits, 3), (key, 4))
    return _compat.like((digits, key), (*batch, 2, *digits.shape[-2:]), np.uint64, len(batch))


def check_key(name: str, x: Any, key: Any, moduli: tuple[int, ...], special: tuple[int, ...], digit_size: int) -> None:
    """Refuses a key that does not fit a polynomial.

    Raises:
      TypeError: the polynomial is not `uint64`.
      ValueError: limbs, digits or ring degrees do not fit.
    """
    check_residues(name, x, moduli)
    halves, residues = ((), key.first) if isinstance(key, SeededKey) else ((2,), key)
    digits, limbs = -(-len(moduli) // digit_size), len(moduli) + len(special)
    own = residues.shape[-3 - len(halves) :]
    fits = len(own) == 3 + len(halves) and own[0] >= digits and own[1:-2] == halves and own[-2] >= limbs
    if not fits or own[-1] != x.shape[-1]:
        needs = ", ".join(map(str, (f"at least {digits} digits", *halves, f"at least {limbs} limbs", x.shape[-1])))
        raise ValueError(
            f"{name}: a key of shape {residues.shape} does not fit a polynomial of shape {x.shape}: it needs "
            f"(*batch, {needs})"
        )


def _abstract_switch(name, limbs_out):
    def abstract(x, *operands, moduli, special, digit_size):
        (key,) = keys_of(operands)
        check_key(name, x, key, moduli, special, digit_size)
        batch = batch_shape(name, (x, 2), *key_operands(name, key))
        shape = (*batch, 2, limbs_out(moduli, special), x.shape[-1])
        return _compat.like((x, *operands), shape, np.uint64, len(batch))

    return abstract


def _abstract_rotations(ciphertext, *operands, elements, moduli, special, digit_size):
    name, keys = "hoisted_rotations", keys_of(operands)
    for key in keys:
        check_key(name, ciphertext, key, moduli, special, digit_size)
    if len(keys) != len(elements) or not keys:
        raise ValueError(f"{name}: {len(keys)} keys for {len(elements)} elements")
    batch = batch_shape(name, (ciphertext, 3), *key_operands(name, *keys))
    shape = (*batch, *ciphertext.shape[-3:])
    return [_compat.like((ciphertext, *operands), shape, np.uint64, len(batch)) for _ in elements]


_inner_product = define_primitive(
    "inner_product",
    abstract=_abstract_inner_product,
    reference=_reference_inner_product,
)
_gadget_product = define_primitive(
    "gadget_product",
    abstract=_abstract_switch("gadget_product", lambda moduli, special: len(moduli) + len(special)),
    composition=_compose_gadget_product,
)
_key_switch = define_primitive(
    "key_switch",
    abstract=_abstract_switch("key_switch", lambda moduli, special: len(moduli)),
    composition=_compose_key_switch,
)
_hoisted_rotations = define_primitive(
    "hoisted_rotations",
    abstract=_abstract_rotations,
    composition=_compose_hoisted_rotations,
    multiple_results=True,
)
