"""Sums of ciphertexts times numbers, and of products of ciphertexts: against Python integers, and by every kernel."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from references import assert_equals_reference
from residues import chain, on_device, random_residues

from fhejax.primitives import native
from fhejax.primitives.weighted_sums import weighted_sums

EXTENSION = native.cpu_extension()
SETS = EXTENSION.instruction_sets() if EXTENSION else ()
BITS = (20, 40, 45, 50, 51, 61)


def operands(seed, moduli, n, terms, sums, batch=(), components=2):
    x = random_residues(seed, moduli, n, (*batch, terms, components))
    return x, random_residues(seed + 1, moduli, terms, (sums,))


def sums_of_integers(x, weights, moduli):
    """By Python integers, limb by limb."""
    limbs = [
        np.einsum("...tcn,st->...scn", x[..., i, :].astype(object), weights[:, i].astype(object)) % q
        for i, q in enumerate(moduli)
    ]
    return np.stack(limbs, axis=-2).astype(np.uint64)


@given(
    st.integers(1, 40), st.integers(1, 9), st.sampled_from([4, 8, 32, 128]), st.sampled_from(BITS), st.integers(0, 99)
)
@settings(max_examples=15, deadline=None)
def test_weighted_sums_are_those_of_integers(terms, sums, n, bits, seed):
    moduli = chain(n, (bits, 30))
    x, weights = operands(seed, moduli, n, terms, sums)
    expected = sums_of_integers(np.asarray(x), np.asarray(weights), moduli)
    np.testing.assert_array_equal(weighted_sums(x, weights, moduli), expected)
    assert_equals_reference(expected, lambda x, w: weighted_sums(x, w, moduli), x, weights)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("terms", [1, 14, 15, 40, 700])
def test_every_instruction_set(name, terms):
    """At their largest, residues come nearest to the limits of the lazy sums; `terms` cross those of the blocks."""
    n = 128
    moduli = chain(n, BITS)
    x, weights = operands(terms, moduli, n, terms, 5, components=3)
    top = np.array(moduli, np.uint64)[:, None] - 1
    largest = on_device(np.broadcast_to(top, x.shape).copy()), on_device(np.broadcast_to(top, weights.shape).copy())
    default = EXTENSION.instruction_set()
    EXTENSION.choose_instruction_set(name)
    try:
        got = [np.asarray(weighted_sums(*pair, moduli)) for pair in ((x, weights), largest)]
    finally:
        EXTENSION.choose_instruction_set(default)
    for found, pair in zip(got, ((x, weights), largest), strict=True):
        np.testing.assert_array_equal(found, sums_of_integers(*map(np.asarray, pair), moduli))


def test_batches_broadcast_and_vmap():
    n, moduli = 16, chain(16, (40, 50))
    x, weights = operands(0, moduli, n, 3, 2, batch=(4, 1))
    many = np.stack([np.asarray(weights), np.asarray(weights)[::-1]])
    got = weighted_sums(x, on_device(many), moduli)
    assert got.shape == (4, 2, 2, 2, 2, n)
    for i in range(4):
        for j in range(2):
            expected = sums_of_integers(np.asarray(x)[i, 0], many[j], moduli)
            np.testing.assert_array_equal(got[i, j], expected)
    mapped = jax.vmap(lambda x, w: weighted_sums(x, w, moduli), (0, None))(x[:, 0], weights)
    np.testing.assert_array_equal(mapped, got[:, 0])


def test_rows_of_several_blocks():
    """A long row is taken in parts; the last one may be shorter."""
    n, moduli = 1 << 11, chain(1 << 11, (45, 61))
    x, weights = operands(3, moduli, n, 33, 6)
    assert_equals_reference(weighted_sums(x, weights, moduli), lambda x, w: weighted_sums(x, w, moduli), x, weights)


@pytest.mark.parametrize(
    ("spoil", "error", "says"),
    [
        (lambda x, w: (x, w.astype("uint32")), TypeError, "residues are uint64, got uint32"),
        (lambda x, w: (x[:2], w), ValueError, "do not fit terms"),
        (lambda x, w: (x, w[:, :1]), ValueError, "for 2 moduli"),
        (lambda x, w: (x[:0], w[..., :0]), ValueError, "do not fit terms"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_refuses_what_does_not_fit(spoil, error, says):
    moduli = chain(16, (40, 50))
    x, weights = spoil(*operands(0, moduli, 16, 3, 2))
    with pytest.raises(error) as caught:
        jax.eval_shape(lambda x, w: weighted_sums(x, w, moduli), x, weights)
    assert says in str(caught.value)
