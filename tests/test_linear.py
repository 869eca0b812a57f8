"""Linear transforms: against NumPy, against the sum of rotated products, plans, costs, errors and refusals."""

import copy
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from operations import numbers, seed

import fhejax as fhe
from fhejax.linear.plan import costs, planned
from fhejax.primitives.linear import Basis, hoisted_sums, rotated_sum
from fhejax.simulation import noise

PARAMS = fhe.Parameters.for_depth(3, log_degree=7, security=None)  # several digits, several special primes
SLOTS, TOP = PARAMS.slots, PARAMS.max_level
SECURE = fhe.Parameters.for_depth(2)
# Special primes hardly larger than a digit, so that the errors of keys show.
NARROW = fhe.Parameters.from_bits(12, (40, 40, 40), (41,), scale_bits=35, digit_size=1, security=None)
MATRIX = numbers(1, 5, 3)


@functools.cache
def secret(params=PARAMS):
    return fhe.secret_key(seed(1), params)


@functools.cache
def keys(rotations, params=PARAMS, level=None, seeded=False):
    return fhe.evaluation_keys(seed(2), secret(params), rotations=rotations, level=level, seeded=seeded)


def encrypted(values, params=PARAMS, slots=None, index=0, level=None):
    plain = fhe.encode(values, params, slots=slots, level=level)
    return fhe.encrypt(seed(3, index), secret(params), plain)


def opened(x):
    return np.asarray(fhe.decrypt(secret(x.params), x, dtype="float64" if x.real else "complex128"))


def applied(transform, x):
    return fhe.apply(transform, x, keys(transform.rotations, transform.params))


def random(index, *shape, complex_=False):
    rng = np.random.default_rng(index)
    values = rng.uniform(-1, 1, shape)
    return values + 1j * rng.uniform(-1, 1, shape) if complex_ else values


def bound(transform, message=1.0):
    """Six deviations of what a matrix with entries up to 1 does to values up to 1."""
    params, plan = transform.params, transform.plan
    fresh = noise.encrypt_secret(params) + noise.encode(True)
    weights = float(plan.terms)
    variance = noise.linear_transform(
        params, transform.level, fresh, message, plan.terms, weights, weights, noise.encode(True)
    )
    return 6 * noise.slot_deviation(variance, params.scale_at(transform.level - 1), transform.slots) + 1e-12


# --- what it computes --------------------------------------------------------------------------------------------


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


# --- the same bits -----------------------------------------------------------------------------------------------

TRANSFORMS = {
    "dense": lambda: fhe.LinearTransform.from_matrix(random(0, 8, 10), PARAMS),
    "repeating": lambda: fhe.LinearTransform.from_matrix(random(0, 4, 4), PARAMS, replicated=True),
    "constant": lambda: fhe.LinearTransform.from_diagonals(dict.fromkeys(range(8), 0.5), PARAMS),
    "sparse and repeating": lambda: fhe.LinearTransform.from_diagonals({0: 1, 5: 1, 37: 1}, PARAMS),
    "without giant steps at 0": lambda: fhe.LinearTransform.from_diagonals({21: 1.0, 42: -1.0}, PARAMS),
    "lower level": lambda: fhe.LinearTransform.from_matrix(random(0, 4, 4), PARAMS, 1),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_lowerings_agree(name):
    transform = TRANSFORMS[name]()
    x = encrypted(random(1, 3, 2, SLOTS))
    native = applied(transform, x)
    np.testing.assert_array_equal(native.data, fhe.apply(transform, x, keys(transform.rotations, seeded=True)).data)
    for lowering in ("composed", "reference"):
        with fhe.lowering(lowering):
            np.testing.assert_array_equal(native.data, applied(transform, x).data)


def test_composed_of_seeded_keys():
    transform, x = TRANSFORMS["dense"](), encrypted(random(1, SLOTS))
    with fhe.lowering("composed"):
        seeded = fhe.apply(transform, x, keys(transform.rotations, seeded=True))
    np.testing.assert_array_equal(seeded.data, applied(transform, x).data)


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


# --- transformations of JAX --------------------------------------------------------------------------------------


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


# --- plans -------------------------------------------------------------------------------------------------------


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 1), st.integers(0, 2)), st.sets(st.integers(0, 63), min_size=1), min_size=1
    ).filter(lambda each: (1, 2) in each or max(each) == (0, 0)),
)
@settings(max_examples=50, deadline=None)
def test_a_plan_has_each_diagonal_once(steps):
    plan = planned({key: sorted(each) for key, each in steps.items()}, 64, PARAMS, TOP)
    terms = sorted((j, i, (baby + giant) % 64) for i, j, baby, giant in plan.steps().tolist())
    assert terms == sorted((j, i, k) for (j, i), each in steps.items() for k in each)
    assert len(set(plan.babies)) == len(plan.babies)
    assert len({(each.output, each.step) for each in plan.sums}) == len(plan.sums)
    baby, giant = costs(PARAMS, TOP)
    without_giants = sum(len(set().union(*(e for (_, i), e in steps.items() if i == k)) - {0}) for k in range(3))
    assert plan.hoisted * baby + plan.switched * giant <= without_giants * baby + 1e-9


@pytest.mark.parametrize("steps", [range(0, 1024), range(-1023, 1024), range(0, 8192, 8)])
def test_dense_plans_take_few_key_switches(steps):
    params = fhe.Parameters.preset("n14")
    plan = planned({(0, 0): [step % 8192 for step in steps]}, 8192, params, 7)
    assert plan.hoisted + plan.switched < 3.2 * len(steps) ** 0.5 and plan.switched < plan.hoisted
    assert len(plan.rotations) == plan.hoisted + plan.switched


def test_steps_in_rows_are_found():
    """A convolution of 5 x 5 in rows of 64 costs no more than four babies and four giants, for 24 rotations."""
    steps = [(64 * i + j) % 4096 for i in range(-2, 3) for j in range(-2, 3)]
    plan, (baby, giant) = planned({(0, 0): steps}, 4096, SECURE, 2), costs(SECURE, 2)
    assert plan.hoisted * baby + plan.switched * giant <= 4 * baby + 4 * giant


def equations(jaxpr):
    """All equations of a jaxpr, those of called ones included."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", None)
            if inner is not None:
                yield from equations(inner)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_key_switches_and_mod_downs_in_the_jaxpr_are_the_plans(name):
    transform = TRANSFORMS[name]()
    plan, x = transform.plan, fhe.drop_to_level(encrypted(random(1, SLOTS)), transform.level)
    found = list(equations(jax.make_jaxpr(fhe.apply)(transform, x, keys(transform.rotations)).jaxpr))
    (sums,) = [each for each in found if each.primitive.name == "fhejax_hoisted_sums"]
    assert sum(element != 1 for element in sums.params["elements"]) == plan.hoisted
    rotations = sum(each.primitive.name == "fhejax_add_rotation" for each in found)
    divisions = sum(each.primitive.name == "fhejax_mod_down" for each in found)
    assert rotations == plan.switched  # a key switch with its ModDown each
    assert rotations + divisions == plan.mod_downs
    assert not any("key_switch" in each.primitive.name or "gadget" in each.primitive.name for each in found)


def test_what_whole_operations_are_made_of():
    """One ModUp and no ModDown for all hoisted rotations; one ModDown, of one component, for each giant step."""
    from fhejax.primitives import linear

    transform = TRANSFORMS["dense"]()
    plan, params = transform.plan, transform.params
    basis = Basis(params.moduli, params.special_moduli, params.digit_size)
    element = lambda step: pow(5, step, 2 * params.degree)
    operands = {element(step): keys(transform.rotations).galois[element(step)].operand for step in transform.rotations}
    babies = tuple((i, element(step)) for i, step in plan.babies)
    terms, elements = tuple(each.terms for each in plan.sums), [element(each.step) for each in plan.sums]
    x = encrypted(random(1, SLOTS)).data

    def count(function, *arguments):
        with jax.enable_x64(True):
            names = [each.primitive.name for each in equations(jax.make_jaxpr(function)(*arguments).jaxpr)]
        return {name: names.count(f"fhejax_{name}") for name in ("inner_product", "convert_basis", "mod_down")}

    switched = linear._switched(tuple(e for _, e in babies))
    compose = functools.partial(
        linear._compose_sums,
        inputs=1,
        sources=tuple(i for i, _ in babies),
        elements=tuple(e for _, e in babies),
        sizes=tuple(map(len, terms)),
        terms=sum(terms, ()),
        **basis._asdict(),
    )
    made = count(compose, x, transform.data, *(operands[e] for e in switched))
    assert made == {"inner_product": plan.hoisted, "convert_basis": params.digits, "mod_down": 0}
    with jax.enable_x64(True):
        sums = hoisted_sums([x], transform.data, operands, babies, terms, basis)
        whole = rotated_sum(sums, elements, operands, basis)
    np.testing.assert_array_equal(
        whole, fhe.apply(transform, encrypted(random(1, SLOTS)), keys(transform.rotations)).data
    )
    compose = functools.partial(linear._compose_rotation, element=elements[-1], **basis._asdict())
    (total, pair), key = sums[:2], operands[elements[-1]]
    with jax.enable_x64(True):
        eqns = list(equations(jax.make_jaxpr(compose)(total, pair, key).jaxpr))
    divisions = [each for each in eqns if each.primitive.name == "fhejax_mod_down"]
    assert [each.invars[0].aval.shape for each in divisions] == [pair.shape[1:]]  # one component


@pytest.mark.parametrize("name", ["dense", "without giant steps at 0"])
def test_exactly_the_keys_of_the_transform(name):
    transform = TRANSFORMS[name]()
    x = encrypted(random(1, SLOTS))
    fhe.apply(transform, x, fhe.EvaluationKeys(None, keys(transform.rotations).galois, PARAMS))
    for element in keys(transform.rotations).galois:
        fewer = {g: key for g, key in keys(transform.rotations).galois.items() if g != element}
        with pytest.raises(fhe.MissingKeyError, match="for 1 of"):
            jax.eval_shape(fhe.apply, transform, x, fhe.EvaluationKeys(None, fewer, PARAMS))


# --- errors of the result ----------------------------------------------------------------------------------------

LAYOUTS = {
    "one vector": {},
    "replicated": {"replicated": True},
    "side by side": {"stride": 4},
    "replicated side by side": {"stride": 4, "replicated": True},
}


def rms(values):
    return np.sqrt(np.mean(np.abs(values) ** 2))


@pytest.mark.parametrize("complex_, size", [(False, 1.0), (True, 100.0)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("params", [SECURE, NARROW])
def test_predicted_error(params, layout, complex_, size):
    """By the simulated circuit, and by the noise model from averages; the keys' errors, then the rounding, prevail."""
    matrix, batch = size * random(0, 48, 48, complex_=complex_) / 8, 4
    transform = fhe.LinearTransform.from_matrix(matrix, params, 2, **LAYOUTS[layout])
    period = transform.data.shape[-1] // 2 if "replicated" in layout else params.slots
    values = np.tile(random(1, batch, period, complex_=complex_), params.slots // period)
    with jax.enable_x64(True):
        y = applied(transform, encrypted(values, params))
        simulated = fhe.apply(transform, fhe.simulate(values, params, secret_key=True))
        noisy = fhe.apply(transform, fhe.simulate(values, params, secret_key=True, noise_seed=1))
        predicted, bits = np.sqrt(np.mean(simulated.variance)), float(np.mean(simulated.error_bits))
        means, drawn = np.asarray(simulated.values), np.asarray(noisy.values)
    assert (y.level, y.scale, y.real) == (simulated.level, simulated.scale, simulated.real)
    error = opened(y) - means
    assert 0.85 < rms(error) / predicted < 1.15
    assert 0.85 < rms(drawn - means) / predicted < 1.15
    assert abs(bits - fhe.precision(means, opened(y))) < 1.5
    np.testing.assert_allclose(exact(matrix, values, layout), means, atol=1e-6 * size)

    plan, weights = transform.plan, row_weights(transform)
    variance = noise.linear_transform(
        params,
        2,
        noise.encrypt_secret(params) + noise.encode(True),
        np.mean(np.abs(values) ** 2),
        plan.terms,
        weights.sum(),
        weights[plan.steps()[:, 2] != 0].sum(),
        noise.encode(not complex_) * transform.data.shape[-1] / params.degree,
    )
    model = noise.slot_deviation(variance, y.scale, params.slots) * (2**0.5 if complex_ else 1)
    assert 0.85 < rms(error) / model < 1.15


def exact(matrix, values, layout):
    stride = LAYOUTS[layout].get("stride", 1)
    places = values.reshape(len(values), -1, stride)
    rows, columns = matrix.shape
    period = 64 if "replicated" in layout else places.shape[1]
    blocks = places.reshape(len(values), -1, period, stride)
    result = np.zeros(blocks.shape, np.result_type(matrix, values))
    result[..., :rows, :] = np.einsum("rc,bkcs->bkrs", matrix, blocks[..., :columns, :])
    return result.reshape(len(values), -1)


def row_weights(transform):
    """The mean of |slot|^2 of each term's diagonal."""
    limbs = jnp.repeat(
        transform.data[:, : transform.level + 1], transform.params.degree // transform.data.shape[-1], -1
    )
    fields = transform.params, transform.level, transform.params.scale_at(transform.level), transform.slots
    decoded = fhe.decode(fhe.Plaintext(limbs, *fields, transform.real), dtype="complex128")
    return np.mean(np.abs(np.asarray(decoded)) ** 2, axis=-1)


def test_equals_the_sum_of_rotated_products():
    """The definition, by the operations that users know, within the errors of both."""
    matrix, values = random(0, 30, 30), random(1, 30)
    transform = fhe.LinearTransform.from_matrix(matrix, SECURE)
    x = encrypted(values, SECURE)
    diagonals = {}
    for (r, c), entry in np.ndenumerate(matrix):
        diagonals.setdefault(c - r, np.zeros(SECURE.slots))[r] = entry
    every = keys(tuple(sorted(diagonals)), SECURE)
    naive = fhe.dot_plain(fhe.rotate_many(x, list(diagonals), every), list(diagonals.values()))
    got = applied(transform, x)
    assert jax.tree.structure(got) == jax.tree.structure(naive)
    expected = np.pad(matrix @ values, (0, SECURE.slots - 30))
    errors = opened(got) - expected, opened(naive) - expected
    assert rms(errors[0]) < 1.05 * rms(errors[1])  # rotations are not rounded one by one
    assert np.abs(errors[0] - errors[1]).max() < 2 * bound(transform)


@pytest.mark.parametrize("x64", [False, True])
def test_simulated_values_are_differentiated(x64):
    def loss(matrix, values):
        transform = fhe.LinearTransform.from_matrix(matrix, SECURE, encoded=False, slots=16)
        return jnp.sum(fhe.apply(transform, fhe.simulate(values, SECURE, slots=16)).values ** 2)

    with jax.enable_x64(x64):
        matrix, values = jnp.asarray(numbers(0, 4, 3)), jnp.asarray(numbers(1, 3))
        slopes = jax.grad(loss, (0, 1))(matrix, values)
    out = numbers(0, 4, 3) @ numbers(1, 3)
    np.testing.assert_allclose(slopes[0], 2 * np.outer(out, numbers(1, 3)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(slopes[1], 2 * numbers(0, 4, 3).T @ out, rtol=1e-4, atol=1e-6)


def test_simulated_blocks():
    blocks, values = [[random(0, 8, 8), random(1, 8, 4)], [None, random(2, 3, 4)]], [random(3, 8), random(4, 4)]
    transform = fhe.LinearTransform.from_blocks(blocks, PARAMS)
    got = fhe.apply(transform, [fhe.simulate(v, PARAMS) for v in values], keys(transform.rotations))
    np.testing.assert_allclose(
        got[0].values[:8], blocks[0][0] @ values[0] + blocks[0][1] @ values[1], rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(got[1].values[:3], blocks[1][1] @ values[1], rtol=1e-5, atol=1e-5)


# --- cases that other libraries' users met -----------------------------------------------------------------------


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


# --- what is refused ---------------------------------------------------------------------------------------------

X = functools.cache(lambda: encrypted(random(1, SLOTS)))
make = fhe.LinearTransform
REFUSED = [
    (lambda: make.from_matrix(np.ones(3), PARAMS), ValueError, r"1 dimensions, shape \(3,\); need \(rows, columns\)"),
    (lambda: make.from_matrix(np.ones((0, 3)), PARAMS), ValueError, "at least one row"),
    (lambda: make.from_matrix([["a"]], PARAMS), TypeError, "real or complex numbers"),
    (lambda: make.from_matrix([[1.0, np.nan]], PARAMS), ValueError, r"matrix\[0, 1\] = nan is not finite"),
    (lambda: make.from_matrix([[1e30]], PARAMS, 1), ValueError, "too large for the modulus"),
    (lambda: make.from_matrix(MATRIX, PARAMS, 0), fhe.LevelError, "level 0 is the last"),
    (lambda: make.from_matrix(MATRIX, PARAMS, TOP + 1), ValueError, f"levels 1 to {TOP}"),
    (lambda: make.from_matrix(MATRIX, PARAMS, 1.5), TypeError, "not a Python integer"),
    (lambda: make.from_matrix(MATRIX, 3), TypeError, "got int for the parameters"),
    (lambda: make.from_matrix(MATRIX, PARAMS, slots=3), ValueError, "slots = 3; need a power of two"),
    (lambda: make.from_matrix(MATRIX, PARAMS, stride=3), ValueError, "stride = 3; need a power of two"),
    (lambda: make.from_matrix(MATRIX, PARAMS, stride=SLOTS // 4), ValueError, "which hold 4 entries"),
    (lambda: make.from_diagonals({}, PARAMS), ValueError, "at least one diagonal"),
    (lambda: make.from_diagonals({0: [1.0, 2.0]}, PARAMS), ValueError, rf"shape \(2,\); need \({SLOTS},\)"),
    (lambda: make.from_diagonals({1: 1.0, 1 + SLOTS: 1.0}, PARAMS), ValueError, "two diagonals for step 1"),
    (lambda: make.from_diagonals({0.5: 1.0}, PARAMS), TypeError, "step 0.5 is not an integer"),
    (lambda: make.from_permutation([0, SLOTS], PARAMS), ValueError, f"index {SLOTS} is not a slot"),
    (lambda: make.from_permutation([-1], PARAMS), ValueError, "index -1 is not a slot"),
    (lambda: make.from_permutation([0.5], PARAMS), TypeError, "need integers"),
    (lambda: make.from_permutation([[0]], PARAMS), ValueError, r"shape \(1, 1\)"),
    (lambda: jax.jit(lambda i: make.from_permutation(i, PARAMS).data)(np.arange(3)), TypeError, "must not be traced"),
    (lambda: make.from_function(lambda x: x + 1, 3, PARAMS), ValueError, "not linear.*add constants after"),
    (lambda: make.from_function(lambda x: x**2, 3, PARAMS), ValueError, "not linear"),
    (lambda: make.from_function(jnp.sum, 3, PARAMS), ValueError, r"shape \(\) of 3 entries; need \(rows,\)"),
    (lambda: make.from_function(jnp.sin, 0, PARAMS), ValueError, "at least 1"),
    (lambda: make.from_blocks([], PARAMS), ValueError, "at least one"),
    (lambda: make.from_blocks([[MATRIX], [MATRIX, MATRIX]], PARAMS), ValueError, r"rows of \[1, 2\] blocks"),
    (lambda: make.from_blocks([[MATRIX, MATRIX[:2]]], PARAMS), ValueError, r"blocks of row 0 have \[2, 5\] rows"),
    (lambda: make.from_blocks([[MATRIX, None]], PARAMS), ValueError, "blocks of column 1 have no columns"),
    (lambda: fhe.apply(MATRIX, X(), None), TypeError, "got ndarray for the transform"),
    (lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS), 3.0, None), TypeError, "got float for the ciphertext"),
    (lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS), X() * X(), None), ValueError, "relinearize"),
    (
        lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS), X(), None),
        fhe.MissingKeyError,
        "rotations=transform.rotations",
    ),
    (
        lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS), X(), keys((1,), level=1)),
        fhe.MissingKeyError,
        f"level {TOP}",
    ),
    (lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS), X(), secret()), TypeError, "got SecretKey"),
    (
        lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS), fhe.drop_to_level(X(), 1), keys(())),
        fhe.LevelError,
        f"for level {TOP} and the ciphertext is at level 1",
    ),
    (
        lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS, slots=8), X(), keys(())),
        fhe.ParametersMismatchError,
        f"for 8 slots and the ciphertext has {SLOTS}",
    ),
    (
        lambda: fhe.apply(make.from_matrix(MATRIX, SECURE), X(), None),
        fhe.ParametersMismatchError,
        "parameters differ",
    ),
    (lambda: fhe.apply(make.from_matrix(MATRIX, PARAMS), [X(), X()], None), ValueError, "takes 1 ciphertexts to 1"),
    (lambda: fhe.apply(make.from_blocks([[MATRIX, MATRIX]], PARAMS), X(), None), ValueError, r"\[x0, x1\]"),
    (
        lambda: fhe.apply(make.from_blocks([[MATRIX, MATRIX]], PARAMS), [X(), fhe.simulate(0.0, PARAMS)], None),
        TypeError,
        "some inputs are encrypted",
    ),
]


@pytest.mark.parametrize("call, error, words", REFUSED)
def test_refusals(call, error, words, unchecked):
    with pytest.raises(error, match=words):
        call()


# --- in full size ------------------------------------------------------------------------------------------------


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
