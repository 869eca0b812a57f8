"""Average pooling of encrypted images."""

from typing import Any

import numpy as np

from fhejax.arrays.images.convolutions import Padding, Pair, convolution_map, window_of
from fhejax.arrays.layouts.layout import Layout
from fhejax.arrays.layouts.maps import ArrayMap
from fhejax.arrays.layouts.record import Arranged, Array, apply_map
from fhejax.errors import static_integer
from fhejax.parameters.parameters import Parameters


def avg_pool(
    x: Array,
    window: Pair,
    stride: Pair | None = None,
    padding: Padding = "VALID",
    *,
    layout: Layout | str | None = None,
) -> Array:
    """The mean of each window of pixels; those of the padding count as zeros, as in `flax.linen.avg_pool`.

    It is a convolution and takes a level. In front of another linear layer it can be taken into its kernel: pooling
    by `w` and then a matrix is one matrix, with the columns repeated and divided by `w**2`. The mean of all pixels,
    `x.mean((-2, -1))`, takes no rotation keys but those of powers of two.

    Args:
      x: encrypted or simulated `[*batch, channels, height, width]`.
      window: height and width, or one number for both.
      stride: how many pixels the window goes on at a time; the window's size if None.
      padding, layout: as for `fhejax.conv2d`.

    Returns:
      `[*batch, channels, height, width]`. Level out: one lower. Otherwise as `fhejax.conv2d`.

    Raises:
      As `fhejax.conv2d`.

    Example:
      >>> import fhejax as fhe, numpy as np
      >>> params = fhe.Parameters.for_depth(1)
      >>> x = fhe.EncryptedArray.simulate(np.arange(16.0).reshape(1, 4, 4), params, "images")
      >>> fhe.avg_pool(x, 2).decrypt(None).round(1).tolist()
      [[[2.5, 4.5], [10.5, 12.5]]]
    """
    if not isinstance(x, Arranged):
        raise TypeError(
            f"avg_pool: got {type(x).__name__} for the images; type "
            'fhejax.EncryptedArray.encrypt(seed, key, images, "images")'
        )
    return apply_map(x, _pooling("avg_pool", x.layout, window, stride, padding, x.params, x.level, layout, False))


def avg_pool_map(
    source: Layout,
    window: Pair,
    params: Parameters,
    level: int | None = None,
    *,
    stride: Pair | None = None,
    padding: Padding = "VALID",
    layout: Layout | str | None = None,
    encoded: bool = True,
) -> ArrayMap:
    """Average pooling, planned and encoded once: `x @ avg_pool_map(x.layout, 2, x.params, x.level)`.

    Args:
      source, params, level, encoded: as for `fhejax.conv2d_map`.
      window, stride, padding, layout: as for `avg_pool`.

    Raises:
      As `avg_pool`.
    """
    if not isinstance(source, Layout):
        raise TypeError(f"avg_pool_map: got {type(source).__name__} for the layout of the images; type x.layout")
    return _pooling("avg_pool_map", source, window, stride, padding, params, level, layout, encoded)


def _pooling(operation, source, window, stride, padding, params, level, layout, encoded):
    sizes = tuple(window) if isinstance(window, (list, tuple)) else (window, window)
    sizes = [static_integer(operation, "window", size) for size in sizes]
    if len(sizes) != 2 or min(sizes) < 1:
        raise ValueError(f"{operation}: window = {window!r}; need a number of at least 1, or two of them")
    channels = source.shape[-3] if len(source.shape) >= 3 else 1
    kernel: Any = np.full((channels, 1, *sizes), 1 / (sizes[0] * sizes[1]))
    moves = window_of(operation, sizes if stride is None else stride, padding, 1, 1, channels)
    return convolution_map(operation, source, kernel, moves, params, level, layout, encoded)
