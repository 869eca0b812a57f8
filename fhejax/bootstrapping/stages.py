"""The stages of bootstrapping, each of which can be used alone, on ciphertexts and on simulated values.

A message m is q_0 / 32 at most, and modulo q_0 it is all the same with multiples of q_0 added. So raising the modulus
is free, and gives t = m + q_0 I with small integers I in every coefficient. Where slots hold t / q_0, a sine takes I
away.
"""

from typing import Any

import numpy as np

from fhejax.bootstrapping.bootstrapping import Bootstrapping, BootstrappingKeys
from fhejax.errors import ParametersMismatchError, missing_key
from fhejax.kinds.base import Encrypted
from fhejax.kinds.requirements import check_ciphertext, check_same_params, check_two_components
from fhejax.linear.evaluation import apply
from fhejax.operations.arithmetic import add, multiply, subtract
from fhejax.operations.levels import drop_to_level, to_canonical
from fhejax.operations.rotations import conjugate, rotate, rotate_between
from fhejax.polynomials.evaluation import evaluate
from fhejax.polynomials.polynomial import Polynomial


def by_stages(x: Any, keys: BootstrappingKeys) -> Any:
    """x, of the input level, through all stages."""
    if keys.bootstrapping.slots_first:
        return joined(refreshed_parts(x, keys))
    halves = coeff_to_slot(mod_raise(x, keys), keys)
    y = slot_to_coeff(joined([eval_mod(half, keys) for half in halves]), keys)
    return y._known_real() if x.real else y


def refreshed_parts(x: Any, keys: BootstrappingKeys) -> list[Any]:
    """With slots-to-coefficients first, the real part of every slot, and the imaginary part unless x is known real."""
    halves = coeff_to_slot(mod_raise(slot_to_coeff(x, keys), keys), keys, x.real)
    if halves[0].slots > x.slots:
        return straightened_apart(doubled(cosine(halves[0], keys), keys), keys)
    return [eval_mod(half, keys) for half in halves]


def joined(parts: list[Any]) -> Any:
    """The first, plus i times the second if there is one."""
    return parts[0] if len(parts) == 1 else parts[0]._with_imaginary(parts[1])


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
    keys = checked_bootstrapping_keys("mod_raise", x, keys)
    x = drop_to_level(to_canonical(x), 0)._mod_raise(keys)
    for step in keys.bootstrapping.trace_steps():
        x = add(x, rotate_between("mod_raise", x, step, keys.evaluation))
    return x


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
    keys = checked_bootstrapping_keys("coeff_to_slot", x, keys)
    transforms = keys.coeff_to_slot
    if keys.halves is not None and not real:
        transforms = (*transforms[:-1], keys.halves)
    slots = x.slots
    for transform in transforms:
        x = apply(transform, x._repack(transform.slots) if transform.slots > x.slots else x, keys.evaluation)
    mirrored = conjugate(x, keys.evaluation)
    parts = [add(x, mirrored)]
    if not real and x.slots == slots:
        parts.append(multiply_by_i(subtract(mirrored, x)))
    return [part._known_real() for part in parts]


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
    keys = checked_bootstrapping_keys("slot_to_coeff", x, keys, both=True)
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
    keys = checked_bootstrapping_keys("eval_mod", x, keys, both=True)
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
    return add(x, rotate(x, x.slots // 2, keys.evaluation))._repack(x.slots // 2)


def multiply_by_i(x: Encrypted) -> Encrypted:
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
    return x._multiply_by_i()


def checked_bootstrapping_keys(operation: str, x: Any, keys: Any, both: bool = False) -> BootstrappingKeys:
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
    if not x.needs_keys and isinstance(keys, Bootstrapping):
        keys = keys.without_keys()
    if not isinstance(keys, BootstrappingKeys):
        raise TypeError(
            f"{operation}: got {type(keys).__name__} for the keys; type keys = fhejax.Bootstrapping(...).keys(seed, "
            "secret_key)" + ("" if x.needs_keys else ", or give the Bootstrapping itself")
        )
    check_two_components(operation, x)
    check_same_params(operation, x, keys)
    slots = keys.params.slots
    if x.slots != slots and not (both and keys.bootstrapping.side_by_side and x.slots == 2 * slots):
        raise ParametersMismatchError(
            f"{operation}: the bootstrapping is for {slots} slots and the ciphertext has {x.slots}; encode with "
            f"slots={slots}, or type Bootstrapping(..., slots={x.slots}) and encrypt with its params"
        )
    if keys.evaluation is None and x.needs_keys:
        raise missing_key(
            f"{operation}: these keys are for simulated values; type keys = fhejax.Bootstrapping(...).keys(seed, "
            "secret_key)"
        )
    return keys
