"""Calls every handler of the CPU with what does not fit, at random (ffi/tests/fuzz.cc): each is refused or computes.

    python tests/fuzz_handlers.py 100000
    python tests/fuzz_handlers.py 100000 --program build/sanitize-address,undefined/checks

Calls run in processes of their own, some at a time, and are numbered: a call that ends its process, hangs or writes
where it should not is reported by its number, and the others go on. What has been done stands in build/fuzz and is not
done again by the same kernels.
"""

import argparse
import ctypes
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys

import jax

from fhejax import _compat
from fhejax.primitives import native

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "build" / "fuzz"
SOURCES = [ROOT / "ffi" / path for path in ("tests/fuzz.cc", "tests/calls.cc", "common/roots.cc")]
CHUNK = 5000  # calls of a process


def build() -> pathlib.Path:
    """The library that draws the calls; the handlers are those of the installed extension."""
    compiler = shutil.which("c++")
    assert compiler is not None, "needs a C++ compiler"
    headers = [*(ROOT / "ffi").rglob("*.h"), *SOURCES]
    text = b"".join(path.read_bytes() for path in sorted(headers)) + _compat.jaxlib_version().encode()
    library = FOLDER / f"{hashlib.sha256(text).hexdigest()[:16]}.so"
    if not library.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        made = library.with_suffix(".partial")
        options = ["-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", f"-I{ROOT / 'ffi'}"]
        subprocess.run([compiler, *options, "-isystem", jax.ffi.include_dir(), *SOURCES, "-o", made], check=True)
        made.rename(library)
    return library


def child(library: str, first: int, count: int) -> int:
    """How many of these calls computed."""
    extension = native.cpu_extension()
    assert extension is not None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    handlers = extension.registrations()
    names = (ctypes.c_char_p * len(handlers))(*(name.encode() for name in handlers))
    pointers = (ctypes.c_void_p * len(handlers))(*(pointer(capsule, None) for capsule in handlers.values()))
    fuzz = ctypes.CDLL(library).FhejaxFuzz
    fuzz.restype = ctypes.c_int64
    return fuzz(names, pointers, len(handlers), ctypes.c_uint64(first), ctypes.c_uint64(count))


def fuzz(calls: int, program: str | None = None) -> dict:
    """Makes calls until there have been so many: {"next": .., "computed": .., "failures": [..]}."""
    if program is None:
        command, kernels = [sys.executable, __file__, "--child", str(build())], native.cpu_extension().__file__
    else:
        command, kernels = [program, "fuzz"], program
    digest = hashlib.sha256(pathlib.Path(kernels).read_bytes() + SOURCES[0].read_bytes()).hexdigest()[:16]
    progress = FOLDER / f"{digest}.json"
    done = json.loads(progress.read_text()) if progress.exists() else {"next": 0, "computed": 0, "failures": []}
    FOLDER.mkdir(parents=True, exist_ok=True)
    while done["next"] < calls:
        count = min(CHUNK, calls - done["next"])
        ran = subprocess.run([*command, str(done["next"]), str(count)], capture_output=True, text=True)
        if ran.returncode == 0:
            done["computed"] += int(ran.stdout.split()[0])
            done["next"] += count
        else:
            seeds = re.findall(r"seed 0*(\d+)", ran.stderr)
            assert seeds, ran.stderr
            done["failures"].append([int(seeds[-1]), ran.stderr[-4000:]])
            done["next"] = int(seeds[-1]) + 1
        progress.write_text(json.dumps(done))
    return done


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("calls", type=int, nargs="?", default=100_000)
    parser.add_argument("--program")
    parser.add_argument("--child", nargs=3)
    options = parser.parse_args()
    if options.child:
        print(child(options.child[0], int(options.child[1]), int(options.child[2])))
        return 0
    done = fuzz(options.calls, options.program)
    for seed, text in done["failures"]:
        print(f"seed {seed}:\n{text}")
    print(f"{done['next']} calls, {done['computed']} computed, {len(done['failures'])} failures")
    return bool(done["failures"])


if __name__ == "__main__":
    sys.exit(main())
