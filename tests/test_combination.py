"""Sums of products of ciphertexts, of ciphertexts times numbers, and of a constant: against Python integers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from references import lowerings
from residues import chain, on_device, random_residues

import fhejax as fhe
from fhejax.primitives import native
from fhejax.primitives.combination import combination
from fhejax.primitives.multiply_ciphertexts import multiply_ciphertexts

EXTENSION = native.cpu_extension()
SETS = EXTENSION.instruction_sets() if EXTENSION else ()


def operands(seed, moduli, n, products, terms, constant, more=0, components=2, batch=((), ())):
    """x, y and weights have the first batch, terms the second; `more` limbs are there to be left alone."""
    above = moduli + chain(n, (33, 34))[:more]
    xs, ys = ([random_residues(seed + 2 * i + j, above, n, (*batch[0], 2)) for i in range(products)] for j in (0, 1))
    parts = [random_residues(seed + 100 + i, above, n, (*batch[1], components)) for i in range(terms)]
    numbers = terms + constant
    weights = random_residues(seed + 999, moduli, max(numbers, 1), batch[0])
    return xs, ys, parts, jnp.swapaxes(weights, -1, -2)[..., :numbers, :]


def integers(xs, ys, terms, weights, moduli):
    """By Python integers."""
    take = lambda x: np.asarray(x)[..., : len(moduli), :].astype(object)
    q, weights = np.array(moduli, object)[:, None], np.asarray(weights).astype(object)
    components = 3 if xs else terms[0].shape[-3]
    total = [0] * components
    for x, y in zip(map(take, xs), map(take, ys), strict=True):
        (x0, x1), (y0, y1) = (np.moveaxis(each, -3, 0) for each in (x, y))
        total = [a + b for a, b in zip(total, (x0 * y0, x0 * y1 + x1 * y0, x1 * y1), strict=True)]
    for i, term in enumerate(map(take, terms)):
        for component in range(term.shape[-3]):
            total[component] = total[component] + term[..., component, :, :] * weights[..., i, :, None]
    if weights.shape[-2] > len(terms):
        total[0] = total[0] + weights[..., -1, :, None]
    shape = np.broadcast_shapes(*(np.shape(each) for each in total))
    return np.stack([np.broadcast_to(each % q, shape) for each in total], axis=-3).astype(np.uint64)


@given(
    st.integers(0, 4),
    st.integers(0, 5),
    st.booleans(),
    st.integers(0, 2),
    st.sampled_from([4, 8, 32]),
    st.integers(0, 9),
)
@settings(max_examples=25, deadline=None)
def test_sums_are_those_of_integers(products, terms, constant, more, n, seed):
    if products + terms == 0:
        terms = 1
    moduli = chain(n, (50, 61))
    given = operands(seed, moduli, n, products, terms, constant, more)
    expected = integers(*given, moduli)
    for lowering in lowerings():
        with fhe.lowering(lowering):
            np.testing.assert_array_equal(combination(*given, moduli), expected)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("products, terms, n", [(1, 0, 8), (0, 3, 64), (20, 3, 256), (7, 90, 2048)])
def test_every_instruction_set(name, products, terms, n):
    """Residues at their largest come nearest to the limits of lazy sums; long rows are taken in several parts."""
    moduli = chain(n, (20, 45, 50, 51, 61))
    given = operands(1, moduli, n, products, terms, True, 1)
    largest = jax.tree.map(lambda x: on_device(np.broadcast_to(tops(x, moduli), x.shape).copy()), given)
    default = EXTENSION.instruction_set()
    EXTENSION.choose_instruction_set(name)
    try:
        got = [np.asarray(combination(*each, moduli)) for each in (given, largest)]
    finally:
        EXTENSION.choose_instruction_set(default)
    for found, each in zip(got, (given, largest), strict=True):
        np.testing.assert_array_equal(found, integers(*each, moduli))


def tops(x, moduli):
    rows = np.array([*moduli, *[1] * 9], np.uint64) - 1
    return rows[: x.shape[-1]] if x.shape[-1] == len(moduli) else rows[: x.shape[-2], None]


def test_batches_broadcast_and_vmap():
    moduli = chain(16, (40, 50))
    given = operands(5, moduli, 16, 2, 2, True, batch=((3, 1), (4,)))
    expected = integers(*given, moduli)
    assert expected.shape == (3, 4, 3, 2, 16)
    np.testing.assert_array_equal(combination(*given, moduli), expected)
    given = operands(6, moduli, 16, 1, 1, True, batch=((3,), ()))
    mapped = jax.vmap(lambda x, y, t, w: combination(x, y, t, w, moduli), (0, 0, None, 0))(*given)
    np.testing.assert_array_equal(mapped, integers(*given, moduli))


def test_three_components():
    moduli = chain(16, (40, 50))
    for products in (0, 1):
        given = operands(7, moduli, 16, products, 2, True, components=3)
        for lowering in lowerings():
            with fhe.lowering(lowering):
                np.testing.assert_array_equal(combination(*given, moduli), integers(*given, moduli))


def test_products_leave_higher_limbs_alone():
    n, primes = 32, chain(32, (50, 45, 44, 43, 51))
    moduli, special = primes[:3], primes[4:]
    x, y = (random_residues(i, primes[: 3 + i], n, (2,)) for i in (0, 1))
    key = random_residues(9, primes, n, (4, 2))
    expected = multiply_ciphertexts(x, y[..., :3, :], key, moduli, special, 1)
    for lowering in lowerings():
        with fhe.lowering(lowering):
            np.testing.assert_array_equal(multiply_ciphertexts(x, y, key, moduli, special, 1), expected)
            np.testing.assert_array_equal(multiply_ciphertexts(y, x, key, moduli, special, 1), expected)


@pytest.mark.parametrize(
    ("spoil", "error", "says"),
    [
        (lambda x, y, t, w: ([*x, *x], y, t, w), ValueError, "need as many of each"),
        (lambda x, y, t, w: ([], [], [], w[:1]), ValueError, "neither products nor terms"),
        (lambda x, y, t, w: (x, y, t, w[:1]), ValueError, "for each of 2 terms"),
        (lambda x, y, t, w: (x, y, t, w[:, :1]), ValueError, "need 2 numbers"),
        (lambda x, y, t, w: (x, y, t, w.astype("uint32")), TypeError, "weights are uint64, got uint32"),
        (lambda x, y, t, w: (x, y, [t[0], t[1].astype("uint32")], w), TypeError, "residues are uint64, got uint32"),
        (lambda x, y, t, w: (x, [y[0][..., :1, :]], t, w), ValueError, "2 limbs or more"),
        (lambda x, y, t, w: (x, [y[0][..., :8]], t, w), ValueError, "of degree 16"),
        (lambda x, y, t, w: (x, [y[0][:1]], t, w), ValueError, "need 2 components"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_refuses_what_does_not_fit(spoil, error, says):
    moduli = chain(16, (40, 50))
    given = spoil(*operands(0, moduli, 16, 1, 2, True))
    with pytest.raises(error) as caught:
        jax.eval_shape(lambda given: combination(*given, moduli), given)
    assert says in str(caught.value)
