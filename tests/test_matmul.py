"""Matrix products of encrypted arrays with operands in the clear, against NumPy; and what went wrong elsewhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from array_cases import LAYOUTS, PARAMS, SECRET, SLOTS, TOP, check, encrypted, layouts_of, numbers, simulated, through
from drawing import some
from hypothesis import given, strategies as st
from operations import seed

import fhejax as fhe
from fhejax.arrays.layouts.layout import NAMED, Layout

WIDE = fhe.Parameters.for_depth(3, log_degree=7, security=None)


def check_map(x, y, name="row", params=PARAMS, **options):
    """A product's map, of which one operand is `Values`, is NumPy's product."""
    left = isinstance(y, Values)
    layout = NAMED[name]((y if left else x).values.shape, params.slots)
    operands = (x, layout) if left else (layout, y)
    linear = fhe.matmul_map(*operands, params, encoded=False, **options)
    expected = x @ y.values if left else x.values @ y
    got = through(linear, (y if left else x).values)
    assert linear.target.shape == expected.shape
    np.testing.assert_allclose(got, expected, atol=1e-5 * np.abs(expected).max() + 1e-12)


class Values:
    """The encrypted operand."""

    def __init__(self, values):
        self.values = values


@pytest.mark.sampled(10)
@pytest.mark.parametrize("shape, name", [case for case in LAYOUTS if case[0]])
def test_every_layout_from_both_sides(shape, name):
    x = Values(numbers(shape))
    right, left = numbers((shape[-1], 3), 1), numbers((2, *shape[-2:][:1]), 2)
    check_map(x, right, name)
    check_map(left, x, name)
    check_map(x, right[:, 0], name)
    check_map(left[0], x, name)
    check_map(x, right, name, layout="row")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["row", "replicated", "diagonal", "columns", "dense"])
def test_operators_of_simulated_arrays(name):
    x, values = simulated(numbers((3, 4)), layouts_of((3, 4))[name]), numbers((3, 4))
    w, u = numbers((4, 2), 1), numbers((2, 3), 2)
    for y, expected in (
        (x @ w, values @ w),
        (u @ x, u @ values),
        (x @ w[:, 0], values @ w[:, 0]),
        (u[0] @ x, u[0] @ values),
    ):
        check(y, expected)
        assert y.level == TOP - 1


@pytest.mark.slow
@given(
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(1, 40),
    st.sampled_from(["row", "column", "replicated", "interleaved"]),
)
@some(100)
def test_wide_and_tall(n, k, m, name):
    x, w = Values(numbers((n, k))), numbers((k, m), 1)
    check_map(x, w, name, WIDE)
    check_map(numbers((m, n), 1), x, name, WIDE)


def test_batches_are_broadcast():
    values, w = numbers((2, 3, 4)), numbers((2, 4, 5), 1)
    for x, y in ((values, w), (values[:1], w), (values, w[0]), (values[0], w), (values[:, None], w)):
        check_map(Values(x), y)
        check_map(y.swapaxes(-1, -2), Values(x.swapaxes(-1, -2)))


def test_the_new_axis_stands_where_the_old_one_stood():
    x = Layout.interleaved((3, 4), SLOTS)
    assert fhe.matmul_map(x, np.ones((4, 2)), PARAMS).target == Layout(
        (3, 2), x.axes[:1] + Layout.column((4, 2), SLOTS).axes[1:], SLOTS
    )
    row = Layout.row((4, 3), SLOTS)
    assert fhe.matmul_map(row, np.ones((3, 4)), PARAMS).target == Layout.row((4, 4), SLOTS)
    assert fhe.matmul_map(row, np.ones((3, 5)), PARAMS).target == Layout.row((4, 5), SLOTS)  # no room
    again = Layout.replicated((3,), SLOTS)
    assert fhe.matmul_map(again, np.ones((3, 4)), PARAMS).target == Layout.replicated((4,), SLOTS)
    assert fhe.matmul_map(again, np.ones((3, 5)), PARAMS).target == Layout.replicated((5,), SLOTS)
    assert fhe.matmul_map(row, np.ones((3, 2)), PARAMS, layout="column").target == Layout.column((4, 2), SLOTS)


@pytest.mark.slow
def test_one_map_serves_all_ciphertexts_of_a_batch():
    """Rows that lie in several ciphertexts take the plaintexts of one."""
    x = simulated(numbers((21, 4)), Layout.row((21, 4), SLOTS))
    w = numbers((4, 3), 1)
    prepared = fhe.matmul_map(x.layout, w, PARAMS)
    assert x.layout.ciphertexts == 6 and prepared.transform.plan.inputs == 1
    check(x @ prepared, numbers((21, 4)) @ w)
    assert fhe.matmul_map(w.T, Layout.columns((4, 9), SLOTS), PARAMS).transform.plan.inputs == 1
    check_map(w.T, Values(numbers((4, 9))), "columns")


def test_prepared_weights():
    """Encoded once, given to a jitted program as an argument, applied with just its keys."""
    values, w = numbers((3, 5)), numbers((5, 4), 1)
    x = encrypted(values, Layout.row((3, 5), SLOTS))
    prepared = fhe.matmul_map(x.layout, w, PARAMS, x.level)
    keys = fhe.evaluation_keys(seed(5), SECRET, rotations=prepared.rotations)
    y = jax.jit(lambda keys, prepared, x: (x.with_keys(keys) @ prepared).without_keys())(keys, prepared, x)
    check(y, values @ w, 1e-4)
    np.testing.assert_array_equal(y.ciphertext.data, (x.with_keys(keys) @ w).ciphertext.data)
    assert y.layout == prepared.target and y.level == TOP - 1


def test_columns_take_no_key():
    x = encrypted(numbers((3, 5)), Layout.columns((3, 5), SLOTS))
    check(x @ numbers((5, 4), 1) + 1, numbers((3, 5)) @ numbers((5, 4), 1) + 1, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("x64", [False, True])
def test_arrays_of_numpy_and_jax_on_the_left(x64):
    with jax.enable_x64(x64):
        x = simulated(numbers((3, 4)), Layout.row((3, 4), SLOTS))
        for w in (np.ones((2, 3)), jnp.ones((2, 3)), np.ones((2, 3), np.float32), [[1.0, 1.0, 1.0]] * 2):
            check(w @ x if not isinstance(w, list) else fhe.matmul(w, x), np.asarray(w) @ numbers((3, 4)))
        for w in (np.ones(4), jnp.ones(4)):
            check(w * x, numbers((3, 4)))
            check(w - x, 1 - numbers((3, 4)))


def test_traced_weights():
    x = simulated(numbers((3, 4)), Layout.row((3, 4), SLOTS))
    w = numbers((4, 2), 1)
    for weights in (w, w[:, 0]):
        y = jax.jit(lambda w: (x @ w).without_keys())(jnp.asarray(weights))
        check(y, numbers((3, 4)) @ weights)


def test_complex_weights():
    check_map(Values(numbers((3, 4))), numbers((4, 2)) + 1j * numbers((4, 2), 1))


# --- encrypted vectors, dot, outer ------------------------------------------------------------------------------------


def test_encrypted_vectors():
    matrix, vector = numbers((3, 4)), numbers((4,), 1)
    x = simulated(matrix, Layout.row((3, 4), SLOTS))
    y = simulated(vector, x.layout_for((4,)))
    check(x @ y, matrix @ vector)
    check(y @ x.T, vector @ matrix.T)
    check(y @ y, vector @ vector)
    check(y.dot(y), vector.dot(vector))
    check(x.dot(2.0), 2 * matrix)
    check(x.dot(vector), matrix.dot(vector))


@pytest.mark.slow
def test_encrypted_matrices():
    first, second = numbers((4, 4)), numbers((4, 4), 1)
    x, y = (fhe.EncryptedArray.simulate(values, WIDE, "replicated") for values in (first, second))
    check(x @ y, first @ second)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["row", "replicated"])
def test_outer(name):
    first, second = numbers((3,)), numbers((5,), 1)
    x, y = (fhe.EncryptedArray.simulate(values, WIDE, name) for values in (first, second))
    check(fhe.outer(x, second), np.outer(first, second))
    check(fhe.outer(first, y), np.outer(first, second))
    check(fhe.outer(x, y), np.outer(first, second))
    check(fhe.outer(x, y, layout="column"), np.outer(first, second))
    assert fhe.outer(x, second).level == WIDE.max_level - 1


# --- what has gone wrong in other libraries: shapes and slots of products ------------------------------------------


def test_vectors_longer_than_the_slots():
    """A vector of more entries than a ciphertext holds, with matrices that make it shorter, longer, and one number."""
    values = numbers((3 * SLOTS + 5,))
    for columns in (1, 3, SLOTS, 2 * SLOTS + 1):
        check_map(Values(values), numbers((len(values), columns), columns))
        check_map(numbers((columns, len(values)), columns), Values(values))
    check(fhe.EncryptedArray.simulate(values, PARAMS) @ values, values @ values)


def test_identity():
    """All diagonals but one are zero; in every layout, and of one entry."""
    for count in (1, 5, SLOTS):
        for name in layouts_of((count,)):
            check_map(Values(numbers((count,))), np.eye(count), name)
    assert fhe.matmul_map(Layout.row((5,), SLOTS), np.eye(5), PARAMS).rotations == ()
    check(fhe.EncryptedArray.simulate(numbers((5,)), PARAMS) @ np.eye(5), numbers((5,)))


def test_zeros():
    check_map(Values(numbers((3, 4))), np.zeros((4, 2)))
    check_map(Values(numbers((3, 4))), np.diag([0, 0, 1.0, 0]))
    x = encrypted(numbers((3, 4)), Layout.row((3, 4), SLOTS))
    check(x @ np.zeros((4, 4)), np.zeros((3, 4)), 1e-4)


def test_column_times_row():
    """(n, 1) @ (1, m) and (n, 1) @ (m, 1).T."""
    column, row = numbers((9, 1)), numbers((1, 2), 1)
    for name in layouts_of((9, 1)):
        check_map(Values(column), row, name)
        check_map(Values(column), numbers((2, 1), 1).T, name)
    for name in layouts_of((1, 2)):
        check_map(column, Values(row), name)


@pytest.mark.slow
def test_large_matrix_in_several_ciphertexts_times_a_vector():
    matrix, vector = numbers((12, 49)), numbers((49,), 1)
    for name in ("row", "column", "columns", "dense"):
        check_map(Values(matrix), vector, name)
        check_map(numbers((2, 12)), Values(matrix), name)
    check(fhe.EncryptedArray.simulate(matrix, PARAMS) @ vector, matrix @ vector)


@pytest.mark.parametrize("columns", [1, SLOTS - 6, SLOTS - 5, SLOTS - 4, SLOTS, SLOTS + 1, 3 * SLOTS])
def test_rows_and_columns_together_longer_than_the_slots(columns):
    """7 + columns passes the number of slots on the way."""
    for name in ("row", "replicated"):
        check_map(Values(numbers((7,))), numbers((7, columns), 1), name)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["row", "interleaved"])
def test_products_of_different_shapes_in_a_row(name):
    x, first, second = numbers((3, 5)), numbers((5, 2), 1), numbers((2, 7), 2)
    y = fhe.EncryptedArray.simulate(x, WIDE, name)
    check((y @ first + 1) @ second, (x @ first + 1) @ second)
    check((second.T @ (y @ first).T).T * 2, (x @ first) @ second * 2)


@pytest.mark.slow
def test_sums_after_products_and_broadcasts():
    """Copies are not counted, and sizes that are no powers of two leave nothing behind."""
    x = simulated(numbers((2, 3)), Layout.replicated((2, 3), SLOTS))
    check(x.sum(0), numbers((2, 3)).sum(0))
    check(x.mean(), numbers((2, 3)).mean())
    pair = simulated(np.array([2.0, 5.0]), Layout.replicated((2,), SLOTS))
    check(pair.broadcast_to(4, 2).sum(), 28.0)
    check(pair.sum(), 7.0)
    check((x @ numbers((3, 5), 1)).sum(0), (numbers((2, 3)) @ numbers((3, 5), 1)).sum(0))


@pytest.mark.slow
def test_row_order_becomes_column_order():
    x = simulated(numbers((5, 3)), Layout.row((5, 3), SLOTS))
    check(x.to_layout("column").T, numbers((5, 3)).T)
    check(x.T.to_layout("row").sum(0), numbers((5, 3)).sum(1))
