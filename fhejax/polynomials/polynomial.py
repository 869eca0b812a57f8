"""Polynomials as Chebyshev series on an interval: pytrees, so that they are fitted by `jax.grad` and passed to `jit`.

A series is p(x) = sum_i c_i T_i(u), where u runs from -1 to 1 while x runs through the domain.
"""

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat


# jax.jit(polynomial) keeps weak references to it, and hashes it: by identity.
@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True, init=False, repr=False, eq=False)
class Polynomial:
    """A Chebyshev series: call it on arrays, or give it to `fhejax.evaluate` with a ciphertext.

    Attributes:
      coefficients: floating `[degree + 1]`, c_0 first; the only leaf.
      domain: the interval (a, b) that is carried to (-1, 1); static.
    """

    coefficients: Any
    domain: tuple[float, float]

    def __init__(self, coefficients: Any, domain: Sequence[Any] = (-1.0, 1.0)):
        """A series with the coefficients given.

        Args:
          coefficients: real `[degree + 1]`, c_0 first; a list, a NumPy or JAX array, traced or not.
          domain: two finite numbers, the lower first.

        Raises:
          TypeError: complex coefficients, or something else than numbers.
          ValueError: no coefficients, not one axis of them, or a domain that is no interval.

        Example:
          >>> import fhejax as fhe
          >>> fhe.Polynomial([0.5, 0.25, 0.0, -0.1], domain=(-8, 8))
          Polynomial(0.5 + 0.25 T1 - 0.1 T3, degree=3, domain=(-8.0, 8.0), depth=3)
        """
        object.__setattr__(self, "coefficients", _checked_coefficients(coefficients))
        object.__setattr__(self, "domain", _checked_domain(domain))

    @property
    def degree(self) -> int:
        """One less than the number of coefficients, whatever their values."""
        return self.coefficients.shape[-1] - 1

    @property
    def depth(self) -> int:
        """The levels that `fhejax.evaluate` takes.

        ceil(log2(degree + 1)), and one more if the degree is above 1 and carrying the domain to (-1, 1) needs a factor
        that is not an integer. Zeros behind the last coefficient count only where the values are not known (under jit).
        """
        known = known_coefficients(self)
        degree = self.degree if known is None else len(known) - 1
        factor, _ = to_unit_interval(self.domain)
        return degree.bit_length() + (degree > 1 and not factor.is_integer())

    def __call__(self, x: Any) -> jax.Array:
        """The values at x, by Clenshaw's recurrence.

        Args:
          x: an array of any shape, floating (or complex); integers are taken as floating.

        Returns:
          An array like x. 16-bit types are computed in float32.

        Raises:
          ValueError: the coefficients have more than one axis, as those of many polynomials under `vmap`.

        Source: Clenshaw, "A note on the summation of Chebyshev series", 1955.
        """
        check_one_series("Polynomial", self)
        x = jnp.asarray(x)
        if not jnp.issubdtype(x.dtype, jnp.inexact):
            x = x.astype(jnp.result_type(float))
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        low, high = self.domain
        u = (2 * x.astype(dtype) - (low + high)) / (high - low)
        coefficients = jnp.asarray(self.coefficients).astype(dtype)

        def step(carry, coefficient):
            after, second = carry
            return (coefficient + 2 * u * after - second, after), None

        zero = jnp.zeros_like(u)
        (after, second), _ = jax.lax.scan(step, (zero, zero), coefficients[1:], reverse=True)
        return (coefficients[0] + u * after - second).astype(x.dtype)

    def __repr__(self) -> str:
        shape = getattr(self.coefficients, "shape", None)
        if shape is None:  # as JAX holds it in a tree of something else
            return f"Polynomial({self.coefficients!r}, domain={self.domain})"
        known = known_coefficients(self) if len(shape) == 1 else None
        series = f"{self.coefficients.dtype}{list(shape)}" if known is None else _series(known.tolist())
        return f"Polynomial({series}, degree={self.degree}, domain={self.domain}, depth={self.depth})"


def known_coefficients(polynomial: Polynomial) -> np.ndarray | None:
    """`float64[degree + 1]` without the zeros behind the last coefficient (c_0 stays); None where they are traced."""
    coefficients = polynomial.coefficients
    if _compat.is_traced(coefficients) or not isinstance(coefficients, (np.ndarray, jax.Array)):
        return None
    coefficients = np.asarray(coefficients).astype(np.float64)
    return coefficients[: max(np.flatnonzero(coefficients), default=0) + 1]


def to_unit_interval(domain: tuple[float, float]) -> tuple[float, float]:
    """(factor, shift) with u = factor x + shift from -1 to 1 over the domain."""
    low, high = domain
    return 2 / (high - low), -(low + high) / (high - low)


def check_one_series(operation: str, polynomial: Polynomial) -> None:
    """Refuses the coefficients of many polynomials at once.

    Raises:
      ValueError: there is more than one axis.
    """
    if len(polynomial.coefficients.shape) != 1:
        raise ValueError(
            f"{operation}: coefficients of shape {polynomial.coefficients.shape} are those of many polynomials; "
            "map over them with jax.vmap"
        )


def _checked_coefficients(coefficients):
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
    if len(coefficients.shape) != 1 or not coefficients.shape[0]:
        raise ValueError(
            f"Polynomial: got coefficients of shape {tuple(coefficients.shape)}; need (degree + 1,), one for each of "
            "T_0, T_1, ..., such as Polynomial([0.5, 0.25])"
        )
    return coefficients


def _checked_domain(domain):
    try:
        low, high = (float(end) for end in domain)
    except (TypeError, ValueError):
        raise ValueError(f"Polynomial: domain = {domain!r}; need two numbers, such as domain=(-1.0, 1.0)") from None
    if not (low < high and math.isfinite(high - low)):
        raise ValueError(f"Polynomial: domain = ({low}, {high}); need two finite numbers, the lower first")
    return low, high


def _series(coefficients):
    """The terms that are not zero, at most six of them."""
    terms = [(value, f" T{i}" if i else "") for i, value in enumerate(coefficients) if value] or [(0.0, "")]
    texts = [f"{'-' if value < 0 else '+'} {abs(value):.6g}{name}" for value, name in terms]
    if len(texts) > 6:
        texts = [*texts[:4], "+ ...", texts[-1]]
    return " ".join([texts[0].replace("+ ", "").replace("- ", "-"), *texts[1:]])


def _flatten(polynomial):
    return (polynomial.coefficients,), polynomial.domain


def _flatten_with_paths(polynomial):
    return ((jax.tree_util.GetAttrKey("coefficients"), polynomial.coefficients),), polynomial.domain


def _unflatten(domain, leaves):
    """Without checks: JAX also builds trees of shapes, of None, and of batches."""
    polynomial = object.__new__(Polynomial)
    object.__setattr__(polynomial, "coefficients", leaves[0])
    object.__setattr__(polynomial, "domain", domain)
    return polynomial


jax.tree_util.register_pytree_with_keys(Polynomial, _flatten_with_paths, _unflatten, _flatten)
jax.export.register_pytree_node_serialization(
    Polynomial,
    serialized_name="fhejax.Polynomial",
    serialize_auxdata=lambda domain: json.dumps([end.hex() for end in domain]).encode(),
    deserialize_auxdata=lambda text: _checked_domain(map(float.fromhex, json.loads(text))),
)
