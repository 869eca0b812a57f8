"""Counted values: they take the types of the encrypted circuit, and count what its trace has."""

import jax
import jax.numpy as jnp
import numpy as np
import operations
import pytest
from operations import OPERATIONS, PARAMS, entries, keys
from test_example_plans import EXAMPLES, case

import fhejax as fhe
from fhejax.bootstrapping.plan import stages
from fhejax.bootstrapping.profile import key_switches
from fhejax.kinds.base import Kind
from fhejax.kinds.counted import Counted
from fhejax.kinds.work import UNITS, machine_table, width

COUNTABLE = [
    name
    for name, operation in OPERATIONS.items()
    if any("ciphertext" in kind or "product" in kind for kind in operation.operands) and "decrypt" not in name
]


def counted(x):
    """What stands for a ciphertext."""
    if not isinstance(x, Kind):
        return x
    return Counted(jnp.zeros(x.shape, bool), x.params, x.level, x.scale, x.slots, x.real, x.components)


def kind_of(x):
    return x.shape, x.params, x.level, x.scale, x.slots, x.real, x.components


@pytest.mark.parametrize("name", COUNTABLE)
def test_results_have_the_types_of_the_encrypted_circuit(name):
    operation = OPERATIONS[name]
    operands = entries(operation)
    run = lambda *operands: operation.run(keys(), *operands)
    expected = jax.eval_shape(run, *operands)
    got = jax.eval_shape(lambda: run(*map(counted, operands)))
    is_kind = lambda x: isinstance(x, Kind)
    flat = [[kind_of(x) for x in jax.tree.leaves(result, is_leaf=is_kind)] for result in (expected, got)]
    assert flat[0] == flat[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_key_switches_are_those_of_the_examples_traces(name):
    function, x, _, _, _, made = case(name)
    got = fhe.count(function, x)
    assert (got.hoisted, got.switched) == key_switches(function, x, made)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("slots", [None, 8])
@pytest.mark.parametrize("real", [True, False])
def test_key_switches_are_those_of_a_bootstrapping(slots, real):
    boot = fhe.Bootstrapping("T", slots=slots)
    x = fhe.simulate(np.zeros(4) if real else np.zeros(4, complex), boot.params, slots=slots, level=boot.input_level)
    got, planned = fhe.count(lambda x, keys: fhe.bootstrap(x, boot), x), stages(boot, real)
    assert got.hoisted == sum(stage.hoisted for stage in planned)
    assert got.switched == sum(stage.switched for stage in planned)


def test_loops_and_maps_multiply():
    x = fhe.simulate(np.zeros((3, 2)), PARAMS)
    assert fhe.count(lambda x, keys: fhe.square(x, keys), x).operations == {"multiply": 3}
    assert fhe.count(lambda x, keys: jax.vmap(lambda each: fhe.square(each, keys))(x), x).operations == {"multiply": 3}
    looped = lambda x, keys: jax.lax.scan(lambda x, _: (fhe.rotate(x, 1, keys), None), x, length=7)[0]
    assert fhe.count(looped, x).operations == {"rotate": 21}
    nested = lambda x, keys: jax.jit(jax.vmap(lambda each: looped(each, keys)))(x)
    assert fhe.count(nested, x).operations == {"rotate": 21}


def test_given_keys_compose_rotations():
    x = fhe.simulate([1.0], PARAMS)
    made = keys().evaluation  # rotations by 1, 2, 4, 8
    assert fhe.count(lambda x, keys: fhe.rotate(x, 3, made), x).switched == 2
    assert fhe.count(lambda x, keys: fhe.rotate(x, 3, keys), x).switched == 1


def test_seconds_are_the_units_times_the_table():
    x = fhe.simulate([1.0], PARAMS)
    unit = {"machine": "one unit a second", "seconds": {str(PARAMS.log_degree): dict.fromkeys(UNITS, 1.0)}}
    got = fhe.count(lambda x, keys: fhe.multiply(x, x, keys), x, machine=unit)
    assert got.seconds == pytest.approx(sum(got.units.values()))
    limbs, special = PARAMS.max_level + 1, len(PARAMS.special_moduli)
    digits = len(PARAMS.digit_moduli(PARAMS.max_level))
    assert got.units["keyed"] == pytest.approx(width(PARAMS) * 2 * digits * (limbs + special))
    assert got.units["transforms"] == pytest.approx(width(PARAMS) * (digits + 2) * (limbs + special))


def test_the_table_has_every_unit_of_every_ring():
    table = machine_table()
    assert table["machine"]
    for row in table["seconds"].values():
        assert set(row) == set(UNITS) and min(row.values()) >= 0 and max(row.values()) > 0


def test_what_is_no_ciphertext_is_refused():
    with pytest.raises(TypeError, match=r"count: no argument is a ciphertext; type count\(function, x\)"):
        fhe.count(lambda x, keys: x, np.zeros(3))
    with pytest.raises(TypeError, match="counted values have no contents"):
        fhe.count(lambda x, keys: fhe.decrypt(None, x), fhe.simulate([1.0], PARAMS))
    with pytest.raises(fhe.LevelError):
        fhe.count(lambda x, keys: fhe.square(x, keys), fhe.simulate([1.0], PARAMS, level=0))
    with pytest.raises(TypeError, match="some are counted and others simulated"):
        fhe.count(lambda x, keys: fhe.add(x, fhe.simulate([1.0], operations.PARAMS)), fhe.simulate([1.0], PARAMS))
