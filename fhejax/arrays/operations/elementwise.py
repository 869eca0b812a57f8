"""Elementwise arithmetic of encrypted arrays, with NumPy's broadcasting.

Arrays and numbers in the clear are put into slots as the encrypted operand lies. Two encrypted arrays meet where both
have their entries in the same slots; one that is broadcast stands there by its copies. Where they do not meet, an error
says which conversion brings them together: conversions cost a level and key switches, so they are never made unasked.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.arrays.layouts.broadcasting import narrow, spread, widen
from fhejax.arrays.layouts.layout import Layout
from fhejax.arrays.layouts.placement import indicator, pack
from fhejax.arrays.layouts.record import Arranged, Array, keys_of, rows
from fhejax.arrays.layouts.shapes import broadcast_shape
from fhejax.arrays.operations.views import broadcast_to
from fhejax.kinds.requirements import check_same_params
from fhejax.operations import arithmetic
from fhejax.polynomials.evaluation import evaluate
from fhejax.polynomials.polynomial import Polynomial


def add(x: Array, y: Any) -> Array:
    """x + y, for y encrypted or in the clear. Level out: the lower of the two. Keys needed: none.

    Raises:
      ValueError: shapes that do not broadcast, in NumPy's words; or operands that lie in different slots.
    """
    return _combine("add", arithmetic.add, x, y)


def subtract(x: Array, y: Any) -> Array:
    """x - y. As `add`."""
    return _combine("subtract", arithmetic.subtract, x, y)


def negate(x: Array) -> Array:
    """-x. Costs nothing."""
    return replace(x, ciphertext=arithmetic.negate(x.ciphertext))


def multiply(x: Array, y: Any) -> Array:
    """x y, relinearised and rescaled.

    Level out: one below the lower of the two; the same for a Python integer, which multiplies exactly. Keys needed:
    relinearisation, where both are encrypted.

    Raises:
      As `add`; LevelError: no level is left.
    """
    if isinstance(y, Arranged):
        keys = keys_of(x, y)
        return _combine("multiply", lambda a, b: arithmetic.multiply(a, b, keys), x, y)
    return _combine("multiply", arithmetic.multiply_plain, x, y)


def divide(x: Array, y: Any) -> Array:
    """x / y for a y in the clear. Level out: one lower. Keys needed: none.

    Raises:
      As `multiply`; TypeError: y is encrypted.
    """
    if isinstance(y, Arranged):
        raise no_division()
    return multiply(x, 1.0 / (y if _compat.is_traced(y) else np.asarray(y)))


def square(x: Array) -> Array:
    """x x: one level, one key switch."""
    return replace(x, ciphertext=arithmetic.square(x.ciphertext, x.keys))


def power(x: Array, exponent: Any) -> Array:
    """x to a positive integer: ceil(log2(exponent)) levels, by repeated squaring.

    Raises:
      TypeError: an exponent that is none.
    """
    try:
        count = operator.index(exponent)
    except TypeError:
        count = 0
    if count < 1:
        raise TypeError(
            f"x ** {exponent!r}: the exponent is an integer from 1 on; type x.map(fhejax.functions.sqrt, "
            "domain=(a, b), bits=12) or another function for roots and reciprocals"
        )
    factors = []
    while count:
        if count % 2:
            factors.append(x)
        count //= 2
        x = square(x) if count else x
    return functools.reduce(multiply, factors)


def map(x: Array, function: Callable[..., Any] | Polynomial, *, fill: Any = None, **options: Any) -> Array:
    """A function of each entry: `x.map(fhejax.functions.sigmoid, domain=(-8, 8), bits=12)`.

    Slots that no entry owns go through the function as well. Where it is a polynomial on a domain, what stands there
    may lie outside of it, grow beyond the modulus and destroy the whole ciphertext: after sums and slices, say what is
    to stand there instead. Simulated values outside are warned of.

    Args:
      function: of a ciphertext and keys, acting on every slot for itself, such as those of `fhejax.functions`; or a
        `fhejax.Polynomial`.
      fill: a number for all slots that no entry owns, put there first by `clean`; None leaves them as they are.
      options: what the function takes besides.
    """
    if fill is not None:
        x = clean(x, fill)
    if isinstance(function, Polynomial):
        return replace(x, ciphertext=evaluate(function, x.ciphertext, x.keys, **options))
    return replace(x, ciphertext=function(x.ciphertext, x.keys, **options))


def clean(x: Array, fill: Any = 0.0) -> Array:
    """A number in every slot that no entry owns. Level out: one lower; the same if there are no such slots."""
    return x if indicator(x.layout).all() else scale(x, 1.0, fill)


def scale(x: Array, factor: Any, fill: Any = 0.0) -> Array:
    """Each entry times one number, and another number in all slots that no entry owns. Level out: one lower."""
    own = indicator(x.layout)
    ciphertext = arithmetic.multiply_plain(x.ciphertext, own * factor)
    if not isinstance(fill, (int, float)) or fill != 0:
        ciphertext = arithmetic.add(ciphertext, (1.0 - own) * fill)
    return replace(x, ciphertext=ciphertext)


def layout_for(layout: Layout, shape: Sequence[int]) -> Layout:
    """Where an array of another shape has to lie to meet arrays of this layout; a ValueError where no copies do it."""
    shape = tuple(shape)
    if broadcast_shape(shape, layout.shape) != layout.shape:
        raise ValueError(f"layout_for: shape {shape} does not broadcast to {layout.shape}, but enlarges it")
    found = narrow(layout, shape)
    if found is None:
        raise ValueError(
            f"layout_for: no copies bring an array of shape {shape} to {layout}; type x.to_layout('row') for the "
            "larger one"
        )
    return found


def align_slots(x: Arranged, y: Arranged) -> tuple[Any, Any, Layout] | None:
    """The ciphertexts of two arrays, slot beside slot, and the layout of the result; None where they do not meet."""
    shape = broadcast_shape(x.shape, y.shape)
    layouts = [each.layout for each in (x, y)]
    hosts = [layout for layout in layouts if layout.shape == shape]
    hosts += [wide for layout in layouts if layout.shape != shape and (wide := widen(layout, shape)) is not None]
    for host in hosts:
        first = spread(x.layout, host)
        second = None if first is None else spread(y.layout, replace(host, copies=first[1]))
        if first is not None and second is not None:
            return rows(x, first[0]), rows(y, second[0]), replace(host, copies=second[1])
    return None


def _combine(operation: str, function: Callable[[Any, Any], Any], x: Array, y: Any) -> Array:
    if isinstance(y, Arranged):
        check_same_params(operation, x, y)
        found = align_slots(x, y)
        if found is None:
            raise ValueError(
                f"{operation}: arrays of shapes {x.shape} and {y.shape} lie in different slots: x in {x.layout}, y in "
                f"{y.layout}; type {_remedy(x, y)}"
            )
        first, second, layout = found
        keys = keys_of(x, y)
        return replace(x, ciphertext=function(first, second), keys=keys, layout=layout)
    values = y if _compat.is_traced(y) else np.asarray(y)
    if values.dtype == object:
        raise TypeError(f"{operation}: got {type(y).__name__} beside an encrypted array; need an array or a number")
    if values.ndim == 0:
        return replace(x, ciphertext=function(x.ciphertext, y))
    x = broadcast_to(x, broadcast_shape(x.shape, values.shape))
    module = np if isinstance(values, np.ndarray) else jnp
    return replace(x, ciphertext=function(x.ciphertext, pack(module.broadcast_to(values, x.shape), x.layout)))


def _remedy(x: Arranged, y: Arranged) -> str:
    """What brings two arrays together."""
    shape = broadcast_shape(x.shape, y.shape)
    if x.shape == y.shape:
        return "y.to_layout(x.layout)"
    for wide, other, narrower in (("x", "y", y), ("y", "x", x)):
        layout = x.layout if wide == "x" else y.layout
        if layout.shape == shape and narrow(layout, narrower.shape) is not None:
            return f"{other}.to_layout({wide}.layout_for({other}.shape))"
        if layout.shape == shape:
            return f"{wide} = {wide}.to_layout('row') and {other}.to_layout({wide}.layout_for({other}.shape))"
    return f"x = x.to_layout('replicated').broadcast_to({shape}) and y.to_layout(x.layout_for(y.shape))"


def no_division() -> TypeError:
    """The error for an encrypted divisor."""
    return TypeError(
        "x / y: y is encrypted, and ciphertexts do not divide; type x * y.map(fhejax.functions.reciprocal, "
        "domain=(a, b), bits=12)"
    )
