"""`fit`: from a function to a polynomial, by any of the methods, with a degree or with a tolerance."""

import functools
import inspect
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from fhejax.polynomials import chebyshev, gradient, minimax
from fhejax.polynomials.polynomial import Polynomial
from fhejax.polynomials.report import Intervals

_METHODS = {
    "chebyshev": chebyshev.fit_chebyshev,
    "minimax": minimax.fit_minimax,
    "gradient": gradient.fit_gradient,
}
_COMMON = ("parity", "weight", "samples")
_LARGEST_DEGREES = {"chebyshev": chebyshev.LARGEST_DEGREE, "minimax": minimax.LARGEST_DEGREE, "gradient": 255}


def fit(
    f: Callable[[Any], Any],
    domain: Any,
    degree: int | None = None,
    method: str = "chebyshev",
    *,
    tolerance: float | None = None,
    parity: str | None = None,
    weight: Callable[[Any], Any] | None = None,
    samples: Any = None,
    **options: Any,
) -> Polynomial:
    """A polynomial that approximates f on a domain.

    Three methods:

    - "chebyshev" interpolates: immediate, and within a small factor of the least sup error.
    - "minimax" has the least sup error, and a certificate of it; on unions of intervals too. Option: `digits`, for an
      f on mpmath's numbers, in place of double precision.
    - "gradient" is best where the data are; see `fhejax.polynomials.gradient.fit_gradient` for its options.

    f is evaluated on known numbers in double precision, whatever JAX's x64 flag, so that fits may stand inside of
    `jax.jit` and `jax.grad`: there they are constants.

    With a tolerance instead of a degree, the largest degrees of depth 0, 1, 2, ... are tried until one reaches it, and
    the degrees between that one and the one before are bisected. So the depth is the least there is, and the degree
    is, where errors fall with the degree (they do for minimax).

    Args:
      f: an elementwise function on arrays of NumPy or JAX, such as `jnp.tanh` or `lambda x: 1 / x`; `float64` is what
        it gets.
      domain: (a, b); for minimax also a list of disjoint intervals, such as [(-1, -0.1), (0.1, 1)].
      degree: of the polynomial; None to find the least for the tolerance.
      method: "chebyshev", "minimax" or "gradient".
      tolerance: the largest sup error allowed.
      parity: "odd" or "even" about the middle of the domain: the other coefficients are exactly zero.
      weight: a positive function that multiplies the error that minimax and gradient make small.
      samples: data, an array of any shape, or a function, their density: what gradient fits, and what every method's
        report measures the mean error on.
      **options: the method's own.

    Returns:
      A polynomial on the domain (of a list of intervals, on their hull) with coefficients `float64[degree + 1]`. Its
      `report` is a `FitReport`: errors as measured, depth, bits, and for minimax a lower bound of any sup error.

    Raises:
      ConvergenceError: minimax found no polynomial within 1 % of the lower bound.
      TypeError: f is no function, depends on traced values or does not return real numbers; an unknown option.
      ValueError: no degree and no tolerance, or both; an unknown method; a domain that is no interval; f is not finite
        somewhere, or not of the parity; a degree that is too large; a tolerance that no degree reaches.

    Source: see `fhejax.polynomials.chebyshev`, `remez` and `gradient`.

    Example:
      >>> import jax
      >>> import fhejax as fhe
      >>> gelu = fhe.polynomial.fit(jax.nn.gelu, (-8, 8), 31, method="minimax")
      >>> gelu.report.depth, round(gelu.report.bits, 1), gelu.report.gap < 1e-6
      (6, 13.9, True)
      >>> fhe.polynomial.fit(jax.nn.sigmoid, (-8, 8), tolerance=2**-10).degree
      17
    """
    if not callable(f):
        raise TypeError(f"fit: got {type(f).__name__} for f; need a function on arrays, such as jnp.tanh")
    if method not in _METHODS:
        raise ValueError(f"fit: method = {method!r}; choose one of {', '.join(map(repr, _METHODS))}")
    if parity not in (None, "odd", "even"):
        raise ValueError(f'fit: parity = {parity!r}; choose "odd", "even" or None')
    if method == "chebyshev" and weight is not None:
        raise ValueError('fit: interpolation knows no weight; type method="minimax" or "gradient", or leave it out')
    _check_options(method, options)
    intervals = _intervals(domain, method)
    common = {"parity": parity, "samples": samples} | ({} if weight is None else {"weight": weight})
    place = intervals if method == "minimax" else intervals[0]
    of_degree = functools.partial(_METHODS[method], f, place, **common, **options)
    if (degree is None) == (tolerance is None):
        given = "neither" if degree is None else "both"
        raise ValueError(
            f"fit: got {given} of degree and tolerance; type one of them, such as degree=15 or tolerance=1e-3"
        )
    if degree is None:
        return _least(of_degree, method, parity, _checked_tolerance(tolerance))
    return of_degree(_checked_degree(degree, method, parity))


def _least(of_degree, method, parity, tolerance):
    """The polynomial of the least degree, as far as errors fall with the degree."""
    step, largest = (2 if parity else 1), _LARGEST_DEGREES[method]
    deepest = [(1 << depth) - (2 if parity == "even" else 1) for depth in range(1, largest.bit_length() + 1)]
    below = None
    for degree in deepest if parity else [0, *deepest]:
        found = of_degree(degree)
        if found.report.sup_error <= tolerance:
            break
        below = degree
    else:
        raise ValueError(
            f"fit: the sup error at degree {degree} is {found.report.sup_error:.3g}, still above tolerance = "
            f"{tolerance:.3g}; allow a larger one, take a smaller domain, or compose polynomials as fhejax.functions do"
        )
    while below is not None and degree - below > step:
        between = below + (degree - below) // (2 * step) * step
        tried = of_degree(between)
        if tried.report.sup_error <= tolerance:
            degree, found = between, tried
        else:
            below = between
    return found


def _check_options(method, options):
    allowed = [
        name
        for name, parameter in inspect.signature(_METHODS[method]).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in _COMMON
    ]
    if unknown := [name for name in options if name not in allowed]:
        takes = f"takes {', '.join(allowed)}" if allowed else "takes none"
        raise TypeError(f'fit: unknown option {unknown[0]!r}; method="{method}" {takes}, besides {", ".join(_COMMON)}')


def _intervals(domain: Any, method: str) -> Intervals:
    """Ascending, as floats."""
    try:
        ends = np.asarray(domain, np.float64)
    except (TypeError, ValueError):
        ends = np.zeros(0)
    ends = np.atleast_2d(ends)
    if ends.ndim != 2 or ends.shape[-1] != 2 or not ends.size:
        raise ValueError(
            f"fit: domain = {domain!r}; need two numbers, such as (-8, 8), or for minimax a list of such pairs"
        )
    ends = ends[np.argsort(ends[:, 0])]
    widths, gaps = ends[:, 1] - ends[:, 0], ends[1:, 0] - ends[:-1, 1]
    if not np.all(np.isfinite(ends)) or np.any(widths <= 2.0**-32 * np.max(np.abs(ends))):
        raise ValueError(f"fit: domain = {domain!r}; need finite numbers, the lower first, and more than 2^-32 apart")
    if np.any(gaps <= 0):
        raise ValueError(f"fit: domain = {domain!r}; the intervals touch or overlap: type them as one")
    if method != "minimax" and len(ends) > 1:
        raise ValueError(f'fit: domain = {domain!r}; for several intervals type method="minimax"')
    return [(low, high) for low, high in ends.tolist()]


def _checked_degree(degree, method, parity):
    try:
        degree = operator.index(degree)
    except TypeError:
        raise TypeError(f"fit: degree = {degree!r}; need an integer") from None
    least, largest = int(parity == "odd"), _LARGEST_DEGREES[method]
    if not least <= degree <= largest:
        kind = "" if parity is None else f" and parity {parity!r}"
        raise ValueError(f'fit: degree = {degree}; method="{method}"{kind} takes {least} to {largest}')
    return degree


def _checked_tolerance(tolerance):
    if not 0 < float(tolerance) < math.inf:
        raise ValueError(f"fit: tolerance = {tolerance!r}; need a positive number, such as 2**-20")
    return float(tolerance)
