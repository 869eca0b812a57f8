"""Two-dimensional convolutions of encrypted images with kernels in the clear, each a single linear map."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fhejax.arrays.images.multiplexing import multiplexed, part_of_batch
from fhejax.arrays.layouts.layout import Layout, as_layout
from fhejax.arrays.layouts.maps import ArrayMap, map_of_entries
from fhejax.arrays.layouts.record import Arranged, Array, apply_map
from fhejax.errors import LevelError, static_integer
from fhejax.linear.diagonals import numbers
from fhejax.parameters.parameters import Parameters

Pair = int | Sequence[int]
Padding = str | int | Sequence[Sequence[int]]


class Window(NamedTuple):
    """How a kernel goes over an image; pairs are for height and width."""

    stride: tuple[int, int]
    padding: str | tuple[tuple[int, int], tuple[int, int]]
    dilation: tuple[int, int]
    input_dilation: tuple[int, int]
    groups: int


def conv2d(
    x: Array,
    kernel: Any,
    *,
    stride: Pair = 1,
    padding: Padding = "VALID",
    dilation: Pair = 1,
    input_dilation: Pair = 1,
    groups: int = 1,
    layout: Layout | str | None = None,
) -> Array:
    """Convolves images, as `jax.lax.conv_general_dilated` of NCHW images and an OIHW kernel.

    All images, channels and pixels at once, by one linear transform, whose plaintexts are encoded while it is applied;
    a server that meets a kernel often encodes it once, by `conv2d_map`. A bias is added behind it:
    `conv2d(x, kernel) + bias[:, None, None]`.

    Args:
      x: encrypted or simulated `[*batch, channels, height, width]`. The layout "images" suits it.
      kernel: real `[features, channels / groups, height, width]`. May be traced, so that simulated convolutions are
        trained by `jax.grad`; known zeros save work.
      stride: how many pixels the kernel goes on at a time; for both axes, or a pair.
      padding: "VALID", "SAME", "SAME_LOWER", a number of zeros for all four sides, or ((top, bottom), (left, right)).
      dilation: how far apart the kernel's taps are (`rhs_dilation`).
      input_dilation: how far apart the pixels are taken to be, with zeros between them (`lhs_dilation`): the stride of
        the convolution that this one is the transpose of. Its padding is given in numbers.
      groups: parts of the channels that are convolved by themselves (`feature_group_count`).
      layout: of the result. If None, pixels stay where they lie, further apart by the stride; channels take the places
        of the operand's, then further planes, and the gaps where that saves ciphertexts
        (`fhejax.arrays.images.multiplexing`).

    Returns:
      `[*batch, features, height, width]`. Level out: one lower. Scale out: canonical. Error added: as `fhejax.apply`.
      Keys needed: `conv2d_map(...).rotations`.

    Raises:
      LevelError: the operand is at level 0.
      TypeError: `x` is no encrypted array, the kernel holds no numbers, or a setting is of another type.
      ValueError: shapes that `jax.lax.conv_general_dilated` refuses, a result without pixels, or a setting out of
        range.
      And what `fhejax.apply` raises, for missing keys.

    Source: see `fhejax.arrays.images.multiplexing`.

    Example:
      >>> import fhejax as fhe, numpy as np
      >>> params = fhe.Parameters.for_depth(1)
      >>> x = fhe.EncryptedArray.simulate(np.arange(16.0).reshape(1, 4, 4), params, "images")
      >>> y = fhe.conv2d(x, np.ones((1, 1, 2, 2)), stride=2)
      >>> y.decrypt(None).round().tolist()
      [[[10.0, 18.0], [42.0, 50.0]]]
    """
    if not isinstance(x, Arranged):
        raise TypeError(
            f"conv2d: got {type(x).__name__} for the images; type "
            'fhejax.EncryptedArray.encrypt(seed, key, images, "images")'
        )
    window = window_of("conv2d", stride, padding, dilation, input_dilation, groups)
    return apply_map(x, convolution_map("conv2d", x.layout, kernel, window, x.params, x.level, layout, encoded=False))


def conv2d_map(
    source: Layout,
    kernel: Any,
    params: Parameters,
    level: int | None = None,
    *,
    stride: Pair = 1,
    padding: Padding = "VALID",
    dilation: Pair = 1,
    input_dilation: Pair = 1,
    groups: int = 1,
    layout: Layout | str | None = None,
    encoded: bool = True,
) -> ArrayMap:
    """A convolution, planned and encoded once: `x @ conv2d_map(x.layout, kernel, x.params, x.level)`.

    Args:
      source: the layout of the images. That of the result, for the next layer, is the map's `target`.
      kernel: as for `conv2d`.
      params: the parameter set.
      level: of the images; the top if None.
      stride, padding, dilation, input_dilation, groups, layout: as for `conv2d`.
      encoded: as for `fhejax.LinearTransform.from_matrix`.

    Raises:
      As `conv2d`.

    Example:
      >>> import fhejax as fhe, numpy as np
      >>> params = fhe.Parameters.for_depth(2)
      >>> first = fhe.conv2d_map(fhe.Layout.images((1, 8, 8), params.slots), np.ones((4, 1, 3, 3)), params, stride=2)
      >>> second = fhe.conv2d_map(first.target, np.ones((8, 4, 3, 3)), params, level=1)
      >>> second.target.shape, second.transform.plan.terms
      ((8, 1, 1), 36)
    """
    if not isinstance(source, Layout):
        raise TypeError(f"conv2d_map: got {type(source).__name__} for the layout of the images; type x.layout")
    window = window_of("conv2d_map", stride, padding, dilation, input_dilation, groups)
    return convolution_map("conv2d_map", source, kernel, window, params, level, layout, encoded)


def convolution_map(
    operation: str,
    source: Layout,
    kernel: Any,
    window: Window,
    params: Parameters,
    level: int | None,
    layout: Layout | str | None,
    encoded: bool,
) -> ArrayMap:
    """The map of a convolution, on behalf of an operation."""
    if level == 0:
        raise LevelError(
            f"{operation}: a convolution takes a level, and level 0 is the last; make parameters with more depth, such "
            f"as Parameters.for_depth({params.max_level + 1})"
        )
    kernel = numbers(operation, "kernel", kernel)
    shape = _result_shape(operation, source.shape, kernel.shape, window)
    if layout is None:
        layout = multiplexed(source, shape, tuple(zip(window.stride, window.input_dilation, strict=True)))
    target = as_layout(operation, layout, shape, source.slots)
    # Where ciphertexts hold images of their own, a map of those of one ciphertext serves all.
    own, other = part_of_batch(source), part_of_batch(target)
    if own is None or other is None or own.shape[0] != other.shape[0]:
        own, other = source, target
    entries = _entries(own.shape, kernel, other.shape, window)
    linear = map_of_entries(operation, own, other, entries, params, level, encoded)
    return dataclasses.replace(linear, source=source, target=target)


def window_of(
    operation: str, stride: Pair, padding: Padding, dilation: Pair, input_dilation: Pair, groups: int
) -> Window:
    """What was given, each as a pair of positive integers; refused otherwise."""
    pairs = {"stride": stride, "dilation": dilation, "input_dilation": input_dilation}
    checked = {name: _pair(operation, name, value) for name, value in pairs.items()}
    groups = static_integer(operation, "groups", groups)
    if groups < 1:
        raise ValueError(f"{operation}: groups = {groups}; need at least 1")
    sides = _padding(operation, padding)
    if isinstance(sides, str) and checked["input_dilation"] != (1, 1):
        raise ValueError(
            f"{operation}: padding = {padding!r} and input_dilation = {input_dilation!r}; a transposed convolution "
            "takes its padding in numbers, such as ((top, bottom), (left, right))"
        )
    return Window(checked["stride"], sides, checked["dilation"], checked["input_dilation"], groups)


def _pair(operation, name, value) -> tuple[int, int]:
    values = tuple(value) if isinstance(value, (list, tuple)) else (value, value)
    pair = tuple(static_integer(operation, name, each) for each in values)
    if len(pair) != 2 or min(pair) < 1:
        raise ValueError(f"{operation}: {name} = {value!r}; need a number of at least 1, or two of them")
    return pair[0], pair[1]


def _padding(operation, padding):
    if isinstance(padding, str):
        if padding.upper() in ("VALID", "SAME", "SAME_LOWER"):
            return padding.upper()
    elif not isinstance(padding, (list, tuple)):
        both = static_integer(operation, "padding", padding)
        return (both, both), (both, both)
    elif len(padding) == 2 and all(isinstance(side, (list, tuple)) and len(side) == 2 for side in padding):
        (top, bottom), (left, right) = ([static_integer(operation, "padding", n) for n in side] for side in padding)
        return (top, bottom), (left, right)
    raise ValueError(
        f'{operation}: padding = {padding!r}; type "VALID", "SAME", "SAME_LOWER", a number, or ((top, bottom), '
        "(left, right))"
    )


def _result_shape(operation, shape, kernel_shape, window) -> tuple[int, ...]:
    """As JAX judges."""
    if len(shape) < 3:
        raise ValueError(f"{operation}: got images of shape {shape}; need [*batch, channels, height, width]")
    convolve = functools.partial(
        jax.lax.conv_general_dilated,
        window_strides=window.stride,
        padding=window.padding,
        lhs_dilation=window.input_dilation,
        rhs_dilation=window.dilation,
        feature_group_count=window.groups,
    )
    images, kernel = (
        jax.ShapeDtypeStruct(each, jnp.float32) for each in ((math.prod(shape[:-3]), *shape[-3:]), kernel_shape)
    )
    try:
        result = jax.eval_shape(convolve, images, kernel).shape
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{operation}: images {shape}, kernel {kernel_shape}, groups {window.groups}: {error} Type a kernel of "
            f"shape (features, {shape[-3]} / groups, height, width), with features a multiple of the groups."
        ) from None
    if 0 in result:
        raise ValueError(
            f"{operation}: images {shape}, kernel {kernel_shape}: the result has the shape "
            f"{(*shape[:-3], *result[1:])}; the kernel is larger than the padded images"
        )
    return (*shape[:-3], *result[1:])


def _entries(shape, kernel, result, window) -> tuple[Any, Any, Any]:
    """What each entry of the kernel carries from each pixel to each: rows, columns, weights."""
    features, depth, *taps = kernel.shape
    padding = window.padding
    if isinstance(padding, str):
        dilated = [(size - 1) * by + 1 for size, by in zip(shape[-2:], window.input_dilation, strict=True)]
        reach = [(size - 1) * by + 1 for size, by in zip(taps, window.dilation, strict=True)]
        padding = jax.lax.padtype_to_pads(dilated, reach, window.stride, padding)
    (to_row, down, from_row), (to_column, across, from_column) = (
        _meetings(shape[axis], result[axis], taps[axis], window, axis, padding[axis][0]) for axis in (-2, -1)
    )
    # Axes: images, features, channels of a group, pairs of rows, pairs of columns.
    image = np.arange(math.prod(shape[:-3]))[:, None, None, None, None]
    feature = np.arange(features)[:, None, None, None]
    channel = feature // (features // window.groups) * depth + np.arange(depth)[:, None, None]
    rows = _flat((image, feature, to_row[:, None], to_column), result)
    columns = _flat((image, channel, from_row[:, None], from_column), shape)
    weights = kernel[:, :, down[:, None], across]
    rows, columns, weights = (
        module.broadcast_to(each, (len(image), *weights.shape)).ravel()
        for module, each in ((np, rows), (np, columns), (np if isinstance(weights, np.ndarray) else jnp, weights))
    )
    kept = np.flatnonzero(weights) if isinstance(weights, np.ndarray) else np.arange(len(rows))
    if not len(kept):  # a map of zeros
        return np.zeros(1, int), np.zeros(1, int), np.zeros(1)
    return rows[kept], columns[kept], weights[kept]


def _meetings(size, result, taps, window, axis, low):
    """Which pixel of the result meets which of the image under which tap, along one axis."""
    to, tap = np.indices((result, taps)).reshape(2, -1)
    place = to * window.stride[axis] + tap * window.dilation[axis] - low
    start, between = np.divmod(place, window.input_dilation[axis])
    kept = (between == 0) & (start >= 0) & (start < size)
    return to[kept], tap[kept], start[kept]


def _flat(indices, shape):
    """The flat index of image, channel, row and column."""
    image, channel, row, column = indices
    return ((image * shape[-3] + channel) * shape[-2] + row) * shape[-1] + column
