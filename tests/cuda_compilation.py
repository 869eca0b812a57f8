"""Compiles every CUDA kernel for every architecture; needs nvcc, no GPU. Fails on a warning, and on a kernel that keeps
registers in memory (a stack frame or spills).

    python tests/cuda_compilation.py [name of a file in ffi/cuda, without .cu]...
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import jax

ROOT = pathlib.Path(__file__).parents[1]
SOURCES = ROOT / "ffi" / "cuda"
SETTINGS = (SOURCES / "sources.cmake").read_text()
KERNEL = re.compile(
    r"Compiling entry function '(?P<name>\w+)'.*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers",
    re.DOTALL,
)


def find_nvcc() -> str | None:
    """nvcc of the path, or of where CUDA installs itself."""
    return shutil.which("nvcc") or shutil.which("nvcc", path=f"{os.environ.get('CUDA_HOME', '/usr/local/cuda')}/bin")


def setting(name: str) -> list[str]:
    """A list that sources.cmake sets."""
    found = re.search(rf"set\({name} ([^)]*)\)", SETTINGS)
    assert found is not None, name
    return found[1].split()


def compile_one(nvcc: str, source: pathlib.Path, architecture: str) -> tuple[list[dict[str, str]], str]:
    """The kernels of a file with the registers and memory of each, and what the compiler complains of."""
    with tempfile.TemporaryDirectory() as folder:
        # What runs on the host is the same for all: it is compiled, and warned of, with the last one.
        whole = architecture == setting("FHEJAX_CUDA_ARCHITECTURES")[-1]
        command = [nvcc, "-std=c++17", "-O3", "-c" if whole else "-cubin", f"-arch=sm_{architecture}", "-Xptxas=-v"]
        command += [*setting("FHEJAX_CUDA_OPTIONS"), f"-I{ROOT / 'ffi'}", "-isystem", jax.ffi.include_dir()]
        command += ["-o", f"{folder}/object", source]
        done = subprocess.run(command, capture_output=True, text=True)
    kernels = [match.groupdict() for match in KERNEL.finditer(done.stderr)]
    return kernels, "" if done.returncode == 0 and "warning" not in done.stderr else done.stderr + done.stdout


def demangle(names: list[str]) -> list[str]:
    """Names as in the source, without namespaces and parameters, where binutils are there."""
    tool = shutil.which("c++filt")
    if tool is None or not names:
        return names
    text = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    plain = [re.sub(r"fhejax::|\(anonymous namespace\)::|^void ", "", line) for line in text.splitlines()]
    return [re.sub(r"\((?!anonymous).*", "", line) for line in plain]


def check(nvcc: str, sources: list[pathlib.Path]) -> list[str]:
    """Prints a line a kernel and returns what is wrong."""
    jobs = [(source, architecture) for source in sources for architecture in setting("FHEJAX_CUDA_ARCHITECTURES")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        compiled = list(pool.map(lambda job: compile_one(nvcc, *job), jobs))
    wrong = []
    for (source, architecture), (kernels, complaint) in zip(jobs, compiled, strict=True):
        if complaint:
            wrong.append(f"{source.name} for {architecture}:\n{complaint}")
        for kernel, name in zip(kernels, demangle([kernel["name"] for kernel in kernels]), strict=True):
            memory = {part: int(kernel[part]) for part in ("stack", "stores", "loads")}
            print(f"{source.name:20} {architecture:>4} {kernel['registers']:>4} registers  {name}")
            if any(memory.values()):
                wrong.append(f"{source.name} for {architecture}: {name} keeps registers in memory: {memory} bytes")
    return wrong


def main(names: list[str]) -> int:
    nvcc = find_nvcc()
    if nvcc is None:
        print("nvcc is not installed")
        return 1
    wrong = check(nvcc, [SOURCES / f"{name}.cu" for name in names] or sorted(SOURCES.glob("*.cu")))
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
