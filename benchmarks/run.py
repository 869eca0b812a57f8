"""Times fhejax against what the machine can do and against TenSEAL and DESILO, on the same ring, in the same run.

python benchmarks/run.py [--log-degree 13 14 ...] [--json PATH] [--quick]
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import pathlib
from collections.abc import Callable
from typing import Any

import machine
import table
from timing import Timing, take_turns

_MEBIBYTES = 256  # moved by the copy that stands for main memory
_OVERHEAD_LIMIT_US = 300  # of an eager add at N = 2^13


def main() -> None:
    """Runs the benchmark, prints a table for each ring, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log-degree", nargs="+", type=int, choices=range(13, 17), default=[13, 14, 15, 16])
    parser.add_argument("--json", type=pathlib.Path, help="where to write the results")
    parser.add_argument("--quick", action="store_true", help="seven turns of each operation, on one core only")
    options = parser.parse_args()
    seconds, available = 0.0 if options.quick else 0.5, machine.cores()
    report: dict[str, Any] = {"machine": machine.describe(), "quick": options.quick, "rings": []}
    print(table.heading(report["machine"]))
    for log_degree in options.log_degree:
        ring = _in_process_on(available[-1:], measure, log_degree, seconds)
        if len(available) > 1 and not options.quick:
            _add_parallel(ring, _in_process_on(available, measure_alone, log_degree, seconds), len(available))
        report["rings"].append(ring)
        print(table.of_ring(ring), flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


def measure(log_degree: int, seconds: float) -> dict[str, Any]:
    """All operations of one ring beside their bounds and the peers, in turns, on the cores this process has."""
    import operations
    import peers
    import work

    params = operations.parameters(log_degree)
    ours = operations.prepare(params)
    theirs, about = {}, {}
    for name, prepare in peers.PEERS.items():
        try:
            about[name], theirs[name] = prepare(params)
        except machine.Unavailable as reason:
            about[name] = {"unavailable": str(reason)}
    bounds, limits = _bounds(seconds)
    needed = work.of_operations(params, len(operations.ROTATIONS))
    rows = {}
    for operation, subject in ours.items():
        subjects = {"fhejax": subject} | {name: peer[operation] for name, peer in theirs.items() if operation in peer}
        runs = {name: one.run for name, one in subjects.items()}
        runs |= bounds | {"copy": machine.copy(needed[operation].moved)}
        times = take_turns(runs, seconds=seconds)
        compute = needed[operation].multiply_adds(log_degree) / machine.MULTIPLY_ADDS
        least = {"copy": times["copy"].minimum}
        if "vpmadd52" in times:
            least["vpmadd52"] = compute * times["vpmadd52"].minimum
        rows[operation] = _row({name: times[name].divided(one.parts) for name, one in subjects.items()}, least)
    return {
        "log_degree": log_degree,
        "cores": len(machine.cores()),
        "parameters": _describe(params),
        "instruction_set": operations.instruction_set(),
        "peers": about,
        "limits": limits,
        "operations": rows,
        "eager_add": _judged(operations.eager_add(params, 7, seconds)) if log_degree == 13 else None,
    }


def measure_alone(log_degree: int, seconds: float) -> dict[str, Timing]:
    """Our operations of one ring, on the cores this process has."""
    import operations

    subjects = operations.prepare(operations.parameters(log_degree))
    return {
        name: take_turns({name: one.run}, seconds=seconds)[name].divided(one.parts) for name, one in subjects.items()
    }


def _in_process_on(cores: list[int], function: Callable, *arguments: Any) -> Any:
    """Runs a function in a fresh process on some cores: JAX counts them once, and memory goes back."""
    with concurrent.futures.ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), initializer=machine.pin, initargs=(cores,)
    ) as pool:
        return pool.submit(function, *arguments).result()


def _bounds(seconds: float) -> tuple[dict[str, Callable[[], None]], dict[str, Any]]:
    """The multiply-add loop where there is one, and how fast it and a large copy are."""
    bounds, limits = {}, {}
    try:
        bounds["vpmadd52"] = machine.multiply_add()
    except machine.Unavailable as reason:
        limits["vpmadd52_unavailable"] = str(reason)
    times = take_turns(bounds | {"copy": machine.copy(_MEBIBYTES << 20)}, seconds=seconds)
    limits["copy_gigabytes_per_second"] = (_MEBIBYTES << 20) / times["copy"].minimum / 1e9
    if bounds:
        limits["vpmadd52_per_second"] = machine.MULTIPLY_ADDS / times["vpmadd52"].minimum
    return bounds, limits


def _row(times: dict[str, Timing], bounds: dict[str, float]) -> dict[str, Any]:
    """One operation: our time with its ratio to the larger bound, and each peer's with its ratio to ours."""
    ours, kind = times["fhejax"], max(bounds, key=lambda name: bounds[name])
    row = {name: _milliseconds(time) for name, time in times.items()}
    row["bound"] = {"by": kind, "minimum_ms": 1e3 * bounds[kind], "ratio": ours.minimum / bounds[kind]}
    for name in times.keys() - {"fhejax"}:
        row[name]["ratio"] = times[name].minimum / ours.minimum
    return row


def _add_parallel(ring: dict[str, Any], times: dict[str, Timing], cores: int) -> None:
    for operation, row in ring["operations"].items():
        ratio = row["fhejax"]["minimum_ms"] / (1e3 * times[operation].minimum)
        row["all cores"] = _milliseconds(times[operation]) | {"cores": cores, "ratio": ratio}


def _milliseconds(time: Timing) -> dict[str, Any]:
    return {"minimum_ms": 1e3 * time.minimum, "median_ms": 1e3 * time.median, "runs": time.runs}


def _judged(result: dict[str, float]) -> dict[str, Any]:
    ratio = result["overhead_us"] / _OVERHEAD_LIMIT_US
    return result | {"limit_us": _OVERHEAD_LIMIT_US, "ratio_to_limit": ratio, "within_limit": ratio < 1}


def _describe(params: Any) -> dict[str, Any]:
    return {
        "moduli": params.moduli,
        "special_moduli": params.special_moduli,
        "digits": params.digits,
        "log_qp": params.log_qp,
        "security_bits": params.security_bits,
    }


if __name__ == "__main__":
    main()
