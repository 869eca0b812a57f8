"""Forged files: whatever a file says, with checksums that fit, the result is a well-formed value or a clear refusal."""

import math

import numpy as np
import pytest
from file_values import EVERY, N, Q, assert_same, contents, reseal

import fhejax as fhe


@pytest.fixture
def path(tmp_path):
    return tmp_path / "value.safetensors"


def assert_refused(path, says=""):
    with pytest.raises(ValueError) as caught:
        fhe.load(path)
    assert str(caught.value).startswith(f"load: {path}: ") and says in str(caught.value)
    assert len(str(caught.value)) < 1000


def resealed(path, name, change):
    """A file as someone would forge it: changed, with checksums that fit."""
    fhe.save(path, EVERY[name])
    tensors, header = contents(path)
    change(tensors, header)
    reseal(path, tensors, header)


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
    ("ciphertext", set_header("parameters", "moduli", value=[]), "expected one for each of 0 moduli"),
    ("ciphertext", set_header("parameters", "special_moduli", value=[]), "at least one"),
    ("ciphertext", set_header("parameters", "moduli", value=[17] * 10**5), "100000 entries; expected up to 1001"),
    ("ciphertext", set_header("parameters", "moduli", value=[*Q[:3], 97]), ""),
    ("ciphertext", set_header("parameters", "moduli", value=[*Q[:3], 2**61 + 1]), "need a prime below 2^61"),
    ("ciphertext", set_header("parameters", "moduli", value=[*Q[:3], None]), "integers"),
    ("ciphertext", set_header("parameters", "log_degree", value=60), "log_degree = 60"),
    ("ciphertext", set_header("parameters", "log_degree", value=3), ""),
    ("ciphertext", set_header("parameters", "digit_size", value=0), "digit_size = 0"),
    ("ciphertext", set_header("parameters", "digit_size", value=4), "digits must be smaller"),
    ("ciphertext", set_header("parameters", "slots", value=12), "slots = 12"),
    ("ciphertext", set_header("parameters", "scales", value=[]), "'scales' holds 0; expected one for each of 4"),
    ("ciphertext", set_header("parameters", "scales", 3, value="nan"), "scale = nan"),
    ("ciphertext", set_header("parameters", "scales", 0, value="0x1p40"), "not what their moduli and top scale make"),
    ("ciphertext", set_header("parameters", "anchors", value=[0]), "not what their moduli and top scale make"),
    ("ciphertext", set_header("parameters", "anchors", value=[3]), "expected levels below 3"),
    ("ciphertext", set_header("parameters", "anchors", value=3), "header field 'anchors'"),
    ("ciphertext", set_header("parameters", "fresh_level", value=3), "not what their moduli and top scale make"),
    ("ciphertext", set_header("parameters", "fresh_level", value=4), "fresh_level = 4"),
    ("ciphertext", set_header("parameters", "fresh_level", value=None), "header field 'fresh_level'"),
    ("ciphertext", set_header("parameters", "more", value=1), "not what their moduli and top scale make"),
    ("ciphertext", set_header("parameters", "security", value=128), "header field 'security'"),
    ("ciphertext", set_header("parameters", "security", value={"bits": 128, "attack_model": "classical"}), "log2(QP)"),
    ("ciphertext", set_header("parameters", "security", value={"bits": 128, "attack_model": "none"}), "attack_model"),
    ("ciphertext", set_header("parameters", "security", value={}), "header field 'bits'"),
    ("ciphertext", set_header("tensors", value={}), "the file holds tensors ['data']; its header says []"),
    ("ciphertext", set_header("tensors", value=[]), "header field 'tensors'"),
    ("ciphertext", set_tensor("data", lambda x: x.astype(np.uint32)), "is of type uint32; expected uint64"),
    ("ciphertext", set_tensor("data", lambda x: x.astype(np.int64)), "is of type 'I64'; fhejax writes U64, F64, U32"),
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
    ("seeded key", set_tensor("data.mask_seed", lambda x: x[:4]), "is uint32[4]; the seeds of masks are uint32[8]"),
    ("seeded key", set_tensor("data.mask_seed", lambda x: x.astype(np.uint64)), "is of type uint64; expected uint32"),
    ("seeded key", set_tensor("data.mask_seed", lambda x: x[None]), "is uint32[1, 8]"),
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
    ("ciphertext", set_header("kind", value="Polynomial"), "a Polynomial with tensors ['data']"),
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
    ("polynomial", set_tensor("coefficients", lambda x: x.astype(np.float32)), "is of type 'F32'; fhejax writes"),
    ("polynomial", set_tensor("coefficients", lambda x: x[:0]), "has shape (0,)"),
    ("polynomial", set_tensor("coefficients", lambda x: x[None, None]), "has shape (1, 1, 3)"),
    ("polynomial", set_tensor("coefficients", lambda x: x * math.nan), "holds a number that is not finite"),
    ("polynomial", set_tensor("more", lambda x: np.zeros(1)), "the file holds tensors ['coefficients', 'more']"),
    ("polynomial", remove_tensor("coefficients"), "a Polynomial with tensors []"),
    ("transform", set_header("level", value=0), "level is 0; expected at least 1"),
    ("transform", set_header("level", value=2), "expected (*batch, 7, 5"),
    ("transform", set_header("slots", value=4), ""),
    ("transform", set_header("real", value="yes"), "real is 'yes'"),
    ("transform", set_header("shape", value=[3]), "shape is (3,); expected two integers from 1 to (8, 8)"),
    ("transform", set_header("shape", value=[3, 9]), "shape is (3, 9)"),
    ("transform", set_header("shape", value=[0, 3]), "shape is (0, 3)"),
    ("transform", set_header("shape", value=None), "header field 'shape'"),
    ("transform", set_header("plan", value=[]), "header field 'plan'"),
    ("transform", set_header("plan", "inputs", value=10**9), "1000000000 inputs; expected as many as its babies"),
    ("transform", set_header("plan", "outputs", value=0), "the plan has 0 outputs"),
    ("transform", set_header("plan", "outputs", value=True), "header field 'outputs'"),
    ("transform", set_header("plan", "babies", value=[[0, 1]]), "terms that are no integers from 0 to 0"),
    ("transform", set_header("plan", "babies", 0, value=[0]), "the plan's babies hold [0]; expected lists of 2"),
    ("transform", set_header("plan", "babies", 0, value=0), "the plan's babies hold 0"),
    ("transform", set_header("plan", "babies", 0, value=[0, 8]), "steps that are no integers from 0 to 7"),
    ("transform", set_header("plan", "babies", 0, value=[0, -1]), "steps that are no integers from 0 to 7"),
    ("transform", set_header("plan", "babies", 0, value=[[], 1]), "the plan has 1 inputs"),
    ("transform", set_header("plan", "sums", value=[]), "the plan has 1 outputs; expected as many"),
    ("transform", set_header("plan", "sums", 0, 2, value=[]), "terms that are no integers"),
    ("transform", set_header("plan", "sums", 0, 2, value=3), "the terms of a sum are 3"),
    ("transform", set_header("plan", "sums", 0, 2, value=[0.0]), "terms that are no integers"),
    ("transform", set_header("plan", "sums", 0, 2, value=[0]), "of a LinearTransform has shape"),
    ("transform", set_tensor("data", lambda x: x[..., :1]), "a power of two from 2 to 16"),
    ("transform", set_tensor("data", lambda x: x[..., :12]), "a power of two from 2 to 16"),
    ("transform", set_tensor("data", lambda x: x[0, 0]), "of a LinearTransform has shape (16,)"),
    ("transform", set_tensor("data", limb_too_large), f"holds {Q[0]} in limb 0"),
    ("transform", set_tensor("values", lambda x: np.zeros(1)), "its header says ['data']"),
    ("numbers", set_header("dtype", value="complex128"), "expected one of float64, float32"),
    ("numbers", set_header("real", value=False), "expected one of complex128, complex64"),
    ("numbers", set_header("dtype", value="float32"), "holds numbers that are no float32"),
    ("numbers", set_tensor("values", lambda x: x[:-1]), "of a LinearTransform has shape"),
    ("numbers", set_tensor("values", lambda x: np.full_like(x, math.inf)), "not finite"),
    ("blocks as numbers", set_tensor("values", lambda x: x[..., 0]), "expected real and imaginary parts"),
    ("blocks as numbers", set_tensor("values", lambda x: x[..., :1]), "expected real and imaginary parts, (..., 2)"),
    ("blocks as numbers", remove("dtype"), "header field 'dtype' is None"),
    ("array", set_header("layout", value=[]), "header field 'layout'"),
    ("array", set_header("layout", "slots", value=4), "a layout in 4 slots, and 8 slots"),
    ("array", set_header("layout", "slots", value=6), "a power of two"),
    ("array", set_header("slots", value=4), "a layout in 8 slots, and 4 slots"),
    ("array", set_header("layout", "shape", value=[2, 4]), "digits"),
    ("array", set_header("layout", "shape", value=[2**31, 3]), "'shape' is [2147483648, 3]"),
    ("array", set_header("layout", "shape", value=[-1, 3]), "expected positive integers"),
    ("array", set_header("layout", "offset", value=8), "do not hold an array of shape (2, 3)"),
    ("array", set_header("layout", "offset", value=-1), "reaches to -1"),
    ("array", set_header("layout", "copies", value=[[2, 1]] * 7), "with copies"),
    ("array", set_header("layout", "axes", 0, value=[[2, 0]]), "stride 0"),
    ("array", set_header("level", value=0), "has shape (1, 2, 2, 16)"),
    ("map", set_header("source", "slots", value=16), "a layout in 16 slots, and 8 slots"),
    ("map", set_header("target", value=None), "header field 'target'"),
    ("map", set_header("kind", value="EncryptedArray"), ""),
    ("bootstrapping keys", set_header("preset", value=[]), "header field 'preset'"),
    ("bootstrapping keys", set_header("preset", "more", value=1), "a preset of"),
    ("bootstrapping keys", remove("preset", "bound"), "a preset of"),
    ("bootstrapping keys", set_header("preset", "bound", value=None), "header field 'bound' is None; expected int"),
    ("bootstrapping keys", set_header("preset", "bound", value=True), "header field 'bound' is True"),
    ("bootstrapping keys", set_header("preset", "bound", value=[1, 2]), "header field 'bound' is [1, 2]"),
    ("bootstrapping keys", set_header("preset", "bound", value="0x1p+1"), "header field 'bound' is '0x1p+1'"),
    ("bootstrapping keys", set_header("preset", "bound", value=257), "holds 257; expected 0 to 256"),
    ("bootstrapping keys", set_header("preset", "first_bits", value=["nan"]), "'first_bits' of the preset holds"),
    ("bootstrapping keys", set_header("preset", "special_bits", value=50), "header field 'special_bits'"),
    ("bootstrapping keys", set_header("preset", "special_bits", 0, value=None), "header field 'special_bits'"),
    ("bootstrapping keys", set_header("preset", "security", value=64), "the preset's security is 64"),
    ("bootstrapping keys", set_header("preset", "security", value=128), "the ephemeral secret has weight 2"),
    ("plan", set_header("relinearization", value=4), "level is 4"),
    ("plan", set_header("relinearization", value=[1]), "level is [1]"),
    ("plan", set_header("galois", value={}), "header field 'galois'"),
    ("plan", set_header("galois", 0, value=[4, 1]), "galois element 4"),
    ("plan", set_header("galois", 0, value=["5", 1]), "galois element '5'"),
    ("plan", set_header("galois", 0, value=[[], 1]), "galois element []"),
    ("plan", set_header("galois", 0, value=[5]), "'galois' holds [5]; expected lists of 2"),
    ("plan", set_header("galois", value=[[5, 1], [5, 2]]), "2 levels for 1 galois elements"),
    ("plan", set_header("galois", 0, 1, value=-1), "level is -1"),
    ("plan", set_header("uses", 0, value=[0, 1, None]), "expected lists of 4"),
    ("plan", set_header("uses", 0, 0, value=2), "galois element 2"),
    ("plan", set_header("uses", 0, 0, value=False), "a use of a key is"),
    ("plan", set_header("uses", 0, 1, value=None), "level is None"),
    ("plan", set_header("uses", 0, 2, value=3), "slots is 3"),
    ("plan", set_header("uses", 0, 3, value=-1), "a use of a key is"),
    ("plan", set_header("uses", 0, 3, value=2**63), "the count from 0 to 2^63 - 1"),
    ("plan", set_tensor("data", lambda x: np.zeros(1)), "the file holds tensors ['data']"),
]


@pytest.mark.parametrize("name, change, says", HOSTILE, ids=range(len(HOSTILE)))
def test_load_refuses_forged_files(path, name, change, says):
    resealed(path, name, change)
    assert_refused(path, says)


def test_forging_nothing_is_accepted(path):
    resealed(path, "evaluation keys", lambda tensors, header: None)
    assert_same(fhe.load(path), EVERY["evaluation keys"])
