"""Where the pixels and channels of a convolution's result lie: multiplexed, so that strided layers stay dense.

A pixel of the result lies where that pixel of the operand lay which it stands on, so that each tap of the kernel is one
step for all pixels. With a stride this leaves gaps. Channels go, in this order,

    1. to the places of the operand's channels,
    2. to further planes behind them, up to the end of the ciphertext,
    3. where they would take more ciphertexts otherwise, into the gaps: as few as save a ciphertext.

Here an image of one channel and 4 x 4 pixels in 16 slots, and what two convolutions with stride 2 make of it. A letter
is a channel, a digit a pixel, row after row; `.` is free.

    a0 a1 a2 a3        a0 b0 a1 b1        a0 b0 e0 f0
    a4 a5 a6 a7        c0 d0 c1 d1        c0 d0 g0 h0
    a8 a9 aA aB        a2 b2 a3 b3         . . .
    aC aD aE aF        c2 d2 c3 d3         . . .

With 64 slots or more there is room for four planes, and the first result lies in them, with gaps: fewer pairs of
channels are then at different distances, which is fewer diagonals.

Source: Lee et al., "Low-Complexity Deep Convolutional Neural Networks on Fully Homomorphic Encryption Using Multiplexed
Parallel Convolutions", 2022, section 4; one linear map for the convolution and the packing: Ebel, Garimella & Reagen,
"Orion: A Fully Homomorphic Encryption Framework for Deep Learning", 2025, section 5.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from fhejax.arrays.layouts.axis_digits import coalesce
from fhejax.arrays.layouts.layout import Digit, Digits, Layout, nest, padded_size, split_at


def multiplexed(source: Layout, shape: Sequence[int], strides: Sequence[tuple[int, int]]) -> Layout:
    """The layout of a convolution's result: see above; `strides` are fractions of the operand's pixels.

    Axes nested in the order of the operand's, where its pixels lie too irregularly, or the result's leave their rows.
    """
    part = part_of_batch(source)
    if part is not None:
        own = multiplexed(part, (part.shape[0], *shape[1:]), strides)
        groups = Digit(source.axes[0][0].size, own.ciphertexts * own.slots)
        return replace(own, shape=tuple(shape), axes=((groups, *own.axes[0]), *own.axes[1:]))
    *batch, channels, height, width = map(coalesce, source.axes, source.shape)
    pixels = [_strided_axis(*each) for each in zip((height, width), shape[-2:], strides, strict=True)]
    if None in pixels:
        return _plain(source, shape)
    pixels = [axis for axis in pixels if axis is not None]
    fixed = [digit for axis in (*batch, *pixels) for digit in axis]
    plane = _plane(channels, [*height, *width], [digit for axis in batch for digit in axis])
    inner = [digit for digit in fixed if digit.stride < plane]
    outer = [digit.stride // plane for digit in fixed if digit.stride >= plane]
    gaps = [digit for digit in channels if digit.stride < plane]
    order = sorted([*inner, *gaps], key=lambda digit: digit.stride)
    if (
        source.diagonal
        or min(digit.stride for digit in (Digit(1, 1), *fixed, *channels)) < 1
        or any(digit.stride >= plane for axis in pixels for digit in axis)
        or any(low.size * low.stride > high.stride for low, high in itertools.pairwise([*order, Digit(1, plane)]))
        or any(source.slots % digit.stride for digit in order if digit.size * digit.stride > source.slots)
        or (plane > source.slots and plane % source.slots)
    ):
        return _plain(source, shape)
    room = min(outer, default=None)
    places = _places(shape[-3], plane, gaps, _free(order, plane), source.slots, room)
    if places is None:
        return _plain(source, shape)
    planes, *_ = places
    period = padded_size(planes.size) * plane
    around = room is None and _wraps_around(source, plane, channels)
    copies = (Digit(source.slots // period, period),) if around and period < source.slots else ()
    split = [tuple(part for digit in axis for part in split_at(digit, source.slots)) for axis in (places, *pixels)]
    return Layout(tuple(shape), (*source.axes[:-3], *split), source.slots, copies=copies)


def part_of_batch(layout: Layout) -> Layout | None:
    """The layout of the images in the first ciphertexts, if all others have theirs in the same places; else None."""
    if len(layout.shape) < 4 or not layout.axes[0] or layout.diagonal or layout.offset:
        return None
    (groups, reach), *rest = layout.axes[0]
    images = math.prod(digit.size for digit in rest)
    part = Layout((images, *layout.shape[1:]), (tuple(rest), *layout.axes[1:]), layout.slots, copies=layout.copies)
    alike = reach == part.ciphertexts * layout.slots and layout.ciphertexts == groups * part.ciphertexts
    return part if alike and images * groups >= layout.shape[0] else None


def _strided_axis(axis: Digits, size: int, stride: tuple[int, int]) -> Digits | None:
    """A pixel axis of the result; None where no single digit does."""
    if size == 1:
        return ()
    if len(axis) != 1 or axis[0].stride * stride[0] % stride[1]:
        return None
    return (Digit(size, axis[0].stride * stride[0] // stride[1]),)


def _end(digit: Digit) -> int:
    return padded_size(digit.size) * digit.stride


def _plane(channels: Digits, pixels: Sequence[Digit], batch: Sequence[Digit]) -> int:
    """How far apart the planes of the operand are."""
    end = max(map(_end, pixels), default=0)
    if channels and channels[0].stride >= end:
        return channels[0].stride
    return end or max(map(_end, batch), default=1)


def _free(order: Sequence[Digit], plane: int) -> list[Digit]:
    """The gaps between digits, the nearest first."""
    ends = [1, *map(_end, order)]
    strides = [*(digit.stride for digit in order), plane]
    return [Digit(stride // end, end) for end, stride in zip(ends, strides, strict=True) if stride >= 2 * end]


def _places(
    channels: int, plane: int, gaps: Digits | list[Digit], free: list[Digit], slots: int, room: int | None
) -> Digits | None:
    """The digits of the channels; None where there is no room for them."""
    inside = math.prod(digit.size for digit in gaps)
    most = inside * math.prod(digit.size for digit in free)

    def cost(shared: int) -> int:
        """How many ciphertexts, or how much more than there is room for."""
        planes = -(-channels // shared)
        return -(-planes * plane // slots) if room is None else max(planes, room)

    if room is not None and -(-channels // most) > room:
        return None
    shared, taken = inside, []
    for gap in free:
        # Of a gap as much as saves something, and of that the part next to the pixels above it.
        sizes = [size for size in range(1, gap.size + 1) if size == gap.size or gap.size % size == 0]
        best = min(sizes, key=lambda size: (cost(shared * size), size))
        if best > 1 and cost(shared * best) < cost(shared):
            taken.append(Digit(best, gap.stride * (gap.size // best)))
            shared *= best
    return (Digit(-(-channels // shared), plane), *reversed(taken), *gaps)


def _wraps_around(source: Layout, plane: int, channels: Digits) -> bool:
    """Whether behind the operand's last plane, wherever it lies in the slots, stands its first one."""
    copies = source.copy_offsets()
    span = source.slots // len(copies)
    planes = channels[0].size if channels and channels[0].stride == plane else 1
    return copies.tolist() == [*range(0, source.slots, span)] and padded_size(planes) * plane == span


def _plain(source: Layout, shape: Sequence[int]) -> Layout:
    """The axes nested as they are in the operand, each padded to a power of two."""
    far = [-max((digit.stride for digit in digits), default=0) for digits in source.axes]
    order = sorted(range(len(shape)), key=far.__getitem__)
    return Layout(tuple(shape), nest(shape, order, source.slots, 1), source.slots)
