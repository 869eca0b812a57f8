"""Counts the instructions of a butterfly and of a product on GPUs, in both arithmetics, from the machine code.

    pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm     # unless CUDA's toolkit has them
    python benchmarks/instructions.py [--json PATH] [ARCHITECTURE ...]

Needs nvcc, no GPU. What one more pass of butterflies.cu adds to a kernel, by its 12 butterflies: so with its share of
three stages' loads of factors and of what a pass does between stages. A product is one more of an element-wise kernel,
with its loads, its store and the last reduction.
"""

import argparse
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from typing import Any

import jax
from machine import Unavailable

FOLDER = pathlib.Path(__file__).parent
sys.path.append(str(FOLDER.parent / "tests"))
import cuda_compilation  # noqa: E402

# What is counted, by the first match of an instruction's name. IMAD also moves and adds: that is "other".
KINDS = {
    "fp64": r"D(FMA|ADD|MUL|SETP|MNMX)",
    "imad": r"U?IMAD(?!\.(MOV|IADD|SHL|X\b))",
    "memory": r"(LDG|STG|LDS|STS|LDC|ULDC|LDCU|LD|ST)\b",
    "nothing": r"(NOP|BRA|EXIT|BSSY|BSYNC|WARPSYNC)\b",
    "other": r"\w",
}
# Of two kernels, the counts of the second less those of the first, by how many more it does.
SUBJECTS = {
    f"{what}, {arithmetic}": (f"{name}_{arithmetic}_{few}", f"{name}_{arithmetic}_{many}", more)
    for what, name, few, many, more in (
        ("forward butterfly", "forward", 1, 2, 12),
        ("inverse butterfly", "inverse", 1, 2, 12),
        ("product", "product", 1, 4, 3),
        ("product by a constant", "factor", 1, 4, 3),
        ("term of a sum of products", "sum", 2, 4, 2),
    )
    for arithmetic in ("integer", "double")
}


def main() -> None:
    """Prints a table, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architectures", nargs="*", default=cuda_compilation.setting("FHEJAX_CUDA_ARCHITECTURES"))
    parser.add_argument("--json", type=pathlib.Path, help="where to write the counts")
    options = parser.parse_args()
    try:
        counts = {architecture: of_architecture(architecture) for architecture in options.architectures}
    except Unavailable as reason:
        sys.exit(f"not counted: {reason}")
    kinds = [kind for kind in KINDS if kind != "nothing"]
    print(f"| a thread's instructions | sm | {' | '.join(kinds)} | all |\n|---|{'---:|' * (len(kinds) + 2)}")
    for subject in SUBJECTS:
        for architecture, found in counts.items():
            numbers = [*(found[subject][kind] for kind in kinds), sum(found[subject][kind] for kind in kinds)]
            print(f"| {subject} | {architecture} | {' | '.join(f'{number:.1f}' for number in numbers)} |")
    if options.json:
        options.json.write_text(json.dumps(counts, indent=2) + "\n")


def of_architecture(architecture: str) -> dict[str, dict[str, float]]:
    """The counts of each kind for each subject.

    Raises:
      Unavailable: no compiler, or nothing that disassembles.
    """
    kernels = _disassembled(architecture)
    return {
        subject: {kind: (kernels[many][kind] - kernels[few][kind]) / more for kind in KINDS}
        for subject, (few, many, more) in SUBJECTS.items()
    }


def compile_program(*options: Any) -> None:
    """Compiles butterflies.cu as the kernels of ffi/cuda are compiled.

    Raises:
      Unavailable: no compiler, or it fails.
    """
    nvcc = cuda_compilation.find_nvcc()
    if nvcc is None:
        raise Unavailable("nvcc is not installed")
    command = [nvcc, "-std=c++17", "-O3", f"-I{FOLDER.parent / 'ffi'}", "-isystem", jax.ffi.include_dir()]
    command += [*cuda_compilation.setting("FHEJAX_CUDA_OPTIONS"), *options, FOLDER / "butterflies.cu"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"butterflies.cu does not compile: {done.stderr or done.stdout}")


def _disassembled(architecture: str) -> dict[str, Counter[str]]:
    with tempfile.TemporaryDirectory() as folder:
        cubin = f"{folder}/butterflies.cubin"
        compile_program("-cubin", f"-arch=sm_{architecture}", "-o", cubin)
        text = subprocess.run([_cuobjdump(), "-sass", cubin], capture_output=True, text=True, check=True).stdout
    kernels: dict[str, Counter[str]] = {}
    for function in text.split("Function : ")[1:]:
        names = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", function)
        kernels[function.split()[0]] = Counter(map(_kind, names))
    return kernels


def _kind(name: str) -> str:
    return next(kind for kind, pattern in KINDS.items() if re.match(pattern, name))


def _cuobjdump() -> str:
    found = shutil.which("cuobjdump") or shutil.which("cuobjdump", path="/usr/local/cuda/bin")
    if found is None:
        package = importlib.util.find_spec("nvidia")
        folders = [] if package is None else list(package.submodule_search_locations or [])
        found = next((str(path) for each in folders for path in pathlib.Path(each).glob("*/bin/cuobjdump")), None)
    if found is None:
        raise Unavailable("no cuobjdump; type: pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm")
    return found


if __name__ == "__main__":
    main()
