"""Bootstrapping in programs: more bits, fewer levels, many at a time, in loops, and keys in files."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bootstrapping_cases import Setup, encrypted, opened, rms, setup, simulated, values
from file_values import assert_same, contents, reseal
from making import made_once
from operations import seed

import fhejax as fhe
from fhejax.bootstrapping import stages
from fhejax.bootstrapping.preset import PRESETS
from fhejax.bootstrapping.refresh import shortest

# A smaller ring yet than that of the preset for tests, and fewer levels, so that programs are compiled in seconds.
TINY = dataclasses.replace(PRESETS["T"], log_degree=9, depth=4, slot_levels=1, coefficient_levels=1)
FEW = 32  # slots
# As the preset for iterations.
WIDE = dataclasses.replace(TINY, scale_bits=50, depth=2, exit_bits=0, low_bits=40)
ORDERS = pytest.mark.parametrize("slots_first", [True, False], ids=["first", "last"])


@made_once
def several(slots_first: bool) -> Setup:
    """With keys for lower levels besides."""
    boot = fhe.Bootstrapping(TINY, FEW, slots_first)
    secret, lower = fhe.secret_key(seed(21), boot.params), [boot.output_level - 2, boot.output_level - 3]
    return Setup(boot, secret, boot.keys(seed(22), secret, to_levels=lower))


def error(s: Setup, got: fhe.Ciphertext, message: np.ndarray) -> float:
    return rms(opened(s, got) - message)


def fresh(s: Setup, message: np.ndarray) -> fhe.Ciphertext:
    """At the level of fresh ciphertexts."""
    return fhe.encrypt(seed(13), s.secret, message)


def saved(path, value):
    fhe.save(path, value)
    return contents(path)


def size(tree) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


# --- iterations --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_two_iterations_reach_the_scale(kind):
    s = setup(None, True, WIDE)
    message = values(s, kind)
    x = encrypted(s, message)
    once, twice = (fhe.bootstrap(x, s.keys, iterations=count) for count in (1, 2))
    assert jax.tree.structure(twice) == jax.tree.structure(once) and twice.level == s.boot.output_level
    errors = error(s, x, message), error(s, twice, message), error(s, once, message)
    # A few roundings at 2^50, and nothing of the sine: it is 2^-31 from right, and 2^12 times that is below them.
    assert errors[1] < 4 * errors[0] < errors[2] / 2**6
    predicted = fhe.bootstrap(simulated(s, message), s.boot, iterations=2)
    assert 0.5 < errors[1] / rms(predicted.errors) < 2


@pytest.mark.slow
def test_the_last_step_multiplies():
    """Messages come out multiplied, at no level, and their error likewise."""
    s, height = setup(FEW, True, TINY), 2.0**-5
    message = values(s)
    lower = dataclasses.replace(s.keys, bootstrapping=s.boot.with_height(height))
    x = encrypted(s, message)
    plain, small = x._refresh(stages.by_stages, s.keys), x._refresh(stages.by_stages, lower)
    assert small.level == plain.level and small.scale == plain.scale
    assert rms(opened(s, small) - height * message) < 2**-30
    meant = simulated(s, message)._refresh(stages.by_stages, dataclasses.replace(lower, evaluation=None))
    np.testing.assert_allclose(meant.values, height * message, rtol=1e-6)


def test_iterations_count_from_one():
    s = setup(FEW, True, TINY)
    with pytest.raises(ValueError, match="iterations = 0; need at least 1"):
        fhe.bootstrap(encrypted(s, values(s)), s.keys, iterations=0)


# --- lower levels ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fewer_levels_take_a_shorter_chain():
    s = several(True)
    message, level = values(s), s.boot.output_level - 3
    shorter = s.keys.shorter[0]
    assert shorter.params.max_level == s.boot.params.max_level - 2
    assert {*shorter.params.moduli} < {*s.boot.params.moduli}
    assert size(shorter) < size(dataclasses.replace(s.keys, shorter=()))
    x = encrypted(s, message)
    y = fhe.bootstrap(x, s.keys, to_level=level)
    # Of the type to which any other way to that level leads.
    assert jax.tree.structure(y) == jax.tree.structure(fhe.drop_to_level(fresh(s, message), level))
    dropped = fhe.drop_to_level(fhe.bootstrap(x, s.keys), level)
    assert error(s, y, message) < 1.5 * error(s, dropped, message)


@ORDERS
def test_shorter_chains_are_parts_of_the_whole(slots_first):
    boot = fhe.Bootstrapping(TINY, FEW, slots_first)
    for level in range(boot.input_level + 1, boot.output_level - slots_first):
        short = boot.shortened_to(level)
        assert short.output_level == level and short.input_level == boot.input_level
        kept = short.preset.level  # below it, the levels that programs see
        for i in range(kept):
            assert short.params.scale_at(i) == boot.params.scale_at(i)
        assert short.params.moduli[:kept] == boot.params.moduli[:kept]
        assert short.params.moduli[kept:] == boot.params.moduli[boot.preset.level :]
        assert short.params.scales[kept:] == boot.params.scales[boot.preset.level :]


@pytest.mark.slow
def test_the_shortest_chain_that_reaches_a_level_is_taken():
    s = several(True)
    top = s.boot.output_level
    low, high = s.keys.shorter
    for level, keys in ((0, low), (top - 3, low), (top - 2, high), (top - 1, s.keys), (top, s.keys), (None, s.keys)):
        assert shortest("test", s.keys, level) is keys


def test_without_shorter_keys_the_result_is_dropped():
    s = setup(FEW, True, TINY)
    x = encrypted(s, values(s))
    level = s.boot.output_level - 3
    expected = fhe.drop_to_level(fhe.bootstrap(x, s.keys), level)
    np.testing.assert_array_equal(fhe.bootstrap(x, s.keys, to_level=level).data, expected.data)


@pytest.mark.parametrize("level", [-1, 6])
def test_levels_that_are_not_reached(level):
    s = setup(FEW, True, TINY)
    with pytest.raises(fhe.LevelError, match=f"to_level = {level}; these keys refresh to levels 0 to 5"):
        fhe.bootstrap(encrypted(s, values(s)), s.keys, to_level=level)


@pytest.mark.parametrize("level", [1, 4, 5])
def test_chains_that_cannot_be_shortened(level):
    s = setup(FEW, True, TINY)
    with pytest.raises(fhe.LevelError, match=f"level {level}; chains can be shortened to levels 2 to 3"):
        s.boot.keys(seed(1), s.secret, to_levels=[level])


# --- many at a time ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@ORDERS
def test_many_at_a_time(slots_first):
    """Real ones in pairs, one of them alone, and a complex one between."""
    s = setup(FEW, slots_first, TINY)
    messages = [values(s, index=i) for i in range(3)]
    if slots_first:
        messages.insert(1, values(s, "complex"))
    single = error(s, fhe.bootstrap(encrypted(s, messages[0]), s.keys), messages[0])
    got = fhe.bootstrap_many([encrypted(s, message, i) for i, message in enumerate(messages)], s.keys)
    for y, message in zip(got, messages, strict=True):
        assert y.real == np.isrealobj(message) and y.level == s.boot.output_level and y.shape == ()
        assert error(s, y, message) < 2 * single
    batch = np.stack(messages[-2:] + messages[:1])[:, None]
    y = fhe.bootstrap_many(encrypted(s, batch), s.keys)
    assert y.shape == (3, 1) and error(s, y, batch) < 2 * single


@pytest.mark.slow
def test_many_simulated_ones():
    s = setup(FEW, True, TINY)
    messages = np.stack([values(s, index=i) for i in range(2)])
    got = fhe.bootstrap_many(list(map(simulated, [s, s], messages)), s.boot)
    for y, message in zip(got, messages, strict=True):
        assert y.real and y.shape == () and y.level == s.boot.output_level
        np.testing.assert_allclose(y.values, message, rtol=1e-6)
        assert 29 < y.error_bits < 33
    assert not np.array_equal(got[0].errors, got[1].errors)


def test_pairs_take_one_sine_with_few_slots():
    """Both halves of the coefficients are side by side in one ciphertext."""
    s = setup(FEW, True, TINY)
    x = stages.mod_raise(stages.slot_to_coeff(encrypted(s, values(s, "complex")), s.keys), s.keys)
    (both,) = stages.coeff_to_slot(x, s.keys)
    assert both.slots == 2 * FEW and both.real
    most = TINY.parameters().degree // 2
    assert [fhe.Bootstrapping(TINY, slots).side_by_side for slots in (most // 2, most)] == [True, False]


def test_what_many_refuses():
    s = setup(FEW, True, TINY)
    x = encrypted(s, values(s))
    with pytest.raises(ValueError, match="got no ciphertexts"):
        fhe.bootstrap_many([], s.keys)
    with pytest.raises(TypeError, match="some are encrypted and others simulated"):
        fhe.bootstrap_many([x, simulated(s, values(s))], s.keys)
    with pytest.raises(TypeError, match="bootstrap_many: got ndarray for the ciphertext"):
        fhe.bootstrap_many([x, np.zeros(3)], s.keys)


# --- loops -------------------------------------------------------------------------------------------------------


def test_refreshing_brings_any_level_to_one_type():
    s = setup(FEW, True, TINY)
    message = values(s)
    high, low = fresh(s, message), fhe.drop_to_level(fresh(s, message), s.boot.input_level)
    results = [fhe.refresh(x, s.keys) for x in (high, low)]
    assert jax.tree.structure(results[0]) == jax.tree.structure(results[1])
    np.testing.assert_array_equal(results[0].data, high.data)  # nothing was to be done
    np.testing.assert_array_equal(results[1].data, fhe.bootstrap(low, s.keys).data)


def test_a_loop_is_compiled_once_for_any_number_of_steps():
    """The logistic map at a rate where it is not chaotic, so that errors die out: x <- 3.2 x (1 - x), for 24 steps."""
    s = setup(FEW, True, TINY)
    start = np.random.default_rng(3).uniform(0.1, 0.9, s.slots)

    @jax.jit
    @chex.assert_max_traces(n=1)
    def run(x, keys, steps):
        def body(_, x):
            return fhe.refresh(fhe.multiply(3.2 * x, 1 - x, keys.evaluation), keys)

        return jax.lax.fori_loop(0, steps, body, x)

    x, expected = fhe.refresh(fresh(s, start), s.keys), start
    for steps in (1, 23):
        x = run(x, s.keys, jnp.int32(steps))
        for _ in range(steps):
            expected = 3.2 * expected * (1 - expected)
    assert np.abs(opened(s, x) - expected).max() < 2**-24


# --- keys in files -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_keys_come_back_from_their_file(tmp_path):
    s = several(True)
    fhe.save(tmp_path / "keys", s.keys)
    loaded = fhe.load(tmp_path / "keys")
    assert_same(loaded, s.keys)
    # Transforms are made again.
    assert (tmp_path / "keys").stat().st_size < size(s.keys)


def test_keys_that_have_no_file_of_their_own(tmp_path):
    s = several(True)
    with pytest.raises(ValueError, match="part of others"):
        fhe.save(tmp_path / "keys", s.keys.shorter[0])
    with pytest.raises(TypeError, match="for simulated values hold no keys"):
        fhe.save(tmp_path / "keys", s.boot.without_keys())


def test_files_of_another_recipe_are_refused(tmp_path):
    s = several(True)
    tensors, header = saved(tmp_path / "keys", s.keys)
    header["preset"]["depth"] += 1
    reseal(tmp_path / "keys", tensors, header)
    with pytest.raises(ValueError, match=r"the recipe makes N = 2.9 and levels to 18, fresh at 6"):
        fhe.load(tmp_path / "keys")


# --- on the real presets -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_preset_for_iterations():
    """At 128 bits: 36 bits in the mean, where one bootstrapping gives 28."""
    s = setup(preset="M")
    assert s.boot.params.security_bits == 128
    message = values(s)
    x = fresh(s, message)
    once, twice = (np.abs(opened(s, fhe.bootstrap(x, s.keys, iterations=i)) - message) for i in (1, 2))
    assert -np.log2(once.mean()) > 26 and -np.log2(twice.mean()) > 35 and -np.log2(twice.max()) > 31
