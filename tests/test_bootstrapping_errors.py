"""Mistakes that users make with bootstrapping, each with its error and what to type instead."""

import types

import numpy as np
import pytest
from bootstrapping_cases import SPARSE
from making import made_once
from operations import seed

import fhejax as fhe
from fhejax.bootstrapping import stages


@made_once
def given():
    """What the mistakes are made with; most are seen before any key is used."""
    boot = fhe.Bootstrapping("T", slots_first=True)
    params, secret = boot.params, fhe.secret_key(seed(1), boot.params)
    x = fhe.drop_to_level(fhe.encrypt(seed(2), secret, np.ones(params.slots)), boot.input_level)
    simulated = fhe.simulate(np.ones(params.slots), params, level=boot.input_level)
    return types.SimpleNamespace(
        x=x,
        simulated=simulated,
        low=fhe.drop_to_level(simulated, 1),
        three=x * x,
        keys=boot.without_keys(),
        boot=boot,
        evaluation=fhe.EvaluationKeys(None, {}, params),
        last=fhe.Bootstrapping("T", slots_first=False),
        other=fhe.Bootstrapping("T", SPARSE).without_keys(),
        few=fhe.encrypt(seed(3), secret, fhe.encode([0.5], params, slots=SPARSE)),
    )


MISTAKES = {
    "no keys": (lambda g: fhe.bootstrap(g.x, None), TypeError, ["got NoneType", "Bootstrapping(...).keys(seed, "]),
    "evaluation keys": (lambda g: fhe.bootstrap(g.x, g.evaluation), TypeError, ["got EvaluationKeys"]),
    "the bootstrapping itself": (lambda g: fhe.bootstrap(g.x, g.boot), TypeError, ["got Bootstrapping", ".keys(seed"]),
    "no keys, simulated": (
        lambda g: fhe.bootstrap(g.simulated, None), TypeError, ["or give the Bootstrapping itself"]
    ),
    "light keys": (
        lambda g: fhe.bootstrap(g.x, g.keys), fhe.MissingKeyError, ["for simulated values", "secret_key", __file__]
    ),
    "no ciphertext": (lambda g: fhe.bootstrap(np.ones(4), g.keys), TypeError, ["got ndarray for the ciphertext"]),
    "three components": (lambda g: fhe.bootstrap(g.three, g.keys), ValueError, ["three components", "relinearize"]),
    "level": (
        lambda g: fhe.bootstrap(g.low, g.keys), fhe.LevelError,
        ["from level 2", "is at level 1", "Bootstrapping(..., slots_first=False)"],
    ),
    "parameters": (lambda g: fhe.bootstrap(g.x, g.other), fhe.ParametersMismatchError, ["slots=64"]),
    "slots": (
        lambda g: fhe.bootstrap(g.few, g.keys), fhe.ParametersMismatchError,
        ["for 1024 slots", "has 64", "Bootstrapping(..., slots=64)"],
    ),
    "level of coeff_to_slot": (
        lambda g: stages.coeff_to_slot(g.simulated, g.keys), fhe.LevelError, ["for level 20", "at level 2"]
    ),
    "level of slot_to_coeff": (
        lambda g: stages.slot_to_coeff(g.simulated, g.last), fhe.LevelError, ["for level 7", "at level 2"]
    ),
    "level of eval_mod": (
        lambda g: stages.eval_mod(g.simulated, g.keys),
        fhe.LevelError,
        ["takes 5 levels", "at level 2"],
    ),
    "complex slots": (
        lambda g: stages.eval_mod(stages.multiply_by_i(g.simulated), g.keys), ValueError, ["coeff_to_slot(x, keys)"]
    ),
    "keys of mod_raise": (lambda g: stages.mod_raise(g.x, g.keys), fhe.MissingKeyError, ["mod_raise: "]),
    "times i": (lambda g: stages.multiply_by_i(2.0), TypeError, ["multiply_by_i: got float"]),
    "preset": (lambda g: fhe.Bootstrapping("Z"), ValueError, ["no preset 'Z'", "'C'", "'T'"]),
    "packing": (lambda g: fhe.Bootstrapping("T", 3), ValueError, ["slots = 3", "power of two"]),
}  # fmt: skip


@pytest.mark.parametrize("attempt, error, says", MISTAKES.values(), ids=MISTAKES)
def test_mistakes(unchecked, attempt, error, says):
    with pytest.raises(error) as caught:
        attempt(given())
    assert type(caught.value) is error
    for part in says:
        assert part in str(caught.value)
