"""What a machine takes for a unit of work: python -m fhejax.planning.machine [TABLE.json].

Operations run on rings of several sizes and levels; the seconds of processor time of each unit are those that explain
them best (non-negative least squares of relative errors). Give the table to `fhejax.count`:

    fhejax.count(program, x, machine=json.load(open("TABLE.json")))
"""

import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import scipy.optimize

from fhejax.kinds.simulated import simulate
from fhejax.kinds.work import UNITS
from fhejax.linear.evaluation import apply
from fhejax.linear.transform import LinearTransform
from fhejax.operations.arithmetic import add, multiply, multiply_plain
from fhejax.operations.encryption import encrypt
from fhejax.operations.levels import rescale
from fhejax.operations.rotations import rotate, rotate_many
from fhejax.parameters.parameters import Parameters
from fhejax.planning.count import count
from fhejax.primitives.native import cpu_extension
from fhejax.report.progress import meter
from fhejax.scheme.keys import evaluation_keys, secret_key
from fhejax.scheme.random import new_seed

_RINGS = {12: (1, 2), 13: (1, 3), 14: (2, 5), 15: (3, 10), 16: (4, 12, 20)}
_SECONDS = 0.4  # of each operation, at least


def measure(progress: bool = True) -> dict[str, Any]:
    """The table of this machine, some minutes: by log2 N the seconds of each unit."""
    with meter("measuring", progress, len(_RINGS), "rings", "ring") as watcher:
        seconds = {}
        for log_degree, levels in _RINGS.items():
            seconds[str(log_degree)] = _fitted([each for level in levels for each in _timed(log_degree, level)])
            if watcher is not None:
                watcher.update(1)
    return {"machine": _name(), "seconds": seconds}


def _fitted(measured: list[tuple[dict[str, float], float]]) -> dict[str, float]:
    """The seconds of each unit that explain (units, seconds) best, by relative errors."""
    rows = np.array([[units[unit] / taken for unit in UNITS] for units, taken in measured])
    scale = rows.max(axis=0)
    solution, _ = scipy.optimize.nnls(rows / scale, np.ones(len(rows)))
    return {unit: float(f"{x:.4g}") for unit, x in zip(UNITS, solution / scale, strict=True)}


def _timed(log_degree: int, level: int) -> Iterator[tuple[dict[str, float], float]]:
    """The units and the seconds of each operation at a level."""
    params = Parameters.for_depth(level, log_degree=log_degree, security=None)
    secret = secret_key(new_seed(), params)
    keys = evaluation_keys(new_seed(), secret, rotations=tuple(range(1, 9)))
    values = np.linspace(-1, 1, params.slots)
    x = encrypt(new_seed(), secret, values)
    diagonals = {step: values + 2 for step in range(12)}
    transform = LinearTransform.from_diagonals(diagonals, params, level, key_cost=0.0)
    more = evaluation_keys(new_seed(), secret, rotations=transform.rotations)
    for function, arguments in (
        (lambda x, keys: [add(x, x)], (x, keys)),
        (lambda x, keys: [multiply(x, x, keys)], (x, keys)),
        (lambda x, keys: [rescale(x * x)], (x, keys)),
        (lambda x, keys: [rotate(x, 1, keys)], (x, keys)),
        (lambda x, keys: rotate_many(x, range(1, 9), keys), (x, keys)),
        (lambda x, keys, v: [multiply_plain(x, v)], (x, keys, values)),
        (lambda x, keys, t: [apply(t, x, keys)], (x, more, transform)),
    ):
        counted = (simulate(values, params), None, *arguments[2:])
        yield count(function, *counted).units, _median(jax.jit(function), arguments)


def _median(function: Callable[..., Any], arguments: Any) -> float:
    """The median of processor time, all threads together."""
    jax.block_until_ready(function(*arguments))
    taken: list[float] = []
    while sum(taken) < _SECONDS or len(taken) < 3:
        start = time.process_time()
        jax.block_until_ready(function(*arguments))
        taken.append(time.process_time() - start)
    return float(np.median(taken))


def _name() -> str:
    """The processor, and the kernels in use."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as lines:
            model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    extension = cpu_extension()
    return f"{model}, {'no kernels' if extension is None else extension.instruction_set()}"


if __name__ == "__main__":
    table = json.dumps(measure(), indent=2)
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as file:
            file.write(table + "\n")
    else:
        print(table)
