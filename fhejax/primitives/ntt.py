"""The negacyclic number-theoretic transform, forward and inverse.

A polynomial of Z_q[X]/(X^N + 1) is carried to its values at the odd powers of psi, the numerically smallest
primitive 2N-th root of unity mod q. Values stand in bit-reversed order, position i holding the value at
psi^(2 brv(i) + 1), so neither direction ever permutes.

Source: Longa & Naehrig, "Speeding up the NTT", 2016, algorithms 1 and 2.
"""

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.parameters.primes import primitive_root
from fhejax.primitives.define import check_residues, define_primitive
from fhejax.primitives.modular import Residues, add_mod, limb_constants, multiply_mod, subtract_mod


def ntt(x: Residues, moduli: tuple[int, ...]) -> Residues:
    """Carries coefficients to evaluation form.

    Args:
      x: `uint64[*batch, limbs, N]`, limb `i` reduced modulo `moduli[i]`.
      moduli: one prime a limb, each 1 mod 2N.

    Returns:
      An array like `x`: the values, in bit-reversed order, reduced.

    Raises:
      TypeError: `x` is not `uint64`.
      ValueError: the limb count differs from `len(moduli)`, or a modulus is not 1 mod 2N.
    """
    return _ntt(x, moduli=moduli)


def inverse_ntt(x: Residues, moduli: tuple[int, ...]) -> Residues:
    """Carries values in evaluation form back to coefficients. Arguments and errors as for `ntt`."""
    return _inverse_ntt(x, moduli=moduli)


def _reference_forward(x, *, moduli):
    """Cooley-Tukey butterflies in constant geometry: one loop body for all stages, so that it compiles quickly.

    Stage s pairs the values whose indices differ in bit k-1-s, for N = 2^k. Rotating the index by one bit after each
    stage brings that bit to the top, so halves are paired and results interleaved; after k stages all is in place.
    """
    n, constants = x.shape[-1], _constants(moduli)
    roots = _root_powers(n, moduli, inverse=False)
    pair = jnp.arange(n // 2)

    def stage(s, x):
        even, odd = x[..., : n // 2], x[..., n // 2 :]
        block = jnp.left_shift(1, s)  # 2^s blocks; the low s bits of the rotated index number them
        odd = multiply_mod(odd, jnp.take(roots, block + (pair & (block - 1)), axis=1), *constants)
        both = [add_mod(even, odd, constants[0]), subtract_mod(even, odd, constants[0])]
        return jnp.stack(both, axis=-1).reshape(x.shape)

    return jax.lax.fori_loop(0, n.bit_length() - 1, stage, x)


def _reference_inverse(x, *, moduli):
    """Gentleman-Sande butterflies in the same geometry, backwards; then the factor 1/N."""
    n, constants = x.shape[-1], _constants(moduli)
    roots, stages = _root_powers(n, moduli, inverse=True), n.bit_length() - 1
    pair = jnp.arange(n // 2)

    def stage(i, x):
        pairs = x.reshape(*x.shape[:-1], n // 2, 2)
        even, odd = pairs[..., 0], pairs[..., 1]
        block = jnp.left_shift(1, stages - 1 - i)
        root = jnp.take(roots, block + (pair & (block - 1)), axis=1)
        difference = multiply_mod(subtract_mod(even, odd, constants[0]), root, *constants)
        return jnp.concatenate([add_mod(even, odd, constants[0]), difference], axis=-1)

    scale = jnp.asarray(np.array([[pow(n, -1, q)] for q in moduli], np.uint64))
    return multiply_mod(jax.lax.fori_loop(0, stages, stage, x), scale, *constants)


def _root_powers(n, moduli, inverse):
    """psi^(+-brv(i)), `uint64[limbs, n]`: bit b of i contributes the factor psi^(+-n / 2^(b+1))."""
    sign, stages = -1 if inverse else 1, n.bit_length() - 1
    psi = [primitive_root(2 * n, q) for q in moduli]
    steps = [[pow(r, sign * (n >> (b + 1)), q) for r, q in zip(psi, moduli, strict=True)] for b in range(stages)]
    factors, constants = jnp.asarray(np.array(steps, np.uint64))[..., None], _constants(moduli)
    index = jnp.arange(n)

    def include(b, table):
        return jnp.where(index >> b & 1, multiply_mod(table, factors[b], *constants), table)

    return jax.lax.fori_loop(0, stages, include, jnp.ones((len(moduli), n), np.uint64))


def _constants(moduli):
    return [jnp.asarray(constant) for constant in limb_constants(moduli)]


def _abstract(name):
    def abstract(x, *, moduli):
        check_residues(name, x, moduli)
        n = x.shape[-1]
        if n & (n - 1) or n < 2 or any(q % (2 * n) != 1 for q in moduli):
            wrong = [q for q in moduli if q % (2 * n) != 1]
            raise ValueError(
                f"{name}: N = {n} must be a power of two and every modulus 1 mod 2N; these are not: {wrong}"
            )
        return _compat.like([x], x.shape, x.dtype, x.ndim - 2)

    return abstract


_ntt = define_primitive(
    "ntt",
    abstract=_abstract("ntt"),
    reference=_reference_forward,
)
_inverse_ntt = define_primitive(
    "inverse_ntt",
    abstract=_abstract("inverse_ntt"),
    reference=_reference_inverse,
)
