"""What a fitted polynomial attains: its errors as measured, and how a function is evaluated to measure them."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import chebyshev

from fhejax import _compat
from fhejax.polynomials.polynomial import Polynomial

Intervals = Sequence[tuple[float, float]]

# A function is always called with as many points, so that JAX compiles each of its operations once.
_BLOCK = 1024


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class FitReport:
    """How good a fit is. Errors are those of the stored coefficients, not of what was aimed at.

    Attributes:
      method: "chebyshev", "minimax" or "gradient".
      degree: of the polynomial.
      depth: the levels that `fhejax.evaluate` takes for it.
      sup_error: the largest error found in the domain, on a dense grid and by a search around each of its maxima;
        for a minimax fit with a weight, that of the weighted error.
      mean_error: the root of the mean squared error: over the samples if the fit was given some (all of them, also
        those outside of the domain), else over the domain.
      lower_bound: no polynomial of the degree (and parity) has a smaller sup error; None if that is not known.
      history: the losses of the optimiser's steps; None for the other methods.
    """

    method: str
    degree: int
    depth: int
    sup_error: float
    mean_error: float
    lower_bound: float | None = None
    history: Any = dataclasses.field(default=None, compare=False)

    @property
    def bits(self) -> float:
        """-log2 of the sup error: the bits behind the binary point that are right wherever the input is."""
        return _bits(self.sup_error)

    @property
    def mean_bits(self) -> float:
        """-log2 of the mean error."""
        return _bits(self.mean_error)

    @property
    def gap(self) -> float | None:
        """By how much the sup error is above its lower bound, relative to it; None without a bound.

        Infinite where the bound is zero, as for a function that is a polynomial of the degree.
        """
        if self.lower_bound is None:
            return None
        if self.sup_error <= self.lower_bound:
            return 0.0
        return self.sup_error / self.lower_bound - 1 if self.lower_bound else math.inf

    def __repr__(self):
        rows = [("sup error", self.sup_error), ("mean error", self.mean_error), ("lower bound", self.lower_bound)]
        lines = [f"{name:<12} {value:<9.3g} {_bits(value):6.2f} bits" for name, value in rows if value is not None]
        lines += [] if self.gap is None else [f"{'gap':<12} {self.gap:.1e}"]
        lines += [] if self.history is None else [f"{'steps':<12} {len(self.history)}"]
        return "\n".join([f"{self.method} fit of degree {self.degree}, depth {self.depth}", *lines])


def with_report(polynomial: Polynomial, report: FitReport) -> Polynomial:
    """The polynomial, with its `report` set; in place, for one that was just made."""
    object.__setattr__(polynomial, "report", report)
    return polynomial


def evaluate_function(f: Callable, x: np.ndarray, operation: str = "fit") -> np.ndarray:
    """f(x) in double precision, on concrete values even while something else is being traced: `float64`, like x.

    Refused where f depends on a traced value, does not work elementwise, or is not finite.
    """
    flat = np.ravel(x)
    padded = np.pad(flat, (0, -len(flat) % _BLOCK), mode="edge")
    with jax.ensure_compile_time_eval(), jax.enable_x64(True), np.errstate(all="ignore"):
        parts = [_block(f, block, operation) for block in padded.reshape(-1, _BLOCK)]
    values = np.concatenate(parts)[: len(flat)]
    if not np.all(np.isfinite(values)):
        first = np.argmin(np.isfinite(values))
        raise ValueError(
            f"{operation}: f({flat[first]:.6g}) = {values[first]}; f must be finite where it is fitted: choose a "
            "domain without that point"
        )
    return values.reshape(np.shape(x))


def check_parity(target: Callable[[Any], Any], intervals: Intervals, parity: str | None) -> None:
    """Refuses intervals that are not symmetric about their middle, or f that is not, by 2^-20 of its values."""
    if parity is None:
        return
    middle, half = (intervals[0][0] + intervals[-1][1]) / 2, (intervals[-1][1] - intervals[0][0]) / 2
    ends = np.ravel(intervals) - middle
    if np.max(np.abs(ends + ends[::-1])) > 2.0**-40 * half:
        raise ValueError(
            f"fit: parity = {parity!r} on {list(intervals)}, which is not symmetric about its middle {middle:g}; give "
            "both halves, such as domain=[(-1, -0.1), (0.1, 1)]"
        )
    low, high = intervals[-1]
    distance = np.linspace(max(low - middle, half / 16), high - middle, 16)
    left, right = target(middle - distance), target(np.minimum(middle + distance, high))
    wrong = abs(left + right) if parity == "odd" else abs(left - right)
    if max(wrong) > 2.0**-20 * max(abs(right)):
        x = distance[np.argmax(wrong)]
        raise ValueError(
            f"fit: parity = {parity!r}, but f({middle - x:.6g}) = {float(left[np.argmax(wrong)]):.6g} and "
            f"f({middle + x:.6g}) = {float(right[np.argmax(wrong)]):.6g}; leave parity out, or fit that part of f only"
        )


def resolution(f: Callable, x: np.ndarray) -> float:
    """The relative spacing of the numbers in which f returns its values: 2^-52, or more for a float32 function."""
    with jax.ensure_compile_time_eval(), jax.enable_x64(True), np.errstate(all="ignore"):
        dtype = jnp.result_type(f(np.resize(x, _BLOCK)))
    return max(float(jnp.finfo(dtype).eps), 2.0**-52) if jnp.issubdtype(dtype, jnp.floating) else 2.0**-52


def measure_errors(
    polynomial: Polynomial,
    target: Callable[[Any], Any],
    intervals: Intervals,
    method: str,
    *,
    weight: Callable[[Any], Any] | None = None,
    samples: Any = None,
    near: Any = (),
    points: int = 4096,
    numbers: Callable[[Any], Any] = np.asarray,
    lower_bound: float | None = None,
    history: Any = None,
) -> Polynomial:
    """The polynomial with a report of its errors; the largest is searched over the intervals and near some points.

    `samples` are data for the mean error, or their density; `numbers` makes points those that `target` takes.
    """

    def error(x):
        # In the longest type of the machine, so that evaluating the polynomial adds little.
        return target(x) - series(polynomial, x if x.dtype == object else x.astype(np.longdouble))

    def weighted(x):
        return abs(error(x) if weight is None else error(x) * weight(x))

    grids = [_grid(low, high, max(points, 32 * (polynomial.degree + 1)), near) for low, high in intervals]
    x, left, right = (numbers(np.concatenate(parts)) for parts in zip(*map(brackets, grids), strict=True))
    values = weighted(x)
    # Neighbours on the grid differ by less than half of the error where the grid is dense enough to be trusted.
    peaks = (values >= _shift(values, 1)) & (values >= _shift(values, -1)) & (values >= max(values) / 2)
    _, tops = climb(weighted, left[peaks], x[peaks], right[peaks], values[peaks], rounds=16)
    report = FitReport(
        method,
        polynomial.degree,
        polynomial.depth,
        sup_error=float(max(tops)),
        mean_error=_mean_error(error, intervals, samples, points, numbers),
        lower_bound=lower_bound,
        history=history,
    )
    return with_report(polynomial, report)


def _mean_error(error, intervals, samples, points, numbers):
    """The root of the mean square over the data, or over the domain with the weight of a density."""
    total = sum(high - low for low, high in intervals)
    grids = [np.linspace(low, high, 2 + int(points * (high - low) / total)) for low, high in intervals]
    data = np.concatenate(grids) if samples is None or callable(samples) else np.ravel(samples).astype(np.float64)
    density = evaluate_function(samples, data, "fit: samples") if callable(samples) else None
    return math.sqrt(np.average((error(numbers(data)) ** 2).astype(np.float64), weights=density))


def series(polynomial: Polynomial, x: np.ndarray) -> np.ndarray:
    """The values at x by NumPy, in the numbers of x: doubles, longer ones, mpmath's; `[..., slots]` for many slots."""
    low, high = polynomial.domain
    coefficients = np.asarray(polynomial.coefficients, np.float64)
    return chebyshev.chebval(((x - low) + (x - high)) / (high - low), coefficients, tensor=False)


def brackets(grid: Any) -> tuple[Any, Any, Any]:
    """(x, left, right) for a sorted grid: each point with its neighbours, or itself where it has none."""
    return grid, np.concatenate([grid[:1], grid[:-1]]), np.concatenate([grid[1:], grid[-1:]])


def climb(f: Callable, left: Any, x: Any, right: Any, values: Any, rounds: int) -> tuple[Any, Any]:
    """Maxima (x, f(x)) of f near each x, by halving the brackets around them; f takes points `[2, n]`.

    f is at least as large there as at the point given.
    """
    column = np.arange(len(x))
    for _ in range(rounds):
        points = np.stack([left, (left + x) / 2, x, (x + right) / 2, right])
        lower, upper = f(points[1::2])
        found = np.stack([values, lower, upper])  # the middle first: it is taken where they are equal
        best = np.argmax(found, axis=0)
        at = np.array([2, 1, 3])[best]
        left, x, right = (points[at + step, column] for step in (-1, 0, 1))
        values = found[best, column]
    return x, values


def _block(f, x, operation):
    value = f(x)
    if _compat.is_traced(value):
        raise TypeError(
            f"{operation}: f depends on a traced value, and must be known when the program is traced; fit outside of "
            "jit, grad and vmap, or optimise the coefficients themselves"
        )
    value = np.asarray(value)
    if not (jnp.issubdtype(value.dtype, jnp.floating) or jnp.issubdtype(value.dtype, jnp.integer)):
        raise TypeError(f"{operation}: f returned {value.dtype} for float64; it must return real numbers")
    if value.shape not in ((), x.shape):
        raise ValueError(
            f"{operation}: f returned shape {value.shape} for shape {x.shape}; it must work elementwise, as jnp.tanh"
        )
    return np.broadcast_to(value.astype(np.float64), x.shape)


def _grid(low, high, count, near):
    """Dense at the ends, as the extrema of polynomials are."""
    angles = np.linspace(np.pi, 0, count)
    grid = np.clip((low + high) / 2 + (high - low) / 2 * np.cos(angles), low, high)
    grid[0], grid[-1] = low, high
    return np.unique(np.concatenate([grid, [point for point in near if low <= point <= high]]))


def _shift(values, step):
    shifted = np.roll(values, step)
    shifted[0 if step > 0 else -1] = -math.inf
    return shifted


def _bits(error):
    return -math.log2(error) if error else math.inf
