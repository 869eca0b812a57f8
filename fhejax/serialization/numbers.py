"""Floating-point and complex arrays as tensors of doubles, which hold every type that they may have."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from fhejax.serialization.source import Source, Tensor, check_array

FLOATING = "float64", "float32", "float16", "bfloat16"
COMPLEX = "complex128", "complex64"


def write_numbers(name: str, array: Any, types: tuple[str, ...]) -> Tensor:
    """An array as doubles `[..., *1 or 2]`: of complex numbers, the real and the imaginary parts.

    Args:
      name: the tensor's.
      array: of one of the types.
      types: names among FLOATING and COMPLEX.

    Raises:
      TypeError: it is of another type, or no array.
    """
    check_array(name, array)
    if str(array.dtype) not in types:
        raise TypeError(f"save: {name} are {array.dtype}; a file holds {', '.join(types)}")
    array = np.asarray(array)
    if np.iscomplexobj(array):
        array = array.astype(np.complex128)[..., None].view(np.float64)
    return Tensor(array.astype(np.float64, order="C"), lambda piece: _check_finite(name, piece))


def read_numbers(
    source: Source, name: str, dtype: Any, types: tuple[str, ...], check_shape: Callable[[tuple[int, ...]], None]
) -> np.ndarray:
    """The array again, in its own type.

    Args:
      source: the file.
      name: the tensor's.
      dtype: what the header says of its type.
      types: those that it may have.
      check_shape: raises ValueError for a shape that the array must not have, before it is read.

    Raises:
      ValueError: another type, numbers that it does not have, or that are not finite.
    """
    if dtype not in types:
        raise ValueError(f"header field 'dtype' is {dtype!r:.60}; expected one of {', '.join(types)}")
    shape = source.shape(name, "float64")
    if dtype in COMPLEX and shape[-1:] != (2,):
        raise ValueError(f"tensor {name!r} has shape {shape}; expected real and imaginary parts, (..., 2)")
    check_shape(shape[:-1] if dtype in COMPLEX else shape)
    doubles = source.read(name)
    _check_finite(name, doubles)
    with np.errstate(all="ignore"):
        wide = doubles.view(np.complex128)[..., 0] if dtype in COMPLEX else doubles
        narrow = wide.astype(jnp.dtype(dtype))
    if not np.array_equal(narrow.astype(wide.dtype), wide):
        raise ValueError(f"tensor {name!r} holds numbers that are no {dtype}")
    return narrow


def _check_finite(name: str, array: np.ndarray) -> None:
    if not np.isfinite(array).all():
        raise ValueError(f"tensor {name!r} holds a number that is not finite")
