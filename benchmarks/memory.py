"""How much memory one call takes beyond its operands: its result and everything that it needs for a while.

Measured in a fresh process, because the library keeps scratch memory from call to call. The operands have the types of
real ones and hold ones, so that nothing of the library has run before but the compiler and one transform, which makes
the tables of twiddle factors; these stay for the life of the process and are no part of the figure.
"""

from typing import Any, NamedTuple

import jax
import machine
import numpy as np
import operations

import fhejax as fhe
from fhejax.primitives.ntt import inverse_ntt, ntt


class Memory(NamedTuple):
    """Bytes.

    Attributes:
      operands: of the operands, keys included.
      result: of the result.
      peak: by how much the resident memory rose at most during the call: the result and temporaries.
    """

    operands: int
    result: int
    peak: int


def of_call(operation: str, params: fhe.Parameters) -> Memory:
    """Measures one call; in a process that has done nothing else yet.

    Raises:
      Unavailable: as `machine.peak_of`; or the system took idle pages from the process meanwhile.
    """
    call = operations.calls(params)[operation]
    rotations = operations.ROTATIONS if operation.startswith("rotate") else ()
    types = jax.eval_shape(lambda: operations.operands(params, rotations))
    given = [jax.tree.map(_ones, types[name]) for name in call.operands]
    function = jax.jit(call.function).lower(*given).compile()
    _make_tables(params)
    results: list[Any] = []
    peak = machine.peak_of(lambda: results.append(jax.block_until_ready(function(*given))))
    if peak < _bytes(results):
        raise machine.Unavailable("the system took pages from the process while its memory was measured; run it again")
    return Memory(_bytes(given), _bytes(results), peak)


def _make_tables(params: fhe.Parameters) -> None:
    moduli = (*params.moduli, *params.special_moduli)
    x = _ones(jax.ShapeDtypeStruct((len(moduli), params.degree), np.dtype(np.uint64)))
    jax.block_until_ready((ntt(x, moduli), inverse_ntt(x, moduli)))


def _ones(kind: jax.ShapeDtypeStruct) -> jax.Array:
    with jax.enable_x64(True):
        return jax.device_put(np.ones(kind.shape, kind.dtype))


def _bytes(tree: Any) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))
