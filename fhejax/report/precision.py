"""How many bits of a result are right."""

import math
from typing import Any

import numpy as np

from fhejax.report.plots import axes


class Precision(float):
    """Bits after the binary point, -log2 of absolute errors; as a number, those of the worst slot.

    Attributes:
      errors: the absolute errors, float64, one a slot.
    """

    errors: np.ndarray

    def __new__(cls, errors: Any) -> "Precision":
        """The precision that absolute errors leave: not empty, finite, none below zero."""
        errors = np.array(errors, np.float64)
        errors.flags.writeable = False
        self = super().__new__(cls, _bits(np.max(errors)))
        self.errors = errors
        return self

    @property
    def worst(self) -> float:
        """-log2 of the largest absolute error."""
        return float(self)

    @property
    def median(self) -> float:
        """-log2 of the median of the absolute errors: half of the slots are better."""
        return _bits(np.median(self.errors))

    @property
    def mean(self) -> float:
        """-log2 of the mean of the absolute errors."""
        return _bits(np.mean(self.errors))

    def plot(self, ax: Any = None) -> Any:
        """Draws a histogram of the bits of the slots with matplotlib; worst, median and mean are marked.

        Args:
          ax: axes of matplotlib; those of a new figure if None.

        Returns:
          The axes. Nothing is shown or saved: `ax.figure.savefig(path)`.

        Raises:
          ImportError: matplotlib is not installed: `pip install fhejax[plot]`.
        """
        (ax,) = axes(1, ax, "plot")
        wrong = self.errors[self.errors > 0]
        exact = self.errors.size - wrong.size
        ax.hist(-np.log2(wrong), bins=50, label=f"{exact} slots exact" if exact else None)
        for name, style in {"worst": "-", "mean": "--", "median": ":"}.items():
            if math.isfinite(bits := getattr(self, name)):
                ax.axvline(bits, color="black", linestyle=style, label=f"{name}: {bits:.1f} bits")
        ax.set_xlabel("bits")
        ax.set_ylabel("slots")
        ax.legend()
        return ax

    def __repr__(self) -> str:
        return f"Precision(worst={self.worst:.4g}, median={self.median:.4g}, mean={self.mean:.4g})"

    __str__ = float.__repr__  # so that it prints and formats as the number it is

    def __getnewargs__(self) -> tuple[np.ndarray]:
        return (self.errors,)


def precision(expected: Any, got: Any) -> Precision:
    """The bits of a result: of the worst slot as a number, of the median and the mean error beside it.

    Args:
      expected: the exact values, real or complex, any shape.
      got: what was computed, of a shape that broadcasts against it.

    Returns:
      A number: bits after the binary point, -log2 of the largest absolute error; infinity where nothing differs. It
      has `worst`, `median`, `mean`, `errors` and `plot()`.

    Raises:
      ValueError: the shapes do not fit, or a value is not finite.

    Example:
      >>> import fhejax as fhe
      >>> bits = fhe.precision([1.0, 2.0], [1.0, 2.25])
      >>> bits
      Precision(worst=2, median=3, mean=3)
      >>> print(bits, bits > 1.5)
      2.0 True
    """
    expected, got = _floating(expected), _floating(got)
    try:
        with np.errstate(all="ignore"):
            error = np.abs(expected - got)
    except ValueError:
        raise ValueError(f"precision: got shapes {expected.shape} and {got.shape}; need two that broadcast") from None
    if error.size == 0 or not np.all(np.isfinite(error)):
        raise ValueError("precision: empty, or a value is not finite")
    return Precision(error)


def _floating(values: Any) -> np.ndarray:
    """What NumPy has no inexact type for (integers, bfloat16) as doubles."""
    values = np.asarray(values)
    return values if np.issubdtype(values.dtype, np.inexact) else values.astype(np.float64)


def _bits(error: Any) -> float:
    return -math.log2(error) if error else math.inf
