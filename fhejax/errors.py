"""The errors that a program may want to tell apart. Each message says what to type."""

import operator
import traceback
from typing import Any

_LIBRARIES = {"fhejax", "jax", "jaxtyping", "beartype"}


class LevelError(ValueError):
    """No level is left for an operation that needs one, or a level is out of reach."""


class ScaleError(ValueError):
    """Two scales cannot be brought together, or a scale would be too small to hold the values."""


class MissingKeyError(LookupError):
    """An evaluation key that an operation needs was not made."""


class ParametersMismatchError(ValueError):
    """Values of different parameter sets met."""


class OutOfRangeWarning(UserWarning):
    """Simulated values lie outside the domain of a polynomial that is evaluated on them."""


def static_integer(operation: str, name: str, value: Any) -> int:
    """An argument that is part of the program, as a Python integer.

    Raises:
      TypeError: it is something else, or traced.
    """
    try:
        return operator.index(value)
    except TypeError:  # JAX's errors for traced values are among them
        raise TypeError(
            f"{operation}: {name} = {value!r} is not a Python integer; it is static, chosen when the program is traced"
        ) from None


def call_site() -> tuple[str, int]:
    """The file and the line of the innermost frame that is the user's."""
    for frame, line in traceback.walk_stack(None):
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _LIBRARIES:
            return frame.f_code.co_filename, line
    return "<unknown>", 0


def missing_key(message: str) -> MissingKeyError:
    """The error for a key that was not made, with the user's line: the program may be far from where keys are made."""
    return MissingKeyError(f"{message} (called from {':'.join(map(str, call_site()))})")
