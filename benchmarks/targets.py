"""Measures what fhejax promises of its speed and memory, and says which promises are kept on this machine.

python benchmarks/targets.py [--json PATH] [--markdown] [--only transforms ...] [--quick]

One thread means a process confined to one core. Machines are shared and noisy: times are processor time, but for what a
second core brings. Everything that is compared takes turns in the same run, and the figures are ratios of medians;
beside them stand the ratios of the least times.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import machine
import measures
import table
import workers

# Each with whether it runs on one core.
_MEASURES: dict[str, tuple[Callable, bool]] = {
    "transforms": (measures.transforms, True),
    "against_peers": (measures.against_peers, True),
    "against_transforms": (measures.against_transforms, True),
    "two_threads": (measures.two_threads, False),
    "batch": (measures.batch, True),
    "streaming": (measures.streaming, True),
    "hoisting": (measures.hoisting, True),
    "seeded_keys": (measures.seeded_keys, True),
    "coding": (measures.coding, True),
    "peak_memory": (measures.peak_memory, True),
}
_FULL, _QUICK = measures.Size(16, 28, 2.0), measures.Size(12, 4, 0.0)


def main() -> None:
    """Runs the measures, prints the table, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=pathlib.Path, help="where to write the figures with their times")
    parser.add_argument("--markdown", action="store_true", help="print the judged rows as Markdown")
    parser.add_argument("--only", nargs="+", choices=_MEASURES, default=list(_MEASURES))
    parser.add_argument("--quick", action="store_true", help="small rings and few runs: says only that everything runs")
    options = parser.parse_args()
    report: dict[str, Any] = {"machine": machine.describe(), "quick": options.quick, "figures": [], "unavailable": {}}
    print(table.heading(report["machine"]), flush=True)
    for name in options.only:
        print(f"measuring: {name}", file=sys.stderr, flush=True)
        try:
            report["figures"] += [_entry(name, figure) for figure in _measure(name, _QUICK if options.quick else _FULL)]
        except machine.Unavailable as reason:
            report["unavailable"][name] = str(reason)
    print(table.of_figures(report, options.markdown))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


def _measure(name: str, size: measures.Size) -> list[measures.Figure]:
    function, alone = _MEASURES[name]
    cores = machine.cores()
    if alone:
        return workers.run_on(cores[-1:], function, size)
    return workers.run_on(cores[-2:], function, size, cores)


def _entry(name: str, figure: measures.Figure) -> dict[str, Any]:
    return {"target": name, **figure._asdict(), "details": dict(figure.details), "met": figure.met()}


if __name__ == "__main__":
    main()
