"""The errors that a program may want to tell apart. Each message says what to type."""

import operator
from typing import Any


class LevelError(ValueError):
    """No level is left for an operation that needs one, or a level is out of reach."""


class ScaleError(ValueError):
    """Two scales cannot be brought together, or a scale would be too small to hold the values."""


class MissingKeyError(LookupError):
    """An evaluation key that an operation needs was not made."""


class ParametersMismatchError(ValueError):
    """Values of different parameter sets met."""


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
