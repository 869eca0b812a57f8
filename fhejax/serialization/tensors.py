"""Tensors of files: residues below their moduli, the seeds of masks, and numbers as doubles.

A `Spec` says what a tensor must be, for writing and for reading. Types and shapes are checked before contents are read.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fhejax.serialization.container import dtype_of
from fhejax.serialization.source import Source, Tensor, check_array

FLOATING = "float64", "float32", "float16", "bfloat16"
COMPLEX = "complex128", "complex64"

Shape = tuple[int, ...]
# The sizes of axes; of some, the powers of two that they may be.
Axes = tuple[int | tuple[int, ...], ...]


class Spec(NamedTuple):
    """What a tensor must be.

    Attributes:
      dtype: its type in files.
      fits: raises ValueError for a name, a type and a shape in memory that it must not have.
      check: raises ValueError for a name and contents that it must not have, of two axes at least, or all.
      types: of numbers, which files hold as doubles, those that they may have in memory.
    """

    dtype: str
    fits: Callable[[str, str, Shape], None]
    check: Callable[[str, np.ndarray], None]
    types: tuple[str, ...] = ()


def residues(kind: type, moduli: tuple[int, ...], *shapes: Axes) -> Spec:
    """Residues in a value of a kind, `[*batch, *one of the shapes]`, of which the last axis but one are limbs."""
    return Spec("uint64", functools.partial(_check_shape, kind, shapes), functools.partial(_check_residues, moduli))


def numbers(kind: type, types: tuple[str, ...], shape: Axes) -> Spec:
    """Finite numbers in a value of a kind, `[*batch, *shape]`."""
    return Spec("float64", functools.partial(_check_shape, kind, (shape,)), check_finite, types)


def seeds(batch: Shape) -> Spec:
    """Seeds of masks, `uint32[*batch, 8]`."""
    return Spec("uint32", functools.partial(_check_seeds, (*batch, 8)), lambda name, array: None)


def write_tensors(specs: Mapping[str, Spec], arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    """Arrays as they go into a file, by their names."""
    tensors = {}
    for name, spec in specs.items():
        array = check_array(name, arrays[name])
        dtype = str(array.dtype)
        if spec.types and dtype not in spec.types:
            raise TypeError(f"save: {name} are {dtype}; a file holds {', '.join(spec.types)}")
        if spec.dtype == "uint64" and dtype != "uint64":
            raise TypeError(f"save: residues are uint64, got {dtype} (arithmetic on .data with jax_enable_x64 off?)")
        spec.fits(name, dtype, array.shape)
        data = _as_doubles(np.asarray(array)) if spec.types else array
        tensors[name] = Tensor(data, functools.partial(spec.check, name))
    return tensors


def read_tensors(specs: Mapping[str, Spec], source: Source) -> dict[str, np.ndarray]:
    """Arrays from a file, by their names; numbers are of the type that the header says."""
    for name, spec in specs.items():
        entry, dtype = source.entry(name), spec.dtype
        if dtype_of(name, entry) != dtype:
            raise ValueError(f"tensor {name!r:.60} is of type {dtype_of(name, entry)}; expected {dtype}")
        if spec.types and (dtype := source.header.get("dtype")) not in spec.types:
            raise ValueError(f"header field 'dtype' is {dtype!r:.60}; expected one of {', '.join(spec.types)}")
        if dtype in COMPLEX and entry.shape[-1:] != (2,):
            raise ValueError(f"tensor {name!r} has shape {entry.shape}; expected real and imaginary parts, (..., 2)")
        spec.fits(name, dtype, entry.shape[:-1] if dtype in COMPLEX else entry.shape)
    return {name: _read(name, spec, source) for name, spec in specs.items()}


def _read(name: str, spec: Spec, source: Source) -> np.ndarray:
    array = source.read(name)
    spec.check(name, array)
    return _narrowed(name, array, source.header["dtype"]) if spec.types else array


def _as_doubles(array: np.ndarray) -> np.ndarray:
    """Numbers as `float64[..., *1 or 2]`: of complex ones, the real and the imaginary parts."""
    if np.iscomplexobj(array):
        array = array.astype(np.complex128)[..., None].view(np.float64)
    return array.astype(np.float64, order="C")


def _narrowed(name: str, doubles: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers in their own type again, if they are numbers of that type."""
    with np.errstate(all="ignore"):
        wide = doubles.view(np.complex128)[..., 0] if dtype in COMPLEX else doubles
        narrow = wide.astype(jnp.dtype(dtype))
    if not np.array_equal(narrow.astype(wide.dtype), wide):
        raise ValueError(f"tensor {name!r} holds numbers that are no {dtype}")
    return narrow


def _check_shape(kind: type, shapes: tuple[Axes, ...], name: str, dtype: str, shape: Shape) -> None:
    if not any(_ends_in(shape, axes) for axes in shapes):
        said = " or ".join(f"(*batch, {', '.join(map(_said, axes))})" for axes in shapes)
        raise ValueError(f"tensor {name!r} of a {kind.__name__} has shape {shape}; expected {said}")


def _ends_in(shape: Shape, axes: Axes) -> bool:
    own = shape[max(0, len(shape) - len(axes)) :]
    return len(own) == len(axes) and all(
        size in axis if isinstance(axis, tuple) else size == axis for size, axis in zip(own, axes, strict=True)
    )


def _said(axis: int | tuple[int, ...]) -> str:
    return f"a power of two from {axis[0]} to {axis[-1]}" if isinstance(axis, tuple) else str(axis)


def _check_seeds(expected: Shape, name: str, dtype: str, shape: Shape) -> None:
    if dtype != "uint32" or shape != expected:
        raise ValueError(f"tensor {name!r} is {dtype}{[*shape]}; the seeds of masks are uint32{[*expected]}")


def _check_residues(moduli: tuple[int, ...], name: str, array: np.ndarray) -> None:
    """Refuses residues `[..., limbs, N]` that are not reduced, in one pass and without a temporary of their size."""
    largest = array.max(axis=(*range(array.ndim - 2), -1), initial=0)
    for limb, q in enumerate(moduli):
        if largest[limb] >= q:
            raise ValueError(
                f"tensor {name!r} holds {largest[limb]} in limb {limb}; expected less than its modulus {q}"
            )


def check_finite(name: str, array: np.ndarray) -> None:
    """Refuses numbers that are infinite, or none."""
    if not np.isfinite(array).all():
        raise ValueError(f"tensor {name!r} holds a number that is not finite")
