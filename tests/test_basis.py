"""Change of basis, ModDown and rescale against big integers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from references import assert_equals_reference
from residues import centred, chain, compose, on_device, random_residues, spread

import fhejax as fhe
from fhejax.primitives.basis import convert_basis, mod_down, mod_raise
from fhejax.primitives.ntt import inverse_ntt, ntt

LOWERINGS = ["native", "reference"]


def fixed_point_overflow(column, source):
    """The module's rule for v, in Python integers."""
    product = math.prod(source)
    y = [int(x) * pow(product // c, -1, c) % c for x, c in zip(column, source, strict=True)]
    if len(source) == 1:
        return y, int(y[0] > (source[0] - 1) // 2)
    total = 1 << 50
    for value, c in zip(y, source, strict=True):
        t = c.bit_length()
        top = value << (52 - t) if t <= 52 else value >> (t - 52)
        total += top * ((1 << (t + 51)) // c) >> 52
    return y, total >> 51


@pytest.mark.parametrize("lowering", LOWERINGS)
@settings(deadline=None, max_examples=8)
@given(
    seed=st.integers(0, 2**32 - 1),
    source_bits=st.lists(st.integers(20, 61), min_size=1, max_size=5),
    target_bits=st.lists(st.integers(20, 61), min_size=1, max_size=3),
)
def test_conversion_follows_its_rule(lowering, seed, source_bits, target_bits):
    primes = chain(16, (*source_bits, *target_bits))
    source, target = primes[: len(source_bits)], primes[len(source_bits) :]
    x, product = random_residues(seed, source, 32), math.prod(source)
    with fhe.lowering(lowering):
        got = np.asarray(convert_basis(x, source, target))
    for k, column in enumerate(np.asarray(x).T):
        y, v = fixed_point_overflow(column, source)
        integer = sum(a * (product // c) for a, c in zip(y, source, strict=True)) - v * product
        assert [integer % d for d in target] == got[:, k].tolist()
        assert abs(integer) <= product * (0.5 + len(source) * 2.0**-49)


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("sizes", [(40,), (40, 41), (30, 50, 61), (50,) * 7])
def test_conversion_is_centred(lowering, sizes):
    primes = chain(32, (*sizes, 45, 60))
    source, target = primes[:-2], primes[-2:]
    product = math.prod(source)
    rng = np.random.default_rng(7)
    digits = [int.from_bytes(rng.bytes(64), "little") % product for _ in range(26)]
    # The edge itself is included where the rule is exact; elsewhere, a margin outside the fixed-point error.
    margin = 0 if len(sizes) == 1 else product >> 40
    edges = [0, 1, product - 1, product // 2 - margin, product // 2 + 1 + margin, product // 3]
    integers = digits + edges
    with fhe.lowering(lowering):
        got = convert_basis(on_device(spread(integers, source)), source, target)
    np.testing.assert_array_equal(got, spread([centred(x, product) for x in integers], target))


@pytest.mark.parametrize("lowering", ["native", "composed", "reference"])
@pytest.mark.parametrize("dropped", [1, 2, 4])
def test_mod_down_rounds_to_nearest(lowering, dropped):
    n = 32
    primes = chain(n, (40, 45, 50, 38, 39, 41, 61)[: 3 + dropped])
    keep, drop = primes[:3], primes[3:]
    divisor = math.prod(drop)
    x = random_residues(11, primes, n, (2,))
    with fhe.lowering(lowering):
        got = inverse_ntt(mod_down(ntt(x, primes), keep, drop), keep)
    for entry in range(2):
        integers = compose(np.asarray(x)[entry], primes)
        expected = [(v - centred(v, divisor)) // divisor for v in integers]
        np.testing.assert_array_equal(got[entry], spread(expected, keep))


@pytest.mark.parametrize("lowering", ["native", "composed", "reference"])
@pytest.mark.parametrize("kept", [1, 2])
def test_mod_raise_takes_the_centred_integer(lowering, kept):
    n = 32
    primes = chain(n, (46, 40, 50, 61, 41))
    source, more = primes[:kept], primes[kept:]
    x = random_residues(4, source, n, (2,))
    with fhe.lowering(lowering):
        got = inverse_ntt(mod_raise(ntt(x, source), source, more), primes)
    for entry in range(2):
        integers = [centred(v, math.prod(source)) for v in compose(np.asarray(x)[entry], source)]
        np.testing.assert_array_equal(got[entry], spread(integers, primes))


@settings(deadline=None, max_examples=6)
@given(seed=st.integers(0, 2**32 - 1), kept=st.integers(1, 4), dropped=st.integers(1, 4), log_n=st.integers(3, 9))
def test_native_equals_reference(seed, kept, dropped, log_n):
    n = 1 << log_n
    primes = chain(n, (50, 40, 61, 30, 45, 55, 35, 60)[: kept + dropped])
    x = random_residues(seed, primes, n)
    divide = lambda x: mod_down(x, primes[:kept], primes[kept:])
    assert_equals_reference(divide(x), divide, x)


@pytest.mark.usefixtures("unchecked")
def test_refuses_to_drop_everything():
    primes = chain(8, (30, 31))
    with pytest.raises(ValueError, match="keeps 0 moduli"):
        mod_down(random_residues(0, primes, 8), (), primes)
