"""Loading the keys of a plan: those that the plan would make, and nothing else is read."""

import functools

import chex
import jax
import numpy as np
import pytest
from file_values import assert_same, ciphertext
from hypothesis import HealthCheck, given, settings, strategies as st
from making import made_once

import fhejax as fhe
from fhejax.serialization import container

PARAMS = fhe.Parameters.for_depth(3, log_degree=6, security=None, digits=2)
SEEDS = fhe.split_seed(np.arange(8, dtype=np.uint32), 3)
SECRET = fhe.secret_key(SEEDS[0], PARAMS)
STEPS = (1, 2, 5, 31)
ELEMENTS = [*(pow(5, step, 2 * PARAMS.degree) for step in STEPS), 2 * PARAMS.degree - 1]
X = fhe.encrypt(SEEDS[1], SECRET, [1.0, 2.0, 3.0])


@made_once
def keys(seeded, level=3):
    return fhe.evaluation_keys(SEEDS[2], SECRET, STEPS, conjugation=True, level=level, seeded=seeded)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.safetensors"


def program(x, keys):
    return fhe.rotate(fhe.multiply(fhe.conjugate(x, keys), fhe.rotate(x, 2, keys), keys), 5, keys)


PLAN = fhe.plan_keys(program, X)

levels = st.integers(0, 3)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    relinearization=st.none() | levels,
    galois=st.dictionaries(st.sampled_from(ELEMENTS), levels),
    seeded=st.booleans(),
    x64=st.booleans(),
)
def test_they_are_those_that_the_plan_makes(path, relinearization, galois, seeded, x64):
    plan = fhe.KeyPlan(PARAMS, relinearization, galois, ())
    fhe.save(path, keys(seeded))
    with jax.enable_x64(x64):
        assert_same(fhe.load(path, plan=plan), plan.generate(SEEDS[2], SECRET, seeded=seeded))


@pytest.mark.parametrize("seeded", [False, True])
def test_a_program_runs_with_them_and_compiles_nothing_anew(path, seeded):
    chex.clear_trace_counter()
    fhe.save(path, keys(seeded))
    compiled = jax.jit(chex.assert_max_traces(program, n=1))
    expected = compiled(X, PLAN.generate(SEEDS[2], SECRET, seeded=seeded))
    np.testing.assert_array_equal(compiled(X, fhe.load(path, plan=PLAN)).data, expected.data)
    np.testing.assert_array_equal(program(X, fhe.load(path)).data, expected.data)


def test_the_plan_may_come_from_a_file_too(path):
    fhe.save(path, PLAN)
    assert fhe.load(path) == PLAN


@pytest.mark.parametrize("seeded", [False, True])
def test_keys_of_many_users(path, seeded):
    secrets = jax.vmap(fhe.secret_key, in_axes=(0, None))(SEEDS, PARAMS)
    make = functools.partial(fhe.evaluation_keys, rotations=STEPS, conjugation=True, seeded=seeded)
    fhe.save(path, jax.vmap(make)(SEEDS, secrets))
    expected = jax.vmap(functools.partial(PLAN.generate, seeded=seeded))(SEEDS, secrets)
    assert_same(fhe.load(path, plan=PLAN), expected)


@pytest.mark.parametrize("seeded", [False, True])
def test_only_they_are_read(path, monkeypatch, seeded):
    names, read = [], container.TensorFile.read
    monkeypatch.setattr(container.TensorFile, "read", lambda self, name, *rest: names.append(name) or read(self, name))
    fhe.save(path, keys(seeded))
    fhe.load(path, plan=PLAN)
    needed = ["relinearization", *(f"galois.{element}" for element in PLAN.galois)]
    assert sorted(names) == sorted([*needed, *(f"{name}.mask_seed" for name in needed if seeded)])


def test_damage_to_other_keys_does_no_harm(path):
    fhe.save(path, keys(False))
    with open(path, "rb") as file:
        found = container.TensorFile(file)
        start = found._start + found.entries[f"galois.{ELEMENTS[0]}"].start
    whole = bytearray(path.read_bytes())
    whole[start] ^= 1
    path.write_bytes(whole)
    assert_same(fhe.load(path, plan=PLAN), PLAN.generate(SEEDS[2], SECRET))
    with pytest.raises(ValueError, match=r"is damaged: its checksum does not fit"):
        fhe.load(path)
    with pytest.raises(ValueError, match=r"is damaged: its checksum does not fit"):
        fhe.load(path, plan=fhe.plan_keys(lambda x, keys: fhe.rotate(x, 1, keys), X))


@pytest.mark.parametrize(
    "function, says",
    [
        (lambda x, keys: fhe.rotate(x, 7, keys), "the plan needs rotation by 7 at level 2, which the file has not"),
        (lambda x, keys: fhe.square(x, keys), "needs relinearization at level 3"),
        (
            lambda x, keys: [fhe.rotate(x, step, keys) for step in range(6, 20)],
            " at level 2 and 6 more, which the file has not",
        ),
    ],
)
def test_a_key_that_is_not_there(path, function, says):
    fhe.save(path, keys(False, level=2))
    x = X if "relin" in says else fhe.drop_to_level(X, 2)
    with pytest.raises(fhe.MissingKeyError) as caught:
        fhe.load(path, plan=fhe.plan_keys(function, x))
    assert str(caught.value).startswith(f"load: {path}: ") and says in str(caught.value)
    assert "it has " in str(caught.value) and "make them by plan.generate(seed, secret_key)" in str(caught.value)


def test_what_is_no_file_of_keys(path):
    fhe.save(path, X)
    with pytest.raises(ValueError, match=r"holds a Ciphertext, and a plan is for EvaluationKeys; type fhejax"):
        fhe.load(path, plan=PLAN)
    fhe.save(path, keys(False).relinearization)
    with pytest.raises(ValueError, match="holds a SwitchingKey"):
        fhe.load(path, plan=PLAN)


def test_a_plan_for_other_parameters(path):
    fhe.save(path, keys(False))
    with pytest.raises(fhe.ParametersMismatchError, match=r"load: .*the plan is for Param.*the keys are for Param"):
        fhe.load(path, plan=fhe.plan_keys(lambda x, keys: fhe.rotate(x, 1, keys), ciphertext()))


def test_what_is_no_plan(path, unchecked):
    fhe.save(path, keys(False))
    with pytest.raises(TypeError, match=r"load: got tuple for the plan; type plan=fhejax\.plan_keys"):
        fhe.load(path, plan=(1, 2))
