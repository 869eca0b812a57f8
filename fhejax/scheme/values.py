"""What programs hold besides ciphertexts: plaintexts and keys, as pytrees whose static metadata is their type.

A type is a level: two values of one parameter set, level, packing and kind have equal types, whatever route led
there, so `jax.lax.scan`, `jax.lax.cond` and the jit cache treat them alike.

Do no arithmetic on `.data`: with `jax_enable_x64` off, JAX cuts the result to 32 bits. The operations of fhejax
refuse an array to which that has happened.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.parameters.parameters import Parameters
from fhejax.primitives.basis import mod_down
from fhejax.primitives.key_switch import SeededKey
from fhejax.primitives.modular import multiply_scalar

# An array in use; JAX also builds these values around tracers, shapes and None.
Data = Any

_STATIC = {"static": True}


class Pickled:
    """Pickling and copying by NumPy: an unpickled JAX array is cut to 32 bits while jax_enable_x64 is off."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        values = [getattr(self, f.name) for f in fields(self)]  # pyright: ignore[reportArgumentType]
        return _restore, (type(self), *(np.asarray(x) if isinstance(x, jax.Array) else x for x in values))


def change_level(data: Data, moduli: tuple[int, ...], factor: int, level: int) -> Data:
    """The limbs of `moduli` times an integer, divided by the primes down to `level`."""
    data = data[..., : len(moduli), :]
    if factor != 1:
        data = _multiply_scalar(data, np.array([factor % q for q in moduli], np.uint64), moduli)
    return _mod_down(data, moduli[: level + 1], moduli[level + 1 :]) if level + 1 < len(moduli) else data


_multiply_scalar = _compat.jit(2)(multiply_scalar)
_mod_down = _compat.jit(1, 2)(mod_down)


@_compat.x64
def _restore(kind: type, *values: Any) -> Any:
    return kind(*(jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in values))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Plaintext(Pickled):
    """Encoded slots, not encrypted.

    Attributes:
      data: `uint64[*batch, level + 1, N]`, NTT form.
      params: the parameter set.
      level: the index of its last prime.
      scale: what the slots were multiplied by.
      slots: how many values it holds.
      real: whether the values are known to be real.
    """

    data: Data
    params: Parameters = field(metadata=_STATIC)
    level: int = field(metadata=_STATIC)
    scale: float = field(metadata=_STATIC)
    slots: int = field(metadata=_STATIC)
    real: bool = field(metadata=_STATIC)

    def _change_level(self, factor: int, top: int, level: int, scale: float) -> Any:
        """As of every kind of encrypted values: see `fhejax.kinds.base.Kind`."""
        data = change_level(self.data, self.params.moduli_at(top), factor, level)
        return replace(self, data=data, level=level, scale=scale)

    def __repr__(self) -> str:
        return describe("Plaintext", self, own_axes=2)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SecretKey:
    """The key that decrypts. It is not printed and not pickled; save it with `fhejax.save(..., allow_secret=True)`.

    Attributes:
      data: `uint64[*batch, limbs(QP), N]`, NTT form.
      params: the parameter set.
    """

    data: Data
    params: Parameters = field(metadata=_STATIC)

    def __repr__(self) -> str:
        return f"SecretKey({self.params!r}, data hidden)"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a SecretKey is not pickled or copied; type fhejax.save(path, secret_key, allow_secret=True)")


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PublicKey(Pickled):
    """The key that encrypts.

    Attributes:
      data: `uint64[*batch, 2, L + 2, N]`, NTT form, modulo q_0..q_L and the first special prime.
      params: the parameter set.
    """

    data: Data
    params: Parameters = field(metadata=_STATIC)

    def __repr__(self) -> str:
        return f"PublicKey({self.params!r}, {_batch(self.data, 3)}{_size(self.data)})"


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SwitchingKey(Pickled):
    """A key that carries ciphertexts from one secret to another, up to a level.

    Attributes:
      data: `uint64[*batch, digits, 2, level + 1 + special primes, N]`, NTT form; of a seeded key the first halves only,
        `uint64[*batch, digits, level + 1 + special primes, N]`.
      params: the parameter set.
      level: the highest level of the ciphertexts that it switches.
      mask_seed: of a seeded key, `uint32[*batch, 8]`, from which the second halves are drawn at every use; else None.
    """

    data: Data
    params: Parameters = field(metadata=_STATIC)
    level: int = field(metadata=_STATIC)
    mask_seed: Data = None

    @property
    def operand(self) -> Any:
        """What the primitives take: the array, or a `SeededKey`."""
        return self.data if self.mask_seed is None else SeededKey(self.data, self.mask_seed)

    def __repr__(self) -> str:
        kind, axes = ("", 4) if self.mask_seed is None else ("seeded, ", 3)
        return f"SwitchingKey(level={self.level}, {kind}{_batch(self.data, axes)}{_size(self.data)})"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class EvaluationKeys:
    """The keys that operations on ciphertexts need: public, and of no use for decrypting.

    Attributes:
      relinearization: for products of ciphertexts; None if it was not made.
      galois: for rotations and conjugation, by galois element (5^k mod 2N, and 2N - 1).
      params: the parameter set.
    """

    relinearization: SwitchingKey | None
    galois: dict[int, SwitchingKey]
    params: Parameters

    @property
    def rotations(self) -> tuple[int, ...]:
        """The rotation steps that have a key of their own, in [0, N/2)."""
        steps = galois_steps(self.params.degree)
        return tuple(sorted(steps[g] for g in self.galois if g in steps))

    @property
    def conjugation(self) -> bool:
        """Whether there is a key for conjugation."""
        return 2 * self.params.degree - 1 in self.galois

    def relinearization_key(self, level: int) -> SwitchingKey | None:
        """The key for products of ciphertexts at a level, or None.

        Every operation takes its keys from here or from `galois_key`, which is how `fhejax.plan_keys` learns of them.
        """
        key = self.relinearization
        return key if key is not None and key.level >= level else None

    def galois_key(self, element: int, level: int, slots: int | None = None) -> SwitchingKey | None:
        """The key of an automorphism for ciphertexts at a level, or None.

        Args:
          element: the galois element.
          level: the ciphertext's.
          slots: the ciphertext's, from whoever composes the rotation of others where its key is missing.
        """
        key = self.galois.get(element)
        return key if key is not None and key.level >= level else None

    def __repr__(self) -> str:
        kinds = ["relinearization"] * (self.relinearization is not None) + ["conjugation"] * self.conjugation
        keys = [key for key in (self.relinearization, *self.galois.values()) if isinstance(key, SwitchingKey)]
        seeded = ["seeded"] * any(key.mask_seed is not None for key in keys)
        size = size_of(self)
        return f"EvaluationKeys({', '.join([*kinds, f'rotations={self.rotations}', *seeded, size])})"


def _flatten_keys(keys: EvaluationKeys) -> tuple[tuple[Any, ...], tuple[Parameters, tuple[int, ...]]]:
    elements = tuple(sorted(keys.galois))
    return (keys.relinearization, *(keys.galois[g] for g in elements)), (keys.params, elements)


def _flatten_keys_with_paths(keys: EvaluationKeys) -> tuple[Any, Any]:
    children, metadata = _flatten_keys(keys)
    names = [f"galois[{element}]" for element in metadata[1]]
    paths = [jax.tree_util.GetAttrKey("relinearization"), *map(jax.tree_util.GetAttrKey, names)]
    return tuple(zip(paths, children, strict=True)), metadata


def _unflatten_keys(metadata: tuple[Parameters, tuple[int, ...]], children: Iterable[Any]) -> EvaluationKeys:
    params, elements = metadata
    relinearization, *galois = children
    return EvaluationKeys(relinearization, dict(zip(elements, galois, strict=True)), params)


# Not a dictionary among pytrees: jax.export knows only dictionaries with string keys.
jax.tree_util.register_pytree_with_keys(EvaluationKeys, _flatten_keys_with_paths, _unflatten_keys, _flatten_keys)

_STEPS: dict[int, dict[int, int]] = {}


def galois_steps(degree: int) -> dict[int, int]:
    """Rotation step by galois element: 5^k mod 2N -> k, for k < N/2."""
    if degree not in _STEPS:
        element, steps = 1, {}
        for k in range(degree // 2):
            steps[element] = k
            element = 5 * element % (2 * degree)
        _STEPS[degree] = steps
    return _STEPS[degree]


def describe(name: str, value: Any, own_axes: int) -> str:
    scale = f"2^{math.log2(value.scale):.2f}" if value.scale > 0 else str(value.scale)
    kind = "real" if value.real else "complex"
    parts = [f"level={value.level}", f"scale={scale}", f"slots={value.slots} {kind}"]
    shape = getattr(value.data, "shape", None)
    if shape is not None:
        parts.append(f"shape={tuple(shape[:-own_axes])}")
    if own_axes == 3 and shape is not None and shape[-3:-2] == (3,):
        parts.append("3 components")
    return f"{name}({', '.join(parts)}, N=2^{value.params.log_degree}, {_size(value.data)})"


def _batch(data: Any, own_axes: int) -> str:
    shape = tuple(getattr(data, "shape", ()))[:-own_axes]
    return f"shape={shape}, " if shape else ""


def _size(data: Any) -> str:
    return size_of(data) if hasattr(data, "shape") else f"data={type(data).__name__}"


def _bytes(data: Any) -> int:
    """Of an array, a tracer or the shape of one; 0 of anything else that may stand in a pytree."""
    return math.prod(data.shape) * np.dtype(data.dtype).itemsize if hasattr(data, "shape") else 0


def size_of(tree: Any) -> str:
    """The memory of all arrays in a tree, for people."""
    return megabytes(sum(map(_bytes, jax.tree.leaves(tree))))


def megabytes(size: int) -> str:
    """A number of bytes, for people."""
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"
