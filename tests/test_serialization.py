"""Files: what is saved comes back, bit for bit and of an equal type; everything else is refused by name."""

import dataclasses
import math
import os
import stat
import subprocess
import sys
import types

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from file_values import (
    EVERY,
    OTHER,
    PARAMS,
    POLYNOMIALS,
    VALUES,
    N,
    Q,
    assert_same,
    ciphertext,
    residues,
    switching_key,
)  # fmt: skip
from hypothesis import HealthCheck, given, settings, strategies as st
from residues import on_device

import fhejax as fhe
from fhejax.parameters.parameters import LARGEST_DEPTH
from fhejax.polynomials.report import FitReport, with_report
from fhejax.serialization import container, parameter_sets


@pytest.fixture
def path(tmp_path):
    return tmp_path / "value.safetensors"


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_round_trip(path, name, x64):
    with jax.enable_x64(x64):
        fhe.save(path, EVERY[name], allow_secret=name == "secret key")
        assert_same(fhe.load(str(path)), EVERY[name])
        assert jax.config.jax_enable_x64 == x64


@pytest.mark.parametrize("name", EVERY)
def test_equal_values_make_equal_files(tmp_path, name):
    first, second = tmp_path / "first", tmp_path / "second"
    fhe.save(first, EVERY[name], allow_secret=True)
    with jax.enable_x64(True):
        fhe.save(second, fhe.load(first), allow_secret=True)
    assert first.read_bytes() == second.read_bytes()


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


@pytest.mark.slow
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


def test_the_keys_of_an_array_are_left_out(path):
    fhe.save(path, VALUES["array"].with_keys(VALUES["evaluation keys"]))
    assert_same(fhe.load(path), VALUES["array"])


@pytest.mark.parametrize("doing", ["save", "load"])
def test_a_progress_meter(path, monkeypatch, doing):
    """Of bytes, all of them seen."""
    seen = []

    class Meter:
        def __init__(self, total, desc, unit, unit_scale):
            assert (desc, unit, unit_scale) == ({"save": "saving", "load": "loading"}[doing], "B", True)
            assert total == sum(leaf.nbytes for leaf in jax.tree.leaves(value))
            seen.append(total)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def update(self, count):
            seen[0] -= count

    value = VALUES["seeded evaluation keys"]
    fhe.save(path, value)
    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace(tqdm=Meter))
    fhe.save(path, value, progress=True) if doing == "save" else fhe.load(path, progress=True)
    assert seen == [0]


def test_a_progress_meter_without_tqdm(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ImportError, match=r"save: progress=True needs tqdm; type pip install fhejax\[fit\]"):
        fhe.save(path, VALUES["ciphertext"], progress=True)
    assert not path.exists()


# Secrets and modes


def changed(name, **fields):
    """A value that its constructor might not make: tests check the types of its arguments, users' programs do not."""
    value = object.__new__(type(VALUES[name]))
    for field in dataclasses.fields(VALUES[name]):
        object.__setattr__(value, field.name, fields.get(field.name, getattr(VALUES[name], field.name)))
    return value


def secret():
    return VALUES["secret key"]


def test_a_secret_is_saved_only_when_asked(path):
    with pytest.raises(TypeError, match=r"type fhejax\.save\(path, secret_key, allow_secret=True\)"):
        fhe.save(path, secret())
    assert not path.exists()


@pytest.mark.parametrize(
    "value",
    [
        lambda: [secret()],
        lambda: {"key": secret()},
        lambda: changed("evaluation keys", relinearization=secret()),
        lambda: changed("evaluation keys", galois={5: secret()}),
        lambda: fhe.Ciphertext(secret(), PARAMS, 1, 1.0, 1, True),
        lambda: fhe.PublicKey(secret().data, PARAMS),
        lambda: type("Hidden", (fhe.SecretKey,), {})(secret().data, PARAMS),
    ],
)
def test_a_secret_inside_something_else_is_refused(tmp_path, value):
    with pytest.raises((TypeError, ValueError), match=r"holds one of|SwitchingKeys|not an array|shape") as caught:
        fhe.save(tmp_path / "value", value())
    assert str(int(secret().data[0, 0])) not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("umask, mode", [(0o000, 0o666), (0o022, 0o644), (0o077, 0o600)])
def test_modes(path, umask, mode):
    before = os.umask(umask)
    try:
        fhe.save(path, VALUES["plaintext"])
        assert stat.S_IMODE(path.stat().st_mode) == mode
        fhe.save(path, secret(), allow_secret=True)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_an_interrupted_save_leaves_the_old_file(path, monkeypatch):
    fhe.save(path, VALUES["plaintext"])

    def interrupted(file, *_):
        file.write(b"half")
        (scratch,) = [each for each in path.parent.iterdir() if each != path]
        assert stat.S_IMODE(scratch.stat().st_mode) == 0o700
        raise KeyboardInterrupt

    monkeypatch.setattr(container, "write", interrupted)
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
        (lambda: 3, TypeError, "got int; a file holds one of Plaintext, Ciphertext"),
        (lambda: fhe.simulate([1.0], PARAMS), TypeError, "Simulated values are in the clear"),
        (lambda: changed("transform", level=0), ValueError, "save: LinearTransform: level is 0"),
        (
            lambda: changed("transform", slots=4),
            ValueError,
            "save: the plan has steps that are no integers from 0 to 3",
        ),
        (lambda: changed("transform", data=None), TypeError, "not an array"),
        (
            lambda: changed("transform", values=VALUES["numbers"].values),
            ValueError,
            "`data` or `values`, and this one both",
        ),
        (
            lambda: changed("transform", data=VALUES["transform"].data[:-1]),
            ValueError,
            "of a LinearTransform has shape",
        ),
        (
            lambda: changed("transform", data=VALUES["transform"].data.astype(jnp.uint32)),
            TypeError,
            "uint64, got uint32",
        ),
        (lambda: changed("transform", params=OTHER), ValueError, "LinearTransform: level is 3"),
        (lambda: changed("numbers", real=False), TypeError, "values are float64; a file holds complex128, complex64"),
        (lambda: changed("numbers", values=np.full((7, 8), np.inf)), ValueError, "not finite"),
        (
            lambda: changed("array", ciphertext=fhe.simulate(np.ones((1, 8)), PARAMS)),
            TypeError,
            "Simulated values are in the",
        ),
        (
            lambda: changed("array", layout=fhe.Layout.columns((2, 3), 8)),
            ValueError,
            "do not hold an array of shape (2, 3)",
        ),
        (lambda: changed("array", layout=fhe.Layout.row((2, 3), 4)), ValueError, "a layout in 4 slots, and 8 slots"),
        (lambda: changed("map", source=fhe.Layout.row((3,), 16)), ValueError, "a layout in 16 slots, and 8 slots"),
        (lambda: changed("plan", galois={4: 1}), ValueError, "galois element 4"),
        (lambda: changed("plan", relinearization=9), ValueError, "level is 9"),
        (lambda: changed("ciphertext", data=None), TypeError, "not an array"),
        (lambda: changed("ciphertext", data=jax.ShapeDtypeStruct((2, 2, N), np.uint32)), TypeError, "not an array"),
        (
            lambda: changed("ciphertext", data=VALUES["ciphertext"].data.astype(jnp.uint32)),
            TypeError,
            "uint64, got uint32",
        ),
        (
            lambda: changed("ciphertext", data=VALUES["ciphertext"].data[0]),
            ValueError,
            "expected (*batch, 2, 2, 16) or",
        ),
        (lambda: changed("ciphertext", level=2), ValueError, "has shape (2, 2, 16)"),
        (lambda: changed("ciphertext", level=4), ValueError, "level is 4; expected an integer from 0 to 3"),
        (lambda: changed("ciphertext", level=True), ValueError, "level is True"),
        (lambda: changed("ciphertext", scale=math.nan), ValueError, "scale is nan; expected a finite float above 0"),
        (lambda: changed("ciphertext", scale=math.inf), ValueError, "scale is inf"),
        (lambda: changed("ciphertext", scale=-1.0), ValueError, "scale is -1.0"),
        (lambda: changed("ciphertext", slots=3), ValueError, "slots is 3; expected a power of two up to 8"),
        (lambda: changed("ciphertext", slots=16), ValueError, "slots is 16"),
        (lambda: changed("ciphertext", real=1), ValueError, "real is 1; expected True or False"),
        (lambda: changed("ciphertext", params=OTHER), ValueError, "in limb"),
        (lambda: raised_residue(VALUES["ciphertext"], 1), ValueError, f"holds {Q[1]} in limb 1"),
        (lambda: changed("seeded key", mask_seed=None), ValueError, "expected (*batch, 2, 2, 5, 16)"),
        (
            lambda: changed("switching key", mask_seed=VALUES["seeded key"].mask_seed),
            ValueError,
            "is uint32[8]; the seeds of",
        ),
        (
            lambda: changed("seeded key", mask_seed=VALUES["seeded key"].mask_seed[:4]),
            ValueError,
            "is uint32[4]; the seeds of",
        ),
        (lambda: changed("seeded key", mask_seed=VALUES["seeded key"].data), ValueError, "'data.mask_seed' is uint64"),
        (lambda: changed("seeded key", mask_seed=7), TypeError, "not an array"),
        (lambda: changed("evaluation keys", params=OTHER), TypeError, "of their own parameters"),
        (lambda: changed("evaluation keys", galois={4: switching_key(1, 1)}), ValueError, "galois element 4"),
        (lambda: fhe.Polynomial([1.0, math.inf]), ValueError, "holds a number that is not finite"),
        (lambda: fhe.Polynomial(np.ones(3, np.longdouble)), TypeError, "a file holds float64, float32"),
        (lambda: jax.vmap(fhe.Polynomial)(np.ones((2, 3, 4), np.float32)), ValueError, "has shape (2, 3, 4)"),
        (lambda: jax.tree.map(lambda _: None, fhe.Polynomial([1.0])), TypeError, "not an array"),
    ],
)
def test_save_refuses(path, value, error, says):
    value = value()
    with pytest.raises(error) as caught:
        fhe.save(path, value)
    assert says in str(caught.value)
    assert not path.exists()


def test_save_refuses_what_has_no_value_yet(path):
    for value in (VALUES["ciphertext"], POLYNOMIALS["polynomial"]):
        with pytest.raises(TypeError, match="a program being traced has none yet"):
            jax.jit(lambda x: fhe.save(path, x))(value)


def test_the_longest_chain_may_come_from_a_file():
    """And no longer one: a forged header may not keep a loader busy."""
    longest = [65537] * (LARGEST_DEPTH + 1)
    assert parameter_sets._integers({"moduli": longest}, "moduli") == longest
    with pytest.raises(ValueError, match=f"holds {LARGEST_DEPTH + 2} entries; expected up to {LARGEST_DEPTH + 1}"):
        parameter_sets._integers({"moduli": [*longest, 65537]}, "moduli")
