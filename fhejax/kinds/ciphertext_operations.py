"""What an operation does to the contents of its operands, for every kind of value that has levels.

Which level and scale come out is decided above this file (operations, polynomials.evaluation), once for all kinds.
Here is the work that is left: on residues, for ciphertexts and plaintexts. `fhejax.kinds.simulated_operations`
registers the same functions for `Simulated` values. Operands have been checked and aligned.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.primitives import modular
from fhejax.primitives.basis import mod_down
from fhejax.primitives.combination import combination
from fhejax.primitives.key_switch import hoisted_rotations, key_switch
from fhejax.primitives.multiply_ciphertexts import (
    multiply_ciphertexts,
    relinearize_rescale,
    tensor as tensor_components,
)
from fhejax.primitives.rounding import round_to_residues
from fhejax.scheme.encoding import encode
from fhejax.scheme.values import Plaintext, SwitchingKey

# A kind registers its functions by the type of the first operand.
for_each_kind = functools.singledispatch


@for_each_kind
def change_level(x: Any, factor: int, top: int, level: int, scale: float) -> Any:
    """Drops the limbs above `top`, multiplies the residues by `factor`, and divides by the primes down to `level`.

    The values stay: `scale` is the one at which they then are. Of a ciphertext of two or three components, or a
    plaintext.
    """
    moduli, data = x.params.moduli_at(top), x.data[..., : top + 1, :]
    if factor != 1:
        data = _multiply_scalar(data, np.array([factor % q for q in moduli], np.uint64), moduli)
    if level < top:
        data = _mod_down(data, moduli[: level + 1], moduli[level + 1 :])
    return _with(x, data, level, scale)


@for_each_kind
def add(x: Any, y: Any) -> Any:
    """x + y, at the level and scale of both."""
    return _both(x, y, _add(x.data, y.data, x.params.moduli_at(x.level)))


@for_each_kind
def subtract(x: Any, y: Any) -> Any:
    """x - y, at the level and scale of both."""
    return _both(x, y, _subtract(x.data, y.data, x.params.moduli_at(x.level)))


@for_each_kind
def negate(x: Any) -> Any:
    """-x."""
    return _with(x, _negate(x.data, x.params.moduli_at(x.level)))


@for_each_kind
def plaintext_like(x: Any, values: Any) -> Any:
    """What x can be combined with: a plaintext as it is, an array encoded at the level, scale and packing of x."""
    if isinstance(values, Plaintext):
        return values
    return encode(values, x.params, level=x.level, scale=x.scale, slots=x.slots)


@for_each_kind
def add_plain(x: Any, plain: Any, negative: bool) -> Any:
    """x + plain or x - plain for a plaintext at the level and scale of x."""
    # The ciphertext (m, 0) with its second component left out: `uint64[*batch, 1, limbs, N]`.
    combine = _subtract if negative else _add
    return _both(x, plain, combine(x.data, plain.data[..., None, :, :], x.params.moduli_at(x.level)))


@for_each_kind
def add_number(x: Any, number: Any, negative: bool) -> Any:
    """x + number or x - number, for one real number for all slots."""
    residues = number_residues(number, x.scale, x.params, x.level)
    return _with(x, _add_constant(x.data, residues, negative, x.params.moduli_at(x.level)))


@for_each_kind
def multiply_integer(x: Any, factor: int) -> Any:
    """x times a Python integer, exactly."""
    moduli = x.params.moduli_at(x.level)
    return _with(x, _multiply_scalar(x.data, np.array([factor % q for q in moduli], np.uint64), moduli))


@for_each_kind
def multiply_number(x: Any, number: Any, scale: float) -> Any:
    """x times one real number for all slots, encoded at the scale of x, and rescaled to `scale`."""
    scalar = number_residues(number, x.scale, x.params, x.level)
    return _with(x, _scale_rescale(x.data, scalar, x.params, x.level), x.level - 1, scale)


@for_each_kind
def multiply_plain(x: Any, plain: Any, more: Sequence[tuple[Any, Any]], scale: float) -> Any:
    """x times a plaintext, plus such products of `more`, rescaled once to `scale`."""
    xs, plains = zip((x, plain), *more, strict=True)
    data = _dot_plain_rescale([x.data for x in xs], [plain.data for plain in plains], x.params, x.level)
    return _with(x, data, x.level - 1, scale, all(each.real for each in (*xs, *plains)))


@for_each_kind
def tensor(x: Any, y: Any) -> Any:
    """The raw product, of three components."""
    data = _tensor(x.data, y.data, x.params.moduli_at(x.level))
    return _both(x, y, data, x.level, x.scale * y.scale)


@for_each_kind
def multiply(x: Any, y: Any, key: Any, scale: float) -> Any:
    """x y, relinearised and rescaled to `scale`."""
    data = _multiply_relinearize_rescale(x.data, y.data, key, x.params, x.level)
    return _both(x, y, data, x.level - 1, scale)


@for_each_kind
def relinearize(x: Any, key: Any) -> Any:
    """Three components brought to two."""
    return _with(x, _relinearize(x.data, key, x.params, x.level))


@for_each_kind
def automorphisms(x: Any, elements: Sequence[int], keys: Sequence[SwitchingKey | None]) -> list[Any]:
    """For each galois element, x with its automorphism applied and switched back by its key; hoisted."""
    operands = tuple(key.operand for key in keys if key is not None)
    return [_with(x, data) for data in _rotate(x.data, operands, tuple(elements), x.params, x.level)]


@for_each_kind
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
    """weights . terms + sum of products + constant, relinearised and rescaled once, into `level` and `scale`.

    It is added up one level higher, at the scale that is the product of each product's two scales.

    Args:
      like: a term or a factor.
      level, scale: of the result.
      terms: of two components, at `level + 1` or above, at any scales.
      weights: floating `[terms]`, or `[terms, slots]` for one in each slot.
      products: pairs, of which the scales multiply to that of the sum.
      constant: floating, a number or `[slots]`; None for zero.
      key: the relinearisation key, if there are products.
    """
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
    data = relinearize_rescale(total.data, *switch) if products else mod_down(total.data, moduli[:-1], moduli[-1:])
    return _with(like, data, level, scale)


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
_mod_down = _compat.jit(1, 2)(mod_down)


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
