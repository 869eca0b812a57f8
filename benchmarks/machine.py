"""What the machine is: its processor, its cores, its memory, how fast it copies."""

import ctypes
import importlib.metadata
import os
import pathlib
import platform
from collections.abc import Callable
from typing import Any

import numpy as np

_FLAGS = ("avx2", "bmi2", "avx512f", "avx512dq", "avx512ifma", "asimd", "sve")
_PACKAGES = ("fhejax", "jax", "jaxlib", "numpy", "tenseal", "desilofhe")
_STATUS, _CLEAR = pathlib.Path("/proc/self/status"), pathlib.Path("/proc/self/clear_refs")


class Unavailable(Exception):
    """Something optional cannot be measured here; the message says why."""


def describe() -> dict[str, Any]:
    """The processor, its flags of interest, the cores this process may use, and versions."""
    info = _processor_info()
    return {
        "processor": info.get("model name") or platform.processor() or platform.machine(),
        "family_model": f"{info.get('cpu family', '?')}/{info.get('model', '?')}",
        "flags": [flag for flag in _FLAGS if flag in (info.get("flags") or info.get("Features", "")).split()],
        "cores": len(cores()),
        "load": os.getloadavg()[0],
        "system": platform.platform(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
    }


def cores() -> list[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def pin(chosen: list[int]) -> None:
    """Confines this process to some cores; call it before importing JAX, which counts them then."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, chosen)


def copy(moved: int) -> Callable[[], None]:
    """A function that moves so many bytes in all: it reads half of them and writes the other half."""
    source, destination = np.ones((2, max(moved // 16, 1)), np.uint64)
    return lambda: np.copyto(destination, source)


def peak_of(function: Callable[[], Any]) -> int:
    """By how many bytes the resident memory of this process rises at most while a function runs.

    Raises:
      Unavailable: not Linux, or a system that does not reset the peak (VmHWM).
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)  # freed memory that is still resident would be taken again, unseen
        _CLEAR.write_text("5")
        before = _resident("VmRSS")
        function()
        return _resident("VmHWM") - before
    except (OSError, AttributeError) as error:
        raise Unavailable(f"peak memory needs Linux with glibc and /proc/self/clear_refs: {error}") from None


def _resident(name: str) -> int:
    (line,) = [line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) << 10


def _processor_info() -> dict[str, str]:
    path = pathlib.Path("/proc/cpuinfo")
    lines = path.read_text().split("\n\n")[0].splitlines() if path.exists() else []
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
