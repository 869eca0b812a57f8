"""Linear transforms: against NumPy, against the sum of rotated products, and under transformations of JAX."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from linear_transforms import (
    MATRIX,
    PARAMS,
    SLOTS,
    TOP,
    TRANSFORMS,
    applied,
    bound,
    encrypted,
    keys,
    opened,
    random,
    secret,
)
from operations import numbers, seed
from references import assert_equals_reference

import fhejax as fhe

# --- what it computes -------------------------------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (1, 7), (7, 1), (1, 1), (33, 17), (SLOTS, 2), (50, 30)])
def test_matrix_is_numpys(shape, complex_, x64):
    """Whatever stands behind the vector does not matter, and the result has zeros behind it."""
    matrix, values = random(0, *shape, complex_=complex_), random(1, SLOTS)
    with jax.enable_x64(x64):
        transform = fhe.LinearTransform.from_matrix(matrix, PARAMS, TOP)
        y = applied(transform, encrypted(values))
        assert (y.level, y.scale, y.slots, y.real) == (TOP - 1, PARAMS.scale_at(TOP - 1), SLOTS, not complex_)
    got = opened(y)
    assert np.abs(got[: shape[0]] - matrix @ values[: shape[1]]).max() < bound(transform)
    assert np.abs(got[shape[0] :]).max(initial=0.0) < bound(transform)


@pytest.mark.parametrize("level", range(1, TOP + 1))
def test_every_level(level):
    """A ciphertext of a higher level is brought down."""
    transform = fhe.LinearTransform.from_matrix(MATRIX, PARAMS, level)
    for at in (level, TOP):
        y = applied(transform, fhe.drop_to_level(encrypted(random(1, 3)), at))
        assert (y.level, y.scale) == (level - 1, PARAMS.scale_at(level - 1))
        assert np.abs(opened(y)[:5] - MATRIX @ random(1, 3)).max() < bound(transform)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(5, 3), (4, 4), (3, 8)])
@pytest.mark.parametrize("stride", [1, 4])
def test_replicated(shape, stride):
    period = 1 << (max(shape) - 1).bit_length()
    matrix, vectors = random(0, *shape), random(1, stride, shape[1])
    layout = np.zeros((period, stride))
    layout[: shape[1]] = vectors.T
    transform = fhe.LinearTransform.from_matrix(matrix, PARAMS, TOP, stride=stride, replicated=True)
    repeats = SLOTS // (period * stride)
    got = opened(applied(transform, encrypted(np.tile(layout.ravel(), repeats)))).reshape(repeats, period, stride)
    expected = np.zeros((period, stride))
    expected[: shape[0]] = matrix @ vectors.T
    assert np.abs(got - expected).max() < bound(transform)
    assert transform.data.shape[-1] == 2 * period * stride  # stored without repetition
    assert transform.plan.terms <= period


def test_stride_is_vectors_side_by_side():
    matrix, vectors = random(0, 6, 5), random(1, 8, 5)
    transform = fhe.LinearTransform.from_matrix(matrix, PARAMS, TOP, stride=8)
    got = opened(applied(transform, encrypted(vectors.T.ravel()))).reshape(-1, 8)
    assert np.abs(got[:6] - matrix @ vectors.T).max() < bound(transform)
    assert all(step % 8 == 0 for step in transform.rotations)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("slots", [1, 2, 16])
def test_fewer_slots(slots):
    matrix, values = random(0, slots, slots), random(1, slots)
    transform = fhe.LinearTransform.from_matrix(matrix, PARAMS, TOP, slots=slots)
    got = opened(applied(transform, encrypted(values, slots=slots)))
    assert np.abs(got - matrix @ values).max() < bound(transform)


def test_keys_of_equal_steps_serve_fewer_slots():
    transform = fhe.LinearTransform.from_permutation([1, 2, 3, 0], PARAMS, TOP, slots=4)
    y = fhe.apply(transform, encrypted([1, 2, 3, 4], slots=4), keys((5,)))
    assert transform.rotations == (1,) and np.abs(opened(y) - [2, 3, 4, 1]).max() < 2.0**-20


@given(st.sets(st.integers(-3 * SLOTS, 3 * SLOTS), min_size=1, max_size=6), st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_diagonals(steps, index):
    steps = {step % SLOTS: step for step in steps}.values()
    diagonals, values = {step: random(index + i, SLOTS) for i, step in enumerate(steps)}, random(index, SLOTS)
    transform = fhe.LinearTransform.from_diagonals(diagonals, PARAMS, 1)
    expected = sum(d * np.roll(values, -step) for step, d in diagonals.items())
    assert np.abs(opened(applied(transform, encrypted(values))) - expected).max() < bound(transform)


def test_diagonals_that_are_numbers_or_zero():
    transform = fhe.LinearTransform.from_diagonals({0: 2, 1: np.zeros(SLOTS), -1: 0.5j}, PARAMS)
    values = random(1, SLOTS)
    assert transform.rotations == (SLOTS - 1,) and transform.data.shape[-3:] == (
        2,
        len(PARAMS.moduli) + len(PARAMS.special_moduli),
        2,
    )
    got = opened(applied(transform, encrypted(values)))
    assert np.abs(got - 2 * values - 0.5j * np.roll(values, 1)).max() < bound(transform)


@pytest.mark.parametrize("indices", [[2, 0, 1], np.arange(SLOTS)[::-1], [5, 5, 5, 0], np.arange(SLOTS)])
def test_permutation_is_indexing(indices):
    values = random(1, SLOTS)
    transform = fhe.LinearTransform.from_permutation(indices, PARAMS)
    got = opened(applied(transform, encrypted(values)))
    expected = np.pad(values[np.asarray(indices)], (0, SLOTS - len(indices)))
    assert np.abs(got - expected).max() < bound(transform)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize(
    "function", [jnp.cumsum, jnp.flip, lambda x: jnp.convolve(x, jnp.array([1.0, -2.0, 1.0])), lambda x: x[::2] * 1j]
)
def test_function(function, x64):
    values = random(1, 9)
    with jax.enable_x64(x64):
        transform = fhe.LinearTransform.from_function(function, 9, PARAMS)
        expected = np.asarray(function(jnp.asarray(values)))
        got = opened(applied(transform, encrypted(values)))
    assert np.abs(got[: len(expected)] - expected).max() < (bound(transform) if x64 else 1e-5)


def test_blocks():
    """Several ciphertexts; babies of an input serve all outputs, giants of an output all inputs."""
    blocks = [[random(0, 20, 24), None, random(1, 20, 8)], [random(2, 12, 24), random(3, 12, 16), random(4, 12, 8)]]
    values = [random(5 + i, n) for i, n in enumerate((24, 16, 8))]
    transform = fhe.LinearTransform.from_blocks(blocks, PARAMS)
    got = applied(transform, [encrypted(v, index=i) for i, v in enumerate(values)])
    assert transform.shape == (32, 48) and isinstance(got, list)
    for y, row in zip(got, blocks, strict=True):
        expected = sum(block @ v for block, v in zip(row, values, strict=True) if block is not None)
        assert np.abs(opened(y)[: len(expected)] - expected).max() < bound(transform)
    apart = [fhe.LinearTransform.from_matrix(b, PARAMS).plan for row in blocks for b in row if b is not None]
    assert transform.plan.hoisted < sum(plan.hoisted for plan in apart)
    assert transform.plan.switched < sum(plan.switched for plan in apart)


@pytest.mark.parametrize("lowering", ["native", "composed"])
def test_numbers_encoded_at_every_use_have_the_same_bits(lowering):
    matrix, x = random(0, 4, 3), encrypted(random(1, 9))
    transforms = [fhe.LinearTransform.from_matrix(matrix, PARAMS, encoded=encoded) for encoded in (True, False)]
    with fhe.lowering(lowering):
        first, second = (applied(transform, x) for transform in transforms)
    np.testing.assert_array_equal(first.data, second.data)
    assert transforms[1].data is None and transforms[1].values.nbytes < transforms[0].data.nbytes / 10


# --- the same bits ----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_lowerings_agree(name):
    transform = TRANSFORMS[name]()
    x = encrypted(random(1, 3, 2, SLOTS))
    native = applied(transform, x)
    np.testing.assert_array_equal(native.data, fhe.apply(transform, x, keys(transform.rotations, seeded=True)).data)
    with fhe.lowering("composed"):
        np.testing.assert_array_equal(native.data, applied(transform, x).data)
    assert_equals_reference(native, lambda x: applied(transform, x), x)


def test_composed_of_seeded_keys():
    transform, x = TRANSFORMS["dense"](), encrypted(random(1, SLOTS))
    with fhe.lowering("composed"):
        seeded = fhe.apply(transform, x, keys(transform.rotations, seeded=True))
    np.testing.assert_array_equal(seeded.data, applied(transform, x).data)


@pytest.mark.slow
@pytest.mark.parametrize("log_degree", [3, 5, 11, 12])
def test_lowerings_agree_for_every_block_size(log_degree):
    params = fhe.Parameters.for_depth(2, log_degree=log_degree, security=None)
    n = params.slots
    for stored in ({0: 1.0, 1: 2.0, n // 2 + 1: 1j}, {k: random(k, n) for k in range(min(n, 5))}):
        transform = fhe.LinearTransform.from_diagonals(stored, params)
        x = encrypted(random(1, n), params)
        native = applied(transform, x)
        with fhe.lowering("composed"):
            np.testing.assert_array_equal(native.data, applied(transform, x).data)


def test_residues_without_repetition_stand_for_equal_ones():
    """What is left out is what `encode` would repeat."""
    values, moduli = random(0, 8), len(PARAMS.moduli)
    transform = fhe.LinearTransform.from_diagonals({0: np.tile(values, SLOTS // 8)}, PARAMS)
    full = fhe.encode(np.tile(values, SLOTS // 8), PARAMS)
    short = np.asarray(transform.data)[0, :moduli]
    np.testing.assert_array_equal(np.repeat(short, PARAMS.degree // short.shape[-1], axis=-1), full.data)


# --- transformations of JAX -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x64", [False, True])
def test_jit_vmap_scan_and_eval_shape(x64):
    transform = fhe.LinearTransform.from_matrix(MATRIX, PARAMS)
    evaluation = keys(transform.rotations)
    with jax.enable_x64(x64):
        batch = encrypted(random(1, 2, 3, 3))
        eager = fhe.apply(transform, batch, evaluation)
        mapped = jax.jit(jax.vmap(jax.vmap(fhe.apply, (None, 0, None)), (None, 0, None)))
        scanned = jax.lax.scan(lambda _, x: (None, fhe.apply(transform, x, evaluation)), None, batch)[1]
        shape = jax.eval_shape(fhe.apply, transform, batch, evaluation)
        for got in (jax.jit(fhe.apply)(transform, batch, evaluation), mapped(transform, batch, evaluation), scanned):
            assert jax.tree.structure(got) == jax.tree.structure(eager) == jax.tree.structure(shape)
            np.testing.assert_array_equal(got.data, eager.data)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("encoded", [True, False])
def test_a_batch_of_matrices(encoded):
    """Made under `vmap`, where no entry is known, and applied under `vmap`."""
    matrices, x = numbers(0, 3, 4, 5), encrypted(random(1, 3, 5))
    make = lambda matrix: fhe.LinearTransform.from_matrix(matrix, PARAMS, encoded=encoded)
    transforms = jax.vmap(make)(jnp.asarray(matrices))
    got = jax.vmap(fhe.apply, (0, 0, None))(transforms, x, keys(transforms.rotations))
    expected = np.einsum("brc,bc->br", matrices, random(1, 3, 5))
    assert np.abs(opened(got)[:, :4] - expected).max() < bound(transforms)


def test_a_matrix_that_is_traced():
    known = fhe.LinearTransform.from_matrix(MATRIX, PARAMS)
    evaluation, x = keys(known.rotations), encrypted(random(1, 3))
    program = jax.jit(lambda m, x, k: fhe.apply(fhe.LinearTransform.from_matrix(m, PARAMS), x, k))
    np.testing.assert_array_equal(program(MATRIX, x, evaluation).data, fhe.apply(known, x, evaluation).data)


def test_pickled_and_copied():
    transform = fhe.LinearTransform.from_matrix(MATRIX, PARAMS)
    for other in (pickle.loads(pickle.dumps(transform)), copy.deepcopy(transform)):
        assert jax.tree.structure(other) == jax.tree.structure(transform)
        np.testing.assert_array_equal(other.data, transform.data)


def test_repr():
    text = repr(fhe.LinearTransform.from_matrix(MATRIX, PARAMS))
    assert "5 x 3 real" in text and f"level={TOP}" in text and "7 diagonals" in text and "KiB" in text


# --- cases that other libraries' users met ----------------------------------------------------------------------------


def test_known_zeros_change_nothing_but_the_work():
    """Diagonals of zeros, entries of zero, a zero matrix: elsewhere refused as transparent, or of another level."""
    full = fhe.LinearTransform.from_matrix(np.full((4, 4), 0.5), PARAMS)
    x = encrypted(random(1, SLOTS))
    for matrix in (
        np.eye(4),
        np.zeros((4, 4)),
        np.array([[0.1, 0.1], [0.1, 0.0]]),
        np.outer(np.eye(9)[7], np.eye(9)[2]),
    ):
        transform = fhe.LinearTransform.from_matrix(matrix, PARAMS)
        y = applied(transform, x)
        assert transform.plan.terms < full.plan.terms
        assert jax.tree.structure(y) == jax.tree.structure(applied(full, x))
        n = len(matrix)
        assert np.abs(opened(y)[:n] - matrix @ random(1, SLOTS)[:n]).max() < bound(transform)


@pytest.mark.parametrize("shape", [(SLOTS, SLOTS), (SLOTS - 3, 4), (4, SLOTS), (40, 30), (SLOTS - 40 + 1, 40)])
def test_rows_and_columns_together_may_exceed_the_slots(shape):
    """Each may have as many as there are slots; the last entries do not wrap into the first."""
    matrix, values = random(0, *shape), random(1, SLOTS)
    transform = fhe.LinearTransform.from_matrix(matrix, PARAMS, 1)
    got = opened(applied(transform, encrypted(values)))[: shape[0]]
    assert np.abs(got - matrix @ values[: shape[1]]).max() < bound(transform)


@pytest.mark.parametrize("shape", [(4, SLOTS + 1), (SLOTS + 1, 4), (1, 10 * SLOTS)])
def test_more_than_the_slots_is_refused(shape):
    with pytest.raises(
        ValueError, match=rf"shape \({shape[0]}, {shape[1]}\) does not fit {SLOTS} slots.*at most {SLOTS}"
    ):
        fhe.LinearTransform.from_matrix(np.ones(shape), PARAMS)


def test_more_than_the_slots_in_blocks():
    matrix, values = random(0, 10, SLOTS + 9), random(1, SLOTS + 9)
    transform = fhe.LinearTransform.from_blocks([[matrix[:, :SLOTS], matrix[:, SLOTS:]]], PARAMS)
    (y,) = applied(transform, [encrypted(values[:SLOTS]), encrypted(values[SLOTS:], index=1)])
    assert np.abs(opened(y)[:10] - matrix @ values).max() < bound(transform)


# --- in full size -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("preset, size, level", [("n14", 256, 7), ("n14", 256, 2), ("n15", 1024, 3)])
@pytest.mark.parametrize("replicated", [False, True])
def test_in_full_size(preset, size, level, replicated):
    params = fhe.Parameters.preset(preset)
    if size == 1024 and not replicated:
        level = 1  # two thousand plaintexts of full length
    matrix, values = random(0, size, size) / size**0.5, random(1, size)
    layout = np.tile(values, params.slots // size) if replicated else np.pad(values, (0, params.slots - size))
    transform = fhe.LinearTransform.from_matrix(matrix, params, level, replicated=replicated)
    evaluation = fhe.evaluation_keys(seed(2), secret(params), rotations=transform.rotations, level=level)
    y = fhe.apply(transform, encrypted(layout, params, level=level), evaluation)
    with jax.enable_x64(True):
        simulated = fhe.apply(transform, fhe.simulate(layout, params, level=level, secret_key=True))
        predicted = np.sqrt(np.mean(simulated.variance))
    got = opened(y)
    assert np.abs(got[:size] - matrix @ values).max() < 2.0**-20
    assert 0.5 < rms(got - np.asarray(simulated.values)) / predicted < 1.3
