"""Which file imports which: the rooms of the package, as the floors of docs/internals.md have them, and as a picture.

    python tests/imports.py [docs/imports.png]

prints the counts and, given a path, draws the rooms and what they import (matplotlib).
"""

import ast
import graphlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]
Graph = dict[str, set[str]]


def files(package: pathlib.Path = ROOT / "fhejax") -> dict[str, pathlib.Path]:
    """Every module by its dotted name below the package; `__init__.py` is the room itself."""
    paths = sorted(package.rglob("*.py"))
    names = (".".join(path.relative_to(package).with_suffix("").parts).removesuffix("__init__") for path in paths)
    return dict(zip((name.rstrip(".") for name in names), paths, strict=True))


def imported(package: pathlib.Path = ROOT / "fhejax") -> Graph:
    """For each module the modules of the package that it imports."""
    paths = files(package)
    prefix = f"{package.name}."
    graph = {}
    for name, path in paths.items():
        found = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
                found |= {each if each.removeprefix(prefix) in paths else node.module for each in whole}
        graph[name] = {each.removeprefix(prefix) for each in found if each.removeprefix(prefix) in paths} - {name}
    return graph


def floors() -> dict[str, int]:
    """The rooms in docs/internals.md, numbered from the ground up."""
    drawing = re.search(r"## The floors\n.*?```\n(.*?)```", (ROOT / "docs/internals.md").read_text(), re.S)
    assert drawing, "docs/internals.md has no drawing of the floors"
    rooms = [room.split()[0].strip("/").replace("/", ".") for room in drawing[1].splitlines() if room.strip()]
    return {room.removesuffix(".py"): len(rooms) - i for i, room in enumerate(rooms)}


def room(name: str, path: pathlib.Path) -> str:
    """The folder that a module lies in; at the root, the file."""
    folder = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return folder or (name if path.name != "__init__.py" else "fhejax")


def between_rooms(package: pathlib.Path = ROOT / "fhejax") -> Graph:
    """For each room the other rooms that it imports from."""
    paths, graph = files(package), {}
    for name, others in imported(package).items():
        own = room(name, paths[name])
        graph.setdefault(own, set()).update({room(other, paths[other]) for other in others} - {own})
    return graph


def circles(graph: Graph) -> list[str]:
    """The nodes that lie on a circle."""

    def reached(start):
        seen, ahead = set(), [start]
        while ahead:
            new = graph.get(ahead.pop(), set()) - seen
            seen |= new
            ahead += new
        return seen

    return [node for node in graph if node in reached(node)]


def order(graph: Graph) -> list[str]:
    """The nodes from the ground up; `graphlib.CycleError` if there is no such order."""
    return list(graphlib.TopologicalSorter(graph).static_order())


def draw(path: str) -> None:
    """The floors with an arrow for each tie: straight to the floor below, curved beyond."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    levels, ties, counts = floors(), between_rooms(), {}
    for name, file in files().items():
        counts.setdefault(room(name, file), []).append(len(file.read_text().splitlines()))
    figure, axes = plt.subplots(figsize=(9, 0.55 * len(levels) + 0.5))
    for name, level in levels.items():
        lines = counts.get(name, [0])
        text = f"{name.replace('.', '/')}   {len(lines)} files, {sum(lines)} lines" if len(lines) > 1 else name
        axes.text(0, level, text, ha="center", va="center", bbox={"boxstyle": "round", "fc": "#eef3f8", "ec": "#567"})
    for name, others in ties.items():
        for other in others:
            span = levels[name] - levels[other]
            color = "#c33" if span <= 0 else "#567"
            side = -1 if levels[name] % 2 else 1
            ends = (side * 0.36, levels[name]), (side * 0.36, levels[other])
            style = {"arrowstyle": "->", "color": color, "lw": 0.6, "connectionstyle": f"arc3,rad={-side * 0.35}"}
            axes.annotate("", ends[1], ends[0], arrowprops=style)
    axes.set(xlim=(-1, 1), ylim=(0.4, len(levels) + 0.6))
    axes.axis("off")
    figure.savefig(path, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    levels, ties, paths = floors(), between_rooms(), files()
    upward = [(a, b) for a, others in ties.items() for b in others if levels.get(a, 0) <= levels.get(b, 0)]
    print(f"{len(paths)} files in {len(ties)} rooms, {sum(map(len, ties.values()))} ties between them")
    print(f"upward: {len(upward)} {upward or ''}".rstrip())
    print(f"rooms on circles: {len(circles(ties))}; files on circles: {len(circles(imported()))}")
    if len(sys.argv) > 1:
        draw(sys.argv[1])
