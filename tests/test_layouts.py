"""Layouts, and the views that only change them."""

import numpy as np
import pytest
from array_cases import LAYOUTS, SLOTS, cases, check, in_slots, numbers, simulated, views
from hypothesis import given, settings, strategies as st

from fhejax.arrays.layouts.axis_digits import canonical, coalesce, place, slice_digits
from fhejax.arrays.layouts.broadcasting import coalesce_copies, compact, narrow, spread
from fhejax.arrays.layouts.layout import Digit, Layout


def viewed_both(x, values, data, most):
    """A chain of views of an array and of its values; those that would move entries are left out, and counted."""
    refused = 0
    for _ in range(data.draw(st.integers(0, most))):
        _, view = data.draw(views(values.shape))
        expected = view(values)
        try:
            x = view(x)
        except ValueError as error:
            assert "x.to_layout(" in str(error)
            refused += 1
            continue
        values = expected
    return x, values, refused


@pytest.mark.sampled(8)
@pytest.mark.parametrize("shape, name", LAYOUTS)
def test_entries_have_places_of_their_own(shape, name):
    layout = LAYOUTS[shape, name]
    places = layout.positions()[..., None] + layout.copy_offsets()
    assert places.shape[:-1] == shape and len(np.unique(places)) == places.size
    assert places.min() >= 0 and places.max() < layout.ciphertexts * SLOTS
    check(simulated(numbers(shape), layout), numbers(shape))


@pytest.mark.slow
@given(st.data())
@settings(max_examples=150, deadline=None)
def test_views_are_numpys(data):
    shape, layout = data.draw(cases())
    x, values, _ = viewed_both(simulated(numbers(shape), layout), numbers(shape), data, 4)
    check(x, values)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_view_is_free_of_a_row_but_reshape(data):
    """What errors say helps: from "row" all but `reshape` is a view, and from "dense" `reshape` is."""
    shape, layout = data.draw(cases("row", "dense"))
    typed, view = data.draw(views(shape))
    x, values = simulated(numbers(shape), layout), numbers(shape)
    if typed.startswith("reshape") and layout != LAYOUTS[shape, "dense"]:
        return
    check(view(x), view(values))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_copies_meet(data):
    """An array in the layout that another one asks for stands wherever it is broadcast to."""
    shape, layout = data.draw(cases())
    shape = tuple(size if data.draw(st.booleans()) else 1 for size in shape)[data.draw(st.integers(0, len(shape))) :]
    found = narrow(layout, shape)
    if found is None:  # vectors beside diagonals, or beside rows that are cut by a ciphertext's end
        assert layout.diagonal or layout == LAYOUTS[layout.shape, "dense"]
        return
    rows, copies = spread(found, layout)
    slots = in_slots(numbers(shape), found)[list(rows)].ravel()
    for offset in layout.copy_offsets():
        np.testing.assert_array_equal(slots[layout.positions() + offset], np.broadcast_to(numbers(shape), layout.shape))
    assert copies == coalesce_copies(layout.copies)


@pytest.mark.parametrize("size", [1, 4])
def test_a_vector_beside_diagonals_has_none(size):
    of_matrix = Layout((size, size), ((), (Digit(size, 1),) if size > 1 else ()), SLOTS, diagonal=True)
    found = narrow(of_matrix, (size,))
    assert found is None or not found.diagonal


@pytest.mark.parametrize("shape", [(2, 5), (4, 5), (2, 2, 5), (3, 5)])
def test_copies_become_axes(shape):
    x, values = simulated(numbers((5,)), Layout.replicated((5,), SLOTS)), numbers((5,))
    if np.prod(shape[:-1]) <= SLOTS // 8:
        check(x.broadcast_to(shape), np.broadcast_to(values, shape))
    else:
        with pytest.raises(ValueError, match="too few copies"):
            x.broadcast_to(shape)


def test_digits_are_joined_and_split():
    assert coalesce((Digit(3, 8), Digit(8, 1)), 20) == (Digit(20, 1),)
    assert canonical((Digit(20, 1),), 20, 8) == (Digit(3, 8), Digit(8, 1))
    assert canonical((Digit(20, -1),), 20, 8) == (Digit(3, -8), Digit(8, -1))
    assert canonical((Digit(5, 4), Digit(4, 16)), 6, 64) == (Digit(2, 4), Digit(4, 16))
    assert canonical((Digit(4, 3), Digit(5, 12)), 1, 64) == ()


@given(st.integers(-15, 15).filter(bool), st.integers(1, 12), st.integers(0, 59))
@settings(max_examples=200, deadline=None)
def test_slices_of_digits(step, count, start):
    """Digits of sizes 4, 3 and 5, far apart: a slice that they can say is right."""
    digits = (Digit(4, 1000), Digit(3, 7), Digit(5, 100))
    indices = start + step * np.arange(count)
    found = slice_digits(digits, start, step, count) if 0 <= indices.min() and indices.max() < 60 else None
    if found is not None:
        offset, own = found
        assert [offset + place(i, own) for i in range(count)] == [place(int(i), digits) for i in indices]
    elif indices.min() >= 0 and indices.max() < 60:
        assert count > 2 and step % 15


@pytest.mark.slow
def test_ciphertexts_without_entries_are_dropped():
    x = simulated(numbers((3, 6)), Layout.columns((3, 6), SLOTS))
    for view in (
        lambda x: x[:, 4:],
        lambda x: x[:, ::2],
        lambda x: x[:, 3],
        lambda x: x[:, ::-3],
        lambda x: x[1:, 5:0:-2],
    ):
        check(view(x), view(numbers((3, 6))))
        assert view(x).layout.ciphertexts == np.atleast_2d(view(numbers((3, 6))).T).shape[0]
    layout, left = compact(Layout((2, 2), ((Digit(2, 4 * SLOTS),), (Digit(2, SLOTS),)), SLOTS))
    assert left == (0, 1, 4, 5) and layout.axes == ((Digit(2, 2 * SLOTS),), (Digit(2, SLOTS),))
