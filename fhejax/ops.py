"""Arithmetic on ciphertexts: with ciphertexts, plaintexts, arrays and numbers.

Operands of different level or scale are aligned by themselves (`fhejax.levels`). Each docstring says what comes out:
level, scale, error added (as the deviation of a coefficient), and the keys needed. N is the ring degree.
"""

import fractions
import math
import numbers
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.encoding import encode
from fhejax.encryption import check_same_params
from fhejax.errors import LevelError, MissingKeyError, ParametersMismatchError
from fhejax.levels import align, brought_to, check_ciphertext, product_scale, to_canonical
from fhejax.primitives import modular
from fhejax.primitives.basis import mod_down
from fhejax.primitives.key_switch import key_switch
from fhejax.primitives.multiply_ciphertexts import multiply_ciphertexts, tensor
from fhejax.primitives.residues import round_to_residues
from fhejax.values import Ciphertext, EvaluationKeys, Plaintext, operators


def add(x: Any, y: Any) -> Ciphertext:
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
    return _sum("add", x, y, _add)


def subtract(x: Any, y: Any) -> Ciphertext:
    """x - y. Arguments, result and errors as for `add`."""
    if isinstance(x, Ciphertext):
        return _sum("subtract", x, y, _subtract)
    check_ciphertext("subtract", y)
    return _sum("subtract", negate(y), x, _add)


def negate(x: Ciphertext) -> Ciphertext:
    """-x. Level and scale stay; error added: none; keys needed: none."""
    check_ciphertext("negate", x)
    return _with(x, _negate(x.data, x.params.moduli_at(x.level)), x.level, x.scale)


def multiply(x: Any, y: Any, keys: EvaluationKeys | None = None) -> Ciphertext:
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
    if not (isinstance(x, Ciphertext) and isinstance(y, Ciphertext)):
        return multiply_plain(*_ciphertext_first("multiply", x, y))
    return _multiply("multiply", x, y, keys)


def square(x: Ciphertext, keys: EvaluationKeys) -> Ciphertext:
    """x^2, relinearised and rescaled: `multiply(x, x, keys)`."""
    check_ciphertext("square", x)
    return _multiply("square", x, x, keys)


def multiply_plain(x: Ciphertext, values: Any) -> Ciphertext:
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
    if isinstance(values, Ciphertext):
        raise TypeError("multiply_plain: both operands are ciphertexts; type multiply(x, y, keys)")
    if isinstance(values, (int, np.integer)) and not isinstance(values, bool):
        return _multiply_integer(x, int(values))
    x = to_canonical(x)
    if x.level == 0:
        raise _no_level("multiply_plain", x)
    params, level = x.params, x.level
    if _is_real_number(values):
        scalar = _number_residues(values, x.scale, params, level)
        data = _scale_rescale(x.data, scalar, params, level)
        return _with(x, data, level - 1, params.scale_at(level - 1))
    plain = _as_plaintext("multiply_plain", values, x)
    x, plain = align("multiply_plain", x, plain)
    if x.level == 0:
        raise _no_level("multiply_plain", x)
    return _product(x, plain, _multiply_plain_rescale(x.data, plain.data, x.params, x.level))


def dot_plain(xs: Sequence[Ciphertext], values: Sequence[Any]) -> Ciphertext:
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
        _check_slots("dot_plain", xs[0], x)
    xs = [to_canonical(x) for x in xs]
    plains = [_as_plaintext("dot_plain", value, x) for x, value in zip(xs, values, strict=True)]
    level = min(x.level for x in (*xs, *plains))
    if level == 0:
        raise _no_level("dot_plain", xs[0])
    scale = xs[0].params.scale_at(level)
    xs = [brought_to(x, level, scale) for x in xs]
    plains = [brought_to(plain, level, scale) for plain in plains]
    data = _dot_plain_rescale([x.data for x in xs], [plain.data for plain in plains], xs[0].params, level)
    real = all(x.real for x in (*xs, *plains))
    return Ciphertext(data, xs[0].params, level - 1, xs[0].params.scale_at(level - 1), xs[0].slots, real)


def product(x: Any, y: Any) -> Ciphertext:
    """The operator `x * y`: `multiply_plain`, or for two ciphertexts their raw product.

    The raw product has three components and the scale of both together; sums of such products need only one
    `relinearize` and one `rescale`.

    Returns:
      For two ciphertexts: level out, the lower of the two; scale out, the square of the canonical scale; error added,
      x v_y + y v_x + v_x v_y; keys needed, none.

    Raises:
      LevelError: the product would not fit below the modulus at level 0.
    """
    if not (isinstance(x, Ciphertext) and isinstance(y, Ciphertext)):
        return multiply_plain(*_ciphertext_first("multiply", x, y))
    x, y = align("multiply", to_canonical(x), to_canonical(y))
    _check_factors("multiply", x, y)
    data = _tensor(x.data, y.data, x.params.moduli_at(x.level))
    return Ciphertext(data, x.params, x.level, x.scale * y.scale, x.slots, x.real and y.real)


def relinearize(x: Ciphertext, keys: EvaluationKeys) -> Ciphertext:
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
    return _with(x, _relinearize(x.data, key, x.params, x.level), x.level, x.scale)


def relinearization_key(operation: str, keys: EvaluationKeys | None, x: Ciphertext) -> Any:
    """The relinearisation key as primitives take it, checked against the ciphertext that it is for.

    Raises:
      TypeError: `keys` is something else.
      MissingKeyError: it is not there, or for lower levels only.
    """
    check_keys(operation, keys, x)
    key = keys.relinearization if keys is not None else None
    if key is None or key.level < x.level:
        have = "there is none" if key is None else f"it is for level {key.level} and below"
        raise MissingKeyError(
            f"{operation}: needs the relinearisation key at level {x.level}, and {have}; "
            f"type {operation}(..., keys) with keys = fhejax.evaluation_keys(seed, secret_key)"
        )
    return key.operand


def check_keys(operation: str, keys: Any, x: Ciphertext) -> None:
    """Refuses anything but evaluation keys of the ciphertext's parameters (or None, which has no keys).

    Raises:
      TypeError: it is something else.
      ParametersMismatchError: the keys belong to another parameter set.
    """
    if keys is None:
        return
    if not isinstance(keys, EvaluationKeys):
        raise TypeError(
            f"{operation}: got {type(keys).__name__} for the evaluation keys; "
            "type keys = fhejax.evaluation_keys(seed, secret_key)"
        )
    check_same_params(operation, x, keys)


def _multiply(operation, x, y, keys):
    x, y = align(operation, to_canonical(x), to_canonical(y))
    _check_factors(operation, x, y)
    key = relinearization_key(operation, keys, x)
    return _product(x, y, _multiply_relinearize_rescale(x.data, y.data, key, x.params, x.level))


def _sum(operation, x, y, combine):
    """x + y or x - y for a ciphertext x."""
    if _is_real_number(y):
        residues = _number_residues(y, x.scale, x.params, x.level)
        return _with(x, _add_constant(x.data, residues, combine is _subtract, x.params.moduli_at(x.level)))
    if not isinstance(y, Ciphertext):
        y = _as_ciphertext(_as_plaintext(operation, y, x))
    x, y = align(operation, x, y)
    _check_slots(operation, x, y)
    data = combine(x.data, y.data, x.params.moduli_at(x.level))
    return Ciphertext(data, x.params, x.level, x.scale, x.slots, x.real and y.real)


def _ciphertext_first(operation, x, y):
    if isinstance(x, Ciphertext):
        return x, y
    if isinstance(y, Ciphertext):
        return y, x
    raise TypeError(f"{operation}: neither operand is a ciphertext, but {type(x).__name__} and {type(y).__name__}")


def _check_factors(operation, x, y):
    check_same_params(operation, x, y)
    _check_slots(operation, x, y)
    if x.components != 2 or y.components != 2:
        raise ValueError(f"{operation}: an operand has three components; type fhejax.relinearize(x, keys) first")
    if x.level == 0:
        raise _no_level(operation, x)


def _check_slots(operation, x, y):
    if x.slots != y.slots:
        raise ParametersMismatchError(f"{operation}: {x.slots} and {y.slots} slots; encode both with the same `slots`")


def _no_level(operation, x):
    depth = x.params.max_level
    return LevelError(
        f"{operation}: the operand is at level 0 and a product needs one more; make parameters with more depth, such "
        f"as Parameters.for_depth({depth + 1}), or bootstrap"
    )


def _with(x, data, level=None, scale=None):
    return Ciphertext(
        data, x.params, x.level if level is None else level, x.scale if scale is None else scale, x.slots, x.real
    )


def _product(x, y, data):
    scale = product_scale(x.params, x.level, x.scale * y.scale)
    return Ciphertext(data, x.params, x.level - 1, scale, x.slots, x.real and y.real)


def _is_real_number(value):
    """A number that a constant polynomial can hold: one real value for all slots."""
    if isinstance(value, (Ciphertext, Plaintext, bool)):
        return False
    if isinstance(value, numbers.Real):
        return True
    return getattr(value, "ndim", None) == 0 and jnp.issubdtype(value.dtype, jnp.number) and not jnp.iscomplexobj(value)


def _number_residues(value, scale, params, level):
    """round(value scale) modulo each prime, `uint64[limbs]`; for a concrete number, a constant of the program."""
    moduli = params.moduli_at(level)
    if _compat.is_traced(value):
        # A copy: with x64 off, eager vmap holds a NumPy double behind a float32 tracer (as in encode).
        return _encode_number(jnp.array(value, copy=True), scale, moduli)
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"the number {number} is not finite; ciphertexts hold finite values only")
    exact = fractions.Fraction(number) * fractions.Fraction(scale)
    _check_fits("the number", number, abs(exact), scale, params, level)
    rounded = math.floor(abs(exact) + fractions.Fraction(1, 2)) * (-1 if exact < 0 else 1)
    return np.array([rounded % q for q in moduli], np.uint64)


def _check_fits(what, value, scaled, scale, params, level):
    modulus = math.prod(params.moduli_at(level))
    if 2 * scaled >= modulus:
        shown = f"{value:.6g}" if abs(value) < 2**1000 else f"of about 2^{math.log2(abs(value)):.1f}"
        raise ValueError(
            f"{what} {shown} is too large for the modulus at level {level}: at scale 2^{math.log2(scale):.1f} "
            f"its magnitude must be below 2^{math.log2(modulus) - 1 - math.log2(scale):.1f}"
        )


def _multiply_integer(x, value):
    moduli = x.params.moduli_at(x.level)
    _check_fits("the integer", value, abs(value) * fractions.Fraction(x.scale), x.scale, x.params, x.level)
    residues = np.array([value % q for q in moduli], np.uint64)
    return _with(x, _multiply_scalar(x.data, residues, moduli))


def _as_plaintext(operation, values, x):
    """A plaintext as it is; anything else encoded like the ciphertext `x`."""
    if isinstance(values, Plaintext):
        check_same_params(operation, x, values)
        _check_slots(operation, x, values)
        return values
    return encode(values, x.params, level=x.level, scale=x.scale, slots=x.slots)


def _as_ciphertext(plain):
    """A plaintext as the ciphertext (m, 0) with the second component left out: `uint64[*batch, 1, limbs, N]`."""
    return Ciphertext(plain.data[..., None, :, :], plain.params, plain.level, plain.scale, plain.slots, plain.real)


def _by_components(function):
    """Applies `function` to the components that both have, and keeps those that only one has."""

    def combined(x, y, moduli):
        common = min(x.shape[-3], y.shape[-3])
        head = function(x[..., :common, :, :], y[..., :common, :, :], moduli)
        longer = x if x.shape[-3] > common else y
        if longer.shape[-3] == common:
            return head
        tail = longer[..., common:, :, :]
        if longer is y and function is modular.subtract:
            tail = modular.negate(tail, moduli)
        tail = jnp.broadcast_to(tail, (*head.shape[:-3], *tail.shape[-3:]))
        return jnp.concatenate([head, tail], axis=-3)

    return _compat.jit(2)(combined)


_add, _subtract = _by_components(modular.add), _by_components(modular.subtract)
_tensor = _compat.jit(2)(tensor)
_negate = _compat.jit(1)(modular.negate)
_multiply_scalar = _compat.jit(2)(modular.multiply_scalar)


@_compat.jit(1, 2)
def _encode_number(value, scale, moduli):
    return round_to_residues(value.astype(jnp.float64)[..., None], scale, moduli)[..., 0]


@_compat.jit(2, 3)
def _add_constant(data, residues, negative, moduli):
    """Adds a constant to every value of the first component: a constant polynomial has one value everywhere."""
    c0 = data[..., 0, :, :]
    constant = jnp.broadcast_to(residues[..., None], c0.shape[-2:])
    c0 = (modular.subtract if negative else modular.add)(c0, constant, moduli)
    return jnp.concatenate([c0[..., None, :, :], data[..., 1:, :, :]], axis=-3)


@_compat.jit(2, 3)
def _scale_rescale(data, scalar, params, level):
    moduli = params.moduli_at(level)
    return mod_down(modular.multiply_scalar(data, scalar, moduli), moduli[:-1], moduli[-1:])


@_compat.jit(2, 3)
def _multiply_plain_rescale(data, plain, params, level):
    moduli = params.moduli_at(level)
    return mod_down(modular.multiply(data, plain[..., None, :, :], moduli), moduli[:-1], moduli[-1:])


@_compat.jit(2, 3)
def _dot_plain_rescale(xs, plains, params, level):
    moduli = params.moduli_at(level)
    total = modular.multiply(xs[0], plains[0][..., None, :, :], moduli)
    for x, plain in zip(xs[1:], plains[1:], strict=True):
        total = modular.multiply_add(x, plain[..., None, :, :], total, moduli)
    return mod_down(total, moduli[:-1], moduli[-1:])


@_compat.jit(3, 4)
def _multiply_relinearize_rescale(x, y, key, params, level):
    return multiply_ciphertexts(x, y, key, params.moduli_at(level), params.special_moduli, params.digit_size)


@_compat.jit(2, 3)
def _relinearize(data, key, params, level):
    moduli = params.moduli_at(level)
    switched = key_switch(data[..., 2, :, :], key, moduli, params.special_moduli, params.digit_size)
    return modular.add(data[..., :2, :, :], switched, moduli)


operators.update(add=add, subtract=subtract, negate=negate, product=product)
