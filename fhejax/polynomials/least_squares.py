"""Weighted least squares in the Chebyshev basis, in closed form: what gradient fitting starts from.

The data enter through one small matrix. With V the Chebyshev polynomials at the samples, each row times the square
root of its share, y the values of f times the same, and [V y] = Q A for an orthogonal Q and an upper triangular A,

    mean |p(x) - f(x)|^2 = |[V y] (c, -1)|^2 = |A (c, -1)|^2

for every c: degree + 2 rows stand for all samples, however many. A is made block by block and V^T V never, whose
condition number would be the square.

Source: Golub & Van Loan, "Matrix Computations", 4th edition, 2013, section 5.3.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from fhejax.polynomials.polynomial import Polynomial
from fhejax.polynomials.report import evaluate_function

Function = Callable[[Any], Any]

_BLOCK = 2**20  # numbers of V at a time


def series_columns(degree: int, parity: str | None) -> np.ndarray:
    """The indices of the Chebyshev polynomials that a series of this degree and parity is made of, at least one."""
    first, step = {None: (0, 1), "even": (0, 2), "odd": (1, 2)}.get(parity, (0, 0))
    if not step or degree < first:
        raise ValueError(
            f"fit: degree = {degree}, parity = {parity!r}; need a degree of at least 0 (1 for parity='odd'), and a "
            "parity of None, 'odd' or 'even'"
        )
    return np.arange(first, degree + 1, step)


def weighted_samples(
    samples: Any, domain: Sequence[Any], degree: int, weight: Function | None, per_slot: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Points and factors that a mean over the data is taken over: the mean of |w e|^2 is the sum of |factor e|^2.

    Samples are an array inside the domain, with `per_slot` for each index of its last axis; a density; or None.
    """
    if samples is None or callable(samples):
        if per_slot:
            raise ValueError("fit: per_slot needs samples, an array of which the last axis counts the slots")
        return _weigh(*_density_points(samples or np.ones_like, domain, degree), weight)
    samples = np.asarray(samples, np.float64)
    if not samples.size or (per_slot and not samples.ndim):
        raise ValueError(f"fit: got samples of shape {samples.shape}; need at least one, with per_slot for each slot")
    low, high = domain
    smallest, largest = samples.min(), samples.max()
    if not low <= smallest <= largest <= high:
        raise ValueError(
            f"fit: the samples run from {smallest:.6g} to {largest:.6g}, and the domain is ({low:.6g}, {high:.6g}); "
            "take a domain that holds them all with a margin, such as 1.25 times as wide, or clip the samples"
        )
    points = samples.reshape(-1, samples.shape[-1]).T if per_slot else samples.reshape(1, -1)
    return _weigh(points, np.full(points.shape, 1 / points.shape[1]), weight)


def weighted_guard(domain: Sequence[Any], degree: int, weight: Function | None) -> tuple[np.ndarray, np.ndarray]:
    """What the mean over the domain is taken over: `guard_points`, as `weighted_samples` gives those of the data."""
    points = guard_points(domain, degree)[None]
    return _weigh(points, np.full(points.shape, 1 / points.shape[1]), weight)


def guard_points(domain: Sequence[Any], degree: int) -> np.ndarray:
    """The extrema of a Chebyshev polynomial of 32 times the degree or more, over the domain, with its ends."""
    count = max(512, 32 * (degree + 1))
    return _from_unit(np.cos(np.pi * np.arange(count + 1) / count), domain)


def basis(x: np.ndarray, domain: Sequence[Any], columns: np.ndarray) -> np.ndarray:
    """The values of the chosen Chebyshev polynomials: an array like x with one more axis."""
    low, high = domain
    return chebyshev.chebvander((2 * x - (low + high)) / (high - low), int(columns[-1]))[..., columns]


def triangle(
    f: Function, domain: Sequence[Any], columns: np.ndarray, points: np.ndarray, factors: np.ndarray
) -> np.ndarray:
    """A, upper triangular with sum |factor (p - f)|^2 = |A (c, -1)|^2, for the Chebyshev polynomials `columns`."""
    slots, count = points.shape
    size = len(columns) + 1
    total, step = np.zeros((slots, size, size)), max(1, _BLOCK // (slots * size))
    for start in range(0, count, step):
        x, factor = points[:, start : start + step], factors[:, start : start + step, None]
        rows = np.concatenate([basis(x, domain, columns), evaluate_function(f, x)[..., None]], axis=-1)
        total = combine_triangles(total, factor * rows)
    return total


def combine_triangles(*rows: np.ndarray) -> np.ndarray:
    """The triangle for the sum of the squares that all of these rows stand for."""
    slots = max(len(each) for each in rows)
    rows = tuple(np.broadcast_to(each, (slots, *each.shape[1:])) for each in rows)
    return np.asarray(np.linalg.qr(np.concatenate(rows, axis=1), mode="r"))


def minimizer(total: np.ndarray) -> np.ndarray:
    """The c of the least |A (c, -1)|, `float64[slots, terms]`."""
    return np.linalg.solve(total[:, :-1, :-1], total[:, :-1, -1:])[..., 0]


def as_polynomial(
    coefficients: np.ndarray,
    columns: np.ndarray,
    domain: Sequence[Any],
    degree: int,
    parity: str | None,
    per_slot: bool,
) -> Polynomial:
    """The polynomial with these coefficients, `[slots, terms]`, and zero for the terms that are left out."""
    series = np.zeros((degree + 1, len(coefficients)))
    series[columns] = coefficients.T
    return Polynomial(series if per_slot else series[:, 0], domain, parity)


def _weigh(points, shares, weight):
    factors = np.sqrt(shares)
    return points, factors if weight is None else factors * evaluate_function(weight, points, "fit: weight")


def _density_points(density, domain, degree):
    """The middles of steps of equal length in the angle arccos u, and the shares of their integrals."""
    count = max(4096, 64 * (degree + 1))
    angles = np.pi * (np.arange(count) + 0.5) / count
    points = _from_unit(np.cos(angles), domain)[None]
    masses = evaluate_function(density, points, "fit: samples") * np.sin(angles)
    if masses.min() < 0 or not masses.sum() > 0:
        raise ValueError("fit: the density given for samples is negative somewhere, or zero everywhere")
    return points, masses / masses.sum()


def _from_unit(u, domain):
    """Carries (-1, 1) to the domain, and stays within it."""
    low, high = domain
    return np.clip((low + high) / 2 + (high - low) / 2 * u, low, high)
