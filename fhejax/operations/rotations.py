"""Moving slots: rotation by any step, conjugation, and sums over slots.

A rotation is a key switch followed by an automorphism. A step without a key of its own is composed of steps that
have one, at one key switch each; the shortest composition is found when the program is traced.
"""

import functools
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from fhejax.errors import MissingKeyError, missing_key
from fhejax.kinds.base import Encrypted
from fhejax.kinds.requirements import check_ciphertext, check_two_components, checked_keys
from fhejax.operations.arithmetic import add
from fhejax.scheme.keys import galois_element
from fhejax.scheme.values import EvaluationKeys, galois_steps

_log = logging.getLogger("fhejax")


def rotate(x: Encrypted, step: int, keys: EvaluationKeys | None) -> Encrypted:
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


def rotate_many(x: Encrypted, steps: Sequence[int], keys: EvaluationKeys | None) -> list[Encrypted]:
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
    checked = [_checked("rotate_many", x, step, keys) for step in steps]
    reduced = [step for step, _ in checked]
    paths = {step: _path("rotate_many", step, keys, x, x.slots) for step, keys in dict(checked).items()}
    hoisted = {step: path[0] for step, path in paths.items() if len(path) == 1}
    results = {step: _follow("rotate_many", x, step, path) for step, path in paths.items() if step not in hoisted}
    if hoisted:
        elements, switches = zip(*hoisted.values(), strict=True)
        results |= zip(hoisted, x._automorphisms(elements, switches), strict=True)
    return [results[step] for step in reduced]


def conjugate(x: Encrypted, keys: EvaluationKeys | None) -> Encrypted:
    """The complex conjugate of every slot.

    Returns:
      Level and scale stay. Error added: that of a key switch. Keys needed: conjugation.

    Raises:
      MissingKeyError: the keys have none for conjugation at this level.
    """
    check_ciphertext("conjugate", x)
    check_two_components("conjugate", x)
    keys = checked_keys("conjugate", keys, x)
    element = 2 * x.params.degree - 1
    key = keys.galois_key(element, x.level) if keys is not None else None
    if key is None:
        raise missing_key(
            f"conjugate: needs the conjugation key at level {x.level}; "
            "type fhejax.evaluation_keys(seed, secret_key, conjugation=True)"
        )
    return x._automorphisms([element], [key])[0]


def sum_slots(x: Encrypted, keys: EvaluationKeys | None) -> Encrypted:
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
    return find_path(step % slots, tuple(sorted({s % slots for s in keys.rotations})), slots)


def rotate_between(operation: str, x: Encrypted, step: int, keys: EvaluationKeys | None) -> Encrypted:
    """x rotated by a multiple of its slots, which moves none of them, but what lies between its coefficients."""
    slots = x.params.degree // 2
    return _follow(operation, x, step, _path(operation, step, checked_keys(operation, keys, x), x, slots))


def _rotate(operation: str, x: Encrypted, step: int, keys: EvaluationKeys | None) -> Encrypted:
    step, keys = _checked(operation, x, step, keys)
    return _follow(operation, x, step, _path(operation, step, keys, x, x.slots))


def _follow(operation, x, step, path):
    if len(path) > 1:
        parts = tuple(galois_steps(x.params.degree)[element] for element, _ in path)
        _log.info("%s by %d: composed of %s, %d key switches", operation, step, parts, len(path))
    for element, key in path:
        (x,) = x._automorphisms([element], [key])
    return x


def _checked(operation, x, step, keys):
    check_ciphertext(operation, x)
    check_two_components(operation, x)
    keys = checked_keys(operation, keys, x)
    try:
        step = step.__index__()
    except (AttributeError, TypeError, jax.errors.ConcretizationTypeError):
        raise TypeError(
            f"{operation}: the step {step!r} is not a Python integer; steps are static: choose among traced steps with "
            "jax.lax.switch"
        ) from None
    return step % x.slots, keys


def _path(operation, step, keys, x, slots) -> tuple[tuple[int, Any], ...]:
    """The galois elements that together rotate `x` by `step` modulo `slots`, each with its key."""
    if step == 0:
        return ()
    element = galois_element(x.params, step)
    if keys is not None and (key := keys.galois_key(element, x.level, slots)) is not None:
        return ((element, key),)
    steps, galois = galois_steps(x.params.degree), {} if keys is None else keys.galois
    reaching = sorted((steps[g], g) for g, key in galois.items() if g in steps and key.level >= x.level)
    # For sparse packing, any step equal modulo the slots serves: the least of them.
    usable = {full % slots: g for full, g in reversed(reaching)}
    try:
        path = find_path(step, tuple(sorted(usable)), slots)
    except MissingKeyError:
        raise missing_key(
            f"{operation}: no key for step {step} at level {x.level}, and none of the steps there are composes it: "
            f"{sorted(usable)}; type fhejax.evaluation_keys(seed, secret_key, rotations=({step}, ...))"
        ) from None
    return tuple((usable[part], galois[usable[part]]) for part in path)


def find_path(step: int, steps: tuple[int, ...], slots: int) -> tuple[int, ...]:
    """The shortest sum of `steps` that is `step` modulo `slots`.

    Raises:
      MissingKeyError: there is none.
    """
    if step == 0 or step in steps:
        return (step,) * (step != 0)
    last, _ = shortest_paths(steps, slots)
    if last[step] < 0:
        raise MissingKeyError(f"no composition of the steps {steps} rotates by {step}")
    path = []
    while step:
        path.append(int(last[step]))
        step = (step - path[-1]) % slots
    return tuple(sorted(path))


@functools.lru_cache(maxsize=64)
def shortest_paths(steps: tuple[int, ...], slots: int) -> tuple[np.ndarray, np.ndarray]:
    """How each number modulo `slots` is composed of `steps`, by breadth-first search.

    Returns:
      `int32[slots]` twice: the last step on a shortest path, and the length of the path; -1 where there is none.
    """
    last, length = np.full((2, slots), -1, np.int32)
    last[0], length[0], frontier = 0, 0, np.zeros(1, np.int32)
    while frontier.size:
        reached = []
        for step in steps:
            places = (frontier + step) % slots
            new = places[last[places] < 0]
            last[new], length[new] = step, length[frontier[0]] + 1
            reached.append(new)
        frontier = np.concatenate([*reached, frontier[:0]])
    return last, length
