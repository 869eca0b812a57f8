"""Arithmetic modulo word-size primes, limb by limb: add, subtract, negate, multiply, multiply-accumulate.

Each works on `uint64[*batch, limbs, N]` with reduced residues (limb `i` below `moduli[i] < 2^61`) and returns reduced
residues. The functions that end in `_mod` are the reference that every kernel equals; their constants come from
`limb_constants`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt64

from fhejax import _compat
from fhejax.primitives.define import align_batch, batch_shape, check_residues, define_primitive

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)

# Batch axes broadcast between operands.
Residues = UInt64[Array, "... limbs N"]


def add(a: Residues, b: Residues, moduli: tuple[int, ...]) -> Residues:
    """a + b in every limb. Raises TypeError for another dtype, ValueError for another number of limbs."""
    return _add(*align_batch((a, 2), (b, 2)), moduli=moduli)


def subtract(a: Residues, b: Residues, moduli: tuple[int, ...]) -> Residues:
    """a - b in every limb. Raises as `add`."""
    return _subtract(*align_batch((a, 2), (b, 2)), moduli=moduli)


def negate(a: Residues, moduli: tuple[int, ...]) -> Residues:
    """-a in every limb. Raises as `add`."""
    return _negate(a, moduli=moduli)


def multiply(a: Residues, b: Residues, moduli: tuple[int, ...]) -> Residues:
    """a b in every limb, value by value: the product of polynomials when both are in NTT form. Raises as `add`."""
    return _multiply(*align_batch((a, 2), (b, 2)), moduli=moduli)


def multiply_add(a: Residues, b: Residues, c: Residues, moduli: tuple[int, ...]) -> Residues:
    """a b + c in every limb, value by value. Raises as `add`."""
    return _multiply_add(*align_batch((a, 2), (b, 2), (c, 2)), moduli=moduli)


def multiply_scalar(a: Residues, scalar: UInt64[Array, "... limbs"], moduli: tuple[int, ...]) -> Residues:
    """a times one number a limb.

    Args:
      a: `uint64[*batch, limbs, N]`.
      scalar: `uint64[*batch, limbs]`, reduced.
      moduli: one prime a limb.

    Raises:
      TypeError: not `uint64`.
      ValueError: the limb counts differ.
    """
    return _multiply_scalar(*align_batch((a, 2), (scalar, 1)), moduli=moduli)


# --- the reference -----------------------------------------------------------------------------------------------


def add_mod(a, b, q):
    """(a + b) mod q, for a, b < q < 2^63."""
    s = a + b
    return jnp.minimum(s, s - q)  # s - q wraps to a large number exactly when s < q


def subtract_mod(a, b, q):
    """(a - b) mod q, for a, b < q < 2^63."""
    d = a - b
    return jnp.minimum(d, d + q)


def multiply_high(a, b):
    """The upper 64 bits of the 128-bit product."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a1 * b0 + (a0 * b0 >> _HALF)  # < 2^64: (2^32-1)^2 + 2^32 - 1
    return a1 * b1 + (middle >> _HALF) + (a0 * b1 + (middle & _LOW) >> _HALF)


def limb_constants(moduli: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(q, mu, shift), each `uint64[limbs, 1]`: what `multiply_mod` needs, with L = bit length of q.

    shift = L - 2 and mu = floor(2^(L + 62) / q) <= 2^63.
    """
    rows = [(q, (1 << (q.bit_length() + 62)) // q, q.bit_length() - 2) for q in moduli]
    return tuple(np.array(column, np.uint64)[:, None] for column in zip(*rows, strict=True))  # pyright: ignore


def multiply_mod(a, b, q, mu, shift):
    """(a b) mod q for a, b < q < 2^61 (Barrett).

    x = a b < 2^(2L). With x1 = floor(x / 2^(L-2)) < 2^63 the quotient estimate floor(x1 mu / 2^64) misses x / q by
    less than 2^(L-2) / q + x1 / 2^64 + 1 <= 2, so the remainder lies in [0, 2q).
    """
    low = a * b
    x1 = (multiply_high(a, b) << (np.uint64(64) - shift)) | (low >> shift)
    r = low - multiply_high(x1, mu) * q
    return jnp.minimum(r, r - q)


def _reference(function):
    def reference(*arrays, moduli):
        q, mu, shift = (jnp.asarray(constant) for constant in limb_constants(moduli))
        return function(*arrays, q, mu, shift)

    return reference


def _abstract(name):
    def abstract(*avals, moduli):
        for aval in avals:
            check_residues(name, aval, moduli)
        batch = batch_shape(name, *((aval, 2) for aval in avals))
        if len({aval.shape[-1] for aval in avals}) > 1:
            raise ValueError(f"{name}: ring degrees differ: {[aval.shape for aval in avals]}")
        return _compat.like(avals, (*batch, *avals[0].shape[-2:]), np.uint64, len(batch))

    return abstract


def _abstract_scalar(a, scalar, *, moduli):
    check_residues("multiply_scalar", a, moduli)
    if scalar.dtype != np.uint64 or scalar.shape[-1:] != (len(moduli),):
        raise ValueError(
            f"multiply_scalar: got a scalar {scalar.dtype}{list(scalar.shape)}; need uint64[*batch, {len(moduli)}]"
        )
    batch = batch_shape("multiply_scalar", (a, 2), (scalar, 1))
    return _compat.like((a, scalar), (*batch, *a.shape[-2:]), np.uint64, len(batch))


def _define(name, function, handler_from=0):
    return define_primitive(name, abstract=_abstract(name), reference=_reference(function), handler_from=handler_from)


def _multiply_add_mod(a, b, c, q, mu, shift):
    return add_mod(multiply_mod(a, b, q, mu, shift), c, q)


# XLA's own loops for sums are as fast as memory, and it fuses them with what is around them. But it has a large result
# faulted in page by page, which takes longer than the sum; a handler asks for huge pages.
_LARGE = 8 << 20

_add = _define("add", lambda a, b, q, mu, shift: add_mod(a, b, q), _LARGE)
_subtract = _define("subtract", lambda a, b, q, mu, shift: subtract_mod(a, b, q), _LARGE)
_negate = _define("negate", lambda a, q, mu, shift: subtract_mod(jnp.zeros_like(a), a, q))
_multiply = _define("multiply", multiply_mod)
_multiply_add = _define("multiply_add", _multiply_add_mod)
_multiply_scalar = define_primitive(
    "multiply_scalar",
    abstract=_abstract_scalar,
    reference=_reference(lambda a, scalar, q, mu, shift: multiply_mod(a, scalar[..., None], q, mu, shift)),
)


def power_of_two_table(moduli: tuple[int, ...], count: int) -> jax.Array:
    """2^e mod q for e < count: `uint64[limbs, count]`."""
    return jnp.asarray(np.array([[pow(2, e, q) for e in range(count)] for q in moduli], np.uint64))
