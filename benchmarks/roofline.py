"""What fused operations take at best on GPUs, on paper: from bytes, from butterflies and products, and from the
instructions of each.

    python benchmarks/roofline.py

Prints a table, as Markdown. Bytes, transforms and products are those of work.py; instructions those of instructions.py,
which needs nvcc and cuobjdump. A GPU is its data sheet: nothing is measured.

  memory    operands and results, moved once; to: and each transform's row read and written twice, by two launches
  integer   all butterflies and products, if only their instructions take time and all units are always busy; terms are
            products of sums, and of values
  double    the same where doubles serve, below 2^50; otherwise integers
"""

import functools
import math
import sys
from typing import Any, NamedTuple

import instructions
import jax
import numpy as np
import operations
import work
from machine import Unavailable

import fhejax as fhe
from fhejax import _compat


class Gpu(NamedTuple):
    """A data sheet; operations a clock and multiprocessor from the table of the CUDA programming guide."""

    architecture: str
    bytes_per_second: float
    multiprocessors: int
    hertz: float
    fp64: int
    imad: int = 64
    issued: int = 128  # four warps' instructions


GPUS = {
    "H200": Gpu("90", 4.8e12, 132, 1.98e9, 64),
    "RTX 4090": Gpu("89", 1.008e12, 128, 2.52e9, 2),
    "RTX 5090": Gpu("120", 1.792e12, 170, 2.41e9, 2),
}
SEED = jax.ShapeDtypeStruct((8,), np.uint32)
NARROW = 50  # bits of the primes that doubles serve


class Needed(NamedTuple):
    """Work of one operation; butterflies and terms by whether the prime is one that doubles serve."""

    moved: int
    through_memory: int
    transforms: int
    butterflies: dict[bool, float]
    terms: float


def main() -> None:
    """Prints the table."""
    try:
        counts = {gpu.architecture: instructions.of_architecture(gpu.architecture) for gpu in GPUS.values()}
    except Unavailable as reason:
        sys.exit(f"not counted: {reason}")
    columns = [f"{name}: {part}" for name in GPUS for part in ("memory", "integer", "double")]
    print("Microseconds.\n")
    print(f"| operation | transforms | terms | MB | {' | '.join(columns)} |\n|---|{'---:|' * (3 + len(columns))}")
    for name, needed in subjects().items():
        cells = [name, f"{needed.transforms}", f"{needed.terms:.0f}", _short(needed.moved / 1e6)]
        for gpu in GPUS.values():
            least, most = (1e6 * moved / gpu.bytes_per_second for moved in (needed.moved, needed.through_memory))
            cells.append(f"{_short(least)} to {_short(most)}")
            for arithmetic in ("integer", "double"):
                cells.append(_short(1e6 * seconds(gpu, counts[gpu.architecture], needed, arithmetic)))
        print(f"| {' | '.join(cells)} |", flush=True)


def seconds(gpu: Gpu, counts: dict[str, dict[str, float]], needed: Needed, arithmetic: str) -> float:
    """All butterflies and terms, one after the other, if nothing but their instructions takes time."""
    total = 0.0
    for narrow, butterflies in needed.butterflies.items():
        kind = arithmetic if narrow else "integer"
        total += butterflies * _clocks(gpu, counts[f"forward butterfly, {kind}"])
    terms = dict(counts[f"term of a sum of products, {arithmetic}"], memory=0.0)
    total += needed.terms * _clocks(gpu, terms)
    return total / (gpu.multiprocessors * gpu.hertz)


def _clocks(gpu: Gpu, counts: dict[str, float]) -> float:
    """Of a multiprocessor, for one of a thread's: the busiest of its units, or the schedulers."""
    all_of_them = sum(counts.values())
    return max(counts["imad"] / gpu.imad, counts["fp64"] / gpu.fp64, all_of_them / gpu.issued)


def subjects() -> dict[str, Needed]:
    """The operations, from their jaxprs: no key is made."""
    found = {f"NTT of a limb, N=2^{log_degree}": _of_transform(log_degree, 2**49) for log_degree in (14, 16)}
    for log_degree, limbs, names in (
        (14, 8, ("multiply", "rotate")),
        (16, 28, ("multiply", "rotate", "rotate_many(8)")),
    ):
        params = operations.ring(log_degree, limbs, 49)
        given = jax.eval_shape(functools.partial(_operands, params), SEED)
        for name in names:
            call = operations.calls(params)[name]
            label = f"{name}, N=2^{log_degree}, {limbs} limbs, {params.digits} digits"
            found[label] = of_function(call.function, *(given[operand] for operand in call.operands))
    how = fhe.Bootstrapping("C")
    keys, x = jax.eval_shape(functools.partial(_refreshable, how), SEED)
    step, top = keys.coeff_to_slot[0], jax.eval_shape(functools.partial(_at_top, how), SEED)
    found["linear transform, first of preset C"] = of_function(
        lambda transform, x, keys: fhe.apply(transform, x, keys.evaluation), step, top, keys
    )
    found["bootstrap, preset C"] = of_function(fhe.bootstrap, x, keys)
    return found


def of_function(function: Any, *operands: Any) -> Needed:
    """What the primitives of a function need."""
    jaxpr = _compat.x64(jax.make_jaxpr(function))(*operands).jaxpr
    needed, degree = work.of_equations(jaxpr), operands[0].params.degree
    return _needed(needed, degree, work.terms_of_equations(jaxpr))


def _of_transform(log_degree: int, q: int) -> Needed:
    return _needed(work.Work(16 << log_degree, {q: 1}), 1 << log_degree, 0)


def _needed(needed: work.Work, degree: int, terms: float) -> Needed:
    """Transforms of two launches each read and write a row twice: through memory, where no cache holds it between."""
    butterflies = {True: 0.0, False: 0.0}
    for q, count in [*needed.forward.items(), *needed.inverse.items()]:
        butterflies[q >> NARROW == 0] += count * degree / 2 * math.log2(degree)
    transforms = sum(needed.transforms())
    return Needed(needed.moved, needed.moved + 32 * degree * transforms, transforms, butterflies, terms)


def _operands(params, seed):
    secret = fhe.secret_key(seed, params)
    x = fhe.encrypt(seed, secret, np.ones(params.slots))
    return {"x": x, "y": x, "keys": fhe.evaluation_keys(seed, secret, rotations=operations.ROTATIONS)}


def _refreshable(how, seed):
    secret = fhe.secret_key(seed, how.params)
    x = fhe.encrypt(seed, secret, np.ones(how.params.slots))
    return how.keys(seed, secret, seeded=False), fhe.drop_to_level(x, how.input_level)


def _at_top(how, seed):
    secret = fhe.secret_key(seed, how.params)
    return fhe.encrypt(seed, secret, fhe.encode(np.ones(how.params.slots), how.params, level=how.params.max_level))


def _short(number: float) -> str:
    return f"{number:.2g}" if number < 10 else f"{number:.0f}"


if __name__ == "__main__":
    main()
