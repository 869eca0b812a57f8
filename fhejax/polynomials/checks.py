"""What polynomials may be made of, and be combined with; everything else is refused by name."""

import math
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat


def checked_coefficients(coefficients: Any) -> Any:
    """An array of them, floating `[degree + 1]` or `[degree + 1, slots]`; refused otherwise."""
    if not hasattr(coefficients, "shape"):
        traced = _compat.is_traced(coefficients)
        coefficients = jnp.stack(list(coefficients)) if traced else np.asarray(coefficients)
    if jnp.issubdtype(coefficients.dtype, jnp.integer):
        coefficients = coefficients * 1.0
    if not jnp.issubdtype(coefficients.dtype, jnp.floating):
        raise TypeError(
            f"Polynomial: got coefficients of dtype {coefficients.dtype}; need real numbers, one for each of T_0, T_1, "
            "..., such as Polynomial([0.5, 0.25])"
        )
    if len(coefficients.shape) not in (1, 2) or 0 in coefficients.shape:
        raise ValueError(
            f"Polynomial: got coefficients of shape {tuple(coefficients.shape)}; need (degree + 1,), one for each of "
            "T_0, T_1, ..., such as Polynomial([0.5, 0.25]); or (degree + 1, slots) for another polynomial in each slot"
        )
    return coefficients


def checked_domain(operation: str, domain: Iterable[Any]) -> tuple[float, float]:
    """The two ends as floats: finite, the lower first."""
    try:
        low, high = (float(end) for end in domain)
    except (TypeError, ValueError):
        raise ValueError(f"{operation}: domain = {domain!r}; need two numbers, such as domain=(-1.0, 1.0)") from None
    if not (low < high and math.isfinite(high - low) and math.isfinite(low + high)):
        raise ValueError(f"{operation}: domain = ({low}, {high}); need two finite numbers, the lower first")
    return low, high


def checked_parity(parity: Any) -> str | None:
    """The parity given: "odd", "even" or None."""
    if parity not in (None, "odd", "even"):
        raise ValueError(f"Polynomial: parity = {parity!r:.60}; need 'odd', 'even' or None")
    return parity


def checked_points(polynomial: Any, x: Any) -> jax.Array:
    """An array of points, floating or complex, that fits the slots of the polynomial."""
    try:
        x = jnp.asarray(x)
    except TypeError:
        raise TypeError(
            f"Polynomial: got {type(x).__name__} for x; need an array; for a ciphertext type "
            "fhejax.evaluate(polynomial, x, keys)"
        ) from None
    shape = tuple(polynomial.coefficients.shape)
    if len(shape) > 2 or (len(shape) == 2 and x.shape[-1:] != shape[1:]):
        raise ValueError(
            f"Polynomial: coefficients of shape {shape} are those of many polynomials, and x has shape {x.shape}; with "
            f"another polynomial in each slot x is [..., {shape[1]}]; map over a batch of polynomials with jax.vmap"
        )
    return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(jnp.result_type(float))


def check_slots(operation: str, p: Any, q: Any) -> None:
    """Refuses polynomials of different slots, and batches made by `vmap`."""
    shapes = [tuple(x.coefficients.shape) for x in (p, q)]
    if len({shape[1] for shape in shapes if len(shape) == 2}) > 1 or max(map(len, shapes)) > 2:
        raise ValueError(
            f"{operation}: coefficients of shapes {shapes[0]} and {shapes[1]}; need (degree + 1,), or (degree + 1, "
            "slots) for the same slots; map over a batch of polynomials with jax.vmap"
        )
