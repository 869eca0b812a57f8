"""Mistakes that users make, each with the error it gets: its kind, what was given, and what to type instead."""

import math
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from making import made_once
from operations import PARAMS, SLOTS, keys, operand, seed, stack

import fhejax as fhe

OTHER = fhe.Parameters.for_depth(2, log_degree=5, security=None)


@made_once
def given():
    """What the mistakes are made with."""
    user, x = keys(), operand("ciphertext", 0)[0]
    other_secret = fhe.secret_key(seed(1), OTHER)
    return types.SimpleNamespace(
        x=x,
        x0=fhe.drop_to_level(x, 0),
        raw=x * x,
        plain=operand("plaintext", 0)[0],
        secret=user.secret,
        public=user.public,
        keys=user.evaluation,
        bare=fhe.EvaluationKeys(None, {}, PARAMS),
        low=fhe.evaluation_keys(seed(2), user.secret, rotations=(1,), conjugation=True, level=1),
        other_x=fhe.encrypt(seed(3), other_secret, [1.0]),
        other_secret=other_secret,
        other_keys=fhe.evaluation_keys(seed(4), other_secret, rotations=(1,)),
        secrets=stack([keys(0).secret, keys(1).secret], (2,)),
        half=fhe.encrypt(seed(5), user.public, fhe.encode([1.0], PARAMS, slots=SLOTS // 2)),
    )


@pytest.fixture
def g(unchecked):
    return given()


def changed(x, change):
    """A ciphertext whose residues were tampered with."""
    return jax.tree.map(change, x)


def refuses(table):
    return pytest.mark.parametrize("attempt, error, says", table.values(), ids=table)


def check(g, attempt, error, says):
    with pytest.raises(error) as caught:
        attempt(g)
    assert type(caught.value) is error
    for part in says:
        assert part in str(caught.value)


@refuses(
    {
        "integer beyond any double": (lambda g: g.x * 2**2000, ValueError, ["the integer", "2^2000.0", "level 3"]),
        "rescale of what is no raw product": (lambda g: fhe.rescale(g.x), fhe.ScaleError, ["drop_to_level"]),
        "product at level 0": (lambda g: fhe.multiply(g.x0, g.x0, g.keys), fhe.LevelError, ["multiply:", "level 0"]),
        "product with a higher operand": (lambda g: fhe.multiply(g.x, g.x0, g.keys), fhe.LevelError, ["for_depth(4)"]),
        "square at level 0": (
            lambda g: fhe.square(g.x0, g.keys),
            fhe.LevelError,
            ["square:", "level 0", "for_depth(4)"],
        ),
        "raw product at level 0": (lambda g: g.x0 * g.x0, fhe.LevelError, ["multiply:", "level 0"]),
        "number at level 0": (lambda g: 0.5 * g.x0, fhe.LevelError, ["multiply_plain:", "level 0", "bootstrap"]),
        "array at level 0": (lambda g: g.x0 * np.ones(3), fhe.LevelError, ["multiply_plain:", "level 0"]),
        "plaintext at level 0": (
            lambda g: g.x * fhe.encode([1.0], PARAMS, level=0),
            fhe.LevelError,
            ["multiply_plain:", "level 0"],
        ),
        "dot_plain at level 0": (lambda g: fhe.dot_plain([g.x0], [[1.0]]), fhe.LevelError, ["dot_plain:", "level 0"]),
        "rescale at level 0": (lambda g: fhe.rescale(g.x0), fhe.LevelError, ["rescale:", "level 0", "for_depth(4)"]),
        "in a dry run": (lambda g: jax.eval_shape(fhe.rescale, g.x0), fhe.LevelError, ["rescale:", "level 0"]),
        "up to a level": (
            lambda g: fhe.drop_to_level(g.x0, 2),
            fhe.LevelError,
            ["level 2", "between 0 and", "level 0"],
        ),
        "below level 0": (lambda g: fhe.drop_to_level(g.x, -1), fhe.LevelError, ["level -1"]),
        "half a level": (lambda g: fhe.drop_to_level(g.x, 1.5), TypeError, ["drop_to_level: level = 1.5", "integer"]),
        "traced level": (
            lambda g: jax.jit(lambda x, level: fhe.drop_to_level(x, level))(g.x, 1),
            TypeError,
            ["drop_to_level: level = ", "static"],
        ),
        "raw product at its level": (lambda g: fhe.drop_to_level(g.raw, 3), fhe.ScaleError, ["rescale one level"]),
        "scales too near": (
            lambda g: g.x + fhe.encode([1.0], PARAMS, scale=2.0**38),
            fhe.ScaleError,
            ["add:", "1.09951e+12", "2.74878e+11", "params.scale_at(level)"],
        ),
        "encode above the top": (lambda g: fhe.encode([1.0], PARAMS, level=4), ValueError, ["level = 4", "0 to 3"]),
        "keys above the top": (
            lambda g: fhe.evaluation_keys(seed(1), g.secret, level=9),
            ValueError,
            ["evaluation_keys: level = 9", "0 to 3"],
        ),
    }
)
def test_levels_and_scales(g, attempt, error, says):
    check(g, attempt, error, says)


@refuses(
    {
        "no keys": (lambda g: fhe.multiply(g.x, g.x), fhe.MissingKeyError, ["multiply:", "level 3", "type multiply"]),
        "None for keys": (lambda g: fhe.square(g.x, None), fhe.MissingKeyError, ["square:", "evaluation_keys(seed,"]),
        "no relinearization": (lambda g: fhe.relinearize(g.raw, g.bare), fhe.MissingKeyError, ["there is none"]),
        "keys of a lower level": (
            lambda g: fhe.square(g.x, g.low),
            fhe.MissingKeyError,
            ["level 3", "level 1 and below"],
        ),
        "no rotation": (
            lambda g: fhe.rotate(g.x, 3, g.bare),
            fhe.MissingKeyError,
            ["rotate: no key for step 3 at level 3", "[]", "rotations=(3, ...)"],
        ),
        "no such rotation": (
            lambda g: fhe.rotate(fhe.drop_to_level(g.x, 1), 3, evaluation(g, (4, 8))),
            fhe.MissingKeyError,
            ["no key for step 3 at level 1", "[4, 8]"],
        ),
        "rotation of a lower level": (lambda g: fhe.rotate(g.x, 1, g.low), fhe.MissingKeyError, ["at level 3", "[]"]),
        "rotate_many": (
            lambda g: fhe.rotate_many(g.x, (1, 3), g.bare),
            fhe.MissingKeyError,
            ["rotate_many: no key for"],
        ),
        "sum_slots": (lambda g: fhe.sum_slots(g.x, g.bare), fhe.MissingKeyError, ["sum_slots: no key for step 1"]),
        "conjugate": (lambda g: fhe.conjugate(g.x, g.bare), fhe.MissingKeyError, ["conjugate:", "conjugation=True"]),
        "conjugate of a lower level": (lambda g: fhe.conjugate(g.x, g.low), fhe.MissingKeyError, ["at level 3"]),
        "path": (lambda g: fhe.rotation_path(g.bare, 3), fhe.MissingKeyError, ["rotates by 3"]),
        "while tracing": (
            lambda g: jax.eval_shape(lambda x, k: fhe.rotate(x, 3, k), g.x, g.bare),
            fhe.MissingKeyError,
            ["rotate: no key for step 3 at level 3"],
        ),
    }
)
def test_missing_keys(g, attempt, error, says):
    check(g, attempt, error, says)


def evaluation(g, rotations):
    return fhe.evaluation_keys(seed(6), g.secret, rotations=rotations, level=1)


@refuses(
    {
        "secret for evaluation": (
            lambda g: fhe.multiply(g.x, g.x, g.secret),
            TypeError,
            ["multiply: got SecretKey for the evaluation keys", "evaluation_keys(seed, secret_key)"],
        ),
        "public for evaluation": (lambda g: fhe.rotate(g.x, 1, g.public), TypeError, ["rotate: got PublicKey"]),
        "evaluation for public": (
            lambda g: fhe.encrypt(seed(1), g.keys, [1.0]),
            TypeError,
            ["encrypt: got EvaluationKeys"],
        ),
        "public for secret": (
            lambda g: fhe.decrypt(g.public, g.x),
            TypeError,
            ["decrypt: got PublicKey for the secret key", "type fhejax.secret_key(seed, params)"],
        ),
        "evaluation for secret": (lambda g: fhe.decrypt(g.keys, g.x), TypeError, ["decrypt: got EvaluationKeys"]),
        "public makes public": (lambda g: fhe.public_key(seed(1), g.public), TypeError, ["public_key: got PublicKey"]),
        "public makes evaluation": (
            lambda g: fhe.evaluation_keys(seed(1), g.public),
            TypeError,
            ["evaluation_keys: got PublicKey"],
        ),
        "decrypt exchanged": (
            lambda g: fhe.decrypt(g.x, g.secret),
            TypeError,
            ["decrypt: got Ciphertext for the secret"],
        ),
        "decrypt a plaintext": (lambda g: fhe.decrypt(g.secret, g.plain), TypeError, ["decrypt: got Plaintext"]),
        "decode a ciphertext": (lambda g: fhe.decode(g.x), TypeError, ["decode: got Ciphertext", "type decrypt("]),
        "encrypt exchanged": (lambda g: fhe.encrypt(g.public, seed(1), [1.0]), TypeError, ["encrypt(seed, public_key"]),
        "encrypt a ciphertext": (lambda g: fhe.encrypt(seed(1), g.public, g.x), TypeError, ["got Ciphertext"]),
        "rotate exchanged": (
            lambda g: fhe.rotate(g.x, g.keys, 1),
            TypeError,
            ["rotate: got int for the evaluation keys"],
        ),
        "name for parameters": (
            lambda g: fhe.secret_key(seed(1), "n14"),
            TypeError,
            ["secret_key: got str", "Parameters."],
        ),
        "two ciphertexts": (lambda g: fhe.multiply_plain(g.x, g.x), TypeError, ["type multiply(x, y, keys)"]),
        "no ciphertext": (lambda g: fhe.add(1.0, [2.0]), TypeError, ["add: neither operand is a ciphertext", "float"]),
        "no ciphertext to subtract": (lambda g: fhe.subtract(1.0, 2.0), TypeError, ["subtract: got float"]),
        "plaintext rescaled": (lambda g: fhe.rescale(g.plain), TypeError, ["rescale: got Plaintext", "encrypt("]),
        "array negated": (lambda g: fhe.negate(np.ones(3)), TypeError, ["negate: got ndarray"]),
        "array rotated": (lambda g: fhe.rotate(np.ones(3), 1, g.keys), TypeError, ["rotate: got ndarray"]),
    }
)
def test_one_thing_for_another(g, attempt, error, says):
    check(g, attempt, error, says)


@refuses(
    {
        "ciphertexts": (
            lambda g: g.x + g.other_x,
            fhe.ParametersMismatchError,
            ["add: the parameters differ", "depth=2"],
        ),
        "plaintext": (
            lambda g: g.other_x * g.plain,
            fhe.ParametersMismatchError,
            ["the parameters differ", "Plaintext"],
        ),
        "relinearization": (
            lambda g: fhe.square(g.x, g.other_keys),
            fhe.ParametersMismatchError,
            ["square: the parameters differ", "EvaluationKeys"],
        ),
        "rotation": (
            lambda g: fhe.rotate(g.x, 1, g.other_keys),
            fhe.ParametersMismatchError,
            ["rotate: the parameters"],
        ),
        "conjugation": (
            lambda g: fhe.conjugate(g.x, g.other_keys),
            fhe.ParametersMismatchError,
            ["conjugate: the param"],
        ),
        "decryption": (
            lambda g: fhe.decrypt(g.other_secret, g.x),
            fhe.ParametersMismatchError,
            ["decrypt: the parameters differ", "from one Parameters object"],
        ),
        "encryption": (
            lambda g: fhe.encrypt(seed(1), g.other_secret, g.plain),
            fhe.ParametersMismatchError,
            ["encrypt: the parameters differ"],
        ),
        "dot_plain": (
            lambda g: fhe.dot_plain([g.x, g.other_x], [[1.0], [1.0]]),
            fhe.ParametersMismatchError,
            ["dot_plain: the parameters differ"],
        ),
        "slots": (lambda g: g.x + g.half, fhe.ParametersMismatchError, ["add: 16 and 8 slots", "same `slots`"]),
        "slots of factors": (
            lambda g: fhe.multiply(g.x, g.half, g.keys),
            fhe.ParametersMismatchError,
            ["16 and 8 slots"],
        ),
        "slots of a plaintext": (lambda g: g.half * g.plain, fhe.ParametersMismatchError, ["8 and 16 slots"]),
        "slots of a sum": (
            lambda g: fhe.dot_plain([g.x, g.half], [[1.0], [1.0]]),
            fhe.ParametersMismatchError,
            ["dot_plain: 16 and 8 slots"],
        ),
    }
)
def test_what_does_not_belong_together(g, attempt, error, says):
    check(g, attempt, error, says)


@refuses(
    {
        "NaN": (lambda g: g.x + math.nan, ValueError, ["nan is not finite"]),
        "infinity": (lambda g: g.x * math.inf, ValueError, ["inf is not finite"]),
        "NaN in an array": (lambda g: g.x - np.array([1.0, math.nan]), ValueError, ["values[1] = nan is not finite"]),
        "NaN encrypted": (lambda g: fhe.encrypt(seed(1), g.public, [math.nan]), ValueError, ["values[0] = nan"]),
        "large number": (lambda g: g.x * 1e40, ValueError, ["1e+40 is too large", "level 3", "must be below"]),
        "large integer": (
            lambda g: g.x0 * 10**9,
            ValueError,
            ["integer 1e+09 is too large", "level 0", "must be below"],
        ),
        "large array": (lambda g: g.x0 + np.full(3, 1e9), ValueError, ["too large for the modulus: level 0"]),
        "too many": (lambda g: g.x + np.ones(SLOTS + 1), ValueError, ["got 17 values for 16 slots"]),
        "too many encrypted": (lambda g: fhe.encrypt(seed(1), g.public, np.ones(99)), ValueError, ["99 values for 16"]),
        "none": (lambda g: fhe.encrypt(seed(1), g.public, []), ValueError, ["no values", "1 to 16"]),
        "a word": (lambda g: g.x + "a", TypeError, ["got str", "need real or complex numbers"]),
        "None": (lambda g: g.x * None, TypeError, ["got NoneType", "need real or complex numbers"]),
        "a key": (lambda g: g.x * g.public, TypeError, ["got PublicKey", "need real or complex numbers"]),
        "dot_plain of unequal lengths": (lambda g: fhe.dot_plain([g.x], []), ValueError, ["1 ciphertexts and 0 plain"]),
        "dot_plain of nothing": (lambda g: fhe.dot_plain([], []), ValueError, ["dot_plain:", "at least one"]),
        "dot_plain of ciphertexts": (lambda g: fhe.dot_plain([g.x], [g.x]), TypeError, ["got Ciphertext"]),
        "dot_plain of arrays": (
            lambda g: fhe.dot_plain([[1.0]], [[1.0]]),
            TypeError,
            ["dot_plain: got list for the ciph"],
        ),
        "batches": (
            lambda g: stack([g.x] * 2, (2,)) + stack([g.x] * 3, (3,)),
            ValueError,
            ["add: batch shapes (2, 2) and (3, 2) do not broadcast"],
        ),
        "batches of keys": (
            lambda g: fhe.encrypt(seed(1), g.secrets, np.ones((3, 2))),
            ValueError,
            ["encrypt: a batch of messages (3,) and a batch of keys (2,)"],
        ),
        "precision": (lambda g: fhe.precision([1.0], [math.nan]), ValueError, ["not finite"]),
    }
)
def test_values(g, attempt, error, says):
    check(g, attempt, error, says)


@refuses(
    {
        "raw product multiplied": (
            lambda g: fhe.multiply(g.raw, g.x, g.keys),
            ValueError,
            ["multiply:", "relinearize(x"],
        ),
        "raw product squared": (lambda g: fhe.square(g.raw, g.keys), ValueError, ["square:", "relinearize(x, keys)"]),
        "raw products multiplied": (lambda g: g.raw * g.raw, ValueError, ["multiply:", "relinearize(x, keys)"]),
        "raw product rotated": (
            lambda g: fhe.rotate(g.raw, 1, g.keys),
            ValueError,
            ["rotate:", "relinearize(x, keys)"],
        ),
        "raw product conjugated": (lambda g: fhe.conjugate(g.raw, g.keys), ValueError, ["conjugate:", "relinearize(x"]),
        "raw product summed": (
            lambda g: fhe.sum_slots(g.raw, g.keys),
            ValueError,
            ["sum_slots:", "relinearize(x, keys)"],
        ),
        "half a step": (lambda g: fhe.rotate(g.x, 1.5, g.keys), TypeError, ["step 1.5", "not a Python integer"]),
        "traced step": (
            lambda g: jax.jit(lambda k, x, step: fhe.rotate(x, step, k))(g.keys, g.x, 1),
            TypeError,
            ["rotate: the step", "steps are static", "jax.lax.switch"],
        ),
        "mapped step": (
            lambda g: jax.vmap(lambda step: fhe.rotate(g.x, step, g.keys))(jnp.arange(3)),
            TypeError,
            ["steps are static", "jax.lax.switch"],
        ),
        "one of many steps": (
            lambda g: fhe.rotate_many(g.x, 1, g.keys),
            TypeError,
            ["type rotate_many(x, (1,), keys)"],
        ),
        "a word for steps": (lambda g: fhe.rotate_many(g.x, "ab", g.keys), TypeError, ["rotate_many: the step 'a'"]),
        "one rotation key": (
            lambda g: fhe.evaluation_keys(seed(1), g.secret, rotations=3),
            TypeError,
            ["evaluation_keys: rotations = 3", "type rotations=(3,)"],
        ),
        "half a rotation key": (
            lambda g: fhe.evaluation_keys(seed(1), g.secret, rotations=(1.5,)),
            TypeError,
            ["rotation step 1.5 is not an integer"],
        ),
        "half a level of keys": (
            lambda g: fhe.evaluation_keys(seed(1), g.secret, level=1.0),
            TypeError,
            ["evaluation_keys: level = 1.0 is not a Python integer"],
        ),
    }
)
def test_components_and_steps(g, attempt, error, says):
    check(g, attempt, error, says)


@refuses(
    {
        "integer": (
            lambda g: fhe.secret_key(0, PARAMS),
            TypeError,
            ["secret_key: a seed is uint32[8]", "new_seed()", "int 0"],
        ),
        "jax.random.key": (
            lambda g: fhe.secret_key(jax.random.key(0), PARAMS),
            TypeError,
            ["not a jax.random key", "64"],
        ),
        "jax.random.PRNGKey": (
            lambda g: fhe.encrypt(jax.random.PRNGKey(0), g.public, [1.0]),
            TypeError,
            ["encrypt: a seed is uint32[8]", "not a jax.random key"],
        ),
        "many seeds": (
            lambda g: fhe.secret_key(fhe.split_seed(seed(1), 3), PARAMS),
            ValueError,
            ["secret_key:", "uint32[3, 8]", "use vmap"],
        ),
        "parameters for a seed": (lambda g: fhe.secret_key(PARAMS, seed(1)), TypeError, ["Parameters"]),
        "half a child": (
            lambda g: fhe.split_seed(seed(1), 2.5),
            TypeError,
            ["split_seed: n = 2.5 is not a Python integer"],
        ),
        "traced number of children": (lambda g: jax.jit(fhe.split_seed)(seed(1), 2), TypeError, ["split_seed: n = "]),
        "one seed for many secrets": (
            lambda g: fhe.public_key(seed(1), g.secrets),
            ValueError,
            [
                "public_key: got a batch of secret keys, shape (2,)",
                "jax.vmap(fhejax.public_key)(fhejax.split_seed(seed, 2)",
            ],
        ),
        "one seed for many users": (
            lambda g: fhe.evaluation_keys(seed(1), g.secrets),
            ValueError,
            ["evaluation_keys: got a batch of secret keys", "jax.vmap(fhejax.evaluation_keys)"],
        ),
    }
)
def test_seeds(g, attempt, error, says):
    check(g, attempt, error, says)


CUT = ["residues are uint64", "jax_enable_x64 is off", "use fhejax.encode"]


@refuses(
    {
        "cut": (lambda g: -changed(g.x, lambda data: data.astype("uint32")), TypeError, ["negate:", "uint32", *CUT]),
        "int64": (
            lambda g: g.x + changed(g.x, lambda d: np.asarray(d).astype(np.int64)),
            TypeError,
            ["add:", "int64", *CUT],
        ),
        "float": (lambda g: -changed(g.x, lambda data: data.astype("float32")), TypeError, ["float32", *CUT]),
        "described without 64 bits": (
            lambda g: jax.eval_shape(fhe.negate, changed(g.x, lambda d: jax.ShapeDtypeStruct(d.shape, np.uint32))),
            TypeError,
            ["negate:", "uint32", *CUT],
        ),
        "decrypted": (lambda g: fhe.decrypt(g.secret, changed(g.x, lambda d: d.astype("uint32"))), TypeError, CUT),
        "cut key": (
            lambda g: fhe.rotate(g.x, 1, changed(g.keys, lambda data: data.astype("uint32"))),
            TypeError,
            ["the key is uint32, not uint64", "fhejax.evaluation_keys"],
        ),
        "limbs missing": (
            lambda g: -changed(g.x, lambda data: data[:, :2]),
            ValueError,
            ["negate: got shape (2, 2, 32) for 4 moduli", "with 4 limbs"],
        ),
        "another ring": (lambda g: g.x + changed(g.x, lambda data: data[..., :8]), ValueError, ["ring degrees differ"]),
        "key of another shape": (
            lambda g: fhe.square(g.x, changed(g.keys, lambda data: data[:1])),
            ValueError,
            ["a key of shape (1, 2, 6, 32)", "at least 2 digits"],
        ),
    }
)
def test_residues(g, attempt, error, says):
    with jax.enable_x64(False):
        check(g, attempt, error, says)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda x: x @ x,
        lambda x: 2**x,
        lambda x: x / x,
        lambda x: abs(x),
        lambda x: float(x),
        lambda x: np.add(np.ones(3), x),
        lambda x: np.sin(x),
        lambda x: jnp.sin(x),
        lambda x: x < x,
    ],
)
def test_what_ciphertexts_cannot_do_is_a_type_error(g, attempt):
    """And never an array of objects, nor a comparison of residues."""
    with pytest.raises(TypeError):
        attempt(g.x)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("number", [2**2000, 1e308, -1e308], ids=["integer", "large", "negative"])
def test_numbers_too_large_for_a_modulus_beyond_any_double(number):
    """log2(Q) above 1024: the message must not itself overflow."""
    params = fhe.Parameters.for_depth(34, log_degree=5, security=None)
    x = fhe.encrypt(np.arange(8, dtype=np.uint32), fhe.secret_key(np.ones(8, np.uint32), params), [1.0])
    if isinstance(number, int):
        with pytest.raises(ValueError, match=r"2\^2000.0 is too large for the modulus at level 34"):
            x * number
    else:  # 2^1023 at scale 2^40 fits below 2^1409
        assert (x * number).level == 33
