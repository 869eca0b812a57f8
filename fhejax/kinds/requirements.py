"""What operations refuse, each sentence once: what was given, what was expected, what to type."""

from collections.abc import Sequence
from typing import Any

from fhejax.errors import LevelError, ParametersMismatchError
from fhejax.kinds.base import AnyKeys, Kind
from fhejax.scheme.values import EvaluationKeys


def check_ciphertext(operation: str, x: Any) -> None:
    """Refuses anything but an encrypted value, of whatever kind.

    Raises:
      TypeError: it is something else.
    """
    if not isinstance(x, Kind):
        raise TypeError(
            f"{operation}: got {type(x).__name__} for the ciphertext; type fhejax.encrypt(seed, key, values)"
        )


def check_two_components(operation: str, x: Kind) -> None:
    """Refuses a product before relinearisation.

    Raises:
      ValueError: it has three components.
    """
    if x.components != 2:
        raise ValueError(f"{operation}: the ciphertext has three components; type fhejax.relinearize(x, keys) first")


def check_one_kind(operation: str, xs: Sequence[Any]) -> None:
    """Refuses encrypted values beside simulated ones.

    Raises:
      TypeError: there are several kinds.
    """
    kinds = {type(x): x for x in xs if isinstance(x, Kind)}
    if len(kinds) > 1:
        one, other, *_ = sorted(x.adjective for x in kinds.values())
        raise TypeError(f"{operation}: some are {one} and others {other}; encrypt all or simulate all")


def check_same_params(operation: str, *values: Any) -> None:
    """Refuses values of different parameter sets.

    Raises:
      ParametersMismatchError: they differ.
    """
    first = values[0].params
    for value in values[1:]:
        if value.params != first:
            raise ParametersMismatchError(
                f"{operation}: the parameters differ: {type(values[0]).__name__} of {first!r}, "
                f"{type(value).__name__} of {value.params!r}; make keys and values from one Parameters object"
            )


def check_same_slots(operation: str, x: Any, y: Any) -> None:
    """Refuses values of different packings.

    Raises:
      ParametersMismatchError: they differ.
    """
    if x.slots != y.slots:
        raise ParametersMismatchError(f"{operation}: {x.slots} and {y.slots} slots; encode both with the same `slots`")


def checked_keys(operation: str, keys: Any, x: Kind) -> Any:
    """The evaluation keys for x: None where there are none, and `AnyKeys` in its place for a kind that needs none.

    Raises:
      TypeError: they are something else.
      ParametersMismatchError: they belong to another parameter set.
    """
    if keys is None:
        return None if x.needs_keys else AnyKeys()
    if not isinstance(keys, EvaluationKeys):
        raise TypeError(
            f"{operation}: got {type(keys).__name__} for the evaluation keys; "
            "type keys = fhejax.evaluation_keys(seed, secret_key)"
        )
    check_same_params(operation, x, keys)
    return keys


def no_level(operation: str, x: Any, purpose: str) -> LevelError:
    """The error for a ciphertext at level 0, from which an operation would go lower."""
    return LevelError(
        f"{operation}: the operand is at level 0 and {purpose}; make parameters with more depth, such as "
        f"Parameters.for_depth({x.params.max_level + 1}), or bootstrap"
    )
