"""Combinations and weighted sums of ciphertexts by the emulated CUDA handlers, against the reference, bit for bit."""

import jax
import numpy as np
import pytest
from emulation import assert_equals_reference
from hypothesis import given, settings, strategies as st
from residues import chain, on_device, random_residues

from fhejax.primitives.combination import combination
from fhejax.primitives.weighted_sums import weighted_sums

BITS = (20, 31, 49, 50, 51, 61)
BATCHES = [((), ()), ((3,), (1,)), ((1, 2), (2, 1)), ((2, 1, 3), (1, 2, 1))]


def largest(x, moduli):
    """q - 1 everywhere, in the shape of x: [.., limbs, n]."""
    q = np.array(moduli, np.uint64)
    return on_device(np.broadcast_to(q[: x.shape[-2], None] - 1, x.shape).copy())


def ciphertexts(seed, moduli, n, batches, components=2):
    return [random_residues(seed + i, moduli, n, (*batch, components)) for i, batch in enumerate(batches)]


def numbers(seed, moduli, count, batch=()):
    return random_residues(seed, moduli, count, batch).swapaxes(-1, -2)


# --- weighted sums ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "terms", "sums", "components"), [(1, 1, 1, 1), (2, 5, 3, 2), (8, 4, 4, 3), (300, 2, 5, 2), (40, 3, 33, 1)]
)
def test_weighted_sums(n, terms, sums, components, arithmetic):
    moduli = chain(16, BITS)
    x = random_residues(n, moduli, n, (terms, components))
    weights = random_residues(n + 1, moduli, terms, (sums,))
    assert_equals_reference(lambda *y: weighted_sums(*y, moduli), x, weights, seed=n)


@pytest.mark.parametrize("terms", [4, 5, 63, 64, 65, 200])
def test_longest_lazy_sums(terms, arithmetic):
    """At their largest, residues come nearest to the limits of the lazy sums; `terms` cross those of the blocks."""
    moduli = chain(16, BITS)
    x = random_residues(0, moduli, 16, (terms, 2))
    weights = random_residues(1, moduli, terms, (2,))
    for operands in [(x, weights), (largest(x, moduli), largest(weights, moduli))]:
        assert_equals_reference(lambda *y: weighted_sums(*y, moduli), *operands)


@pytest.mark.parametrize("batches", BATCHES)
def test_weighted_sums_broadcast(batches, arithmetic):
    moduli = chain(16, (30, 55))
    x = random_residues(0, moduli, 8, (*batches[0], 3, 2))
    weights = random_residues(1, moduli, 3, (*batches[1], 5))
    assert_equals_reference(lambda *y: weighted_sums(*y, moduli), x, weights)


# --- combinations -----------------------------------------------------------------------------------------------------


def assert_combines(moduli, xs, ys, terms, weights, **options):
    count, products = len(xs) + len(ys), len(xs)

    def combine(*operands):
        *data, weights = operands
        return combination(data[:products], data[products:count], data[count:], weights, moduli)

    assert_equals_reference(combine, *xs, *ys, *terms, weights, **options)


@pytest.mark.parametrize("constant", [0, 1])
@pytest.mark.parametrize("products, terms", [(1, 0), (0, 1), (2, 3), (8, 1), (5, 13), (0, 17)])
def test_combination(products, terms, constant, arithmetic):
    moduli = chain(16, BITS)
    xs, ys, zs = (ciphertexts(seed, moduli, 20, [()] * count) for seed, count in enumerate((products, products, terms)))
    weights = numbers(9, moduli, terms + constant)
    assert_combines(moduli, xs, ys, zs, weights, seed=products)


@pytest.mark.parametrize("products", [0, 1])
def test_terms_of_three_components(products, arithmetic):
    moduli = chain(16, BITS)
    xs, ys = (ciphertexts(seed, moduli, 300, [()] * products) for seed in (0, 1))
    zs = ciphertexts(2, moduli, 300, [(), ()], components=3)
    assert_combines(moduli, xs, ys, zs, numbers(9, moduli, 2))


def test_operands_at_higher_levels(arithmetic):
    moduli = chain(16, BITS)
    xs, ys = (ciphertexts(seed, moduli[:count], 16, [()]) for seed, count in ((0, 4), (1, 6)))
    zs = ciphertexts(2, moduli[:5], 16, [()]) + ciphertexts(3, moduli[:3], 16, [()])
    assert_combines(moduli[:3], xs, ys, zs, numbers(9, moduli[:3], 3))


@pytest.mark.parametrize("batches", BATCHES)
def test_combinations_broadcast(batches, arithmetic):
    moduli = chain(16, (30, 55))
    xs, ys = (ciphertexts(seed, moduli, 8, batches) for seed in (0, 5))
    zs = ciphertexts(10, moduli, 8, batches[::-1])
    for batch in batches:
        assert_combines(moduli, xs, ys, zs, numbers(9, moduli, 3, batch))


def test_largest_combination(arithmetic):
    """Every sum at its longest between two reductions."""
    moduli = chain(16, BITS)
    x = largest(random_residues(0, moduli, 16, (2,)), moduli)
    for products, terms in [(10, 1), (1, 17)]:
        weights = largest(random_residues(0, moduli, terms + 1), moduli).swapaxes(-1, -2)
        assert_combines(moduli, [x] * products, [x] * products, [x] * terms, weights)


@settings(deadline=None, max_examples=10)
@given(
    products=st.integers(0, 4),
    terms=st.integers(0, 10),
    bits=st.lists(st.integers(20, 61), min_size=1, max_size=4),
    n=st.sampled_from([2, 16, 512]),
)
def test_any_combination(products, terms, bits, n):
    moduli = chain(n, tuple(bits))
    terms = max(terms, 1 - products)
    xs, ys, zs = (ciphertexts(seed, moduli, n, [()] * count) for seed, count in enumerate((products, products, terms)))
    assert_combines(moduli, xs, ys, zs, numbers(9, moduli, terms + 1), seed=products)


def test_empty_batches():
    moduli = chain(16, (30, 55))
    x = random_residues(0, moduli, 16, (0, 2))
    assert_combines(moduli, [x], [x], [x], numbers(9, moduli, 2))
    terms, weights = random_residues(0, moduli, 16, (0, 3, 2)), random_residues(0, moduli, 3, (1, 2))
    assert_equals_reference(lambda *y: weighted_sums(*y, moduli), terms, weights)


def test_lowered_for_cuda():
    moduli = chain(16, (30, 55))
    x = jax.ShapeDtypeStruct((3, 2, 2, 16), np.uint64)
    with jax.enable_x64(True):
        combined = jax.jit(lambda x: combination([x], [x], [], x[0, :0, :, 0], moduli))
        summed = jax.jit(lambda x: weighted_sums(x, x[:2, 0, :, :3], moduli))
        for function, name in ((combined, "combination"), (summed, "weighted_sums")):
            assert f"@fhejax_{name}_v1" in function.trace(x).lower(lowering_platforms=("cuda",)).as_text()
