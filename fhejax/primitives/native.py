"""Loads the compiled kernels, and says what is loaded and why something is not.

A handler built with newer XLA FFI headers than the jaxlib it meets does not fail alone: JAX can then start no
backend at all. So the versions are compared first, and nothing is registered unless they fit; without kernels
every operation still runs, by its pure-JAX reference.
"""

import contextlib
import difflib
import functools
import importlib
import importlib.metadata
import importlib.util
import os
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import jax

from fhejax import _compat

LOWERINGS = ("native", "composed", "reference")

handlers: set[str] = set()
"""Every handler that a primitive calls; the CPU and CUDA have all of them."""

implementations: dict[str, dict[str, Callable]] = {}
"""For every primitive the lowering rules that were registered, by name (`register_implementation`)."""


class Choice(NamedTuple):
    """A lowering, and others for single primitives: pairs of a primitive and a lowering."""

    default: str
    single: tuple[tuple[str, str], ...]


Lowering = str | Choice


@contextlib.contextmanager
def lowering(kind: str | Mapping[str, str]) -> Iterator[None]:
    """Chooses how operations are lowered while the context is open.

    The choice is part of the trace: a jitted function is traced again under another choice, never served from
    the wrong one. All three give the same bits.

    Args:
      kind: "native" (one fused kernel an operation; the default), "composed" (whole operations made of smaller
        kernels) or "reference" (pure JAX, no kernel of ours). Or a dict that chooses for single primitives, by their
        names in docs/cuda.md: one of the three, or what `register_implementation` was given. Others stay as they are.

    Raises:
      ValueError: `kind` is none of them, or there is no such primitive.

    Example:
      >>> import fhejax as fhe
      >>> with fhe.lowering("composed"), fhe.lowering({"ntt": "reference"}):
      ...     pass
    """
    if isinstance(kind, str) and kind not in LOWERINGS:
        raise ValueError(f"lowering: got {kind!r}; choose one of {', '.join(map(repr, LOWERINGS))}")
    with _compat.lowering_context(kind if isinstance(kind, str) else _chosen_among(kind)):
        yield


def _chosen_among(kinds):
    """The present choice, with that of single primitives on top."""
    for name, kind in kinds.items():
        require_one_of("lowering: there is no primitive", name, implementations)
        require_one_of(f"lowering: {name} has no implementation", kind, (*LOWERINGS, *implementations[name]))
    outer = current_lowering()
    default, single = (outer, ()) if isinstance(outer, str) else outer
    return Choice(default, tuple(sorted((dict(single) | dict(kinds)).items())))


def require_one_of(what: str, name: str, names: Iterable[str]) -> None:
    """Refuses a name that is none of `names`, and says which are near."""
    known = list(names)
    if name not in known:
        near = difflib.get_close_matches(str(name), known) or known
        raise ValueError(f"{what} {name!r}; there is {', '.join(map(repr, near))}")


def current_lowering() -> Lowering:
    """The lowering that a primitive bound now will have."""
    return _compat.lowering_context.value or "native"


def kind_of(lowering: Lowering, name: str) -> str:
    """What a lowering is for one primitive."""
    return lowering if isinstance(lowering, str) else dict(lowering.single).get(name, lowering.default)


@functools.cache
def cpu_extension() -> types.ModuleType | None:
    """The CPU kernels, registered with XLA at the first call; None when they cannot be used."""
    return _load_cpu()[0]


@functools.cache
def cuda_extension() -> types.ModuleType | None:
    """The CUDA kernels, registered with XLA at the first call; None when they cannot be used."""
    return _load_cuda()[0]


def lowers_to_cuda() -> bool:
    """Whether programs for CUDA call kernels of ours.

    Also those that are lowered for another machine do. Only where there are CUDA devices to run them here and no
    kernels, the reference serves.
    """
    return cuda_extension() is not None or not _compat.has_devices("cuda")


def show_config() -> None:
    """Prints versions, instruction sets and which lowerings are loaded, with the reason when one is not.

    Example:
      >>> import fhejax as fhe
      >>> fhe.show_config()  # doctest: +ELLIPSIS
      fhejax ...
    """
    extension, reason = _load_cpu()
    print(f"fhejax {importlib.metadata.version('fhejax')}, jax {jax.__version__}")
    print("lowering reference: loaded (pure JAX, every platform)")
    if extension is None:
        print(f"lowering native, cpu: not loaded: {reason}")
    else:
        built = ".".join(map(str, extension.XLA_FFI_API))
        offered = ", ".join(extension.instruction_sets())
        print(f"lowering native, cpu: loaded (XLA FFI {built}; instruction set {extension.instruction_set()}")
        print(f"  of {offered}; set FHEJAX_INSTRUCTION_SET before the first use to choose)")
    extension, reason = _load_cuda()
    if extension is None:
        print(f"lowering native, cuda: not loaded: {reason}")
    else:
        built = ".".join(map(str, extension.XLA_FFI_API))
        print(f"lowering native, cuda: loaded (XLA FFI {built}; architectures {extension.ARCHITECTURES})")


@functools.cache
def _load_cpu() -> tuple[types.ModuleType | None, str]:
    try:
        extension = importlib.import_module("fhejax._cpu")
        _check_version(tuple(extension.XLA_FFI_API), _compat.runtime_ffi_version())
    except ImportError as error:
        return None, str(error)
    wanted = os.environ.get("FHEJAX_INSTRUCTION_SET")
    if wanted and wanted != extension.instruction_set():
        warnings.warn(
            f"FHEJAX_INSTRUCTION_SET={wanted} is none of this machine's: {', '.join(extension.instruction_sets())}; "
            f"{extension.instruction_set()} serves",
            stacklevel=2,
        )
    for name, capsule in extension.registrations().items():
        _compat.register_handler(name, capsule, platform="cpu")
    return extension, ""


@functools.cache
def _load_cuda() -> tuple[types.ModuleType | None, str]:
    if importlib.util.find_spec("fhejax._cuda") is None:
        return None, 'built without CUDA; with its toolkit: CMAKE_ARGS="-DFHEJAX_CUDA=ON" pip install (from source)'
    try:
        extension = importlib.import_module("fhejax._cuda")
        _check_version(tuple(extension.XLA_FFI_API), _compat.runtime_ffi_version())
    except ImportError as error:
        return None, str(error)
    for name, stages in extension.registrations().items():
        _compat.register_handler(name, stages, platform="CUDA")
    return extension, ""


def _check_version(built: tuple[int, ...], runtime: tuple[int, ...]) -> None:
    """Refuses kernels built for a newer XLA FFI than the installed jaxlib provides."""
    if built[0] != runtime[0] or built > runtime:
        raise ImportError(
            f"fhejax was built for XLA FFI {'.'.join(map(str, built))} but jaxlib {_compat.jaxlib_version()} provides "
            f"{'.'.join(map(str, runtime))}; type: pip install --upgrade jax jaxlib  (or reinstall fhejax from source)"
        )
