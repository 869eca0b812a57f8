"""Linear maps between arrays: a linear transform with the layouts before and after it."""

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from fhejax.arrays.layouts.layout import Layout
from fhejax.linear.diagonals import numbers
from fhejax.linear.transform import LinearTransform
from fhejax.parameters.parameters import Parameters
from fhejax.scheme.values import Pickled

_STATIC = {"static": True}


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ArrayMap(Pickled):
    """A linear map from arrays of one layout to arrays of another, planned and encoded once.

    Attributes:
      transform: of the slots; `transform.rotations` and `transform.plan` say what it costs.
      source: the layout of what it takes.
      target: the layout of what it gives.
    """

    transform: LinearTransform
    source: Layout = field(metadata=_STATIC)
    target: Layout = field(metadata=_STATIC)

    @property
    def rotations(self) -> tuple[int, ...]:
        """The steps that need a key."""
        return self.transform.rotations

    def __repr__(self) -> str:
        return f"ArrayMap({self.source} -> {self.target}, {self.transform!r})"


def map_of_entries(
    operation: str,
    source: Layout,
    target: Layout,
    entries: tuple[Any, Any, Any],
    params: Parameters,
    level: int | None,
    encoded: bool = True,
) -> ArrayMap:
    """The map that adds weight * x.flat[column] to y.flat[row], for entries (rows, columns, weights, maybe traced).

    Its result stands in all copies of the target, and is zero in every other slot.
    """
    rows, columns = (np.asarray(each, np.int64) for each in entries[:2])
    weights = numbers(operation, "weights", entries[2])
    to, start = target.positions().ravel()[rows], source.positions().ravel()[columns]
    again = target.copy_offsets()
    to = (to[None] + again[:, None]).ravel()
    start = nearest_copies(np.tile(start, len(again)), to, source)
    module = np if isinstance(weights, np.ndarray) else jax.numpy
    shape = (target.ciphertexts * target.slots, source.ciphertexts * source.slots)
    transform = LinearTransform.from_entries(
        to, start, module.tile(weights, len(again)), params, level, slots=source.slots, shape=shape, encoded=encoded
    )
    return ArrayMap(transform, source, target)


def nearest_copies(start: np.ndarray, to: np.ndarray, source: Layout) -> np.ndarray:
    """For each entry the copy to take, so that few different steps occur.

    Where copies fill the slots, steps are free up to multiples of their distance: they begin behind the widest gap.
    """
    copies = source.copy_offsets()
    period = source.slots // len(copies)
    steps = np.unique((start - to) % period)
    widest = int(np.argmax(np.diff(steps, append=steps[0] + period)))
    first = steps[widest + 1] - period if widest + 1 < len(steps) else steps[0]
    best = start
    for offset in copies[1:].tolist():
        closer = (start + offset - to - first) % source.slots < (best - to - first) % source.slots
        best = np.where(closer, start + offset, best)
    return best
