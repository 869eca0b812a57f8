"""The words that `handlers.py` states handlers in, and what follows from a statement in Python.

Sizes are expressions of named dimensions, in what Python and C++ have in common: `+ - * % ( )`, comparisons, `or`,
`max(a, b)`, `ceiling(a, b)` (the quotient, rounded up) and `broadcast(a, b)` (b where a is 1). Each axis of an array is
such an expression: a name that stands alone and is new gets the axis's size; every other must equal it.

`key_limbs>=limbs` is a name for an axis of at least so many; `2|seeded` an axis that is left out if `seeded` is not 0.
"""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

DEGREES = (2, 1 << 20)  # of rings: powers of two
PRIMES = (5, 1 << 61)  # moduli: odd primes from the first to before the second
MOST_NUMBERS = 1 << 12  # of an attribute, and arrays of one name


@dataclasses.dataclass(frozen=True)
class Array:
    """An operand or a result: batch axes, and axes of its own.

    Attributes:
      name: in C++.
      axes: its own ones. `N` is the degree of a ring, a power of two.
      dtype: of its elements.
      repeats: how many of them there are, if not one; each with the same axes.
    """

    name: str
    axes: str
    dtype: str = "uint64"
    repeats: str | None = None


@dataclasses.dataclass(frozen=True)
class Key:
    """A switching key, of this level or a higher one: full, or seeded, its residues and `uint32[*batch, 8]`.

    It fits the dimensions `digits`, `limbs`, `specials` and `N`.
    """

    name: str = "key"
    repeats: str | None = None


FULL_KEY = "digits_of_key>=digits 2 limbs_of_key>=limbs+specials N"
SEEDED_KEY = "digits_of_key>=digits limbs_of_key>=limbs+specials N"


@dataclasses.dataclass(frozen=True)
class Moduli:
    """Primes, `count` of them.

    Attributes:
      count: a name for how many, or the only number that there may be.
      transforms: whether each is 1 modulo 2N.
    """

    name: str
    count: str
    transforms: bool = False
    least: int = 1


@dataclasses.dataclass(frozen=True)
class Integer:
    """An `int64` of this range, and a dimension of this name."""

    name: str
    least: int
    most: int


@dataclasses.dataclass(frozen=True)
class Element:
    """A galois element: an `int64`, odd and below 2N."""

    name: str = "element"


@dataclasses.dataclass(frozen=True)
class Integers:
    """Unsigned integers, `count` of them, each at least `least` and below `below`.

    Attributes:
      elements: a name for how many different ones there are besides 1. They are galois elements: odd, below 2N.
      total: a name for their sum.
    """

    name: str
    count: str
    least: int = 0
    below: str | None = None
    elements: str | None = None
    total: str | None = None


@dataclasses.dataclass(frozen=True)
class Thresholds:
    """Of a Gaussian: for each the upper and the lower 64 bits. `thresholds` is how many, fewer than any modulus."""

    name: str = "thresholds"


@dataclasses.dataclass(frozen=True)
class Scale:
    """A positive finite `float64`."""

    name: str = "scale"


@dataclasses.dataclass(frozen=True)
class Places:
    """The product of the moduli below each, `float64[limbs]`."""

    name: str = "places"


@dataclasses.dataclass(frozen=True)
class Region:
    """A part of the workspace of the CUDA handler, in 64-bit words, behind the one before.

    Attributes:
      words: how many.
      over: the region where it begins instead, if `over_if`.
    """

    name: str
    words: str
    over: str | None = None
    over_if: str = "1"


Attribute = Moduli | Integer | Element | Integers | Thresholds | Scale | Places


@dataclasses.dataclass(frozen=True)
class Handler:
    """One FFI handler, of the CPU and of CUDA alike.

    Dimensions are those of attributes, `where`, those of operands and of results, in this order. `<name>_entries` is
    the product of an array's own batch axes (of all together, if it repeats, and `<name>_most` the largest); `seeds`,
    the most that a seeded key has; `batch`, the product of the common batch axes, which every result has.

    Attributes:
      name: of the primitive.
      where: dimensions that follow from attributes.
      needs: conditions on dimensions.
      distinct: attributes whose moduli differ, all together.
      version: a change of operands, attributes or results takes a new one. Exported programs and cached executables
        refer to handlers by name.
    """

    name: str
    operands: tuple[Array | Key, ...]
    attributes: tuple[Attribute, ...]
    results: tuple[Array, ...]
    workspace: tuple[Region, ...] = ()
    where: Mapping[str, str] = dataclasses.field(default_factory=dict)
    needs: tuple[str, ...] = ()
    distinct: tuple[str, ...] = ()
    version: int = 1

    @property
    def target(self) -> str:
        """The name under which XLA knows it."""
        return f"fhejax_{self.name}_v{self.version}"

    def attribute_values(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes of a call, from parameters of these names."""
        return {each.name: _value(each, parameters[each.name]) for each in self.attributes}

    def workspace_words(self, operands: Sequence[Any], results: Sequence[Any], values: Mapping[str, Any]) -> int:
        """How many 64-bit words the CUDA handler works in, for arrays with a shape and a dtype."""
        sizes, starts, end = self.dimensions(operands, results, values), {}, 0
        for region in self.workspace:
            shares = region.over is not None and evaluate(region.over_if, sizes)
            starts[region.name] = starts[region.over] if shares else end
            end = max(end, starts[region.name] + evaluate(region.words, sizes))
        return end

    def dimensions(self, operands: Sequence[Any], results: Sequence[Any], values: Mapping[str, Any]) -> dict[str, int]:
        """The sizes of all dimensions in a call.

        Raises:
          ValueError: an axis has another size than stated, or an array is missing or left over.
        """
        sizes = _sizes_of_attributes(self.attributes, values)
        sizes["operands"], sizes["seeds"] = len(operands), 0
        sizes |= {name: evaluate(text, sizes) for name, text in self.where.items()}
        taken = _Arrays(self.target, sizes)
        for stated, given in ((self.operands, operands), (self.results, results)):
            taken.take(stated, given)
        return sizes


class _Arrays:
    """Takes the arrays of a call one by one, and fills `sizes`."""

    def __init__(self, target, sizes):
        self.target, self.sizes = target, sizes

    def take(self, stated, given):
        rest = list(given)
        for each in stated:
            count = 1 if each.repeats is None else evaluate(each.repeats, self.sizes)
            entries = [self._take_one(each, rest) for _ in range(count)]
            self.sizes[f"{each.name}_entries"] = sum(entries)
            self.sizes[f"{each.name}_most"] = max(entries, default=0)
        if rest:
            raise ValueError(f"{self.target}: {len(rest)} arrays are left over")

    def _take_one(self, each, rest):
        if not rest:
            raise ValueError(f"{self.target}: {each.name} is missing")
        array, axes = rest.pop(0), each.axes if isinstance(each, Array) else None
        if axes is None:
            seeded = bool(rest) and rest[0].dtype == np.uint32
            axes = SEEDED_KEY if seeded else FULL_KEY
            if seeded:
                self.sizes["seeds"] = max(self.sizes["seeds"], self._match(each.name, rest.pop(0), "8"))
        entries = self._match(each.name, array, axes)
        if each.name == "out":
            self.sizes["batch"] = entries
        return entries

    def _match(self, name, array, axes):
        """The product of the batch axes."""
        own = [axis for axis in map(parse_axis, axes.split()) if not (axis.unless and self.sizes[axis.unless])]
        batch = len(array.shape) - len(own)
        if batch < 0:
            raise ValueError(f"{self.target}: {name} has shape {array.shape}; its own axes are {axes}")
        for axis, size in zip(own, array.shape[batch:], strict=True):
            if axis.name and (axis.or_more or axis.name not in self.sizes):
                self.sizes[axis.name] = size
            wanted = evaluate(axis.size, self.sizes) if axis.size else self.sizes[axis.name]
            if size < wanted or (size > wanted and not axis.or_more):
                raise ValueError(f"{self.target}: {name} has shape {array.shape}; its own axes are {axes}")
        return math.prod(array.shape[:batch])


@dataclasses.dataclass(frozen=True)
class Axis:
    """An axis as it is stated: a name that it may give, the size that it has or, with `or_more`, the least one."""

    name: str | None
    size: str | None
    or_more: bool
    unless: str | None


def parse_axis(text: str) -> Axis:
    """An axis from its text, which has no blanks."""
    text, _, unless = text.partition("|")
    name, more, least = text.partition(">=")
    if more:
        return Axis(name, least, True, unless or None)
    name, equal, size = text.partition("=")
    if equal:
        return Axis(name, size, False, unless or None)
    return Axis(text, None, False, None) if text.isidentifier() else Axis(None, text, False, unless or None)


def ceiling(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def broadcast(a: int, b: int) -> int:
    """What axes of two sizes have together."""
    return b if a == 1 else a


_FUNCTIONS = {"max": max, "ceiling": ceiling, "broadcast": broadcast}


def evaluate(text: str, sizes: Mapping[str, int]) -> int:
    """The value of an expression; a dimension that no array has is 0."""
    return int(eval(text, {"__builtins__": {}}, {**dict.fromkeys(names_in(text), 0), **_FUNCTIONS, **sizes}))


def names_in(text: str) -> list[str]:
    """The dimensions of an expression."""
    return [name for name in re.findall(r"[A-Za-z_]\w*", text) if name not in _FUNCTIONS and name != "or"]


def _sizes_of_attributes(attributes, values):
    sizes = {}
    for each in attributes:
        value = values[each.name]
        if isinstance(each, Integer | Element):
            sizes[each.name] = int(value)
        elif isinstance(each, Moduli | Integers) and each.count.isidentifier():
            sizes[each.count] = len(value)
        if isinstance(each, Integers) and each.elements:
            sizes[each.elements] = len(set(map(int, value)) - {1})
    return sizes


def _value(stated, value):
    if isinstance(stated, Integer | Element):
        return np.int64(value)
    if isinstance(stated, Scale):
        return np.float64(value)
    return np.asarray(value, np.float64 if isinstance(stated, Places) else np.uint64)
