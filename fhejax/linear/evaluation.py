"""Linear transforms applied to ciphertexts, by double hoisting (see `fhejax.primitives.double_hoisting`)."""

from collections.abc import Sequence
from typing import Any, overload

from fhejax.errors import LevelError, ParametersMismatchError, missing_key
from fhejax.kinds.base import Encrypted
from fhejax.kinds.requirements import (
    check_ciphertext,
    check_one_kind,
    check_same_params,
    check_two_components,
    checked_keys,
)
from fhejax.linear.plan import Plan
from fhejax.linear.transform import LinearTransform
from fhejax.operations.levels import brought_to, to_canonical
from fhejax.scheme.keys import galois_element
from fhejax.scheme.values import EvaluationKeys

StepKeys = dict[int, tuple[int, Any]]


@overload
def apply(transform: LinearTransform, x: Encrypted, keys: EvaluationKeys | None = None) -> Encrypted: ...


@overload
def apply(
    transform: LinearTransform, x: Sequence[Encrypted], keys: EvaluationKeys | None = None
) -> list[Encrypted]: ...


def apply(transform: LinearTransform, x: Any, keys: EvaluationKeys | None = None) -> Any:
    """Applies a linear transform to the slots of a ciphertext, or to several ciphertexts.

    All rotations of an input share one ModUp and need no ModDown; what is added up before a rotation is switched at
    once; and a single division ends each output.

    Args:
      transform: a linear transform.
      x: a ciphertext of two components or simulated values, at the transform's level or above; or a list of as many as
        the transform has inputs (`LinearTransform.from_blocks`).
      keys: evaluation keys for `transform.rotations`, at its level or above. A step without a key of its own is not
        composed of others.

    Returns:
      A ciphertext, or for a list a list. Level out: `transform.level - 1`. Scale out: canonical. Error added: the
      transform of the operand's error, and of that of the keys; the values times the rounding of the plaintexts,
      1/sqrt(12) per coefficient of each; and that of a single rescale, sqrt((1 + 2N/3)/12). Keys needed:
      `transform.rotations`. Key switches: `transform.plan.hoisted` without ModUp and ModDown, and
      `transform.plan.switched` with one of each.

    Raises:
      LevelError: `x` is at a lower level than the transform.
      MissingKeyError: a step has no key at that level.
      ParametersMismatchError: parameters or slots differ.
      ValueError: another number of ciphertexts, or one of three components.

    Source: Bossuat, Mouchet, Troncoso-Pastoriza & Hubaux, "Efficient Bootstrapping for Approximate Homomorphic
    Encryption with Non-Sparse Keys", 2021, algorithm 6.
    """
    if not isinstance(transform, LinearTransform):
        raise TypeError(
            f"apply: got {type(transform).__name__} for the transform; type "
            "apply(fhejax.LinearTransform.from_matrix(matrix, params, level), x, keys)"
        )
    several = isinstance(x, (list, tuple))
    xs = [_checked(transform, each) for each in (x if several else [x])]
    _check_count(transform.plan, xs, several)
    keys = checked_keys("apply", keys, xs[0])
    results = xs[0]._transformed(xs, transform, _keys_of_steps(transform, keys))
    return results if several else results[0]


# --- what is refused ---------------------------------------------------------------------------------------------


def _checked(transform, x):
    """An input at the transform's level and scale."""
    check_ciphertext("apply", x)
    check_two_components("apply", x)
    check_same_params("apply", transform, x)
    if x.slots != transform.slots:
        raise ParametersMismatchError(
            f"apply: the transform is for {transform.slots} slots and the ciphertext has {x.slots}; type "
            f"LinearTransform.from_matrix(..., slots={x.slots})"
        )
    x = to_canonical(x)
    if x.level < transform.level:
        raise LevelError(
            f"apply: the transform is for level {transform.level} and the ciphertext is at level {x.level}; type "
            f"LinearTransform.from_matrix(matrix, params, level={x.level})"
        )
    return brought_to(x, transform.level, transform.params.scale_at(transform.level))


def _check_count(plan: Plan, xs, several):
    if len(xs) != plan.inputs or (not several and plan.outputs > 1):
        got = f"a list of {len(xs)}" if several else "one ciphertext"
        raise ValueError(
            f"apply: the transform takes {plan.inputs} ciphertexts to {plan.outputs}, and got {got}; type "
            f"apply(transform, [{', '.join(f'x{i}' for i in range(plan.inputs))}], keys)"
        )
    check_one_kind("apply", xs)


def _keys_of_steps(transform, keys) -> StepKeys:
    """For each rotation a galois element and its key: for sparse packing, of any step equal modulo the slots."""
    found = {step: pair for step in transform.rotations if (pair := _key_of(transform, step, keys)) is not None}
    missing = [step for step in transform.rotations if step not in found]
    if missing:
        steps = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        raise missing_key(
            f"apply: no key at level {transform.level} for {len(missing)} of {len(transform.rotations)} rotations "
            f"({steps}); type keys = fhejax.evaluation_keys(seed, secret_key, rotations=transform.rotations)"
        )
    return found


def _key_of(transform, step, keys):
    for full in range(step, transform.params.degree // 2, transform.slots):
        element = galois_element(transform.params, full)
        if keys is not None and (key := keys.galois_key(element, transform.level)) is not None:
            return element, key
    return None
