"""Change of basis and its kin for CUDA, emulated, against the reference, bit for bit."""

import math

import numpy as np
import pytest
from emulation import assert_equals_reference
from hypothesis import given, settings, strategies as st
from residues import chain, on_device, random_residues, spread

from fhejax.parameters.primes import nearest_prime
from fhejax.primitives.basis import convert_basis, mod_down, mod_raise

MIXED = (50, 40, 61, 30, 49, 55, 20, 60, 45, 51)


@pytest.mark.parametrize("n", [1, 7, 64, 300])
@pytest.mark.parametrize("sizes", [((40,), (50, 61)), (MIXED[:5], MIXED[5:]), ((45, 40, 49, 48, 47), MIXED[:4])])
def test_convert_basis(sizes, n, arithmetic):
    primes = chain(512, (*sizes[0], *sizes[1]))
    source, target = primes[: len(sizes[0])], primes[len(sizes[0]) :]
    x = random_residues(n, source, n, (2,))
    assert_equals_reference(lambda x: convert_basis(x, source, target), x, seed=n)


@pytest.mark.slow
@pytest.mark.parametrize("terms", [2, 3, 4, 62, 130])
@pytest.mark.parametrize("bits", [49, 61])
def test_convert_basis_of_many_and_largest_residues(terms, bits, arithmetic):
    source = [nearest_prime((1 << bits) - 1, 16, [])]
    while len(source) < terms:
        source.append(nearest_prime((1 << bits) - 1, 16, source))
    target = chain(8, (50, 61, 35, 36, 37, 47, 48, 46, 60))
    largest = on_device(np.array([[q - 1, 1, q // 2, q // 2 + 1] * 10 for q in source], np.uint64))
    assert_equals_reference(lambda x: convert_basis(x, tuple(source), target), largest)


@pytest.mark.parametrize("sizes", [(40,), (40, 41), (30, 50, 61), (50,) * 7])
def test_conversion_next_to_the_ends_of_the_interval(sizes, arithmetic):
    primes = chain(32, (*sizes, 45, 60))
    source, target = primes[:-2], primes[-2:]
    product = math.prod(source)
    near = [product // 2 + offset for offset in range(-8, 8)] + [(product >> k) for k in range(16)]
    x = on_device(spread(near, source))
    assert_equals_reference(lambda x: convert_basis(x, source, target), x)


@pytest.mark.parametrize("log_n", [1, 3, 6, 12])
@pytest.mark.parametrize("split", [1, 2, 4])
def test_mod_raise_and_down(split, log_n, arithmetic):
    n = 1 << log_n
    primes = chain(n, MIXED[: 3 + split])
    x = random_residues(log_n, primes, n, (2, 1) if log_n < 12 else ())
    assert_equals_reference(lambda x: mod_down(x, primes[:3], primes[3:]), x, seed=log_n)
    few = x[..., :split, :]
    assert_equals_reference(lambda x: mod_raise(x, primes[:split], primes[split:]), few, seed=log_n)


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    log_n=st.integers(1, 9),
    kept=st.lists(st.integers(20, 61), min_size=1, max_size=10),
    dropped=st.lists(st.integers(20, 61), min_size=1, max_size=5),
    batch=st.sampled_from([(), (1,), (2, 3), (0,)]),
)
def test_any_primes(seed, log_n, kept, dropped, batch):
    n = 1 << log_n
    primes = chain(n, (*kept, *dropped))
    keep, drop = primes[: len(kept)], primes[len(kept) :]
    x = random_residues(seed, primes, n, batch)
    assert_equals_reference(lambda x: mod_down(x, keep, drop), x, seed=seed)
    assert_equals_reference(lambda x: mod_raise(x, drop, keep), x[..., len(kept) :, :], seed=seed)
    assert_equals_reference(lambda x: convert_basis(x, drop, keep), x[..., len(kept) :, :], seed=seed)
