"""Axes of matplotlib to draw on, for people who have it."""

from typing import Any

import numpy as np


def axes(rows: int, given: Any, operation: str) -> list[Any]:
    """The axes given, as many as the rows, or those of a new figure, one below the other."""
    if given is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(f"{operation}: needs matplotlib; type pip install fhejax[plot]") from error
        given = plt.subplots(rows, sharex=True, layout="constrained")[1]
    flat = list(np.ravel(np.asarray(given, object)))
    if len(flat) != rows:
        raise ValueError(
            f"{operation}: got {len(flat)} axes; need {rows}, such as plt.subplots({rows}, sharex=True)[1]"
        )
    return flat
