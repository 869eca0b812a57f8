"""The NTT against the polynomial's values, and every lowering against the reference, bit for bit."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from references import assert_equals_reference
from residues import chain, negacyclic_product, on_device, random_residues, values_at_roots

import fhejax as fhe
from fhejax.primitives import modular
from fhejax.primitives.ntt import inverse_ntt, ntt


@pytest.mark.parametrize("lowering", ["native", "reference"])
@pytest.mark.parametrize("n", [8, 64])
def test_is_evaluation_at_the_odd_roots(n, lowering):
    moduli = chain(n, (20, 50, 61))
    x = random_residues(0, moduli, n)
    with fhe.lowering(lowering):
        got = np.asarray(ntt(x, moduli))
    for limb, q in enumerate(moduli):
        assert got[limb].tolist() == values_at_roots(np.asarray(x)[limb], q)


def test_published_vector():
    """N = 4 modulo 7681, whose smallest primitive 8th root is 1213: the values at 1213^1, 1213^5, 1213^3, 1213^7.

    The polynomial and the transform's values are those of Satriawan, Syafalni, Mareta, Anshori, Shalannanda & Barra,
    "Conceptual Review on Number Theoretic Transform and Comprehensive Review on Its Implementations", 2023, example 3.7
    for psi = 1925, which has the same set of values: evaluation at the four primitive 8th roots of unity.
    """
    q, psi = 7681, 1925
    coefficients = [1, 2, 3, 4]
    published = [1467, 2807, 3471, 7621]  # at psi^1, psi^3, psi^5, psi^7
    at = lambda x: sum(c * x**k for k, c in enumerate(coefficients)) % q
    assert [at(pow(psi, k, q)) for k in (1, 3, 5, 7)] == published
    got = np.asarray(ntt(on_device(np.array([coefficients], np.uint64)), (q,)))[0].tolist()
    assert sorted(got) == sorted(published)
    assert got == values_at_roots(coefficients, q)


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 2**32 - 1),
    log_n=st.integers(3, 11),
    bits=st.lists(st.integers(20, 61), min_size=1, max_size=3),
    batch=st.sampled_from([(), (1,), (2, 3)]),
)
def test_native_equals_reference(seed, log_n, bits, batch):
    n = 1 << log_n
    moduli = chain(n, tuple(bits))
    x = random_residues(seed, moduli, n, batch)
    for transform in (ntt, inverse_ntt):
        assert_equals_reference(transform(x, moduli), lambda x, transform=transform: transform(x, moduli), x)


@pytest.mark.parametrize("log_n", [14, 16])
def test_large_rings(log_n):
    """Native equals reference at full size, and the inverse undoes the transform, at the largest residues."""
    n = 1 << log_n
    moduli = chain(n, (50, 61))
    x = on_device(np.full((2, n), np.array(moduli, np.uint64)[:, None] - 1))
    for value in (x, random_residues(3, moduli, n)):
        forward = ntt(value, moduli)
        assert_equals_reference(forward, lambda x: ntt(x, moduli), value)
        np.testing.assert_array_equal(inverse_ntt(forward, moduli), value)


def test_product_of_polynomials():
    n, moduli = 32, chain(32, (40, 61))
    a, b = random_residues(0, moduli, n), random_residues(1, moduli, n)
    got = np.asarray(inverse_ntt(modular.multiply(ntt(a, moduli), ntt(b, moduli), moduli), moduli))
    for limb, q in enumerate(moduli):
        rows = ([int(v) for v in np.asarray(x)[limb]] for x in (a, b))
        assert got[limb].tolist() == negacyclic_product(*rows, q)


def test_vmap_is_a_leading_axis():
    moduli = chain(64, (40, 61))
    x = random_residues(1, moduli, 64, (5,))
    np.testing.assert_array_equal(jax.vmap(lambda row: ntt(row, moduli))(x), ntt(x, moduli))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("moduli", "spoil", "error", "says"),
    [
        (chain(8, (30,)), lambda x: x.astype("uint32"), TypeError, "residues are uint64"),
        (chain(8, (30, 40)), lambda x: x, ValueError, "2 limbs"),
        ((1_000_003,), lambda x: x, ValueError, "1 mod 2N"),
    ],
)
def test_refuses(moduli, spoil, error, says):
    x = spoil(random_residues(2, chain(8, (30,)), 8))
    with pytest.raises(error) as caught:
        jax.eval_shape(lambda a: ntt(a, moduli), x)
    assert says in str(caught.value)
