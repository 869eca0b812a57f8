"""Draws how the time of an operation grows with the ring, the limbs, the digits and the batch, beside the peers'.

python benchmarks/growth.py [--png PATH] [--json PATH] [--quick]

One thread; the least of all runs; what stands at one place of a line was measured in turns in the same run. Needs
matplotlib; type: pip install matplotlib
"""

import argparse
import json
import pathlib
from typing import Any, NamedTuple

import machine
import workers
from timing import take_turns


class Point(NamedTuple):
    """What is measured at one place of the horizontal axis."""

    log_degree: int
    limbs: int
    digits: int
    batch: int = 1


class Panel(NamedTuple):
    """One picture: what grows, a title that says what does not, and the points."""

    axis: str
    title: str
    points: list[Point]


_PANELS = [
    Panel("log_degree", "ring (log2 N): 8 limbs, 3 digits", [Point(log, 8, 3) for log in range(12, 17)]),
    Panel("limbs", "limbs: N = 2^15, 3 digits", [Point(15, limbs, 3) for limbs in (4, 8, 12, 16, 20, 24)]),
    Panel("digits", "digits: N = 2^15, 16 limbs", [Point(15, 16, digits) for digits in (1, 2, 3, 4, 8, 16)]),
    Panel("batch", "batch under vmap: N = 2^14, 8 limbs", [Point(14, 8, 3, batch) for batch in (1, 2, 4, 8, 16, 32)]),
]
_QUICK = [Panel("batch", "batch under vmap: N = 2^12, 4 limbs", [Point(12, 4, 3), Point(12, 4, 3, 2)])]
_PEERS_DIGITS = 3  # the peers choose their digits themselves: one place for them is enough
_BITS = 48  # of the primes
_OPERATIONS = {"multiply": "multiply", "rotate": "rotate", "ntt": "NTT of a limb"}
_LINES = {"fhejax": "-o", "TenSEAL": "--s", "DESILO": ":^"}


def main() -> None:
    """Measures all points and draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--png", type=pathlib.Path, default=pathlib.Path(__file__).with_name("growth.png"))
    parser.add_argument("--json", type=pathlib.Path, help="where to write the times")
    parser.add_argument("--quick", action="store_true", help="two points only: says that everything runs")
    options = parser.parse_args()
    seconds, panels = (0.0, _QUICK) if options.quick else (1.0, _PANELS)
    measured = []
    for panel in panels:
        for point in panel.points:
            times = workers.run_on(machine.cores()[-1:], measure, point, seconds)
            measured.append({"panel": panel.axis, **point._asdict(), "milliseconds": times})
            print(measured[-1], flush=True)
    _draw(panels, measured, options.png)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine.describe(), "points": measured}, indent=2) + "\n")


def measure(point: Point, seconds: float) -> dict[str, dict[str, float]]:
    """Milliseconds of each operation for each library; the peers not where only digits or batch differ."""
    import operations
    import peers

    params = operations.ring(point.log_degree, point.limbs, _BITS, point.digits)
    subjects = {"fhejax": _ours(params, point.batch)}
    if (point.digits, point.batch) == (_PEERS_DIGITS, 1):
        subjects |= peers.prepare(params)[1]
    result: dict[str, dict[str, float]] = {name: {} for name in subjects}
    for operation in _OPERATIONS:
        runs = {name: those[operation] for name, those in subjects.items() if operation in those}
        times = take_turns({name: subject.run for name, subject in runs.items()}, seconds=seconds)
        for name, subject in runs.items():
            result[name][operation] = 1e3 * times[name].divided(subject.parts).minimum
    return result


def _ours(params: Any, batch: int) -> dict[str, Any]:
    """A product, a rotation and a transform of so many ciphertexts at once."""
    import jax
    import numpy as np
    import operations

    import fhejax as fhe
    from fhejax.primitives.ntt import ntt

    given = operations.operands(params, (1,))
    xs, keys = fhe.encrypt(given["seed"], given["secret"], np.stack([given["values"]] * batch)), given["keys"]
    multiply = jax.jit(jax.vmap(fhe.multiply, in_axes=(0, 0, None)))
    rotate = jax.jit(jax.vmap(lambda x, keys: fhe.rotate(x, 1, keys), in_axes=(0, None)))
    transform = jax.jit(lambda data: ntt(data, params.moduli))
    return {
        "multiply": operations.Subject(operations.ready(multiply, xs, xs, keys)),
        "rotate": operations.Subject(operations.ready(rotate, xs, keys)),
        "ntt": operations.Subject(operations.ready(transform, xs.data), 2 * len(params.moduli)),
    }


def _draw(panels: list[Panel], measured: list[dict[str, Any]], path: pathlib.Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows, columns = -(-len(panels) // 2), min(len(panels), 2)
    figure, axes = plt.subplots(
        rows, columns, figsize=(5.5 * columns, 4 * rows + 1), layout="constrained", squeeze=False
    )
    for panel, ax in zip(panels, axes.flat, strict=True):
        points = [point for point in measured if point["panel"] == panel.axis]
        for index, operation in enumerate(_OPERATIONS):
            for library, line in _LINES.items():
                found = [(p[panel.axis], p["milliseconds"].get(library, {}).get(operation)) for p in points]
                found = [(x, y) for x, y in found if y is not None]
                if found:
                    label = f"{library}: {_OPERATIONS[operation]}"
                    ax.plot(*zip(*found, strict=True), line, color=f"C{index}", label=label, markersize=4)
        ax.set(title=panel.title, yscale="log", xlabel=panel.axis.replace("_degree", "2 N"))
        if panel.axis != "log_degree":
            ax.set_xscale("log", base=2)
        ax.set_xticks([point[panel.axis] for point in points], [str(point[panel.axis]) for point in points])
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    figure.supylabel("milliseconds, one thread")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(_LINES))
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
