"""Whether `make test` finds small changes of the sources (mutations.py), each made in a copy and tried alone.

    python tests/mutants.py [--seed 0] [--count 40] [--results build/mutants/results.tsv] [--list]

The copy, of what is committed, is a worktree in build/mutants. A change of C++ is built there first. Tests that are
named after the changed file or import it come first; the first that fails ends the run. Rows are added to the results,
and what they have is not tried again. Row 0 is the copy without a change. Run it with the Python of `make .venv/test`.
"""

import argparse
import csv
import importlib.util
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import mutations

ROOT = pathlib.Path(__file__).parent.parent
FOLDER = ROOT / "build" / "mutants"
COPY = FOLDER / "copy"
FIELDS = ("number", "group", "place", "change", "caught by", "seconds")
KERNELS = importlib.util.find_spec("fhejax._cpu").origin
LONGEST = 3600  # seconds; a change that makes a test run on for ever is caught, too

# Parts of the names of the tests that meet a group, whatever file it is in.
NEAR = {"kernels": ("instruction_sets",), "files": ("serialization", "files", "container")}

# An editable install puts the working tree first: this takes the copy instead, in every process that is started.
SITE = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if type(f).__module__ != "_editable_skbc_fhejax"]
sys.path[:] = [{copy!r}, *(p for p in sys.path if p != {root!r})]
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--results", type=pathlib.Path, default=FOLDER / "results.tsv")
    parser.add_argument("--list", action="store_true", help="only print the mutants")
    options = parser.parse_args()
    if options.list:
        for number, mutant in drawn(ROOT, options.seed, options.count):
            print(number, mutant.group, f"{mutant.path}:{mutant.line(ROOT)}", mutant, sep="\t")
        return
    prepare()
    done = rows(options.results)
    if "0" not in done:
        add(options.results, "0", None, *caught(None))
    valid = sum(row["caught by"] != "does not compile" for number, row in done.items() if number != "0")
    for number, mutant in drawn(COPY, options.seed):
        if valid >= options.count:
            break
        if str(number) not in done:
            by, seconds = tried(mutant)
            add(options.results, str(number), mutant, by, seconds)
            valid += by != "does not compile"
    report(rows(options.results))


def drawn(root, seed, count=None):
    """Numbered mutants, none twice."""
    seen = dict.fromkeys(itertools.islice(mutations.draw(root, seed), 2000))
    return list(enumerate(seen, 1))[:count]


def prepare():
    """The copy, with the kernels that are installed."""
    assert run("git", "status", "--porcelain", "ffi", "CMakeLists.txt", at=ROOT) == "", "commit the kernels first"
    if not COPY.exists():
        run("git", "worktree", "add", "--detach", "--force", COPY, "HEAD", at=ROOT)
    run("git", "checkout", "--force", "--detach", run("git", "rev-parse", "HEAD", at=ROOT).strip())
    site = FOLDER / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(SITE.format(copy=str(COPY), root=str(ROOT)))
    if not (FOLDER / "nanobind").exists():
        run(sys.executable, "-m", "pip", "install", "--quiet", "--target", FOLDER / "nanobind", "nanobind>=2.4")
    shutil.copy(KERNELS, COPY / "fhejax")
    if (ROOT / "build" / "emulated").exists() and not (COPY / "build" / "emulated").exists():
        shutil.copytree(ROOT / "build" / "emulated", COPY / "build" / "emulated")


def build():
    """Whether the kernels of the copy compile, which first takes minutes; they are put beside its Python files."""
    cmake, folder = pathlib.Path(sys.executable).parent / "cmake", COPY / "build" / "kernels"
    nanobind = {"PYTHONPATH": str(FOLDER / "nanobind")}
    options = ["-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={sys.executable}"]
    run(cmake, "-S", COPY, "-B", folder, "-G", "Unix Makefiles", *options, environment=nanobind)
    done = run(cmake, "--build", folder, "--parallel", "2", environment=nanobind, check=False)
    for path in folder.glob("_cpu*.so"):
        shutil.copy(path, COPY / "fhejax")
    return done is not None


def tried(mutant):
    """Which test caught a mutant, and after how many seconds."""
    path = COPY / mutant.path
    text = path.read_text()
    path.write_text(mutant.applied(text))
    try:
        if path.suffix != ".py" and not build():
            return "does not compile", 0.0
        return caught(mutant)
    finally:
        path.write_text(text)
        shutil.copy(KERNELS, COPY / "fhejax")


def caught(mutant):
    """The first test that fails, or "none"."""
    start = time.monotonic()
    near, others = ordered(mutant)
    for files in (near, [*others, "--pyargs", "fhejax"]):
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", "--dist", "worksteal", *files]
        environment = os.environ | {
            "PYTHONPATH": str(FOLDER / "site"),
            "JAX_COMPILATION_CACHE_DIR": str(ROOT / "build" / "compiled"),
        }
        if not files:
            continue
        try:
            done = subprocess.run(command, cwd=COPY, env=environment, capture_output=True, text=True, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            return "a test without end", time.monotonic() - start
        if done.returncode:
            found = re.search(r"^(?:FAILED|ERROR) (\S+)|(worker \S+ crashed.*)", done.stdout, re.M)
            return (found[1] or found[2] if found else done.stdout[-200:]), time.monotonic() - start
    return "none", time.monotonic() - start


def ordered(mutant):
    """Test files that are near to the changed one, and the others; without a mutant they are all others."""
    files = sorted((COPY / "tests").glob("test_*.py"))
    if mutant is None:
        return [], [str(path) for path in files]
    stem = pathlib.Path(mutant.path).stem
    parts = [stem, *NEAR.get(mutant.group, ())]
    imported = re.compile(rf"fhejax[\w.]*[. ]{stem}\b|import .*\b{stem}\b")
    near = [path for path in files if any(part in path.stem for part in parts) or imported.search(path.read_text())]
    near.sort(key=lambda path: (not any(part in path.stem for part in parts), "cuda" in path.stem))
    return [str(path) for path in near], [str(path) for path in files if path not in near]


def run(*command, at=COPY, environment=None, check=True):
    """What a command prints; None if it fails and may."""
    command = [str(part) for part in command]
    done = subprocess.run(command, cwd=at, env=os.environ | (environment or {}), capture_output=True, text=True)
    assert done.returncode == 0 or not check, f"{command}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout if done.returncode == 0 else None


def rows(path):
    """What a file of results has, by number."""
    if not path.exists():
        return {}
    with open(path, newline="") as file:
        return {row["number"]: row for row in csv.DictReader(file, FIELDS, delimiter="\t")}


def add(path, number, mutant, by, seconds):
    path.parent.mkdir(parents=True, exist_ok=True)
    place, change = ("", "nothing") if mutant is None else (f"{mutant.path}:{mutant.line(COPY)}", str(mutant))
    with open(path, "a", newline="") as file:
        group = mutant.group if mutant else ""
        csv.writer(file, delimiter="\t").writerow([number, group, place, change, by, f"{seconds:.0f}"])
    print(number, place, change, by, f"{seconds:.0f} s", sep="  ", flush=True)


def report(done):
    """The table in Markdown, and how many were caught."""
    print("", f"| {' | '.join(FIELDS)} |", f"|{'---|' * len(FIELDS)}", sep="\n")
    for row in done.values():
        print(f"| {' | '.join(row[field].replace('|', chr(92) + '|') for field in FIELDS)} |")
    tries = [row for number, row in done.items() if number != "0" and row["caught by"] != "does not compile"]
    print(f"\n{sum(row['caught by'] != 'none' for row in tries)} of {len(tries)} caught")


if __name__ == "__main__":
    main()
