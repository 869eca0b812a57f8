"""What each function of `fhejax.functions` attains: the error in exact arithmetic, the depth and the key switches.

python benchmarks/functions.py --markdown   prints the tables of docs/functions.md: a few minutes.

Errors are those of simulated values in double precision, at 16384 points of the domain, dense at its ends and close to
zero; depth and key switches are counted in the program for a ciphertext, which is traced and not run.
"""

import argparse
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

import fhejax as fhe
from fhejax import functions
from fhejax.bootstrapping.profile import key_switches_of

PARAMS = fhe.Parameters.for_depth(25, log_degree=10, security=None)
SEEDS = fhe.split_seed(np.arange(8, dtype=np.uint32), 3)
POINTS = 1 << 14
OF_TWO = ("compare", "maximum", "minimum")


class Row(NamedTuple):
    """A function with arguments."""

    name: str
    domain: tuple[float, float]
    bits: int
    options: dict[str, Any]


def rows() -> Iterator[Row]:
    """What is measured."""
    smooth = {
        "sigmoid": [(-1, 1), (-8, 8), (-16, 16), (-32, 32), (-128, 128)],
        "tanh": [(-1, 1), (-8, 8), (-16, 16), (-128, 128)],
        "gelu": [(-1, 1), (-8, 8), (-16, 16), (-32, 32), (-128, 128)],
        "silu": [(-1, 1), (-8, 8), (-16, 16), (-32, 32), (-128, 128)],
        "exp": [(-1, 1), (-4, 0), (-16, 0), (-64, 0)],
        "sin": [(-1, 1), (-3.2, 3.2), (-20, 20)],
        "cos": [(-1, 1), (-3.2, 3.2), (-20, 20), (-200, 200)],
        "reciprocal": [(0.5, 1.5), (0.1, 1), (0.01, 1), (0.1, 10), (1e-4, 1)],
        "rsqrt": [(0.5, 1.5), (0.1, 1), (0.01, 1), (0.1, 10), (1e-4, 1)],
        "sqrt": [(0.1, 1), (0.01, 1), (1, 100), (1e-4, 1)],
        "log": [(0.5, 1.5), (0.1, 1), (0.01, 1), (0.1, 10)],
    }
    for name, domains in smooth.items():
        yield from (Row(name, domain, bits, {}) for domain in domains for bits in (8, 12, 20))
    yield from (Row("sqrt", (0, 1), bits, {}) for bits in (8, 10, 12))
    for power, bits in ((4, 8), (4, 20), (8, 8), (8, 12), (8, 20), (12, 12), (12, 20)):
        yield Row("sign", (-1, 1), bits, {"gap": 2.0**-power})
    yield from (Row("compare", domain, 12, {"gap": 2.0**-8}) for domain in ((0, 1), (-1, 1)))
    for name, domain in (("relu", (-1, 1)), ("relu", (-8, 8)), ("abs", (-1, 1)), ("maximum", (0, 1))):
        yield from (Row(name, domain, bits, {}) for bits in (6, 8, 10, 12, 13))
    for domain, size in (((-1, 1), 16), ((-4, 4), 16), ((-4, 4), 128), ((-8, 8), 128)):
        yield from (Row("softmax", domain, bits, {"size": size}) for bits in (8, 12))


def measured(row: Row) -> dict[str, Any]:
    """The row's figures."""
    function = functools.partial(getattr(functions, row.name), domain=row.domain, bits=row.bits, **row.options)
    operands, want, kept = _points(row)
    x, keys = _encrypted()
    program, out = jax.make_jaxpr(function, return_shape=True)(*[x] * len(operands), keys)
    simulated = [fhe.simulate(operand.reshape(-1, PARAMS.slots), PARAMS) for operand in operands]
    with jax.disable_jit():
        values = np.asarray(function(*simulated, None).values).ravel()
    error = float(np.max(np.abs(values - want) * kept))
    return {
        "error": error,
        "depth": x.level - out.level,
        "key switches": _key_switches(program.jaxpr),
    }


def _points(row):
    """Operands, what is to come out, and where it counts."""
    low, high = row.domain
    x = low + (high - low) * (0.5 - 0.5 * np.cos(np.linspace(0, np.pi, POINTS)))
    gap, quarter = row.options.get("gap", 0.0), POINTS // 4
    close = np.geomspace(gap or 1e-7 * (high - low), high - low, quarter)
    if row.name in OF_TWO:
        y = np.random.default_rng(0).permutation(x)
        x[:quarter], y[:quarter] = np.minimum(low + close, high), low
        return [x, y], _reference(row)(x, y), np.abs(x - y) >= gap
    if row.name == "softmax":
        x = np.random.default_rng(0).permutation(x)
        return [x], _reference(row)(x), 1.0
    signs = (-1.0) ** np.arange(quarter) if low < 0 < high else 1.0
    x[:quarter] = np.clip(close * signs + (low if low >= 0 else 0), low, high)
    return [x], _reference(row)(x), np.abs(x) >= gap


def _reference(row: Row) -> Callable:
    def softmax(x):
        blocks = np.exp(x.reshape(-1, row.options["size"]))
        return (blocks / blocks.sum(axis=1, keepdims=True)).ravel()

    half = np.vectorize(math.erf, otypes=[np.float64])
    return {
        "sigmoid": lambda x: (1 + np.tanh(x / 2)) / 2,
        "gelu": lambda x: x * (1 + half(x / math.sqrt(2))) / 2,
        "silu": lambda x: x * (1 + np.tanh(x / 2)) / 2,
        "reciprocal": lambda x: 1 / x,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "compare": lambda x, y: (1 + np.sign(x - y)) / 2,
        "relu": lambda x: np.maximum(x, 0),
        "softmax": softmax,
    }.get(row.name) or getattr(np, row.name)


@functools.cache
def _encrypted():
    secret = fhe.secret_key(SEEDS[0], PARAMS)
    steps = [sign << i for i in range(7) for sign in (1, -1)]
    return fhe.encrypt(SEEDS[1], secret, np.zeros(PARAMS.slots)), fhe.evaluation_keys(SEEDS[2], secret, rotations=steps)


def _key_switches(jaxpr):
    return sum(key_switches_of(jaxpr))


def _cells(row: Row) -> list[str]:
    figures = measured(row)
    texts = {"gap": lambda gap: f"gap 2^{math.log2(gap):g}", "size": lambda size: f"size {size}"}
    function = ", ".join([row.name, *(texts[name](value) for name, value in row.options.items())])
    domain = f"({row.domain[0]:g}, {row.domain[1]:g})"
    error = f"2^-{-math.log2(figures['error']):.1f}"
    return [function, domain, str(row.bits), error, str(figures["depth"]), str(figures["key switches"])]


def main() -> None:
    """Prints one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="a table for docs/functions.md")
    parser.add_argument("--quick", action="store_true", help="three rows, to show that it runs")
    arguments = parser.parse_args()
    header = ["function", "domain", "bits asked", "error measured", "depth", "key switches"]
    line = lambda cells: f"| {' | '.join(cells)} |" if arguments.markdown else "  ".join(cells)
    print(line(header))
    if arguments.markdown:
        print("|---" * len(header) + "|")
    with jax.enable_x64(True):
        for row in [*rows()][:: 40 if arguments.quick else 1]:
            print(line(_cells(row)), flush=True)


if __name__ == "__main__":
    main()
