"""Every operation against its meaning in NumPy: values, level, scale, realness; operators, alignment, batches."""

import copy
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from making import made_once
from operations import (
    OPERATIONS,
    PARAMS,
    SLOTS,
    TOP,
    VARIANTS,
    complexes,
    entries,
    expected,
    keys,
    numbers,
    operand,
    seed,
    stack,
    stacked,
    tolerance,
    values_of,
)

import fhejax as fhe


@made_once
def fresh(index: int) -> tuple[fhe.Ciphertext, np.ndarray]:
    return operand("ciphertext", index)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("operation", (OPERATIONS | VARIANTS).values(), ids=OPERATIONS | VARIANTS)
def test_is_what_numpy_makes_of_the_values(operation):
    result, means = operation.run(keys(), *entries(operation)), expected(operation)
    got = values_of(result)
    assert got.shape == means.shape and np.isrealobj(got) == np.isrealobj(means)
    assert np.abs(got - means).max() < tolerance(operation)
    for part in result if isinstance(result, list) else [result]:
        if isinstance(part, jax.Array):
            continue
        scale = PARAMS.scale_at(operation.level)
        assert (part.level, part.scale) == (operation.level, scale * scale if operation.raw else scale)
        assert (part.slots, part.params, part.real) == (SLOTS, PARAMS, np.isrealobj(means))
        assert part.data.dtype == "uint64" and part.data.shape[-2:] == (operation.level + 1, PARAMS.degree)


# --- operators and numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [2.5, 3, np.float32(0.5), np.int32(7), jnp.float32(1.5), jnp.arange(3), [1.0, 2.0]])
def test_operators_are_the_functions(other):
    x, _ = fresh(0)
    pairs = [
        (x + other, fhe.add(x, other)),
        (other + x, fhe.add(x, other)),
        (x - other, fhe.subtract(x, other)),
        (other - x, fhe.subtract(other, x)),
        (x * other, fhe.multiply_plain(x, other)),
        (other * x, fhe.multiply(other, x)),
    ]
    for got, function in pairs:
        assert jax.tree.structure(got) == jax.tree.structure(function)
        np.testing.assert_array_equal(got.data, function.data)


def test_sums_of_python():
    ciphertexts = [fresh(i)[0] for i in range(3)]
    got = values_of(sum(ciphertexts))
    assert np.abs(got - sum(fresh(i)[1] for i in range(3))).max() < 2.0**-30


@pytest.mark.parametrize("level", [TOP, 0])
@pytest.mark.parametrize("number", [0, 1, -1, 7, np.int64(-7), np.uint8(200)])
def test_integers_multiply_exactly_and_take_no_level(level, number):
    x = fhe.drop_to_level(fresh(0)[0], level)
    got = x * number
    assert jax.tree.structure(got) == jax.tree.structure(x)
    moduli = np.array(x.params.moduli_at(level), dtype=object)[:, None]
    means = np.asarray(x.data).astype(object) * int(number) % moduli
    assert (np.asarray(got.data).astype(object) == means).all()


def test_a_large_integer_on_a_small_message():
    x = fhe.encrypt(seed(1), keys().secret, np.full(SLOTS, 2.0**-60))
    assert np.abs(values_of(x * 2**60) - 1).max() < 2.0**26  # the error of 2^-40 grows as the message does
    raw = x * x
    assert (raw * 5).scale == raw.scale


def test_the_number_is_rounded_once():
    """A number for all slots is a constant polynomial, so its error is below half a unit of the scale."""
    x = fhe.encrypt(seed(1), keys().secret, np.zeros(SLOTS))
    difference = values_of(x + 1 / 3) - values_of(x)
    assert np.abs(difference - 1 / 3).max() <= 2.0**-41 + 2.0**-52


# --- levels and scales -----------------------------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("second", range(TOP + 1))
@pytest.mark.parametrize("first", range(TOP + 1))
def test_operands_of_any_levels_are_aligned(first, second):
    (x, a), (y, b) = fresh(0), fresh(2)
    x, y = fhe.drop_to_level(x, first), fhe.drop_to_level(y, second)
    level = min(first, second)
    plain = fhe.encode(b, PARAMS, level=second)
    for got, means in [(x + y, a + b), (x - y, a - b), (y - x, b - a), (x + plain, a + b), (plain - x, b - a)]:
        assert (got.level, got.scale) == (level, PARAMS.scale_at(level))
        assert np.abs(values_of(got) - means).max() < 2.0**-30
    if level:
        products = [fhe.multiply(x, y, keys().evaluation), fhe.multiply(y, x, keys().evaluation), x * plain]
        for got in products:
            assert (got.level, got.scale) == (level - 1, PARAMS.scale_at(level - 1))
            assert np.abs(values_of(got) - a * b).max() < 2.0**-30


@pytest.mark.sampled(4)
@pytest.mark.parametrize("raw_level", range(1, TOP + 1))
@pytest.mark.parametrize("level", range(TOP + 1))
def test_raw_products_meet_other_levels(raw_level, level):
    (x, a), (y, b), (z, c) = fresh(0), fresh(2), fresh(4)
    raw, z = fhe.drop_to_level(x, raw_level) * fhe.drop_to_level(y, raw_level), fhe.drop_to_level(z, level)
    for got, means in [(raw + z, a * b + c), (z - raw, c - a * b)]:
        assert got.level == min(raw_level, level) and got.components == 3
        assert np.abs(values_of(got) - means).max() < 2.0**-28
    settled = fhe.rescale(fhe.relinearize(raw, keys().evaluation))
    assert settled.scale == PARAMS.scale_at(raw_level - 1)


def test_any_route_to_a_level_gives_one_type():
    x, _ = fresh(0)
    routes = [
        fhe.drop_to_level(x, 1),
        fhe.square(fhe.square(x, keys().evaluation), keys().evaluation),
        0.5 * fhe.drop_to_level(x, 2),
        fhe.rescale(
            fhe.relinearize(fhe.drop_to_level(x, 2) * fhe.multiply_plain(x, x.params.slots), keys().evaluation)
        ),
        fhe.drop_to_level(x * x, 1),
    ]
    two = [fhe.relinearize(route, keys().evaluation) for route in routes]
    assert len({jax.tree.structure(route) for route in two}) == 1


@pytest.mark.parametrize("scale", [2.0**55, 2.0**100])
def test_other_scales_are_brought_to_the_canonical_one(scale):
    """A plaintext may be encoded at any scale; a product of its ciphertext is right all the same."""
    values = numbers(3, SLOTS)
    x = fhe.encrypt(seed(9), keys().public, fhe.encode(values, PARAMS, scale=scale))
    y, b = fresh(0)
    for got, means in [
        (fhe.square(x, keys().evaluation), values * values),
        (fhe.multiply(x, y, keys().evaluation), values * b),
        (x * 0.5, values / 2),
        (x + y, values + b),
    ]:
        assert got.scale >= PARAMS.scale_at(got.level)
        assert np.abs(values_of(got) - means).max() < 2.0**-28


def test_dropping_a_raw_product_to_its_own_level_is_refused():
    x, _ = fresh(0)
    with pytest.raises(fhe.ScaleError, match="rescale"):
        fhe.drop_to_level(x * x, TOP)
    assert fhe.drop_to_level(x, TOP) is x


def test_keys_of_a_lower_level_serve_below():
    low = fhe.evaluation_keys(seed(5), keys().secret, rotations=(1,), conjugation=True, level=1)
    x, a = fhe.drop_to_level(fresh(0)[0], 1), fresh(0)[1]
    results = [
        (fhe.square(x, low), a * a),
        (fhe.rotate(x, 1, low), np.roll(a, -1)),
        (fhe.conjugate(x, low), a),
        (fhe.relinearize(x * x, low), a * a),
    ]
    for got, means in results:
        assert np.abs(values_of(got) - means).max() < 2.0**-30


UNARY = {
    "negate": (lambda x: -x, lambda a: -a, 0),
    "rotate": (lambda x: fhe.rotate(x, 3, keys().evaluation), lambda a: np.roll(a, -3), 0),
    "conjugate": (lambda x: fhe.conjugate(x, keys().evaluation), np.conj, 0),
    "square": (lambda x: fhe.square(x, keys().evaluation), lambda a: a * a, 1),
    "half": (lambda x: x * 0.5, lambda a: a / 2, 1),
    "raw": (lambda x: fhe.relinearize(x * x, keys().evaluation), lambda a: a * a, 1),
    "drop": (lambda x: fhe.drop_to_level(x, 1), lambda a: a, TOP - 1),
}
BINARY = {
    "add": (lambda x, y: x + y, lambda a, b: a + b, 0),
    "subtract": (lambda x, y: x - y, lambda a, b: a - b, 0),
    "multiply": (lambda x, y: fhe.multiply(x, y, keys().evaluation), lambda a, b: a * b, 1),
}


@settings(deadline=None, max_examples=30)
@given(steps=st.lists(st.tuples(st.sampled_from([*UNARY, *BINARY]), *[st.integers(0, 9)] * 2), max_size=8))
def test_any_program_is_what_numpy_makes_of_it(steps):
    """Each step takes values that there are, of whatever levels, and adds one; too deep a step is left out."""
    start = [fresh(0), operand("complex ciphertext", 2), (fhe.drop_to_level(fresh(4)[0], 2), fresh(4)[1])]
    values = [(x, np.asarray(means, complex)) for x, means in start]  # in float64: the oracle must be the better one
    for name, *indices in steps:
        run, meaning, levels = (UNARY | BINARY)[name]
        operands = [values[i % len(values)] for i in indices[: 1 + (name in BINARY)]]
        depth = min(x.level - (x.scale > 1.5 * PARAMS.scale_at(x.level)) for x, _ in operands)
        if depth < max(levels, 1) or np.abs(meaning(*(a for _, a in operands))).max() > 4:
            continue
        values.append((run(*(x for x, _ in operands)), meaning(*(a for _, a in operands))))
    for x, means in values:
        assert np.abs(values_of(x) - means).max() < 2.0**-24


# --- packing, realness, batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [1, 2, 8])
def test_fewer_slots_than_the_ring_holds(slots):
    evaluation = keys().evaluation
    x, y = (fhe.encode(complexes(i, slots), PARAMS, slots=slots) for i in (0, 1))
    a, b = complexes(0, slots), complexes(1, slots)
    ct = fhe.encrypt(seed(3), keys().public, x)
    results = [
        (ct + y, a + b),
        (ct * y, a * b),
        (fhe.square(ct, evaluation), a * a),
        (fhe.rotate(ct, 1, evaluation), np.roll(a, -1)),
        (fhe.rotate(ct, 5, evaluation), np.roll(a, -5)),
        (fhe.conjugate(ct, evaluation), a.conj()),
        (fhe.sum_slots(ct, evaluation), np.full(slots, a.sum())),
        (ct + b, a + b),
        (ct * 0.5, a / 2),
    ]
    results += zip(fhe.rotate_many(ct, (0, 3, -1), evaluation), (a, np.roll(a, -3), np.roll(a, 1)), strict=True)
    for got, means in results:
        assert got.slots == slots
        assert np.abs(values_of(got) - means).max() < 2.0**-28


def test_a_step_longer_than_the_packing_finds_an_equal_one():
    """With 4 slots, the key for step 8 is a full turn, and step 1 has no key but that for step 5."""
    evaluation = fhe.evaluation_keys(seed(4), keys().secret, rotations=(5, 8))
    a = complexes(0, 4)
    x = fhe.encrypt(seed(3), keys().public, fhe.encode(a, PARAMS, slots=4))
    for step in (1, 2, 4, 5, -1):
        assert np.abs(values_of(fhe.rotate(x, step, evaluation)) - np.roll(a, -step)).max() < 2.0**-28


@pytest.mark.parametrize("step", [0, SLOTS, -SLOTS])
def test_a_full_turn_needs_no_key(step):
    x, none = fresh(0)[0], fhe.EvaluationKeys(None, {}, PARAMS)
    assert fhe.rotate(x, step, none) is x
    assert all(turned is x for turned in fhe.rotate_many(x, (step, step), none))


def test_many_rotations_are_single_ones():
    x, steps = fresh(0)[0], (4, 0, 3, 1, 1)
    for got, step in zip(fhe.rotate_many(x, steps, keys().evaluation), steps, strict=True):
        np.testing.assert_array_equal(got.data, fhe.rotate(x, step, keys().evaluation).data)
    assert fhe.rotate_many(x, (), keys().evaluation) == []


def test_rotation_paths():
    evaluation = keys().evaluation
    assert evaluation.rotations == (1, 2, 4, 8) and evaluation.conjugation
    assert fhe.rotation_path(evaluation, 8) == (8,)
    assert fhe.rotation_path(evaluation, SLOTS) == ()
    assert fhe.rotation_path(evaluation, 11) == (1, 2, 8)
    assert fhe.rotation_path(evaluation, 8, slots=8) == ()


SHAPES = [(2, 1, 2), (0,), *(pytest.param(shape, marks=pytest.mark.slow) for shape in ((1,), (3,), (2, 0)))]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", [name for name in OPERATIONS if "number" not in name and "encrypt" not in name])
def test_a_batch_is_its_entries(name, shape):
    operation = OPERATIONS[name]
    if 0 in shape:
        batch = jax.tree.map(lambda x: jnp.broadcast_to(x, (*shape, *x.shape)), entries(operation))
    else:
        batch = stacked(operation, *shape)
    got = operation.run(keys(), *batch)
    single = operation.run(keys(), *entries(operation))
    assert jax.tree.structure(got) == jax.tree.structure(single)
    leaves = jax.tree.map(lambda whole, one: whole.reshape(-1, *one.shape), got, single)
    for index in range(int(np.prod(shape))):
        one = operation.run(keys(), *entries(operation, index))
        jax.tree.map(lambda whole, part: np.testing.assert_array_equal(whole[index], part), leaves, one)  # noqa: B023


def test_batches_broadcast():
    a, b = numbers(0, 2, 1, SLOTS), numbers(1, 3, SLOTS)
    x, y = (fhe.encrypt(seed(6, i), keys().public, v) for i, v in enumerate((a, b)))
    assert (x.shape, y.shape) == ((2, 1), (3,))
    for got, means in [
        (x + y, a + b),
        (x - y, a - b),
        (x * b, a * b),
        (x + b, a + b),
        (fhe.multiply(x, y, keys().evaluation), a * b),
        (x * y, a * b),
        (x * y - x, a * b - a),
        (fhe.dot_plain([x, y], [b, a]), 2 * a * b),
    ]:
        assert got.shape == (2, 3)
        assert np.abs(values_of(got) - means).max() < 2.0**-28


def test_each_key_of_a_batch_has_randomness_of_its_own():
    """The same mask under two keys would give away both: (-a s_1 + e + m) - (-a s_2 + e + m) = a (s_2 - s_1)."""
    secrets = stack([keys(0).secret, keys(1).secret], (2,))
    for key in (secrets, stack([keys(0).public, keys(1).public], (2,))):
        x = fhe.encrypt(seed(1), key, numbers(0, SLOTS))
        assert x.shape == (2,)
        masks = np.asarray(x.data)[:, 1, 0]
        assert not np.array_equal(masks[0], masks[1])
        got = np.asarray(fhe.decrypt(secrets, x))
        assert np.abs(got - numbers(0, SLOTS)).max() < 2.0**-20


# --- what is shown and what is not -----------------------------------------------------------------------------------


def test_what_values_print():
    x, _ = fresh(0)
    batch = stacked(OPERATIONS["encode"], 3)[0]
    plain = fhe.encode(batch, PARAMS, level=1)
    assert repr(x) == "Ciphertext(level=3, scale=2^40.00, slots=16 real, shape=(), N=2^5, 2.0 KiB)"
    assert "3 components" in repr(x * x) and "scale=2^80.00" in repr(x * x)
    assert repr(plain) == "Plaintext(level=1, scale=2^40.00, slots=16 real, shape=(3,), N=2^5, 1.5 KiB)"
    assert "complex" in repr(operand("complex ciphertext", 0)[0])
    text = repr(keys().evaluation)
    assert "relinearization, conjugation, rotations=(1, 2, 4, 8)" in text
    assert "level=3" in repr(keys().evaluation.relinearization)
    assert "PublicKey(Parameters(N=2^5" in repr(keys().public)
    for value in (x, plain, keys().public, keys().evaluation, keys().evaluation.relinearization):
        assert repr(jax.tree.map(lambda _: None, value)) and repr(jax.tree.map(jax.typeof, value))
    assert x.shape == () and x.components == 2 and (x * x).components == 3


def test_composed_rotations_are_logged_and_no_others(caplog):
    with caplog.at_level("INFO", logger="fhejax"):
        fhe.rotate(fresh(0)[0], 1, keys().evaluation)
        assert not caplog.records
        fhe.rotate(fresh(0)[0], -5, keys().evaluation)
    (record,) = caplog.records
    assert record.getMessage().startswith("rotate by ") and "composed of" in record.getMessage()


def test_a_secret_key_is_never_printed():
    secret = keys().secret
    words = {str(int(word)) for word in np.asarray(secret.data).ravel() if word > 9999}
    shown = [repr(secret), str(secret), f"{secret}", repr([secret]), repr(keys()), str(jax.tree.structure(secret))]
    with pytest.raises(TypeError) as caught:
        fhe.multiply(fresh(0)[0], fresh(0)[0], secret)
    for text in (*shown, str(caught.value)):
        assert not any(word in text for word in words)
    assert "data hidden" in repr(secret)


@pytest.mark.parametrize(
    "attempt",
    [
        *(functools.partial(lambda protocol, x: pickle.dumps(x, protocol), p) for p in range(pickle.HIGHEST_PROTOCOL)),
        copy.copy,
        copy.deepcopy,
        lambda x: pickle.dumps({"keys": [x]}),
    ],
)
def test_a_secret_key_is_not_pickled_or_copied(attempt):
    with pytest.raises(TypeError, match="allow_secret=True"):
        attempt(keys().secret)


@pytest.mark.parametrize("name", ["ciphertext", "plaintext", "public key", "evaluation keys"])
def test_public_values_are_pickled_and_copied(name):
    value = {
        "ciphertext": fresh(0)[0],
        "plaintext": operand("plaintext", 0)[0],
        "public key": keys().public,
        "evaluation keys": keys().evaluation,
    }[name]
    for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert jax.tree.structure(again) == jax.tree.structure(value)
        jax.tree.map(np.testing.assert_array_equal, again, value)
