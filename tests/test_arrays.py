"""Encrypted arrays against NumPy: arithmetic, sums, products, other layouts, and transformations of JAX."""

import copy
import operator
import pickle

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from array_cases import (
    LAYOUTS,
    PARAMS,
    SECRET,
    SLOTS,
    TOP,
    check,
    drawn,
    encrypted,
    layouts_of,
    numbers,
    simulated,
    through,
)
from drawing import some
from hypothesis import given, strategies as st
from operations import seed

import fhejax as fhe
from fhejax import _compat
from fhejax.arrays.layouts.layout import NAMED, Digit, Layout
from fhejax.serialization import exports, headers


def planned(function, *arrays):
    """The function on encrypted arrays, with exactly the keys that it needs."""
    plan = fhe.plan_keys(
        lambda keys, *arrays: function(*(x.with_keys(keys) for x in arrays)).without_keys(), None, *arrays
    )
    keys = plan.generate(seed(5), SECRET)
    return jax.jit(lambda keys, *arrays: function(*(x.with_keys(keys) for x in arrays)).without_keys())(keys, *arrays)


# --- arithmetic -----------------------------------------------------------------------------------------------------

OPERATORS = [operator.add, operator.sub, operator.mul]


@pytest.mark.slow
@given(st.data(), st.sampled_from(OPERATORS))
@some(100)
def test_arithmetic_with_arrays_in_the_clear(data, operation):
    """Every shape that broadcasts to the array's, on either side."""
    x, values = drawn(data)
    shape = tuple(size if data.draw(st.booleans()) else 1 for size in values.shape)[
        data.draw(st.integers(0, values.ndim)) :
    ]
    plain = numbers(shape, 3)
    check(operation(x, plain), operation(values, plain))
    check(operation(plain, x), operation(plain, values))
    check(x / (plain + 2), values / (plain + 2))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "other", [2, 0.5, np.float32(0.5), np.int64(2), jnp.float32(0.5), 1 + 2j, [1.0, 2.0, 3.0, 4.0], True]
)
@pytest.mark.parametrize("operation", OPERATORS)
def test_numbers_and_lists(operation, other):
    x = simulated(numbers((3, 4)), Layout.row((3, 4), SLOTS))
    check(operation(x, other), operation(numbers((3, 4)), np.asarray(other)))
    check(operation(other, x), operation(np.asarray(other), numbers((3, 4))))


def test_an_integer_takes_no_level():
    x = simulated(numbers((5,)), Layout.row((5,), SLOTS))
    assert (2 * x).level == TOP and (2.0 * x).level == TOP - 1 and (x + 1).level == TOP


@given(st.data(), st.sampled_from(OPERATORS))
@some(60)
def test_arithmetic_of_two_arrays(data, operation):
    """Each in the layout that the other one asks for: every shape broadcasts, on either side."""
    x, values = drawn(data, "row", "column", "replicated", "interleaved", "columns")
    shape = tuple(size if data.draw(st.booleans()) else 1 for size in values.shape)[
        data.draw(st.integers(0, values.ndim)) :
    ]
    try:
        y = simulated(numbers(shape, 3), x.layout_for(shape))
    except ValueError as error:  # more copies than fit behind each other
        assert "x.to_layout('row')" in str(error)
        return
    check(operation(x, y), operation(values, numbers(shape, 3)))
    check(operation(y, x), operation(numbers(shape, 3), values))


def test_both_operands_are_broadcast_by_their_copies():
    x = simulated(numbers((4, 1)), Layout((4, 1), ((Digit(4, 1),), ()), SLOTS, copies=(Digit(4, 4),)))
    y = simulated(numbers((1, 4), 1), Layout((1, 4), ((), (Digit(4, 4),)), SLOTS, copies=(Digit(4, 1),)))
    check(x * y, numbers((4, 1)) * numbers((1, 4), 1))
    check(y - x, numbers((1, 4), 1) - numbers((4, 1)))


def test_powers():
    x = simulated(numbers((5,)), Layout.row((5,), SLOTS))
    for exponent, levels in ((1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (7, 3), (8, 3)):
        assert (x**exponent).level == TOP - levels
        check(x**exponent, numbers((5,)) ** exponent)


def test_levels_align_by_themselves():
    x = simulated(numbers((5,)), Layout.row((5,), SLOTS))
    check((x * x) * x + x - 0.25, numbers((5,)) ** 3 + numbers((5,)) - 0.25)


def test_functions_of_entries():
    values = numbers((5,))
    x = simulated(values, Layout.row((5,), SLOTS))
    series = fhe.Polynomial([0.5, 0.25, 0.125], (-1, 1))
    check(x.map(series), series(values))
    check(x.map(fhe.square), values**2)
    tanh = x.map(fhe.functions.tanh, domain=(-1, 1), bits=6)
    assert np.abs(tanh.decrypt(None) - np.tanh(values)).max() < 2.0**-6


def test_what_stands_elsewhere_is_filled():
    """Slots outside of a domain would be warned of, which is an error here."""
    x = simulated(numbers((4, 4)), Layout.row((4, 4), SLOTS))
    series = fhe.Polynomial([0.5, 0.25], (-1.5, 1.5))
    y = x.sum(1)[:1] / 4
    with pytest.warns(fhe.OutOfRangeWarning):
        (8 * x.sum(1)).map(series)
    small = y.map(series, fill=0.5)
    check(small, series(numbers((4, 4)).sum(1)[:1] / 4))
    assert small.level == TOP - 3
    full = x.sum()
    assert full.clean() is full


# --- other layouts --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.data())
@some(100)
def test_conversions(data):
    """Between any two layouts and views; zeros in slots that no entry owns."""
    x, values = drawn(data)
    name = data.draw(st.sampled_from([name for name in NAMED if name in layouts_of(values.shape)]))
    linear = x.conversion(name, encoded=False)
    assert linear.target == layouts_of(values.shape)[name]
    np.testing.assert_allclose(through(linear, values), values, atol=1e-6)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name, target", [("row", "column"), ("columns", "replicated"), ("diagonal", "row")])
def test_to_layout(name, target):
    x = simulated(numbers((3, 4)), layouts_of((3, 4))[name])
    y = x.to_layout(target)
    check(y, numbers((3, 4)))
    assert y.layout == layouts_of((3, 4))[target] and y.level == TOP - 1
    assert y.to_layout(target).level == TOP - 1


def test_where_entries_lie_already_nothing_is_done():
    x = simulated(numbers((4, 4)), layouts_of((4, 4))["replicated"])
    for y in (x.to_layout("replicated"), x.to_layout("row"), x.T.to_layout("column"), x[:, None].to_layout("row")):
        assert y.level == TOP and y.ciphertext is x.ciphertext
    swapped = simulated(numbers((3, 4)), Layout.columns((3, 4), SLOTS))[:, ::-1].to_layout("columns")
    check(swapped, numbers((3, 4))[:, ::-1])
    assert swapped.level == TOP  # only the order of the ciphertexts


def test_a_conversion_says_what_it_costs():
    x = simulated(numbers((3, 4)), Layout.row((3, 4), SLOTS))
    conversion = x.conversion("column")
    assert "key switches=" in repr(conversion) and len(conversion.rotations) > 0
    check(x @ conversion, numbers((3, 4)))
    check(conversion @ x, numbers((3, 4)))
    plan = fhe.plan_keys(lambda keys, x: (x.with_keys(keys) @ conversion).without_keys(), None, x)
    assert tuple(plan.rotations) == conversion.rotations


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "index", [[0, 2], ([0, 2], [1, 1]), np.array([[True, False, True, True]] * 3), (slice(1, None), [3, 0])]
)
def test_indexing_by_arrays(index):
    for name in ("diagonal", "replicated"):
        x = simulated(numbers((3, 4)), layouts_of((3, 4))[name])
        check(x[index], numbers((3, 4))[index])


def test_take():
    x = simulated(numbers((3, 4)), Layout.row((3, 4), SLOTS))
    check(x.take([3, 0, 0], axis=1), numbers((3, 4)).take([3, 0, 0], axis=1))
    check(x.take(5), numbers((3, 4)).take(5))
    assert x.take([1], layout="replicated").layout.copies


def test_iteration_and_length():
    x = simulated(numbers((3, 4)), Layout.row((3, 4), SLOTS))
    assert len(x) == 3
    for row, expected in zip(x, numbers((3, 4)), strict=True):
        check(row, expected)


# --- JAX ------------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("x64", [False, True])
def test_encrypted_programs(x64):
    """x @ w + b, sums, views and products under jit, with exactly the keys that are planned."""
    values, w, b = numbers((3, 5)), numbers((5, 4), 1), numbers((4,), 2)
    with jax.enable_x64(x64):
        x = encrypted(values, Layout.row((3, 5), SLOTS))
        check(planned(lambda x: x @ w + b, x), values @ w + b, 1e-4)
        check(planned(lambda x: (x[1:, ::2].T * 0.5).sum(0), x), (values[1:, ::2] * 0.5).sum(1), 1e-4)
        check(planned(lambda x: (x * x).mean(1), x), (values * values).mean(1), 1e-4)
        check(planned(lambda x: x.to_layout("column"), x), values, 1e-4)
        check(planned(lambda x: w.T @ x.T, x), w.T @ values.T, 1e-4)


def test_vmap_and_scan():
    x = encrypted(numbers((3, 5)), Layout.row((3, 5), SLOTS))
    batch = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *(encrypted(numbers((3, 5), i), x.layout, i) for i in (0, 1))
    )
    y = jax.vmap(lambda x: (2.0 * x[:, 1:] + 1).T)(batch)
    expected = np.stack([(2 * numbers((3, 5), i)[:, 1:] + 1).T for i in (0, 1)])
    assert np.abs(y.decrypt(SECRET) - expected).max() < 1e-4
    total, _ = jax.lax.scan(lambda total, x: (total + x, None), x, batch)
    check(total, 2 * numbers((3, 5)) + numbers((3, 5), 1), 1e-4)


def test_shapes_without_data():
    x = jax.eval_shape(lambda: fhe.EncryptedArray.simulate(np.zeros((3, 5)), PARAMS))
    y = jax.eval_shape(lambda x: (x @ np.ones((5, 2)) + 1).sum(0), x)
    assert (y.shape, y.level) == ((2,), TOP - 1)


@pytest.mark.slow
def test_gradients():
    values, w = numbers((3, 5)), numbers((5, 2), 1)

    def loss(w):
        x = fhe.EncryptedArray.simulate(values, PARAMS)
        return jnp.sum((x @ w).map(fhe.square).sum(1).decrypt(None))

    expected = 2 * values.T @ (values @ w)
    np.testing.assert_allclose(jax.grad(loss)(jnp.asarray(w)), expected, rtol=1e-3, atol=1e-3)


def test_types_are_equal_along_equal_ways():
    x = simulated(numbers((3, 4)), Layout.row((3, 4), SLOTS))
    assert jax.tree.structure(x.T.T) == jax.tree.structure(x)
    assert jax.tree.structure(x.reshape(2, 6).reshape(3, 4)) == jax.tree.structure(x)
    assert jax.tree.structure(x[:, :]) == jax.tree.structure(x)


def test_nothing_else_costs():
    """Views leave no equation but those that pick ciphertexts."""
    x = encrypted(numbers((3, 4)), Layout.row((3, 4), SLOTS))
    jaxpr = jax.make_jaxpr(lambda x: x.T[1:, ::-1].reshape(3, 3, 1))(x).jaxpr
    assert jaxpr.eqns == []
    assert _compat.count_equations(jaxpr, "add") == []


# --- exported programs and copies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("x64", [False, True])
def test_exported_programs(x64):
    """Arrays with their keys, and prepared maps, go out as bytes and come back with the same types and bits."""
    x = encrypted(numbers((3, 5)), Layout.row((3, 5), SLOTS))
    with jax.enable_x64(x64):
        prepared = fhe.matmul_map(x.layout, numbers((5, 4), 1), PARAMS, x.level)
        x = x.with_keys(fhe.evaluation_keys(seed(5), SECRET, rotations=prepared.rotations))
        program = jax.jit(lambda x, prepared: (x @ prepared).T[1:].without_keys())
        exported = jax.export.export(program, disabled_checks=fhe.export_checks())(x, prepared)
        restored = jax.export.deserialize(exported.serialize())
        got, expected = restored.call(x, prepared), program(x, prepared)
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    np.testing.assert_array_equal(got.ciphertext.data, expected.ciphertext.data)


@pytest.mark.parametrize("shape, name", LAYOUTS)
def test_layouts_come_back(shape, name):
    layouts = (LAYOUTS[shape, name], LAYOUTS[shape, "row"])
    assert exports.read_layouts("ArrayMap", 2, exports.write_layouts("ArrayMap", layouts)) == layouts


@pytest.mark.parametrize(
    "field, value",
    [
        ("shape", [3]),
        ("shape", [3, -4]),
        ("shape", [1 << 20, 1 << 20]),
        ("axes", [[[3, 4]], [[4, 0]]]),
        ("axes", [[[3, 4]], [[2, 1]]]),
        ("axes", [[[3, 4]], [[4, -1]]]),
        ("axes", [[[3, 4]], 5]),
        ("axes", [[[3, 4]], [[4, 1.5]]]),
        ("slots", 12),
        ("slots", True),
        ("offset", -1),
        ("copies", [[2, SLOTS]]),
        ("copies", [[2, -4]]),
        ("copies", "none"),
        ("diagonal", 1),
    ],
)
def test_layouts_from_elsewhere_are_checked(field, value):
    header = headers.unseal(exports.write_layouts("EncryptedArray", (Layout.row((3, 4), SLOTS),)).decode())
    assert len(exports.read_layouts("EncryptedArray", 1, headers.seal(header).encode())) == 1
    header["layouts"][0][field] = value
    with pytest.raises(ValueError):
        exports.read_layouts("EncryptedArray", 1, headers.seal(header).encode())
    with pytest.raises(ValueError):
        exports.read_layouts("ArrayMap", 2, headers.seal(header).encode())


def test_copies_and_pickles():
    x = encrypted(numbers((3, 5)), Layout.row((3, 5), SLOTS))
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert jax.tree.structure(y) == jax.tree.structure(x)
        np.testing.assert_array_equal(y.ciphertext.data, x.ciphertext.data)
