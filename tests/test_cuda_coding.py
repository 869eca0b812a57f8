"""Encoding and decoding by the emulated CUDA handlers: exact steps with the bits of the reference, and the embedding
with those of the CPU's kernels, which have been held against its definition."""

import functools
import math
import sys

import jax
import numpy as np
import pytest
from emulation import assert_equals_cpu, assert_equals_reference, emulated
from hypothesis import given, settings, strategies as st
from residues import chain, on_device, random_residues

from fhejax.primitives.embedding import coefficients_to_slots, slots_to_coefficients
from fhejax.primitives.rounding import decode_coefficients, encode_coefficients, residues_to_float, round_to_residues

BITS = (20, 31, 49, 50, 51, 61)
SCALES = [1.0, 2.0**40, 3.7e30, 2.0**-1070, 5e-324, sys.float_info.max]


def doubles(seed, *shape):
    """Of every size, with ties, both zeros and both ends among them."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, shape) * 2.0 ** rng.integers(-60, 130, shape)
    edges = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.0**52 + 0.5,
        5e-324,
        -sys.float_info.max,
        2.0**104,
        2.0**105,
        math.inf,
        math.nan,
    ]
    return on_device(np.where(rng.random(shape) < 0.3, rng.choice(edges, shape), x))


# --- residues ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("shape", [(1,), (2, 300), (0, 8)])
def test_rounding(shape, scale):
    moduli = chain(16, BITS)
    assert_equals_reference(lambda a: round_to_residues(a, scale, moduli), doubles(1, *shape))


@pytest.mark.parametrize("scale", [2.0**40, 2.0**100])
@pytest.mark.parametrize("log_n", [1, 4, 12])
def test_encoding(log_n, scale, arithmetic):
    n = 1 << log_n
    moduli = chain(n, BITS[2:])
    a = doubles(log_n, 2, n)
    assert_equals_reference(lambda a: encode_coefficients(a, scale, moduli), a, check=log_n < 12)


@pytest.mark.parametrize("limbs", [1, 2, 3, 4, 5, 6, 24])
def test_floats(limbs):
    moduli = chain(16, (BITS * 4)[:limbs])
    for n, batch in [(1, ()), (100, (2,))]:
        x = random_residues(limbs, moduli, n, batch)
        assert_equals_cpu(lambda x: residues_to_float(x, moduli), x)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [(61,), (20, 61), (61, 61, 61, 20)])
def test_long_chains(bits):
    """More digits than 128 bits hold products of, and places that are infinite."""
    moduli = chain(16, bits * (130 // len(bits)))
    top = on_device(np.array(moduli, np.uint64)[:, None] - np.ones(4, np.uint64))
    middle = on_device(np.array([(q // 2 - 1, q // 2, q // 2 + 1) for q in moduli], np.uint64))
    for x in (random_residues(0, moduli, 40), top, middle):
        assert_equals_cpu(lambda x: residues_to_float(x, moduli), x)


@pytest.mark.parametrize("log_n", [1, 4, 12])
def test_decoding(log_n, arithmetic):
    n = 1 << log_n
    moduli = chain(n, BITS[1:])
    x = random_residues(log_n, moduli, n, (2,))
    assert_equals_cpu(lambda x: decode_coefficients(x, moduli), x, check=log_n < 12)


@settings(deadline=None, max_examples=15)
@given(
    a=st.lists(st.floats(), min_size=1, max_size=20),
    scale=st.floats(5e-324, sys.float_info.max),
    bits=st.lists(st.integers(20, 61), min_size=1, max_size=8),
)
def test_any_doubles(a, scale, bits):
    moduli = chain(16, tuple(bits))
    assert_equals_reference(lambda a: round_to_residues(a, scale, moduli), on_device(np.array(a)))


# --- the embedding ----------------------------------------------------------------------------------------------------

SHAPES = [(1, 2), (1, 4096), (2, 4), (2, 8), (16, 128), (64, 128), (512, 8192), (2048, 4096)]
LARGE = [(1 << 12, 1 << 13), (1 << 12, 1 << 14), (1 << 15, 1 << 16)]


@pytest.mark.parametrize("shape", SHAPES + LARGE)
def test_embedding(shape):
    slots, degree = shape
    rng = np.random.default_rng(slots)
    for batch in [(), (2,)] if slots < 2048 else [(2,)]:
        z = on_device(rng.uniform(-1, 1, (*batch, slots)) + 1j * rng.uniform(-1, 1, (*batch, slots)))
        a = on_device(rng.uniform(-1, 1, (*batch, degree)))
        assert_equals_cpu(functools.partial(slots_to_coefficients, degree=degree), z, check=shape in SHAPES, seed=slots)
        assert_equals_cpu(functools.partial(coefficients_to_slots, slots=slots), a, check=shape in SHAPES, seed=slots)


@pytest.mark.parametrize("shape", [(1, 2), (64, 256), (4096, 8192)])
def test_embedding_agrees_with_the_reference(shape):
    slots, degree = shape
    rng = np.random.default_rng(slots)
    z = on_device(rng.uniform(-1, 1, slots) + 1j * rng.uniform(-1, 1, slots))
    bound = 2.0**-51 * np.log2(2 * slots)
    with emulated():
        a = slots_to_coefficients(z, degree)
        back = coefficients_to_slots(a, slots)
    assert np.abs(np.asarray(back) - np.asarray(z)).max() <= bound * (np.abs(z).max() + np.linalg.norm(a))


def test_largest_slots_do_not_overflow():
    z = on_device(np.full(64, sys.float_info.max / 2, np.complex128))
    with emulated():
        assert np.isfinite(np.asarray(slots_to_coefficients(z, 128))).all()


def test_lowered_for_cuda():
    """With the workspace, in 64-bit words, that the handler is given."""
    moduli = chain(16, (30, 55, 61))
    with jax.enable_x64(True):
        a, z = jax.ShapeDtypeStruct((2, 16), np.float64), jax.ShapeDtypeStruct((2, 1 << 12), np.complex128)
        x = jax.ShapeDtypeStruct((2, 3, 16), np.uint64)
        for function, operand, name, words in [
            (lambda a: round_to_residues(a, 1.0, moduli), a, "round_to_residues", 0),
            (lambda a: encode_coefficients(a, 1.0, moduli), a, "encode_coefficients", 0),
            (lambda x: residues_to_float(x, moduli), x, "residues_to_float", 0),
            (lambda x: decode_coefficients(x, moduli), x, "decode_coefficients", 2 * 3 * 16),
            (lambda z: slots_to_coefficients(z, 1 << 13), z, "slots_to_coefficients", 2 << 13),
            (lambda a: coefficients_to_slots(a, 8), a, "coefficients_to_slots", 0),
        ]:
            text = jax.jit(function).trace(operand).lower(lowering_platforms=("cuda",)).as_text()
            assert f"@fhejax_{name}_v1" in text and (not words or f", tensor<{words}xui64>)" in text)
