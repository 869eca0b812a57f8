"""The stages of bootstrapping, each of which can be used alone, on ciphertexts and on simulated values.

A message m is q_0 / 32 at most, and modulo q_0 it is all the same with multiples of q_0 added. So raising the modulus
is free, and gives t = m + q_0 I with small integers I in every coefficient. Where slots hold t / q_0, a sine takes I
away.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.bootstrapping.bootstrapping import Bootstrapping, BootstrappingKeys
from fhejax.errors import ParametersMismatchError, missing_key
from fhejax.kinds.ciphertext_operations import for_each_kind
from fhejax.kinds.simulated import Simulated
from fhejax.linear.evaluation import apply
from fhejax.operations.arithmetic import add, multiply, subtract
from fhejax.operations.encryption import check_same_params
from fhejax.operations.levels import Encrypted, check_ciphertext, drop_to_level, to_canonical
from fhejax.operations.rotations import conjugate, rotate
from fhejax.polynomials.evaluation import evaluate
from fhejax.polynomials.polynomial import Polynomial
from fhejax.primitives.basis import convert_basis
from fhejax.primitives.key_switch import key_switch
from fhejax.primitives.modular import add as add_residues, multiply as multiply_residues, multiply_scalar
from fhejax.primitives.ntt import inverse_ntt, ntt


@for_each_kind
def refreshed(x: Any, keys: BootstrappingKeys) -> Any:
    """x, of the input level, by all stages in a row."""
    return by_stages(x, keys)


def by_stages(x: Any, keys: BootstrappingKeys) -> Any:
    """Every kind's stages in a row."""
    if keys.bootstrapping.slots_first:
        return joined(refreshed_parts(x, keys))
    halves = coeff_to_slot(mod_raise(x, keys), keys)
    y = slot_to_coeff(joined([eval_mod(half, keys) for half in halves]), keys)
    return known_real(y) if x.real else y


def refreshed_parts(x: Any, keys: BootstrappingKeys) -> list[Any]:
    """With slots-to-coefficients first, the real part of every slot, and the imaginary part unless x is known real."""
    halves = coeff_to_slot(mod_raise(slot_to_coeff(x, keys), keys), keys, x.real)
    if halves[0].slots > x.slots:
        return straightened_apart(doubled(cosine(halves[0], keys), keys), keys)
    return [eval_mod(half, keys) for half in halves]


def joined(parts: list[Any]) -> Any:
    """The first, plus i times the second if there is one."""
    return parts[0] if len(parts) == 1 else with_imaginary(*parts)


@for_each_kind
def with_imaginary(x: Any, y: Any) -> Any:
    """x + i y, of real slots."""
    return add(x, multiply_by_i(y))


def mod_raise(x: Encrypted, keys: BootstrappingKeys | Bootstrapping) -> Encrypted:
    """From level 0 to the top: the same integers modulo q_0, which are others by multiples of it.

    With fewer slots than N/2, the coefficients that they do not use are cleared of their multiples by a trace.

    Args:
      x: a ciphertext of two components, or simulated values; it is brought to level 0.
      keys: as for `bootstrap`.

    Returns:
      The polynomial t = m + q_0 I, times N/2n for n slots, at a scale for which t / q_0 are its coefficients, up to
      `Bootstrapping.raised`; |I| is at most half the weight of the sparse secret. Level out: the top. Scale out:
      canonical. Error added: that of a key switch at level 0 to a secret of weight h, sqrt((1 + h)/12) and that of its
      key; and at the top those of the key switch back and of log2(N/2n) rotations. Keys needed: `to_sparse`,
      `to_dense`, rotations by `Bootstrapping.trace_steps()`.

    Raises:
      As `bootstrap`, but LevelError.

    Source: Bossuat, Troncoso-Pastoriza & Hubaux, "Bootstrapping for Approximate Homomorphic Encryption with Negligible
    Failure-Probability by Using Sparse-Secret Encapsulation", 2022, algorithm 2.
    """
    keys = checked_keys("mod_raise", x, keys)
    x = raised(drop_to_level(to_canonical(x), 0), keys)
    for step in keys.bootstrapping.trace_steps():
        x = add(x, turned(x, step, keys))
    return x


@for_each_kind
def raised(x: Any, keys: BootstrappingKeys) -> Any:
    """x, of level 0, at the top, by way of the sparse secret; before the trace."""
    params = x.params
    data = _raised(x.data, keys.to_sparse, keys.to_dense, params, keys.bootstrapping.raised)
    return type(x)(data, params, params.max_level, params.scale_at(params.max_level), x.slots, False)


@for_each_kind
def turned(x: Any, step: int, keys: BootstrappingKeys) -> Any:
    """x rotated by a multiple of its slots, which moves none of them, but what lies between its coefficients."""
    full = dataclasses.replace(x, slots=x.params.degree // 2)
    return dataclasses.replace(rotate(full, step, keys.evaluation), slots=x.slots)


@_compat.jit(3, 4)
def _raised(data, to_sparse, to_dense, params, factor):
    moduli, special = params.moduli, params.special_moduli
    data = _switched(data, to_sparse, moduli[:1], special[:1], 1)
    coefficients = inverse_ntt(data, moduli[:1])
    others = ntt(convert_basis(coefficients, moduli[:1], moduli[1:]), moduli[1:])
    data = jnp.concatenate([data, others], axis=-2)
    scalar = jnp.asarray(np.array([factor % q for q in moduli], np.uint64))
    data = multiply_scalar(data, scalar, moduli)
    return _switched(data, to_dense, moduli, special, params.digit_size)


def _switched(data, key, moduli, special, digit_size):
    u = key_switch(data[..., 1, :, :], key, moduli, special, digit_size)
    first = add_residues(u[..., 0, :, :], data[..., 0, :, :], moduli)
    return jnp.stack([first, u[..., 1, :, :]], axis=-3)


def coeff_to_slot(x: Encrypted, keys: BootstrappingKeys | Bootstrapping, real: bool = False) -> list[Encrypted]:
    """The coefficients, as slots: the first half of them alone, or both halves.

    Args:
      x: what `mod_raise` gives.
      keys: as for `bootstrap`.
      real: whether to leave out the second half: with slots-to-coefficients first, that of real values is zero.

    Returns:
      One ciphertext for each half, of real slots: t / (q_0 width), at most 1, for the width of `Bootstrapping.sine`, in
      bit-reversed order. With up to N/4 slots, both halves side by side in one ciphertext of twice the slots, so that
      they cost one sine (`Bootstrapping.side_by_side`). Level out: `coefficient_levels` lower. Scale out: canonical.
      Error added: that of `apply` for each factor, and of a conjugation. Keys needed: rotations, conjugation.

    Raises:
      As `bootstrap`; LevelError: `x` is below the top.

    Source: Cheon, Han & Hhan, "Faster Homomorphic Discrete Fourier Transforms and Improved FHE Bootstrapping", 2018.
    """
    keys = checked_keys("coeff_to_slot", x, keys)
    transforms = keys.coeff_to_slot
    if keys.halves is not None and not real:
        transforms = (*transforms[:-1], keys.halves)
    slots = x.slots
    for transform in transforms:
        x = apply(transform, repeated(x) if transform.slots > x.slots else x, keys.evaluation)
    mirrored = conjugate(x, keys.evaluation)
    parts = [add(x, mirrored)]
    if not real and x.slots == slots:
        parts.append(multiply_by_i(subtract(mirrored, x)))
    return [known_real(part) for part in parts]


def slot_to_coeff(x: Encrypted, keys: BootstrappingKeys | Bootstrapping) -> Encrypted:
    """The slots, as coefficients: a ciphertext of the polynomial sum_k z_k X^(k N/2n), in bit-reversed order of k.

    Of complex slots, the real parts are the first half of the coefficients and the imaginary parts the second.

    Args:
      x: a ciphertext of two components, or simulated values, at least at the level of the first of
        `keys.slot_to_coeff`: the input level with slots-to-coefficients first, else the one at which the sine ends.
      keys: as for `bootstrap`.

    Returns:
      Level out: `slot_levels` below that. Scale out: canonical. Error added: that of `apply` for each factor; between
      them what the operand's error is times sqrt(n), in slots. Keys needed: rotations.

    Raises:
      As `bootstrap`; LevelError: `x` is below the first transform's level.

    Source: as for `coeff_to_slot`.
    """
    keys = checked_keys("slot_to_coeff", x, keys, both=True)
    slots = keys.params.slots
    for transform in keys.slot_to_coeff:
        x = apply(transform, x, keys.evaluation)
        x = _folded(x, keys) if x.slots > slots else x
    return x


def eval_mod(x: Encrypted, keys: BootstrappingKeys | Bootstrapping) -> Encrypted:
    """Takes multiples of q_0 away from every slot.

    Args:
      x: real slots, of `coeff_to_slot`.
      keys: as for `bootstrap`.

    Returns:
      m in units of the programs' scale: (t / q_0 - I) times `Bootstrapping.ratio`. Level out: `sine_depth` lower. Scale
      out: canonical. Error added: `Bootstrapping.sine.error`, and the roundings of the polynomial, each doubling
      and the arcsine, of which the first ones count some ten times. Keys needed: relinearisation.

    Raises:
      As `bootstrap`; LevelError: not enough levels are left. ValueError: complex slots.

    Source: see `fhejax.bootstrapping.mod1`.
    """
    keys = checked_keys("eval_mod", x, keys, both=True)
    if not x.real:
        raise ValueError(
            "eval_mod: the slots are complex, and the sine takes real ones; type coeff_to_slot(x, keys), which gives "
            "both halves of the coefficients as real slots"
        )
    return straightened(doubled(cosine(x, keys), keys), keys)


def cosine(x: Any, keys: BootstrappingKeys) -> Any:
    """The first step of `eval_mod`: the cosine of an angle divided by 2^r, for r doublings."""
    sine = keys.bootstrapping.sine
    return evaluate(sine.cosine, subtract(x, 0.25 / sine.width), keys.evaluation)


def doubled(y: Any, keys: BootstrappingKeys) -> Any:
    """The second step: y <- 2 y^2 - c for each doubling."""
    for c in keys.bootstrapping.sine.constants:
        y = subtract(multiply(add(y, y), y, keys.evaluation), c)
    return y


def straightened(y: Any, keys: BootstrappingKeys) -> Any:
    """The third step: the arcsine."""
    return evaluate(keys.bootstrapping.sine.arcsine, y, keys.evaluation)


def straightened_apart(y: Any, keys: BootstrappingKeys) -> list[Any]:
    """Of both halves side by side, each as a ciphertext of its own: the arcsine is zero in the other one."""
    arcsine = keys.bootstrapping.sine.arcsine
    first = np.arange(y.slots) < y.slots // 2
    coefficients = np.asarray(arcsine.coefficients)[:, None]
    masked = [Polynomial(coefficients * own, arcsine.domain, arcsine.parity) for own in (first, ~first)]
    return [_folded(half, keys) for half in evaluate(masked, y, keys.evaluation)]


def _folded(x, keys):
    """The two halves of the slots added up, as a ciphertext of half as many."""
    return halved(add(x, rotate(x, x.slots // 2, keys.evaluation)))


@for_each_kind
def repeated(x: Any) -> Any:
    """x as a ciphertext of twice the slots, with all of them repeated."""
    return dataclasses.replace(x, slots=2 * x.slots)


@for_each_kind
def halved(x: Any) -> Any:
    """x, of which the slots repeat after half of them, as a ciphertext of half as many."""
    return dataclasses.replace(x, slots=x.slots // 2)


@for_each_kind
def multiply_by_i(x: Any) -> Any:
    """i x, exactly: a product with the monomial X^(N/2).

    Args:
      x: a ciphertext, or simulated values.

    Returns:
      Level and scale stay. Error added: none. Keys needed: none.

    Raises:
      TypeError: `x` is something else.

    Example:
      >>> import fhejax as fhe
      >>> params = fhe.Parameters.for_depth(1, log_degree=4, security=None)
      >>> multiply_by_i(fhe.simulate([1.0, 2.0], params)).values[:2].tolist()
      [1j, 2j]
    """
    check_ciphertext("multiply_by_i", x)
    return dataclasses.replace(x, data=_times_monomial(x.data, x.params, x.level), real=False)


@for_each_kind
def known_real(x: Any) -> Any:
    """x as real values, which they are up to errors."""
    return dataclasses.replace(x, real=True)


@_compat.jit(1, 2)
def _times_monomial(data, params, level):
    moduli, half = params.moduli_at(level), params.degree // 2
    monomial = jnp.zeros((len(moduli), params.degree), jnp.uint64).at[:, half].set(1)
    return multiply_residues(data, ntt(monomial, moduli), moduli)


def checked_keys(operation: str, x: Any, keys: Any, both: bool = False) -> BootstrappingKeys:
    """Keys that fit a ciphertext, of the slots that they are for, or with both halves of coefficients side by side.

    Args:
      operation: on whose behalf.
      x: a ciphertext or simulated values.
      keys: what the user gave for keys.
      both: whether twice the slots will do, where `Bootstrapping.side_by_side` makes them.

    Raises:
      MissingKeyError: `keys` were made for simulated values.
      ParametersMismatchError: parameters or slots differ.
      TypeError: `x` is not a ciphertext, or `keys` are not those of a bootstrapping.
      ValueError: a ciphertext of three components.
    """
    check_ciphertext(operation, x)
    simulated = isinstance(x, Simulated)
    if simulated and isinstance(keys, Bootstrapping):
        keys = keys.without_keys()
    if not isinstance(keys, BootstrappingKeys):
        raise TypeError(
            f"{operation}: got {type(keys).__name__} for the keys; type keys = fhejax.Bootstrapping(...).keys(seed, "
            "secret_key)" + (", or give the Bootstrapping itself" if simulated else "")
        )
    if x.components != 2:
        raise ValueError(f"{operation}: the ciphertext has three components; type fhejax.relinearize(x, keys) first")
    check_same_params(operation, x, keys)
    slots = keys.params.slots
    if x.slots != slots and not (both and keys.bootstrapping.side_by_side and x.slots == 2 * slots):
        raise ParametersMismatchError(
            f"{operation}: the bootstrapping is for {slots} slots and the ciphertext has {x.slots}; encode with "
            f"slots={slots}, or type Bootstrapping(..., slots={x.slots}) and encrypt with its params"
        )
    if keys.evaluation is None and not simulated:
        raise missing_key(
            f"{operation}: these keys are for simulated values; type keys = fhejax.Bootstrapping(...).keys(seed, "
            "secret_key)"
        )
    return keys
