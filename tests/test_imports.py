"""Imports run one way, one file touches JAX's extension points, and files stay small."""

import ast
import pathlib

import pytest

import fhejax

PACKAGE = pathlib.Path(fhejax.__file__).parent
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")

# Each file may import from those above it only.
ORDER = [
    "parameters.primes", "parameters.security", "parameters.moduli", "parameters.parameters", "errors", "report.plots",
    "report.progress", "report.precision", "_compat", "primitives.native",
    "primitives.statement", "primitives.handlers", "primitives.define", "primitives.modular",
    "primitives.ntt", "primitives.automorphism", "primitives.basis", "primitives.sampling", "primitives.key_switch",
    "primitives.multiply_ciphertexts", "primitives.double_hoisting", "primitives.key_generation",
    "primitives.combination", "primitives.weighted_sums", "primitives.embedding", "primitives.rounding",
    "primitives.encryption", "primitives.calls",
    "scheme.random", "scheme.values", "scheme.encoding", "scheme.keys", "kinds.noise",
    "kinds.simulated", "kinds.domains", "operations.encryption", "kinds.ciphertext_operations", "operations.levels",
    "operations.arithmetic", "operations.rotations", "planning.rotation_keys", "planning.plan",
    "kinds.simulated_operations", "linear.diagonals", "linear.plan", "linear.transform", "linear.evaluation",
    "kinds.simulated_transforms", "polynomials.checks", "polynomials.algebra", "polynomials.plot",
    "polynomials.polynomial", "polynomials.plan", "polynomials.report", "polynomials.chebyshev", "polynomials.remez",
    "polynomials.minimax", "polynomials.least_squares", "polynomials.gradient", "polynomials.fitting",
    "polynomials.evaluation", "functions.composite", "functions.fits", "functions.range_extension",
    "functions.activations", "functions.elementary", "functions.inverse", "functions.comparison", "functions.maximum",
    "functions.sqrt_log", "functions.softmax", "bootstrapping.failure", "bootstrapping.preset", "bootstrapping.dft",
    "bootstrapping.mod1", "bootstrapping.keys", "bootstrapping.plan", "bootstrapping.report",
    "bootstrapping.bootstrapping", "bootstrapping.stages", "kinds.simulated_bootstrapping", "bootstrapping.refresh",
    "bootstrapping.batch", "bootstrapping.profile", "bootstrapping.__main__", "serialization.headers",
    "serialization.container", "serialization.source", "serialization.numbers", "serialization.residues",
    "serialization.polynomials", "serialization.transforms", "serialization.plans", "serialization.kinds",
    "serialization.files", "serialization.exports", "bootstrapping.files", "arrays.layouts.layout",
    "arrays.layouts.axis_digits", "arrays.layouts.broadcasting", "arrays.layouts.maps", "arrays.layouts.record",
    "arrays.layouts.shapes", "arrays.layouts.placement", "arrays.operations.views", "arrays.operations.elementwise",
    "arrays.operations.conversions", "arrays.operations.reductions", "arrays.products.sums", "kinds.simulated_sums",
    "arrays.products.columns", "arrays.products.grids", "arrays.products.plans", "arrays.products.ciphertext_products",
    "arrays.products.diagonal_products", "arrays.products.matmul", "arrays.images.multiplexing",
    "arrays.images.convolutions", "arrays.images.pooling", "arrays.array", "arrays.exports", "arrays.files",
]  # fmt: skip


def imports(path):
    """The names that a file imports, as dotted modules."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def dotted(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


@pytest.mark.parametrize("path", FILES, ids=dotted)
def test_imports_run_one_way(path):
    name = dotted(path)
    assert name in ORDER, f"{name} has no place in the order of imports yet"
    below = {f"fhejax.{other}" for other in ORDER[ORDER.index(name) :]}
    assert not below & set(imports(path))


@pytest.mark.parametrize("path", FILES, ids=dotted)
def test_one_file_touches_the_extension_points(path):
    text = path.read_text()
    if dotted(path) != "_compat":
        for point in ("jax.extend", "jax.interpreters", "jax.ffi", "jax.core", "jax._src"):
            assert point not in text


@pytest.mark.parametrize("path", FILES, ids=dotted)
def test_files_have_one_subject(path):
    assert path.stat().st_size < 20 * 1024


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_kind_of_value_is_registered_once(path):
    """Of two functions for one type, `singledispatch` would leave the first unused, without a word."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    found = [
        ast.unparse(each) for node in functions for each in node.decorator_list if ".register(" in ast.unparse(each)
    ]
    assert sorted(found) == sorted(set(found))
