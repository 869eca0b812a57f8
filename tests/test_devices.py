"""Where values lie: operands on different devices are JAX's error, nothing of ours moves them, and keys may wait in the
host's memory."""

import ast
import pathlib

import jax
import numpy as np
import pytest

import fhejax as fhe
from fhejax.serialization import container

PARAMS = fhe.Parameters.for_depth(2, log_degree=6, security=None)
SEEDS = fhe.split_seed(np.arange(8, dtype=np.uint32), 3)
HERE, THERE = jax.devices("cpu")[:2]
PACKAGE = pathlib.Path(fhe.__file__).parent


def put(value, where):
    with jax.enable_x64(True):
        return jax.device_put(value, where)


with jax.default_device(HERE):
    SECRET = put(fhe.secret_key(SEEDS[0], PARAMS), HERE)
    KEYS = put(fhe.evaluation_keys(SEEDS[1], SECRET, rotations=(1, 2)), HERE)
    X = put(fhe.encrypt(SEEDS[2], SECRET, [1.0, 2.0]), HERE)
    PLAIN = put(fhe.encode([3.0], PARAMS), HERE)
    MAP = put(fhe.LinearTransform.from_diagonals({0: 1, 1: 2}, PARAMS), HERE)

APART = {
    "add": (fhe.add, X, X),
    "subtract": (fhe.subtract, X, PLAIN),
    "multiply": (lambda x, keys: fhe.multiply(x, x, keys), X, KEYS),
    "multiply_plain": (fhe.multiply_plain, X, PLAIN),
    "x * y": (lambda x, y: x * y, X, X),
    "rotate": (lambda x, keys: fhe.rotate(x, 1, keys), X, KEYS),
    "rotate_many": (lambda x, keys: fhe.rotate_many(x, (1, 2), keys), X, KEYS),
    "apply": (lambda x, transform: fhe.apply(transform, x, KEYS), X, MAP),
    "decrypt": (lambda x, secret: fhe.decrypt(secret, x), X, SECRET),
}


@pytest.mark.parametrize("name", APART)
def test_operands_on_different_devices_are_refused_by_jax(name):
    function, x, other = APART[name]
    function(x, other)
    with pytest.raises(ValueError, match="incompatible devices for jitted computation"):
        function(x, put(other, THERE))


def test_results_stay_where_the_operands_are():
    x, keys = put(X, THERE), put(KEYS, THERE)
    results = [fhe.square(x, keys), fhe.rotate(x, 1, keys), x + 2, x * 0.5, x + np.ones(3)]
    assert all(leaf.devices() == {THERE} for leaf in jax.tree.leaves(results))


def test_only_files_move_values_between_devices():
    """Saving copies to the host, loading puts onto the default device; both say so. Only `as_array`, which puts what is
    NumPy's, calls `device_put` too."""
    moving = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if getattr(node, "attr", getattr(node, "id", None)) in ("device_put", "device_get", "copy_to_host_async")
    }
    assert moving == {"_compat.py", "serialization/container.py", "serialization/source.py"}


def test_arrays_of_several_devices_are_saved_through_the_only_cpu(monkeypatch):
    sharding = jax.sharding.NamedSharding(
        jax.sharding.Mesh(np.array([HERE, THERE]), "x"), jax.sharding.PartitionSpec("x")
    )
    array = jax.device_put(np.arange(8.0, dtype=np.float32), sharding)
    monkeypatch.setattr(jax, "local_devices", lambda *, backend: [HERE])
    np.testing.assert_array_equal(container._on_host(array), np.arange(8))


# --- keys in the host's memory ----------------------------------------------------------------------------------------

HOST = jax.sharding.SingleDeviceSharding(HERE, memory_kind="pinned_host")


def program(keys, x):
    keys = jax.device_put(keys, jax.memory.Space.Device)
    return fhe.rotate(fhe.square(x, keys), 1, keys)


@pytest.mark.parametrize("x64", [False, True])
def test_keys_wait_in_the_host_until_a_program_takes_them(x64):
    with jax.enable_x64(x64):
        waiting = jax.device_put(KEYS, HOST)
        assert all(leaf.sharding.memory_kind == "pinned_host" for leaf in jax.tree.leaves(waiting))
        got, expected = jax.jit(program)(waiting, X), program(KEYS, X)
    assert got.data.sharding.memory_kind == "device"
    np.testing.assert_array_equal(got.data, expected.data)


def test_a_program_for_cuda_copies_each_key_that_it_is_given():
    waiting = jax.device_put(KEYS, HOST)
    text = jax.jit(program).trace(waiting, X).lower(lowering_platforms=("cuda",)).as_text()
    (main,) = [line for line in text.splitlines() if "func.func public @main" in line]
    assert main.count('mhlo.memory_kind = "pinned_host"') == len(jax.tree.leaves(KEYS))
    assert text.count('_xla_buffer_placement = "device"') == len(jax.tree.leaves(KEYS))
