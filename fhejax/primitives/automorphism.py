"""The automorphism X -> X^g of the ring, on values in NTT order.

It permutes the evaluation points, so it is one permutation, the same for every limb: position i holds the value at
psi^(2 brv(i) + 1), and the value of m(X^g) there is the value of m at psi^(g (2 brv(i) + 1)).
"""

import functools

import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.primitives.define import define_primitive
from fhejax.primitives.modular import Residues


def automorphism(x: Residues, element: int) -> Residues:
    """Carries m(X) to m(X^element), both in NTT form.

    Args:
      x: `uint64[*batch, limbs, N]`.
      element: the galois element, odd, 0 < element < 2N; 5^k rotates slots by k, 2N - 1 conjugates them.

    Raises:
      TypeError: `x` is not `uint64`.
      ValueError: `element` is even or out of range.
    """
    return _automorphism(x, element=element)


@functools.lru_cache(maxsize=256)
def automorphism_source(degree: int, element: int) -> np.ndarray:
    """Where each position takes its value from: `out[i] = in[source[i]]`, `int32[N]`."""
    reverse = bit_reversal(degree)
    exponent = element * (2 * reverse + 1) % (2 * degree)
    return reverse[(exponent - 1) // 2].astype(np.int32)


def bit_reversal(n: int) -> np.ndarray:
    """brv(i) for i < n, a power of two: `int64[n]`."""
    table = np.zeros(1, np.int64)
    while table.size < n:
        table = np.concatenate([2 * table, 2 * table + 1])
    return table


def _reference(x, *, element):
    return jnp.take(x, jnp.asarray(automorphism_source(x.shape[-1], element)), axis=-1)


def _abstract(x, *, element):
    if x.dtype != np.uint64:
        raise TypeError(
            f"automorphism: residues are uint64, got {x.dtype}; use fhejax.encode and the operations of fhejax"
        )
    if element % 2 == 0 or not 0 < element < 2 * x.shape[-1]:
        raise ValueError(f"automorphism: element {element} must be odd and between 0 and 2N = {2 * x.shape[-1]}")
    return _compat.like([x], x.shape, x.dtype, x.ndim - 2)


_automorphism = define_primitive(
    "automorphism",
    abstract=_abstract,
    reference=_reference,
)
