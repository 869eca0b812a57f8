"""CUDA handlers, emulated, against the reference, bit for bit; and what is lowered for CUDA on a machine without it."""

import functools

import cuda_compilation
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from emulation import assert_equals_reference, compiled_handlers, emulated, ntt_of_shape
from hypothesis import given, settings, strategies as st
from residues import chain, on_device, random_residues

import fhejax as fhe
from fhejax import _compat
from fhejax.parameters.primes import nearest_prime
from fhejax.primitives import define, modular, native
from fhejax.primitives.automorphism import automorphism
from fhejax.primitives.ntt import inverse_ntt, ntt
from fhejax.primitives.statement import Array, Handler, Integer, Region


def scalars(seed, moduli, batch=()):
    return random_residues(seed, moduli, 1, batch)[..., 0]


# --- value by value ---------------------------------------------------------------------------------------------------

VALUE_BY_VALUE = {
    "add": (modular.add, 2),
    "subtract": (modular.subtract, 2),
    "multiply": (modular.multiply, 2),
    "multiply_add": (modular.multiply_add, 3),
}


@pytest.mark.parametrize("n", [1, 2, 31, 64, 3000])
@pytest.mark.parametrize("name", VALUE_BY_VALUE)
def test_value_by_value(name, n, arithmetic):
    function, operands = VALUE_BY_VALUE[name]
    moduli = chain(16, (20, 49, 50, 51, 61))
    arrays = [random_residues(seed, moduli, n) for seed in range(operands)]
    assert_equals_reference(lambda *x: function(*x, moduli), *arrays, seed=n)


@pytest.mark.parametrize("name", VALUE_BY_VALUE)
def test_every_pair_of_boundary_residues(name, arithmetic):
    function, operands = VALUE_BY_VALUE[name]
    moduli = chain(16, (20, 31, 40, 49, 50, 52, 60, 61))
    edges = np.array([[0, 1, 2, q // 2, q // 2 + 1, q - 2, q - 1] for q in moduli], np.uint64)
    grids = [[np.meshgrid(*[row] * operands)[k].ravel() for row in edges] for k in range(operands)]
    arrays = [on_device(np.array(grid)) for grid in grids]
    assert_equals_reference(lambda *x: function(*x, moduli), *arrays)


@pytest.mark.parametrize("bits", [50, 61])
def test_many_products(bits, arithmetic):
    """At the largest prime that doubles serve, and at the largest of all: next to q, and anything."""
    (q,) = moduli = (nearest_prime((1 << bits) - 1, 2, []),)
    assert q < 1 << bits
    rng = np.random.default_rng(bits)
    any_of = lambda: rng.integers(0, q, 1 << 17, dtype=np.uint64)
    next_to = lambda: np.uint64(q) - rng.integers(1, 1 << 12, 1 << 17, dtype=np.uint64)
    a = on_device(np.concatenate([any_of(), next_to(), any_of()])[None])
    b = on_device(np.concatenate([any_of(), next_to(), next_to()])[None])
    assert_equals_reference(lambda a, b: modular.multiply(a, b, moduli), a, b, check=False)


@pytest.mark.parametrize(
    "batches",
    [
        ((), (2,)),
        ((3, 1), (2,)),
        ((2, 1, 3), (1, 2, 3)),
        ((2, 3, 1, 2, 1), (1, 1, 2, 1, 3)),
        ((2, 1) * 4, (1, 2) * 4),
    ],
)
def test_batch_axes_broadcast(batches, arithmetic):
    moduli = chain(16, (30, 55))
    a, b = (random_residues(seed, moduli, 8, batch) for seed, batch in enumerate(batches))
    scalar = scalars(2, moduli, batches[1])
    assert_equals_reference(lambda a, b: modular.multiply(a, b, moduli), a, b)
    assert_equals_reference(lambda a, b: modular.multiply_add(a, b, a, moduli), a, b)
    assert_equals_reference(lambda a, s: modular.multiply_scalar(a, s, moduli), a, scalar)


def test_too_many_batch_axes_are_refused():
    moduli = chain(16, (30,))
    a, b = (random_residues(seed, moduli, 1, batch) for seed, batch in enumerate(((2, 1) * 5, (1, 2) * 5)))
    with emulated(), pytest.raises(jax.errors.JaxRuntimeError, match="more than eight batch axes"):
        modular.multiply(a, b, moduli)


def test_an_empty_batch():
    moduli = chain(16, (30, 55))
    x = random_residues(0, moduli, 16, (0,))
    with emulated():
        assert modular.multiply(x, x, moduli).shape == (0, 2, 16)
        assert ntt(x, moduli).shape == (0, 2, 16)


def test_multiply_scalar(arithmetic):
    moduli = chain(16, (20, 50, 61))
    x = random_residues(0, moduli, 300, (2,))
    assert_equals_reference(lambda x, s: modular.multiply_scalar(x, s, moduli), x, scalars(1, moduli))


# --- transforms -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("log_n", range(1, 14))
@pytest.mark.parametrize("transform", [ntt, inverse_ntt])
def test_transforms(transform, log_n, arithmetic):
    moduli = chain(1 << log_n, (20, 50, 61))
    x = random_residues(log_n, moduli, 1 << log_n, (2,) if log_n < 8 else ())
    assert_equals_reference(lambda x: transform(x, moduli), x, check=log_n < 13, seed=log_n)


@pytest.mark.parametrize("transform", [ntt, inverse_ntt])
def test_largest_residues(transform, arithmetic):
    """The ends of lazy ranges, at the largest primes that each arithmetic serves."""
    n = 1 << 12
    moduli = tuple(nearest_prime((1 << bits) - 1, 2 * n, []) for bits in (50, 61))
    q = np.array(moduli, np.uint64)[:, None]
    patterns = [np.full(n, 1), np.arange(n) % 2, (np.arange(n) // 64) % 2, np.arange(n) < n // 2]
    x = on_device(np.stack([(q - 1) * pattern.astype(np.uint64) for pattern in patterns]))
    assert_equals_reference(lambda x: transform(x, moduli), x, check=False)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("log_n", [7, 10])
def test_transforms_of_any_shape(log_n, inverse, arithmetic):
    """Columns and rows of any length that a block can hold, few and many of them together."""
    moduli = chain(1 << log_n, (50, 60))
    x = random_residues(log_n, moduli, 1 << log_n)
    expected = (inverse_ntt if inverse else ntt)(x, moduli)
    for first in range(3, log_n - 2):
        second = log_n - first
        for columns, rows in [(0, 0), (1, 2), (min(second, 11 - first), min(first, 11 - second))]:
            with emulated(seed=first):
                got = ntt_of_shape(x, moduli, inverse, (first, columns, rows))
            np.testing.assert_array_equal(got, expected, err_msg=str((first, columns, rows)))


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    log_n=st.integers(1, 12),
    bits=st.lists(st.integers(20, 61), min_size=1, max_size=3),
    batch=st.sampled_from([(), (1,), (2, 3)]),
)
def test_any_primes(seed, log_n, bits, batch):
    moduli = chain(1 << log_n, tuple(bits))
    x = random_residues(seed, moduli, 1 << log_n, batch)
    for transform in (ntt, inverse_ntt):
        assert_equals_reference(lambda x, transform=transform: transform(x, moduli), x, seed=seed)


@pytest.mark.parametrize("n", [2, 8, 512, 1024])
def test_automorphism(n):
    x = random_residues(0, chain(16, (30, 55)), n, (2,))
    for element in sorted({1, 3 % (2 * n), 5 % (2 * n), n - 1, n + 1, 2 * n - 1}):
        assert_equals_reference(lambda x, e=element: automorphism(x, e), x, seed=element)


@pytest.mark.slow
@pytest.mark.skipif(cuda_compilation.find_nvcc() is None, reason="needs nvcc")
def test_kernels_compile_without_warnings_or_spills(capsys):
    nvcc = cuda_compilation.find_nvcc()
    sources = sorted(cuda_compilation.SOURCES.glob("*.cu"))
    assert sources and cuda_compilation.check(nvcc, sources) == []
    kernels = capsys.readouterr().out
    assert "NttColumns<true, WriteRows, InverseRows>" in kernels and " 100 " in kernels


@pytest.mark.slow
@pytest.mark.skipif(cuda_compilation.find_nvcc() is None, reason="needs nvcc")
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("int unused = 0; x[0] = 1;", "never referenced"),
        ("volatile int y[8]; y[x[0] & 7] = 1; x[1] = y[x[2] & 7];", "keeps registers in memory"),
    ],
)
def test_the_compilers_complaints_are_found(tmp_path, body, says, capsys):
    source = tmp_path / "wrong.cu"
    source.write_text(f"__global__ void Wrong(int* x) {{ {body} }}")
    wrong = cuda_compilation.check(cuda_compilation.find_nvcc(), [source])
    assert len(wrong) == 3 and all(says in each for each in wrong)


# --- lowering ---------------------------------------------------------------------------------------------------------

MODULI = chain(16, (30, 55))
LARGE = (1 << 16,)  # a batch whose sums have handlers

CALLS = {
    "fhejax_add_v1": (lambda x: modular.add(x, x, MODULI), LARGE),
    "fhejax_subtract_v1": (lambda x: modular.subtract(x, x, MODULI), LARGE),
    "fhejax_multiply_v1": (lambda x: modular.multiply(x, x, MODULI), ()),
    "fhejax_multiply_add_v1": (lambda x: modular.multiply_add(x, x, x, MODULI), ()),
    "fhejax_multiply_scalar_v1": (lambda x: modular.multiply_scalar(x, x[..., 0], MODULI), ()),
    "fhejax_ntt_v1": (lambda x: ntt(x, MODULI), ()),
    "fhejax_inverse_ntt_v1": (lambda x: inverse_ntt(x, MODULI), ()),
    "fhejax_automorphism_v1": (lambda x: automorphism(x, 3), ()),
}


def operand(batch):
    with jax.enable_x64(True):
        return jax.ShapeDtypeStruct((*batch, 2, 16), jnp.uint64)


def lowered(function, batch, *platforms):
    again = lambda x: function(x)  # JAX keeps what it has lowered
    with jax.enable_x64(True):
        return jax.jit(again).trace(operand(batch)).lower(lowering_platforms=platforms).as_text()


def test_what_is_declared_is_compiled():
    assert compiled_handlers() == sorted(native.handlers)
    assert set(CALLS) <= native.handlers


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CALLS)
def test_lowering_for_cuda_calls_the_handler(name):
    function, batch = CALLS[name]
    assert f"@{name}" in lowered(function, batch, "cuda")
    with fhe.lowering("reference"):
        assert "custom_call" not in lowered(function, batch, "cuda")
    assert lowered(function, batch, "cpu", "cuda").count(f"@{name}") == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CALLS)
def test_export_for_both(name):
    function, batch = CALLS[name]
    with jax.enable_x64(True):
        exported = jax.export.export(jax.jit(function), platforms=("cpu", "cuda"), disabled_checks=fhe.export_checks())(
            operand(batch)
        )
    assert exported.platforms == ("cpu", "cuda")
    assert exported.mlir_module().count(f"@{name}") == 2
    x = random_residues(0, MODULI, 16, batch)
    np.testing.assert_array_equal(jax.export.deserialize(exported.serialize()).call(x), function(x))


def test_composed_operations_are_made_of_handlers():
    with jax.enable_x64(True), fhe.lowering("composed"):
        params = fhe.Parameters.for_depth(1, log_degree=4, security=None)
        seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 2)
        keys = fhe.evaluation_keys(seeds[1], fhe.secret_key(seeds[0], params))
        x = fhe.encrypt(seeds[1], fhe.secret_key(seeds[0], params), [1.0])
        text = jax.jit(fhe.square).trace(x, keys).lower(lowering_platforms=("cuda",)).as_text()
    assert "@fhejax_ntt_v1" in text and "@fhejax_inverse_ntt_v1" in text


@pytest.mark.parametrize("x64", [False, True])
def test_workspace_is_a_result_that_nobody_sees(x64):
    bind = define.define_primitive(
        f"test_workspace_{x64}",
        abstract=lambda x, *, factor: _compat.like([x], x.shape, x.dtype, 0),
        reference=lambda x, *, factor: x * factor,
        handler=Handler(
            "test_workspace",
            (Array("x", "rows columns", "float32"),),
            (Integer("factor", 1, 9),),
            (Array("out", "rows columns", "float32"),),
            (Region("rows_again", "factor * rows * columns"),),
        ),
    )
    define.definitions.pop(f"fhejax_test_workspace_{x64}")
    native.handlers.discard("fhejax_test_workspace_v1")
    operand = jax.ShapeDtypeStruct((2, 5), jnp.float32)
    with jax.enable_x64(x64):
        trace = jax.jit(functools.partial(bind, factor=3)).trace(operand)
        text = trace.lower(lowering_platforms=("cuda",)).as_text()
    assert "(tensor<2x5xf32>) -> (tensor<2x5xf32>, tensor<30xui64>)" in text and "@fhejax_test_workspace_v1" in text
    assert "return" in text and [out.shape for out in jax.tree.leaves(trace.out_info)] == [(2, 5)]


def test_the_reference_serves_where_devices_have_no_kernels(monkeypatch):
    function, batch = CALLS["fhejax_ntt_v1"]
    monkeypatch.setattr(native, "cuda_extension", lambda: None)
    monkeypatch.setattr(_compat, "has_devices", lambda platform: platform == "cuda")
    assert "@fhejax_ntt_v1" not in lowered(function, batch, "cuda")
    monkeypatch.setattr(native, "cuda_extension", lambda: native)
    assert "@fhejax_ntt_v1" in lowered(function, batch, "cuda")


def test_an_unknown_arithmetic_is_named(monkeypatch):
    monkeypatch.setenv("FHEJAX_CUDA_ARITHMETIC", "float")
    with emulated(), pytest.raises(jax.errors.JaxRuntimeError, match="neither integer nor double: float"):
        ntt(random_residues(0, MODULI, 16), MODULI)
