"""Arithmetic and sums of ciphertexts: what operations do to residues. The methods of `Ciphertext`; see `Kind`."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.kinds.requirements import check_same_params
from fhejax.primitives import modular
from fhejax.primitives.basis import mod_down
from fhejax.primitives.combination import combination
from fhejax.primitives.encryption import decrypt_coefficients
from fhejax.primitives.key_switch import hoisted_rotations, key_switch
from fhejax.primitives.multiply_ciphertexts import (
    multiply_ciphertexts,
    relinearize_rescale as relinearize_and_divide,
    tensor as tensor_components,
)
from fhejax.primitives.ntt import ntt
from fhejax.primitives.rounding import round_to_residues
from fhejax.primitives.weighted_sums import weighted_sums as weighted_residues
from fhejax.scheme import values as of_values
from fhejax.scheme.encoding import encode, result_dtype, slots_of
from fhejax.scheme.keys import check_secret
from fhejax.scheme.values import Plaintext, SwitchingKey


def change_level(x: Any, factor: int, top: int, level: int, scale: float) -> Any:
    return _with(x, of_values.change_level(x.data, x.params.moduli_at(top), factor, level), level, scale)


def add(x: Any, y: Any) -> Any:
    return _both(x, y, _add(x.data, y.data, x.params.moduli_at(x.level)))


def subtract(x: Any, y: Any) -> Any:
    return _both(x, y, _subtract(x.data, y.data, x.params.moduli_at(x.level)))


def negate(x: Any) -> Any:
    return _with(x, _negate(x.data, x.params.moduli_at(x.level)))


def plaintext_like(x: Any, values: Any) -> Any:
    if isinstance(values, Plaintext):
        return values
    return encode(values, x.params, level=x.level, scale=x.scale, slots=x.slots)


def add_plain(x: Any, plain: Any, negative: bool) -> Any:
    # The ciphertext (m, 0) with its second component left out: `uint64[*batch, 1, limbs, N]`.
    combine = _subtract if negative else _add
    return _both(x, plain, combine(x.data, plain.data[..., None, :, :], x.params.moduli_at(x.level)))


def add_number(x: Any, number: Any, negative: bool) -> Any:
    residues = number_residues(number, x.scale, x.params, x.level)
    return _with(x, _add_constant(x.data, residues, negative, x.params.moduli_at(x.level)))


def multiply_integer(x: Any, factor: int) -> Any:
    moduli = x.params.moduli_at(x.level)
    return _with(x, _multiply_scalar(x.data, np.array([factor % q for q in moduli], np.uint64), moduli))


def multiply_number(x: Any, number: Any, scale: float) -> Any:
    scalar = number_residues(number, x.scale, x.params, x.level)
    return _with(x, _scale_rescale(x.data, scalar, x.params, x.level), x.level - 1, scale)


def multiply_plain(x: Any, plain: Any, more: Sequence[tuple[Any, Any]], scale: float) -> Any:
    xs, plains = zip((x, plain), *more, strict=True)
    data = _dot_plain_rescale([x.data for x in xs], [plain.data for plain in plains], x.params, x.level)
    return _with(x, data, x.level - 1, scale, all(each.real for each in (*xs, *plains)))


def tensor(x: Any, y: Any) -> Any:
    data = _tensor(x.data, y.data, x.params.moduli_at(x.level))
    return _both(x, y, data, x.level, x.scale * y.scale)


def multiply(x: Any, y: Any, key: Any, scale: float) -> Any:
    data = _multiply_relinearize_rescale(x.data, y.data, key, x.params, x.level)
    return _both(x, y, data, x.level - 1, scale)


def relinearize(x: Any, key: Any) -> Any:
    return _with(x, _relinearize(x.data, key, x.params, x.level))


def automorphisms(x: Any, elements: Sequence[int], keys: Sequence[SwitchingKey]) -> list[Any]:
    operands = tuple(key.operand for key in keys)
    return [_with(x, data) for data in _rotate(x.data, operands, tuple(elements), x.params, x.level)]


def combine(
    like: Any,
    level: int,
    scale: float,
    terms: Sequence[Any],
    weights: Any,
    products: Sequence[tuple[Any, Any]],
    constant: Any,
    key: Any,
) -> Any:
    params, above = like.params, level + 1
    moduli, raw = params.moduli_at(above), scale * params.moduli[above]
    switch = key, moduli, params.special_moduli, params.digit_size
    if len(products) == 1 and not terms:  # one kernel; the constant is added behind it
        ((x, y),) = products
        return _plus(_with(like, multiply_ciphertexts(x.data, y.data, *switch), level, scale), constant)
    xs, ys = ([pair[i].data for pair in products] for i in (0, 1))
    operands, numbers = _weighted([x.data for x in terms], [x.scale for x in terms], weights, raw, like, above)
    if constant is not None and not jnp.ndim(constant):
        residues = number_residues(constant, raw, params, above)
        numbers, constant = jnp.concatenate([numbers, jnp.asarray(residues)[None]]), None
    total = _plus(_with(like, combination(xs, ys, operands, numbers, moduli), above, raw), constant)
    data = relinearize_and_divide(total.data, *switch) if products else mod_down(total.data, moduli[:-1], moduli[-1:])
    return _with(like, data, level, scale)


def weighted_sums(x: Any, weights: Any, scale: float) -> Any:
    real = x.real and not jnp.iscomplexobj(weights)
    return _with(x, _weighted_sums(x.data, weights, x.params, x.level), x.level - 1, scale, real)


def tensor_sum(first: Any, xs: Sequence[Any], ys: Sequence[Any]) -> Any:
    data = _tensor_sum([x.data for x in xs], [y.data for y in ys], first.params.moduli_at(first.level))
    real = all(each.real for each in (*xs, *ys))
    return _with(first, data, first.level, first.scale * ys[0].scale, real)


def relinearize_rescale(x: Any, key: Any, scale: float) -> Any:
    return _with(x, _relinearize_rescale(x.data, key, x.params, x.level), x.level - 1, scale)


def multiply_by_i(x: Any) -> Any:
    return _with(x, times_monomial(x.data, x.params, x.level), real=False)


def decrypt(x: Any, secret: Any, dtype: Any) -> Any:
    secret = check_secret("decrypt", secret)
    check_same_params("decrypt", secret, x)
    dtype = result_dtype("decrypt", x.real, dtype)
    return _decrypt(secret.data, x.data, x.params, x.level, x.scale, x.slots, x.real, dtype)


def _plus(x, constant):
    if constant is None:
        return x
    if jnp.ndim(constant):
        return add_plain(x, plaintext_like(x, constant), False)
    return add_number(x, constant, False)


def number_residues(value: Any, scale: float, params: Any, level: int) -> Any:
    """round(value scale) modulo each prime, `uint64[limbs]`; for a concrete number, a constant of the program."""
    moduli = params.moduli_at(level)
    if _compat.is_traced(value):
        # A copy: with x64 off, eager vmap holds a NumPy double behind a float32 tracer (as in encode).
        return _encode_number(jnp.array(value, copy=True), scale, moduli)
    rounded = _rounded(float(value), scale)
    return np.array([rounded % q for q in moduli], np.uint64)


def _rounded(value: float, scale: float) -> int:
    """value scale, rounded half away from zero, exactly."""
    (a, b), (c, d) = value.as_integer_ratio(), scale.as_integer_ratio()
    size = (2 * abs(a) * c + b * d) // (2 * b * d)
    return -size if a < 0 else size


def _weighted(terms, scales, weights, raw, like, level):
    """The residues of each term, and the numbers that they are to be multiplied by to be at the scale `raw`."""
    params, moduli = like.params, like.params.moduli_at(level)
    if not terms:
        return [], jnp.zeros((0, len(moduli)), jnp.uint64)
    # One scale encodes all weights: what the terms' scales differ by is multiplied into them.
    unit = params.scale_at(level)
    factors = np.array([unit / scale for scale in scales])
    if jnp.ndim(weights) == 2:
        weights = jnp.asarray(weights) * factors[:, None]
        plains = encode(weights, params, level=level, scale=raw / unit, slots=like.slots).data
        limbs = len(moduli)
        products = [
            modular.multiply(x[..., :limbs, :], plain[None], moduli) for x, plain in zip(terms, plains, strict=True)
        ]
        return products, jnp.ones((len(terms), limbs), jnp.uint64)
    weights = jnp.asarray(weights) * factors
    return terms, round_to_residues(weights[:, None], raw / unit, moduli)[..., 0]


def _with(x, data, level=None, scale=None, real=None):
    level, scale = x.level if level is None else level, x.scale if scale is None else scale
    return type(x)(data, x.params, level, scale, x.slots, x.real if real is None else real)


def _both(x, y, data, level=None, scale=None):
    return _with(x, data, level, scale, x.real and y.real)


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
_tensor = _compat.jit(2)(tensor_components)
_negate = _compat.jit(1)(modular.negate)
_multiply_scalar = _compat.jit(2)(modular.multiply_scalar)


@_compat.jit(1, 2)
def _encode_number(value, scale, moduli):
    return round_to_residues(value.astype(jnp.float64)[..., None], scale, moduli)[..., 0]


@_compat.jit(2, 3)
def _add_constant(data, residues, negative, moduli):
    residues = modular.negate(residues[..., None], moduli)[..., 0] if negative else residues
    numbers = jnp.stack([jnp.ones_like(residues), residues], axis=-2)
    return combination([], [], [data], numbers, moduli)


@_compat.jit(2, 3)
def _scale_rescale(data, scalar, params, level):
    moduli = params.moduli_at(level)
    return mod_down(modular.multiply_scalar(data, scalar, moduli), moduli[:-1], moduli[-1:])


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


@_compat.jit(2, 3, 4)
def _rotate(data, keys, elements, params, level):
    return hoisted_rotations(data, keys, elements, params.moduli_at(level), params.special_moduli, params.digit_size)


@_compat.jit(2)
def _tensor_sum(xs, ys, moduli):
    return combination(xs, ys, [], jnp.zeros((0, len(moduli)), jnp.uint64), moduli)


@_compat.jit(2, 3)
def _weighted_sums(data, weights, params, level):
    moduli = params.moduli_at(level)
    if jnp.iscomplexobj(weights):
        data = jnp.concatenate([data, times_monomial(data, params, level)], axis=-4)
        weights = jnp.concatenate([jnp.real(weights), jnp.imag(weights)])
    numbers = jnp.swapaxes(weights, -1, -2).astype(jnp.float64)
    residues = round_to_residues(numbers, params.plain_scale_at(level), moduli)
    return mod_down(weighted_residues(data, residues, moduli), moduli[:-1], moduli[-1:])


@_compat.jit(2, 3)
def _relinearize_rescale(data, key, params, level):
    return relinearize_and_divide(data, key, params.moduli_at(level), params.special_moduli, params.digit_size)


@_compat.jit(1, 2)
def times_monomial(data, params, level):
    """Times X^(N/2), which is i in every slot."""
    moduli, half = params.moduli_at(level), params.degree // 2
    monomial = jnp.zeros((len(moduli), params.degree), jnp.uint64).at[:, half].set(1)
    return modular.multiply(data, ntt(monomial, moduli), moduli)


@_compat.jit(2, 3, 4, 5, 6, 7)
def _decrypt(secret, data, params, level, scale, slots, real, dtype):
    return slots_of(decrypt_coefficients(data, secret, params.moduli_at(level)), scale, slots, real, dtype)
