"""Products of encrypted arrays: their plans in NumPy, for any layouts; encrypted and simulated; and what they cost."""

import re

import jax
import jax.export
import numpy as np
import pytest
from drawing import some
from hypothesis import given, strategies as st
from operations import seed
from product_cases import (
    PARAMS,
    SECRET,
    SLOTS,
    TOP,
    by_entries,
    encrypted,
    in_slots,
    numbers,
    opened,
    simulated,
    stacked,
    with_its_keys,
)
from test_linear_plan import equations

import fhejax as fhe
from fhejax.arrays.layouts.layout import NAMED, Digit, Layout
from fhejax.arrays.products import plans
from fhejax.arrays.products.ciphertext_products import ciphertext_product
from fhejax.arrays.products.plans import matrix_product
from fhejax.scheme.values import galois_steps

# --- what the plans compute, in NumPy ---------------------------------------------------------------------------------


def mapped(transform, slots):
    """`[outputs, batch, slots]` of a transform with one input, `[batch, slots]`."""
    plan, diagonals = transform.plan, np.asarray(transform.values)
    results = np.zeros((plan.outputs, *slots.shape))
    for term, (_, output, baby, giant) in enumerate(plan.steps().tolist()):
        row = np.tile(diagonals[term], slots.shape[-1] // diagonals.shape[-1])
        results[output] += np.roll(row * np.roll(slots, -baby, -1), -giant, -1)
    return results


def in_numpy(prepared, x, y):
    """The product, step by step as the plan says."""
    first, second = (y, x) if prepared.flipped else (x, y)
    if prepared.before is not None:
        (second,) = mapped(prepared.before, second)
    plan, parts = prepared.plan, prepared.grid.parts()
    rotated = [np.roll(each, -step, -1) for each in mapped(prepared.first, first) for step in (0, *plan.steps)]
    near, far = np.zeros((2, 1, SLOTS))
    for (k, is_far), factor in zip(parts, mapped(prepared.second, second), strict=True):
        if is_far:
            far = far + rotated[k] * factor
        else:
            near = near + rotated[k] * factor
    return near + np.roll(far, -plan.back, -1)


@given(st.data())
@some(40)
def test_plans_are_right_for_any_layouts(data):
    """Whatever stands in slots that no entry owns."""
    batch = data.draw(st.sampled_from([(), (), (1,), (2,), (3,), (5,), (2, 2)]))
    most = 8 if batch == () else 4
    n, m, p = (data.draw(st.integers(1, most)) for _ in range(3))
    x_batch, y_batch = (data.draw(st.sampled_from([batch, batch, (1,) * len(batch), ()])) for _ in range(2))
    names = ["row", "column", "replicated", "interleaved", "diagonal"]
    x, y = numbers(*x_batch, n, m), numbers(*y_batch, m, p, index=1)
    try:
        layouts = [NAMED[data.draw(st.sampled_from(names))](each.shape, SLOTS) for each in (x, y)]
        prepared = matrix_product(*layouts, PARAMS, encoded=False)
    except ValueError as refused:  # members in different ciphertexts, or no room
        assert re.search("lie across ciphertexts|lie in different ciphertexts|no room|does not fit", str(refused))
        return
    got = in_numpy(prepared, *(in_slots(*pair) for pair in zip((x, y), layouts, strict=True)))
    for offset in prepared.target.copy_offsets():
        np.testing.assert_allclose(got.ravel()[prepared.target.positions() + offset], x @ y, atol=1e-12)


@pytest.mark.parametrize(
    "x, y, depth, shapes",
    [
        ("replicated", "replicated", 2, ((8, 8), (8, 8))),
        ("row", "replicated", 2, ((8, 8), (8, 8))),
        ("row", "row", 2, ((8, 8), (8, 8))),  # all the way round the slots: as replicated
        ("interleaved", "interleaved", 2, ((4, 4, 4), (4, 4, 4))),
        ("row", "row", 2, ((4, 4, 4), (4, 4, 4))),
        ("column", "column", 2, ((8, 8), (8, 8))),
    ],
)
def test_depths(x, y, depth, shapes):
    layouts = [NAMED[name](shape, SLOTS) for name, shape in zip((x, y), shapes, strict=True)]
    prepared = matrix_product(*layouts, PARAMS, encoded=False)
    assert prepared.plan.depth == depth and prepared.before is None
    assert prepared.flipped == (x == "column")


@pytest.mark.slow
def test_a_matrix_that_is_laid_out_first(monkeypatch):
    """Where the plaintexts of the direct way would take too much."""
    monkeypatch.setattr("fhejax.arrays.products.plans._DIRECT_BYTES", 0)
    layout, values = Layout.row((4, 4), SLOTS), numbers(4, 4)
    prepared = plans.plan_product(layout, layout, PARAMS, TOP)
    assert prepared.plan.depth == 3 and prepared.before is not None and "depth=3" in repr(prepared)
    got = in_numpy(prepared, in_slots(values, layout), in_slots(values, layout))
    np.testing.assert_allclose(got.ravel()[prepared.target.positions()], values @ values, atol=1e-12)
    x = encrypted(values, layout)
    (y, plan) = with_its_keys(lambda x: ciphertext_product(x, x, prepared), x)
    assert y.level == TOP - 3 and set(plan.rotations) == set(prepared.rotations)
    assert np.abs(opened(y) - values @ values).max() < 1e-6


# --- encrypted and simulated ------------------------------------------------------------------------------------------

CASES = {
    "square": ("replicated", "replicated", (8, 8), (8, 8)),
    "padded": ("replicated", "row", (5, 7), (7, 3)),
    "wide": ("replicated", "replicated", (2, 8), (8, 4)),
    "columns first": ("column", "column", (8, 8), (8, 8)),
    "interleaved": ("interleaved", "interleaved", (4, 4, 4), (4, 4, 4)),
    "behind each other, over two ciphertexts": ("row", "row", (6, 4, 4), (6, 4, 4)),
    "one for all": ("interleaved", "replicated", (3, 4, 4), (4, 4)),
    "columns of ciphertexts": ("columns", by_entries((3, 2), everywhere=True), (5, 3), (3, 2)),
    "rows of ciphertexts": (
        by_entries((2, 3), everywhere=True),
        Layout((3, 5), ((Digit(3, SLOTS),), (Digit(5, 1),)), SLOTS),
        (2, 3),
        (3, 5),
    ),
    "entries": (by_entries((7, 2, 3)), by_entries((7, 3, 2)), (7, 2, 3), (7, 3, 2)),
    "a ciphertext a member": (
        Layout((3, 8, 8), ((Digit(3, SLOTS),), (Digit(8, 8),), (Digit(8, 1),)), SLOTS),
        "replicated",
        (3, 8, 8),
        (8, 8),
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_encrypted(name, x64):
    x, y, x_shape, y_shape = CASES[name]
    a, b = numbers(*x_shape), numbers(*y_shape, index=1)
    with jax.enable_x64(x64):
        z, plan = with_its_keys(lambda x, y: x @ y, encrypted(a, x), encrypted(b, y, 1))
        assert z.shape == (a @ b).shape and z.ciphertext.scale == PARAMS.scale_at(z.level)
        assert plan.relinearization is not None and z.level in (TOP - 1, TOP - 2)
        got = opened(z)
    assert np.abs(got - a @ b).max() < 2.0**-20


@pytest.mark.slow
@pytest.mark.parametrize("name", ["square", "columns of ciphertexts"])
def test_errors_are_as_predicted(name):
    x, y, x_shape, y_shape = CASES[name]
    a, b = numbers(*x_shape), numbers(*y_shape, index=1)
    with jax.enable_x64(True):
        z, _ = with_its_keys(ciphertext_product, encrypted(a, x), encrypted(b, y, 1))
        expected = ciphertext_product(simulated(a, x), simulated(b, y, 1))
        assert (expected.layout, expected.level) == (z.layout, z.level)
        values = np.asarray(expected.ciphertext.values)
        predicted = np.sqrt(np.mean(expected.ciphertext.variance))
        got = np.asarray(fhe.decrypt(SECRET, z.ciphertext, dtype="float64"))
    assert np.abs(values.ravel()[expected.layout.positions()] - a @ b).max() < 1e-9
    assert 0.5 < np.sqrt(np.mean((got - values) ** 2)) / predicted < 1.3


def twice(size, params, secret, layout):
    """(a @ a) @ a: the product, what is predicted for it, its plan and that of its keys."""
    a = numbers(size, size) / size**0.5
    x = encrypted(a, layout, params=params, secret=secret)
    program = lambda x: ciphertext_product(ciphertext_product(x, x), x)
    plan = fhe.plan_keys(lambda x, keys: program(x.with_keys(keys)).without_keys(), x)
    keys = plan.generate(seed(4), secret)
    z = jax.jit(program)(x.with_keys(keys))
    with jax.enable_x64(True):
        expected = program(simulated(a, layout, params=params))
    return a, z, expected, plan


def check_twice(size, params, layout):
    secret = fhe.secret_key(seed(1), params)
    a, z, expected, plan = twice(size, params, secret, layout)
    once = matrix_product(NAMED[layout](a.shape, params.slots), NAMED[layout](a.shape, params.slots), params).plan
    assert once.depth == 2 and z.level == params.max_level - 4
    assert z.layout == NAMED[layout](a.shape, params.slots)
    assert set(plan.rotations) == set(once.rotations)
    with jax.enable_x64(True):
        got = np.asarray(fhe.decrypt(secret, z.ciphertext, dtype="float64"))
        values, variance = np.asarray(expected.ciphertext.values), np.asarray(expected.ciphertext.variance)
    assert np.abs(values.ravel()[z.layout.positions()] - a @ a @ a).max() < 1e-6
    assert np.abs(got - values).max() < 2.0**-15
    assert 0.5 < np.sqrt(np.mean((got - values) ** 2) / np.mean(variance)) < 1.3


@pytest.mark.slow
def test_twice_in_a_row():
    check_twice(8, PARAMS, "replicated")


@pytest.mark.slow
@pytest.mark.parametrize("log_degree, security", [(13, None), (14, 128)])
def test_twice_in_a_row_in_full_size(log_degree, security):
    """A matrix that fills a ciphertext, and one that stands in it twice, at 128 bits of security."""
    params = fhe.Parameters.for_depth(4, log_degree=log_degree, security=security)
    check_twice(64, params, "replicated")


# --- what it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["square", "padded", "wide", "interleaved", "behind each other, over two ciphertexts"])
def test_key_switches_in_the_jaxpr_are_the_plans(name):
    x, y, x_shape, y_shape = CASES[name]
    a, b = encrypted(numbers(*x_shape), x), encrypted(numbers(*y_shape), y)
    prepared = matrix_product(a.layout, b.layout, PARAMS)
    keys = fhe.evaluation_keys(seed(4), SECRET, rotations=prepared.rotations)
    program = jax.make_jaxpr(lambda x, y, p: ciphertext_product(x, y, p).without_keys())
    found = list(equations(program(a.with_keys(keys), b, prepared).jaxpr))
    count = lambda name: sum(each.primitive.name == f"fhejax_{name}" for each in found)
    elements = lambda name: [
        element for each in found if each.primitive.name == f"fhejax_{name}" for element in each.params["elements"]
    ]
    plan = prepared.plan
    assert sum(element != 1 for element in elements("hoisted_sums")) == plan.hoisted
    assert count("add_rotation") == plan.switched
    assert len(elements("hoisted_rotations")) == plan.rotated
    assert count("key_switch") + count("relinearize_rescale") == plan.relinearizations
    assert count("combination") == 1 + (plan.back != 0)
    assert plan.key_switches == plan.hoisted + plan.switched + plan.rotated + plan.relinearizations
    assert (
        sum(each.params["products"] for each in found if each.primitive.name == "fhejax_combination") == plan.products
    )


def test_a_key_that_is_missing_is_named_when_the_program_is_traced():
    x = encrypted(numbers(4, 4), "replicated")
    rotations = matrix_product(x.layout, x.layout, PARAMS, encoded=False).rotations
    keys = fhe.evaluation_keys(seed(4), SECRET, rotations=rotations)
    jax.eval_shape(ciphertext_product, x.with_keys(keys), x)
    for element in keys.galois:
        # Maps take each step by itself; the rotations of the first factors, by 1 to 3, may be composed.
        fewer = {other: key for other, key in keys.galois.items() if other != element}
        lone = {other: key for other, key in fewer.items() if galois_steps(PARAMS.degree)[other] > 3}
        kept = lone if galois_steps(PARAMS.degree)[element] <= 3 else fewer
        if not kept:
            continue
        with pytest.raises(fhe.MissingKeyError):
            jax.eval_shape(ciphertext_product, x.with_keys(fhe.EvaluationKeys(keys.relinearization, kept, PARAMS)), x)
    keys = fhe.EvaluationKeys(None, fhe.evaluation_keys(seed(4), SECRET, rotations=rotations).galois, PARAMS)
    with pytest.raises(fhe.MissingKeyError, match="relinearisation"):
        jax.eval_shape(ciphertext_product, x.with_keys(keys), x)


def test_repr():
    layout = Layout.replicated((8, 8), SLOTS)
    text = repr(matrix_product(layout, layout, PARAMS, encoded=False))
    assert "depth=2" in text and "relinearizations" in text and "level=4" in text


# --- transformations of JAX -------------------------------------------------------------------------------------------


def test_prepared_or_not_the_bits_are_the_same():
    x = encrypted(numbers(4, 4), "replicated")
    prepared = matrix_product(x.layout, x.layout, PARAMS)
    x = x.with_keys(fhe.evaluation_keys(seed(4), SECRET, rotations=prepared.rotations))
    eager = ciphertext_product(x, x)
    assert jax.eval_shape(ciphertext_product, x, x, prepared).layout == eager.layout
    jitted, given = jax.jit(ciphertext_product)(x, x), jax.jit(ciphertext_product)(x, x, prepared)
    for got in (jitted, given):
        np.testing.assert_array_equal(got.ciphertext.data, eager.ciphertext.data)


def test_vmap_and_scan():
    values = np.stack([numbers(4, 4, index=i) for i in range(3)])
    batch = stacked([fhe.EncryptedArray.encrypt(seed(3, i), SECRET, values[i], "replicated") for i in range(3)])
    prepared = matrix_product(batch.layout, batch.layout, PARAMS)
    keys = fhe.evaluation_keys(seed(4), SECRET, rotations=prepared.rotations)
    square = lambda x: ciphertext_product(x.with_keys(keys), x, prepared).without_keys()
    mapped_ = jax.vmap(square)(batch)
    scanned = jax.lax.scan(lambda _, x: (None, square(x)), None, batch)[1]
    np.testing.assert_array_equal(mapped_.ciphertext.data, scanned.ciphertext.data)
    assert np.abs(np.asarray(mapped_.decrypt(SECRET)) - values @ values).max() < 1e-5


def test_export():
    x = encrypted(numbers(4, 4), "replicated")
    keys = fhe.evaluation_keys(seed(4), SECRET, rotations=matrix_product(x.layout, x.layout, PARAMS).rotations)
    program = jax.jit(lambda x, keys: ciphertext_product(x.with_keys(keys), x).without_keys())
    blob = jax.export.export(program, disabled_checks=fhe.export_checks())(x, keys).serialize()
    got = jax.export.deserialize(blob).call(x, keys)
    np.testing.assert_array_equal(got.ciphertext.data, program(x, keys).ciphertext.data)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_refuses():
    x = simulated(numbers(8, 8), "replicated")
    with pytest.raises(ValueError, match=r"matmul: Input operand 1 has a mismatch"):
        ciphertext_product(x, simulated(numbers(4, 8), "replicated"))
    large = simulated(numbers(16, 16), "row")
    with pytest.raises(ValueError, match=r"lie across ciphertexts.*x\[..., :a, :b\]"):
        ciphertext_product(large, large)
    with pytest.raises(ValueError, match=r"has no room in the 64 slots.*larger ring"):
        ciphertext_product(simulated(numbers(16, 2), "row"), simulated(numbers(2, 16), "row"))
    other = matrix_product(x.layout, x.layout, PARAMS, encoded=False)
    with pytest.raises(ValueError, match=r"type matrix_product\(x.layout, y.layout, x.params, level\)"):
        ciphertext_product(x, simulated(numbers(8, 4), "replicated"), other)
    few, many = simulated(numbers(8, 2, 2), "row"), simulated(numbers(8, 2, 8), "row")
    with pytest.raises(ValueError, match=r"type x.to_layout\('interleaved'\) and y.to_layout\('interleaved'\)"):
        ciphertext_product(few, many)
    low = fhe.EncryptedArray(fhe.drop_to_level(x.ciphertext, 1), None, x.layout)
    with pytest.raises(fhe.LevelError, match=r"takes 2 levels, and there are 1"):
        ciphertext_product(low, x)
