"""Seeded keys: every operation that takes keys gives the bits that it gives with the full ones."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from making import made_once
from operations import OPERATIONS, PARAMS, VARIANTS, entries, keys, seed, stack, stacked, user_seeds
from references import assert_equals_reference

import fhejax as fhe

ALL = OPERATIONS | VARIANTS
KEYED = [name for name, operation in ALL.items() if "evaluation" in operation.run.__code__.co_names]


@made_once
def seeded(user=0):
    """The keys of one user, the evaluation keys seeded."""
    words = user_seeds(user)
    evaluation = fhe.evaluation_keys(words[2], keys(user).secret, rotations=(1, 2, 4, 8), conjugation=True, seeded=True)
    return keys(user)._replace(evaluation=evaluation)


@made_once
def expected(name, index=0, user=0):
    """What the plain call with full keys returns."""
    return ALL[name].run(keys(user), *entries(ALL[name], index, user))


def same(got, wanted):
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    jax.tree.map(np.testing.assert_array_equal, got, wanted)


def test_the_table_has_operations_with_keys():
    assert {"multiply low ciphertext", "relinearize", "rotate_many", "conjugate", "sum_slots", "evaluate"} <= {*KEYED}
    assert len(KEYED) >= 10 and "negate" not in KEYED


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", KEYED)
def test_eager(name):
    same(ALL[name].run(seeded(), *entries(ALL[name])), expected(name))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", KEYED)
def test_lowerings(name):
    wanted, operands = expected(name), entries(ALL[name])
    with fhe.lowering("composed"):
        same(jax.jit(ALL[name].run)(seeded(), *operands), wanted)
    assert_equals_reference(wanted, jax.jit(ALL[name].run), seeded(), *operands)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", KEYED)
def test_jit_of_vmap(name):
    operands = stacked(ALL[name], 3)
    mapped = jax.vmap(ALL[name].run, in_axes=(None, *(0 for _ in operands)))
    same(jax.jit(mapped)(seeded(), *operands), stack([expected(name, i) for i in range(3)], (3,)))


@pytest.mark.parametrize("name", ["multiply ciphertext", "relinearize", "rotate, composed", "rotate_many", "evaluate"])
def test_many_users_in_one_launch(name):
    operands = stack([entries(ALL[name], user, user) for user in range(3)], (3,))
    users = stack([seeded(user) for user in range(3)], (3,))
    same(jax.vmap(ALL[name].run)(users, *operands), stack([expected(name, i, i) for i in range(3)], (3,)))


def test_keys_made_under_vmap_are_those_made_one_by_one():
    make = lambda words, secret: fhe.evaluation_keys(
        words, secret, rotations=(1, 2, 4, 8), conjugation=True, seeded=True
    )
    secrets, words = (
        stack([keys(user).secret for user in range(3)], (3,)),
        jnp.stack([seed(user, 2) for user in range(3)]),
    )
    same(jax.vmap(make)(words, secrets), stack([seeded(user).evaluation for user in range(3)], (3,)))


def test_both_kinds_in_one_set():
    full, half = keys().evaluation, seeded().evaluation
    galois = {g: (full if i % 2 else half).galois[g] for i, g in enumerate(sorted(full.galois))}
    both = fhe.EvaluationKeys(half.relinearization, galois, PARAMS)
    for name in ("square", "rotate_many", "conjugate"):
        same(ALL[name].run(keys()._replace(evaluation=both), *entries(ALL[name])), expected(name))


def test_lower_keys():
    """Keys made for level 1: they serve it and level 0, and are refused above it."""
    low = fhe.evaluation_keys(user_seeds(0)[2], keys().secret, (1,), level=1, seeded=True)
    x, full = fhe.drop_to_level(entries(OPERATIONS["square"])[0], 1), keys().evaluation
    same(fhe.square(x, low), fhe.square(x, fhe.evaluation_keys(user_seeds(0)[2], keys().secret, (1,), level=1)))
    for at in (x, fhe.drop_to_level(x, 0)):
        assert (
            fhe.precision(
                fhe.decrypt(keys().secret, fhe.rotate(at, 1, full)), fhe.decrypt(keys().secret, fhe.rotate(at, 1, low))
            )
            > 15
        )
    with pytest.raises(fhe.MissingKeyError, match="it is for level 1 and below"):
        fhe.square(entries(OPERATIONS["square"])[0], low)
    with pytest.raises(fhe.MissingKeyError, match="no key for step 2"):
        fhe.rotate(x, 2, fhe.EvaluationKeys(low.relinearization, {}, PARAMS))


def test_grad_of_a_program_with_seeded_keys():
    """Keys are arguments of integers: JAX differentiates around them."""
    (x,) = entries(OPERATIONS["square"])

    def loss(weight, k):
        y = jax.lax.stop_gradient(fhe.square(x, k).data[..., 0, 0, 0].astype(jnp.float32))
        return weight**2 + 0 * y

    assert jax.grad(loss)(3.0, seeded().evaluation) == jax.grad(loss)(3.0, keys().evaluation) == 6


def test_copies():
    value = seeded().evaluation.relinearization
    for again in (copy.deepcopy(value), pickle.loads(pickle.dumps(value)), jax.device_put(value)):
        same(again, value)
        assert again.mask_seed.dtype == np.uint32 and again.data.dtype == np.uint64


def test_sizes():
    full, half = (sum(leaf.nbytes for leaf in jax.tree.leaves(k.evaluation)) for k in (keys(), seeded()))
    assert half == full // 2 + 6 * 32


def test_repr_says_so_and_shows_no_seed():
    evaluation = seeded().evaluation
    assert "rotations=(1, 2, 4, 8), seeded, " in repr(evaluation) and "seeded" not in repr(keys().evaluation)
    assert repr(evaluation.relinearization).startswith("SwitchingKey(level=3, seeded, ")
    for words in (evaluation.relinearization.mask_seed, *user_seeds(0)):
        assert not any(str(word) in repr(evaluation) for word in np.asarray(words).tolist() if word > 100)
