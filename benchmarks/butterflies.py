"""How fast this machine executes the butterflies of the kernels' transforms: what no transform made of them can beat.

The loop is butterflies.cc: the product's own inner loops on a buffer in the first-level cache.
"""

import ctypes
import functools
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Callable

from machine import Unavailable

_SOURCE = pathlib.Path(__file__).with_name("butterflies.cc")
# As CMakeLists.txt compiles the kernels; what the loop does not reach is dropped.
_AVX512 = "-mavx512f -mavx512dq -mavx512vl -mavx512bw -mbmi2 -mprefer-vector-width=512"
_OPTIONS = {"avx512ifma": f"{_AVX512} -mavx512ifma", "avx512": _AVX512, "avx2": "-mavx2 -mbmi2 -mfma"}
_COMMON = "-std=c++17 -O3 -ffp-contract=off -w -shared -fPIC -DFHEJAX_X86=1"
_PRUNED = "-fvisibility=hidden -ffunction-sections -fdata-sections -Wl,--gc-sections -Wl,-z,defs"
_PASSES = 100  # some 20 to 100 microseconds

# The kernels' arithmetics differ by the size of the prime: below 2^45, forward also below 2^46, below 2^50, and larger.
SIZES = (45, 46, 50, 61)


def size_of(modulus: int) -> int:
    """The least of `SIZES` that the modulus fits into."""
    return next(bits for bits in SIZES if modulus < 1 << bits)


def of_transform(log_degree: int) -> int:
    """Butterflies of one transform of one limb: (N / 2) log2(N)."""
    return log_degree << (log_degree - 1)


def loop(
    instruction_set: str, bits: int, inverse: bool = False, passes: int = _PASSES
) -> tuple[Callable[[], int], int]:
    """A function that executes butterflies modulo a number of so many bits, and how many it executes.

    It releases Python's lock, so several threads run it at once.

    Args:
      instruction_set: of the kernels whose butterflies these are.
      bits: one of `SIZES`.
      inverse: whether they are those of the inverse transform.
      passes: over the buffer; each is 2048 butterflies.

    Raises:
      Unavailable: there is no C++ compiler, or no such loop for these kernels.
    """
    execute = _compiled(instruction_set)
    run = functools.partial(execute, (1 << bits) - 1, int(inverse), passes)
    return run, run()


def loops(instruction_set: str, sizes: set[int]) -> tuple[dict[str, Callable[[], int]], dict[str, int]]:
    """The loops of both directions for some of `SIZES`, and how many butterflies each executes; see `name_of`.

    Raises:
      Unavailable: as `loop`.
    """
    made = {name_of(bits, inverse): loop(instruction_set, bits, inverse) for bits in sizes for inverse in (False, True)}
    return {name: run for name, (run, _) in made.items()}, {name: count for name, (_, count) in made.items()}


def name_of(bits: int, inverse: bool) -> str:
    """What reports call a loop."""
    return f"{'inverse' if inverse else 'forward'} butterflies, {bits} bits"


@functools.cache
def _compiled(instruction_set: str) -> Callable[..., int]:
    if instruction_set not in _OPTIONS:
        raise Unavailable(f"there is no butterfly loop for the kernels {instruction_set!r}")
    kernels = _SOURCE.parent.parent / "ffi"
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder) / "butterflies.so"
        compiler = os.environ.get("CXX", "c++")
        options = f"{_COMMON} {_PRUNED} {_OPTIONS[instruction_set]}".split()
        _compile(
            [compiler, *options, *_compiler_options(compiler), "-I", str(kernels), str(_SOURCE), "-o", str(library)]
        )
        function = ctypes.CDLL(str(library)).Butterflies
    function.argtypes, function.restype = [ctypes.c_uint64, ctypes.c_int, ctypes.c_int64], ctypes.c_int64
    return function


def _compile(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise Unavailable(f"no C++ compiler: {command[0]} is not there; install one or set CXX") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr.splitlines() or ["it says nothing"])[0]
        raise Unavailable(f"{command[0]} cannot compile {_SOURCE.name}: {said}") from None


def _compiler_options(compiler: str) -> list[str]:
    """What CMakeLists.txt adds for gcc."""
    try:
        said = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    except FileNotFoundError:
        return []
    return ["-fno-split-paths"] if "Free Software Foundation" in said else []
