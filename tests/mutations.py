"""Mutants: small changes of the sources, each of which should make a test fail.

A change is an operator, an index or a number off by one, a reduction that is dropped, or operands that are swapped.
What cannot change a result is left out: docstrings, annotations, texts, what is raised, and what only hints at speed.
"""

import ast
import dataclasses
import pathlib
import random
import re
from collections.abc import Iterator

GROUPS = {  # drawn from equally
    "primitives": ("fhejax/primitives/*.py",),
    "kernels": ("ffi/common/*.h", "ffi/common/*.cc", "ffi/cpu/*.h", "ffi/cpu/*.cc"),
    "levels": ("fhejax/operations/*.py", "fhejax/parameters/parameters.py", "fhejax/parameters/moduli.py"),
    "keys": ("fhejax/scheme/*.py", "fhejax/planning/*.py"),
    "files": ("fhejax/serialization/*.py",),
}
OPERATORS = {
    **{"+": "-", "-": "+", "*": "+", "//": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|"},
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    **{"&&": "||", "||": "&&", "and": "or", "or": "and"},
}
# What only hints at speed or is said to people.
HINTS = re.compile(
    r"_BLOCK|handler_from|progress|chunk|prefetch|[Pp]refetch|Ahead|Huge|hugepage|alignas|thread|Parallel|reserve|"
    r"static_assert|template|include|Refuse|Error|error|\bassert\b|stacklevel|maxsize|repr|namespace|pragma|using "
)


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A change of one place: `old` at an offset of a file becomes `new`."""

    group: str
    path: str
    offset: int
    old: str
    new: str

    def line(self, root: pathlib.Path) -> int:
        return (root / self.path).read_text()[: self.offset].count("\n") + 1

    def applied(self, text: str) -> str:
        end = self.offset + len(self.old)
        assert text[self.offset : end] == self.old
        return text[: self.offset] + self.new + text[end:]

    def __str__(self):
        return re.sub(r"\s+", " ", f"{self.old} -> {self.new or 'nothing'}")


def draw(root: pathlib.Path, seed: int) -> Iterator[Mutant]:
    """Mutants without end to speak of, one of each group in turn; of a file as many as of any other of its group."""
    rng = random.Random(seed)
    files = {}
    for group, patterns in GROUPS.items():
        paths = sorted(path for pattern in patterns for path in root.glob(pattern))
        files[group] = [made for path in paths if (made := list(mutants(group, path.relative_to(root), root)))]
    while True:
        for group in GROUPS:
            yield rng.choice(rng.choice(files[group]))


def mutants(group: str, path: pathlib.Path, root: pathlib.Path) -> Iterator[Mutant]:
    """Every mutant of a file."""
    text = (root / path).read_text()
    places = _of_python(text) if path.suffix == ".py" else _of_cpp(text)
    lines = text.splitlines()
    for offset, old, new in places:
        line = lines[text[:offset].count("\n")]
        if old != new and not HINTS.search(line):
            yield Mutant(group, str(path), offset, old, new)


# --- Python ----------------------------------------------------------------------------------------------------------


def _of_python(text):
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    data = text.encode()

    def at(line, column):  # of the text, from the places of `ast`, which count bytes
        return len(data[: starts[line - 1] + column].decode())

    def span(node):
        return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)

    for node in _live(ast.parse(text)):
        for start, end, new in _changes(node, text, span):
            yield start, text[start:end], new


_UNSEEN = re.compile("__repr__|__str__|show_config|cuda")  # words, and what only a GPU runs
_SKIPPED = (ast.Raise, ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom)


def _live(node):
    """Nodes that say what is computed."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, _SKIPPED):
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue  # a docstring
            if isinstance(child, ast.FunctionDef) and _UNSEEN.search(child.name):
                continue
            yield child
            yield from _live(child)


def _changes(node, text, span):
    if isinstance(node, ast.BinOp) and not _is_text(node):
        yield from _operator(node.left, node.right, text, span)
        (left, end_left), (right, end_right) = span(node.left), span(node.right)
        if isinstance(node.op, ast.Mod):
            yield left, end_right, text[left:end_left]
        if isinstance(node.op, ast.Sub | ast.FloorDiv | ast.Mod):
            yield left, end_right, text[right:end_right] + text[end_left:right] + text[left:end_left]
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _operator(node.left, node.comparators[0], text, span)
    elif isinstance(node, ast.BoolOp):
        yield from _operator(node.values[0], node.values[1], text, span)
    elif isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value < 256:
        yield (*span(node), str(node.value + 1))
    elif isinstance(node, ast.Call) and (swapped := _swapped(node)):
        first, second = map(span, swapped)
        yield first[0], second[1], text[slice(*second)] + text[first[1] : second[0]] + text[slice(*first)]


def _swapped(call):
    """Two operands of a call whose order matters, and which types do not tell apart."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name == "where" and len(call.args) == 3:
        return call.args[1:]
    return call.args[:2] if "subtract" in name and len(call.args) >= 2 else None


def _operator(left, right, text, span):
    """What stands between two operands."""
    start, end = span(left)[1], span(right)[0]
    between = text[start:end].strip("() \n")
    if between in OPERATORS:
        offset = start + text[start:end].index(between)
        yield offset, offset + len(between), OPERATORS[between]


def _is_text(node):
    return any(isinstance(x, ast.JoinedStr | ast.Constant) and not _is_number(x) for x in ast.walk(node))


def _is_number(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float | complex)


# --- C++ -------------------------------------------------------------------------------------------------------------

_REDUCTION = re.compile(r"\b(?:Reduce\w*)\((?P<value>[^(),]+), [^(),]+\)")
_SWAPPED = re.compile(r"\b(?:Subtract\w*|Sub)\((?P<first>[\w.\[\]]+), (?P<second>[\w.\[\]]+)")
_INDEX = re.compile(r"\[(?P<index>[a-z]\w*)\]")
_NUMBER = re.compile(r"(?<=[ (\[])(?P<number>[0-9]|[1-6][0-9])(?=[ ;)\]])")
_OPERATOR = re.compile(r"(?<= )(?P<operator>\+|-|\*|<<|>>|&|\||<=|>=|<|>|==|!=|&&|\|\|)(?= )")


def _of_cpp(text):
    code = re.sub(r"//[^\n]*|\"[^\"\n]*\"", lambda match: " " * len(match[0]), text)
    for match in _OPERATOR.finditer(code):
        yield match.start(), match[0], OPERATORS[match["operator"]]
    for match in _REDUCTION.finditer(code):
        yield match.start(), match[0], match["value"]
    for match in _SWAPPED.finditer(code):
        swapped = match[0].replace(f"{match['first']}, {match['second']}", f"{match['second']}, {match['first']}")
        yield match.start(), match[0], swapped
    for match in _INDEX.finditer(code):
        yield match.start(), match[0], f"[{match['index']} + 1]"
    for match in _NUMBER.finditer(code):
        yield match.start(), match[0], str(int(match["number"]) + 1)
