"""Values of every kind that files hold, small, and what the tests of files do with them."""

import functools
import hashlib
import json
import math
import zlib

import golden_values
import jax
import jax.numpy as jnp
import numpy as np
from residues import on_device, random_residues
from safetensors import safe_open
from safetensors.numpy import save_file

import fhejax as fhe
from fhejax.arrays.layouts.maps import map_of_entries
from fhejax.planning.plan import KeyUse
from fhejax.serialization import headers

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


def random(*shape):
    return np.random.default_rng(0).normal(size=shape)


def numbered_transforms():
    """Two inputs and two outputs, encoded and not; another transform for each of two users."""
    rows = [[random(3, 5), None], [random(4, 5), random(4, 8) * 1j]]
    return [fhe.LinearTransform.from_blocks(rows, PARAMS, 2, encoded=encoded) for encoded in (True, False)]


def mapped_transform():
    matrices = jnp.asarray(random(2, 2, 2), jnp.float32)
    return jax.vmap(lambda matrix: fhe.LinearTransform.from_matrix(matrix, PARAMS, encoded=False))(matrices)


def encrypted_array(layout, *batch):
    data = residues(11, Q[:2], *batch, layout.ciphertexts, 2)
    return fhe.EncryptedArray(fhe.Ciphertext(data, PARAMS, 1, PARAMS.scale_at(1), 8, True), None, layout)


def array_map():
    """(a, b, c) to (c, a) in every copy."""
    source, target = fhe.Layout.row((3,), 8), fhe.Layout.replicated((2,), 8)
    return map_of_entries("test", source, target, (np.array([0, 1]), np.array([2, 0]), np.ones(2)), PARAMS, 1)


class Made(dict):
    """Values by their names, each made when it is first asked for: tests are collected without them."""

    def __init__(self, make):
        super().__init__(make)
        self.made = {}

    def __getitem__(self, name):
        if name not in self.made:
            self.made[name] = super().__getitem__(name)()
        return self.made[name]


VALUES = Made(
    {
        "plaintext": lambda: fhe.Plaintext(residues(0, Q), PARAMS, 3, math.pi * 2**40, 8, True),
        "batch of plaintexts": lambda: fhe.Plaintext(residues(1, Q[:1], 2, 3), PARAMS, 0, PARAMS.scale_at(0), 1, False),
        "ciphertext": lambda: ciphertext(),
        "three components": lambda: ciphertext(3, components=3),
        "empty batch": lambda: ciphertext(0),
        "secret key": lambda: fhe.SecretKey(residues(3, Q + P), PARAMS),
        "public key": lambda: fhe.PublicKey(residues(4, Q + P[:1], 2), PARAMS),
        "switching key": lambda: switching_key(5, 2),
        "batch of switching keys": lambda: switching_key(5, 2, 3),
        "seeded key": lambda: seeded_key(5, 2),
        "batch of seeded keys": lambda: seeded_key(5, 2, 3),
        "evaluation keys": lambda: evaluation_keys(),
        "seeded evaluation keys": lambda: fhe.EvaluationKeys(
            seeded_key(8, 2), {5: seeded_key(9, 1), 25: switching_key(4, 0)}, PARAMS
        ),
        "no relinearization": lambda: fhe.EvaluationKeys(None, {5: switching_key(7, 3)}, PARAMS),
        "no keys": lambda: fhe.EvaluationKeys(None, {}, PARAMS),
        "parameters": lambda: PARAMS,
        "secure parameters": lambda: SECURE,
        "quantum": lambda: fhe.Parameters.for_depth(1, attack_model="quantum", security=192),
        "parameters for bootstrapping": lambda: fhe.Parameters.from_moduli(
            4, Q, P, scale={3: 2.0**40, 2: 2.0**41, 0: 2.0**39}, fresh_level=2, digit_size=2, security=None
        ),
        "transform": lambda: fhe.LinearTransform.from_matrix(random(3, 5), PARAMS),
        "repeating transform": lambda: fhe.LinearTransform.from_diagonals({0: 1, 5: 1j}, PARAMS, 1, slots=8),
        "blocks": lambda: numbered_transforms()[0],
        "blocks as numbers": lambda: numbered_transforms()[1],
        "numbers": lambda: fhe.LinearTransform.from_matrix(random(3, 5), PARAMS, encoded=False),
        "batch of transforms": lambda: mapped_transform(),
        "array": lambda: encrypted_array(fhe.Layout.row((2, 3), 8)),
        "array of columns": lambda: encrypted_array(fhe.Layout.columns((2, 3), 8)),
        "copies": lambda: encrypted_array(fhe.Layout.replicated((3,), 8)),
        "diagonals": lambda: encrypted_array(fhe.Layout.diagonals((2, 3), 8)),
        "view": lambda: encrypted_array(fhe.Layout.row((3, 4), 8)).T[1:, ::-2],
        "batch of arrays": lambda: encrypted_array(fhe.Layout.row((), 8), 3),
        "map": lambda: array_map(),
        "bootstrapping keys": lambda: golden_values.bootstrapping_keys(),
        "plan": lambda: fhe.plan_keys(
            lambda x, keys: fhe.rotate(fhe.square(fhe.conjugate(x, keys), keys), 3, keys), ciphertext()
        ),
        "empty plan": lambda: fhe.plan_keys(lambda x, keys: x, ciphertext()),
        "plan of many uses": lambda: fhe.KeyPlan(
            PARAMS, None, {5: 3, 25: 0}, (KeyUse(0, 1, None, 2**40), KeyUse(5, 3, 8, 0), KeyUse(31, 2, None, 1))
        ),
    }
)

POLYNOMIALS = Made(
    {
        "polynomial": lambda: fhe.Polynomial([0.1, -1e-300, 0.3], (-8, 1 / 3)),
        "odd polynomial": lambda: fhe.Polynomial([7.0, 1.0, 7.0, -0.5], parity="odd"),
        "polynomial a slot": lambda: fhe.Polynomial(np.random.default_rng(0).normal(size=(4, 8)), (0, 1), "even"),
        "constant": lambda: fhe.Polynomial(np.array([0.1], np.float32)),
        "polynomial of JAX": lambda: fhe.Polynomial(jnp.array([0.1, 0.2, 0.3], jnp.float32)),
        "half precision": lambda: fhe.Polynomial(jnp.array([0.1, 0.2], jnp.bfloat16)),
        "other half precision": lambda: fhe.Polynomial(np.array([0.1, 0.2], np.float16)),
    }
)
EVERY = Made({name: functools.partial(made.__getitem__, name) for made in (VALUES, POLYNOMIALS) for name in made})


def assert_same(got, value):
    """Equal types, equal bits, on the same side of NumPy and JAX as `load` promises."""
    assert type(got) is type(value)
    if isinstance(value, fhe.Parameters | fhe.KeyPlan):
        params, expected = (x if isinstance(x, fhe.Parameters) else x.params for x in (got, value))
        assert got == value and hash(params) == hash(expected) and params.security == expected.security
        return
    assert jax.tree.structure(got) == jax.tree.structure(value)
    for leaf, expected in zip(jax.tree.leaves(got), jax.tree.leaves(value), strict=True):
        assert isinstance(leaf, np.ndarray if isinstance(value, fhe.Polynomial) else jax.Array)
        assert leaf.dtype == expected.dtype
        np.testing.assert_array_equal(leaf, np.asarray(expected))
    if hasattr(value, "params"):
        assert_same(got.params, value.params)


def contents(path):
    """The tensors and the header of a file, read by the library of the format."""
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        return tensors, json.loads(file.metadata()["fhejax"])


def reseal(path, tensors, header):
    """Writes a file as someone would forge it: with checksums that fit, by the library of the format."""
    header = {name: field for name, field in header.items() if name != "sha256"}
    if isinstance(header.get("parameters"), dict):
        text = json.dumps(header["parameters"], sort_keys=True, separators=(",", ":"))
        header["parameters_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    for name in set(tensors) & set(header["tensors"]):
        header["tensors"][name] = zlib.crc32(tensors[name])
    if "shapes" in header:
        header["shapes"] = {name: tensor.shape for name, tensor in tensors.items()}
    save_file(tensors, path, metadata={"fhejax": headers.seal(header)})
