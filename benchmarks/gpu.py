"""Times fhejax on a GPU beside what the GPU does at most, in both arithmetics.

    python benchmarks/gpu.py [--json PATH] [--quick] [--seconds 100] [--arithmetic integer|double|default]

Each arithmetic is a process of its own, because the choice is made once. Rates (a copy, 32-bit multiply-adds, fused
multiply-adds of doubles, butterflies and terms in registers) are those of butterflies.cu, compiled and run first.
Columns:

  time      median of a jitted call, keys as arguments, operands on the device
  GB/s      bytes of operands and results, by the time; and their share of the copy's
  bound     the larger of those bytes by the copy and of the transforms' butterflies by their rate; and time / bound

A subject that does not fit into memory or time is a line that says so.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import instructions
import machine
from timing import take_turns

ARITHMETICS = ("integer", "double")
_LINKS = 8


class Subject(NamedTuple):
    """Something to time: a call until its result is there, and what it has to do; all of it for `parts` equal ones."""

    name: str
    run: Callable[[], Any]
    moved: int
    butterflies: float
    parts: int = 1


def main() -> None:
    """Measures all and prints a table, or one arithmetic in the process that main started for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=pathlib.Path, help="where to write the figures")
    parser.add_argument("--seconds", type=float, default=100, help="about how long each arithmetic may take")
    parser.add_argument("--arithmetic", choices=[*ARITHMETICS, "default"], help="only this one")
    parser.add_argument("--quick", action="store_true", help="small rings, also without a GPU: says only that all runs")
    parser.add_argument("--rows", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rows:
        for row in rows(options.quick, options.seconds):
            print(json.dumps(row), flush=True)
        return
    report: dict[str, Any] = {"machine": machine.describe(), "quick": options.quick, "arithmetics": {}}
    report["rates"] = rates()
    for name, rate in report["rates"].items():
        print(f"{name}: {rate:.4g}" if isinstance(rate, float) else f"{name}: {rate}")
    for arithmetic in [options.arithmetic] if options.arithmetic else ARITHMETICS:
        print(f"\n{arithmetic}\n{_line('subject', 'time', 'GB/s', 'of copy', 'bound', 'time/bound')}", flush=True)
        report["arithmetics"][arithmetic] = []
        for row in _rows_of(arithmetic, options):
            print(_row(row, report["rates"], arithmetic), flush=True)
            report["arithmetics"][arithmetic].append(row)
            if options.json:
                options.json.write_text(json.dumps(report, indent=2) + "\n")


def rates() -> dict[str, Any]:
    """What butterflies.cu measures, or why it does not."""
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/butterflies"
        try:
            instructions.compile_program("-arch=native", "-o", program)
        except machine.Unavailable as reason:
            return {"unavailable": str(reason)}
        done = subprocess.run([program], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {"unavailable": done.stderr.strip()}


def rows(quick: bool, seconds: float) -> Iterator[dict[str, Any]]:
    """The figures of this process's arithmetic, one after the other. Keys and ciphertexts are made on the CPU."""
    import jax

    start = time.perf_counter()
    for what, make in _quick() if quick else _subjects():
        spent = time.perf_counter() - start
        if spent > seconds:
            yield {"name": what, "unavailable": f"no time left: {spent:.0f} of {seconds:.0f} s are spent"}
            continue
        try:
            with jax.default_device(jax.devices("cpu")[0]):
                subjects = make()
            times = take_turns({each.name: each.run for each in subjects}, rounds=3 if quick else 7, seconds=1)
        except Exception as error:  # a figure that lacks must not cost the others
            yield {"name": what, "unavailable": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
            continue
        for each in subjects:
            timing = times[each.name].divided(each.parts)
            yield {
                "name": each.name,
                "median_ms": 1e3 * timing.median,
                "minimum_ms": 1e3 * timing.minimum,
                "runs": timing.runs,
                "moved": each.moved / each.parts,
                "butterflies": each.butterflies / each.parts,
            }


Maker = tuple[str, Callable[[], list[Subject]]]


def _subjects() -> list[Maker]:
    return [
        ("transforms, N=2^16", lambda: _transforms(16, 32)),
        ("N=2^14, 8 limbs", lambda: _operations(14, 8)),
        ("N=2^16, 28 limbs", lambda: _operations(16, 28)),
        ("linear transform", lambda: _linear("n15", 128)),
        ("bootstrap, preset C", lambda: _bootstrap("C")),
        ("transforms, N=2^13", lambda: _transforms(13, 64)),
    ]


def _quick() -> list[Maker]:
    return [
        ("transforms", lambda: _transforms(10, 2)),
        ("operations", lambda: _operations(10, 4)),
        ("linear transform", lambda: _linear("n13", 8)),
        ("bootstrap, preset T", lambda: _bootstrap("T")),
    ]


def _transforms(log_degree: int, limbs: int) -> list[Subject]:
    import jax
    import numpy as np

    from fhejax.parameters.primes import largest_primes
    from fhejax.primitives.ntt import inverse_ntt, ntt

    moduli = tuple(largest_primes(limbs, 49, 2 << log_degree))
    with jax.enable_x64(True):
        x = jax.numpy.asarray(np.random.default_rng(0).integers(0, min(moduli), (limbs, 1 << log_degree), np.uint64))
    where = f"{limbs} limbs, N=2^{log_degree}"
    return [
        _subject("a call that adds one number", lambda a: a + a, a=x[0, :8]),
        _chain(f"NTT, {where}", lambda a: ntt(a, moduli), x=x),
        _chain(f"inverse NTT, {where}", lambda a: inverse_ntt(a, moduli), x=x),
    ]


def _operations(log_degree: int, limbs: int) -> list[Subject]:
    import operations

    import fhejax as fhe
    from fhejax.primitives.key_switch import key_switch

    params = operations.ring(log_degree, limbs, 49)
    given, calls = operations.operands(params), operations.calls(params)
    where, found = f"N=2^{log_degree}, {limbs} limbs, {params.digits} digits", []
    moduli, special = params.moduli, params.special_moduli
    switch = lambda x, keys: key_switch(
        x.data[..., 1, :, :], keys.relinearization.data, moduli, special, params.digit_size
    )
    found.append(_subject(f"key switch, {where}", switch, x=given["x"], keys=given["keys"]))
    for name in ("multiply", "rotate", "rotate_many(8)", "add", "raw_multiply_plain"):
        call = calls[name]
        operands = {operand: given[operand] for operand in call.operands}
        found.append(_subject(f"{name}, {where}", call.function, **operands))
    rotate = lambda x, keys: fhe.rotate(x, 1, keys)
    return [*found, _chain(f"rotate, {where}", rotate, x=given["x"], keys=given["keys"])]


def _linear(preset: str, size: int) -> list[Subject]:
    import numpy as np

    import fhejax as fhe

    params = fhe.Parameters.preset(preset)
    matrix = np.random.default_rng(0).uniform(-1, 1, (size, size)) / size
    transform = fhe.LinearTransform.from_matrix(matrix, params)
    seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 3)
    secret = fhe.secret_key(seeds[0], params)
    keys = fhe.evaluation_keys(seeds[1], secret, rotations=transform.rotations)
    x = fhe.encrypt(seeds[2], secret, np.ones(params.slots))
    return [_subject(f"matrix {size} x {size}, {preset}", fhe.apply, transform=transform, x=x, keys=keys)]


def _bootstrap(preset: str) -> list[Subject]:
    import jax
    import numpy as np

    import fhejax as fhe

    how = fhe.Bootstrapping(preset)
    seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 3)
    secret = fhe.secret_key(seeds[0], how.params)
    keys = how.keys(seeds[1], secret)
    values = np.random.default_rng(0).uniform(-1, 1, how.params.slots)
    x = fhe.drop_to_level(fhe.encrypt(seeds[2], secret, values), how.input_level)
    subject = _subject(f"bootstrap, preset {preset}", lambda x, keys: fhe.bootstrap(x, keys), x=x, keys=keys)
    with jax.enable_x64(True):
        fresh = jax.device_put(subject.run(), jax.devices("cpu")[0])
    got = fhe.precision(values, fhe.decrypt(secret, fresh, dtype="float64"))
    return [subject._replace(name=f"{subject.name} ({got.mean:.1f} bits)")]


def _subject(name: str, function: Callable, **operands: Any) -> Subject:
    """The call on JAX's first device, with the bytes and butterflies of its primitives."""
    import jax
    import work

    from fhejax import _compat

    with jax.enable_x64(True):
        values = jax.device_put(list(operands.values()), jax.devices()[0])
    jaxpr = _compat.x64(jax.make_jaxpr(function))(*values).jaxpr
    needed, degree = work.of_equations(jaxpr), jax.tree.leaves(operands.get("x", values))[0].shape[-1]
    program = jax.jit(function)
    count = sum(needed.transforms()) * degree / 2 * math.log2(degree)
    return Subject(name, lambda: jax.block_until_ready(program(*values)), needed.moved, count)


def _chain(name: str, function: Callable, x: Any, **others: Any) -> Subject:
    """`_LINKS` calls one after the other in one program, each on the last one's result: without JAX's dispatch."""

    def links(x, *others):
        for _ in range(_LINKS):
            x = function(x, *others)
        return x

    return _subject(f"{name}, of {_LINKS} in a program", links, x=x, **others)._replace(parts=_LINKS)


def _rows_of(arithmetic: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    environment = dict(os.environ)
    if arithmetic != "default":
        environment["FHEJAX_CUDA_ARITHMETIC"] = arithmetic
    command = [sys.executable, __file__, "--rows", f"--seconds={options.seconds}", *["--quick"] * options.quick]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)
    if process.returncode:
        yield {"name": "the rest", "unavailable": f"the process ended with {process.returncode}"}


def _row(row: dict[str, Any], rates: dict[str, Any], arithmetic: str) -> str:
    """A line; the row gets its bound."""
    if "unavailable" in row:
        return f"{row['name']}: {row['unavailable']}"
    seconds, speed = row["median_ms"] / 1e3, row["moved"] / row["median_ms"] / 1e6
    cells = [row["name"], f"{row['median_ms']:.4f} ms", f"{speed:.0f}"]
    if "unavailable" in rates:
        return _line(*cells, "-", "-", "-")
    copied = row["moved"] / rates["copy_bytes_per_second"]
    chosen = rates["default_arithmetic"] if arithmetic == "default" else arithmetic
    bound = max(copied, row["butterflies"] / rates[f"butterflies_forward_{chosen}_per_second"])
    row["bound_ms"], row["over_bound"] = 1e3 * bound, seconds / bound
    return _line(*cells, f"{copied / seconds:.2f}", f"{1e3 * bound:.4f} ms", f"{seconds / bound:.2f}")


def _line(*cells: str) -> str:
    return "".join([cells[0].ljust(60), *(cell.rjust(14) for cell in cells[1:])])


if __name__ == "__main__":
    main()
