"""The subjects of versions.py, in a process of one version; the name of the set is the argument.

Prints the names of its subjects, a list in JSON; then, for every name that it reads, a turn in processor seconds
(timing.py). The operations are those of the benchmarks beside the fhejax that this Python imports.
"""

import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import machine
import timing

machine.pin(machine.cores()[-1:])  # before JAX is imported, which counts the cores then

import jax  # noqa: E402
import numpy as np  # noqa: E402

import fhejax as fhe  # noqa: E402

sys.path[0] = str(pathlib.Path(fhe.__file__).parents[1] / "benchmarks")
import operations  # noqa: E402

Subjects = dict[str, Callable[[], Any]]


def main() -> None:
    """Answers until the input ends."""
    subjects = _bootstrapping() if sys.argv[1] == "T" else _ring(int(sys.argv[1]))
    print(json.dumps(list(subjects)), flush=True)
    for line in sys.stdin:
        print(json.dumps(timing.turn(subjects[line.strip()], time.process_time)), flush=True)


def _ring(log_degree: int) -> Subjects:
    """Every operation, a matrix, and a polynomial where there are the levels."""
    params = operations.parameters(log_degree)
    subjects = {name: subject.run for name, subject in operations.prepare(params).items()}
    matrix = np.random.default_rng(0).uniform(-0.1, 0.1, (64, 64))
    transform = fhe.LinearTransform.from_matrix(matrix, params, replicated=True)
    given = operations.operands(params, transform.rotations)
    subjects["matrix 64x64"] = operations.ready(jax.jit(fhe.apply), transform, given["x"], given["keys"])
    polynomial = fhe.Polynomial(np.linspace(0.1, 0.2, 16))
    if params.max_level >= polynomial.depth:
        evaluate = jax.jit(lambda x, keys: fhe.evaluate(polynomial, x, keys))
        subjects["polynomial of degree 15"] = operations.ready(evaluate, given["x"], given["keys"])
    return subjects


def _bootstrapping() -> Subjects:
    """A bootstrapping of the preset T, the smallest."""
    how = fhe.Bootstrapping("T", slots_first=True)
    seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 3)
    secret = fhe.secret_key(seeds[0], how.params)
    keys = how.keys(seeds[1], secret)
    x = fhe.encrypt(seeds[2], secret, np.linspace(-1, 1, how.params.slots))
    return {"bootstrap": operations.ready(jax.jit(fhe.bootstrap), fhe.drop_to_level(x, how.input_level), keys)}


if __name__ == "__main__":
    main()
