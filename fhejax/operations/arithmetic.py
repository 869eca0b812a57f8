"""Arithmetic on ciphertexts: with ciphertexts, plaintexts, arrays and numbers.

Operands of different level or scale are aligned by themselves (`fhejax.operations.levels`). Each docstring says what
comes out: level, scale, error added (as the deviation of a coefficient), and the keys needed. N is the ring degree.
"""

import fractions
import math
import numbers
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.errors import missing_key
from fhejax.kinds.base import Encrypted, Kind, operators
from fhejax.kinds.requirements import (
    check_ciphertext,
    check_same_params,
    check_same_slots,
    check_two_components,
    checked_keys,
    no_level,
)
from fhejax.operations.levels import align, brought_to, product_scale, to_canonical
from fhejax.scheme.values import EvaluationKeys, Plaintext

_PRODUCT = "a product needs one more"


def add(x: Any, y: Any) -> Any:
    """x + y.

    Args:
      x, y: ciphertexts; or one of them a plaintext, an array `[*batch, k]` or a number.

    Returns:
      Level out: the lower of the two. Scale out: the canonical scale there (raw if both are raw products).
      Error added: none beyond the operands' own; 1/sqrt(12) from encoding an array; that of a rescale for an operand
      that changes its level. Keys needed: none.

    Raises:
      TypeError: neither is a ciphertext.
      ParametersMismatchError: parameters or slots differ.
    """
    x, y = _ciphertext_first("add", x, y)
    return _sum("add", x, y)


def subtract(x: Any, y: Any) -> Any:
    """x - y. Arguments, result and errors as for `add`."""
    if isinstance(x, Kind):
        return _sum("subtract", x, y, negative=True)
    check_ciphertext("subtract", y)
    return _sum("subtract", negate(y), x)


def negate(x: Encrypted) -> Encrypted:
    """-x. Level and scale stay; error added: none; keys needed: none."""
    check_ciphertext("negate", x)
    return x._negate()


def multiply(x: Any, y: Any, keys: EvaluationKeys | None = None) -> Any:
    """x y, relinearised and rescaled.

    Args:
      x, y: ciphertexts; or one of them a plaintext, an array or a number (then as `multiply_plain`).
      keys: evaluation keys; needed when both are ciphertexts.

    Returns:
      Level out: one below the lower of the two. Scale out: canonical. Error added: with v_x, v_y the operands' slot
      errors, x v_y + y v_x + v_x v_y; and sqrt((1 + 2N/3)/12) per coefficient from the merged ModDown and rescale.
      Keys needed: relinearisation.

    Raises:
      LevelError: no level is left.
      MissingKeyError: `keys` is missing, or was made for lower levels.
      ValueError: an operand has three components.

    Source: Cheon et al., 2018; merged ModDown and rescale: Kim, Polyakov & Zucca, "Revisiting Homomorphic Encryption
    Schemes for Finite Fields", 2021.
    """
    if not (isinstance(x, Kind) and isinstance(y, Kind)):
        return multiply_plain(*_ciphertext_first("multiply", x, y))
    return _multiply("multiply", x, y, keys)


def square(x: Encrypted, keys: EvaluationKeys | None) -> Encrypted:
    """x^2, relinearised and rescaled: `multiply(x, x, keys)`."""
    check_ciphertext("square", x)
    return _multiply("square", x, x, keys)


def multiply_plain(x: Encrypted, values: Any) -> Encrypted:
    """x times a plaintext, an array or a number, rescaled.

    A Python integer multiplies exactly and takes no level; every other number is encoded at the canonical scale.

    Args:
      x: a ciphertext.
      values: a Plaintext, real or complex `[*batch, k]`, or a number.

    Returns:
      Level out: one less (the same for a Python integer). Scale out: canonical. Error added: the operand's error times
      the values; the message times the rounding of the encoding, 1/sqrt(12); and that of a rescale. Keys needed: none.

    Raises:
      LevelError: no level is left.
      ValueError: values that cannot be encoded.
    """
    check_ciphertext("multiply_plain", x)
    if isinstance(values, Kind):
        raise TypeError("multiply_plain: both operands are ciphertexts; type multiply(x, y, keys)")
    if isinstance(values, (int, np.integer)) and not isinstance(values, bool):
        _check_fits("the integer", values, abs(int(values)) * fractions.Fraction(x.scale), x.scale, x.params, x.level)
        return x._multiply_integer(int(values))
    x = to_canonical(x)
    if x.level == 0:
        raise no_level("multiply_plain", x, _PRODUCT)
    if _is_real_number(values):
        _check_number(values, x)
        return x._multiply_number(values, x.params.scale_at(x.level - 1))
    x, plain = align("multiply_plain", x, _as_plaintext("multiply_plain", values, x))
    if x.level == 0:
        raise no_level("multiply_plain", x, _PRODUCT)
    return x._multiply_plain(plain, (), product_scale(x.params, x.level, x.scale * plain.scale))


def dot_plain(xs: Sequence[Encrypted], values: Any) -> Encrypted:
    """The sum of x_i times plaintext_i, rescaled once: a linear layer's inner loop.

    Args:
      xs: ciphertexts, as `rotate_many` returns them.
      values: as many plaintexts or arrays.

    Returns:
      Level out: one below the lowest of the ciphertexts. Scale out: canonical. Error added: for each term as
      `multiply_plain`, but that of a single rescale. Keys needed: none.

    Raises:
      LevelError: no level is left.
      ValueError: no terms, not as many plaintexts as ciphertexts, or values that cannot be encoded.
    """
    xs, values = list(xs), list(values)
    if not xs or len(xs) != len(values):
        raise ValueError(
            f"dot_plain: got {len(xs)} ciphertexts and {len(values)} plaintexts; need as many, at least one"
        )
    for x in xs:
        check_ciphertext("dot_plain", x)
        check_same_params("dot_plain", xs[0], x)
        check_same_slots("dot_plain", xs[0], x)
    xs = [to_canonical(x) for x in xs]
    plains = [_as_plaintext("dot_plain", value, x) for x, value in zip(xs, values, strict=True)]
    level = min(x.level for x in (*xs, *plains))
    if level == 0:
        raise no_level("dot_plain", xs[0], _PRODUCT)
    scale = xs[0].params.scale_at(level)
    xs = [brought_to(x, level, scale) for x in xs]
    plains = [brought_to(plain, level, scale) for plain in plains]
    more = list(zip(xs[1:], plains[1:], strict=True))
    return xs[0]._multiply_plain(plains[0], more, product_scale(xs[0].params, level, scale * scale))


def product(x: Any, y: Any) -> Any:
    """The operator `x * y`: `multiply_plain`, or for two ciphertexts their raw product.

    The raw product has three components and the scale of both together; sums of such products need only one
    `relinearize` and one `rescale`.

    Returns:
      For two ciphertexts: level out, the lower of the two; scale out, the square of the canonical scale; error added,
      x v_y + y v_x + v_x v_y; keys needed, none.

    Raises:
      LevelError: the product would not fit below the modulus at level 0.
    """
    if not (isinstance(x, Kind) and isinstance(y, Kind)):
        return multiply_plain(*_ciphertext_first("multiply", x, y))
    x, y = align("multiply", to_canonical(x), to_canonical(y))
    _check_factors("multiply", x, y)
    return x._tensor(y)


def relinearize(x: Encrypted, keys: EvaluationKeys | None) -> Encrypted:
    """Brings a raw product back to two components.

    Returns:
      Level and scale stay. Error added: that of a key switch, about sqrt((1 + 2N/3)/12). Keys needed:
      relinearisation. A ciphertext of two components is returned as it is.

    Raises:
      MissingKeyError: `keys` has no relinearisation key for this level.

    Source: Han & Ki, 2020, section 3.
    """
    check_ciphertext("relinearize", x)
    if x.components == 2:
        return x
    key = relinearization_key("relinearize", keys, x)
    return x._relinearize(key)


def relinearization_key(operation: str, keys: EvaluationKeys | None, x: Kind) -> Any:
    """The relinearisation key as primitives take it, checked against the ciphertext that it is for.

    Raises:
      TypeError: `keys` is something else.
      MissingKeyError: it is not there, or for lower levels only.
    """
    keys = checked_keys(operation, keys, x)
    key = keys.relinearization_key(x.level) if keys is not None else None
    if key is not None:
        return key.operand
    lower = keys.relinearization if keys is not None else None
    have = "there is none" if lower is None else f"it is for level {lower.level} and below"
    raise missing_key(
        f"{operation}: needs the relinearisation key at level {x.level}, and {have}; "
        f"type {operation}(..., keys) with keys = fhejax.evaluation_keys(seed, secret_key)"
    )


def _multiply(operation, x, y, keys):
    x, y = align(operation, to_canonical(x), to_canonical(y))
    _check_factors(operation, x, y)
    key = relinearization_key(operation, keys, x)
    return x._multiply(y, key, product_scale(x.params, x.level, x.scale * y.scale))


def _sum(operation, x, y, negative=False):
    """x + y or x - y for a ciphertext x."""
    if _is_real_number(y):
        _check_number(y, x)
        return x._add_number(y, negative)
    if not isinstance(y, Kind):
        x, plain = align(operation, x, _as_plaintext(operation, y, x))
        return x._add_plain(plain, negative)
    x, y = align(operation, x, y)
    check_same_slots(operation, x, y)
    return x._subtract(y) if negative else x._add(y)


def _ciphertext_first(operation, x, y):
    if isinstance(x, Kind):
        return x, y
    if isinstance(y, Kind):
        return y, x
    raise TypeError(f"{operation}: neither operand is a ciphertext, but {type(x).__name__} and {type(y).__name__}")


def _check_factors(operation, x, y):
    check_same_params(operation, x, y)
    check_same_slots(operation, x, y)
    for each in (x, y):
        check_two_components(operation, each)
    if x.level == 0:
        raise no_level(operation, x, _PRODUCT)


def _is_real_number(value):
    """A number that a constant polynomial can hold: one real value for all slots."""
    if isinstance(value, (Kind, Plaintext, bool)):
        return False
    if isinstance(value, numbers.Real):
        return True
    return getattr(value, "ndim", None) == 0 and jnp.issubdtype(value.dtype, jnp.number) and not jnp.iscomplexobj(value)


def _check_number(value, x):
    """Refuses a number that is not finite or does not fit, where it can be looked at."""
    if _compat.is_traced(value):
        return
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"the number {number} is not finite; ciphertexts hold finite values only")
    scaled = abs(fractions.Fraction(number)) * fractions.Fraction(x.scale)
    _check_fits("the number", number, scaled, x.scale, x.params, x.level)


def _check_fits(what, value, scaled, scale, params, level):
    modulus = math.prod(params.moduli_at(level))
    if 2 * scaled >= modulus:
        shown = f"{value:.6g}" if abs(value) < 2**1000 else f"of about 2^{math.log2(abs(value)):.1f}"
        raise ValueError(
            f"{what} {shown} is too large for the modulus at level {level}: at scale 2^{math.log2(scale):.1f} "
            f"its magnitude must be below 2^{math.log2(modulus) - 1 - math.log2(scale):.1f}"
        )


def _as_plaintext(operation, values, x):
    """What `x` can be combined with: a plaintext as it is; anything else encoded like the ciphertext `x`."""
    if isinstance(values, Plaintext):
        check_same_params(operation, x, values)
        check_same_slots(operation, x, values)
    return x._plaintext_like(values)


operators.update(add=add, subtract=subtract, negate=negate, product=product)
