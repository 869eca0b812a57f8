"""Convolutions and pooling of encrypted images, against JAX's."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from array_cases import check, in_slots, numbers
from drawing import some
from hypothesis import given, settings, strategies as st
from linear_transforms import bound
from making import made_once
from operations import seed

import fhejax as fhe
from fhejax.arrays.images.multiplexing import multiplexed
from fhejax.arrays.layouts.layout import NAMED, Digit

PARAMS = fhe.Parameters.for_depth(3, log_degree=8, security=None)
SLOTS = PARAMS.slots


@made_once
def secret():
    return fhe.secret_key(seed(1), PARAMS)


def simulated(values, layout):
    return fhe.EncryptedArray(fhe.simulate(in_slots(values, layout), PARAMS), None, layout)


def encrypted(values, layout, keys):
    return fhe.EncryptedArray(fhe.encrypt(seed(2), secret(), in_slots(values, layout)), keys, layout)


def convolved(x, kernel, *, stride=1, padding="VALID", dilation=1, input_dilation=1, groups=1):
    """By JAX, in doubles."""
    pair = lambda value: value if isinstance(value, tuple) else (value, value)
    sides = ((padding, padding),) * 2 if isinstance(padding, int) else padding
    with jax.enable_x64(True):
        y = jax.lax.conv_general_dilated(
            jnp.asarray(x.reshape(-1, *x.shape[-3:])), jnp.asarray(kernel), pair(stride), sides,
            pair(input_dilation), pair(dilation), feature_group_count=groups,
        )  # fmt: skip
        return np.asarray(y).reshape(*x.shape[:-3], *y.shape[1:])


def applied_in_the_clear(linear, slots):
    """What a map does to `[ciphertexts, slots]` by its plan: no JAX, so that many maps are tried in a short time."""
    plan, values = linear.transform.plan, np.asarray(linear.transform.values)
    values = np.tile(values, (1, SLOTS // values.shape[-1]))
    groups = slots.reshape(-1, plan.inputs, SLOTS)
    sums = np.zeros((len(groups), plan.outputs, SLOTS))
    for diagonal, (i, j, baby, giant) in zip(values, plan.steps().tolist(), strict=True):
        sums[:, j] += np.roll(diagonal, -giant) * np.roll(groups[:, i], -baby - giant, axis=-1)
    return sums.reshape(-1, SLOTS)


def check_layout(layout):
    """No two entries share a slot, copies stay in their ciphertext, and digits inside ciphertexts or between them."""
    places = layout.positions().ravel()
    everywhere = places[:, None] + layout.copy_offsets()
    assert len(np.unique(everywhere)) == everywhere.size
    assert np.array_equal(everywhere // SLOTS, np.broadcast_to(places[:, None] // SLOTS, everywhere.shape))
    for digit in itertools.chain(*layout.axes):
        assert digit.stride % SLOTS == 0 or digit.size * digit.stride <= SLOTS


def check_map(linear, values, expected):
    """All entries in all copies, whatever stands in the free slots of the operand; and zeros in those of the result."""
    check_layout(linear.target)
    slots = applied_in_the_clear(linear, in_slots(values, linear.source)).ravel()
    for offset in linear.target.copy_offsets():
        np.testing.assert_allclose(slots[linear.target.positions() + offset], expected, atol=1e-9)


@st.composite
def convolutions(draw, largest=9):
    """Shapes of images and of a kernel, settings, and what `layout_of` takes."""
    groups, batch = draw(st.sampled_from([1, 1, 2, 3])), draw(st.sampled_from([(), (), (2,), (5,), (2, 3)]))
    channels, features = (groups * draw(st.sampled_from(sizes)) for sizes in ([1, 2, 3], [1, 2, 4]))
    pixels = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    pairs = lambda most: st.one_of(st.integers(1, most), st.tuples(st.integers(1, most), st.integers(1, most)))
    given_padding = st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 2))] * 2)
    padding = draw(st.one_of(st.sampled_from(["VALID", "SAME", "SAME_LOWER", 0, 1, 2]), given_padding))
    options = {"stride": draw(pairs(3)), "padding": padding, "dilation": draw(pairs(2)), "groups": groups}
    if not isinstance(padding, str):
        options["input_dilation"] = draw(pairs(2))
    kernel = (features, channels // groups, draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    shape = (*batch, channels, *pixels)
    names = st.sampled_from(["row", "column", "interleaved"])
    rooms = st.sampled_from([channels, 9, 16])
    return shape, kernel, options, draw(st.one_of(names, rooms) if len(batch) < 2 else names)


def layout_of(shape, choice):
    """By its name, or of images with room for so many channels."""
    return NAMED[choice](shape, SLOTS) if isinstance(choice, str) else fhe.Layout.images(shape, SLOTS, choice)


def result(shape, kernel, options):
    """Of JAX; None where nothing is left."""
    expected = convolved(numbers(shape), numbers(kernel, 1), **options)
    return None if expected.size == 0 else expected


@pytest.mark.slow
@given(convolutions())
@some(60)
def test_maps_equal_jax(case):
    shape, kernel, options, choice = case
    layout = layout_of(shape, choice)
    if (expected := result(shape, kernel, options)) is None:
        with pytest.raises(ValueError, match="larger than the padded images"):
            fhe.conv2d_map(layout, numbers(kernel, 1), PARAMS, **options)
        return
    linear = fhe.conv2d_map(layout, numbers(kernel, 1), PARAMS, encoded=False, **options)
    check_layout(layout)
    check_map(linear, numbers(shape), expected)
    # And another layer behind it, which finds them multiplexed.
    again = numbers((3, expected.shape[-3], 2, 2), 2)
    second = fhe.conv2d_map(linear.target, again, PARAMS, 2, stride=2, padding="SAME", encoded=False)
    check_map(second, expected, convolved(expected, again, stride=2, padding="SAME"))


@pytest.mark.slow
@given(convolutions(largest=5))
@settings(max_examples=6, deadline=None)
def test_simulated_and_encrypted_equal_jax(case):
    shape, kernel, options, choice = case
    layout = layout_of(shape, choice)
    if (expected := result(shape, kernel, options)) is None:
        return
    values, weights = numbers(shape), numbers(kernel, 1)
    linear = fhe.conv2d_map(layout, weights, PARAMS, **options)
    y = fhe.conv2d(simulated(values, layout), weights, **options)
    assert (y.shape, y.level, y.layout) == (expected.shape, PARAMS.max_level - 1, linear.target)
    check(y, expected)
    check(simulated(values, layout) @ linear, expected)
    keys = fhe.evaluation_keys(seed(3), secret(), rotations=linear.rotations)
    for z in (
        fhe.conv2d(encrypted(values, layout, keys), weights, **options),
        encrypted(values, layout, keys) @ linear,
    ):
        error = np.abs(np.asarray(z.decrypt(secret(), dtype="float64")) - expected).max()
        assert error < bound(linear.transform)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["row", "images"])
def test_errors_are_those_foreseen(name):
    """Of two strided layers, encrypted; the worst slot to a bit."""
    values, first, second = numbers((3, 1, 8, 8)), numbers((4, 1, 3, 3), 1), numbers((8, 4, 3, 3), 2)

    def layers(x):
        x = fhe.conv2d(x, first, stride=2, padding="SAME")
        return fhe.conv2d(x, second, stride=2, padding="SAME")

    x = fhe.EncryptedArray.encrypt(seed(2), secret(), values, name)
    plan = fhe.plan_keys(lambda x, keys: layers(x.with_keys(keys)).without_keys(), x)
    got = np.asarray(layers(x.with_keys(plan.generate(seed(3), secret()))).decrypt(secret(), dtype="float64"))
    with jax.enable_x64(True):
        foreseen = layers(fhe.EncryptedArray.simulate(values, PARAMS, name, secret_key=True))
        expected = convolved(convolved(values, first, stride=2, padding="SAME"), second, stride=2, padding="SAME")
        np.testing.assert_allclose(foreseen.decrypt(None), expected, atol=1e-6)
        bits = float(foreseen.ciphertext.error_bits.min())
    assert abs(fhe.precision(expected, got) - bits) < 1


def test_a_key_is_needed_for_each_rotation():
    layout, kernel = fhe.Layout.images((1, 4, 4), SLOTS), numbers((4, 1, 3, 3))
    x = fhe.EncryptedArray.encrypt(seed(2), secret(), numbers((1, 4, 4)), layout)
    program = lambda x, keys: fhe.conv2d(x.with_keys(keys), kernel, padding="SAME").without_keys()
    plan = fhe.plan_keys(program, x)
    assert set(plan.rotations) == set(fhe.conv2d_map(layout, kernel, PARAMS, padding="SAME").rotations)
    keys = plan.generate(seed(3), secret())
    jax.eval_shape(program, x, keys)
    for element in keys.galois:
        rest = {g: key for g, key in keys.galois.items() if g != element}
        with pytest.raises(fhe.MissingKeyError, match="no key at level 3 for 1 of"):
            jax.eval_shape(program, x, fhe.EvaluationKeys(None, rest, PARAMS))


# --- where the result lies -------------------------------------------------------------------------------------------


def test_gaps_are_filled_as_drawn():
    """The picture in `fhejax.arrays.images.multiplexing`."""
    source = fhe.Layout.row((1, 4, 4), 16)
    first = multiplexed(source, (4, 2, 2), ((2, 1), (2, 1)))
    assert first.positions()[:, 0, 0].tolist() == [0, 1, 4, 5]
    assert first.positions()[0].tolist() == [[0, 2], [8, 10]]
    second = multiplexed(first, (8, 1, 1), ((2, 1), (2, 1)))
    assert second.positions().ravel().tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
    assert first.ciphertexts == second.ciphertexts == 1


def test_planes_come_first_where_there_is_room():
    source = fhe.Layout.images((1, 4, 4), 64)
    target = multiplexed(source, (4, 2, 2), ((2, 1), (2, 1)))
    assert target.axes == ((Digit(4, 16),), (Digit(2, 8),), (Digit(2, 2),))
    # Twice as many: half of a gap is enough, and the ciphertext is full.
    target = multiplexed(source, (8, 2, 2), ((2, 1), (2, 1)))
    assert target.axes[0] == (Digit(4, 16), Digit(2, 1)) and target.copies == ()


@given(*[st.integers(1, 3)] * 3, *[st.integers(3, 12)] * 2, st.sampled_from(["VALID", "SAME"]))
@some(60)
def test_strided_layers_stay_dense(batch, channels, taps, height, width, padding):
    """Four times the channels at a quarter of the pixels take no ciphertext more."""
    layout = fhe.Layout.images((batch, channels, height, width), SLOTS)
    kernel = numbers((4 * channels, channels, taps, taps))
    linear = fhe.conv2d_map(layout, kernel, PARAMS, stride=2, padding=padding, encoded=False)
    check_layout(linear.target)
    assert linear.target.ciphertexts <= layout.ciphertexts


@pytest.mark.slow
def test_channels_that_come_round_take_half_the_diagonals():
    """The numbers in the documentation."""
    params = fhe.Parameters.for_depth(5, log_degree=14, security=None)
    found = {}
    for size, channels, features, stride in [(8, 1, 16, 1), (8, 16, 16, 1), (28, 1, 8, 2), (28, 8, 16, 2)]:
        for name in ("row", "images"):
            layout = NAMED[name]((channels, size, size), params.slots)
            kernel = numbers((features, channels, 3, 3))
            plan = fhe.conv2d_map(
                layout, kernel, params, 3, stride=stride, padding="SAME", encoded=False
            ).transform.plan
            found[size, channels, features, stride, name] = plan.terms, plan.hoisted + plan.switched
            assert plan.inputs == plan.outputs == 1
    assert found == {
        (8, 1, 16, 1, "row"): (144, 25), (8, 1, 16, 1, "images"): (9, 4),
        (8, 16, 16, 1, "row"): (279, 36), (8, 16, 16, 1, "images"): (144, 25),
        (28, 1, 8, 2, "row"): (72, 20), (28, 1, 8, 2, "images"): (9, 4),
        (28, 8, 16, 2, "row"): (96, 18), (28, 8, 16, 2, "images"): (96, 18),
    }  # fmt: skip


@pytest.mark.slow
def test_further_ciphertexts_share_the_map():
    layout = fhe.Layout.images((9, 1, 4, 4), SLOTS, channels=4)  # two in a ciphertext
    assert layout.ciphertexts == 5
    values, kernel = numbers((9, 1, 4, 4)), numbers((4, 1, 3, 3), 1)
    linear = fhe.conv2d_map(layout, kernel, PARAMS, padding="SAME")
    assert (linear.transform.plan.inputs, linear.transform.plan.terms, linear.target.ciphertexts) == (1, 9, 5)
    check(simulated(values, layout) @ linear, convolved(values, kernel, padding="SAME"))
    more = numbers((8, 1, 3, 3), 1)  # and where each gives two
    linear = fhe.conv2d_map(layout, more, PARAMS, padding="SAME")
    assert (linear.transform.plan.inputs, linear.transform.plan.outputs, linear.target.ciphertexts) == (1, 2, 10)
    expected = convolved(values, more, padding="SAME")
    check(y := simulated(values, layout) @ linear, expected)
    back = numbers((2, 8, 2, 2), 2)
    check(fhe.conv2d(y, back, stride=2), convolved(expected, back, stride=2))


@pytest.mark.slow
def test_images_that_fill_several_ciphertexts():
    values, kernel = numbers((2, 3, 12, 9)), numbers((4, 3, 3, 3), 1)
    for layout in (fhe.Layout.images(values.shape, SLOTS), fhe.Layout.column(values.shape, SLOTS)):
        assert layout.ciphertexts > 4
        y = fhe.conv2d(simulated(values, layout), kernel, stride=2, padding=1)
        check(y, convolved(values, kernel, stride=2, padding=1))


VIEWS = {
    "cropped": lambda x: x[:, 1:, 1:-1],
    "some channels": lambda x: x[1:],
    "every other row": lambda x: x[:, ::2],
    "mirrored": lambda x: x[..., ::-1],
    "transposed": lambda x: x.transpose(2, 0, 1),
    "reshaped": lambda x: x.reshape(2, 2, 6, 3),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", VIEWS)
def test_views(name):
    values = numbers((4, 6, 3))
    x, y = VIEWS[name](simulated(values, fhe.Layout.row(values.shape, SLOTS))), VIEWS[name](values)
    kernel = numbers((3, y.shape[-3], 2, 2), 1)
    linear = fhe.conv2d_map(x.layout, kernel, PARAMS, padding="SAME", encoded=False)
    check_map(linear, y, convolved(y, kernel, padding="SAME"))


@pytest.mark.slow
def test_the_layout_can_be_chosen():
    values, kernel = numbers((1, 4, 4)), numbers((2, 1, 3, 3), 1)
    x = fhe.EncryptedArray.simulate(values, PARAMS, "images")
    expected = convolved(values, kernel, padding="SAME")
    for layout in ("row", "columns", fhe.Layout.column((2, 4, 4), SLOTS)):
        y = fhe.conv2d(x, kernel, padding="SAME", layout=layout)
        assert y.layout == (NAMED[layout]((2, 4, 4), SLOTS) if isinstance(layout, str) else layout)
        check(y, expected)


# --- kernels, padding, pooling ---------------------------------------------------------------------------------------


def test_negative_padding_crops():
    """JAX 0.10 and 0.12 read beyond the image on the CPU where a side is cut and the stride is not 1."""
    values, kernel = numbers((2, 5, 6)), numbers((3, 2, 2, 2), 1)
    linear = fhe.conv2d_map(
        fhe.Layout.row(values.shape, SLOTS), kernel, PARAMS, stride=2, padding=((-1, 1), (0, -2)), encoded=False
    )
    check_map(linear, values, convolved(values[:, 1:, :-2], kernel, stride=2, padding=((0, 1), (0, 0))))


@pytest.mark.slow
def test_a_transposed_convolution_goes_back():
    """<conv(x), y> = <x, transposed(y)>."""
    x, y, kernel = numbers((2, 7, 7)), numbers((3, 3, 3), 1), numbers((3, 2, 3, 3), 2)
    forward = fhe.conv2d(fhe.EncryptedArray.simulate(x, PARAMS, "images"), kernel, stride=2)
    turned = kernel.swapaxes(0, 1)[:, :, ::-1, ::-1]
    back = fhe.conv2d(fhe.EncryptedArray.simulate(y, PARAMS, "images"), turned, padding=2, input_dilation=2)
    assert back.shape == x.shape
    assert abs(np.sum(forward.decrypt(None) * y) - np.sum(back.decrypt(None) * x)) < 1e-4


def test_zeros_of_a_kernel_cost_nothing():
    layout = fhe.Layout.images((1, 4, 4), SLOTS)
    cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0.0]])[None, None]
    assert fhe.conv2d_map(layout, cross, PARAMS, padding="SAME").transform.plan.terms == 5
    nothing = fhe.conv2d_map(layout, np.zeros((1, 1, 3, 3)), PARAMS, padding="SAME")
    check(simulated(numbers((1, 4, 4)), layout) @ nothing, np.zeros((1, 4, 4)))


@pytest.mark.slow
def test_training_a_kernel():
    """Gradients through the simulated circuit, in a jitted function, equal those in the clear."""
    values, kernel, wanted = numbers((2, 4, 4)), numbers((3, 2, 3, 3), 1), numbers((3, 2, 2), 2)
    x = fhe.EncryptedArray.simulate(values, PARAMS, "images")

    @jax.jit
    def loss(kernel, x):
        return jnp.mean((fhe.conv2d(x, kernel, stride=2, padding="SAME").decrypt(None) - wanted) ** 2)

    def clear(kernel):
        y = jax.lax.conv_general_dilated(jnp.asarray(values[None], jnp.float32), kernel, (2, 2), "SAME")
        return jnp.mean((y[0] - wanted) ** 2)

    kernel = jnp.asarray(kernel, jnp.float32)
    np.testing.assert_allclose(jax.grad(loss)(kernel, x), jax.grad(clear)(kernel), atol=1e-5)


@pytest.mark.parametrize("name", ["row", "images", "interleaved"])
@pytest.mark.parametrize(
    "window, stride, padding", [(2, None, "VALID"), ((2, 3), 1, "VALID"), (3, 2, "SAME"), (2, (1, 2), 1)]
)
def test_average_pooling(name, window, stride, padding):
    values = numbers((2, 3, 6, 7))
    linear = fhe.avg_pool_map(
        NAMED[name](values.shape, SLOTS), window, PARAMS, stride=stride, padding=padding, encoded=False
    )
    check_map(linear, values, pooled(values, window, stride, padding))


def pooled(values, window, stride, padding):
    pair = lambda value: value if isinstance(value, tuple) else (value, value)
    sizes = pair(window)
    sides = ((0, 0), (0, 0), *[(padding, padding)] * 2) if isinstance(padding, int) else padding
    with jax.enable_x64(True):
        sums = jax.lax.reduce_window(
            jnp.asarray(values), 0.0, jax.lax.add, (1, 1, *sizes), (1, 1, *pair(stride or window)), sides
        )
        return np.asarray(sums) / math.prod(sizes)


@pytest.mark.slow
def test_pooling_between_convolutions():
    """Channels stay where they are, also in gaps."""
    values, kernel = numbers((1, 8, 8)), numbers((8, 1, 3, 3), 1)
    x = fhe.conv2d(fhe.EncryptedArray.simulate(values, PARAMS, "images"), kernel, stride=2, padding="SAME")
    y = fhe.avg_pool(x, 2)
    assert y.layout.axes[0] == x.layout.axes[0]
    check(y, pooled(convolved(values, kernel, stride=2, padding="SAME")[None], 2, None, "VALID")[0])
    assert fhe.avg_pool_map(x.layout, 2, PARAMS, 2).transform.plan.terms == 4


# --- errors ----------------------------------------------------------------------------------------------------------

IMAGES = np.zeros((2, 3, 4, 4))


def call(kernel_shape=(4, 3, 3, 3), images=IMAGES, **options):
    return lambda: fhe.conv2d(fhe.EncryptedArray.simulate(images, PARAMS), np.zeros(kernel_shape), **options)


ERRORS = {
    "channels": (call((4, 2, 3, 3)), ValueError, r"conv2d: images \(2, 3, 4, 4\), kernel \(4, 2, 3, 3\).* feature"),
    "groups": (call((4, 1, 3, 3), groups=2), ValueError, "kernel of shape \\(features, 3 / groups, height, width\\)"),
    "features": (call((4, 1, 3, 3), groups=3), ValueError, "features a multiple of the groups"),
    "no groups": (call(groups=0), ValueError, "groups = 0; need at least 1"),
    "kernel axes": (call((3, 3)), TypeError, r"kernel \(3, 3\)"),
    "image axes": (call(images=IMAGES[0, 0]), ValueError, r"shape \(4, 4\); need \[\*batch, channels, height, width\]"),
    "too large": (call((4, 3, 5, 5)), ValueError, r"\(2, 4, 0, 0\); the kernel is larger than the padded images"),
    "stride": (call(stride=0), ValueError, "stride = 0; need a number of at least 1, or two of them"),
    "three strides": (call(stride=(1, 2, 3)), ValueError, "or two of them"),
    "no integer": (call(dilation=1.5), TypeError, "dilation = 1.5 is not a Python integer"),
    "padding": (call(padding="FULL"), ValueError, 'padding = \'FULL\'; type "VALID", "SAME"'),
    "padding of one side": (call(padding=(1, 1)), ValueError, r"or \(\(top, bottom\), \(left, right\)\)"),
    "transposed": (call(input_dilation=2), ValueError, "takes its padding in numbers"),
    "layout": (call(layout=fhe.Layout.row((2, 4, 4, 4), SLOTS)), ValueError, r"the array has shape \(2, 4, 2, 2\)"),
    "array": (lambda: fhe.conv2d(IMAGES, np.zeros((4, 3, 3, 3))), TypeError, "got ndarray .*EncryptedArray.encrypt"),
    "map": (lambda: fhe.conv2d_map(IMAGES, np.zeros((4, 3, 3, 3)), PARAMS), TypeError, "type x.layout"),
    "level": (
        lambda: fhe.conv2d_map(fhe.Layout.row((3, 4, 4), SLOTS), np.ones((4, 3, 3, 3)), PARAMS, 0),
        fhe.LevelError,
        "conv2d_map: a convolution takes a level",
    ),
    "window": (lambda: fhe.avg_pool(fhe.EncryptedArray.simulate(IMAGES, PARAMS), 0), ValueError, "window = 0; need"),
    "pooled array": (lambda: fhe.avg_pool(IMAGES, 2), TypeError, "avg_pool: got ndarray"),
    "pooled map": (lambda: fhe.avg_pool_map(IMAGES, 2, PARAMS), TypeError, "avg_pool_map: got ndarray .*x.layout"),
    "pool too large": (
        lambda: fhe.avg_pool(fhe.EncryptedArray.simulate(IMAGES, PARAMS), 5),
        ValueError,
        "avg_pool: .*larger than the padded images",
    ),
    "images layout": (lambda: fhe.Layout.images((4, 4), SLOTS), ValueError, "Layout.images: got shape"),
    "room": (
        lambda: fhe.Layout.images((3, 4, 4), SLOTS, channels=2),
        ValueError,
        "channels = 2, and the images have 3",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_what_to_type(name, unchecked):
    function, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        function()
