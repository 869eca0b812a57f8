"""The CUDA handlers on the emulator (ffi/tests/emulator): built once for these sources, called on the CPU. Where JAX
computes on a GPU, the same tests call the real ones there."""

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references

from fhejax import _compat
from fhejax.primitives import define, native

ROOT = pathlib.Path(__file__).parent.parent
PLANTED = {"TestPlanted": "fhejax_test_planted", "TestNttOfShape": "fhejax_test_ntt_of_shape"}


def emulated_name(handler: str) -> str:
    return handler.replace("fhejax_", "fhejax_emulated_", 1)


@functools.cache
def on_gpu() -> bool:
    """Whether JAX computes on a CUDA device, and fhejax has kernels for it."""
    return jax.default_backend() == "gpu" and native.cuda_extension() is not None


@functools.cache
def library() -> ctypes.CDLL:
    """The emulated handlers, registered for the CPU. Skips the test where they cannot be built, or have not changed."""
    if not references.computes_emulated():
        pytest.skip("emulated handlers of unchanged sources: run by make test-all")
    if on_gpu():
        pytest.skip("JAX computes on a GPU here, where the emulator has no place; JAX_PLATFORMS=cpu runs this test")
    if platform.machine() != "x86_64" or sys.platform != "linux":
        pytest.skip("the emulator switches fibers by code for x86-64 Linux")
    missing = [tool for tool in ("cmake", "c++", "make") if _tool(tool) is None]
    if missing:
        pytest.skip(f"the emulator is built by tests, which needs {', '.join(missing)}")
    loaded = ctypes.CDLL(str(_build()))
    for symbol, name in {**_handlers(loaded), **PLANTED}.items():
        _compat.register_handler(name, jax.ffi.pycapsule(getattr(loaded, symbol)), platform="cpu")
    for definition in define.definitions.values():
        if definition.handler is not None:
            _compat.register_lowering(definition.primitive, functools.partial(_lower, definition), platform="cpu")
    return loaded


def compiled_handlers() -> list[str]:
    """The names of the handlers that `ffi/cuda` has, as XLA knows them on a CUDA device."""
    if on_gpu():
        return sorted(native.cuda_extension().registrations())
    return sorted(name.replace("fhejax_emulated_", "fhejax_", 1) for name in _handlers(library()).values())


@contextlib.contextmanager
def emulated(*, check: bool = True, seed: int = 0):
    """Primitives with a handler are lowered to it, emulated; others as ever. On a GPU nothing is emulated.

    Args:
      check: whether accesses of memory are checked; whatever is wrong is an error of the call.
      seed: of the random order of threads and blocks.
    """
    if on_gpu():
        with native.lowering("native"):
            yield
        return
    library().FhejaxConfigureEmulator(ctypes.c_uint64(seed), check)
    with _compat.lowering_context("emulated"):
        yield


def assert_equals_reference(function, *arrays, **options):
    """The emulated handlers give the bits of the reference.

    Args:
      function: of the arrays; its primitives are compared.
      **options: as for `emulated`.
    """
    with emulated(**options):
        got = function(*arrays)
    references.assert_equals_reference(got, function, *arrays)


def assert_equals_cpu(function, *arrays, **options):
    """Kernels have the same bits also where lowerings agree up to rounding; the CPU's are tested against exact ones."""
    assert native.cpu_extension() is not None
    with emulated(**options):
        got = function(*arrays)
    jax.tree.map(np.testing.assert_array_equal, got, function(*arrays))


def planted(kernel: str, x: np.ndarray, blocks: int = 1) -> np.ndarray:
    """The result of a kernel of ffi/tests/emulator/planted.cu for x: uint64[n], with as many words to work in."""
    library()
    with jax.enable_x64(True):
        like = jax.ShapeDtypeStruct(x.shape, jnp.uint64)
        call = jax.ffi.ffi_call(PLANTED["TestPlanted"], (like, jax.ShapeDtypeStruct((x.size,), jnp.uint64)))
        return np.asarray(call(jnp.asarray(x), kernel=kernel, blocks=np.int64(blocks))[0])


def ntt_of_shape(x: jax.Array, moduli: tuple[int, ...], inverse: bool, shape: tuple[int, int, int]) -> np.ndarray:
    """A transform of uint64[limbs, N] cut and spread over blocks as `NttShape` says."""
    library()
    with jax.enable_x64(True):
        call = jax.ffi.ffi_call(PLANTED["TestNttOfShape"], jax.ShapeDtypeStruct(x.shape, x.dtype))
        moduli, shape = np.array(moduli, np.uint64), np.array(shape, np.uint64)
        return np.asarray(call(x, moduli=moduli, inverse=np.int64(inverse), shape=shape))


def _lower(definition, context, *operands, lowering, **parameters):
    if lowering != "emulated":
        return define.lower_on_cpu(definition, context, *operands, lowering=lowering, **parameters)
    name = emulated_name(definition.handler.target)
    return define.lower_with_workspace(definition, name, context, *operands, **parameters)


def _handlers(loaded):
    loaded.FhejaxEmulatedHandlers.restype = ctypes.c_char_p
    lines = loaded.FhejaxEmulatedHandlers().decode().splitlines()
    return {symbol: emulated_name(name) for symbol, name in map(str.split, lines)}


def _tool(name):
    return shutil.which(name, path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")


def _build():
    """The library for the present sources; under pytest-xdist one process builds it and the others wait."""
    sources = [path for path in sorted((ROOT / "ffi").rglob("*")) if path.is_file() and "cpu" not in path.parts]
    digest = hashlib.sha256(_compat.jaxlib_version().encode())
    for path in [ROOT / "CMakeLists.txt", *sources]:
        digest.update(path.read_bytes())
    # CMake does not change the Python of a folder that it has configured.
    folder = ROOT / "build" / "emulated" / str(sys.implementation.cache_tag)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, built = folder / "digest", folder / "libemulated.so"
        if not built.exists() or not stamp.exists() or stamp.read_text() != digest.hexdigest():
            arguments = ["-DFHEJAX_EMULATE=ON", f"-DPython_EXECUTABLE={sys.executable}"]
            _run(_tool("cmake"), "-S", ROOT, "-B", folder, "-G", "Unix Makefiles", *arguments)
            _run(_tool("cmake"), "--build", folder, "--parallel", "2")
            stamp.write_text(digest.hexdigest())
    return built


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
