"""The table of operations under every transformation of JAX: each gives the bits of the eager call.

With jax_enable_x64 off, and on where numbers in floating point go in or out: residues have 64 bits whatever the flag.
`jit` and `vmap` meet every operation, other transformations one for each primitive; the rest is slow.
"""

import dataclasses
import itertools
import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import chex
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from making import made_once
from operations import CARRIED, OPERATIONS, PARAMS, Keys, entries, keys, make_keys, stack, stacked, user_seeds
from references import assert_equals_reference

import fhejax as fhe
from fhejax.primitives import native

BOTH_FLAGS = pytest.mark.parametrize("flag", [False, True], ids=["x64-off", "x64-on"], indirect=True)
ONCE = [  # every primitive of the table, in as few operations
    *("add low ciphertext", "subtract ciphertext", "multiply ciphertext", "multiply array", "negate", "relinearize"),
    *("rotate_many", "evaluate", "encrypt", "encrypt, secret key", "decode", "decrypt"),
]


@pytest.fixture(autouse=True)
def flag(request):
    """The x64 flag, as a user may have set it."""
    keys()  # made before any test traces a function
    with jax.enable_x64(getattr(request, "param", False)):
        yield jax.config.jax_enable_x64


def in_floating_point(name):
    kinds = {kind.split()[-1] for kind in OPERATIONS[name].operands}
    return bool(kinds & {"array", "row", "number"}) or name in ("x + 2", "evaluate", "decode", "decrypt")


def each(names, quick=None):
    """Parameters: each operation with the flags that it can tell apart; slow are the others, and those not `quick`."""
    cases = []
    for name, on in itertools.product(names, (False, True)):
        slow = (on and not in_floating_point(name)) or (quick is not None and name not in quick)
        marks = [pytest.mark.slow] if slow else []
        cases.append(pytest.param(name, on, id=f"{name}-x64-{'on' if on else 'off'}", marks=marks))
    return pytest.mark.parametrize("name, flag", cases, indirect=["flag"])


@made_once
def _eager(name: str, index: int, user: int, flag: bool):
    operation = OPERATIONS[name]
    return operation.run(keys(user), *entries(operation, index, user))


def eager(name: str, index: int = 0, user: int = 0):
    """What the plain call returns; its default dtypes depend on the flag."""
    return _eager(name, index, user, jax.config.jax_enable_x64)


def same(got, expected):
    """Equal types and equal bits."""
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_array_equal(x, y)


def _jit(name, run):
    return jax.jit(run)(keys(), *entries(OPERATIONS[name])), eager(name)


def _mapped(run, operands, axis=0):
    return jax.vmap(run, in_axes=(None, *(axis for _ in operands)), out_axes=axis)


def _vmap(name, run):
    operands = stacked(OPERATIONS[name], 3)
    return _mapped(run, operands)(keys(), *operands), stack([eager(name, i) for i in range(3)], (3,))


def _vmap_of_vmap(name, run):
    operands = stacked(OPERATIONS[name], 2, 2)
    twice = _mapped(_mapped(run, operands), operands, axis=1)
    return jax.jit(twice)(keys(), *operands), stack([eager(name, i) for i in range(4)], (2, 2))


def _scan(name, run):
    def step(carry, operands):
        return carry + 1, run(keys(), *operands)

    count, results = jax.lax.scan(step, jnp.int32(0), stacked(OPERATIONS[name], 3))
    assert count == 3
    return results, stack([eager(name, i) for i in range(3)], (3,))


def _cond(name, run):
    both = [entries(OPERATIONS[name], i) for i in range(2)]
    choose = jax.jit(lambda first, k, x, y: jax.lax.cond(first, lambda: run(k, *x), lambda: run(k, *y)))
    return [choose(first, keys(), *both) for first in (True, False)], [eager(name, i) for i in range(2)]


def _fori_loop(name, run):
    operands = stacked(OPERATIONS[name], 3)
    body = lambda i, _: run(keys(), *jax.tree.map(lambda x: x[i], operands))
    return jax.lax.fori_loop(0, 3, body, eager(name)), eager(name, 2)


def _shard_map(name, run):
    """Two devices, a part of the batch on each; keys on both."""
    mesh = jax.make_mesh((2,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
    whole, split = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("batch")
    operands = stacked(OPERATIONS[name], 4)
    sharded = jax.shard_map(
        _mapped(run, operands), mesh=mesh, in_specs=(whole, *(split for _ in operands)), out_specs=split
    )
    return jax.jit(sharded)(keys(), *operands), stack([eager(name, i) for i in range(4)], (4,))


def _export(name, run):
    """Out as bytes and back. The keys travel as three arguments: jax.export knows no NamedTuple by itself."""
    separate = lambda secret, public, evaluation, *operands: run(Keys(secret, public, evaluation), *operands)
    arguments = (*keys(), *entries(OPERATIONS[name]))
    exported = jax.export.export(jax.jit(separate), disabled_checks=fhe.export_checks())(*arguments)
    # An array encoded while it is traced leaves a check for checkify, which jax.export cannot write.
    exported = dataclasses.replace(exported, unordered_effects=())
    return jax.export.deserialize(exported.serialize()).call(*arguments), eager(name)


EVERYWHERE = {"jit": _jit, "vmap": _vmap}
TRANSFORMS = {
    "vmap of vmap": _vmap_of_vmap,
    "scan": _scan,
    "cond": _cond,
    "fori_loop": _fori_loop,
    "shard_map": _shard_map,
    "export": _export,
}


@pytest.mark.sampled(16)
@each(OPERATIONS)
@pytest.mark.parametrize("transform", EVERYWHERE)
def test_jit_and_vmap_give_the_bits_of_the_eager_call(transform, name):
    same(*EVERYWHERE[transform](name, OPERATIONS[name].run))


@pytest.mark.sampled(16)
@each(OPERATIONS, ONCE)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transform_gives_the_bits_of_the_eager_call(transform, name):
    same(*TRANSFORMS[transform](name, OPERATIONS[name].run))


def test_the_few_have_every_primitive():
    def primitives(name):
        counts = count_primitives(jax.make_jaxpr(OPERATIONS[name].run)(keys(), *entries(OPERATIONS[name])))
        return {primitive for primitive in counts if primitive.startswith("fhejax_")}

    assert set().union(*map(primitives, OPERATIONS)) == set().union(*map(primitives, ONCE))


# --- loops and donation: ciphertexts whose type stays ----------------------------------------------------------------


def rest(name):
    return entries(OPERATIONS[name])[1:]


def repeated(name, times):
    x = entries(OPERATIONS[name])[0]
    for _ in range(times):
        x = OPERATIONS[name].run(keys(), x, *rest(name))
    return x


@pytest.mark.sampled(6)
@each(CARRIED)
def test_loops_carry_ciphertexts(name):
    run, (x, *others) = OPERATIONS[name].run, entries(OPERATIONS[name])
    step = lambda _, carry: run(keys(), carry, *others)
    same(jax.lax.fori_loop(0, 3, step, x), repeated(name, 3))
    final, _ = jax.lax.scan(lambda carry, _: (step(0, carry), None), x, length=3)
    same(final, repeated(name, 3))


def test_a_loop_over_levels_is_refused():
    (x,) = entries(OPERATIONS["square"])
    with pytest.raises(TypeError, match="carry output must have the same pytree structure"):
        jax.lax.fori_loop(0, 2, lambda _, x: fhe.square(x, keys().evaluation), x)


@pytest.mark.sampled(6)
@each(CARRIED)
def test_a_donated_ciphertext_is_overwritten(name):
    run = OPERATIONS[name].run
    x = fhe.negate(fhe.negate(entries(OPERATIONS[name])[0]))  # a buffer of its own
    donating = jax.jit(lambda x, k, *others: run(k, x, *others), donate_argnums=0)
    same(donating(x, keys(), *rest(name)), eager(name))
    assert x.data.is_deleted()


# --- shapes without data ---------------------------------------------------------------------------------------------


def check_shapes(got, expected):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)


@each(OPERATIONS)
def test_a_dry_run_needs_no_data(name, flag):
    run, arguments = OPERATIONS[name].run, (keys(), *entries(OPERATIONS[name]))
    check_shapes(jax.eval_shape(run, *jax.tree.map(jax.typeof, arguments)), eager(name))
    if flag:  # with the flag off, JAX takes a ShapeDtypeStruct of 64-bit integers for one of 32
        described = jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), arguments)
        check_shapes(jax.eval_shape(run, *described), eager(name))


@BOTH_FLAGS
def test_a_dry_run_needs_no_keys():
    """From seeds alone: the whole life of a value, keys and all."""

    def life(seed, values):
        user = make_keys(fhe.split_seed(seed, 3))
        x = fhe.encrypt(seed, user.public, values)
        return user, fhe.rotate(fhe.square(x, user.evaluation), 1, user.evaluation)

    seed, values = jax.ShapeDtypeStruct((8,), np.uint32), jax.ShapeDtypeStruct((PARAMS.slots,), np.float32)
    user, result = jax.eval_shape(life, seed, values)
    check_shapes(user, keys())
    assert (result.level, result.data.shape) == (2, (2, 3, PARAMS.degree))


# --- many users ------------------------------------------------------------------------------------------------------


@made_once
def _users(flag):
    return jax.vmap(make_keys)(jnp.stack([user_seeds(user) for user in range(3)]))


def test_keys_made_under_vmap_are_those_made_one_by_one(flag):
    same(_users(flag), stack([keys(user) for user in range(3)], (3,)))


@pytest.mark.sampled(8)
@each(OPERATIONS, ONCE)
def test_many_users_in_one_launch(name, flag):
    """Keys and operands mapped together: user i computes on what is encrypted for user i."""
    operation = OPERATIONS[name]
    operands = stack([entries(operation, user, user) for user in range(3)], (3,))
    got = jax.jit(jax.vmap(operation.run))(_users(flag), *operands)
    same(got, stack([eager(name, user, user) for user in range(3)], (3,)))


# --- tracing once ----------------------------------------------------------------------------------------------------


def traced_once(function):
    """`function` jitted, and refused a second trace."""
    chex.clear_trace_counter()
    return jax.jit(chex.assert_max_traces(function, n=1))


@BOTH_FLAGS
def test_routes_to_one_level_share_a_trace():
    x, evaluation = entries(OPERATIONS["square"])[0], keys().evaluation
    program = traced_once(lambda x: fhe.multiply_plain(x, 0.5) + 1.0)
    for route in (
        fhe.drop_to_level(x, 1),
        fhe.square(fhe.square(x, evaluation), evaluation),
        fhe.rescale(fhe.relinearize(fhe.drop_to_level(x, 2) * x, evaluation)),
    ):
        assert program(route).level == 0


def test_users_share_a_trace():
    program = traced_once(lambda k, x: fhe.rotate(fhe.square(x, k.evaluation), 1, k.evaluation))
    for user in range(3):
        program(keys(user), entries(OPERATIONS["square"], 0, user)[0])


@each(OPERATIONS)
def test_eager_calls_compile_once(name):
    operation = OPERATIONS[name]
    operation.run(keys(), *entries(operation))
    other = entries(operation, 1, 1)
    with jax.no_tracing():
        operation.run(keys(1), *other)


# --- lowerings -------------------------------------------------------------------------------------------------------

# Without floating point, where two lowerings may round differently.
EXACT = [
    name
    for name, operation in OPERATIONS.items()
    if not {kind.split()[-1] for kind in operation.operands} & {"array", "row"}
    and "complex number" not in operation.operands
    and name not in ("decode", "decrypt", "decrypt, product")
]


@pytest.mark.sampled(8)
@each(EXACT)
def test_whole_operations_are_their_compositions(name):
    expected, operands = eager(name), entries(OPERATIONS[name])
    with fhe.lowering("composed"):
        same(jax.jit(OPERATIONS[name].run)(keys(), *operands), expected)


@each(EXACT)
def test_reference_has_the_same_bits(name):
    assert_equals_reference(eager(name), jax.jit(OPERATIONS[name].run), keys(), *entries(OPERATIONS[name]))


@BOTH_FLAGS
def test_a_program_of_one_lowering_is_never_served_for_another():
    x, traces = entries(OPERATIONS["negate"])[0], []

    @jax.jit
    def program(x):
        traces.append(native.current_lowering())
        return -x + x * 3

    for kind in ("native", "composed", "reference", "native", "reference", "composed"):
        with fhe.lowering(kind):
            same(program(x), 2 * x)
            text = str(jax.make_jaxpr(fhe.square)(x, keys().evaluation))
            assert f"lowering={kind}" in text and text.count("lowering=") == text.count(f"lowering={kind}")
    assert traces == ["native", "composed", "reference"]
    assert native.current_lowering() == "native"


def test_each_thread_has_its_own_lowering():
    with fhe.lowering("reference"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(native.current_lowering).result() == "native"
        assert native.current_lowering() == "reference"


# --- programs --------------------------------------------------------------------------------------------------------


def test_keys_are_not_in_the_program():
    x, user = entries(OPERATIONS["square"])[0], keys()
    text = jax.jit(lambda k, x: fhe.rotate(fhe.square(x, k), 1, k)).lower(user.evaluation, x).as_text()
    assert len(text) < user.evaluation.relinearization.data.nbytes
    # Words of the keys and of the secret, as decimal and as hexadecimal constants would show them.
    for array in (user.evaluation.relinearization.data, user.secret.data):
        for word in np.asarray(array).ravel()[:50].tolist():
            assert f"{word} " not in text and word.to_bytes(8, "little").hex().upper() not in text


@pytest.mark.parametrize(
    "name, primitives",
    [
        ("add ciphertext", {"add": 1}),
        ("negate", {"negate": 1}),
        ("5 * x", {"multiply_scalar": 1}),
        ("square", {"multiply_ciphertexts": 1}),
        ("multiply plaintext", {"multiply": 1, "mod_down": 1}),
        ("rescale", {"mod_down": 1}),
        ("relinearize", {"key_switch": 1}),
        ("rotate", {"hoisted_rotations": 1}),
        ("rotate, composed", {"hoisted_rotations": 3}),
        ("conjugate", {"hoisted_rotations": 1}),
        ("sum_slots", {"hoisted_rotations": 4}),
    ],
)
def test_a_jaxpr_names_the_operations(name, primitives):
    """And shows what an operation costs: one fused primitive for a product, a rotation or a rescale."""
    counts = count_primitives(jax.make_jaxpr(OPERATIONS[name].run)(keys(), *entries(OPERATIONS[name])))
    assert {part: counts.get(f"fhejax_{part}", 0) for part in primitives} == primitives
    cheap = {"multiply_scalar", "add", "subtract", "negate"}
    assert {name for name in counts if name.startswith("fhejax_")} <= {f"fhejax_{n}" for n in cheap | set(primitives)}


def count_primitives(jaxpr):
    """How often each primitive stands in a jaxpr, and in those within it."""
    counts = {}
    for equation in jaxpr.jaxpr.eqns:
        counts[equation.primitive.name] = counts.get(equation.primitive.name, 0) + 1
        if "jaxpr" in equation.params:
            for name, count in count_primitives(equation.params["jaxpr"]).items():
                counts[name] = counts.get(name, 0) + count
    return counts


def test_hoisted_rotations_are_one_primitive():
    jaxpr = jax.make_jaxpr(lambda x, k: fhe.rotate_many(x, (1, 2, 4), k))(
        entries(OPERATIONS["rotate"])[0], keys().evaluation
    )
    assert count_primitives(jaxpr)["fhejax_hoisted_rotations"] == 1


# --- the persistent compilation cache --------------------------------------------------------------------------------

CACHED = """
import hashlib, sys, jax, numpy as np
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
from operations import OPERATIONS, entries, keys, values_of
names = ["multiply ciphertext", "rotate_many", "dot_plain", "encrypt, plaintext", "decrypt, product"]
program = jax.jit(lambda k, operands: [OPERATIONS[name].run(k, *operands[name]) for name in names])
results = program(keys(), {name: entries(OPERATIONS[name]) for name in names})
print(hashlib.sha256(b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(results))).hexdigest())
"""


@pytest.mark.slow
@BOTH_FLAGS
def test_the_persistent_cache_gives_the_same_bits(tmp_path, flag):
    environment = os.environ | {"PYTHONPATH": str(pathlib.Path(__file__).parent), "JAX_ENABLE_X64": str(int(flag))}

    def run():
        command = [sys.executable, "-c", CACHED, str(tmp_path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout, {path.name for path in tmp_path.iterdir() if path.name.endswith("-cache")}

    first, compiled = run()
    again, served = run()
    assert first == again and compiled == served
    assert any("lambda" in name for name in compiled)
