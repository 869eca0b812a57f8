"""Arrays that the tests of encrypted arrays share: simulated, with anything in the slots that no entry owns."""

import itertools

import numpy as np
from hypothesis import strategies as st
from operations import seed

import fhejax as fhe
from fhejax.arrays.layouts.layout import NAMED

PARAMS = fhe.Parameters.for_depth(3, log_degree=5, security=None)
SLOTS, TOP = PARAMS.slots, PARAMS.max_level
SECRET = fhe.secret_key(seed(1), PARAMS)
SHAPES = [(), (1,), (5,), (8,), (21,), (1, 1), (3, 4), (4, 3), (5, 6), (1, 7), (7, 1), (2, 3, 4), (3, 2, 2), (2, 2, 9)]


def layouts_of(shape):
    """Every layout that arrays of a shape have by name, by name."""
    found = {}
    for name, make in NAMED.items():
        try:
            found[name] = make(shape, SLOTS)
        except ValueError:
            continue
    return found


LAYOUTS = {(shape, name): layout for shape in SHAPES for name, layout in layouts_of(shape).items()}


def numbers(shape, index=0):
    return np.random.default_rng(index).uniform(-1, 1, shape)


def in_slots(values, layout, index=7):
    """`[ciphertexts, slots]` with the values in all their places, and other numbers elsewhere."""
    slots = numbers(layout.ciphertexts * layout.slots, index)
    for offset in layout.copy_offsets():
        slots[layout.positions() + offset] = values
    return slots.reshape(layout.ciphertexts, layout.slots)


def simulated(values, layout):
    return fhe.EncryptedArray(fhe.simulate(in_slots(values, layout), PARAMS), None, layout)


def encrypted(values, layout, index=0):
    return fhe.EncryptedArray(fhe.encrypt(seed(2, index), SECRET, in_slots(values, layout)), None, layout)


def check(x, expected, tolerance=1e-5):
    """The array is what is expected, in every place where its layout says that it stands."""
    assert x.shape == np.shape(expected)
    assert x.ciphertext.shape == (x.layout.ciphertexts,)
    double = "float64" if x.ciphertext.real else "complex128"
    dtype = double if isinstance(x.ciphertext, fhe.Ciphertext) else None
    slots = np.asarray(fhe.decrypt(SECRET, x.ciphertext, dtype=dtype))
    for offset in x.layout.copy_offsets():
        got = slots.ravel()[x.layout.positions() + offset]
        assert np.abs(got - expected).max() < tolerance * max(1.0, np.abs(expected).max()), offset


def cases(*names):
    """A shape and a layout for it; of some names, or of any."""
    chosen = [(shape, layout) for (shape, name), layout in LAYOUTS.items() if name in names or not names]
    return st.sampled_from(chosen)


def through(linear, values):
    """What a map makes of an array with anything elsewhere: its diagonals, rotated and added up in NumPy.

    The result stands in all its places, and zeros elsewhere.
    """
    plan, diagonals = linear.transform.plan, np.asarray(linear.transform.values)
    slots, target = in_slots(values, linear.source), linear.target
    groups = slots.reshape(-1, plan.inputs, slots.shape[-1])
    out = np.zeros((len(groups), plan.outputs, slots.shape[-1]), np.result_type(diagonals, slots))
    for term, (source, output, baby, giant) in enumerate(plan.steps().tolist()):
        row = np.tile(diagonals[term], slots.shape[-1] // diagonals.shape[-1])
        out[:, output] += np.roll(row * np.roll(groups[:, source], -baby, -1), -giant, -1)
    out = out.ravel()
    assert len(out) == target.ciphertexts * target.slots
    rest = np.ones(len(out), bool)
    for offset in target.copy_offsets():
        rest[target.positions() + offset] = False
        np.testing.assert_array_equal(out[target.positions() + offset], out[target.positions()])
    assert len(groups) > 1 or np.abs(out[rest]).max(initial=0.0) == 0
    return out[target.positions()]


@st.composite
def views(draw, shape):
    """A view of arrays of a shape: how it is typed, and the function."""
    ndim, kinds = len(shape), ["transpose", "index", "expand", "reshape", "squeeze"]
    kind = draw(st.sampled_from(kinds))
    if kind == "transpose":
        axes = tuple(draw(st.permutations(range(ndim))))
        return f"transpose{axes}", lambda x: x.transpose(axes)
    if kind == "index":
        index = tuple(draw(_part(size)) for size in shape[: draw(st.integers(0, ndim))])
        if draw(st.booleans()):
            place = draw(st.integers(0, len(index)))
            index = (*index[:place], None, *index[place:])
        return f"[{index}]", lambda x: x[index]
    if kind == "expand":
        axis = draw(st.integers(-ndim - 1, ndim))
        return (
            f"expand_dims({axis})",
            lambda x: x.expand_dims(axis) if hasattr(x, "layout") else np.expand_dims(x, axis),
        )
    if kind == "reshape":
        target = draw(st.sampled_from(_factored(int(np.prod(shape)))))
        return f"reshape{target}", lambda x: x.reshape(target)
    return "squeeze()", lambda x: x.squeeze()


@st.composite
def _part(draw, size):
    """An index of an axis that leaves something."""
    if draw(st.booleans()):
        return draw(st.integers(-size, size - 1))
    step = draw(st.sampled_from([1, 1, 2, 3, 4, -1, -2, -3]))
    low, high = sorted((draw(st.integers(0, size - 1)), draw(st.integers(0, size - 1))))
    if step > 0:
        return slice(low if low else None, high + 1, step)
    return slice(high, low - 1 if low else None, step)


def _factored(size):
    """Shapes of up to three axes with a size."""
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    pairs = [(a, size // a) for a in divisors]
    threes = [(a, b, size // (a * b)) for a, b in itertools.product(divisors, divisors) if size % (a * b) == 0]
    return [(size,), *pairs, *threes]


def drawn(data, *names, most=2):
    """A simulated array after some views, and its values."""
    shape, layout = data.draw(cases(*names))
    x, values = simulated(numbers(shape), layout), numbers(shape)
    for _ in range(data.draw(st.integers(0, most))):
        _, view = data.draw(views(values.shape))
        try:
            x = view(x)
        except ValueError:
            continue
        values = view(values)
    return x, values
