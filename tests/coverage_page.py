"""Writes the table of docs/cuda.md that says what computes each primitive where, from what is registered.

python tests/coverage_page.py
"""

import pathlib
import re

from fhejax.primitives.define import Definition, definitions
from fhejax.primitives.handlers import HANDLERS

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs" / "cuda.md"
BEGIN, END = "<!-- coverage -->\n", "<!-- /coverage -->"


def instruction_sets() -> list[str]:
    """The names of all tables of CPU kernels, of this processor or not: each has every loop."""
    sources = sorted((ROOT / "ffi" / "cpu").glob("kernels_*.cc"))
    found = [re.search(r'(?:const Kernels \w+ = \{|KERNELS_NAME)\s*"(\w+)"', source.read_text()) for source in sources]
    return sorted((match[1] for match in found if match), key=lambda name: (name != "portable", name))


def table() -> str:
    """The table as Markdown."""
    sets = instruction_sets()
    cells = [["primitive", "in JAX", *sets, "CUDA"]]
    order = list(HANDLERS)  # what has no handler stands first
    rows = sorted(definitions.values(), key=lambda each: order.index(each.name) if each.name in order else -1)
    cells += [_row(definition, len(sets)) for definition in rows]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    lines.insert(1, "|---" * len(cells[0]) + "|")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with the table as it has to be now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


def _row(definition: Definition, sets: int) -> list[str]:
    by_jax = "composition" if definition.composed else "reference"
    size = f", from {definition.handler_from >> 20} MiB" if definition.handler_from else ""
    kernel = by_jax if definition.handler is None else f"kernel{size}"
    return [f"`{definition.name}`", by_jax, *[kernel] * (sets + 1)]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
