"""The errors that a program may want to tell apart. Each message says what to type."""


class LevelError(ValueError):
    """No level is left for an operation that needs one, or a level is out of reach."""


class ScaleError(ValueError):
    """Two scales cannot be brought together."""


class MissingKeyError(LookupError):
    """An evaluation key that an operation needs was not made."""


class ParametersMismatchError(ValueError):
    """Values of different parameter sets met."""
