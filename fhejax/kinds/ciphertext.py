"""Ciphertexts: encrypted slots, as residues.

Do no arithmetic on `.data`: with `jax_enable_x64` off, JAX cuts the result to 32 bits. The operations of fhejax
refuse an array to which that has happened.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import jax

from fhejax import _compat
from fhejax.kinds import (
    ciphertext_bootstrapping as bootstrapping,
    ciphertext_operations as operations,
    ciphertext_transforms as transforms,
)
from fhejax.kinds.base import Kind
from fhejax.parameters.parameters import Parameters
from fhejax.scheme.values import Pickled, describe

_STATIC = {"static": True}


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Ciphertext(Pickled, Kind):
    """Encrypted slots.

    `x + y`, `x - y`, `-x` work with ciphertexts, plaintexts, arrays and numbers, on any levels. `x * y` with an array
    or a number is `fhejax.multiply_plain`; with a ciphertext it is the raw product, for programs that postpone
    relinearisation and rescaling (`fhejax.multiply` does all three). `x / y` divides by an array or a number.

    Attributes:
      data: `uint64[*batch, 2 or 3, level + 1, N]`, NTT form; three components before relinearisation.
      params: the parameter set.
      level: the index of its last prime: how many multiplications in a row are left.
      scale: what the slots are multiplied by; `params.scale_at(level)` except between a raw product and its rescale.
      slots: how many values it holds.
      real: whether the values are known to be real, as if it were their dtype.
    """

    adjective = "encrypted"
    leaf_axes = (3,)

    data: Any
    params: Parameters = field(metadata=_STATIC)
    level: int = field(metadata=_STATIC)
    scale: float = field(metadata=_STATIC)
    slots: int = field(metadata=_STATIC)
    real: bool = field(metadata=_STATIC)

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch shape: one ciphertext each."""
        return tuple(self.data.shape[:-3])

    @property
    def components(self) -> int:
        """2, or 3 for a product before relinearisation."""
        return self.data.shape[-3]

    def __repr__(self) -> str:
        return describe("Ciphertext", self, own_axes=3)

    _change_level = operations.change_level
    _add = operations.add
    _subtract = operations.subtract
    _negate = operations.negate
    _plaintext_like = operations.plaintext_like
    _add_plain = operations.add_plain
    _add_number = operations.add_number
    _multiply_integer = operations.multiply_integer
    _multiply_number = operations.multiply_number
    _multiply_plain = operations.multiply_plain
    _tensor = operations.tensor
    _multiply = operations.multiply
    _relinearize = operations.relinearize
    _automorphisms = operations.automorphisms
    _combine = operations.combine
    _weighted_sums = operations.weighted_sums
    _tensor_sum = operations.tensor_sum
    _relinearize_rescale = operations.relinearize_rescale
    _multiply_by_i = operations.multiply_by_i
    _transformed = transforms.transformed
    _mod_raise = bootstrapping.mod_raise
    _decrypt = operations.decrypt
    _compiled = staticmethod(_compat.x64)

    def _repack(self, slots: int) -> "Ciphertext":
        return dataclasses.replace(self, slots=slots)

    def _known_real(self) -> "Ciphertext":
        return dataclasses.replace(self, real=True)
