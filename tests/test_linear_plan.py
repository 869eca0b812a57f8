"""Plans of linear transforms: what they cost, and that programs do what they say."""

import functools

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from linear_transforms import PARAMS, SECURE, SLOTS, TOP, TRANSFORMS, bound, encrypted, keys, opened, random, secret
from operations import seed

import fhejax as fhe
from fhejax.linear.plan import costs, planned
from fhejax.primitives.double_hoisting import Basis, hoisted_sums, rotated_sum


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 1), st.integers(0, 2)), st.sets(st.integers(0, 63), min_size=1), min_size=1
    ).filter(lambda each: (1, 2) in each or max(each) == (0, 0)),
)
@settings(max_examples=50, deadline=None)
def test_a_plan_has_each_diagonal_once(steps):
    plan = planned({key: sorted(each) for key, each in steps.items()}, 64, PARAMS, TOP)
    terms = sorted((j, i, (baby + giant) % 64) for i, j, baby, giant in plan.steps().tolist())
    assert terms == sorted((j, i, k) for (j, i), each in steps.items() for k in each)
    assert len(set(plan.babies)) == len(plan.babies)
    assert len({(each.output, each.step) for each in plan.sums}) == len(plan.sums)
    baby, giant = costs(PARAMS, TOP)
    without_giants = sum(len(set().union(*(e for (_, i), e in steps.items() if i == k)) - {0}) for k in range(3))
    assert plan.hoisted * baby + plan.switched * giant <= without_giants * baby + 1e-9


@pytest.mark.parametrize("steps", [range(0, 1024), range(-1023, 1024), range(0, 8192, 8)])
def test_dense_plans_take_few_key_switches(steps):
    params = fhe.Parameters.preset("n14")
    plan = planned({(0, 0): [step % 8192 for step in steps]}, 8192, params, 7)
    assert plan.hoisted + plan.switched < 3.2 * len(steps) ** 0.5 and plan.switched < plan.hoisted
    assert len(plan.rotations) == plan.hoisted + plan.switched


def test_steps_in_rows_are_found():
    """A convolution of 5 x 5 in rows of 64 costs no more than four babies and four giants, for 24 rotations."""
    steps = [(64 * i + j) % 4096 for i in range(-2, 3) for j in range(-2, 3)]
    plan, (baby, giant) = planned({(0, 0): steps}, 4096, SECURE, 2), costs(SECURE, 2)
    assert plan.hoisted * baby + plan.switched * giant <= 4 * baby + 4 * giant


def equations(jaxpr):
    """All equations of a jaxpr, those of called ones included."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", None)
            if inner is not None:
                yield from equations(inner)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_key_switches_and_mod_downs_in_the_jaxpr_are_the_plans(name):
    transform = TRANSFORMS[name]()
    plan, x = transform.plan, fhe.drop_to_level(encrypted(random(1, SLOTS)), transform.level)
    found = list(equations(jax.make_jaxpr(fhe.apply)(transform, x, keys(transform.rotations)).jaxpr))
    (sums,) = [each for each in found if each.primitive.name == "fhejax_hoisted_sums"]
    assert sum(element != 1 for element in sums.params["elements"]) == plan.hoisted
    rotations = sum(each.primitive.name == "fhejax_add_rotation" for each in found)
    divisions = sum(each.primitive.name == "fhejax_mod_down" for each in found)
    assert rotations == plan.switched  # a key switch with its ModDown each
    assert rotations + divisions == plan.mod_downs
    assert not any("key_switch" in each.primitive.name or "gadget" in each.primitive.name for each in found)


def test_what_whole_operations_are_made_of():
    """One ModUp and no ModDown for all hoisted rotations; one ModDown, of one component, for each giant step."""
    from fhejax.primitives import double_hoisting

    transform = TRANSFORMS["dense"]()
    plan, params = transform.plan, transform.params
    basis = Basis(params.moduli, params.special_moduli, params.digit_size)
    element = lambda step: pow(5, step, 2 * params.degree)
    operands = {element(step): keys(transform.rotations).galois[element(step)].operand for step in transform.rotations}
    babies = tuple((i, element(step)) for i, step in plan.babies)
    terms, elements = tuple(each.terms for each in plan.sums), [element(each.step) for each in plan.sums]
    x = encrypted(random(1, SLOTS)).data

    def count(function, *arguments):
        with jax.enable_x64(True):
            names = [each.primitive.name for each in equations(jax.make_jaxpr(function)(*arguments).jaxpr)]
        return {name: names.count(f"fhejax_{name}") for name in ("inner_product", "convert_basis", "mod_down")}

    switched = double_hoisting._switched(tuple(e for _, e in babies))
    compose = functools.partial(
        double_hoisting._compose_sums,
        inputs=1,
        sources=tuple(i for i, _ in babies),
        elements=tuple(e for _, e in babies),
        sizes=tuple(map(len, terms)),
        terms=sum(terms, ()),
        **basis._asdict(),
    )
    made = count(compose, x, transform.data, *(operands[e] for e in switched))
    assert made == {"inner_product": plan.hoisted, "convert_basis": params.digits, "mod_down": 0}
    with jax.enable_x64(True):
        sums = hoisted_sums([x], transform.data, operands, babies, terms, basis)
        whole = rotated_sum(sums, elements, operands, basis)
    np.testing.assert_array_equal(
        whole, fhe.apply(transform, encrypted(random(1, SLOTS)), keys(transform.rotations)).data
    )
    compose = functools.partial(double_hoisting._compose_rotation, element=elements[-1], **basis._asdict())
    (total, pair), key = sums[:2], operands[elements[-1]]
    with jax.enable_x64(True):
        eqns = list(equations(jax.make_jaxpr(compose)(total, pair, key).jaxpr))
    divisions = [each for each in eqns if each.primitive.name == "fhejax_mod_down"]
    assert [each.invars[0].aval.shape for each in divisions] == [pair.shape[1:]]  # one component


@pytest.mark.parametrize("name", ["dense", "without giant steps at 0"])
def test_exactly_the_keys_of_the_transform(name):
    transform = TRANSFORMS[name]()
    x = encrypted(random(1, SLOTS))
    fhe.apply(transform, x, fhe.EvaluationKeys(None, keys(transform.rotations).galois, PARAMS))
    for element in keys(transform.rotations).galois:
        fewer = {g: key for g, key in keys(transform.rotations).galois.items() if g != element}
        with pytest.raises(fhe.MissingKeyError, match="for 1 of"):
            jax.eval_shape(fhe.apply, transform, x, fhe.EvaluationKeys(None, fewer, PARAMS))


@pytest.mark.parametrize("slots", [8, SLOTS])
def test_keys_are_planned(slots):
    transform = fhe.LinearTransform.from_matrix(random(0, 7, 8), PARAMS, 2, slots=slots)
    x = encrypted(random(1, 8), slots=slots)
    plan = fhe.plan_keys(fhe.apply, transform, x)
    assert plan.rotations == dict.fromkeys(transform.rotations, 2) and plan.relinearization is None
    made = plan.generate(seed(9), secret())
    assert np.abs(opened(fhe.apply(transform, x, made))[:7] - random(0, 7, 8) @ random(1, 8)).max() < bound(transform)
