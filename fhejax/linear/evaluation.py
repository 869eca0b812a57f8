"""Linear transforms applied to ciphertexts, by double hoisting (see `fhejax.primitives.double_hoisting`)."""

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.errors import LevelError, ParametersMismatchError, missing_key
from fhejax.kinds.ciphertext_operations import for_each_kind
from fhejax.kinds.simulated import Simulated
from fhejax.linear.plan import Plan
from fhejax.linear.transform import LinearTransform, encoded_diagonals
from fhejax.operations.arithmetic import check_keys
from fhejax.operations.encryption import check_same_params
from fhejax.operations.levels import Encrypted, brought_to, check_ciphertext, to_canonical
from fhejax.primitives.double_hoisting import (
    IDENTITY,
    Basis,
    chained_sum,
    hoisted_sums,
    plain_sum,
    raised_rotations,
    rotated_sum,
)
from fhejax.scheme.keys import galois_element
from fhejax.scheme.values import EvaluationKeys, SwitchingKey

StepKeys = dict[int, tuple[int, SwitchingKey]]


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
    check_keys("apply", keys, xs[0])
    results = transformed(xs[0], xs, transform, _keys_of_steps(transform, xs[0], keys))
    return results if several else results[0]


@for_each_kind
def transformed(first: Any, xs: Sequence[Any], transform: LinearTransform, keys: StepKeys) -> list[Any]:
    """The outputs of a transform, for inputs at its level.

    Args:
      first: of `xs`, by whose kind the work is done.
      xs: all inputs.
      transform: the transform.
      keys: by step, the galois element and its key.
    """
    params, level, slots = transform.params, transform.level, transform.slots
    operands = {element: key.operand for element, key in keys.values()}
    work = _work(transform.plan, {step: element for step, (element, _) in keys.items()} | {0: IDENTITY})
    basis = Basis(params.moduli_at(level), params.special_moduli, params.digit_size)
    data = [x.data for x in xs]
    if transform.values is None:
        outputs = _apply_encoded(data, transform.data, operands, work, basis)
    else:
        outputs = _apply_numbers(data, transform.values, operands, work, basis, params, level)
    scale, real = params.scale_at(level - 1), transform.real and all(x.real for x in xs)
    return [type(first)(output, params, level - 1, scale, slots, real) for output in outputs]


class _Work(NamedTuple):
    """A plan in galois elements: what the compiled program depends on."""

    outputs: int
    babies: tuple[tuple[int, int], ...]  # which input, which element
    sums: tuple[tuple[int, ...], ...]  # the babies of each
    giants: tuple[tuple[int, int], ...]  # of each sum: which output, which element
    repeated: bool  # whether an element is the one of all sums but the first, which are rotated one after another


def _work(plan, elements):
    babies = tuple((i, elements[step]) for i, step in plan.babies)
    sums = tuple(each.terms for each in plan.sums)
    steps = [min(each.step, plan.stride) if plan.repeated else each.step for each in plan.sums]
    giants = tuple((each.output, elements[step]) for each, step in zip(plan.sums, steps, strict=True))
    return _Work(plan.outputs, babies, sums, giants, plan.repeated)


@_compat.jit(3, 4)
def _apply_encoded(ciphertexts, plains, keys, work, basis):
    return _gathered(hoisted_sums(ciphertexts, plains, keys, work.babies, work.sums, basis), keys, work, basis)


@_compat.jit(3, 4, 5, 6)
def _apply_numbers(ciphertexts, values, keys, work, basis, params, level):
    """Encodes the plaintexts of one inner sum at a time."""
    pairs = jnp.stack(jnp.broadcast_arrays(*raised_rotations(ciphertexts, keys, work.babies, basis)))
    most, count = max(map(len, work.sums)), sum(map(len, work.sums))
    # Sums of fewer terms are filled up with the row of zeros behind the last one.
    rows, babies = np.full((len(work.sums), most), count), np.zeros((len(work.sums), most), int)
    for i, terms in enumerate(work.sums):
        rows[i, : len(terms)] = np.arange(len(terms)) + sum(map(len, work.sums[:i]))
        babies[i, : len(terms)] = terms
    padded = jnp.concatenate([values, jnp.zeros_like(values[..., :1, :])], axis=-2)

    def inner_sum(numbers):
        row, baby = numbers
        plains = encoded_diagonals(jnp.take(padded, row, axis=-2), params, level)
        return plain_sum([jnp.take(pairs, baby[i], axis=0) for i in range(most)], plains, basis)

    sums = jax.lax.map(inner_sum, (jnp.asarray(rows), jnp.asarray(babies)))
    return _gathered([sums[i] for i in range(len(work.sums))], keys, work, basis)


def _gathered(sums, keys, work, basis):
    """One ciphertext for each output."""
    results = []
    for output in range(work.outputs):
        own = [(pair, element) for pair, (j, element) in zip(sums, work.giants, strict=True) if j == output]
        gather = chained_sum if work.repeated else rotated_sum
        results.append(gather([pair for pair, _ in own], [element for _, element in own], keys, basis))
    return results


# --- what is refused ---------------------------------------------------------------------------------------------


def _checked(transform, x):
    """An input at the transform's level and scale."""
    check_ciphertext("apply", x)
    if x.components != 2:
        raise ValueError("apply: the ciphertext has three components; type fhejax.relinearize(x, keys) first")
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
    if len({type(x) for x in xs}) > 1:
        raise TypeError("apply: some inputs are encrypted and others simulated; encrypt all or simulate all")


def _keys_of_steps(transform, x, keys) -> StepKeys:
    """For each rotation a galois element and its key: for sparse packing, of any step equal modulo the slots."""
    if keys is None and isinstance(x, Simulated):
        return {}
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
