"""Writes what C++ has of the handlers' one statement, fhejax/primitives/handlers.py.

python ffi/generate.py
"""

import itertools
import pathlib
import re

from fhejax.primitives.handlers import HANDLERS
from fhejax.primitives.statement import (
    DEGREES,
    MOST_NUMBERS,
    PRIMES,
    Array,
    Element,
    Handler,
    Integer,
    Integers,
    Key,
    Moduli,
    Places,
    Scale,
    Thresholds,
    names_in,
    parse_axis,
)

FOLDER = pathlib.Path(__file__).parent / "common"
TYPES = {"uint64": "uint64_t", "uint32": "uint32_t", "float64": "double", "complex128": "std::complex<double>"}
FUNCTIONS = {"N": "n", "max": "std::max<int64_t>", "ceiling": "Ceiling", "broadcast": "Broadcast", "or": "||"}
LEAST = {"count": 0, "numbers": 0, "key_count": 0, "message_count": 0, "N": DEGREES[0]}  # of axes; of all others 1
POWERS_OF_TWO = ("N", "slots")
HEAD = "// Written by ffi/generate.py from fhejax/primitives/handlers.py.\n"


def camel(name: str) -> str:
    """The name of the handler's struct; that of its symbol is `Fhejax` and this."""
    return "".join(part.capitalize() for part in name.split("_"))


def cpp(text: str) -> str:
    """An expression in C++."""
    text = re.sub(r"\s*([<>=]=|[-+*%<>])\s*", r" \1 ", text).replace(",", ", ").replace("  ", " ")
    return re.sub(r"[A-Za-z_]\w*", lambda word: FUNCTIONS.get(word[0], word[0]), text)


def struct(handler: Handler) -> str:
    """What a handler is given."""
    lines = [f"struct {camel(handler.name)} {{", f'  static constexpr const char* kName = "{handler.target}";']
    for each in handler.attributes:
        lines.append(f"  {_attribute_type(each)} {each.name}{{}};")
    for each in (*handler.operands, *handler.results):
        kind = "KeyArgument" if isinstance(each, Key) else _argument(each, each in handler.operands)
        comment = f"  // {each.axes}" if isinstance(each, Array) else ""
        lines.append(f"  {kind if each.repeats is None else f'std::vector<{kind}>'} {each.name};{comment}")
    lines.append(f"  int64_t {', '.join(f'{name} = 0' for name in dimension_names(handler))};")
    if handler.workspace:
        names = ", ".join(f"*{region.name} = nullptr" for region in handler.workspace)
        lines.append(f"  struct {{\n    uint64_t {names};\n  }} workspace;  // CUDA's")
    lines += ["", "  bool Take(Given& given, bool with_workspace);", "};"]
    return "\n".join(lines)


def dimension_names(handler: Handler) -> list[str]:
    """Those that the struct has."""
    stated = {each.name for each in handler.attributes}
    found = ["batch"]
    for attribute in handler.attributes:
        if isinstance(attribute, Moduli | Integers) and attribute.count.isidentifier():
            found.append(attribute.count)
        if isinstance(attribute, Integers):
            found += [name for name in (attribute.total, attribute.elements) if name]
    found += list(handler.where)
    for array in (*handler.operands, *handler.results):
        axes = map(parse_axis, array.axes.split()) if isinstance(array, Array) else []
        found += [axis.name for axis in axes if axis.name and not (axis.or_more and array.repeats)]
    if any(isinstance(each, Key) for each in handler.operands):
        found.append("seeds")
    return [cpp(name) for name in dict.fromkeys(found) if name not in stated]


def take(handler: Handler) -> str:
    """The definition of `Take`."""
    writer = _Writer(handler)
    writer.attributes()
    writer.arrays()
    writer.values()
    return writer.text()


class _Writer:
    """Writes the steps of one handler's `Take`."""

    def __init__(self, handler):
        self.handler = handler
        self.lines = [f"bool {camel(handler.name)}::Take(Given& given, [[maybe_unused]] bool with_workspace) {{"]
        self.pending: list[str] = []
        self.known = {"operands"}
        self.perhaps: set[str] = set()  # named by arrays of which there may be none

    def text(self):
        return "\n".join([*self.lines, "}"])

    def line(self, *lines, indent=2):
        """Writes lines behind the checks that are waiting, which make one condition."""
        if self.pending:
            self.lines += _packed(self.pending, indent)
            self.pending = []
        self.lines += [" " * indent + line for line in lines]

    def check(self, condition):
        self.pending.append(condition)

    def refuse_unless(self, condition, why):
        self.check(f'({condition} || given.Refuse("{why}"))')

    def size(self, name, value):
        """Names a size, or compares it with what has the name."""
        if not name.isidentifier() or name in self.known:
            self.refuse_unless(f"{cpp(name)} == {value}", f"needs {name} = {value}")
        else:
            self.line(f"{cpp(name)} = {value};")
            self.known.add(name)

    def attributes(self):
        attributes = self.handler.attributes
        self.check(f"given.Attributes({len(attributes)})")
        for each in attributes:
            least = getattr(each, "least", 0)
            if isinstance(each, Integer | Element):
                least, most = (each.least, each.most) if isinstance(each, Integer) else (1, 1 << 21)
                self.check(f'given.Attribute("{each.name}", {least}, int64_t{{{most}}}, {each.name})')
                self.known.add(each.name)
            elif isinstance(each, Places | Scale):
                self.check(f'given.Attribute("{each.name}", {each.name})')
            else:
                least = {Moduli: least, Integers: 1, Thresholds: 2}[type(each)]
                self.check(f'given.Attribute("{each.name}", {least}, {each.name})')
        for each in attributes:
            if isinstance(each, Moduli | Integers):
                self.size(each.count, f"SizeOf({each.name})")
            if isinstance(each, Integers) and each.elements:
                self.size(each.elements, f"CountSwitched({each.name})")
        if any(isinstance(each, Places) for each in attributes):
            self.refuse_unless("places.size() == moduli.size()", "needs a place for each modulus")
        if any("operands" in names_in(text) for text in self.handler.where.values()):
            self.line("const int64_t operands = given.operands();")
        for name, value in self.handler.where.items():
            self.size(name, cpp(value))

    def arrays(self):
        for each in self.handler.operands:
            self.repeated(each, "Operand")
        for each in self.handler.results:
            self.repeated(each, "Result")
        first = self.handler.results[0]
        self.line(f"batch = {first.name}{'' if first.repeats is None else '[0]'}.entries;")
        self.check(f"given.AllTaken({'with_workspace' if self.handler.workspace else 'false'})")

    def repeated(self, each, method):
        write = self.key if isinstance(each, Key) else self.array
        if each.repeats is None:
            return write(each, method, each.name)
        count = cpp(each.repeats)
        self.check(f'given.Follow("{each.name}", {count})')
        self.line(f"{each.name}.resize({count});", f"for (auto& each : {each.name}) {{")
        write(each, method, "each")
        self.line(indent=4)
        self.line("}")

    def key(self, each, _, target):
        self.check(f'given.Key("{each.name}", digits, limbs + specials, n, {target}, seeds)')

    def array(self, each, method, target):
        axes, index = list(map(parse_axis, each.axes.split())), 0
        own = "".join(f" - ({axis.unless} != 0)" for axis in axes if axis.unless)
        self.check(f'given.{method}("{each.name}", "{each.axes}", {len(axes)}{own}, {target})')
        for axis in axes:
            self.axis(axis, index, each)
            index = (
                f"{index + 1} - ({axis.unless} != 0)"
                if axis.unless
                else index + 1
                if isinstance(index, int)
                else f"1 + {index}"
            )

    def axis(self, axis, i, each):
        size = cpp(axis.size) if axis.size else None
        name = cpp(axis.name or "")
        if axis.unless:
            self.check(f"({axis.unless} || given.Axis({i}, {size}))")
        elif axis.or_more:
            self.check(f"given.AxisAtLeast({i}, {size})" if each.repeats else f"given.AxisNamed({i}, {size}, {name})")
        elif axis.name is None or axis.size or axis.name in self.known:
            self.check(f"given.Axis({i}, {size or name})")
        else:
            self.new_name(axis.name, i, each)
        if axis.name and axis.size and not axis.or_more:
            self.line(f"{name} = {size};")
        names = self.perhaps if each.repeats else self.known
        names |= {axis.name}

    def new_name(self, stated, i, each):
        name, least = cpp(stated), LEAST.get(stated, 1)
        naming = f"given.AxisNamed({i}, {least}, {name})"
        again = each.repeats or stated in self.perhaps
        self.check(f"({name} ? given.Axis({i}, {name}) : {naming})" if again else naming)
        if stated in POWERS_OF_TWO:
            self.check(f'given.PowerOfTwo("{stated}", {least}, {name})')

    def values(self):
        """What is compared once all sizes are known."""
        for condition in self.handler.needs:
            self.refuse_unless(f"({cpp(condition)})", f"needs {condition}")
        attributes = self.handler.attributes
        thresholds = any(isinstance(each, Thresholds) for each in attributes)
        if thresholds:
            self.refuse_unless("thresholds.size() % 2 == 0", "needs thresholds of two words")
        for each in attributes:
            if isinstance(each, Moduli):
                multiple, above = "2 * n" if each.transforms else "1", "SizeOf(thresholds) / 2" if thresholds else "0"
                self.check(f'given.Primes("{each.name}", {each.name}, {multiple}, {above})')
            elif isinstance(each, Element):
                self.refuse_unless("(element % 2 == 1 && element < 2 * n)", "element is not odd and below 2N")
            elif isinstance(each, Integers):
                self.integers(each)
        if self.handler.distinct:
            self.check(f"given.Distinct({{{', '.join(self.handler.distinct)}}})")
        self.workspace()

    def integers(self, each):
        if each.elements:
            return self.check(f'given.Elements("{each.name}", {each.name}, n)')
        below = f"static_cast<uint64_t>({cpp(each.below)})" if each.below else "UINT32_MAX"
        self.check(f'given.Below("{each.name}", {each.name}, {each.least}, {below})')
        if each.total:
            self.line(
                "int64_t total = 0;", f"for (const uint64_t each : {each.name}) total += static_cast<int64_t>(each);"
            )
            self.size(each.total, "total")

    def workspace(self):
        regions = self.handler.workspace
        if not regions:
            return self.line("return true;")
        self.line("if (!with_workspace) return true;")
        names = set(itertools.chain.from_iterable(names_in(region.words) for region in regions))
        for array in self.handler.operands:
            for name in (f"{array.name}_entries", f"{array.name}_most"):
                if name in names:
                    self.line(*self.entries(array, name))
        self.line(f"Layout<{len(regions)}> layout;")
        for i, region in enumerate(regions):
            over = next((k for k, other in enumerate(regions) if other.name == region.over), None)
            shares = (
                ""
                if over is None
                else f", {over}"
                if region.over_if == "1"
                else f", {cpp(region.over_if)} ? {over} : -1"
            )
            self.line(f"layout.Add({i}, {cpp(region.words)}{shares});")
        self.check("given.Workspace(layout.words, layout.base)")
        places = ", ".join(f"layout.At({i})" for i in range(len(regions)))
        self.line(f"workspace = {{{places}}};", "return true;")

    def entries(self, array, name):
        if array.repeats is None:
            return [f"const int64_t {name} = {array.name}.entries;"]
        step = f"{name} += each.entries" if name.endswith("_entries") else f"{name} = std::max({name}, each.entries)"
        return [f"int64_t {name} = 0;", f"for (const auto& each : {array.name}) {step};"]


def _packed(conditions, indent):
    """Returns false unless all conditions hold, as many of them on a line as it takes."""
    if len(conditions) == 1:
        return [f"{' ' * indent}if (!{conditions[0]}) return false;"]
    lines = [f"{' ' * indent}if (!({conditions[0]}"]
    for each in conditions[1:]:
        if len(lines[-1]) + len(each) < 112:
            lines[-1] += f" && {each}"
        else:
            lines[-1] += " &&"
            lines.append(f"{' ' * (indent + 6)}{each}")
    lines[-1] += "))"
    return [*lines, f"{' ' * (indent + 2)}return false;"]


def _attribute_type(each):
    return {Integer: "int64_t", Element: "int64_t", Scale: "double", Places: "Places"}.get(type(each), "Moduli")


def _argument(array, is_operand):
    return f"Argument<{'const ' if is_operand else ''}{TYPES[array.dtype]}>"


def header() -> str:
    """handlers.gen.h."""
    names = "".join(f' \\\n  X({camel(each.name)}, "{each.target}")' for each in HANDLERS.values())
    structs = "\n\n".join(map(struct, HANDLERS.values()))
    return (
        f'{HEAD}#pragma once\n\n#include "common/statement.h"\n\n'
        "// What every handler takes: degrees of rings, moduli, numbers of an attribute.\n"
        f"namespace fhejax {{\n\nconstexpr int64_t kMostDegree = {DEGREES[1]}, kMostNumbers = {MOST_NUMBERS};\n"
        f"constexpr uint64_t kLeastPrime = {PRIMES[0]}, kPastPrimes = {PRIMES[1]};\n\n}}  // namespace fhejax\n\n"
        "// Every handler: the name of its struct, and the name under which XLA knows it.\n"
        f"#define FHEJAX_HANDLERS(X){names}\n\n"
        "// What each handler is given. Take() takes it from a call, whose last result may be CUDA's workspace.\n"
        f"namespace fhejax::handlers {{\n\n{structs}\n\n}}  // namespace fhejax::handlers\n"
    )


def source() -> str:
    """handlers.gen.cc."""
    definitions = "\n\n".join(map(take, HANDLERS.values()))
    return (
        f'{HEAD}#include "common/handlers.gen.h"\n\n#include <algorithm>\n\n'
        f"namespace fhejax::handlers {{\n\n{definitions}\n\n}}  // namespace fhejax::handlers\n"
    )


FILES = {FOLDER / "handlers.gen.h": header, FOLDER / "handlers.gen.cc": source}


if __name__ == "__main__":
    for path, write in FILES.items():
        path.write_text(write())
