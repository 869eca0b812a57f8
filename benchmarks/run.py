"""Times fhejax against what the machine can do and against TenSEAL and DESILO, on the same ring, in the same run.

python benchmarks/run.py [--log-degree 12 13 ...] [--json PATH] [--quick]
"""

import argparse
import json
import pathlib
from collections.abc import Callable
from typing import Any

import machine
import table
import workers
from timing import Timing, take_turns

_MEBIBYTES = 256  # moved by the copy that stands for main memory
_OVERHEAD_LIMIT_US = 300  # of an eager add at N = 2^13
_DEGREES = range(12, 17)


def main() -> None:
    """Runs the benchmark, prints the tables of each ring, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log-degree", nargs="+", type=int, choices=_DEGREES, default=list(_DEGREES))
    parser.add_argument("--json", type=pathlib.Path, help="where to write the results")
    parser.add_argument("--quick", action="store_true", help="seven turns of each operation, on one core only")
    options = parser.parse_args()
    report: dict[str, Any] = {"machine": machine.describe(), "quick": options.quick, "rings": []}
    print(table.heading(report["machine"]))
    for log_degree in options.log_degree:
        report["rings"].append(_ring(log_degree, options.quick))
        print(table.of_ring(report["rings"][-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


def _ring(log_degree: int, quick: bool) -> dict[str, Any]:
    seconds, available = 0.0 if quick else 0.5, machine.cores()
    ring = workers.run_on(available[-1:], measure, log_degree, seconds)
    if quick:
        return ring
    if len(available) > 1:
        _add_parallel(ring, workers.run_on(available, measure_alone, log_degree, seconds), len(available))
    for operation, row in ring["operations"].items():
        try:
            row["memory"] = workers.run_on(available[-1:], measure_memory, log_degree, operation)
        except machine.Unavailable as reason:
            ring["limits"]["memory_unavailable"] = str(reason)
    return ring


def measure(log_degree: int, seconds: float) -> dict[str, Any]:
    """All operations of one ring beside their bounds and the peers, in turns, on the cores this process has."""
    import operations
    import peers
    import work

    params = operations.parameters(log_degree)
    ours = operations.prepare(params)
    about, theirs = peers.prepare(params)
    loops, counts, limits = _loops(params, seconds)
    needed = work.of_operations(params, len(operations.ROTATIONS))
    rows = {}
    for operation, subject in ours.items():
        subjects = {"fhejax": subject} | {name: peer[operation] for name, peer in theirs.items() if operation in peer}
        runs = {name: one.run for name, one in subjects.items()}
        times = take_turns(runs | loops | {"copy": machine.copy(needed[operation].moved)}, seconds=seconds)
        least = {"copy": times["copy"].minimum / subject.parts}
        if loops:
            least["butterflies"] = _butterflies(needed[operation], log_degree, times, counts) / subject.parts
        row = _row({name: times[name].divided(one.parts) for name, one in subjects.items()}, least)
        rows[operation] = row | {
            "bytes": _bytes(needed[operation].moved / subject.parts, row["fhejax"], least["copy"]),
            "instruction sets": _instruction_sets(operations.by_instruction_set(subject), subject.parts),
        }
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


def measure_memory(log_degree: int, operation: str) -> dict[str, int]:
    """The memory of one call, in a process of its own."""
    import memory
    import operations

    return memory.of_call(operation, operations.parameters(log_degree))._asdict()


def _loops(params: Any, seconds: float) -> tuple[dict[str, Callable[[], int]], dict[str, int], dict[str, Any]]:
    """The loops of butterflies where there are any, how many each executes; and how fast they and a large copy are."""
    import butterflies
    import operations

    loops, counts, limits = {}, {}, {}
    sizes = {butterflies.size_of(q) for q in (*params.moduli, *params.special_moduli)}
    try:
        loops, counts = butterflies.loops(operations.instruction_set(), sizes)
    except machine.Unavailable as reason:
        limits["butterflies_unavailable"] = str(reason)
    times = take_turns(loops | {"copy": machine.copy(_MEBIBYTES << 20)}, seconds=seconds)
    limits["copy_gigabytes_per_second"] = (_MEBIBYTES << 20) / times["copy"].minimum / 1e9
    limits["butterflies_per_second"] = {name: counts[name] / times[name].minimum for name in loops}
    return loops, counts, limits


def _butterflies(needed: Any, log_degree: int, times: dict[str, Timing], counts: dict[str, int]) -> float:
    """The least seconds that the transforms of an operation take."""
    import butterflies

    total = 0.0
    for moduli, inverse in ((needed.forward, False), (needed.inverse, True)):
        for modulus, count in moduli.items():
            name = butterflies.name_of(butterflies.size_of(modulus), inverse)
            total += count * butterflies.of_transform(log_degree) * times[name].minimum / counts[name]
    return total


def _instruction_sets(runs: dict[str, Callable[[], Any]], parts: int) -> dict[str, Any]:
    """The time with each instruction set, and its ratio to the best one's."""
    if not runs:
        return {}
    times = take_turns(runs, rounds=3, seconds=0.0)
    next(iter(runs.values()))()  # back to the best one
    best = times[next(iter(runs))].minimum
    return {name: _milliseconds(time.divided(parts)) | {"ratio": time.minimum / best} for name, time in times.items()}


def _row(times: dict[str, Timing], bounds: dict[str, float]) -> dict[str, Any]:
    """One operation: our time with its ratio to the larger bound, and each peer's with its ratio to ours."""
    ours, kind = times["fhejax"], max(bounds, key=lambda name: bounds[name])
    row = {name: _milliseconds(time) for name, time in times.items()}
    row["bound"] = {"by": kind, "minimum_ms": 1e3 * bounds[kind], "ratio": ours.minimum / bounds[kind]}
    for name in times.keys() - {"fhejax"}:
        row[name]["ratio"] = times[name].minimum / ours.minimum
    return row


def _bytes(moved: float, ours: dict[str, Any], copy: float) -> dict[str, Any]:
    """How many bytes an operation cannot do without, how many of them a second, and their share of a copy's."""
    seconds = ours["minimum_ms"] / 1e3
    rate = moved / seconds / 1e9
    return {"moved": moved, "gigabytes_per_second": rate, "ratio": copy / seconds}


def _add_parallel(ring: dict[str, Any], times: dict[str, Timing], cores: int) -> None:
    for operation, row in ring["operations"].items():
        ratio = row["fhejax"]["minimum_ms"] / (1e3 * times[operation].minimum)
        row["all cores"] = _milliseconds(times[operation]) | {"cores": cores, "ratio": ratio}


def _milliseconds(time: Timing) -> dict[str, Any]:
    return {
        "minimum_ms": 1e3 * time.minimum,
        "median_ms": 1e3 * time.median,
        "cpu_ms": 1e3 * time.cpu,
        "runs": time.runs,
    }


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
