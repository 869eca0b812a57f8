"""How many bits of a result are right."""

import math
from typing import Any

import numpy as np


def precision(expected: Any, got: Any) -> float:
    """The bits of the worst slot: -log2 of the largest absolute error.

    Args:
      expected: the exact values, real or complex, any shape.
      got: what was computed, of a shape that broadcasts against it.

    Returns:
      Bits after the binary point; infinity where nothing differs.

    Raises:
      ValueError: the shapes do not fit, or a value is not finite.

    Example:
      >>> import fhejax as fhe
      >>> fhe.precision([1.0, 2.0], [1.0, 2.25])
      2.0
    """
    error = np.abs(np.asarray(expected) - np.asarray(got))
    if error.size == 0 or not np.all(np.isfinite(error)):
        raise ValueError("precision: empty, or a value is not finite")
    worst = float(np.max(error))
    return -math.log2(worst) if worst else math.inf
