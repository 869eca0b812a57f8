"""What the references return, as digests: kernels are compared with them, and XLA need not compile them each time.

A digest is found by what was computed: a jaxpr and its operands. The sources of the primitives say what a jaxpr means.
Where they are not those that `digests.json` was written for, references are computed, and so are those that it lacks.
`make digests` writes it; `make test-all` computes every reference and holds the file to them.
"""

import ast
import contextlib
import functools
import hashlib
import inspect
import json
import os
import pathlib

import jax
import numpy as np

import fhejax
from fhejax.parameters.primes import primitive_root
from fhejax.primitives import native

ROOT = pathlib.Path(__file__).parent.parent
FILE = pathlib.Path(__file__).with_name("digests.json")
FOLDER = ROOT / "build" / "digests"

computed_always = False  # conftest sets it where slow tests run too
writing = "FHEJAX_WRITE_DIGESTS" in os.environ


def assert_equals_reference(got, function, *operands):
    """`got`, which kernels returned, has the bits of the reference of `function(*operands)`."""
    key, digest = _key(function, operands), _digest(got)
    stored = _digests().get(key)
    if digest != stored or computed_always or writing:
        with native.lowering("reference"):
            expected = function(*operands)
        jax.tree.map(np.testing.assert_array_equal, got, expected)
        assert writing or stored in (None, digest), f"{FILE.name} is wrong: make digests"
    if writing:
        _keep(key, digest)


def lowerings(*names):
    """Those of `names` that a test has to compute, or of all: the reference only where its sources have changed."""
    names = names or native.LOWERINGS
    return names if computes_references() else tuple(name for name in names if name != "reference")


def computes_references() -> bool:
    return computed_always or writing or not _fits("primitives")


def computes_emulated() -> bool:
    """Whether CUDA's handlers, emulated, are to be tested again."""
    return computes_references() or not _fits("emulated")


def write() -> None:
    """Makes `digests.json` of what all processes have kept."""
    digests = {}
    for path in FOLDER.glob("*"):
        digests |= dict(line.split() for line in path.read_text().splitlines())
        path.unlink()
    sources = {name: hashed() for name, hashed in _SOURCES.items()}
    FILE.write_text(json.dumps({"sources": sources, "digests": dict(sorted(digests.items()))}, indent=0) + "\n")


def _keep(key, digest):
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / os.environ.get("PYTEST_XDIST_WORKER", "main"), "a") as file:
        file.write(f"{key} {digest}\n")


def _key(function, operands):
    with native.lowering("reference"):
        closed = jax.make_jaxpr(lambda *x: function(*x))(*operands)
    return _digest((str(closed.jaxpr), [*closed.consts, *_constants(closed.jaxpr)], operands))


def _constants(jaxpr):
    """Arrays within a jaxpr, whose text has none of their numbers."""
    for equation in jaxpr.eqns:
        yield from (x.val for x in equation.invars if np.ndim(getattr(x, "val", 0)))
        for value in equation.params.values():
            for each in value if isinstance(value, list | tuple) else [value]:
                yield from getattr(each, "consts", ())
                inner = getattr(each, "jaxpr", each)
                yield from _constants(inner) if hasattr(inner, "eqns") else ()


def _digest(tree):
    """Of types, shapes and bits."""
    leaves, structure = jax.tree.flatten(tree)
    total = hashlib.sha256(str(structure).encode())
    for leaf in leaves:
        array = np.asarray(leaf)
        total.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return total.hexdigest()[:16]


def _fits(name):
    return _stored()["sources"].get(name) == _SOURCES[name]()


def _digests():
    return _stored()["digests"] if _fits("primitives") else {}


@functools.cache
def _stored():
    with contextlib.suppress(FileNotFoundError):
        return json.loads(FILE.read_text())
    return {"sources": {}, "digests": {}}


@functools.cache
def _primitives_hash():
    """Of all that says what a reference is: code without docstrings, imports and texts, in files of whatever name."""
    folder = pathlib.Path(fhejax.__file__).parent / "primitives"
    roots = pathlib.Path(inspect.getfile(inspect.unwrap(primitive_root)))
    files = {path for path in folder.glob("*.py") if path.name != "native.py"} | {roots}
    meanings = [ast.unparse(_Meaning().visit(ast.parse(path.read_text()))) for path in files]
    return hashlib.sha256("\n".join(sorted(meanings)).encode()).hexdigest()


class _Meaning(ast.NodeTransformer):
    def visit_Import(self, node):
        return None

    visit_ImportFrom = visit_Import

    def visit_Expr(self, node):
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_JoinedStr(self, node):
        return ast.Constant("")


@functools.cache
def _emulated_hash():
    """Of what the emulator is built of."""
    total = hashlib.sha256()
    for path in sorted((ROOT / "ffi").rglob("*")):
        if path.is_file() and not {"cpu", "__pycache__"} & {*path.parts}:
            total.update(path.read_bytes())
    return total.hexdigest()


_SOURCES = {"primitives": _primitives_hash, "emulated": _emulated_hash}
