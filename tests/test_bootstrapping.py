"""Bootstrapping from end to end: what comes out, on vectors that others get wrong, in loops, and under JAX."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bootstrapping_cases import encrypted, of_whole, opened, rms, setup, simulated, values
from operations import seed, stack

import fhejax as fhe
from fhejax.bootstrapping.preset import PRESETS

ORDERS = pytest.mark.parametrize("slots_first", [True, False], ids=["slots first", "slots last"])

VECTORS = {
    "zero": lambda n: np.zeros(n),
    "one": lambda n: np.ones(n),
    "minus one": lambda n: -np.ones(n),
    "small constant": lambda n: np.full(n, 2.0**-12),
    "alternating": lambda n: (-1.0) ** np.arange(n),
    "spike": lambda n: np.eye(1, n, 3)[0],
    "half zero": lambda n: np.where(np.arange(n) < n // 2, 1.0, 0.0),
    "imaginary unit": lambda n: np.full(n, 1j),
    "turning": lambda n: np.exp(2j * np.pi * np.arange(n) / n),
}


@pytest.mark.sampled(1)
@ORDERS
@pytest.mark.parametrize("name", VECTORS)
def test_vectors_at_the_bound(name, slots_first):
    """No vector comes out worse than simulated, and constants no worse than random values by much."""
    s = setup(slots_first=slots_first)
    message = VECTORS[name](s.slots)
    y = fhe.bootstrap(encrypted(s, message), s.keys)
    assert (y.level, y.scale) == (s.boot.output_level, s.boot.params.scale_at(s.boot.output_level))
    assert y.real == (not np.iscomplexobj(message))
    bits, more = -np.log2(np.max(np.abs(opened(s, y) - message))), of_whole(s, message)[1]
    assert more > -1.5 and bits > (20 if slots_first else 15)


@pytest.mark.slow
@pytest.mark.parametrize("kind, count", [("real", 50), ("complex", 10)])
def test_many_in_a_row(kind, count):
    """Each adds its error to those before it, and no more."""
    s = setup()
    message = values(s, kind)
    x, model = encrypted(s, message), simulated(s, message)
    with jax.enable_x64(True):
        for i in range(1, count + 1):
            x, model = fhe.bootstrap(x, s.keys), fhe.bootstrap(model, s.boot)
            if i in (1, 10, 50):
                assert 0.6 < rms(opened(s, x) - message) / rms(model.errors) < 1.6


def test_same_seeds_same_bits():
    """Of keys, and of what comes out, whatever the x64 flag."""
    s = setup()
    with jax.enable_x64(True):
        again = s.boot.keys(seed(12), fhe.secret_key(seed(11), s.boot.params))
        jax.tree.map(np.testing.assert_array_equal, again, s.keys)
        y = fhe.bootstrap(encrypted(s, values(s)), again)
    z = fhe.bootstrap(encrypted(s, values(s)), s.keys)
    assert jax.tree.structure(y) == jax.tree.structure(z)
    np.testing.assert_array_equal(y.data, z.data)
    other = s.boot.keys(seed(14), s.secret)
    assert not np.array_equal(np.asarray(other.to_sparse.first), np.asarray(s.keys.to_sparse.first))


def test_batches_and_transformations():
    """A program that is compiled and mapped gives the bits of one ciphertext after the other; of a batch, the type."""
    s = setup()
    xs = [encrypted(s, values(s, index=i), i) for i in range(2)]
    one_by_one = [np.asarray(fhe.bootstrap(x, s.keys).data) for x in xs]
    with jax.enable_x64(True):
        batch = stack(xs, (2,))
    y = jax.jit(jax.vmap(fhe.bootstrap, (0, None)))(batch, s.keys)
    np.testing.assert_array_equal(y.data, one_by_one)
    assert jax.tree.structure(y) == jax.tree.structure(jax.eval_shape(fhe.bootstrap, batch, s.keys))


def test_both_orders_take_each_others_ciphertexts():
    """They have the same primes: keys say where slots become coefficients."""
    first, last = setup(), setup(slots_first=False)
    assert first.boot.params == last.boot.params
    message = values(first)
    x = fhe.drop_to_level(fhe.bootstrap(encrypted(first, message), first.keys), 0)
    y = fhe.bootstrap(x, last.keys)
    assert y.level == last.boot.output_level < first.boot.output_level
    assert np.max(np.abs(opened(last, y) - message)) < 2**-15


def test_from_higher_levels_and_raw_products():
    s = setup()
    message = values(s)
    x = fhe.encrypt(seed(15), s.secret, message)
    product = fhe.relinearize(x * x, s.keys.evaluation)
    for operand, meant in ((x, message), (product, message**2)):
        y = fhe.bootstrap(operand, s.keys)
        assert y.level == s.boot.output_level
        assert np.max(np.abs(opened(s, y) - meant)) < 2**-20


TINY = dataclasses.replace(
    PRESETS["T"],
    log_degree=3,
    depth=1,
    slot_levels=1,
    coefficient_levels=1,
    secret_weight=4,
    bound=2,
    cosine_degree=6,
    doublings=1,
    arcsine_degree=3,
    first_bits=(53, 54),
)


@pytest.mark.slow
@pytest.mark.parametrize("slots", [4, 2])
def test_references_have_the_same_bits(slots):
    """Of keys, and of a bootstrapping with the same transforms: encoding is in floats, and equal up to rounding."""
    boot = fhe.Bootstrapping(TINY, slots)
    secret = fhe.secret_key(seed(1), boot.params)
    keys = boot.keys(seed(2), secret)
    x = fhe.drop_to_level(fhe.encrypt(seed(3), secret, np.linspace(-1, 1, slots)), boot.input_level)
    y = fhe.bootstrap(x, keys)
    with fhe.lowering("reference"):
        other = boot.keys(seed(2), secret)
        z = fhe.bootstrap(x, keys)
    np.testing.assert_array_equal(y.data, z.data)
    for part in ("evaluation", "to_sparse", "to_dense"):
        jax.tree.map(np.testing.assert_array_equal, getattr(keys, part), getattr(other, part))


@pytest.mark.slow
def test_few_slots():
    """Down to two, of which the transforms have fewer factors than there are levels for them."""
    for slots, slots_first in ((2, True), (4, False)):
        boot = fhe.Bootstrapping(dataclasses.replace(PRESETS["T"], log_degree=6), slots, slots_first)
        x = fhe.simulate(jnp.full(slots, 0.5), boot.params, level=boot.input_level)
        for y in (x, x + 0.5j):
            y = jax.eval_shape(fhe.bootstrap, y, boot.without_keys())
            assert (y.level, y.slots) == (boot.output_level, slots)


@pytest.mark.slow
@pytest.mark.parametrize("slots", [None, 1 << 12])
def test_default_preset(slots):
    """Some in a row of random and of constant values, at 128 bits, beside the simulated ones."""
    s = setup(slots, True, "C")
    assert s.boot.params.security_bits == 128
    with jax.enable_x64(True):
        for message in (values(s), np.ones(s.slots), values(s, "complex")):
            x, model = encrypted(s, message), simulated(s, message)
            for _ in range(2):
                x, model = fhe.bootstrap(x, s.keys), fhe.bootstrap(model, s.boot)
                error = np.abs(opened(s, x) - message)
                print(
                    f"{slots} slots: bits worst {-np.log2(error.max()):.2f}, mean {-np.log2(error.mean()):.2f}; ",
                    end="",
                )
                print(f"simulated {float(model.error_bits):.2f}, ratio {rms(error) / rms(model.errors):.2f}")
                assert abs(-np.log2(error.max()) - float(model.error_bits)) < 1.5
                assert 0.4 < rms(error) / rms(model.errors) < 1.6
