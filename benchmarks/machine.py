"""What the machine is, and what it can do at most: multiply-adds and copying, measured where they are needed."""

import ctypes
import functools
import importlib.metadata
import os
import pathlib
import platform
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

_MULTIPLY_ADDS_A_ROUND = 12
_ROUNDS = 20_000  # some 50 microseconds
_FLAGS = ("avx2", "bmi2", "avx512f", "avx512dq", "avx512ifma", "asimd", "sve")
_PACKAGES = ("fhejax", "jax", "jaxlib", "numpy", "tenseal", "desilofhe")


def describe() -> dict[str, Any]:
    """The processor, its flags of interest, the cores this process may use, and versions."""
    info = _processor_info()
    return {
        "processor": info.get("model name") or platform.processor() or platform.machine(),
        "family_model": f"{info.get('cpu family', '?')}/{info.get('model', '?')}",
        "flags": [flag for flag in _FLAGS if flag in (info.get("flags") or info.get("Features", "")).split()],
        "cores": len(cores()),
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


class Unavailable(Exception):
    """Something optional cannot be measured here; the message says why."""


def multiply_add() -> Callable[[], None]:
    """A function that executes `MULTIPLY_ADDS` vpmadd52 on 512-bit registers.

    Raises:
      Unavailable: no C compiler, or a processor without AVX-512 IFMA.
    """
    library = _compiled()
    if not library.has_multiply_add():
        raise Unavailable("this processor has no AVX-512 IFMA")
    return functools.partial(library.multiply_add, ctypes.c_uint64(_ROUNDS))


MULTIPLY_ADDS = _MULTIPLY_ADDS_A_ROUND * _ROUNDS


def copy(moved: int) -> Callable[[], None]:
    """A function that moves so many bytes in all: it reads half of them and writes the other half."""
    source, destination = np.ones((2, max(moved // 16, 1)), np.uint64)
    return lambda: np.copyto(destination, source)


def _compiled() -> ctypes.CDLL:
    source = pathlib.Path(__file__).with_name("vpmadd52.c")
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder) / "vpmadd52.so"
        command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", str(source), "-o", str(library)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise Unavailable(f"no C compiler: {command[0]} is not there; install one or set CC") from None
        except subprocess.CalledProcessError as error:
            said = (error.stderr.splitlines() or ["it says nothing"])[0]
            raise Unavailable(f"{command[0]} cannot compile {source.name}: {said}") from None
        return ctypes.CDLL(str(library))


def _processor_info() -> dict[str, str]:
    path = pathlib.Path("/proc/cpuinfo")
    lines = path.read_text().split("\n\n")[0].splitlines() if path.exists() else []
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
