"""Progress meters, for people who have tqdm."""

import contextlib
from typing import Any


def meter(operation: str, progress: Any, total: int, description: str, unit: str) -> Any:
    """A context that gives an object with `update(n)`, or None where nobody watches.

    `progress` is True for a meter of tqdm, or such an object; bytes ("B") are shown in thousands and millions.
    """
    if progress is not True:
        return contextlib.nullcontext(progress or None)
    try:
        import tqdm
    except ImportError as error:
        raise ImportError(f"{operation}: progress=True needs tqdm; type pip install fhejax[fit]") from error
    return tqdm.tqdm(total=total, desc=description, unit=unit, unit_scale=unit == "B")
