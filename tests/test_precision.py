"""Bits of a result: a number, with the median and the mean beside it."""

import copy
import json
import math
import pickle
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import fhejax as fhe

errors = st.lists(st.floats(0, 1e6), min_size=1, max_size=20)


@settings(deadline=None, max_examples=100)
@given(errors)
def test_bits_are_those_of_the_errors(errors):
    bits = fhe.precision(np.zeros(len(errors)), np.array(errors))
    for got, error in [(bits.worst, max(errors)), (bits.median, np.median(errors)), (bits.mean, np.mean(errors))]:
        assert got == (-math.log2(error) if error else math.inf)
    assert bits == bits.worst and type(bits.worst) is float
    assert bits.worst <= bits.median and bits.worst <= bits.mean + 1e-12
    assert bits.errors.tolist() == errors and bits.errors.dtype == np.float64


def test_is_the_number_it_was():
    bits = fhe.precision([1.0, 2.0], [1.0, 2.25])
    assert bits == 2.0 and bits > 1 and hash(bits) == hash(2.0) and isinstance(bits, float)
    assert f"{bits:.1f} {bits} {bits!s}" == "2.0 2.0 2.0" and round(bits) == 2 and json.dumps(bits) == "2.0"
    assert type(bits + 1) is float and bits * 2 == 4 and np.ones(2) @ [bits, bits] == 4
    assert (jnp.ones(2) * bits).tolist() == [2, 2]
    assert repr(bits) == "Precision(worst=2, median=3, mean=3)"
    assert repr(fhe.precision([1.0], [1.0])) == "Precision(worst=inf, median=inf, mean=inf)"


def test_copies_keep_the_errors():
    bits = fhe.precision([1.0, 2.0, 3.0], [1.0, 2.25, 3.5])
    for again in (copy.deepcopy(bits), pickle.loads(pickle.dumps(bits))):
        assert again == bits and again.errors.tolist() == [0, 0.25, 0.5] and repr(again) == repr(bits)
    with pytest.raises(ValueError, match="read-only"):
        bits.errors[0] = 1.0


@pytest.mark.parametrize("dtype", ["uint8", "int32", "bool", "bfloat16", "float32", "complex64"])
def test_any_types(dtype):
    """An unsigned difference would wrap, and NumPy refuses that of truth values."""
    assert fhe.precision(jnp.zeros(3, dtype), jnp.ones(3, dtype)) == 0


def test_complex_and_broadcast():
    bits = fhe.precision(np.zeros(2), np.array([[3 + 4j, 0], [0, 0]]))
    assert bits.errors.tolist() == [[5, 0], [0, 0]] and bits.median == math.inf and bits.mean == -math.log2(1.25)


@pytest.mark.parametrize(
    "expected, got, says",
    [
        ([1.0], [math.nan], "not finite"),
        ([math.inf], [math.inf], "not finite"),
        ([], [], "empty"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], r"got shapes \(2,\) and \(3,\)"),
    ],
)
def test_refuses(expected, got, says):
    with pytest.raises(ValueError, match=f"precision: .*{says}"):
        fhe.precision(expected, got)


@pytest.fixture
def plt():
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


@pytest.mark.parametrize("wrong", [[0.0, 0.0, 0.0], [0.25, 0.25, 0.25], [0.0, 0.5, 0.125], 2.0 ** -np.arange(9, 600)])
def test_histogram(wrong, plt):
    bits = fhe.precision(np.zeros(len(wrong)), wrong)
    ax = bits.plot()
    assert sum(bar.get_height() for bar in ax.patches) == np.count_nonzero(wrong)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    exact = len(wrong) - np.count_nonzero(wrong)
    assert (f"{exact} slots exact" in labels) == bool(exact)
    assert any(label.startswith("worst: ") for label in labels) == bool(np.any(wrong))
    own = plt.figure().subplots()
    assert bits.plot(own) is own
    own.figure.canvas.draw()


def test_histogram_needs_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"plot: .*pip install fhejax\[plot\]"):
        fhe.precision([1.0], [1.5]).plot()
