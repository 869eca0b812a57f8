"""Which products evaluate Chebyshev series: Paterson-Stockmeyer, in the fewest levels.

With a budget of n levels, a series below degree 2^n is a sum that is relinearised and rescaled only once,

    p = sum_i c_i T_i + sum_k q_k T_k,

of those T_i that are computed within n - 1 levels (a factor costs the sum's own rescale, and no level more), and of
products with quotients q_k below degree 2^(n-1), which are such sums again, with a budget of n - 1. Which T_k are
computed is chosen when the program is traced, for the fewest key switches, given which coefficients may differ from
zero: an odd or an even series is cheaper by itself. Several series share their T_k, and each keeps its own budget.

Sources: Paterson & Stockmeyer, "On the Number of Nonscalar Multiplications Necessary to Evaluate Polynomials", 1973;
in the Chebyshev basis, Chen, Chillotti & Song, "Improved Bootstrapping for Approximate Homomorphic Encryption", 2019;
fewest levels, Bossuat, Mouchet, Troncoso-Pastoriza & Hubaux, "Efficient Bootstrapping for Approximate Homomorphic
Encryption with Non-Sparse Keys", 2021, section 5; products of one sum relinearised together, Han & Ki, "Better
Bootstrapping for Approximate Homomorphic Encryption", 2020.
"""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

Pattern = tuple[bool, ...]  # which coefficients of a series may differ from zero


class Sum(NamedTuple):
    """constant + sum of weights times T_i + sum of products of T_k with other such sums."""

    constant: int | None  # where it stands in the series' rows
    indices: tuple[int, ...]  # the i ...
    rows: tuple[int, ...]  # ... and where their weights stand
    products: tuple[tuple[int, "Sum"], ...]  # (k, q_k)


class Series(NamedTuple):
    """How one series is computed from the T_k."""

    levels: int  # that it takes
    root: Sum
    rows: np.ndarray  # integers: weights = rows @ coefficients


@dataclasses.dataclass(frozen=True)
class Plan:
    """How series with these patterns are evaluated on one input; equal, and hashed, by the patterns alone."""

    patterns: tuple[Pattern, ...]
    series: tuple[Series, ...] = dataclasses.field(compare=False)
    splits: tuple[tuple[int, int], ...] = dataclasses.field(compare=False)  # ascending (k, a): T_k from T_a and T_(k-a)

    @property
    def cost(self) -> tuple[int, int]:
        """Key switches, and products before relinearisation."""
        return _cost([series.root for series in self.series], self.splits)


@functools.lru_cache(maxsize=256)
def planned(patterns: tuple[Pattern, ...]) -> Plan:
    """The cheapest plan among those with T_1 to T_b, multiples of b up to m, and powers of two, for powers b <= m.

    The last coefficient of a pattern may differ from zero, unless it is the only one.
    """
    available = min(_choices(patterns), key=lambda available: _cost_of(patterns, available))
    used: set[int] = set()
    series = []
    for pattern in patterns:
        rows: list[np.ndarray] = []
        root = _sum(np.diag(np.array(pattern, np.int32)), _levels(pattern), available, rows, used)
        series.append(Series(_levels(pattern), root, np.array(rows)))
    return Plan(patterns, tuple(series), _splits(used))


def _choices(patterns):
    """More series repay more T_k."""
    levels = max(map(_levels, patterns))
    most = levels // 2 + (len(patterns) - 1).bit_length()
    powers = {1 << j for j in range(levels)}
    pairs = [(1 << j, 1 << i) for i in range(levels) for j in range(min(i, most) + 1)]
    return sorted({tuple(sorted(powers | {*range(1, b), *range(b, m + 1, b)})) for b, m in pairs})


def _cost_of(patterns, available):
    """The plan's cost, found with one number modulo 2^64 for a row of integers: a sum vanishes only if its row does.

    (Or once in some 2^50 times, when the cost is still that of a right plan.)
    """
    used: set[int] = set()
    roots = []
    for pattern in patterns:
        numbers = np.random.default_rng(0).integers(1 << 63, size=len(pattern), dtype=np.uint64)
        roots.append(_sum(np.where(pattern, numbers, np.uint64(0)), _levels(pattern), available, [], used))
    return _cost(roots, _splits(used))


def _sum(series, levels, available, rows, used):
    """Plans a series below degree 2^levels; row i of `series` is the coefficient of T_i by those of the polynomial.

    It ends: the largest usable k up to i is above i / 2, so that dividing by T_k removes T_i.
    """
    usable, products = [k for k in available if k < len(series) and depth(k) < levels], []
    absent = np.ones(len(series), bool)
    absent[[0, *usable]] = False
    while (missing := np.flatnonzero(_differs(series) & absent)).size:
        k = max(k for k in usable if k <= missing[-1])
        quotient, series = _divide(series, k)
        products.append((k, _sum(quotient, levels - 1, available, rows, used)))
    indices = (np.flatnonzero(_differs(series[1:])) + 1).tolist()
    used.update(indices, (k for k, _ in products))
    start = len(rows)
    rows.extend(series[i] for i in indices)
    constant = len(rows) if series[0].any() else None
    rows.extend([series[0]] if constant is not None else [])
    return Sum(constant, tuple(indices), tuple(range(start, start + len(indices))), tuple(products))


def _differs(series):
    """Which rows differ from zero."""
    return series.any(axis=1) if series.ndim > 1 else series != 0


def _divide(series, k):
    """(q, r) with series = q T_k + r, from T_i = 2 T_(i-k) T_k - T_(2k-i); what is above 2 k stays in r."""
    quotient, rest = 2 * series[k : 2 * k + 1], series.copy()
    above = len(quotient) - 1
    quotient[0] = series[k]
    rest[k : k + above + 1] = 0
    rest[k - above : k] -= series[k + above : k : -1]
    return quotient, rest


def _splits(used):
    """(k, a) for each T_k, k > 1, that is used or that another is made of: T_k = 2 T_a T_(k-a) - T_(2a-k).

    Any a up to the power of two below k keeps T_k at depth ceil(log2 k); chosen is one that asks for few others.
    """
    needed, splits = set(used), []
    for k in range(max(used, default=0), 1, -1):
        if k in needed:
            choices = range(-(-k // 2), (1 << depth(k) - 1) + 1)
            a = min(choices, key=lambda a: len({a, k - a, 2 * a - k} - needed - {0, 1}))
            needed |= {a, k - a, 2 * a - k}
            splits.append((k, a))
    return tuple(reversed(splits))


def depth(k: int) -> int:
    """The levels that T_k takes, ceil(log2 k)."""
    return (k - 1).bit_length()


def _levels(pattern):
    """Those of a series: ceil(log2(degree + 1))."""
    return (len(pattern) - 1).bit_length()


def _cost(roots, splits):
    counts = [_count(root) for root in roots]
    return len(splits) + sum(count[0] for count in counts), len(splits) + sum(count[1] for count in counts)


def _count(node):
    """(key switches, products) of a sum and the sums in it."""
    below = [_count(quotient) for _, quotient in node.products]
    switches, products = sum(count[0] for count in below), sum(count[1] for count in below)
    return switches + bool(below), products + len(below)
