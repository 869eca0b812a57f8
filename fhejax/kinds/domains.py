"""Simulated values outside the domain of a polynomial: said once for each line of the user's program."""

import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.errors import OutOfRangeWarning, call_site

_EDGE = 2.0**-20  # of the width: by so much may rounding carry values over the edge
_IMAGINARY = 2.0**-6  # of the width: with more, values count as complex

# The lines where it was said, and the warning filters in force: where these are others, it is said again.
_said: dict[tuple[str, int], Any] = {}


_POLYNOMIAL = (
    "values",
    "the polynomial's domain",
    "where Chebyshev series grow fast: the encrypted result may be wrong in every slot; take a wider domain, or scale "
    "the values",
)


def warn_outside(
    x: Any, operation: str, domain: tuple[float, float], words: tuple[str, str, str] = _POLYNOMIAL
) -> None:
    """Warns of the value that lies farthest outside a domain, naming the line of the user's program.

    Inside are values of which the real part is, up to rounding (and to the largest error, where noise has been added to
    them), and the imaginary part is small. They cost a look at each. Inside a transformation the look is part of the
    program, and a callback to Python is made for values outside only (under `vmap` always), with the line that was
    traced; such a program can not be serialized by `jax.export`.

    Args:
      x: the simulated values.
      operation: on whose behalf.
      domain: of the polynomial.
      words: what the values are, what the domain is, and what follows from being outside.
    """
    middle, half = (domain[0] + domain[1]) / 2, (domain[1] - domain[0]) / 2
    rounding = 4 * float(jnp.finfo(x.values.dtype).eps) * max(map(abs, domain))
    worst = _worst(x.values, x.errors if x.noisy else None, middle, half + 2 * half * _EDGE + rounding, half)
    tell = functools.partial(_tell, operation, domain, words, call_site(), x.values.shape)
    if _compat.is_traced(worst):
        jax.lax.cond(worst[0], lambda *worst: jax.debug.callback(tell, *worst), lambda *_: None, *worst)
    else:
        tell(*worst)


@jax.jit
def _worst(values, errors, middle, reach, half):
    """Whether a value is outside, which, and where."""
    beyond = jnp.abs(values.real - middle) - reach
    if errors is not None:
        beyond = beyond - jnp.max(jnp.abs(errors))
    if jnp.iscomplexobj(values):
        beyond = jnp.maximum(beyond, jnp.abs(values.imag) - 2 * half * _IMAGINARY)
    # In single precision: with x64 off, JAX does not lower an argmax of doubles, which a bootstrapping computes with.
    place = jax.lax.argmax(beyond.ravel().astype(np.float32), 0, np.int32)
    return ~(jnp.max(beyond) <= 0), values.ravel()[place], place


def _tell(operation, domain, words, site, shape, outside, value, place):
    if not outside or _said.get(site) is warnings.filters:
        return
    where = ", ".join(str(int(i)) for i in np.unravel_index(int(place), shape))
    what, limits, consequence = words
    warnings.warn_explicit(
        f"{operation}: {what}[{where}] = {value:.6g} is outside {limits} {domain}, {consequence}",
        OutOfRangeWarning,
        *site,
    )
    _said[site] = warnings.filters
