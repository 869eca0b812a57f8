"""jax.export: programs on ciphertexts and keys go out as bytes and come back with the same types and bits."""

import subprocess
import sys

import golden_values
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from making import made_once

import fhejax as fhe
from fhejax.primitives import native
from fhejax.serialization import exports, headers

PARAMS = fhe.Parameters.for_depth(2, log_degree=6, security=None)
SEEDS = fhe.split_seed(np.arange(8, dtype=np.uint32), 4)


@made_once
def secret():
    return fhe.secret_key(SEEDS[0], PARAMS)


@made_once
def keys(seeded=False):
    return fhe.evaluation_keys(SEEDS[2], secret(), rotations=(1, 3), conjugation=True, seeded=seeded)


@made_once
def ciphertext():
    return fhe.encrypt(SEEDS[3], fhe.public_key(SEEDS[1], secret()), [1.0, 2.0, 3.0])


VALUES = {
    "plaintext": lambda: fhe.encode([1.0, 2.0j], PARAMS),
    "ciphertext": ciphertext,
    "secret key": secret,
    "public key": lambda: fhe.public_key(SEEDS[1], secret()),
    "switching key": lambda: keys().relinearization,
    "seeded key": lambda: keys(seeded=True).relinearization,
    "evaluation keys": keys,
    "seeded keys": lambda: keys(seeded=True),
    "no relinearization": lambda: fhe.EvaluationKeys(None, keys().galois, PARAMS),
    "transform": lambda: fhe.LinearTransform.from_matrix(np.eye(3), PARAMS),
    "transform as numbers": lambda: fhe.LinearTransform.from_diagonals({0: 1, 3: 1j}, PARAMS, 1, encoded=False),
    "polynomial": lambda: fhe.Polynomial(jnp.array([0.1, 0.2], jnp.float32), (-2, 2), "odd"),
    "bootstrapping keys": golden_values.bootstrapping_keys,
    "simulated": lambda: fhe.simulate([1.0, 2.0], PARAMS),
    "secure": lambda: fhe.encode([1.0], fhe.Parameters.for_depth(1)),
}


@jax.jit
def program(keys, x):
    return fhe.rotate(fhe.square(x, keys) + 0.5 * x, 1, keys)


def exported(function, *arguments, checks=None):
    checks = fhe.export_checks() if checks is None else checks
    return jax.export.export(function, disabled_checks=checks)(*arguments).serialize()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", VALUES)
def test_types_come_back(name, x64):
    value = VALUES[name]()
    with jax.enable_x64(x64):
        restored = jax.export.deserialize(exported(jax.jit(lambda v: (v, 0)), value))
        assert restored.in_tree == jax.tree.structure(((value,), {}))
        got, _ = restored.call(value)
    assert jax.tree.structure(got) == jax.tree.structure(value)
    for leaf, expected in zip(jax.tree.leaves(got), jax.tree.leaves(value), strict=True):
        np.testing.assert_array_equal(leaf, expected)


@pytest.mark.parametrize("lowering", native.LOWERINGS)
def test_the_same_bits(lowering):
    with fhe.lowering(lowering):
        blob = exported(program, keys(), ciphertext())
    got, expected = jax.export.deserialize(blob).call(keys(), ciphertext()), program(keys(), ciphertext())
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    np.testing.assert_array_equal(got.data, expected.data)


def test_a_program_with_seeded_keys():
    restored = jax.export.deserialize(exported(program, keys(seeded=True), ciphertext()))
    np.testing.assert_array_equal(
        restored.call(keys(seeded=True), ciphertext()).data, program(keys(), ciphertext()).data
    )
    with pytest.raises(ValueError, match="structur"):
        restored.call(keys(), ciphertext())


def test_a_program_with_a_transform():
    transform = fhe.LinearTransform.from_matrix([[1.0, 2.0], [3.0, 4.0]], PARAMS)
    keys = fhe.evaluation_keys(SEEDS[2], secret(), rotations=transform.rotations)
    restored = jax.export.deserialize(exported(jax.jit(fhe.apply), transform, ciphertext(), keys))
    np.testing.assert_array_equal(
        restored.call(transform, ciphertext(), keys).data, fhe.apply(transform, ciphertext(), keys).data
    )
    other = fhe.LinearTransform.from_matrix([[1.0, 2.0], [0.0, 4.0]], PARAMS)
    with pytest.raises(ValueError, match="structur"):
        restored.call(other, ciphertext(), keys)


CHILD = """import sys, jax, fhejax as fhe
d = sys.argv[1]
program = jax.export.deserialize(bytearray(open(d + "/program", "rb").read()))
fhe.save(d + "/out", program.call(fhe.load(d + "/keys"), fhe.load(d + "/x")))"""


@pytest.mark.slow
@pytest.mark.parametrize("x64", ["0", "1"])
def test_another_process_runs_the_program(tmp_path, x64, monkeypatch):
    (tmp_path / "program").write_bytes(exported(program, keys(), ciphertext()))
    fhe.save(tmp_path / "keys", keys())
    fhe.save(tmp_path / "x", ciphertext())
    monkeypatch.setenv("JAX_ENABLE_X64", x64)
    subprocess.run([sys.executable, "-c", CHILD, tmp_path], check=True)
    got, expected = fhe.load(tmp_path / "out"), program(keys(), ciphertext())
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    np.testing.assert_array_equal(got.data, expected.data)


def test_other_types_are_refused_at_the_call():
    restored = jax.export.deserialize(exported(program, keys(), ciphertext()))
    with pytest.raises(ValueError, match="structur"):
        restored.call(keys(), fhe.drop_to_level(ciphertext(), 1))
    fewer = fhe.EvaluationKeys(keys().relinearization, {5: keys().galois[5]}, PARAMS)
    with pytest.raises(ValueError, match="structur"):
        restored.call(fewer, ciphertext())


@pytest.mark.parametrize("name", ["ciphertext", "evaluation keys", "transform"])
@pytest.mark.parametrize(
    "old, new, says",
    [
        (b'"log_degree":6', b'"log_degree":7', "checksum"),
        (b'"sha256":"', b'"sha256":[', ""),
        (b'"format":1', b'"format":2', "format version 2"),
        (b'"kind":"', b'"kind":\xff', ""),
        (b'{"format"', b'["format"', ""),
    ],
)
def test_damaged_metadata_is_refused(name, old, new, says):
    blob = exported(jax.jit(lambda v: v), VALUES[name]())
    assert old in blob
    with pytest.raises(ValueError) as caught:
        jax.export.deserialize(bytearray(blob.replace(old, new)))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "field, value",
    [
        *[("height", "0x0p+0"), ("height", "0x1.8p+0"), ("height", "nan"), ("height", 1), ("shortened", 0)],
        *[("shortened", True), ("slots_first", None), ("preset", {}), ("preset", None), ("parameters", None)],
    ],
)
def test_recipes_from_elsewhere_are_checked(field, value):
    keys = golden_values.bootstrapping_keys()
    for how in (keys.bootstrapping, keys.bootstrapping.with_height(0.25), keys.shorter[0].bootstrapping):
        assert exports.read_recipe(exports.write_recipe((how,))) == (how,)
    header = headers.unseal(exports.write_recipe((keys.bootstrapping,)).decode()) | {field: value}
    with pytest.raises(ValueError):
        exports.read_recipe(headers.seal(header).encode())


def test_checks_are_the_kernels_names():
    extension = native.cpu_extension()
    if extension is not None:
        assert native.handlers == set(extension.registrations()) and len(fhe.export_checks()) == len(native.handlers)
        with pytest.raises(ValueError, match="custom call"):
            exported(program, keys(), ciphertext(), checks=[])


def test_the_reference_needs_no_checks():
    with fhe.lowering("reference"):
        blob = exported(jax.jit(fhe.add), ciphertext(), ciphertext(), checks=[])
    np.testing.assert_array_equal(
        jax.export.deserialize(blob).call(ciphertext(), ciphertext()).data, fhe.add(ciphertext(), ciphertext()).data
    )


def test_decryption_is_exported_without_the_key():
    decrypt = jax.jit(lambda secret, x: fhe.decrypt(secret, x, dtype=jnp.float32))
    blob = exported(decrypt, secret(), ciphertext())
    residue = int(secret().data[0, 0])
    assert residue.to_bytes(8, "little") not in blob and str(residue).encode() not in blob
    np.testing.assert_array_equal(
        jax.export.deserialize(blob).call(secret(), ciphertext()), decrypt(secret(), ciphertext())
    )
