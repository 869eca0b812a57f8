"""This version beside another one of fhejax, in turns: what changes have cost or gained.

    git worktree add ../before COMMIT && make -C ../before .venv/demo
    python benchmarks/versions.py ../before/.venv/bin/python [SET ...] [--json PATH] [--quick]

SET is log2 N, for the operations on that ring, or T, for a bootstrapping of that preset; the default is 13, 14, 15 and
T. Each version runs the calls of its own benchmarks/operations.py in a process of its own (served.py). Both processes
are confined to one core, and one runs at a time. Figures are processor time; below 1, this version is faster. The last
rows are whole processes, compilation included, with their peak memory: one that imports fhejax, one that encrypts,
multiplies, rotates and decrypts.
"""

import argparse
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import machine
import numpy as np
from timing import Timing, Turn, take_turns

_SETS, _QUICK = ["13", "14", "15", "T"], ["12"]
_PROCESSES = {
    "import": "import fhejax",
    "first results": """
import numpy as np, fhejax as fhe
params = fhe.Parameters.preset("n14")
seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 3)
secret = fhe.secret_key(seeds[0], params)
keys = fhe.evaluation_keys(seeds[1], secret, rotations=[1])
x = fhe.encrypt(seeds[2], secret, np.linspace(-1, 1, params.slots))
fhe.decrypt(secret, fhe.rotate(fhe.square(x, keys), 1, keys))
""",
}


class Figure(NamedTuple):
    """One thing here and there, in a unit."""

    name: str
    unit: str
    here: Timing
    there: Timing

    def ratios(self) -> tuple[float, float]:
        """Of the medians, and of the least."""
        return self.here.median / self.there.median, self.here.minimum / self.there.minimum


def main() -> None:
    """Measures both versions and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", help="the Python of an environment that has the other version")
    parser.add_argument("sets", nargs="*", metavar="SET")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the figures")
    parser.add_argument("--quick", action="store_true", help="a small ring and few runs: says only that all runs")
    options = parser.parse_args()
    pythons = sys.executable, options.python
    figures: list[Figure] = []
    print(f"{'':30}{'here':>14}{'there':>14}{'medians':>9}{'least':>7}")
    for name in options.sets or (_QUICK if options.quick else _SETS):
        figures += map(_shown, _of_set(pythons, name, 3 if options.quick else 25))
    for name, program in _PROCESSES.items():
        figures += map(_shown, _of_processes(pythons, name, program, 2 if options.quick else 9))
    if options.json:
        rows = [
            {"name": figure.name, "unit": figure.unit, "ratios": figure.ratios()}
            | {"here": figure.here._asdict(), "there": figure.there._asdict()}
            for figure in figures
        ]
        options.json.write_text(json.dumps({"machine": machine.describe(), "figures": rows}, indent=2) + "\n")


def _of_set(pythons: Sequence[str], name: str, rounds: int) -> list[Figure]:
    """Milliseconds of every subject that both versions have."""
    script = pathlib.Path(__file__).with_name("served.py")
    served = [
        subprocess.Popen([python, script, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for python in pythons
    ]
    here, there = (_answer(each) for each in served)
    subjects = [subject for subject in here if subject in there]
    turns = {
        f"{which} {subject}": functools.partial(_turn, each, subject)
        for subject in subjects
        for which, each in zip(("here", "there"), served, strict=True)
    }
    times = take_turns(turns, rounds)
    for each in served:
        each.communicate()
    return [
        Figure(f"{name}: {subject}", "ms", *(times[f"{which} {subject}"].divided(1e-3) for which in ("here", "there")))
        for subject in subjects
    ]


def _turn(served: subprocess.Popen, subject: str) -> Turn:
    print(subject, file=served.stdin, flush=True)
    return Turn(*_answer(served))


def _answer(served: subprocess.Popen) -> Any:
    line = served.stdout.readline() if served.stdout else ""
    if not line:
        sys.exit(f"{served.args} ended; its message stands above")
    return json.loads(line)


def _of_processes(pythons: Sequence[str], name: str, program: str, rounds: int) -> list[Figure]:
    """Seconds of processor time, and MiB at the peak, of whole processes."""
    runs = np.array([[_process(python, program) for python in pythons] for _ in range(rounds + 1)])
    runs = runs[1:]  # the first reads from disk what others find in memory
    return [
        Figure(f"{name}: {what}", unit, *(_over(each.tolist()) for each in runs[:, :, i].T))
        for i, (what, unit) in enumerate([("time", "s"), ("peak", "MiB")])
    ]


def _process(python: str, program: str) -> tuple[float, float]:
    process = subprocess.Popen([python, "-P", "-c", program])
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{python} failed; its message stands above")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def _over(runs: Sequence[float]) -> Timing:
    median = statistics.median(runs)
    return Timing(min(runs), median, median, len(runs))


def _shown(figure: Figure) -> Figure:
    here, there = (f"{timing.median:.4g} {figure.unit}" for timing in (figure.here, figure.there))
    medians, least = figure.ratios()
    print(f"{figure.name:30}{here:>14}{there:>14}{medians:9.3f}{least:7.3f}", flush=True)
    return figure


if __name__ == "__main__":
    main()
