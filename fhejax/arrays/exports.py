"""Encrypted arrays and their maps in exported programs: layouts as bytes for `jax.export`."""

import math
from typing import Any

import jax.export

from fhejax.arrays.array import EncryptedArray
from fhejax.arrays.layouts.layout import Digit, Layout
from fhejax.arrays.layouts.maps import ArrayMap
from fhejax.serialization import headers

# A program from elsewhere names no larger arrays than this: their places are computed when it is read.
_MOST_ENTRIES = 1 << 32


def write_layouts(kind: str, layouts: tuple[Layout, ...]) -> bytes:
    """The static fields of an array or a map as a header."""
    described = [write_layout(layout) for layout in layouts]
    return headers.seal({"format": headers.FORMAT, "kind": kind, "layouts": described}).encode()


def read_layouts(kind: str, count: int, text: bytes | bytearray) -> tuple[Layout, ...]:
    """The layouts in a header, each checked.

    Raises:
      ValueError: it is damaged, or holds something else.
    """
    header = headers.unseal(bytes(text).decode())
    records = headers.field(header, "layouts", list)
    if header.get("kind") != kind or len(records) != count or not all(isinstance(each, dict) for each in records):
        raise ValueError(
            f"the header holds {len(records)} layouts of {header.get('kind')!r:.40}; expected {count} of {kind}"
        )
    return tuple(read_layout(record) for record in records)


def write_layout(layout: Layout) -> dict[str, Any]:
    """A layout as part of a header."""
    names = ("shape", "axes", "slots", "offset", "copies", "diagonal")
    return {name: getattr(layout, name) for name in names}


def read_layout(record: dict[str, Any]) -> Layout:
    """The layout in a part of a header.

    Raises:
      ValueError: there is none.
    """
    shape, axes = headers.field(record, "shape", list), headers.field(record, "axes", list)
    slots, offset = headers.field(record, "slots", int), headers.field(record, "offset", int)
    if not all(type(size) is int and size > 0 for size in shape) or math.prod(shape) > _MOST_ENTRIES:
        raise ValueError(f"header field 'shape' is {shape!r:.60}; expected positive integers")
    if len(axes) != len(shape) or slots < 1 or slots & (slots - 1):
        raise ValueError(f"a layout of {len(axes)} axes and {slots} slots; expected {len(shape)} and a power of two")
    digits = [_digits(each) for each in axes]
    copies = _digits(headers.field(record, "copies", list))
    for size, own in zip(shape, digits, strict=True):
        if math.prod(digit.size for digit in own) < size:
            raise ValueError(f"a layout of digits {own} for {size} entries")
    lowest = offset + sum(min(0, (size - 1) * by) for own in digits for size, by in own)
    reach = sum((size - 1) * by for size, by in copies)
    # Without the third condition there could be far more copies than slots.
    if lowest < 0 or reach >= slots or math.prod(size for size, _ in copies) > slots or any(by < 1 for _, by in copies):
        raise ValueError(f"a layout that reaches to {lowest}, with copies {copies} in {slots} slots")
    diagonal = headers.field(record, "diagonal", bool)
    if diagonal and len(shape) < 2:
        raise ValueError(f"diagonals of an array of shape {shape}")
    return Layout(tuple(shape), tuple(digits), slots, offset, copies, diagonal)


def _digits(record: Any) -> tuple[Digit, ...]:
    pairs = record if isinstance(record, list) else [record]
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(each) is int for each in pair) and pair[0] > 0):
            raise ValueError(f"a digit of a layout is {pair!r:.60}; expected a size and a stride")
        if pair[1] == 0:
            raise ValueError("a digit of a layout has stride 0")
    return tuple(Digit(*pair) for pair in pairs)


def _register(kind: type, count: int) -> None:
    name = kind.__name__
    jax.export.register_pytree_node_serialization(
        kind,
        serialized_name=f"fhejax.{name}",
        serialize_auxdata=lambda layouts: write_layouts(name, layouts),
        deserialize_auxdata=lambda text: read_layouts(name, count, text),
    )


_register(EncryptedArray, 1)
_register(ArrayMap, 2)
