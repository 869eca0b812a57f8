"""Ciphertexts whose slots are the entries of an array: the record, and how maps are applied to it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.arrays.layouts.broadcasting import spread
from fhejax.arrays.layouts.layout import Layout
from fhejax.arrays.layouts.maps import ArrayMap
from fhejax.linear.evaluation import apply
from fhejax.parameters.parameters import Parameters
from fhejax.scheme.values import Pickled


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Arranged(Pickled):
    """What `fhejax.EncryptedArray` holds.

    Attributes:
      ciphertext: a Ciphertext or Simulated value, with a last batch axis that counts the ciphertexts of the array.
      keys: the evaluation keys that its operations take, or None.
      layout: where the entries lie.
    """

    ciphertext: Any
    keys: Any
    layout: Layout = field(metadata={"static": True})

    @property
    def shape(self) -> tuple[int, ...]:
        """As of a NumPy array."""
        return self.layout.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.layout.size

    @property
    def params(self) -> Parameters:
        """The parameter set."""
        return self.ciphertext.params

    @property
    def level(self) -> int:
        """How many multiplications in a row are left."""
        return self.ciphertext.level


Array = TypeVar("Array", bound=Arranged)


@_compat.x64
def take_ciphertexts(ciphertext: Any, index: Any) -> Any:
    """One ciphertext of an array, by its number, or several, by a slice or a list."""
    leaves, tree = jax.tree.flatten(ciphertext)
    axes = ciphertext.leaf_axes
    rows = [leaf[(..., index, *[slice(None)] * own)] for leaf, own in zip(leaves, axes, strict=True)]
    return jax.tree.unflatten(tree, rows)


def keys_of(x: Any, y: Any) -> Any:
    """The evaluation keys of two operands: those of x, or else of y."""
    return x.keys if x.keys is not None else y.keys


def rows(x: Arranged, numbers: tuple[int, ...]) -> Any:
    """The ciphertexts of an array with these numbers."""
    if numbers == tuple(range(x.layout.ciphertexts)):
        return x.ciphertext
    return take_ciphertexts(x.ciphertext, np.array(numbers))


@_compat.x64
def stack_ciphertexts(ciphertexts: Sequence[Any]) -> Any:
    """Ciphertexts as one value, the last batch axis of which counts them."""
    axes, tree = ciphertexts[0].leaf_axes, jax.tree.structure(ciphertexts[0])
    leaves = zip(*map(jax.tree.leaves, ciphertexts), strict=True)
    joined = [jnp.stack(each, axis=each[0].ndim - own) for each, own in zip(leaves, axes, strict=True)]
    return jax.tree.unflatten(tree, joined)


def apply_map(x: Array, linear: ArrayMap) -> Array:
    """The array that a map makes of an array; one level lower. Errors as of `fhejax.apply`.

    A map of fewer ciphertexts than the array has is applied to so many at a time.
    """
    if spread(x.layout, linear.source) is None or x.layout.ciphertexts != linear.source.ciphertexts:
        raise ValueError(
            f"the map takes arrays of {linear.source}, and got one of {x.layout}; type x.to_layout(layout)"
        )
    count, inputs = x.layout.ciphertexts, linear.transform.plan.inputs
    if inputs == count:
        operands = [take_ciphertexts(x.ciphertext, i) for i in range(count)]
        outputs = stack_ciphertexts(apply(linear.transform, operands, x.keys))
    else:
        groups = [take_ciphertexts(x.ciphertext, slice(i, None, inputs)) for i in range(inputs)]
        outputs = merge_batch_axes(stack_ciphertexts(apply(linear.transform, groups, x.keys)))
    return replace(x, ciphertext=outputs, layout=linear.target)


@_compat.x64
def merge_batch_axes(ciphertexts: Any) -> Any:
    """The last two batch axes as one."""
    leaves, tree = jax.tree.flatten(ciphertexts)
    axes = [leaf.ndim - own for leaf, own in zip(leaves, ciphertexts.leaf_axes, strict=True)]
    shapes = [(*leaf.shape[: axis - 2], -1, *leaf.shape[axis:]) for leaf, axis in zip(leaves, axes, strict=True)]
    return jax.tree.unflatten(tree, [leaf.reshape(shape) for leaf, shape in zip(leaves, shapes, strict=True)])
