"""Products of two encrypted matrices, planned: which maps and rotations they take, and the maps encoded.

See `fhejax.arrays.products.ciphertext_products` for the method.
"""

import functools
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import jax
import numpy as np

from fhejax.arrays.layouts.layout import Digit, Digits, Layout
from fhejax.arrays.layouts.maps import map_of_entries, nearest_copies
from fhejax.arrays.layouts.shapes import flat_indices, matmul_shape
from fhejax.arrays.products.grids import (
    Grid,
    beside_grid,
    first_entries,
    inside,
    natural_grid,
    plain_grid,
    row_steps,
    second_entries,
)
from fhejax.errors import LevelError
from fhejax.linear.plan import Plan
from fhejax.linear.transform import LinearTransform
from fhejax.parameters.parameters import Parameters
from fhejax.scheme.values import Pickled

_STATIC = {"static": True}
# Plaintexts of the second map up to this are taken rather than a level.
_DIRECT_BYTES = 1 << 27


class ProductPlan(NamedTuple):
    """What a product of encrypted matrices costs.

    Attributes:
      depth: levels.
      before: how y is laid out first; None if it is not.
      first, second: the maps that make the factors, of x and of y.
      blocks: first factors that are rotated, and their rotations.
      steps: those rotations.
      back: the rotation that brings the far products where they belong; 0 if there are none.
      products: raw products of ciphertexts.
    """

    depth: int
    before: Plan | None
    first: Plan
    second: Plan
    blocks: int
    steps: tuple[int, ...]
    back: int
    products: int

    @property
    def rotations(self) -> tuple[int, ...]:
        """The steps that need a key."""
        steps = {*self.steps, self.back, *self.first.rotations, *self.second.rotations}
        return tuple(sorted((steps | set(self.before.rotations if self.before else ())) - {0}))

    @property
    def hoisted(self) -> int:
        """Key switches of the maps that share their ModUp and need no ModDown."""
        return sum(plan.hoisted for plan in (self.before, self.first, self.second) if plan)

    @property
    def switched(self) -> int:
        """Key switches of inner sums of the maps."""
        return sum(plan.switched for plan in (self.before, self.first, self.second) if plan)

    @property
    def rotated(self) -> int:
        """Other rotations: those of the first factors, hoisted, with a ModDown each; and the last one."""
        return self.blocks * len(self.steps) + (self.back != 0)

    @property
    def relinearizations(self) -> int:
        """Key switches of sums of raw products."""
        return 1 + (self.back != 0)

    @property
    def key_switches(self) -> int:
        """All of them."""
        return self.hoisted + self.switched + self.rotated + self.relinearizations

    def __repr__(self) -> str:
        return (
            f"ProductPlan(depth={self.depth}, key switches={self.hoisted} hoisted + {self.switched} + {self.rotated} "
            f"rotations + {self.relinearizations} relinearizations, {self.products} products)"
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class MatrixProduct(Pickled):
    """A product of encrypted matrices of two layouts, planned and encoded once: `ciphertext_product(x, y, prepared)`.

    Made by `matrix_product`. Give it to jitted functions as an argument: what they close over becomes a constant of the
    program.

    Attributes:
      before: how y is laid out first, or None.
      first, second: the maps that make the factors.
      x, y: the layouts of the operands.
      target: the layout of the product.
      grid: where it is computed.
      level: of the operands.
      flipped: whether it is made as (y.T @ x.T).T.
    """

    before: LinearTransform | None
    first: LinearTransform
    second: LinearTransform
    x: Layout = field(metadata=_STATIC)
    y: Layout = field(metadata=_STATIC)
    target: Layout = field(metadata=_STATIC)
    grid: Grid = field(metadata=_STATIC)
    level: int = field(metadata=_STATIC)
    flipped: bool = field(metadata=_STATIC, default=False)

    @property
    def plan(self) -> ProductPlan:
        """What it costs."""
        grid, before = self.grid, self.before
        steps = tuple(step * grid.stride for step in range(1, grid.steps))
        far = any(far for _, far in grid.parts())
        back = -grid.row % grid.slots if far else 0
        depth = 2 + (before is not None)
        own = None if before is None else before.plan
        return ProductPlan(depth, own, self.first.plan, self.second.plan, grid.blocks, steps, back, len(grid.parts()))

    @property
    def rotations(self) -> tuple[int, ...]:
        """The steps that need a key."""
        return self.plan.rotations

    def __repr__(self) -> str:
        return f"MatrixProduct({self.x} @ {self.y} -> {self.target}, level={self.level}, {self.plan})"


def matrix_product(
    x: Layout, y: Layout, params: Parameters, level: int | None = None, *, encoded: bool = True
) -> MatrixProduct:
    """Plans a product of encrypted matrices, and encodes what it takes.

    Args:
      x, y: layouts of the operands, `[*batch, n, m]` and `[*batch, m, p]`; batches are broadcast as in NumPy, and those
        that count ciphertexts do so in both alike.
      params: the parameter set.
      level: the lower one of the operands'; the top if None.
      encoded: as for `fhejax.LinearTransform.from_matrix`; False is enough for looking at `.plan`.

    Raises:
      LevelError: there are not `plan.depth` levels.
      ValueError: shapes that do not fit, in NumPy's words; or matrices that do not fit a ciphertext.

    Example:
      >>> import fhejax as fhe
      >>> from fhejax.arrays.products.plans import matrix_product
      >>> params = fhe.Parameters.for_depth(2, log_degree=9, security=None)
      >>> a = fhe.Layout.replicated((16, 16), params.slots)
      >>> matrix_product(a, a, params, encoded=False).plan
      ProductPlan(depth=2, key switches=22 hoisted + 3 + 16 rotations + 2 relinearizations, 31 products)
    """
    level = params.fresh_level if level is None else level
    prepared = _plan_once(x, y, params, level)
    if not encoded:
        return prepared
    before = None if prepared.before is None else prepared.before.encoded()
    return replace(prepared, before=before, first=prepared.first.encoded(), second=prepared.second.encoded())


def plan_product(x: Layout, y: Layout, params: Parameters, level: int) -> MatrixProduct:
    """The product with numbers that are not encoded yet: known ones, also while a program is traced."""
    with jax.ensure_compile_time_eval():
        return _plan_batch(x, y, params, level)


_plan_once = functools.lru_cache(maxsize=16)(plan_product)


def _plan_batch(x, y, params, level):
    shape = matmul_shape(x.shape, y.shape)
    one, other = inside("x", x, len(shape)), inside("y", y, len(shape))
    counting = _shared_digits(one.counting, other.counting, x, y)
    sizes = _sizes(one.layout.shape[:-2], other.layout.shape[:-2], x, y)
    own, inner = (*sizes, *shape[-2:]), x.shape[-1]
    # The two ways, each with its first operand.
    ways = [(_way(one.layout, other.layout, own, inner, params), one.layout, own, False)]
    if not (x.diagonal or y.diagonal):
        first, second, back = _transpose(other.layout), _transpose(one.layout), (*sizes, *shape[:-3:-1])
        ways.append((_way(first, second, back, inner, params), first, back, True))
    # Diagonals say roughly what key switches there are, so the transposes have to have far fewer.
    fitting = [
        (way.depth, way.terms << flipped, way, *rest, flipped) for way, *rest, flipped in ways if way is not None
    ]
    if not fitting:
        raise ValueError(
            f"matmul: a product of matrices ({own[-2]}, {inner}) and ({inner}, {own[-1]}) of a batch {sizes} has no "
            f"room in the {x.slots} slots of a ciphertext; cut the matrices into blocks, x[..., :a, :b] @ "
            "y[..., :b, :c], lay the batch out with a ciphertext a member, or take a larger ring"
        )
    _, _, way, first, own, flipped = min(fitting, key=lambda each: each[:2])
    made = _plan_members(first, way, own, inner, params, level)
    if flipped:
        made = replace(made, target=_transpose(made.target), flipped=True)
    axes = tuple((*outer, *digits) for outer, digits in zip((*counting, (), ()), made.target.axes, strict=True))
    return replace(made, x=x, y=y, target=replace(made.target, shape=shape, axes=axes))


class _Way(NamedTuple):
    """How a product is made."""

    depth: int
    terms: int  # diagonals of the two maps
    grid: Grid
    before: Layout | None  # where y comes from, if it is laid out first
    y: Layout


def _way(x: Layout, y: Layout, shape: tuple[int, ...], inner: int, params: Parameters) -> _Way | None:
    """The cheapest way for operands inside one ciphertext; None where there is no room."""
    grid, where, terms = natural_grid(y, shape[-2], shape[:-2]), y, 0
    if grid is None:
        found = _grid(y, shape, inner, params)
        if found is None:
            return None
        grid, where, terms = found
    to, start = first_entries(grid, x, shape, inner)
    target = _first_layout(grid, shape, grid.slots)
    steps = (x.positions().ravel()[start] - target.positions().ravel()[to]) % grid.slots
    moved = where is not y
    return _Way(2 + moved, terms + len(np.unique(steps)), grid, y if moved else None, where)


def _plan_members(x, way, shape, inner, params, level):
    """The product inside one ciphertext."""
    if level < way.depth:
        raise LevelError(
            f"matmul: the product of {x} and {way.before or way.y} takes {way.depth} levels, and there are {level}; "
            f"make parameters with more depth, such as Parameters.for_depth({params.max_level + way.depth - level}), "
            "or bootstrap before it"
        )
    grid, own = way.grid, level - (way.before is not None)
    before = None if way.before is None else _layout_map(way.before, way.y, params, level)
    natural = natural_grid(way.y, shape[-2], shape[:-2]) is not None
    period = _period(grid, shape, natural)
    target = grid.layout(shape, period)
    first = _first(grid, x, shape, inner, period, params, own)
    second = _second(grid, way.y, target, inner, natural, params, own)
    return MatrixProduct(before, first, second, x, way.y, target, grid, level)


def _first_layout(grid, shape, period):
    """Where the first factors lie, `[blocks, *batch, rows, grid.columns]`."""
    blocks = grid.layout((*shape[:-1], grid.columns), period)
    counting = (Digit(grid.blocks, grid.slots),) if grid.blocks > 1 else ()
    return replace(blocks, shape=(grid.blocks, *blocks.shape), axes=(counting, *blocks.axes))


def _first(grid, x, shape, inner, period, params, level):
    """The map to the first factors."""
    target = _first_layout(grid, shape, period)
    to, start = first_entries(grid, x, shape, inner)
    return map_of_entries("matmul", x, target, (to, start, np.ones(len(to))), params, level, False).transform


def _second(grid, y, target, inner, natural, params, level):
    """The map to the second factors."""
    slots = grid.slots
    if natural:
        part, to, start = row_steps(grid, slots)
    else:
        part, to, start = second_entries(grid, y, target, inner)
        again = target.copy_offsets()[:, None]
        part, start = (np.tile(each, len(again)) for each in (part, start))
        to = ((to + again) % slots).ravel()
        start = nearest_copies(start, to, y)
    shape = (len(grid.parts()) * slots, slots)
    return LinearTransform.from_entries(
        part * slots + to, start, np.ones(len(to)), params, level, slots=slots, shape=shape, encoded=False
    )


def _layout_map(y, target, params, level):
    """The map of y to another layout inside a ciphertext, along new batch axes too."""
    numbers = np.broadcast_to(flat_indices(y.shape), target.shape).ravel()
    entries = np.arange(len(numbers)), numbers, np.ones(len(numbers))
    return map_of_entries("matmul", y, target, entries, params, level, False).transform


def _grid(y: Layout, shape: tuple[int, ...], inner: int, params: Parameters) -> tuple[Grid, Layout, int] | None:
    """The grid for a y that is not natural, where y is to be, as it is or laid out first, and its map's diagonals."""
    plain = plain_grid(shape, inner, y.slots)
    if plain is None:
        return None
    target = plain.layout((*shape[:-2], inner, shape[-1]), plain.inner * plain.row)
    direct = beside_grid(y, shape[-2], shape[:-2]) or plain
    place = direct.layout(shape, _period(direct, shape, False))
    part, to, start = second_entries(direct, y, place, inner)
    moved = np.broadcast_to(y.positions(), target.shape).ravel()
    # What the plaintexts take; where every ciphertext is full, those of the members of a batch are one.
    width = 16 * y.slots * (len(params.moduli) + len(params.special_moduli))
    alike = len(place.copy_offsets()) * (1 if direct is plain else np.prod(shape[:-2], dtype=int))
    here = len(np.unique(part * y.slots + (start - to) % y.slots))
    there = len(np.unique((moved - target.positions().ravel()) % y.slots))
    if width * here // max(1, alike) <= max(_DIRECT_BYTES, width * there):
        return direct, y, here
    return plain, target, there


def _transpose(layout: Layout) -> Layout:
    """Of the transposed matrices, where they lie."""
    *batch, n, m = layout.shape
    *axes, rows, columns = layout.axes
    return replace(layout, shape=(*batch, m, n), axes=(*axes, columns, rows))


def _period(grid: Grid, shape: tuple[int, ...], natural: bool) -> int:
    """How far apart copies of the product are: as near as can be, and where y has rows of its own, as far as these."""
    extent = int(grid.layout(shape, grid.slots).positions().max()) + 1
    least = max(grid.rows, grid.inner if natural else 1) * grid.row
    return max(least, 1 << (extent - 1).bit_length())


def _shared_digits(first: tuple[Digits, ...], second: tuple[Digits, ...], x: Layout, y: Layout) -> tuple[Digits, ...]:
    """The digits of the batch axes that count ciphertexts, which both have or only one."""
    if any(first) and any(second) and first != second:
        raise _apart(x, y)
    return first if any(first) else second


def _sizes(first: tuple[int, ...], second: tuple[int, ...], x: Layout, y: Layout) -> tuple[int, ...]:
    """The sizes of the batch axes inside ciphertexts."""
    if any(a != b and 1 not in (a, b) for a, b in zip(first, second, strict=True)):
        raise _apart(x, y)
    return tuple(max(pair) for pair in zip(first, second, strict=True))


def _apart(x: Layout, y: Layout) -> ValueError:
    return ValueError(
        f"matmul: the members of the batches lie in different ciphertexts, in {x} and {y}; type "
        "x.to_layout('interleaved') and y.to_layout('interleaved')"
    )
