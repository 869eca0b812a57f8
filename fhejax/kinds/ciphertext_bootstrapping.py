"""The modulus of a ciphertext raised, for bootstrapping."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.primitives.basis import mod_raise as raise_residues
from fhejax.primitives.key_switch import key_switch
from fhejax.primitives.modular import add, multiply_scalar


def mod_raise(x: Any, keys: Any) -> Any:
    params = x.params
    data = _raised(x.data, keys.to_sparse, keys.to_dense, params, keys.bootstrapping.raised)
    return type(x)(data, params, params.max_level, params.scale_at(params.max_level), x.slots, False)


@_compat.jit(3, 4)
def _raised(data, to_sparse, to_dense, params, factor):
    moduli, special = params.moduli, params.special_moduli
    data = _switched(data, to_sparse, moduli[:1], special[:1], 1)
    data = raise_residues(data, moduli[:1], moduli[1:])
    scalar = jnp.asarray(np.array([factor % q for q in moduli], np.uint64))
    data = multiply_scalar(data, scalar, moduli)
    return _switched(data, to_dense, moduli, special, params.digit_size)


def _switched(data, key, moduli, special, digit_size):
    u = key_switch(data[..., 1, :, :], key, moduli, special, digit_size)
    first = add(u[..., 0, :, :], data[..., 0, :, :], moduli)
    return jnp.stack([first, u[..., 1, :, :]], axis=-3)
