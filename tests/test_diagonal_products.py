"""Matrices by their diagonals times vectors, both encrypted: against NumPy."""

import numpy as np
import pytest
from product_cases import SLOTS, TOP, by_diagonals, encrypted, numbers, opened, simulated, with_its_keys

from fhejax.arrays.layouts.layout import Layout
from fhejax.arrays.products.diagonal_products import diagonals_times_vector


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name, shape",
    [
        *(("diagonal", shape) for shape in ((8, 8), (5, 8), (8, 5), (3, 1), (2, 4, 4))),
        *(("in ciphertexts", shape) for shape in ((5, 8), (5, 6), (3, 1), (1, 4))),
    ],
)
def test_diagonals_times_a_vector(name, shape):
    a, v = numbers(*shape), numbers(shape[-1], index=1)
    layout = by_diagonals(shape) if name == "in ciphertexts" else Layout.diagonals(shape, SLOTS)
    x, w = encrypted(a, layout), encrypted(v, "replicated", 1)
    y, plan = with_its_keys(diagonals_times_vector, x, w)
    rotations_do = shape[-1] == 1 or (name == "in ciphertexts" and shape[-1] & (shape[-1] - 1) == 0)
    assert y.level == TOP - (1 if rotations_do else 2) and y.shape == (a @ v).shape
    if rotations_do:
        assert len(plan.rotations) == shape[-1] - 1
    assert np.abs(opened(y) - a @ v).max() < 2.0**-20
    simulated_ = diagonals_times_vector(simulated(a, layout), simulated(v, "replicated"))
    assert np.abs(np.asarray(simulated_.decrypt(None)) - a @ v).max() < 1e-5


def test_refuses():
    with pytest.raises(ValueError, match=r"type x.to_layout\('diagonal'\)"):
        diagonals_times_vector(simulated(numbers(4, 3), "row"), simulated(numbers(3), "replicated"))
