"""Seeds: fresh, split, checked, and never shared between the entries of a vmap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fhejax.primitives import native
from fhejax.primitives.sampling import chacha20, fresh_for
from fhejax.scheme.random import check_seed, new_seed, split_seed

SEED = np.arange(8, dtype=np.uint32)


def distinct(seeds):
    return len({tuple(np.asarray(seed).tolist()) for seed in seeds}) == len(seeds)


def test_new_seeds_differ():
    seeds = [new_seed() for _ in range(64)]
    assert all(isinstance(s, jax.Array) and s.dtype == np.uint32 and s.shape == (8,) for s in seeds)
    assert distinct(seeds)
    ones = sum(int(word).bit_count() for seed in seeds for word in np.asarray(seed))
    assert abs(ones - 64 * 128) < 6 * np.sqrt(64 * 256 / 4)  # six deviations of a fair coin: 2^-29


@pytest.mark.parametrize("trace", [jax.jit, lambda f: lambda: jax.eval_shape(f)], ids=["jit", "eval_shape"])
def test_new_seed_is_not_baked_into_a_program(trace):
    with pytest.raises(ValueError, match=r"new_seed: called while JAX traces.* pass it as an argument"):
        trace(lambda: new_seed())()


@pytest.mark.parametrize("lowering", native.LOWERINGS)
def test_children_are_words_of_block_zero(lowering):
    with native.lowering(lowering):
        children = split_seed(SEED, 5)
        places = np.array([[0, 1, i, 0] for i in range(5)], np.uint32)
        np.testing.assert_array_equal(children, chacha20(SEED, places)[:, :8])


def test_children_do_not_depend_on_how_many_there_are():
    np.testing.assert_array_equal(split_seed(SEED, 7)[:3], split_seed(SEED, 3))


def test_children_differ_from_each_other_and_from_other_seeds():
    parents = [SEED, SEED + np.uint32(1), *split_seed(SEED, 3)]
    assert distinct([SEED, *(child for parent in parents for child in split_seed(parent, 4))])
    first, second, third = split_seed(SEED, 3)  # a seed array unpacks
    assert distinct([first, second, third])


def test_split_under_jit_and_vmap():
    seeds = split_seed(SEED, 3)
    want = np.stack([split_seed(seed, 2) for seed in seeds])
    np.testing.assert_array_equal(jax.jit(lambda s: split_seed(s, 3))(SEED), seeds)
    np.testing.assert_array_equal(jax.vmap(lambda s: split_seed(s, 2))(seeds), want)
    twice = jax.jit(jax.vmap(jax.vmap(lambda s: split_seed(s, 2))))(want)
    np.testing.assert_array_equal(twice, [[split_seed(seed, 2) for seed in row] for row in want])


@pytest.mark.parametrize("flag", [False, True])
def test_split_under_either_x64_flag(flag):
    want = np.asarray(split_seed(SEED, 2))
    with jax.enable_x64(flag):
        got = split_seed(jnp.asarray(SEED), 2)
        assert got.dtype == np.uint32
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "bad, error, says",
    [
        (5, TypeError, "not int 5"),
        ([1] * 8, TypeError, "not list"),
        (None, TypeError, "not NoneType"),
        (jax.random.key(0), TypeError, "not a jax.random key"),
        (jax.random.PRNGKey(0), TypeError, "not a jax.random key"),
        (np.zeros(8, np.int32), TypeError, r"got int32\[8\]"),
        (np.zeros((), np.uint32), ValueError, r"got uint32\[\]"),
        (np.zeros((3, 8), np.uint32), ValueError, r"got uint32\[3, 8\]; of several seeds take one, or use vmap"),
    ],
)
def test_refuses_what_is_not_a_seed(bad, error, says):
    with pytest.raises(error, match=f"sow: a seed is uint32\\[8\\] from fhejax.new_seed.*{says}"):
        check_seed("sow", bad)
    with pytest.raises((TypeError, ValueError)):
        split_seed(bad, 2)


@pytest.mark.parametrize("n", [0, -1])
def test_refuses_to_split_into_none(n):
    with pytest.raises(ValueError, match=f"split_seed: n = {n}; need at least 1"):
        split_seed(SEED, n)


# --- one seed a value ------------------------------------------------------------------------------------------------


def masked(seed, key, value):
    """What encryption does: values and a key meet the seed's words."""
    return fresh_for(seed, {"key": key, "value": value}) + value.astype(np.uint32) + key


KEY, VALUES = np.uint32(9), jnp.arange(3, dtype=np.float32)


def test_outside_vmap_the_seed_passes():
    np.testing.assert_array_equal(masked(SEED, KEY, VALUES[1]), SEED + 10)
    np.testing.assert_array_equal(jax.jit(masked)(SEED, KEY, VALUES[1]), SEED + 10)
    text = jax.jit(masked).lower(SEED, KEY, VALUES[1]).as_text()
    assert "custom_call" not in text and "fresh" not in text


def test_a_seed_for_each_value():
    seeds = split_seed(SEED, 3)
    want = np.stack([masked(s, KEY, v) for s, v in zip(seeds, VALUES, strict=True)])
    for mapped in (jax.vmap(masked, (0, None, 0)), jax.jit(jax.vmap(jax.jit(masked), (0, None, 0)))):
        np.testing.assert_array_equal(mapped(seeds, KEY, VALUES), want)
    np.testing.assert_array_equal(jax.vmap(masked, (1, None, 0))(seeds.T, KEY, VALUES), want)


def test_many_seeds_for_one_value_are_fine():
    seeds = split_seed(SEED, 3)
    np.testing.assert_array_equal(jax.vmap(masked, (0, None, None))(seeds, KEY, VALUES[1]), seeds + 10)


@pytest.mark.parametrize(
    "mapped",
    [
        jax.vmap(masked, (None, None, 0)),
        jax.jit(jax.vmap(masked, (None, None, 0))),
        jax.vmap(jax.jit(masked), (None, None, 0)),
        lambda seed, key, values: jax.vmap(lambda v: masked(new_seed(), key, v))(values),
        lambda seed, key, values: jax.vmap(masked, (None, 0, None))(seed, jnp.arange(3, dtype=np.uint32), values[0]),
    ],
    ids=["eager", "jit of vmap", "vmap of jit", "a seed made inside", "many keys"],
)
def test_one_seed_for_many_values_is_refused(mapped):
    with pytest.raises(ValueError, match=r"every entry would get the same randomness.*in_axes=.0, None, 0.*split_seed"):
        mapped(SEED, KEY, VALUES)


def test_nested_vmap_needs_a_seed_for_each_entry_of_each():
    seeds, values = split_seed(SEED, 6).reshape(2, 3, 8), jnp.arange(6.0).reshape(2, 3)
    both = jax.vmap(jax.vmap(masked, (0, None, 0)), (0, None, 0))(seeds, KEY, values)
    np.testing.assert_array_equal(both, seeds + np.asarray(values, np.uint32)[..., None] + KEY)
    for inner, outer in (((None, None, 0), (0, None, 0)), ((0, None, 0), (None, None, 0))):
        with pytest.raises(ValueError, match="same randomness"):
            jax.vmap(jax.vmap(masked, inner), outer)(seeds[0] if outer[0] is None else seeds[:, 0], KEY, values)
