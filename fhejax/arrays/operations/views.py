"""Views: other shapes of an encrypted array that move nothing, and so cost nothing.

Only the layout changes. Ciphertexts that hold no entry any more are dropped. What digits cannot say is refused, with
what to type; shapes that do not fit are refused by NumPy itself.
"""

import operator
from dataclasses import replace
from typing import Any

import numpy as np

from fhejax.arrays.layouts.axis_digits import canonical, coalesce, reshape_digits, slice_digits
from fhejax.arrays.layouts.broadcasting import compact, widen
from fhejax.arrays.layouts.layout import Digits, Layout
from fhejax.arrays.layouts.record import Array, rows
from fhejax.arrays.layouts.shapes import dummy


def transpose(x: Array, *axes: Any) -> Array:
    """The axes in another order, as `numpy.ndarray.transpose`; in the opposite one if none is given."""
    order = _one_or_many(axes) if axes else range(x.ndim)[::-1]
    dummy(x.shape).transpose(order)
    places = [int(axis) % x.ndim for axis in order]
    layout = plain(x.layout)
    if layout.diagonal and places[-2:] != [x.ndim - 2, x.ndim - 1]:
        raise no_view("transpose", layout, "transpose(...)")
    shape, digits = (tuple(each[axis] for axis in places) for each in (x.shape, layout.axes))
    return view(x, replace(layout, shape=shape, axes=digits))


def moveaxis(x: Array, source: Any, destination: Any) -> Array:
    """Axes moved to other places, as `numpy.moveaxis`."""
    return transpose(x, np.moveaxis(_axis_numbers(x.ndim), source, destination).shape)


def swapaxes(x: Array, first: int, second: int) -> Array:
    """Two axes exchanged."""
    return transpose(x, _axis_numbers(x.ndim).swapaxes(first, second).shape)


def matrix_transpose(x: Array) -> Array:
    """The last two axes exchanged."""
    if x.ndim < 2:
        _ = dummy(x.shape).mT  # NumPy's error
    return swapaxes(x, -1, -2)


def reshape(x: Array, *shape: Any) -> Array:
    """The entries in another shape, in their order.

    Raises:
      ValueError: NumPy's; or entries would have to move: a conversion costs a level, and has to be asked for.
    """
    target = dummy(x.shape).reshape(_one_or_many(shape)).shape
    layout = plain(x.layout)
    own = 2 * layout.diagonal  # matrices by their diagonals stay as they are
    lead, kept = x.ndim - own, len(target) - own
    axes = (
        reshape_digits(layout.axes[:lead], x.shape[:lead], target[:kept]) if target[kept:] == x.shape[lead:] else None
    )
    if axes is None:
        raise no_view("reshape", layout, f"reshape{target}", "dense")
    return view(x, replace(layout, shape=target, axes=(*axes, *layout.axes[lead:])))


def ravel(x: Array) -> Array:
    """All entries along one axis. As `reshape`."""
    return reshape(x, -1)


def squeeze(x: Array, axis: Any = None) -> Array:
    """Without axes of one entry."""
    return _change_single_axes(x, "squeeze()", dummy(x.shape).squeeze(axis).shape)


def expand_dims(x: Array, axis: Any) -> Array:
    """With more axes of one entry, as `numpy.expand_dims`."""
    return _change_single_axes(x, f"expand_dims({axis})", np.expand_dims(dummy(x.shape), axis).shape)


def broadcast_to(x: Array, *shape: Any) -> Array:
    """Repeated along new or single axes, where the array stands in copies already.

    Raises:
      ValueError: NumPy's; or there are too few copies.
    """
    target = np.broadcast_to(dummy(x.shape), _one_or_many(shape)).shape
    layout = widen(plain(x.layout), target)
    if layout is None:
        raise ValueError(
            f"broadcast_to: {x.layout} has too few copies for shape {target}; type "
            f"x.to_layout('replicated').broadcast_to({target})"
        )
    return view(x, layout)


def basic_index(x: Array, index: tuple[Any, ...]) -> Array:
    """Basic indexing by integers, slices, None and Ellipsis, which NumPy has accepted for the shape."""
    layout = plain(x.layout)
    shape: list[int] = []
    axes: list[Digits] = []
    offset, axis = layout.offset, 0
    for each in _written_out(index, x.ndim):
        if each is None:
            shape.append(1)
            axes.append(())
            continue
        size, number = x.shape[axis], not isinstance(each, slice)
        chosen = range(operator.index(each) % size, size)[:1] if number else range(size)[each]
        found = slice_digits(coalesce(layout.axes[axis], size), chosen.start, chosen.step, len(chosen))
        if found is None or (layout.diagonal and axis >= x.ndim - 2 and chosen != range(size)):
            raise no_view("x[...]", layout, "[...]")
        offset += found[0]
        if not number:
            shape.append(len(chosen))
            axes.append(found[1])
        axis += 1
    return view(x, replace(layout, shape=tuple(shape), axes=tuple(axes), offset=offset))


def view(x: Array, layout: Layout) -> Array:
    """The array in another layout of the same slots; without the ciphertexts that hold no entry of it."""
    pairs = zip(layout.axes, layout.shape, strict=True)
    axes = tuple(canonical(digits, size, layout.slots) for digits, size in pairs)
    layout, numbers = compact(replace(layout, axes=axes))
    return replace(x, ciphertext=rows(x, numbers), layout=layout)


def plain(layout: Layout) -> Layout:
    """The same without counting diagonals, where there is one row or one column."""
    return replace(layout, diagonal=False) if layout.diagonal and 1 in layout.shape[-2:] else layout


def no_view(operation: str, layout: Layout, call: str, name: str = "row") -> ValueError:
    """The error for what would have to move entries, and the layout from which it would not."""
    call = call if call.startswith("[") else f".{call}"
    return ValueError(f"{operation}: entries would have to move, out of {layout}; type x.to_layout({name!r}){call}")


def _one_or_many(arguments: tuple[Any, ...]) -> Any:
    """What NumPy's methods take either as one sequence or as several arguments."""
    return arguments[0] if len(arguments) == 1 and isinstance(arguments[0], (tuple, list)) else arguments


def _change_single_axes(x: Array, call: str, target: tuple[int, ...]) -> Array:
    """Axes of one entry put in or taken away."""
    layout = plain(x.layout)
    kept = iter([digits for digits, size in zip(layout.axes, x.shape, strict=True) if size > 1])
    axes = tuple(next(kept) if size > 1 else () for size in target)
    if layout.diagonal and target[-2:] != x.shape[-2:]:
        raise no_view(call.partition("(")[0], layout, call)
    return view(x, replace(layout, shape=target, axes=axes))


def _written_out(index: tuple[Any, ...], ndim: int) -> list[Any]:
    """An index with a slice for every axis that it leaves out."""
    rest = [slice(None)] * (ndim - sum(each is not None and each is not Ellipsis for each in index))
    place = index.index(Ellipsis) if Ellipsis in index else len(index)
    return [*index[:place], *rest, *index[place + 1 :]]


def _axis_numbers(ndim: int) -> np.ndarray:
    """An empty array, the shape of which numbers its axes."""
    return np.empty(range(ndim), np.int8)
