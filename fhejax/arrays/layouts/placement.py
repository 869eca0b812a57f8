"""Values in the clear put into slots, as an encrypted array lies."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from fhejax.arrays.layouts.layout import Layout


def pack(array: Any, layout: Layout) -> Any:
    """`[ciphertexts, slots]` with the entries of `[*shape]` in all their places, and zeros elsewhere."""
    count, positions = layout.ciphertexts * layout.slots, layout.positions()
    module = np if isinstance(array, np.ndarray) else jnp
    # Which entry each slot holds; the one behind the last is the zero.
    source = np.full(count, array.size)
    for offset in layout.copy_offsets().tolist():
        source[positions + offset] = np.arange(array.size).reshape(layout.shape)
    filled = module.concatenate([array.ravel(), module.zeros(1, array.dtype)])[source]
    return filled.reshape(layout.ciphertexts, layout.slots)


def indicator(layout: Layout) -> np.ndarray:
    """`[ciphertexts, slots]` with ones where entries and their copies are, and zeros elsewhere."""
    return pack(np.ones(layout.shape), layout)
