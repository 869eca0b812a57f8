#!/usr/bin/env bash
# Builds fhejax with CUDA, tests it on a GPU, checks memory and races, and measures. Behind the build each part gets what
# is left of six minutes, or a few seconds. Without a GPU, and from nothing, two cores took eight.
#
#     bash benchmarks/gpu.sh [REPORT.json]
#
# PYTHON=python3.12 chooses a Python with jax, its CUDA plugin and the packages named below; nothing is downloaded. Where
# there is no GPU, it does what needs none (build, compilation checks, emulated kernels, lowering and export), says so, and
# ends with 0.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
report=$(realpath -m "${1:-build/gpu/report.json}")
mkdir -p build/gpu
started=$SECONDS
step() { printf '\n== %s (after %d s)\n' "$1" $((SECONDS - started)); }

step "What is here"
for tool in nvcc compute-sanitizer; do
  found=$(command -v $tool || command -v "${CUDA_HOME:-/usr/local/cuda}/bin/$tool" || true)
  printf '%s: %s\n' $tool "${found:-not found}"
  declare "${tool//-/_}=$found"
done
"$PYTHON" - <<'CHECK'
import importlib.metadata, sys
needed = ["jax", "jaxlib", "numpy", "jaxtyping", "mpmath", "nanobind", "scikit-build-core", "cmake", "pytest", "hypothesis"]
optional = ["jax-cuda13-plugin", "jax-cuda12-plugin", "beartype", "pytest-xdist", "ninja"]
lacking = []
for name in needed + optional:
    try:
        print(f"{name} {importlib.metadata.version(name)}", end="; ")
    except importlib.metadata.PackageNotFoundError:
        print(f"{name}: not installed", end="; ")
        lacking += [name] if name in needed else []
print(f"Python {sys.version.split()[0]}")
sys.exit(f"lacking: {' '.join(lacking)}" if lacking else 0)
CHECK
[ -n "$nvcc" ] || { echo "nvcc is not installed: nothing can be built"; exit 1; }
export CUDACXX=$nvcc PATH="$(dirname "$nvcc"):$PATH"

step "Build"
CMAKE_ARGS="-DFHEJAX_CUDA=ON" NVCC_APPEND_FLAGS="--threads=0" \
  "$PYTHON" -m pip install --quiet --no-index --no-build-isolation --no-deps --upgrade --target build/gpu/site .
# Python files are those of the checkout, extensions those just built.
cp build/gpu/site/fhejax/_cpu*.so build/gpu/site/fhejax/_cuda*.so fhejax/
export PYTHONPATH="$PWD:$PWD/build/gpu/site${PYTHONPATH:+:$PYTHONPATH}" XLA_PYTHON_CLIENT_PREALLOCATE=false
"$PYTHON" -c "import fhejax; fhejax.show_config()"

# Beside what follows, because it needs a core for each architecture and file.
"$PYTHON" tests/cuda_compilation.py > build/gpu/compilation.txt 2>&1 &
compilation=$!
finish_compilation() {
  step "Compilation: no warnings, no registers in memory"
  wait $compilation || { tail -40 build/gpu/compilation.txt; exit 1; }
  echo "$(wc -l < build/gpu/compilation.txt) kernels: build/gpu/compilation.txt"
}

pytest=("$PYTHON" -m pytest -q -o addopts= -W ignore -p no:cacheprovider)
parallel=()
"$PYTHON" -c "import xdist" 2> /dev/null && parallel=(-n "$(( $(nproc) < 8 ? $(nproc) : 8 ))")

gpu=$("$PYTHON" -c "import jax; print(jax.devices('cuda')[0].device_kind)" 2> /dev/null | tail -1 || true)
if [ -z "$gpu" ]; then
  finish_compilation
  step "Emulated kernels, lowering and export"
  "${pytest[@]}" "${parallel[@]}" tests/test_emulator.py tests/test_cuda*.py tests/test_devices.py tests/test_gpu.py \
    -k "not compile_without_warnings"
  "$PYTHON" benchmarks/gpu.py --quick --arithmetic default > build/gpu/quick.txt
  step "Done"
  echo "No GPU that JAX can use is here, so nothing was run or measured on one. All that needs none passed."
  exit 0
fi
echo "GPU: $gpu"
"$PYTHON" -c "from fhejax.primitives import native; assert native.cuda_extension(), native._load_cuda()[1]" # else all is skipped
status=0
failed() { status=1; echo "FAILED: $1"; }
# Seconds for a part: no more than asked for, no more than are left of the six minutes, and never none.
within() { local left=$((345 - (SECONDS - started))); echo $((left < 5 ? 5 : left < $1 ? left : $1)); }

step "Primitives and whole operations on the GPU"
timeout "$(within 100)" "${pytest[@]}" "${parallel[@]}" tests/test_gpu.py || failed "tests/test_gpu.py (124: out of time)"

step "Measurements"
"$PYTHON" benchmarks/gpu.py --json "$report" --seconds "$(within 45)" || failed "benchmarks/gpu.py"

if [ -n "$compute_sanitizer" ]; then
  for tool in memcheck racecheck; do
    step "compute-sanitizer $tool"
    # Each buffer an allocation of its own, so that an access beyond it is seen.
    XLA_PYTHON_CLIENT_ALLOCATOR=platform timeout "$(within 40)" "$compute_sanitizer" --tool $tool --error-exitcode 9 \
      "${pytest[@]}" tests/test_gpu.py -k "test_primitives and (switches-8 or transforms-3)" > build/gpu/$tool.txt 2>&1 ||
      failed "$tool ended with $? (9: findings, 124: out of time): build/gpu/$tool.txt"
    tail -3 build/gpu/$tool.txt
  done
else
  echo "compute-sanitizer is not installed: neither memcheck nor racecheck was run"
fi

step "Every handler on the GPU, as far as time goes"
timeout "$(within 100)" "${pytest[@]}" "${parallel[@]}" tests/test_cuda*.py tests/test_devices.py \
  -k "not compile_without_warnings" || failed "tests/test_cuda*.py ended with $? (124: out of time)"
finish_compilation
step "Done: $report"
exit $status
