"""Curves of polynomials, for people who have matplotlib."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from fhejax.report.plots import axes


def plot_polynomial(polynomial: Any, f: Callable[..., Any] | None, ax: Any) -> Any:
    """Draws a polynomial over its domain, and beside it f, with the error below."""
    x = _points(polynomial.domain, polynomial.degree)
    drawn = axes(1 if f is None else 2, ax, "plot")
    with jax.enable_x64(True):
        values = np.asarray(polynomial(x))
        expected = None if f is None else np.broadcast_to(np.asarray(f(x), np.float64), x.shape)
    curve = drawn[0]
    curve.plot(x, values, label=f"degree {polynomial.degree}")
    curve.set_ylabel("p(x)")
    if expected is None:
        curve.set_xlabel("x")
        return curve
    curve.plot(x, expected, "--", label=getattr(f, "__name__", "f"))
    curve.legend()
    error = np.abs(values - expected)
    drawn[1].plot(x, np.where(error > 0, error, np.nan))  # a logarithm has no place for zeros
    drawn[1].set_yscale("log")
    drawn[1].set_ylabel("|p(x) - f(x)|")
    drawn[1].set_xlabel("x")
    return np.array(drawn)


def _points(domain, degree):
    """Closer together near the ends, where a series of high degree turns often; 8 or more between two extrema."""
    low, high = domain
    u = -np.cos(np.linspace(0, np.pi, max(1001, 8 * degree + 1)))
    return np.clip((high - low) / 2 * u + (high + low) / 2, low, high)
