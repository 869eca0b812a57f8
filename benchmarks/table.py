"""A benchmark's results as text: no time without its ratio."""

from typing import Any


def heading(machine: dict[str, Any]) -> str:
    """The machine and the versions."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    flags = " ".join(machine["flags"])
    return f"{machine['processor']} ({flags}), {machine['cores']} cores, {machine['system']}\n{versions}"


def of_ring(ring: dict[str, Any]) -> str:
    """The tables of one ring: times in milliseconds, the least of all runs, each with its ratio.

    The ratio to the bound says how many times the bound we take; bytes a second stand beside their share of a copy's; a
    peer's ratio says how many times our time it takes; that of all cores, how many times faster they are than one.
    """
    rows = ring["operations"]
    others = [*ring["peers"], *(["all cores"] if any("all cores" in row for row in rows.values()) else [])]
    measured_memory = any("memory" in row for row in rows.values())
    cells = [["operation", "ours", "cpu", "bound", "by", "ratio", "GB/s", "of copy"]]
    cells[0] += [text for name in others for text in (name, "ratio")] + ["memory"] * measured_memory
    for operation, row in rows.items():
        ours, bound, moved = row["fhejax"], row["bound"], row["bytes"]
        line = [operation, _number(ours), _number(ours, "cpu_ms"), _number(bound), bound["by"], _ratio(bound)]
        line += [f"{moved['gigabytes_per_second']:.1f}", _ratio(moved)]
        for name in others:
            line += [_number(row[name]), _ratio(row[name])] if name in row else ["-", "-"]
        if measured_memory:
            line.append(f"{row['memory']['peak'] / 2**20:.1f}" if "memory" in row else "-")
        cells.append(line)
    return "\n".join(["", *_preface(ring), *_columns(cells), *_sets(rows), *_eager(ring["eager_add"])])


def _sets(rows: dict[str, Any]) -> list[str]:
    """The table of instruction sets, each with how many times the best one's time it takes."""
    names = list(next(iter(rows.values()))["instruction sets"])
    if not names:
        return []
    cells = [["operation", *(text for name in names for text in (name, "ratio"))]]
    for operation, row in rows.items():
        entries = [row["instruction sets"][name] for name in names]
        cells.append([operation, *(text for entry in entries for text in (_number(entry), _ratio(entry)))])
    return ["", *_columns(cells)]


def of_figures(report: dict[str, Any], markdown: bool) -> str:
    """The table of targets: each figure beside its goal, and whether it is met; as Markdown only what has a goal."""
    cells = [["figure", "medians", "least times", "goal", "met"]]
    for figure in report["figures"]:
        if markdown and figure["goal"] is None:
            continue
        numbers = [f"{_short(figure[part])}{figure['unit']}" for part in ("median", "least")]
        judged = {True: "yes", False: "no", None: ""}[figure["met"]]
        cells.append([figure["what"], *numbers, _goal(figure), judged])
    lines = [f"{name}: {reason}" for name, reason in report["unavailable"].items()]
    return "\n".join(["", *(_markdown(cells) if markdown else _columns(cells)), *lines])


def _goal(figure: dict[str, Any]) -> str:
    if figure["goal"] is None:
        return ""
    return f"{'at least' if figure['at_least'] else 'at most'} {_short(figure['goal'])}{figure['unit']}"


def _markdown(cells: list[list[str]]) -> list[str]:
    rows = ["| " + " | ".join(row) + " |" for row in cells]
    return [rows[0], "|---|" + "---:|" * (len(cells[0]) - 1), *rows[1:]]


def _short(number: float) -> str:
    return f"{number:.4f}" if number < 0.1 else f"{number:.3g}"


def _preface(ring: dict[str, Any]) -> list[str]:
    parameters, limits = ring["parameters"], ring["limits"]
    primes, special = len(parameters["moduli"]), len(parameters["special_moduli"])
    loops = [f"{rate / 1e9:.2f} G/s {name}" for name, rate in limits["butterflies_per_second"].items()]
    lines = [
        f"N = 2^{ring['log_degree']}: {primes} primes + {special} special, {parameters['digits']} digits, "
        f"log2(QP) = {parameters['log_qp']:.0f}",
        f"on {ring['cores']} core, kernels {ring['instruction_set']}; milliseconds, least of all runs",
        *(loops or [f"butterflies not measured: {limits['butterflies_unavailable']}"]),
        f"large copy {limits['copy_gigabytes_per_second']:.1f} GB/s; memory: MiB of the result and temporaries at most",
    ]
    if "memory_unavailable" in limits:
        lines.append(f"memory not measured: {limits['memory_unavailable']}")
    for name, about in ring["peers"].items():
        lines.append(f"{name}: {about.get('unavailable') or about['remark']}")
    return lines


def _eager(eager: dict[str, Any] | None) -> list[str]:
    if not eager:
        return []
    return [
        f"eager add: {eager['overhead_us']:.0f} us beyond the kernel's {eager['kernel_us']:.0f} us, which is "
        f"{eager['ratio_to_limit']:.2f} of the limit of {eager['limit_us']} us; "
        f"the call takes {eager['eager_over_jit']:.2f} times as long as a jitted one"
    ]


def _columns(cells: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    padded = [[text.rjust(width) for text, width in zip(row, widths, strict=True)] for row in cells]
    return ["  ".join([row[0].ljust(widths[0]), *right[1:]]) for row, right in zip(cells, padded, strict=True)]


def _number(entry: dict[str, Any], part: str = "minimum_ms") -> str:
    milliseconds = entry[part]
    return f"{milliseconds:.4f}" if milliseconds < 0.1 else f"{milliseconds:.2f}"


def _ratio(entry: dict[str, Any]) -> str:
    return f"{entry['ratio']:.2f}"
