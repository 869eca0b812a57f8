"""Modular arithmetic against Python integers, every lowering, bit for bit."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from residues import chain, on_device, random_residues

import fhejax as fhe
from fhejax.primitives import modular

OPERATIONS = {
    "add": (modular.add, 2, lambda a, b, q: (a + b) % q),
    "subtract": (modular.subtract, 2, lambda a, b, q: (a - b) % q),
    "negate": (modular.negate, 1, lambda a, q: -a % q),
    "multiply": (modular.multiply, 2, lambda a, b, q: a * b % q),
    "multiply_add": (modular.multiply_add, 3, lambda a, b, c, q: (a * b + c) % q),
}


@pytest.mark.parametrize("lowering", ["native", "reference"])
@pytest.mark.parametrize("name", OPERATIONS)
@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 2**32 - 1), bits=st.lists(st.integers(20, 61), min_size=1, max_size=3))
def test_equals_python_integers(name, lowering, seed, bits):
    function, arity, definition = OPERATIONS[name]
    moduli, n = chain(16, tuple(bits)), 64
    operands = [random_residues(seed + i, moduli, n) for i in range(arity)]
    with fhe.lowering(lowering):
        got = np.asarray(function(*operands, moduli))
    for limb, q in enumerate(moduli):
        rows = [[int(v) for v in np.asarray(x)[limb]] for x in operands]
        assert got[limb].tolist() == [definition(*values, q) for values in zip(*rows, strict=True)]


@pytest.mark.parametrize("lowering", ["native", "reference"])
def test_scalar_is_one_number_a_limb(lowering):
    moduli = chain(16, (20, 50, 61))
    x, scalar = random_residues(0, moduli, 32, (2,)), random_residues(1, moduli, 1)[..., 0]
    with fhe.lowering(lowering):
        got = np.asarray(modular.multiply_scalar(x, scalar, moduli))
    expected = np.asarray(x).astype(object) * np.asarray(scalar).astype(object)[:, None]
    assert np.array_equal(got, expected % np.array(moduli, object)[:, None])


@pytest.mark.parametrize("lowering", ["native", "reference"])
def test_batch_axes_broadcast(lowering):
    moduli = chain(16, (30, 55))
    a, b = random_residues(0, moduli, 16, (3, 1)), random_residues(1, moduli, 16, (2,))
    with fhe.lowering(lowering):
        got = modular.multiply(a, b, moduli)
    q = np.array(moduli, object)[:, None]
    assert np.array_equal(got, np.asarray(a).astype(object) * np.asarray(b).astype(object) % q)


def test_vmap_maps_either_operand():
    moduli = chain(16, (30, 55))
    a, b = random_residues(0, moduli, 16, (3,)), random_residues(1, moduli, 16)
    mapped = jax.vmap(lambda x, y: modular.multiply(x, y, moduli), in_axes=(0, None))(a, b)
    swapped = jax.vmap(lambda x, y: modular.multiply(x, y, moduli), in_axes=(None, 0))(b, a)
    inner = jax.vmap(lambda x, y: modular.multiply(x, y, moduli), in_axes=(2, None))(a.transpose(1, 2, 0), b)
    for result in (mapped, swapped, inner):
        np.testing.assert_array_equal(result, modular.multiply(a, b, moduli))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("spoil", "error", "says"),
    [
        (lambda x: x.astype("uint32"), TypeError, "residues are uint64, got uint32"),
        (lambda x: x[:1], ValueError, "2 moduli"),
        (lambda x: x[..., :8], ValueError, "ring degrees differ"),
        (lambda x: on_device(np.stack([np.asarray(x)] * 3)), ValueError, "do not broadcast"),
    ],
)
def test_refuses(spoil, error, says):
    moduli = chain(16, (30, 55))
    x = random_residues(0, moduli, 16, (2,)) if "broadcast" in says else random_residues(0, moduli, 16)
    other = spoil(random_residues(1, moduli, 16))
    with pytest.raises(error) as caught:
        jax.eval_shape(lambda a, b: modular.add(a, b, moduli), x, other)
    assert says in str(caught.value)
