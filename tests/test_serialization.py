"""Files: what is saved comes back, bit for bit and of an equal type; everything else is refused by name."""

import dataclasses
import json
import math
import os
import pathlib
import stat
import struct
import subprocess
import sys

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from residues import on_device, random_residues
from safetensors import safe_open
from safetensors.numpy import save_file

import fhejax as fhe
from fhejax import headers, serialization
from fhejax.polynomials.report import FitReport, with_report

PARAMS = fhe.Parameters.for_depth(3, log_degree=4, security=None, digits=2)
SECURE = fhe.Parameters.for_depth(1, slots=8)
OTHER = fhe.Parameters.for_depth(2, log_degree=4, security=None)
Q, P, N = PARAMS.moduli, PARAMS.special_moduli, PARAMS.degree


def residues(seed, moduli, *batch):
    return random_residues(seed, moduli, N, batch)


def switching_key(seed, level, *batch):
    digits = len(PARAMS.digit_moduli(level))
    return fhe.SwitchingKey(residues(seed, Q[: level + 1] + P, *batch, digits, 2), PARAMS, level)


def seeded_key(seed, level, *batch):
    digits = len(PARAMS.digit_moduli(level))
    words = np.random.default_rng(seed).integers(0, 2**32, (*batch, 8), dtype=np.uint32)
    first = residues(seed, Q[: level + 1] + P, *batch, digits)
    return fhe.SwitchingKey(first, PARAMS, level, on_device(words))


def ciphertext(*batch, components=2):
    return fhe.Ciphertext(residues(2, Q[:2], *batch, components), PARAMS, 1, PARAMS.scale_at(1), 4, False)


def evaluation_keys():
    galois = {2 * N - 1: switching_key(6, 1), 5: switching_key(5, 3), 25: switching_key(4, 0)}
    return fhe.EvaluationKeys(switching_key(3, 2), galois, PARAMS)


VALUES = {
    "plaintext": fhe.Plaintext(residues(0, Q), PARAMS, 3, math.pi * 2**40, 8, True),
    "batch of plaintexts": fhe.Plaintext(residues(1, Q[:1], 2, 3), PARAMS, 0, PARAMS.scale_at(0), 1, False),
    "ciphertext": ciphertext(),
    "three components": ciphertext(3, components=3),
    "empty batch": ciphertext(0),
    "secret key": fhe.SecretKey(residues(3, Q + P), PARAMS),
    "public key": fhe.PublicKey(residues(4, Q + P[:1], 2), PARAMS),
    "switching key": switching_key(5, 2),
    "batch of switching keys": switching_key(5, 2, 3),
    "seeded key": seeded_key(5, 2),
    "batch of seeded keys": seeded_key(5, 2, 3),
    "evaluation keys": evaluation_keys(),
    "seeded evaluation keys": fhe.EvaluationKeys(
        seeded_key(8, 2), {5: seeded_key(9, 1), 25: switching_key(4, 0)}, PARAMS
    ),
    "no relinearization": fhe.EvaluationKeys(None, {5: switching_key(7, 3)}, PARAMS),
    "no keys": fhe.EvaluationKeys(None, {}, PARAMS),
    "parameters": PARAMS,
    "secure parameters": SECURE,
    "quantum": fhe.Parameters.for_depth(1, attack_model="quantum", security=192),
}

POLYNOMIALS = {
    "polynomial": fhe.Polynomial([0.1, -1e-300, 0.3], (-8, 1 / 3)),
    "odd polynomial": fhe.Polynomial([7.0, 1.0, 7.0, -0.5], parity="odd"),
    "polynomial a slot": fhe.Polynomial(np.random.default_rng(0).normal(size=(4, 8)), (0, 1), "even"),
    "constant": fhe.Polynomial(np.array([0.1], np.float32)),
    "polynomial of JAX": fhe.Polynomial(jnp.array([0.1, 0.2, 0.3], jnp.float32)),
    "half precision": fhe.Polynomial(jnp.array([0.1, 0.2], jnp.bfloat16)),
    "other half precision": fhe.Polynomial(np.array([0.1, 0.2], np.float16)),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "value.safetensors"


def assert_same(got, value):
    assert type(got) is type(value)
    assert jax.tree.structure(got) == jax.tree.structure(value)
    for leaf, expected in zip(jax.tree.leaves(got), jax.tree.leaves(value), strict=True):
        if not isinstance(value, fhe.Parameters):
            assert isinstance(leaf, jax.Array) and leaf.dtype == expected.dtype
            np.testing.assert_array_equal(leaf, expected)
    params = value if isinstance(value, fhe.Parameters) else value.params
    loaded = got if isinstance(got, fhe.Parameters) else got.params
    assert loaded == params and hash(loaded) == hash(params) and loaded.security == params.security


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", VALUES)
def test_round_trip(path, name, x64):
    value = VALUES[name]
    with jax.enable_x64(x64):
        fhe.save(path, value, allow_secret=name == "secret key")
        assert_same(fhe.load(str(path)), value)
        assert jax.config.jax_enable_x64 == x64


def assert_same_polynomial(got, value):
    assert jax.tree.structure(got) == jax.tree.structure(value)
    assert isinstance(got.coefficients, np.ndarray) and got.coefficients.dtype == value.coefficients.dtype
    np.testing.assert_array_equal(got.coefficients, np.asarray(value.coefficients))


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_round_trip_of_polynomials(path, name, x64):
    value = POLYNOMIALS[name]
    with jax.enable_x64(x64):
        fhe.save(path, value)
        assert_same_polynomial(fhe.load(path), value)


def test_a_loaded_polynomial_compiles_nothing_anew(path):
    value = POLYNOMIALS["polynomial of JAX"]
    fhe.save(path, value)
    program = jax.jit(chex.assert_max_traces(lambda p: p(0.5), n=1))
    assert program(value) == program(fhe.load(path))


def test_the_report_of_a_polynomial_is_left_out(path):
    fhe.save(path, with_report(fhe.Polynomial([1.0, 2.0]), FitReport("chebyshev", 1, 1, 0.25, 0.125)))
    assert fhe.load(path).report is None


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scale=st.floats(min_value=0, exclude_min=True, allow_infinity=False), seed=st.integers(0, 2**32 - 1))
def test_every_scale_and_residue_comes_back(path, scale, seed):
    value = fhe.Plaintext(residues(seed, Q[:2]), PARAMS, 1, scale, 2, True)
    fhe.save(path, value)
    assert_same(fhe.load(path), value)


def test_a_loaded_value_compiles_nothing_anew(path):
    fhe.save(path, VALUES["evaluation keys"])
    double = jax.jit(chex.assert_max_traces(lambda keys: keys, n=1))
    double(VALUES["evaluation keys"])
    double(fhe.load(path))


def test_a_numpy_view_is_saved_by_its_elements(path):
    data = np.asfortranarray(VALUES["ciphertext"].data)
    fhe.save(path, dataclasses.replace(VALUES["ciphertext"], data=data))
    assert_same(fhe.load(path), VALUES["ciphertext"])


CHILD = """import sys, fhejax as fhe
x, keys = (fhe.load(f"{sys.argv[1]}/{name}") for name in ("x", "keys"))
fhe.save(sys.argv[1] + "/out", fhe.rotate(fhe.square(x, keys), 1, keys))"""


def test_another_process_goes_on_from_the_files(tmp_path):
    params = fhe.Parameters.for_depth(2, log_degree=6, security=None)
    seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 3)
    secret = fhe.secret_key(seeds[0], params)
    x, keys = fhe.encrypt(seeds[1], secret, [1.0, 2.0, 3.0]), fhe.evaluation_keys(seeds[2], secret, rotations=[1])
    fhe.save(tmp_path / "x", x)
    fhe.save(tmp_path / "keys", keys)
    subprocess.run([sys.executable, "-c", CHILD, tmp_path], check=True)
    assert_same(fhe.load(tmp_path / "out"), fhe.rotate(fhe.square(x, keys), 1, keys))


def test_seeded_keys_take_half_the_bytes(tmp_path):
    params = fhe.Parameters.for_depth(3, log_degree=10, security=None)
    seed, paths = np.arange(8, dtype=np.uint32), (tmp_path / "full", tmp_path / "seeded")
    secret = fhe.secret_key(seed, params)
    for path, seeded in zip(paths, (False, True), strict=True):
        fhe.save(path, fhe.evaluation_keys(seed, secret, rotations=(1, 2, 3), seeded=seeded))
    full, seeded = (path.stat().st_size for path in paths)
    assert seeded < 0.52 * full


@pytest.mark.slow
def test_more_than_two_gibibytes(path):
    base = ciphertext()
    value = jax.tree.map(lambda a: np.broadcast_to(np.asarray(a), (2**31 // a.nbytes + 2, *a.shape)), base)
    fhe.save(path, value)
    loaded = fhe.load(path)
    assert loaded.shape == value.shape and loaded.data.nbytes > 2**31
    np.testing.assert_array_equal(loaded.data[-1], base.data)


# Secrets and modes


def changed(name, **fields):
    """A value that its constructor might not make: tests check the types of its arguments, users' programs do not."""
    value = object.__new__(type(VALUES[name]))
    for field in dataclasses.fields(VALUES[name]):
        object.__setattr__(value, field.name, fields.get(field.name, getattr(VALUES[name], field.name)))
    return value


SECRET = VALUES["secret key"]


def test_a_secret_is_saved_only_when_asked(path):
    with pytest.raises(TypeError, match=r"type fhejax\.save\(path, secret_key, allow_secret=True\)"):
        fhe.save(path, SECRET)
    assert not path.exists()


@pytest.mark.parametrize(
    "value",
    [
        [SECRET],
        {"key": SECRET},
        changed("evaluation keys", relinearization=SECRET),
        changed("evaluation keys", galois={5: SECRET}),
        fhe.Ciphertext(SECRET, PARAMS, 1, 1.0, 1, True),
        fhe.PublicKey(SECRET.data, PARAMS),
        type("Hidden", (fhe.SecretKey,), {})(SECRET.data, PARAMS),
    ],
)
def test_a_secret_inside_something_else_is_refused(tmp_path, value):
    with pytest.raises((TypeError, ValueError), match=r"holds one of|SwitchingKeys|not an array|shape") as caught:
        fhe.save(tmp_path / "value", value)
    assert str(int(SECRET.data[0, 0])) not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("umask, mode", [(0o000, 0o666), (0o022, 0o644), (0o077, 0o600)])
def test_modes(path, umask, mode):
    before = os.umask(umask)
    try:
        fhe.save(path, VALUES["plaintext"])
        assert stat.S_IMODE(path.stat().st_mode) == mode
        fhe.save(path, SECRET, allow_secret=True)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_an_interrupted_save_leaves_the_old_file(path, monkeypatch):
    fhe.save(path, VALUES["plaintext"])

    def interrupted(tensors, target, metadata):
        pathlib.Path(target).write_bytes(b"half")
        assert stat.S_IMODE(pathlib.Path(target).parent.stat().st_mode) == 0o700
        raise KeyboardInterrupt

    monkeypatch.setattr(serialization, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fhe.save(path, VALUES["ciphertext"])
    assert_same(fhe.load(path), VALUES["plaintext"])
    assert list(path.parent.iterdir()) == [path]


# Refusals of save


def raised_residue(value, limb):
    """The residue equal to its modulus: the smallest that is not reduced."""
    data = np.array(value.data)
    data[..., limb, -1] = Q[limb]
    return dataclasses.replace(value, data=on_device(data))


@pytest.mark.parametrize(
    "value, error, says",
    [
        (3, TypeError, "got int; a file holds one of Plaintext, Ciphertext"),
        (changed("ciphertext", data=None), TypeError, "not an array"),
        (changed("ciphertext", data=jax.ShapeDtypeStruct((2, 2, N), np.uint32)), TypeError, "not an array"),
        (changed("ciphertext", data=VALUES["ciphertext"].data.astype(jnp.uint32)), TypeError, "uint64, got uint32"),
        (changed("ciphertext", data=VALUES["ciphertext"].data[0]), ValueError, "expected (*batch, 2, 2, 16) or"),
        (changed("ciphertext", level=2), ValueError, "has shape (2, 2, 16)"),
        (changed("ciphertext", level=4), ValueError, "level is 4; expected an integer from 0 to 3"),
        (changed("ciphertext", level=True), ValueError, "level is True"),
        (changed("ciphertext", scale=math.nan), ValueError, "scale is nan; expected a finite float above 0"),
        (changed("ciphertext", scale=math.inf), ValueError, "scale is inf"),
        (changed("ciphertext", scale=-1.0), ValueError, "scale is -1.0"),
        (changed("ciphertext", slots=3), ValueError, "slots is 3; expected a power of two up to 8"),
        (changed("ciphertext", slots=16), ValueError, "slots is 16"),
        (changed("ciphertext", real=1), ValueError, "real is 1; expected True or False"),
        (changed("ciphertext", params=OTHER), ValueError, "in limb"),
        (raised_residue(VALUES["ciphertext"], 1), ValueError, f"holds {Q[1]} in limb 1"),
        (changed("seeded key", mask_seed=None), ValueError, "expected (*batch, 2, 2, 5, 16)"),
        (changed("switching key", mask_seed=VALUES["seeded key"].mask_seed), ValueError, "is uint32[8]; the seeds of"),
        (changed("seeded key", mask_seed=VALUES["seeded key"].mask_seed[:4]), ValueError, "is uint32[4]; the seeds of"),
        (changed("seeded key", mask_seed=VALUES["seeded key"].data), ValueError, "'data.mask_seed' is uint64"),
        (changed("seeded key", mask_seed=7), TypeError, "not an array"),
        (changed("evaluation keys", params=OTHER), TypeError, "of their own parameters"),
        (changed("evaluation keys", galois={4: switching_key(1, 1)}), ValueError, "galois element 4"),
        (fhe.Polynomial([1.0, math.inf]), ValueError, "a coefficient is not finite"),
        (fhe.Polynomial(np.ones(3, np.longdouble)), TypeError, "a file holds float64, float32"),
        (jax.vmap(fhe.Polynomial)(np.ones((2, 3, 4), np.float32)), ValueError, "have shape (2, 3, 4)"),
        (jax.tree.map(lambda _: None, fhe.Polynomial([1.0])), TypeError, "not an array"),
    ],
)
def test_save_refuses(path, value, error, says):
    with pytest.raises(error) as caught:
        fhe.save(path, value)
    assert says in str(caught.value)
    assert not path.exists()


def test_save_refuses_what_has_no_value_yet(path):
    for value in (VALUES["ciphertext"], POLYNOMIALS["polynomial"]):
        with pytest.raises(TypeError, match="a program being traced has none yet"):
            jax.jit(lambda x: fhe.save(path, x))(value)


# Refusals of load


def assert_refused(path, says=""):
    with pytest.raises(ValueError) as caught:
        fhe.load(path)
    assert str(caught.value).startswith(f"load: {path}: ") and says in str(caught.value)
    assert len(str(caught.value)) < 1000


def contents(path):
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        return tensors, json.loads(file.metadata()["fhejax"])


def resealed(path, name, change):
    """A file as someone would forge it: changed, with checksums that fit."""
    fhe.save(path, (VALUES | POLYNOMIALS)[name])
    tensors, header = contents(path)
    change(tensors, header)
    header.pop("sha256")
    if isinstance(header.get("parameters"), dict):
        text = json.dumps(header["parameters"], sort_keys=True, separators=(",", ":"))
        header["parameters_sha256"] = headers._sha256(text)
    for tensor in set(tensors) & set(header["tensors"]):
        header["tensors"][tensor] = serialization.zlib.crc32(tensors[tensor])
    save_file(tensors, path, metadata={"fhejax": headers.seal(header)})


def set_header(*keys, value):
    def change(tensors, header):
        for key in keys[:-1]:
            header = header[key]
        header[keys[-1]] = value

    return change


def set_tensor(name, value):
    def change(tensors, header):
        tensors[name] = np.ascontiguousarray(value(tensors.get(name)))

    return change


def remove(*keys):
    def change(tensors, header):
        for key in keys[:-1]:
            header = header[key]
        del header[keys[-1]]

    return change


def remove_tensor(name):
    def change(tensors, header):
        del tensors[name], header["tensors"][name]

    return change


def limb_too_large(x):
    x = x.copy()
    x[..., 0, 3] = Q[0]
    return x


def renamed(old, new):
    def change(tensors, header):
        tensors[new] = tensors.pop(old)
        for part in ("tensors", "levels"):
            header[part][new] = header[part].pop(old)

    return change


HOSTILE = [
    ("ciphertext", set_header("format", value=2), "format version 2; this fhejax reads version 1"),
    ("ciphertext", set_header("format", value="1"), "header field 'format'"),
    ("ciphertext", set_header("kind", value="Cipher"), "unknown kind of value 'Cipher'"),
    ("ciphertext", set_header("kind", value=["Ciphertext"]), "header field 'kind'"),
    ("ciphertext", set_header("kind", value="SecretKey"), "tensor 'data' of a SecretKey has shape"),
    ("ciphertext", set_header("kind", value="Parameters"), "a Parameters with tensors ['data']"),
    ("ciphertext", set_header("kind", value="EvaluationKeys"), "header field 'levels'"),
    ("ciphertext", set_header("level", value=0), "has shape (2, 2, 16); expected (*batch, 2, 1, 16)"),
    ("ciphertext", set_header("level", value=-1), "level is -1"),
    ("ciphertext", set_header("level", value=10**1000), "level is 1000"),
    ("ciphertext", set_header("level", value=1.0), "level is 1.0"),
    ("ciphertext", remove("level"), "level is None"),
    ("ciphertext", set_header("scale", value="nan"), "scale is nan"),
    ("ciphertext", set_header("scale", value="0x0p0"), "scale is 0.0"),
    ("ciphertext", set_header("scale", value="0x1p99999"), "too large"),
    ("ciphertext", set_header("scale", value="much"), "invalid hexadecimal"),
    ("ciphertext", set_header("scale", value=1.5), "expected a hexadecimal float"),
    ("ciphertext", set_header("slots", value=0), "slots is 0"),
    ("ciphertext", set_header("real", value=None), "real is None"),
    ("ciphertext", set_header("parameters", value=None), "header field 'parameters'"),
    ("ciphertext", set_header("parameters", "moduli", value=[]), "at least one modulus"),
    ("ciphertext", set_header("parameters", "moduli", value=[17] * 10**5), "100000 entries; expected up to 1001"),
    ("ciphertext", set_header("parameters", "moduli", value=[*Q[:3], 97]), ""),
    ("ciphertext", set_header("parameters", "moduli", value=[*Q[:3], 2**61 + 1]), "need a prime below 2^61"),
    ("ciphertext", set_header("parameters", "moduli", value=[*Q[:3], None]), "integers"),
    ("ciphertext", set_header("parameters", "log_degree", value=60), "log_degree = 60"),
    ("ciphertext", set_header("parameters", "log_degree", value=3), ""),
    ("ciphertext", set_header("parameters", "digit_size", value=0), "digit_size = 0"),
    ("ciphertext", set_header("parameters", "digit_size", value=4), "digits must be smaller"),
    ("ciphertext", set_header("parameters", "slots", value=12), "slots = 12"),
    ("ciphertext", set_header("parameters", "scales", value=[]), "'scales' is empty"),
    ("ciphertext", set_header("parameters", "scales", value=["nan"]), "scale = nan"),
    ("ciphertext", set_header("parameters", "scales", 0, value="0x1p40"), "not what their moduli and top scale make"),
    ("ciphertext", set_header("parameters", "more", value=1), "not what their moduli and top scale make"),
    ("ciphertext", set_header("parameters", "security", value=128), "header field 'security'"),
    ("ciphertext", set_header("parameters", "security", value={"bits": 128, "attack_model": "classical"}), "log2(QP)"),
    ("ciphertext", set_header("parameters", "security", value={"bits": 128, "attack_model": "none"}), "attack_model"),
    ("ciphertext", set_header("parameters", "security", value={}), "header field 'bits'"),
    ("ciphertext", set_header("tensors", value={}), "the file holds tensors ['data']; its header says []"),
    ("ciphertext", set_header("tensors", value=[]), "header field 'tensors'"),
    ("ciphertext", set_tensor("data", lambda x: x.astype(np.uint32)), "is of type U32; expected U64"),
    ("ciphertext", set_tensor("data", lambda x: x.astype(np.int64)), "is of type I64"),
    ("ciphertext", set_tensor("data", lambda x: x[..., :8]), "has shape (2, 2, 8)"),
    ("ciphertext", set_tensor("data", lambda x: x[0, 0]), "has shape (16,)"),
    ("ciphertext", set_tensor("data", lambda x: x.reshape(-1)[:0]), "has shape (0,)"),
    ("ciphertext", set_tensor("data", lambda x: x.reshape(2, 32)), "has shape (2, 32)"),
    ("ciphertext", set_tensor("data", limb_too_large), f"holds {Q[0]} in limb 0; expected less than its modulus"),
    ("ciphertext", set_tensor("data", lambda x: x | np.uint64(2**63)), "in limb 0; expected less than its modulus"),
    ("ciphertext", set_tensor("more", lambda x: np.zeros(1)), "the file holds tensors ['data', 'more']"),
    ("evaluation keys", renamed("galois.5", "galois.4"), "galois element 4"),
    ("evaluation keys", renamed("galois.5", "galois.1"), "galois element 1"),
    ("evaluation keys", renamed("galois.5", f"galois.{2 * N + 1}"), f"galois element {2 * N + 1}"),
    ("evaluation keys", renamed("galois.5", "galois.05"), "unknown tensor 'galois.05'"),
    ("evaluation keys", renamed("galois.5", "galois.5 "), "unknown tensor"),
    ("evaluation keys", renamed("galois.5", "galois.٥"), "unknown tensor"),
    ("evaluation keys", renamed("galois.5", "galois." + "5" * 5000), "digits"),
    ("evaluation keys", renamed("galois.5", "other"), "unknown tensor 'other'"),
    ("evaluation keys", set_header("levels", value={}), "levels for tensors []"),
    ("evaluation keys", set_header("levels", "galois.5", value=9), "level is 9"),
    ("evaluation keys", set_header("levels", "galois.5", value=1), "tensor 'galois.5' of a SwitchingKey has shape"),
    ("seeded key", set_tensor("data.mask_seed", lambda x: x[:4]), "is U32[4]; the seeds of masks are uint32[8]"),
    ("seeded key", set_tensor("data.mask_seed", lambda x: x.astype(np.uint64)), "is U64[8]"),
    ("seeded key", set_tensor("data.mask_seed", lambda x: x[None]), "is U32[1, 8]"),
    ("seeded key", set_tensor("data", lambda x: x[:, None]), "has shape (2, 1, 5, 16)"),
    ("seeded key", set_tensor("data", lambda x: np.stack([x, x], 1)), "the seeds of masks are uint32[2, 8]"),
    ("seeded key", set_header("kind", value="Ciphertext"), "a Ciphertext with tensors ['data', 'data.mask_seed']"),
    ("seeded key", remove_tensor("data"), "a SwitchingKey with tensors ['data.mask_seed']"),
    ("seeded key", remove_tensor("data.mask_seed"), "has shape (2, 5, 16)"),
    ("seeded evaluation keys", remove_tensor("galois.5.mask_seed"), "has shape (1, 4, 16)"),
    ("seeded evaluation keys", remove_tensor("galois.5"), "levels for tensors"),
    ("seeded evaluation keys", set_header("levels", "galois.5.mask_seed", value=1), "levels for tensors"),
    ("parameters", set_header("parameters", "log_degree", value=True), "header field 'log_degree'"),
    ("polynomial", set_header("kind", value="Ciphertext"), "header field 'parameters'"),
    ("ciphertext", set_header("kind", value="Polynomial"), "header field 'domain'"),
    ("polynomial", set_header("domain", value=None), "header field 'domain'"),
    ("polynomial", set_header("domain", value=["0x1p+0"]), "need two numbers"),
    ("polynomial", set_header("domain", value=["0x1p+0"] * 3), "need two numbers"),
    ("polynomial", set_header("domain", value=["0x1p+0"] * 2), "the lower first"),
    ("polynomial", set_header("domain", value=["-0x1p+0", "inf"]), "two finite numbers"),
    ("polynomial", set_header("domain", value=[-1.0, 1.0]), "expected a hexadecimal float"),
    ("polynomial", set_header("domain", value=["-0x1p+0", "many"]), "invalid hexadecimal"),
    ("polynomial", set_header("parity", value="Odd"), "need 'odd', 'even' or None"),
    ("polynomial", set_header("parity", value=["odd"]), "need 'odd', 'even' or None"),
    ("polynomial", set_header("dtype", value="float32"), "holds numbers that are no float32"),
    ("polynomial", set_header("dtype", value="float16"), "holds numbers that are no float16"),
    ("polynomial", set_header("dtype", value="object"), "'dtype' is 'object'; expected one of float64, float32"),
    ("polynomial", remove("dtype"), "header field 'dtype'"),
    ("polynomial", set_tensor("coefficients", lambda x: x.astype(np.float32)), "is of type F32; expected F64"),
    ("polynomial", set_tensor("coefficients", lambda x: x[:0]), "have shape (0,)"),
    ("polynomial", set_tensor("coefficients", lambda x: x[None, None]), "have shape (1, 1, 3)"),
    ("polynomial", set_tensor("coefficients", lambda x: x * math.nan), "a coefficient is not finite"),
    ("polynomial", set_tensor("more", lambda x: np.zeros(1)), "the file holds tensors ['coefficients', 'more']"),
    ("polynomial", remove_tensor("coefficients"), "a Polynomial with tensors []"),
]


@pytest.mark.parametrize("name, change, says", HOSTILE, ids=range(len(HOSTILE)))
def test_load_refuses_forged_files(path, name, change, says):
    resealed(path, name, change)
    assert_refused(path, says)


def test_forging_nothing_is_accepted(path):
    resealed(path, "evaluation keys", lambda tensors, header: None)
    assert_same(fhe.load(path), VALUES["evaluation keys"])


def with_text(path, text):
    tensors, _ = contents(path)
    save_file(tensors, path, metadata={"fhejax": text})


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "the header is no JSON text: Expecting value"),
        ("[" * 10**5, "the header is no JSON text"),
        ("[1]", "expected a JSON object"),
        ("{}", "header field 'format' is None"),
        ('{"format":1}', "its checksum does not fit"),
        ('{"format":1,"sha256":[]}', "its checksum does not fit"),
        ('{"format":' + "1" * 5000 + "}", "digits"),
        ('{"format":1,"kind":NaN}', "its checksum does not fit"),
    ],
)
def test_load_refuses_a_header_that_is_none(path, text, says):
    fhe.save(path, VALUES["ciphertext"])
    with_text(path, text)
    assert_refused(path, says)


def test_load_refuses_damage(path):
    fhe.save(path, VALUES["ciphertext"])
    tensors, header = contents(path)
    for key, value in [("scale", "0x1.0p+41"), ("real", True), ("slots", 8)]:
        with_text(path, json.dumps(header | {key: value}))
        assert_refused(path, "the header is damaged")
    tensors["data"][0, 0, 0] ^= np.uint64(1)
    save_file(tensors, path, metadata={"fhejax": json.dumps(header)})
    assert_refused(path, "tensor 'data' is damaged")


RAW = {}


def raw(name, path):
    """The bytes of a file, and where its tensors start."""
    if name not in RAW:
        fhe.save(path, (VALUES | POLYNOMIALS)[name])
        RAW[name] = path.read_bytes()
    return RAW[name], 8 + struct.unpack("<Q", RAW[name][:8])[0]


anything = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@anything
@given(name=st.sampled_from(["ciphertext", "seeded evaluation keys", "parameters", "polynomial"]), data=st.data())
def test_load_refuses_a_truncated_file(path, name, data):
    whole, start = raw(name, path)
    length = data.draw(st.one_of(st.integers(0, start + 1), st.integers(0, len(whole) - 1)))
    length = min(length, len(whole) - 1)
    path.write_bytes(whole[:length])
    assert_refused(path)


@anything
@given(name=st.sampled_from(["ciphertext", "seeded evaluation keys", "parameters", "polynomial"]), data=st.data())
def test_a_changed_byte_is_noticed(path, name, data):
    whole, start = raw(name, path)
    at = data.draw(st.one_of(st.integers(0, start - 1), st.integers(0, len(whole) - 1)))
    change = data.draw(st.integers(1, 255))
    path.write_bytes(whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])
    try:
        got = fhe.load(path)
    except ValueError as error:
        assert str(error).startswith(f"load: {path}: ")
    else:
        assert at < start  # white space, or an escape of the same letter
        if name in POLYNOMIALS:
            assert_same_polynomial(got, POLYNOMIALS[name])
        else:
            assert_same(got, VALUES[name])


@anything
@given(st.binary(max_size=300))
def test_load_refuses_any_bytes(path, junk):
    path.write_bytes(junk)
    assert_refused(path)
    path.write_bytes(struct.pack("<Q", len(junk)) + junk)
    assert_refused(path)


def plain_file(path, header, size):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(size))


def test_load_refuses_other_safetensors(path):
    save_file({"data": np.zeros(3)}, path)
    assert_refused(path, "not written by fhejax.save")
    save_file({"data": np.zeros(3)}, path, metadata={"format": "pt"})
    assert_refused(path, "not written by fhejax.save")


@pytest.mark.parametrize("dtype, width", [("BF16", 2), ("F8_E4M3", 1), ("BOOL", 1), ("F64", 8), ("X9", 8)])
def test_load_refuses_other_types(path, dtype, width):
    fhe.save(path, VALUES["ciphertext"])
    tensors, header = contents(path)
    size = tensors["data"].size * width
    tensor = {"dtype": dtype, "shape": tensors["data"].shape, "data_offsets": [0, size]}
    plain_file(path, {"__metadata__": {"fhejax": json.dumps(header)}, "data": tensor}, size)
    assert_refused(path)


@pytest.mark.parametrize("shape", [(2**62, 2, 2, N), (2**62, 0, 2, 2, N), (0, 2**62, 2, 2, N), (*(1,) * 70, 2, 2, N)])
def test_load_refuses_shapes_that_no_array_has(path, shape):
    fhe.save(path, VALUES["empty batch"] if 0 in shape else VALUES["ciphertext"])
    tensors, header = contents(path)
    size = tensors["data"].nbytes
    tensor = {"dtype": "U64", "shape": shape, "data_offsets": [0, size]}
    plain_file(path, {"__metadata__": {"fhejax": json.dumps(header)}, "data": tensor}, size)
    assert_refused(path)


@pytest.mark.parametrize("shape", [(), (2**62,), (2**62, 0), (1,) * 70])
def test_load_refuses_shapes_that_no_series_has(path, shape):
    fhe.save(path, POLYNOMIALS["constant"])
    _, header = contents(path)
    size = 0 if 0 in shape else 8
    tensor = {"dtype": "F64", "shape": shape, "data_offsets": [0, size]}
    plain_file(path, {"__metadata__": {"fhejax": json.dumps(header)}, "coefficients": tensor}, size)
    assert_refused(path)


def test_load_of_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fhe.load(tmp_path / "nowhere")
    with pytest.raises(IsADirectoryError):
        fhe.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fhe.save(tmp_path / "nowhere" / "value", VALUES["plaintext"])
