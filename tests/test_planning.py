"""Key plans: exactly the keys that a program asks for, each to its level, whatever transformations it goes through."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from making import made_once
from operations import seed

import fhejax as fhe
from fhejax import _compat
from fhejax.planning.plan import key_bytes
from fhejax.scheme.keys import galois_element

PARAMS = fhe.Parameters.for_depth(5, log_degree=6, security=None)
SLOTS = PARAMS.slots
SECRET = fhe.secret_key(seed(1), PARAMS)
VALUES = np.random.default_rng(0).uniform(-1, 1, (3, SLOTS))
X = fhe.encrypt(seed(2), SECRET, VALUES[0])
BATCH = fhe.encrypt(seed(3), SECRET, VALUES)
SPARSE = fhe.encrypt(seed(4), SECRET, fhe.encode(VALUES[0, :8], PARAMS, slots=8))
WIDTH, BABY, STRIDE = 16, 4, SLOTS // 16
MATRIX = np.random.default_rng(1).uniform(-0.25, 0.25, (WIDTH, WIDTH))
SERIES = np.random.default_rng(2).uniform(-0.1, 0.1, 16)


def matrix_product(x, keys):
    """Baby steps hoisted, giant steps by Horner's rule."""
    index = np.arange(WIDTH)
    diagonal = lambda k, turn: np.repeat(np.roll(MATRIX[index, (index + k) % WIDTH], turn), STRIDE)
    rotated = fhe.rotate_many(x, [i * STRIDE for i in range(BABY)], keys)
    total = None
    for turn in reversed(range(0, WIDTH, BABY)):
        part = fhe.dot_plain(rotated, [diagonal(turn + i, turn) for i in range(BABY)])
        total = part if total is None else fhe.rotate(total, BABY * STRIDE, keys) + part
    return total


def square_and_turn(x, keys):
    return fhe.rotate(fhe.square(x, keys), 3, keys) + fhe.rotate(x, 1, keys)


@jax.jit
def jitted(x, keys):
    return square_and_turn(square_and_turn(x, keys), keys)


def nested(x, keys):
    return jax.jit(lambda x, keys: 0.5 * jitted(x, keys))(x, keys)


def looped(x, keys):
    return jax.lax.scan(lambda x, _: (fhe.rotate(x, 5, keys) + fhe.conjugate(x, keys), None), x, length=4)[0]


def carried(x, keys):
    """The keys are part of what the loop carries."""
    turn = lambda i, state: (fhe.rotate(state[0], 5, state[1]), state[1])
    return jax.lax.fori_loop(0, 3, turn, (x, keys))[0]


def branching(x, keys):
    twice, once = lambda x, k: fhe.rotate(fhe.rotate(x, 2, k), 2, k), lambda x, k: fhe.rotate(x, 1, k)
    return jax.lax.cond(jnp.array(True), twice, once, x, keys)


def roll(x, *steps):
    for step in steps:
        x = np.roll(x, -step, axis=-1)
    return x


def turned(x):
    return roll(x * x, 3) + roll(x, 1)


def by_matrix(x):
    return (MATRIX @ x.reshape(WIDTH, STRIDE)).reshape(-1)


# Each with its ciphertext, its meaning, and the plan: level by step, of relinearisation, of conjugation.
CIRCUITS = {
    "matrix product": (matrix_product, X, by_matrix, {2: 5, 4: 5, 6: 5, 8: 4}, None, None),
    "two matrices": (
        lambda x, k: matrix_product(fhe.square(matrix_product(x, k), k), k),
        *(X, lambda x: by_matrix(by_matrix(x) ** 2), {2: 5, 4: 5, 6: 5, 8: 4}, 4, None),
    ),
    "degree 15": (
        lambda x, k: fhe.evaluate(fhe.Polynomial(SERIES), x, k),
        *(X, lambda x: np.polynomial.chebyshev.chebval(x, SERIES), {}, 5, None),
    ),
    "conjugate": (lambda x, k: fhe.conjugate(0.5 * x, k), X, lambda x: x / 2, {}, None, 4),
    "rotate_many": (
        lambda x, k: sum(fhe.rotate_many(x, (0, 9, -1, 9), k)[1:], start=0.0),
        *(X, lambda x: 2 * roll(x, 9) + roll(x, -1), {9: 5, 31: 5}, None, None),
    ),
    "sum_slots": (
        *(fhe.sum_slots, X, lambda x: np.full(SLOTS, x.sum()), dict.fromkeys((1, 2, 4, 8, 16), 5), None, None),
    ),
    "sparse": (lambda x, k: fhe.rotate(x, -3, k), SPARSE, lambda x: roll(x[:8], -3), {5: 5}, None, None),
    "by one key at two levels": (
        lambda x, k: fhe.rotate(fhe.relinearize(x * fhe.rotate(x, 7, k), k) * 1.0, 7, k),
        *(X, lambda x: roll(x * roll(x, 7), 7), {7: 5}, 5, None),
    ),
    "jit": (jitted, X, lambda x: turned(turned(x)), {1: 5, 3: 4}, 5, None),
    "nested jit": (nested, X, lambda x: turned(turned(x)) / 2, {1: 5, 3: 4}, 5, None),
    "vmap": (
        jax.vmap(square_and_turn, in_axes=(0, None)),
        *(BATCH, lambda _: turned(VALUES), {1: 5, 3: 4}, 5, None),
    ),
    "scan": (
        looped,
        *(X, lambda x: sum(roll(x, *[5] * k) * c for k, c in enumerate((1, 4, 6, 4, 1))), {5: 5}, None, 5),
    ),
    "fori_loop": (carried, X, lambda x: roll(x, 15), {5: 5}, None, None),
    "cond": (branching, X, lambda x: roll(x, 4), {1: 5, 2: 5}, None, None),
    "checkpoint": (jax.checkpoint(square_and_turn), X, turned, {1: 5, 3: 4}, 5, None),
}
each_circuit = pytest.mark.parametrize("name", CIRCUITS)


@made_once
def planned(name):
    function, x, *_ = CIRCUITS[name]
    return fhe.plan_keys(function, x)


@made_once
def generated(name):
    return planned(name).generate(seed(5), SECRET)


def switches(function, x, keys):
    """Key switches for rotations in the jaxpr: here the program is traced with real keys."""
    found = _compat.count_equations(jax.make_jaxpr(function)(x, keys).jaxpr, "fhejax_hoisted_rotations")
    return sum(count * len(parameters["elements"]) for parameters, count in found)


def same(got, wanted):
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    jax.tree.map(np.testing.assert_array_equal, got, wanted)


@each_circuit
def test_the_plan(name):
    *_, rotations, relinearization, conjugation = CIRCUITS[name]
    plan = planned(name)
    assert (plan.rotations, plan.relinearization, plan.conjugation) == (rotations, relinearization, conjugation)
    assert {step: max(level for s, level in plan.pairs if s == step) for step, _ in plan.pairs} == rotations
    assert plan.extra_key_switches == 0


@pytest.mark.sampled(5)
@each_circuit
def test_the_function_runs_with_the_keys_of_the_plan(name):
    function, x, meaning, *_ = CIRCUITS[name]
    keys, plan = generated(name), planned(name)
    assert {g: key.level for g, key in keys.galois.items()} == plan.galois
    assert (keys.relinearization and keys.relinearization.level) == plan.relinearization
    got = fhe.decrypt(SECRET, function(x, keys), dtype="float64")
    np.testing.assert_allclose(got, np.broadcast_to(meaning(VALUES[0]), got.shape), atol=1e-6)


def one_less(keys):
    """The keys without one of them, and with one of them a level lower."""
    if (key := keys.relinearization) is not None:
        yield fhe.EvaluationKeys(None, keys.galois, PARAMS)
        yield fhe.EvaluationKeys(fhe.SwitchingKey(key.data[..., 1:, :], PARAMS, key.level - 1), keys.galois, PARAMS)
    for element, key in keys.galois.items():
        rest = {g: other for g, other in keys.galois.items() if g != element}
        lower = fhe.SwitchingKey(key.data[..., 1:, :], PARAMS, key.level - 1)
        yield fhe.EvaluationKeys(keys.relinearization, rest, PARAMS)
        yield fhe.EvaluationKeys(keys.relinearization, rest | {element: lower}, PARAMS)


@pytest.mark.sampled(6)
@each_circuit
def test_every_key_of_the_plan_is_needed_to_its_level(name):
    """Without it tracing fails, or where other steps compose the rotation, it takes more key switches."""
    function, x, *_ = CIRCUITS[name]
    keys = generated(name)
    with_all, tried = switches(function, x, keys), 0
    for fewer in one_less(keys):
        tried += 1
        try:
            jax.eval_shape(function, x, fewer)
        except fhe.MissingKeyError:
            continue
        assert switches(function, x, fewer) > with_all
    assert tried == 2 * len(jax.tree.leaves(keys))


@pytest.mark.parametrize("name", ["degree 15", "conjugate", "sparse", "by one key at two levels", "scan", "fori_loop"])
def test_without_one_key_tracing_fails(name):
    """These have no other steps to compose rotations of."""
    function, x, *_ = CIRCUITS[name]
    for fewer in one_less(generated(name)):
        with pytest.raises(fhe.MissingKeyError):
            jax.eval_shape(function, x, fewer)


@each_circuit
def test_counts(name):
    function, x, *_ = CIRCUITS[name]
    plan, element = planned(name), 2 * PARAMS.degree - 1
    asked = sum(use.count for use in plan.uses if use.slots or use.element == element)
    assert asked == switches(function, x, generated(name))


def test_counts_in_loops_and_branches():
    count = lambda name: {use.element: use.count for use in planned(name).uses}
    five, one, two = (galois_element(PARAMS, step) for step in (5, 1, 2))
    assert count("scan") == {five: 4, 2 * PARAMS.degree - 1: 4} and count("fori_loop") == {five: 3}
    assert count("cond") == {one: 1, two: 2}
    inner = fhe.plan_keys(lambda x, k: (jitted(x, k), jitted(x, k)), X)
    assert [use.count for use in inner.uses] == [2 * use.count for use in planned("jit").uses]


@each_circuit
def test_a_cached_trace_keeps_its_record(name):
    """Planned before, run before, and jitted around."""
    function, x, *_ = CIRCUITS[name]
    plan = planned(name)
    jax.eval_shape(function, x, generated(name))
    outer = jax.jit(function)
    for again in (function, outer, outer, lambda x, keys: outer(x, keys)):
        assert fhe.plan_keys(again, x) == plan


@pytest.mark.parametrize("x64", [False, True])
@each_circuit
def test_shapes_will_do(name, x64):
    function, x, *_ = CIRCUITS[name]
    with jax.enable_x64(x64):
        shape = jax.eval_shape(lambda x: x, x)
        assert fhe.plan_keys(function, shape) == fhe.plan_keys(function, x) == planned(name)


def test_shapes_of_encrypt():
    x = jax.eval_shape(lambda seed: fhe.encrypt(seed, SECRET, VALUES[0]), seed(1))
    assert isinstance(x.data, jax.ShapeDtypeStruct)
    assert fhe.plan_keys(matrix_product, x) == planned("matrix product")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name in CIRCUITS if name not in ("vmap", "sparse", "cond")])
def test_simulated_values_need_the_same_keys(name):
    assert fhe.plan_keys(CIRCUITS[name][0], fhe.simulate(VALUES[0], PARAMS)) == planned(name)


def test_none_stands_for_the_keys():
    def first(keys, x, weights):
        return fhe.rotate(x * weights, 2, keys)

    weights = np.ones(SLOTS)
    wanted = fhe.plan_keys(lambda x, weights, keys: first(keys, x, weights), X, weights)
    assert wanted.rotations == {2: 4} == fhe.plan_keys(first, None, X, weights).rotations
    assert fhe.plan_keys(first, None, X, jax.ShapeDtypeStruct((SLOTS,), np.float32)) == wanted
    both = fhe.plan_keys(lambda a, x, b: fhe.rotate(fhe.square(x, a), 1, b), None, X, None)
    assert (both.rotations, both.relinearization) == ({1: 4}, 5)


def test_a_program_that_looks_at_its_keys():
    def looking(x, keys):
        assert isinstance(keys, fhe.EvaluationKeys) and keys.conjugation and "every key" in repr(keys)
        assert keys.rotations == tuple(range(1, SLOTS)) and len(keys.galois) == SLOTS
        assert 1 not in keys.galois and 4 not in keys.galois and 5 in keys.galois
        assert fhe.rotation_path(keys, 7) == (7,)
        assert keys.galois[5].level == keys.relinearization.level == PARAMS.max_level
        with pytest.raises(KeyError):
            keys.galois[4]
        return x

    plan = fhe.plan_keys(looking, fhe.drop_to_level(X, 1))
    assert (plan.rotations, plan.relinearization, plan.conjugation) == ({1: 5}, 5, None)
    with pytest.raises(ValueError, match="not enough"):
        plan.within(plan.bytes() - 1)


def test_no_keys():
    plan = fhe.plan_keys(lambda x, keys: fhe.rotate(x + x, SLOTS, keys), X)
    assert plan.bytes() == plan.bytes(seeded=True) == 0 and not plan.uses and plan.within(0) is plan
    keys = plan.generate(seed(5), SECRET)
    assert keys.relinearization is None and keys.galois == {}


@each_circuit
@pytest.mark.parametrize("seeded", [False, True])
def test_bytes(name, seeded):
    keys = planned(name).generate(seed(5), SECRET, seeded=seeded)
    assert planned(name).bytes(seeded) == sum(leaf.nbytes for leaf in jax.tree.leaves(keys))


@pytest.mark.parametrize("seeded", [False, True])
def test_generated_keys_are_parts_of_those_of_the_seed(seeded):
    """So that one seed given to two plans by mistake makes no two keys with one mask or one error."""
    plan = planned("two matrices")
    keys = plan.generate(seed(5), SECRET, seeded=seeded)
    same(plan.generate(seed(5), SECRET, seeded=seeded), keys)
    full = fhe.evaluation_keys(seed(5), SECRET, range(SLOTS), True, seeded=seeded)
    for key, part in zip(
        [full.relinearization, *(full.galois[g] for g in keys.galois)],
        [keys.relinearization, *keys.galois.values()],
        strict=True,
    ):
        limbs = [*range(part.level + 1), *range(len(PARAMS.moduli), len(PARAMS.moduli) + len(PARAMS.special_moduli))]
        np.testing.assert_array_equal(np.asarray(key.data)[: part.data.shape[0]][..., limbs, :], part.data)
        if seeded:
            np.testing.assert_array_equal(key.mask_seed, part.mask_seed)


def test_masks_differ_between_the_keys_of_two_plans():
    masks = {}
    for rotations in ((1, 2), (2, 3), (3,)):
        plan = fhe.plan_keys(lambda x, keys, steps=rotations: fhe.rotate_many(x, steps, keys), X)
        for element, key in plan.generate(seed(5), SECRET, seeded=True).galois.items():
            masks.setdefault(element, set()).add(np.asarray(key.mask_seed).tobytes())
    assert len(masks) == 3 and all(len(own) == 1 for own in masks.values())
    assert len(set.union(*masks.values())) == 3
    other = fhe.plan_keys(matrix_product, X).generate(seed(6), SECRET).galois
    assert not np.array_equal(other[25].data, generated("matrix product").galois[25].data)


def test_seeded_keys_give_the_same_bits():
    keys = planned("two matrices").generate(seed(5), SECRET, seeded=True)
    function = CIRCUITS["two matrices"][0]
    same(function(X, keys), function(X, generated("two matrices")))


def test_one_set_of_keys_for_each_user():
    secrets = jax.vmap(lambda words: fhe.secret_key(words, PARAMS))(fhe.split_seed(seed(1), 2))
    plan = planned("jit")
    keys = jax.vmap(plan.generate)(fhe.split_seed(seed(2), 2), secrets)
    own = plan.generate(fhe.split_seed(seed(2), 2)[1], jax.tree.map(lambda x: x[1], secrets))
    same(jax.tree.map(lambda x: x[1], keys), own)
    with pytest.raises(ValueError, match=r"vmap\(plan.generate\)"):
        plan.generate(seed(2), secrets)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize("lowering", ["native", "composed"])
def test_hoisting_with_keys_of_several_levels(seeded, lowering):
    def program(x, keys):
        return fhe.rotate_many(fhe.drop_to_level(x, 1), (1, 2, 3), keys)

    plan = fhe.plan_keys(lambda x, keys: (program(x, keys), fhe.rotate(x, 2, keys), fhe.rotate(x * 1.0, 3, keys)), X)
    assert plan.rotations == {1: 1, 2: 5, 3: 4}
    with fhe.lowering(lowering):
        got = jax.jit(program)(X, plan.generate(seed(5), SECRET, seeded=seeded))
    same(got, program(X, fhe.evaluation_keys(seed(5), SECRET, (1, 2, 3))))


def test_progress(capsys):
    planned("jit").generate(seed(5), SECRET, progress=True)
    assert "evaluation keys: 100%" in capsys.readouterr().err


def test_keys_of_a_plan_in_a_file(tmp_path):
    fhe.save(tmp_path / "keys", generated("two matrices"))
    same(fhe.load(tmp_path / "keys"), generated("two matrices"))
    assert 0 < (tmp_path / "keys").stat().st_size - planned("two matrices").bytes() < 4096


# --- within a memory limit ---------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["matrix product", "two matrices", "rotate_many", "sum_slots", "jit", "cond"])
@pytest.mark.parametrize("seeded", [False, True])
def test_within(name, seeded):
    function, x, meaning, *_ = CIRCUITS[name]
    plan, costs = planned(name), []
    top = key_bytes(PARAMS, PARAMS.max_level, seeded)
    for limit in range(plan.bytes(seeded), -1, -top // 3):
        try:
            small = plan.within(limit, seeded=seeded)
        except ValueError as error:
            assert "not enough" in str(error) and limit < plan.bytes(seeded)
            break
        assert small.bytes(seeded) <= limit and small.relinearization == plan.relinearization
        keys = small.generate(seed(5), SECRET, seeded=seeded)
        more = switches(function, x, keys) - switches(function, x, generated(name))
        assert small.extra_key_switches == more + (name == "cond" and more)  # of which both branches count
        costs.append(small.extra_key_switches)
    assert costs[0] == 0 < costs[-1]
    got = fhe.decrypt(SECRET, function(x, keys), dtype="float64")
    np.testing.assert_allclose(got, np.broadcast_to(meaning(VALUES[0]), got.shape), atol=1e-5)


def test_the_smallest_set_that_the_error_names_fits():
    plan = planned("two matrices")
    with pytest.raises(ValueError, match=r"not enough: the smallest set of keys takes \d+; it has the rotations") as e:
        plan.within(1000)
    needed = int(str(e.value).partition("takes ")[2].partition(";")[0])
    small = plan.within(needed)
    assert small.rotations == {2: 5} and small.bytes() == needed
    with pytest.raises(ValueError, match="not enough"):
        plan.within(needed - 1)


def test_loops_weigh_by_their_length():
    """Of two rotations, the one inside the loop keeps its key."""

    def program(x, keys):
        x = jax.lax.scan(lambda x, _: (fhe.rotate(x, 4, keys), None), x, length=100)[0]
        return fhe.rotate_many(x, (1, 5, 6), keys)

    plan = fhe.plan_keys(program, X)
    small = plan.within(plan.bytes() // 2)
    assert {1, 4} == {*small.rotations} and small.extra_key_switches == 1 + 2


def test_conjugation_and_direct_uses_are_never_composed():
    def program(x, keys):
        assert keys.galois_key(galois_element(PARAMS, 3), x.level).level == x.level
        return fhe.conjugate(fhe.sum_slots(x, keys), keys)

    plan = fhe.plan_keys(program, X)
    small = plan.within(plan.bytes() // 2)
    assert small.conjugation == 5 and small.rotations[3] == 5 and len(small.rotations) < len(plan.rotations)


# --- what is said ------------------------------------------------------------------------------------------------


def test_the_table():
    text = str(planned("two matrices"))
    assert text == repr(planned("two matrices")) and text.startswith("KeyPlan(N=2^6, ")
    assert [line.split()[:3] for line in text.splitlines()[1:]] == [
        ["key", "level", "number"],
        ["relinearization", "4", "1"],
        ["rotation", "5", "3"],
        ["rotation", "4", "1"],
    ]
    assert text.splitlines()[3].endswith("2, 4, 6") and ", 0 key switches for composing)" in text
    small = planned("two matrices").within(planned("two matrices").bytes() // 2)
    assert small.extra_key_switches > 0 and f", {small.extra_key_switches} key switches for composing)" in str(small)


def test_a_missing_key_names_the_line():
    line = inspect.currentframe().f_lineno
    programs = (
        lambda x, keys: fhe.rotate(x, 1, keys),
        lambda x, keys: fhe.square(x, keys),
        lambda x, keys: fhe.conjugate(x, keys),
        lambda x, keys: fhe.evaluate(fhe.Polynomial([0, 0, 1]), x, keys),
    )
    for i, program in enumerate(programs):
        with pytest.raises(fhe.MissingKeyError) as caught:
            jax.eval_shape(jax.jit(program), X, fhe.EvaluationKeys(None, {}, PARAMS))
        assert f"{__file__}:{line + 2 + i}" in str(caught.value)


def test_what_is_refused(unchecked):
    other = fhe.Parameters.for_depth(4, log_degree=6, security=None)
    foreign = fhe.secret_key(seed(1), other)
    with pytest.raises(TypeError, match="plan_keys: no argument is a ciphertext"):
        fhe.plan_keys(lambda x, keys: x, jnp.ones(3))
    with pytest.raises(fhe.ParametersMismatchError, match="plan_keys: the parameters differ"):
        fhe.plan_keys(lambda x, y, keys: x, X, fhe.encrypt(seed(2), foreign, [1.0]))
    with pytest.raises(fhe.ParametersMismatchError, match="generate: the parameters differ"):
        planned("jit").generate(seed(5), foreign)
    with pytest.raises(TypeError, match=r"plan\.generate: got PublicKey for the secret key"):
        planned("jit").generate(seed(5), fhe.public_key(seed(3), SECRET))
    with pytest.raises(TypeError, match=r"within: limit = 1\.5"):
        planned("jit").within(1.5)
