"""A benchmark's results as text: no time without its ratio."""

from typing import Any


def heading(machine: dict[str, Any]) -> str:
    """The machine and the versions."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    flags = " ".join(machine["flags"])
    return f"{machine['processor']} ({flags}), {machine['cores']} cores, {machine['system']}\n{versions}"


def of_ring(ring: dict[str, Any]) -> str:
    """The table of one ring: times in milliseconds, the least of all runs, each with its ratio.

    The ratio to the bound says how many times the bound we take; a peer's, how many times our time it takes; that of
    all cores, how many times faster they are than one.
    """
    parallel = any("all cores" in row for row in ring["operations"].values())
    others = [*ring["peers"], *(["all cores"] if parallel else [])]
    cells = [["operation", "ours", "bound", "by", "ratio"]]
    for name in others:
        cells[0] += [name, "ratio"]
    for operation, row in ring["operations"].items():
        bound = row["bound"]
        line = [operation, _number(row["fhejax"]), _number(bound), bound["by"], _ratio(bound)]
        for name in others:
            line += [_number(row[name]), _ratio(row[name])] if name in row else ["-", "-"]
        cells.append(line)
    return "\n".join(["", *_preface(ring), *_columns(cells), *_eager(ring["eager_add"])])


def _preface(ring: dict[str, Any]) -> list[str]:
    parameters, limits = ring["parameters"], ring["limits"]
    primes, special = len(parameters["moduli"]), len(parameters["special_moduli"])
    rate = limits.get("vpmadd52_per_second")
    multiply_adds = f"{rate / 1e9:.2f} G/s" if rate else f"not measured: {limits['vpmadd52_unavailable']}"
    lines = [
        f"N = 2^{ring['log_degree']}: {primes} primes + {special} special, {parameters['digits']} digits, "
        f"log2(QP) = {parameters['log_qp']:.0f}",
        f"on {ring['cores']} core, kernels {ring['instruction_set']}; milliseconds, least of all runs",
        f"vpmadd52 {multiply_adds}; large copy {limits['copy_gigabytes_per_second']:.1f} GB/s",
    ]
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


def _number(entry: dict[str, Any]) -> str:
    milliseconds = entry["minimum_ms"]
    return f"{milliseconds:.4f}" if milliseconds < 0.1 else f"{milliseconds:.2f}"


def _ratio(entry: dict[str, Any]) -> str:
    return f"{entry['ratio']:.2f}"
