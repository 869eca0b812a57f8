"""Moving slots: rotation by any step, conjugation, and sums over slots.

A rotation is a key switch followed by an automorphism. A step without a key of its own is composed of steps that
have one, at one key switch each; the shortest composition is found when the program is traced.
"""

import collections
import functools
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import jax

from fhejax import _compat
from fhejax.errors import MissingKeyError
from fhejax.keys import galois_element
from fhejax.levels import check_ciphertext
from fhejax.ops import add, check_keys
from fhejax.primitives.key_switch import hoisted_rotations
from fhejax.values import Ciphertext, EvaluationKeys, galois_steps

_log = logging.getLogger("fhejax")


def rotate(x: Ciphertext, step: int, keys: EvaluationKeys) -> Ciphertext:
    """Brings slot i + step to slot i, as `numpy.roll(values, -step)`.

    Args:
      x: a ciphertext of two components.
      step: any integer, taken modulo the slots; static.
      keys: evaluation keys with the step, or with steps that it is composed of.

    Returns:
      Level and scale stay. Error added: that of a key switch, about sqrt((1 + 2N/3)/12), for each key switch. Keys
      needed: the step's, or those that `rotation_path(keys, step)` names, with one key switch each; none for a full
      turn.

    Raises:
      MissingKeyError: no composition of the steps there are gives this one.
      TypeError: `step` is not an integer.

    Source: Han & Ki, 2020, section 3; Halevi & Shoup, 2018, section 5.
    """
    return _rotate("rotate", x, step, keys)


def rotate_many(x: Ciphertext, steps: Sequence[int], keys: EvaluationKeys) -> list[Ciphertext]:
    """Rotations of one ciphertext by several steps, with the costly part (ModUp) done once: hoisting.

    Args:
      x: a ciphertext of two components.
      steps: integers; static.
      keys: evaluation keys. Steps with a key of their own are hoisted, others composed as in `rotate`.

    Returns:
      One ciphertext for each step, in order, bit for bit as `rotate` gives it.

    Raises:
      As `rotate`.

    Source: Halevi & Shoup, "Faster Homomorphic Linear Transformations in HElib", 2018, section 5.
    """
    if not isinstance(steps, Iterable):
        raise TypeError(f"rotate_many: steps = {steps!r}; type rotate_many(x, ({steps!r},), keys)")
    reduced = [_checked("rotate_many", x, step, keys)[1] for step in steps]
    direct = {step: _path("rotate_many", step, keys, x) for step in reduced}
    hoisted = [step for step, path in direct.items() if len(path) == 1]
    results = dict(zip(hoisted, _rotated(x, [_element_for(step, keys, x) for step in hoisted], keys), strict=True))
    return [results[step] if step in results else _rotate("rotate_many", x, step, keys) for step in reduced]


def conjugate(x: Ciphertext, keys: EvaluationKeys) -> Ciphertext:
    """The complex conjugate of every slot.

    Returns:
      Level and scale stay. Error added: that of a key switch. Keys needed: conjugation.

    Raises:
      MissingKeyError: the keys have none for conjugation at this level.
    """
    check_ciphertext("conjugate", x)
    _check_two("conjugate", x)
    check_keys("conjugate", keys, x)
    element = 2 * x.params.degree - 1
    key = keys.galois.get(element) if keys is not None else None
    if key is None or key.level < x.level:
        raise MissingKeyError(
            f"conjugate: needs the conjugation key at level {x.level}; "
            "type fhejax.evaluation_keys(seed, secret_key, conjugation=True)"
        )
    return _rotated(x, [element], keys)[0]


def sum_slots(x: Ciphertext, keys: EvaluationKeys) -> Ciphertext:
    """The sum of all slots, in every slot.

    Returns:
      Level and scale stay. Error added: slots times the operand's, and a key switch for each of log2(slots) rotations.
      Keys needed: rotations by 1, 2, 4, ..., slots / 2.

    Raises:
      As `rotate`.
    """
    check_ciphertext("sum_slots", x)
    step = 1
    while step < x.slots:
        x = add(x, _rotate("sum_slots", x, step, keys))
        step *= 2
    return x


def rotation_path(keys: EvaluationKeys, step: int, slots: int | None = None) -> tuple[int, ...]:
    """The steps that `rotate` would take, one key switch each; empty for a full turn.

    Args:
      keys: evaluation keys.
      step: any integer.
      slots: the ciphertext's slots; the parameters' own if None.

    Raises:
      MissingKeyError: no composition gives this step.
    """
    slots = slots or keys.params.slots
    return _find(step % slots, tuple(sorted({s % slots for s in keys.rotations})), slots)


def _rotate(operation: str, x: Ciphertext, step: int, keys: EvaluationKeys) -> Ciphertext:
    x, step = _checked(operation, x, step, keys)
    path = _path(operation, step, keys, x)
    if len(path) > 1:
        _log.info("%s by %d: composed of %s, %d key switches", operation, step, path, len(path))
    for part in path:
        (x,) = _rotated(x, [_element_for(part, keys, x)], keys)
    return x


def _checked(operation, x, step, keys):
    check_ciphertext(operation, x)
    _check_two(operation, x)
    check_keys(operation, keys, x)
    try:
        step = step.__index__()
    except (AttributeError, TypeError, jax.errors.ConcretizationTypeError):
        raise TypeError(
            f"{operation}: the step {step!r} is not a Python integer; steps are static: choose among traced steps with "
            "jax.lax.switch"
        ) from None
    return x, step % x.slots


def _check_two(operation, x):
    if x.components != 2:
        raise ValueError(f"{operation}: the ciphertext has three components; type fhejax.relinearize(x, keys) first")


def _path(operation, step, keys, x):
    steps = galois_steps(x.params.degree)
    galois = {} if keys is None else keys.galois
    usable = {steps[g] % x.slots for g, key in galois.items() if g in steps and key.level >= x.level}
    try:
        return _find(step, tuple(sorted(usable)), x.slots)
    except MissingKeyError:
        raise MissingKeyError(
            f"{operation}: no key for step {step} at level {x.level}, and none of the steps there are composes it: "
            f"{sorted(usable)}; type fhejax.evaluation_keys(seed, secret_key, rotations=({step}, ...))"
        ) from None


@functools.lru_cache(maxsize=4096)
def _find(step: int, steps: tuple[int, ...], slots: int) -> tuple[int, ...]:
    """The shortest sum of `steps` that is `step` modulo `slots`, by breadth-first search."""
    if step == 0:
        return ()
    if step in steps:
        return (step,)
    came_by, queue = {0: 0}, collections.deque([0])
    while queue and step not in came_by:
        at = queue.popleft()
        for one in steps:
            if (at + one) % slots not in came_by:
                came_by[(at + one) % slots] = one
                queue.append((at + one) % slots)
    if step not in came_by:
        raise MissingKeyError(f"no composition of the steps {steps} rotates by {step}")
    path = []
    while step:
        path.append(came_by[step])
        step = (step - came_by[step]) % slots
    return tuple(sorted(path))


def _element_for(step, keys, x):
    """The galois element with a key that rotates `x` by `step`: for sparse packing, any step equal modulo the slots."""
    params = x.params
    for full in range(step, params.degree // 2, x.slots):
        element = galois_element(params, full)
        if element in keys.galois and keys.galois[element].level >= x.level:
            return element
    raise AssertionError("the path takes only steps that have a key")


def _rotated(x: Ciphertext, elements: list[int], keys: EvaluationKeys) -> list[Ciphertext]:
    if not elements:
        return []
    operands = tuple(keys.galois[element].operand for element in elements)
    results: list[Any] = _rotate_data(x.data, operands, tuple(elements), x.params, x.level)
    return [Ciphertext(data, x.params, x.level, x.scale, x.slots, x.real) for data in results]


@_compat.jit(2, 3, 4)
def _rotate_data(data, keys, elements, params, level):
    return hoisted_rotations(data, keys, elements, params.moduli_at(level), params.special_moduli, params.digit_size)
