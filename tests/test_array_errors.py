"""Errors of encrypted arrays: NumPy's for shapes, in its words, and what to type for what NumPy does not know."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from array_cases import PARAMS, SECRET, SLOTS, encrypted, numbers, simulated
from operations import seed

import fhejax as fhe
from fhejax.arrays.layouts.layout import Layout

MATRIX = simulated(numbers((2, 3)), Layout.row((2, 3), SLOTS))
CUBE = simulated(numbers((2, 2, 3)), Layout.row((2, 2, 3), SLOTS))


# Each is done to an encrypted array and to one of NumPy.
NUMPYS = {
    "reshape": lambda x: x.reshape(4),
    "reshape unknown": lambda x: x.reshape(-1, 4),
    "reshape two unknown": lambda x: x.reshape(-1, -1),
    "transpose": lambda x: x.transpose(0, 2),
    "transpose repeated": lambda x: x.transpose(0, 0),
    "transpose too few": lambda x: x.transpose((0,)),
    "swapaxes": lambda x: x.swapaxes(0, 2),
    "matrix transpose": lambda x: x[0].mT,
    "squeeze": lambda x: x.squeeze(0),
    "too many indices": lambda x: x[0, 0, 0],
    "index": lambda x: x[5],
    "negative index": lambda x: x[-3],
    "index of an axis": lambda x: x[0, 3],
    "two ellipses": lambda x: x[..., 0, ...],
    "fraction": lambda x: x[0.5],
    "text": lambda x: x["a"],
    "slice": lambda x: x[::0],
    "list": lambda x: x[[0, 2]],
    "mask": lambda x: x[np.array([True, False, True])],
    "take": lambda x: x.take([6]),
    "take along": lambda x: x.take([2], axis=0),
    "sum": lambda x: x.sum(2),
    "sum twice": lambda x: x.sum((0, 0)),
    "sum of no axis": lambda x: x.sum(0.5),
    "mean": lambda x: x.mean(-3),
    "var": lambda x: x.var(2),
    "add": lambda x: x + np.ones(4),
    "subtract": lambda x: x - np.ones((3, 2)),
    "multiply": lambda x: x[:, :2].T[:, :, None][:, 0] * np.ones((4, 1)),
    "divide": lambda x: x / np.full((2, 2), 2.0),
    "matmul": lambda x: x @ np.ones((4, 2)),
    "matmul by a vector": lambda x: x @ np.ones(2),
    "matmul from the left": lambda x: np.ones((3, 3)) @ x,
    "matmul by a number": lambda x: x @ np.float64(2.0),
    "matmul by a list": lambda x: x @ [[1.0, 2.0]],
    "length": lambda x: len(x[:1, :1].reshape(())),
}


def raised(function, x):
    with pytest.raises(Exception) as caught:
        function(x)
    return caught.value


@pytest.mark.parametrize("name", NUMPYS)
def test_numpys_own_words(name, unchecked):
    expected, got = raised(NUMPYS[name], numbers((2, 3))), raised(NUMPYS[name], MATRIX)
    assert type(got) is type(expected)
    assert str(got).strip() == str(expected).strip()


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda x: x.expand_dims(4), lambda v: np.expand_dims(v, 4)),
        (lambda x: x.moveaxis(0, 2), lambda v: np.moveaxis(v, 0, 2)),
        (lambda x: x.broadcast_to(4, 3), lambda v: np.broadcast_to(v, (4, 3))),
        (lambda x: x + x[:, :2], lambda v: v + v[:, :2]),
        (lambda x: x @ x, lambda v: v @ v),
        (lambda x: fhe.matmul_map(x.layout, np.ones((4, 2)), PARAMS), lambda v: v @ np.ones((4, 2))),
        (lambda x: fhe.matmul(CUBE, np.ones((3, 3, 2))), lambda v: np.ones((2, 2, 3)) @ np.ones((3, 3, 2))),
        (lambda x: x.dot(np.ones(2)), lambda v: np.matmul(v, np.ones(2))),
    ],
)
def test_functions_of_numpy(function, expected):
    got, wanted = raised(function, MATRIX), raised(expected, numbers((2, 3)))
    assert type(got) is type(wanted) and str(got).strip() == str(wanted).strip()


def test_the_words_themselves():
    """As they have been for years; another NumPy may say it otherwise, and then so does an encrypted array."""
    for function, words in (
        (lambda: MATRIX.reshape(4), "cannot reshape array of size 6 into shape (4,)"),
        (lambda: MATRIX[0, 0, 0], "too many indices for array: array is 2-dimensional, but 3 were indexed"),
        (lambda: MATRIX[5], "index 5 is out of bounds for axis 0 with size 2"),
        (lambda: MATRIX.sum(2), "axis 2 is out of bounds for array of dimension 2"),
        (lambda: MATRIX + np.ones(4), "operands could not be broadcast together with shapes (2,3) (4,)"),
        (
            lambda: MATRIX @ np.ones((4, 2)),
            "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc",
        ),
    ):
        with pytest.raises((ValueError, IndexError), match=re.escape(words)):
            function()


# --- what to type ---------------------------------------------------------------------------------------------------


def typed(error):
    """What an error says to type."""
    return re.search(r"; type (.*)", str(error))[1]


def test_a_reshape_that_moves_entries():
    error = raised(lambda x: x.reshape(3, 2), MATRIX)
    assert typed(error) == "x.to_layout('dense').reshape(3, 2)"
    np.testing.assert_allclose(
        eval(typed(error), {"x": MATRIX}).decrypt(None), numbers((2, 3)).reshape(3, 2), atol=1e-5
    )


def test_a_slice_that_moves_entries():
    x, values = MATRIX.T.reshape(6), numbers((2, 3)).T.reshape(6)
    assert "x.to_layout('row')[...]" in str(raised(lambda x: x[1:5], x))
    np.testing.assert_allclose(x.to_layout("row")[1:5].decrypt(None), values[1:5], atol=1e-5)


@pytest.mark.parametrize("view", [lambda x: x.T, lambda x: x[0], lambda x: x.sum(0), lambda x: x.reshape(6)])
def test_diagonals_are_not_viewed(view):
    x = simulated(numbers((2, 3)), Layout.diagonals((2, 3), SLOTS))
    assert "x.to_layout('" in str(raised(view, x))
    np.testing.assert_allclose(view(x.to_layout("row")).decrypt(None), view(numbers((2, 3))), atol=1e-5)


@pytest.mark.parametrize("name", ["row", "column"])
def test_operands_in_different_slots(name):
    """What the error says to type brings them together."""
    x = simulated(numbers((2, 3)), Layout.row((2, 3), SLOTS))
    y = simulated(numbers((3,), 1), Layout.row((3,), SLOTS))
    if name == "column":
        y = simulated(numbers((2, 3), 1), Layout.column((2, 3), SLOTS))
    values = numbers(y.shape, 1)
    error = raised(lambda x: x * y, x)
    assert f"arrays of shapes (2, 3) and {y.shape} lie in different slots" in str(error)
    moved = eval(typed(error), {"x": x, "y": y})
    np.testing.assert_allclose((x * moved).decrypt(None), numbers((2, 3)) * values, atol=1e-5)
    moved = eval(typed(raised(lambda x: y + x, x)), {"x": y, "y": x})
    np.testing.assert_allclose(((y if y.ndim == 2 else x) + moved).decrypt(None), numbers((2, 3)) + values, atol=1e-5)


def test_neither_operand_has_the_shape():
    x, y = MATRIX[:, :1], MATRIX[:1]
    error = raised(lambda x: x * y, x)
    assert "x.to_layout('replicated').broadcast_to((2, 3))" in typed(error)
    x = x.to_layout("replicated").broadcast_to((2, 3))
    expected = numbers((2, 3))[:, :1] * numbers((2, 3))[:1]
    np.testing.assert_allclose((x * y.to_layout(x.layout_for(y.shape))).decrypt(None), expected, atol=1e-5)


def test_too_few_copies():
    error = raised(lambda x: x.broadcast_to(2, 2, 3), MATRIX)
    assert typed(error) == "x.to_layout('replicated').broadcast_to((2, 2, 3))"
    expected = np.broadcast_to(numbers((2, 3)), (2, 2, 3))
    np.testing.assert_allclose(eval(typed(error), {"x": MATRIX}).decrypt(None), expected, atol=1e-5)
    assert "too few copies" in str(raised(lambda x: x + np.ones((4, 1, 1)), MATRIX))


@pytest.mark.slow
def test_sums_that_ciphertexts_cut():
    x = fhe.EncryptedArray.simulate(numbers((4, 7)), PARAMS, "dense")
    assert typed(raised(lambda x: x.sum(1), x)) == "x.to_layout('row').sum(1)"
    np.testing.assert_allclose(x.to_layout("row").sum(1).decrypt(None), numbers((4, 7)).sum(1), atol=1e-5)


def test_results_without_entries():
    for empty in (lambda x: x[5:], lambda x: x[1:1], lambda x: x[[]], lambda x: x.take([])):
        with pytest.raises((ValueError, TypeError), match=r"at least one|Cannot cast"):
            empty(MATRIX)


def test_division_by_ciphertexts():
    for function in (lambda x: 1 / x, lambda x: x / x, lambda x: np.ones(3) / x):
        with pytest.raises(TypeError, match="reciprocal"):
            function(MATRIX)
    for exponent in (0, -1, 0.5, "2"):
        with pytest.raises(TypeError, match="integer from 1 on"):
            MATRIX**exponent


def test_what_is_no_number():
    for other in (None, "a", object(), fhe.simulate([1.0], PARAMS)):
        with pytest.raises(TypeError):
            MATRIX + other
    for other in (None, "a"):
        with pytest.raises((TypeError, ValueError)):
            MATRIX @ other


def test_encrypted_arrays_are_not_looked_at():
    for look in (bool, np.asarray, float):
        with pytest.raises(TypeError):
            look(MATRIX)
    with pytest.raises(TypeError, match="indices are static"):
        jax.jit(lambda i: MATRIX[i].without_keys())(jnp.array(0))


def test_keys_and_levels():
    """A missing key names the step and the caller's line; the last level says that no product is left."""
    x = encrypted(numbers((2, 3)), Layout.row((2, 3), SLOTS))
    here = f"{__file__}:{inspect.currentframe().f_lineno + 2}"
    with pytest.raises(fhe.MissingKeyError, match=re.escape(here)) as caught:
        x.sum(1)
    assert "step 1 at level 3" in str(caught.value)
    here = f"{__file__}:{inspect.currentframe().f_lineno + 2}"
    with pytest.raises(fhe.MissingKeyError, match=re.escape(here)):
        x @ np.ones((3, 2))
    with pytest.raises(fhe.MissingKeyError, match="relinearisation key"):
        x * x
    low = fhe.EncryptedArray.simulate(numbers((2, 3)), PARAMS, level=0)
    for function in (
        lambda x: x @ np.ones((3, 2)),
        lambda x: x * 0.5,
        lambda x: x.to_layout("column"),
        lambda x: x.mean(),
    ):
        with pytest.raises(fhe.LevelError, match=r"level 0|level = 0"):
            function(low)


def test_encrypted_beside_simulated_and_other_parameters():
    x = encrypted(numbers((2, 3)), Layout.row((2, 3), SLOTS))
    with pytest.raises(TypeError, match="encrypt all or simulate all"):
        x + MATRIX
    other = fhe.EncryptedArray.simulate(numbers((2, 3)), fhe.Parameters.for_depth(2, log_degree=6, security=None))
    with pytest.raises(fhe.ParametersMismatchError):
        MATRIX + other
    keys = fhe.evaluation_keys(seed(1), SECRET)
    with pytest.raises(ValueError, match=r"x\.to_layout"):
        MATRIX.T.with_keys(keys) @ fhe.matmul_map(MATRIX.layout, np.ones((3, 2)), PARAMS)


def test_layouts_are_refused(unchecked):
    for layout, error, words in (
        ("rows", ValueError, "'row'"),
        (3, TypeError, "type one of"),
        (Layout.row((3, 2), SLOTS), ValueError, "the array has shape"),
        (Layout.row((2, 3), 8), ValueError, "in 8 slots"),
    ):
        with pytest.raises(error, match=re.escape(words)):
            MATRIX.to_layout(layout)
    with pytest.raises(ValueError, match="at least one entry"):
        fhe.EncryptedArray.simulate(np.zeros((0, 3)), PARAMS)
    with pytest.raises(ValueError, match="takes 64 slots"):
        fhe.EncryptedArray.simulate(np.zeros((5, 8)), PARAMS, "replicated")
    with pytest.raises(TypeError, match="matmul_map"):
        fhe.matmul_map(np.ones((2, 2)), np.ones((2, 2)), PARAMS)
