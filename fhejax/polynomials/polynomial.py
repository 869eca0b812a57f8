"""Polynomials as Chebyshev series on an interval: pytrees, so that they are fitted by `jax.grad` and passed to `jit`.

A series is p(x) = sum_i c_i T_i(u), where u runs from -1 to 1 while x runs through the domain.
"""

import dataclasses
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.polynomials import algebra, checks
from fhejax.polynomials.plot import plot_polynomial


# jax.jit(polynomial) keeps weak references to it, and hashes it: by identity.
@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True, init=False, repr=False, eq=False)
class Polynomial:
    """A Chebyshev series: call it on arrays, or give it to `fhejax.evaluate` with a ciphertext.

    `p + q`, `p - q`, `p * q` take polynomials on the same domain and real numbers; `-p` is there too. Results are
    NumPy doubles where the coefficients are known, and JAX arrays with gradients where they are traced. Polynomials are
    equal by identity.

    Attributes:
      coefficients: floating `[degree + 1]`, c_0 first, or `[degree + 1, slots]` for another polynomial in each slot;
        the only leaf.
      domain: the interval (a, b) that is carried to (-1, 1); static.
      parity: "odd" or "even" in u, about the middle of the domain, or None; static. The coefficients of the other
        parity keep their places, and are taken as zero wherever the polynomial is used: their gradients are zero, and
        no time is spent on them, even where they are traced.
      report: what a fit says of its result, or None. Not part of the pytree: transformations of JAX drop it.
    """

    # NumPy would otherwise take `array * polynomial` apart into an array of objects.
    __array_ufunc__ = None

    coefficients: Any
    domain: tuple[float, float]
    parity: str | None
    report: Any

    def __init__(self, coefficients: Any, domain: Sequence[Any] = (-1.0, 1.0), parity: str | None = None):
        """A series with the coefficients given.

        Args:
          coefficients: real `[degree + 1]` or `[degree + 1, slots]`, c_0 first; a list, a NumPy or JAX array, traced
            or not.
          domain: two finite numbers, the lower first.
          parity: "odd", "even" or None; with it, coefficients of the other parity do not count.

        Raises:
          TypeError: complex coefficients, or something else than numbers.
          ValueError: no coefficients, not one axis or two, a domain that is no interval, or no such parity.

        Example:
          >>> import fhejax as fhe
          >>> fhe.Polynomial([0.5, 0.25, 0.0, -0.1], domain=(-8, 8))
          Polynomial(0.5 + 0.25 T1 - 0.1 T3, degree=3, domain=(-8.0, 8.0), depth=3)
          >>> fhe.Polynomial([0, 1.5, 0, -0.5], parity="odd")
          Polynomial(1.5 T1 - 0.5 T3, degree=3, domain=(-1.0, 1.0), depth=2, parity='odd')
        """
        coefficients, domain = checks.checked_coefficients(coefficients), checks.checked_domain("Polynomial", domain)
        _fill(self, coefficients, domain, checks.checked_parity(parity))

    @classmethod
    def from_power(cls, coefficients: Any, domain: Sequence[Any] = (-1.0, 1.0)) -> "Polynomial":
        """The series of a_0 + a_1 x + a_2 x^2 + ..., with powers of x, not of u.

        Every coefficient is rounded once where the a_i are known; traced ones are multiplied by the matrix of this
        map. The way here is harmless: the coefficients of x^k on (-1, 1) are positive and add up to 1. The a_i
        themselves are the trouble of high degrees: they are large, and cancel.

        Args:
          coefficients: real `[degree + 1]` or `[degree + 1, slots]`, a_0 first.
          domain: where the series is used.

        Raises:
          ValueError: a coefficient that is not finite, or comes out too large for a double.

        Example:
          >>> import fhejax as fhe
          >>> fhe.Polynomial.from_power([0, 0, 1], domain=(1, 3))
          Polynomial(4.5 + 4 T1 + 0.5 T2, degree=2, domain=(1.0, 3.0), depth=2)
        """
        given = cls(coefficients, domain)
        return cls(_exactly("from_power", algebra.from_power, given), given.domain)

    def to_power(self) -> Any:
        """The a_i of p(x) = a_0 + a_1 x + a_2 x^2 + ..., with powers of x, not of u.

        Every a_i is rounded once where the coefficients are known. But what the power basis makes of such roundings
        grows with the degree: on (-1, 1) the a_i of T_n reach some 2.4^n, so that their sum loses about 1.3 bits a
        degree; beside a domain far from zero it loses more. Evaluate the series itself wherever that matters.

        Returns:
          `[degree + 1]` or `[degree + 1, slots]`: float64 of NumPy, or a JAX array of the coefficients' type.

        Raises:
          ValueError: a coefficient that is not finite, or comes out too large for a double.

        Example:
          >>> import fhejax as fhe
          >>> fhe.Polynomial([0, 0, 0, 1]).to_power()
          array([ 0., -3.,  0.,  4.])
        """
        return _exactly("to_power", algebra.to_power, self)

    @property
    def degree(self) -> int:
        """One less than the number of coefficients, whatever their values."""
        return self.coefficients.shape[0] - 1

    @property
    def depth(self) -> int:
        """The levels that `fhejax.evaluate` takes.

        ceil(log2(degree + 1)), and one more if the degree is above 1 and carrying the domain to (-1, 1) needs a factor
        that is not an integer. Zeros behind the last coefficient count only where the values are not known (under
        jit), and not at places that the parity leaves empty.
        """
        return depth_of(len(pattern(self)) - 1, self.domain)

    def __call__(self, x: Any) -> jax.Array:
        """The values at x, by Clenshaw's recurrence.

        Args:
          x: an array of any shape, floating (or complex); integers are taken as floating. `[..., slots]` where there is
            another polynomial for each slot.

        Returns:
          An array like x. Types below 32 bits are computed in float32.

        Raises:
          TypeError: x is no array.
          ValueError: the last axis of x is not that of the slots, or the coefficients are those of a batch of
            polynomials, made by `vmap`.

        Source: Clenshaw, "A note on the summation of Chebyshev series", 1955.
        """
        x = checks.checked_points(self, x)
        low, high = self.domain
        return _clenshaw(effective_coefficients(self), low + high, high - low, x)

    def __add__(self, other: Any) -> Any:
        if (other := _operand("add", self, other)) is NotImplemented:
            return NotImplemented
        parity = _own_parity(self) if _own_parity(self) == _own_parity(other) else None
        return _combine(algebra.add, self, other, parity)

    __radd__ = __add__

    def __neg__(self) -> "Polynomial":
        return _unchecked(-effective_coefficients(self), self.domain, self.parity)

    def __sub__(self, other: Any) -> Any:
        other = _operand("subtract", self, other)
        return NotImplemented if other is NotImplemented else self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if (other := _operand("multiply", self, other)) is NotImplemented:
            return NotImplemented
        ours, theirs = _own_parity(self), _own_parity(other)
        parity = None if ours is None or theirs is None else "even" if ours == theirs else "odd"
        return _combine(algebra.multiply, self, other, parity)

    __rmul__ = __mul__

    def compose(self, inner: "Polynomial") -> "Polynomial":
        """p(q(x)) as one polynomial on the domain of q, of degree p.degree * q.degree.

        This is algebra, whatever values q takes. Where they leave the domain of p, Chebyshev series grow fast, and the
        rounding errors with them: keep q(x) within it wherever the result is used. The parity of q is inherited if it
        is even, and that of p if q is odd and the domain of p is symmetric about zero. On ciphertexts, two evaluations
        one after the other are as deep and much cheaper.

        `p.compose(Polynomial.from_power([0, 1], domain))` is p on another domain.

        Args:
          inner: the q of p(q(x)).

        Raises:
          TypeError: `inner` is not a polynomial.
          ValueError: the two are for different numbers of slots.

        Example:
          >>> import fhejax as fhe
          >>> T2 = fhe.Polynomial([0, 0, 1], parity="even")
          >>> T2.compose(T2)
          Polynomial(1 T4, degree=4, domain=(-1.0, 1.0), depth=3, parity='even')
        """
        if not isinstance(inner, Polynomial):
            raise TypeError(
                f"compose: got {type(inner).__name__}; need a Polynomial; for the values at x type polynomial(x)"
            )
        checks.check_slots("compose", self, inner)
        factor, shift = to_unit_interval(self.domain)
        coefficients = effective_coefficients(inner)
        unit = algebra.add(factor * coefficients, np.array([shift]))
        parity = "even" if _own_parity(inner) == "even" else None
        if inner.parity == "odd" and shift == 0:
            parity = _own_parity(self)
        return _unchecked(algebra.compose(effective_coefficients(self), unit), inner.domain, parity)

    def derivative(self) -> "Polynomial":
        """dp/dx as a polynomial on the same domain, one degree lower; of the other parity.

        Example:
          >>> import fhejax as fhe
          >>> fhe.Polynomial.from_power([0, 0, 0, 1], domain=(-2, 2)).derivative().to_power()
          array([0., 0., 3.])
        """
        factor, _ = to_unit_interval(self.domain)
        parity = {"odd": "even", "even": "odd", None: None}[self.parity]
        return _unchecked(factor * algebra.derivative(effective_coefficients(self)), self.domain, parity)

    def plot(self, f: Callable[..., Any] | None = None, ax: Any = None) -> Any:
        """Draws p over its domain with matplotlib; with f given, f too, and the error below on a logarithmic scale.

        Args:
          f: a function of arrays, NumPy's or JAX's, given float64 `[n]`.
          ax: where to draw: axes of matplotlib, or two of them if f is given. A new figure if None.

        Returns:
          The axes drawn on; an array of two with f. Nothing is shown or saved: `ax.figure.savefig(path)`.

        Raises:
          ImportError: matplotlib is not installed: `pip install fhejax[plot]`.
          ValueError: coefficients for many slots, or traced ones, or another number of axes.
        """
        if len(self.coefficients.shape) != 1:
            raise ValueError(
                f"plot: coefficients of shape {tuple(self.coefficients.shape)} are those of many polynomials; draw "
                "one of them: Polynomial(p.coefficients[:, slot], p.domain).plot()"
            )
        if known_coefficients(self) is None:
            raise ValueError("plot: the coefficients have no values yet; plot outside jit, grad and vmap")
        return plot_polynomial(self, f, ax)

    def __repr__(self) -> str:
        shape = getattr(self.coefficients, "shape", None)
        if shape is None:  # as JAX holds it in a tree of something else
            return f"Polynomial({self.coefficients!r}, domain={self.domain})"
        known = known_coefficients(self) if len(shape) == 1 else None
        series = f"{self.coefficients.dtype}{list(shape)}" if known is None else _series(known.tolist())
        parity = "" if self.parity is None else f", parity={self.parity!r}"
        return f"Polynomial({series}, degree={self.degree}, domain={self.domain}, depth={self.depth}{parity})"


def effective_coefficients(polynomial: Polynomial) -> Any:
    """All coefficients as they count, zero where the parity leaves none: of NumPy where they are known, else of JAX."""
    coefficients = polynomial.coefficients
    known = isinstance(coefficients, (np.ndarray, jax.Array)) and not _compat.is_traced(coefficients)
    if known:
        coefficients = np.asarray(coefficients).astype(np.float64)
    if polynomial.parity is None:
        return coefficients
    places = np.array(_places(polynomial)).reshape((-1,) + (1,) * (len(coefficients.shape) - 1))
    return (np if known else jnp).where(places, coefficients, 0)


def known_coefficients(polynomial: Polynomial) -> np.ndarray | None:
    """The effective coefficients as NumPy doubles, up to the last that is not zero; None where they are traced."""
    coefficients = effective_coefficients(polynomial)
    return coefficients[: len(pattern(polynomial))] if isinstance(coefficients, np.ndarray) else None


def pattern(polynomial: Polynomial) -> tuple[bool, ...]:
    """Which coefficients may differ from zero, in any slot: as many as count; the last is True, unless it is c_0.

    Traced ones may, all those of the polynomial's parity.
    """
    coefficients = effective_coefficients(polynomial)
    if isinstance(coefficients, np.ndarray):
        places = (coefficients != 0).reshape(len(coefficients), -1).any(axis=1).tolist()
    else:
        places = _places(polynomial)
    return tuple(places[: max(np.flatnonzero(places), default=0) + 1])


def depth_of(degree: int, domain: tuple[float, float]) -> int:
    """The levels that a series of this degree takes, and carrying its domain to (-1, 1)."""
    factor, _ = to_unit_interval(domain)
    return degree.bit_length() + (degree > 1 and not factor.is_integer())


def to_unit_interval(domain: tuple[float, float]) -> tuple[float, float]:
    """(factor, shift) with u = factor x + shift from -1 to 1 over the domain."""
    low, high = domain
    return 2 / (high - low), -(low + high) / (high - low)


@jax.jit
def _clenshaw(coefficients, ends, width, x):
    dtype = x.dtype if jnp.finfo(x.dtype).bits >= 32 else jnp.float32
    u = (2 * x.astype(dtype) - ends) / width
    coefficients = coefficients.astype(dtype)

    def step(carry, coefficient):
        after, second = carry
        return (coefficient + 2 * u * after - second, after), None

    zero = jnp.zeros_like(u)
    (after, second), _ = jax.lax.scan(step, (zero, zero), coefficients[1:], reverse=True)
    return (coefficients[0] + u * after - second).astype(x.dtype)


def _places(polynomial):
    """Which coefficients the parity leaves."""
    odd = {"odd": (True,), "even": (False,), None: (False, True)}[polynomial.parity]
    return [bool(i % 2) in odd for i in range(polynomial.degree + 1)]


def _own_parity(polynomial):
    """A constant is even, said or not."""
    return polynomial.parity or ("even" if polynomial.degree == 0 else None)


def _operand(operation, polynomial, other):
    """The other operand as a polynomial on the same domain; NotImplemented for what knows better itself."""
    if isinstance(other, (numbers.Real, np.ndarray, jax.Array)):
        other = _constant(operation, polynomial, other)
    if not isinstance(other, Polynomial):
        return NotImplemented
    if other.domain != polynomial.domain:
        raise ValueError(
            f"{operation}: polynomials on the domains {polynomial.domain} and {other.domain}; carry one to that of the "
            f"other: q.compose(Polynomial.from_power([0, 1], domain={polynomial.domain}))"
        )
    checks.check_slots(operation, polynomial, other)
    return other


def _constant(operation: str, polynomial: Polynomial, number: Any) -> Polynomial:
    if np.ndim(number):
        raise TypeError(
            f"{operation}: got an array of shape {np.shape(number)}; need a number or a Polynomial; for another number "
            "in each slot type Polynomial(array[None], p.domain)"
        )
    coefficients = jnp.reshape(number, (1,)) if _compat.is_traced(number) else [number]
    zero = isinstance(number, numbers.Real) and number == 0  # where sum() starts; an odd polynomial stays odd
    return Polynomial(coefficients, polynomial.domain, polynomial.parity if zero else None)


def _combine(operation, p, q, parity):
    return _unchecked(operation(effective_coefficients(p), effective_coefficients(q)), p.domain, parity)


def _exactly(operation, convert, polynomial):
    try:
        return convert(effective_coefficients(polynomial), polynomial.domain)
    except (OverflowError, ValueError) as error:
        raise ValueError(
            f"{operation}: on the domain {polynomial.domain} a coefficient is not finite, or becomes too large for a "
            "double"
        ) from error


def _series(coefficients):
    """The terms that are not zero, at most six of them."""
    terms = [(value, f" T{i}" if i else "") for i, value in enumerate(coefficients) if value] or [(0.0, "")]
    texts = [f"{'-' if value < 0 else '+'} {abs(value):.6g}{name}" for value, name in terms]
    if len(texts) > 6:
        texts = [*texts[:4], "+ ...", texts[-1]]
    return " ".join([texts[0].replace("+ ", "").replace("- ", "-"), *texts[1:]])


def _fill(polynomial, coefficients, domain, parity):
    values = {"coefficients": coefficients, "domain": domain, "parity": parity, "report": None}
    for name, value in values.items():
        object.__setattr__(polynomial, name, value)
    return polynomial


def _unchecked(coefficients, domain, parity):
    """Without checks: JAX also builds trees of shapes, of None, and of batches."""
    return _fill(object.__new__(Polynomial), coefficients, domain, parity)


def _flatten(polynomial):
    return (polynomial.coefficients,), (polynomial.domain, polynomial.parity)


def _flatten_with_paths(polynomial):
    (coefficients,), static = _flatten(polynomial)
    return ((jax.tree_util.GetAttrKey("coefficients"), coefficients),), static


def _unflatten(static, leaves):
    return _unchecked(leaves[0], *static)


jax.tree_util.register_pytree_with_keys(Polynomial, _flatten_with_paths, _unflatten, _flatten)
