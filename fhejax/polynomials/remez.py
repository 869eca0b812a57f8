"""The exchange algorithm: best uniform approximations on unions of intervals, in arbitrary precision.

A polynomial with n coefficients is best exactly where its weighted error takes its largest magnitude at n + 1 points
with alternating signs. For any n + 1 points, the *reference*, there is one polynomial whose error at them is +-h in
turn, and no polynomial has a smaller sup error than |h| (de la Vallee Poussin). An exchange moves the reference to
extrema of the error, which raises |h|, until the sup error is no larger.

The polynomial is kept as its values at the reference, in barycentric form, which no choice of intervals makes
ill-conditioned. Odd polynomials are x q(x^2) and even ones q(x^2), with q fitted on the positive half.

Sources: Remez, "Sur la determination des polynomes d'approximation de degre donnee", 1934; barycentric form, Pachon &
Trefethen, "Barycentric-Remez algorithms for best polynomial approximation in the chebfun system", 2009; unions of
intervals, Lee, Lee, No & Kim, "Minimax Approximation of Sign Function by Composite Polynomial for Homomorphic
Comparison", 2021, section 3.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np

from fhejax.polynomials.chebyshev import chebyshev_coefficients, chebyshev_nodes
from fhejax.polynomials.report import Intervals, brackets, climb

_EXCHANGES = 100
_TARGET_GAP = 1e-7
_ALLOWED_GAP = 1e-2
_PATIENCE = 5


class ConvergenceError(RuntimeError):
    """The exchange did not come to an end."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """What is to be approximated."""

    target: Callable[[Any], Any]  # the values of f at an array of points
    weight: Callable[[Any], Any] | None  # positive; None for 1
    intervals: Intervals  # disjoint, ascending; symmetric about their middle if there is a parity
    degree: int  # odd or even as the parity is
    parity: str | None
    noise: Any  # the relative error of the target's values, below which errors are not resolved
    exact: bool  # whether target and weight take arrays of mpmath's numbers, instead of float64

    @property
    def middle(self) -> float:
        """Where the parity is about; points are counted from here."""
        return (self.intervals[0][0] + self.intervals[-1][1]) / 2 if self.parity else 0.0

    def at(self, points: Any) -> Any:
        """Points counted from the middle, in the domain."""
        return np.clip(points + self.middle, self.intervals[0][0], self.intervals[-1][1]) if self.middle else points

    def values(self, points: Any) -> Any:
        """f at points counted from the middle."""
        return self.target(self.at(points))

    def weights(self, points: Any) -> Any:
        """The weight at points counted from the middle."""
        return np.ones_like(points) if self.weight is None else self.weight(self.at(points))


class Best(NamedTuple):
    """What the exchange found."""

    coefficients: np.ndarray  # float64[degree + 1], on the intervals' hull
    error: float  # the largest weighted one, before the coefficients were rounded
    lower_bound: float  # no polynomial has a smaller one
    reference: np.ndarray  # where the error alternates, ascending; of the positive half if there is a parity


class _Levelled(NamedTuple):
    """The polynomial (or its q) whose error alternates on a reference, in barycentric form."""

    nodes: Any
    weights: Any
    values: Any
    level: Any  # |h|


def exchange(problem: Problem, start: Any = None) -> Best:
    """The best approximation, its coefficients rounded to doubles, with a certificate.

    Its error is above the lower bound by 1e-7 of it, or by the noise in f; a ConvergenceError, if it is by 1 % or more.
    """
    with mpmath.workprec(64 - int(mpmath.log(problem.noise, 2))):
        intervals = _counted_intervals(problem)
        background = np.concatenate([_points(*interval, 64 if problem.exact else 2048) for interval in intervals])
        noise = _resolution(problem, _numbers(problem, background))
        start = _start(problem, intervals, background) if start is None else start - problem.middle
        best, worst, worst_at, bound = _iterate(problem, intervals, background, noise, _numbers(problem, start))
        if worst > bound * (1 + _ALLOWED_GAP) + 8 * noise:
            raise ConvergenceError(_complaint(problem, worst, bound, worst_at))
        reference = (best.nodes + problem.middle).astype(np.float64)
        return Best(_coefficients(problem, best), float(worst), float(bound), reference)


def _iterate(problem, intervals, background, noise, reference):
    """(polynomial, its error, where that is, the lower bound), the best of those met."""
    best: Any = None
    worst, worst_at, bound, idle = mpmath.inf, None, mpmath.mpf(0), 0
    for _ in range(_EXCHANGES):
        levelled = _level(problem, reference)
        points, errors = _extrema(problem, levelled, intervals, background, reference)
        error = max(abs(errors))
        idle = 0 if error < worst or levelled.level > bound * 1.001 else idle + 1
        if best is None or error < worst:
            best, worst, worst_at = levelled, error, points[np.argmax(abs(errors))] + problem.middle
        bound = max(bound, levelled.level)
        chosen = _alternate(points, errors, len(reference))
        if worst <= max(bound * (1 + _TARGET_GAP) + noise, 8 * noise) or idle > _PATIENCE or chosen is None:
            break
        reference = chosen
    return best, worst, worst_at, bound


def _counted_intervals(problem):
    """From the middle; their positive half if there is a parity."""
    intervals = [(low - problem.middle, high - problem.middle) for low, high in problem.intervals]
    return [(max(low, 0.0), high) for low, high in intervals if high > 0] if problem.parity else intervals


def _points(low, high, count):
    """Dense at the ends, without them."""
    return np.clip((low + high) / 2 + (high - low) / 2 * chebyshev_nodes(count), low, high)


def _exact(x):
    return np.vectorize(mpmath.mpf, otypes=[object])(x)


def _long(x):
    """In the longest floating type of the machine, so that the polynomial adds little to the noise of f."""
    high = x.astype(np.float64)
    return high.astype(np.longdouble) + (x - high).astype(np.float64)


def _numbers(problem, x):
    return _exact(x) if problem.exact else np.asarray(x).astype(np.float64)


def _resolution(problem, x):
    """The smallest difference of errors that means anything."""
    return 2 * problem.noise * max(abs(problem.values(x)) * problem.weights(x))


def _start(problem, intervals, background):
    """As many points as are needed, such that interpolation at them is good: Chebyshev zeros, or Leja's points.

    Never Chebyshev extrema: symmetric functions would have a level of zero there, and too few extrema for the next.
    """
    power = 2 if problem.parity else 1
    count = (problem.degree // 2 if problem.parity else problem.degree) + 2
    (low, high), *more = intervals
    if not more:
        points = _points(low**power, high**power, count) ** (1 / power)
        return np.clip(points, low, high)
    chosen, products = [background[-1]], np.zeros_like(background)
    with np.errstate(divide="ignore"):
        while len(chosen) < count:
            products += np.log(abs(background**power - chosen[-1] ** power))
            chosen.append(background[np.argmax(products)])
    return np.sort(chosen)


def _level(problem, reference):
    """The polynomial whose weighted error is +-h in turn on the reference."""
    nodes, values, weight = _exact(reference), _exact(problem.values(reference)), _exact(problem.weights(reference))
    if problem.parity == "odd":
        values, weight = values / nodes, weight * nodes
    places = nodes * nodes if problem.parity else nodes
    differences = places[:, None] - places
    np.fill_diagonal(differences, mpmath.mpf(1))
    weights = 1 / np.prod(differences, axis=1)
    weights = weights / max(abs(weights))
    signs = (-1) ** np.arange(len(nodes))
    level = np.sum(weights * values) / np.sum(weights * signs / weight)
    return _Levelled(nodes, weights, values - signs * level / weight, abs(level))


def _polynomial(problem, levelled, x):
    """Its values at x, in the numbers of both."""
    nodes, weights, values, _ = levelled
    flat = np.ravel(x)
    differences = flat[:, None] - nodes
    if problem.parity:
        differences = differences * (flat[:, None] + nodes)  # not x^2 - node^2, which cancels in doubles
    rows, columns = np.nonzero(differences == 0)
    differences[rows, columns] = 1
    terms = weights / differences
    terms[rows], terms[rows, columns] = 0, 1
    result = (terms @ values) / terms.sum(axis=1)
    return np.reshape(result * flat if problem.parity == "odd" else result, np.shape(x))


def _extrema(problem, levelled, intervals, background, reference):
    """(points, errors): the largest error in each run of equal sign, in ascending order."""
    if not problem.exact:
        nodes, weights, values, level = levelled
        levelled = _Levelled(_long(nodes), _long(weights), _long(values), level)

    def error(x):
        return (problem.values(x) - _polynomial(problem, levelled, x)) * problem.weights(x)

    inside = np.concatenate([background, reference])
    grids = [_grid(problem, low, high, inside[(inside > low) & (inside < high)], reference) for low, high in intervals]
    x, left, right = (np.concatenate(parts) for parts in zip(*map(brackets, grids), strict=True))
    errors = error(x)
    kept = errors != 0
    if not np.any(kept):
        return x[:1], errors[:1]
    x, left, right, errors = x[kept], left[kept], right[kept], errors[kept]
    ends = np.flatnonzero(np.diff(errors > 0)) + 1
    runs = zip([0, *ends], np.split(abs(errors), ends), strict=True)
    tops = np.array([start + np.argmax(run) for start, run in runs])
    signs = np.where(errors[tops] > 0, 1, -1)
    rounds = 10 if problem.exact else 24
    points, heights = climb(
        lambda x: signs * error(x), left[tops], x[tops], right[tops], abs(errors[tops]), rounds=rounds
    )
    return points, signs * heights


def _grid(problem, low, high, inside, reference):
    """What is inside, and points between the reference's, where the error has its extrema."""
    ends = np.unique(
        np.concatenate([_numbers(problem, [low, high]), reference[(reference > low) & (reference < high)]])
    )
    shares = np.arange(8 if problem.exact else 16) / (8 if problem.exact else 16)
    between = ends[:-1, None] + np.diff(ends)[:, None] * shares
    return np.unique(np.concatenate([between.ravel(), ends[-1:], _numbers(problem, inside)]))


def _alternate(points, errors, count):
    """`count` of the alternating extrema, the largest among them, with a large sum of magnitudes; None if too few."""
    kept, heights = list(range(len(points))), abs(errors)
    largest = int(np.argmax(heights))
    while (excess := len(kept) - count) > 0:
        if excess == 1:
            del kept[0 if heights[kept[0]] < heights[kept[-1]] else -1]
            continue
        # Neighbours go in pairs, or both ends do, so that what is left alternates.
        pairs = [(kept[i - 1], kept[i]) for i in range(len(kept)) if largest not in (kept[i - 1], kept[i])]
        for i in min(pairs, key=lambda pair: heights[pair[0]] + heights[pair[1]]):
            kept.remove(i)
    return points[kept] if len(kept) == count else None


def _coefficients(problem, levelled):
    """Of the Chebyshev series on the hull, from values at its Chebyshev nodes."""
    count, low, high = problem.degree + 1, problem.intervals[0][0], problem.intervals[-1][1]
    cosines = np.array([mpmath.cospi(mpmath.mpf(m) / (2 * count)) for m in range(4 * count)])
    nodes = cosines[1 : 2 * count : 2]
    center = 0 if problem.parity else (mpmath.mpf(low) + high) / 2
    x = center + (mpmath.mpf(high) - low) / 2 * nodes
    coefficients = chebyshev_coefficients(_polynomial(problem, levelled, x), cosines).astype(np.float64)
    if problem.parity:
        coefficients[int(problem.parity == "even") :: 2] = 0.0
    return coefficients


def _complaint(problem, worst, bound, point):
    return (
        f"fit: minimax of degree {problem.degree} did not converge: the error of the best polynomial found is "
        f"{float(worst):.3g}, at x = {float(point):.6g}, where at least {float(bound):.3g} is certain. Where f jumps, "
        "leave a gap, such as domain=[(-1, -0.01), (0.01, 1)]; where it is steep or noisy, take a lower degree, or "
        'digits=50 with an f of mpmath\'s functions. method="chebyshev" always returns'
    )
