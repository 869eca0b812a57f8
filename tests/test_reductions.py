"""Sums, means, variances and norms of encrypted arrays against NumPy."""

import numpy as np
import pytest
from array_cases import LAYOUTS, PARAMS, SLOTS, TOP, check, drawn, layouts_of, numbers, simulated
from drawing import some
from hypothesis import given, strategies as st

import fhejax as fhe
from fhejax.arrays.layouts.layout import Layout

# --- sums ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.data())
@some(100)
def test_sums_are_numpys(data):
    """Whatever stands in slots that no entry owns, for any layout and view."""
    x, values = drawn(data)
    axes = data.draw(st.sets(st.integers(0, values.ndim - 1))) if values.ndim else set()
    axis = None if data.draw(st.booleans()) else tuple(axes)
    keepdims = data.draw(st.booleans())
    try:
        y = x.sum(axis, keepdims)
    except ValueError as error:
        assert "x.to_layout('row')" in str(error)
        return
    assert y.level == TOP
    check(y, values.sum(axis=axis, keepdims=keepdims))


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "shape, name", [case for case in LAYOUTS if case[1] in ("row", "column", "interleaved", "columns")]
)
def test_every_sum_is_a_sum(shape, name):
    """No conversion is asked for, in layouts the axes of which are single digits."""
    x = simulated(numbers(shape), LAYOUTS[shape, name])
    for axis in (None, *range(len(shape))):
        check(x.sum(axis), numbers(shape).sum(axis))


def test_sums_that_fill_the_slots_are_copies():
    row = simulated(numbers((4, 4)), Layout.row((4, 4), SLOTS))
    assert row.sum().layout.copies == ((SLOTS, 1),) and row.sum(0).layout.copies == ((4, 4),)
    assert row.sum(1).layout.copies == ()
    again = simulated(numbers((2, 4)), Layout.replicated((2, 4), SLOTS))
    assert again.sum(1).layout.copies == ((2, 8),) and again.sum().layout.copies == ((SLOTS, 1),)
    for x in (row.sum(), row.sum(0), again.sum(1), again.sum()):
        check(x, x.decrypt(None))


@pytest.mark.parametrize("count", range(1, SLOTS + 1))
def test_a_sum_takes_few_rotations(count):
    x = simulated(numbers((count,)), Layout.row((count,), SLOTS))
    plan = fhe.plan_keys(lambda keys, x: x.with_keys(keys).sum().ciphertext, None, x)
    assert sum(use.count for use in plan.uses) == count.bit_length() - 1 + count.bit_count() - 1
    assert set(plan.rotations) <= {1, 2, 4, 8}
    check(x.sum(), numbers((count,)).sum())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_means_and_variances(axis, keepdims):
    for name in ("row", "columns", "replicated"):
        values = numbers((3, 4))
        x = simulated(values, layouts_of((3, 4))[name])
        check(x.mean(axis, keepdims), values.mean(axis, keepdims=keepdims))
        check(x.var(axis, keepdims=keepdims), values.var(axis, keepdims=keepdims))
        check(x.var(axis, ddof=1, keepdims=keepdims), values.var(axis, ddof=1, keepdims=keepdims))
        assert x.mean(axis).level == TOP - 1 and x.var(axis).level == TOP - 2


def test_a_mean_leaves_zeros_elsewhere():
    y = simulated(numbers((3, 3)), Layout.row((3, 3), SLOTS)).mean(1)
    rest = np.ones(SLOTS, bool)
    rest[y.layout.positions()] = False
    assert np.abs(np.asarray(y.ciphertext.values).ravel()[rest]).max() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["row", "replicated"])
def test_norm(name):
    params = fhe.Parameters.for_depth(9, log_degree=5, security=None)
    values = numbers((3, 4)) + 1.5
    x = fhe.EncryptedArray.simulate(values, params, name)
    y = x.norm(1, domain=(1, 6), bits=12)
    assert np.abs(y.decrypt(None) - np.linalg.norm(values, axis=1)).max() < 2.0**-11


@pytest.mark.slow
def test_complex_variance():
    values = numbers((2, 4)) + 1j * numbers((2, 4), 1)
    x = fhe.EncryptedArray.simulate(values, PARAMS)
    check(x.var(1), values.var(1))
