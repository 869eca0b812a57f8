"""Damaged and hostile files: whatever bytes there are, loading gives a clear error or the value that was saved."""

import copy
import json
import os
import struct
import subprocess
import sys
import tracemalloc
import zlib

import numpy as np
import pytest
from file_values import EVERY, assert_same, contents, reseal
from hypothesis import HealthCheck, given, settings, strategies as st
from safetensors.numpy import save_file

import fhejax as fhe
from fhejax.serialization import container, headers

NAMES = sorted(EVERY)
RAW: dict[str, bytes] = {}
anything = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "value.safetensors"


def raw(name, path):
    """The bytes of a file, and where its tensors start."""
    if name not in RAW:
        fhe.save(path, EVERY[name], allow_secret=True)
        RAW[name] = path.read_bytes()
    return RAW[name], 8 + struct.unpack("<Q", RAW[name][:8])[0]


def assert_refused(path, says=""):
    with pytest.raises(ValueError) as caught:
        fhe.load(path)
    assert str(caught.value).startswith(f"load: {path}: ") and says in str(caught.value)
    assert len(str(caught.value)) < 1000


def refused_or_same(path, name):
    """Whether it was refused, by an error that names the file; if not, nothing was lost."""
    try:
        got = fhe.load(path)
    except ValueError as error:
        assert str(error).startswith(f"load: {path}: ") and len(str(error)) < 1000
        return True
    assert_same(got, EVERY[name])
    return False


# Damaged bytes


@anything
@given(name=st.sampled_from(NAMES), data=st.data())
def test_a_truncated_file_is_refused(path, name, data):
    whole, start = raw(name, path)
    length = data.draw(st.one_of(st.integers(0, start + 1), st.integers(0, len(whole) - 1)))
    path.write_bytes(whole[: min(length, len(whole) - 1)])
    assert_refused(path)


@anything
@given(name=st.sampled_from(NAMES), data=st.data())
def test_a_changed_byte_is_noticed(path, name, data):
    whole, start = raw(name, path)
    at = data.draw(st.one_of(st.integers(0, start - 1), st.integers(0, len(whole) - 1)))
    change = data.draw(st.integers(1, 255))
    path.write_bytes(whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])
    assert refused_or_same(path, name) or at < start  # white space, or an escape of the same letter


@anything
@given(st.binary(max_size=300))
def test_any_bytes_are_refused(path, junk):
    path.write_bytes(junk)
    assert_refused(path)
    path.write_bytes(struct.pack("<Q", len(junk)) + junk)
    assert_refused(path)


def flipped(rng, whole, other):
    at = rng.integers(len(whole))
    return whole[:at] + bytes([whole[at] ^ 1 << int(rng.integers(8))]) + whole[at + 1 :]


def ends(rng, whole):
    """A part of a file, small or large, more often among the first bytes, where the headers are."""
    most = len(whole) if rng.random() < 0.5 else min(len(whole), 1000)
    first = int(rng.integers(most))
    return first, min(len(whole), first + int(2 ** rng.uniform(0, 8)))


def without_a_part(rng, whole, other):
    first, last = ends(rng, whole)
    return whole[:first] + whole[last:]


def with_a_part_twice(rng, whole, other):
    first, last = ends(rng, whole)
    return whole[:last] + whole[first:]


def with_a_part_of_another(rng, whole, other):
    (first, last), (start, stop) = ends(rng, whole), ends(rng, other)
    return whole[:first] + other[start:stop] + whole[last:]


def with_one_byte(rng, whole, other):
    first, last = ends(rng, whole)
    return whole[:first] + bytes([rng.choice([0, 255, *b'"{}[],:0919-'])]) * (last - first) + whole[last:]


def with_other_digits(rng, whole, other):
    places = [i for i in range(8, min(len(whole), 3000)) if whole[i : i + 1].isdigit()]
    changed = bytearray(whole)
    for at in rng.choice(places, rng.integers(1, 4)):
        changed[at] = rng.choice([*b"0123456789"])
    return bytes(changed)


def with_another_length(rng, whole, other):
    length = int(rng.choice([0, 1, 7, 2**16, 2**31, 2**62, 2**63 + 1])) + int(rng.integers(3))
    return struct.pack("<Q", length) + whole[8:]


def with_other_tensors(rng, whole, other):
    start, cut = (8 + struct.unpack("<Q", text[:8])[0] for text in (whole, other))
    return whole[:start] + other[cut:]


def with_bytes_behind(rng, whole, other):
    return whole + rng.bytes(rng.integers(1, 100))


DAMAGE = [
    flipped, without_a_part, with_a_part_twice, with_a_part_of_another, with_one_byte, with_other_digits,
    with_another_length, with_other_tensors, with_bytes_behind,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_fuzzed_files(path, damage):
    """Two damaged files of each value, and of each kind of damage: some 600, of which nearly all are refused."""
    rng, refused, count = np.random.default_rng(zlib.crc32(damage.__name__.encode())), 0, 0
    for name in NAMES * 2:
        whole, _ = raw(name, path)
        changed = damage(rng, whole, raw(NAMES[rng.integers(len(NAMES))], path)[0])
        if changed != whole:
            path.write_bytes(changed)
            refused += refused_or_same(path, name)
            count += 1
    assert count > len(NAMES) and refused > 0.9 * count


# Forged headers


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 70)
    | st.sampled_from([2**31, 2**63, -(2**63), 10**40, 0.5, 1e308])
    | st.sampled_from(
        ["", "0x1p+40", "nan", "-0x1p+0", "data", "galois.5", "float32", "complex64", "odd", "Plaintext", "é"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


def places(tree, prefix=()):
    """The path of every part of a JSON text."""
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        yield (*prefix, key)
        yield from places(child, (*prefix, key))


def changed_at(tree, place, value, delete):
    tree = copy.deepcopy(tree)
    *parents, last = place
    node = tree
    for key in parents:
        node = node[key]
    if delete:
        del node[last]
    else:
        node[last] = value
    return tree


@settings(anything, max_examples=400)
@given(name=st.sampled_from(NAMES), data=st.data(), value=json_values, delete=st.booleans())
def test_a_changed_header_gives_a_well_formed_value_or_none(path, name, data, value, delete):
    """The checksums fit, as a forger would make them; what is loaded can be saved."""
    raw(name, path)
    path.write_bytes(RAW[name])
    tensors, header = contents(path)
    del header["sha256"]
    place = data.draw(st.sampled_from([*places(header)]))
    header = changed_at(header, place, value, delete)
    try:
        if not isinstance(header.get("tensors"), dict):
            raise TypeError("the tensors' checksums have gone")
        reseal(path, tensors, header)
    except TypeError:
        save_file(tensors, path, metadata={"fhejax": headers.seal(header)})
    try:
        got = fhe.load(path)
    except ValueError as error:
        assert str(error).startswith(f"load: {path}: ") and len(str(error)) < 1000
    else:
        fhe.save(path, got, allow_secret=True)
        assert_same(fhe.load(path), got)


@settings(anything, max_examples=200)
@given(name=st.sampled_from(NAMES), data=st.data(), value=json_values, delete=st.booleans())
def test_a_changed_entry_of_a_tensor(path, name, data, value, delete):
    whole, start = raw(name, path)
    header = json.loads(whole[8:start])
    place = data.draw(st.sampled_from([*places(header)]))
    text = json.dumps(changed_at(header, place, value, delete)).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + whole[start:])
    refused_or_same(path, name)


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "the header is no JSON text: Expecting value"),
        ("[" * 10**5, "the header is no JSON text"),
        ('{"a":' * 10**5, "the header is no JSON text"),
        ("[1]", "expected a JSON object"),
        ("{}", "header field 'format' is None"),
        ('{"format":1}', "its checksum does not fit"),
        ('{"format":1,"sha256":[]}', "its checksum does not fit"),
        ('{"format":1,"format":1}', "a name occurs twice"),
        ('{"format":' + "1" * 5000 + "}", "digits"),
        ('{"format":1,"kind":NaN}', "NaN is no number"),
        ('{"format":1,"kind":"\\ud800"}', "its checksum does not fit"),
    ],
)
def test_a_header_that_is_none(path, text, says):
    with_text(path, text)
    assert_refused(path, says)


def with_text(path, text):
    fhe.save(path, EVERY["ciphertext"])
    tensors, _ = contents(path)
    save_file(tensors, path, metadata={"fhejax": text})


def test_a_header_of_another_value(path):
    fhe.save(path, EVERY["ciphertext"])
    tensors, header = contents(path)
    for key, value in [("scale", "0x1.0p+41"), ("real", True), ("slots", 8)]:
        with_text(path, json.dumps(header | {key: value}))
        assert_refused(path, "the header is damaged")
    tensors["data"][0, 0, 0] ^= np.uint64(1)
    save_file(tensors, path, metadata={"fhejax": json.dumps(header)})
    assert_refused(path, "tensor 'data' is damaged")


def test_a_batch_of_another_shape(path):
    for name, shape in [("batch of plaintexts", [3, 2, 1, 16]), ("batch of plaintexts", [6, 1, 16])]:
        whole, start = raw(name, path)
        header = json.loads(whole[8:start])
        header["data"]["shape"] = shape
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + whole[start:])
        assert_refused(path, "its header says {'data': [2, 3, 1, 16]}")


def test_other_safetensors(path):
    save_file({"data": np.zeros(3)}, path)
    assert_refused(path, "not written by fhejax.save")
    save_file({"data": np.zeros(3)}, path, metadata={"format": "pt"})
    assert_refused(path, "not written by fhejax.save")


# Shapes and types that the checksums do not cover


def with_entry(path, name, **fields):
    """A file of one tensor that says something else of it."""
    fhe.save(path, EVERY[name])
    whole = path.read_bytes()
    start = 8 + struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8:start])
    (tensor,) = set(header) - {"__metadata__"}
    header[tensor] |= fields
    described = json.loads(header["__metadata__"]["fhejax"])
    del described["shapes"], described["sha256"]  # as in the first files
    header["__metadata__"]["fhejax"] = headers.seal(described)
    text = json.dumps(header).encode()
    size = header[tensor]["data_offsets"][1]
    path.write_bytes(struct.pack("<Q", len(text)) + text + whole[start:].ljust(size, b"\0")[:size])


@pytest.mark.parametrize("dtype, width", [("BF16", 2), ("F8_E4M3", 1), ("BOOL", 1), ("F64", 8), ("X9", 8), ("U32", 4)])
def test_other_types(path, dtype, width):
    size = 2 * 2 * 16 * width
    with_entry(path, "ciphertext", dtype=dtype, data_offsets=[0, size])
    assert_refused(path, "is of type")


@pytest.mark.parametrize(
    "name, shape",
    [
        *[("empty batch", (2**62, 0, 2, 2, 16)), ("empty batch", (0, 2**62, 2, 2, 16))],
        *[("ciphertext", (2**62, 2, 2, 16)), ("ciphertext", (*(1,) * 70, 2, 2, 16)), ("ciphertext", ())],
        *[("constant", ()), ("constant", (2**62,)), ("constant", (2**62, 0)), ("constant", (1,) * 70)],
        *[("numbers", (2**40, 7, 8)), ("numbers", (0, 7, 8)), ("transform", (7, 6, 2**60))],
    ],
)
def test_shapes_that_no_value_has(path, name, shape):
    with_entry(path, name, shape=shape)
    tracemalloc.start()
    assert_refused(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


# Memory and time


HOGS = {
    "lists": "[" + "[]," * 2**14 + "[]]",
    "objects": "[" + "{}," * 2**14 + "{}]",
    "short texts": "[" + '"ab",' * 2**14 + '""]',
    "numbers": "[" + "1.5," * 2**14 + "1]",
    "names": "{" + ",".join(f'"{i}":0' for i in range(2**14)) + "}",
    "moduli": '{"parameters":{"moduli":[' + "17," * 2**14 + "17]}}",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", HOGS)
@pytest.mark.parametrize("inside", [False, True])
def test_a_large_header_takes_little_more_than_itself(path, name, inside):
    """A list of two letters is an object of 56 bytes: there is a limit to the text, and so to what becomes of it."""
    text = HOGS[name]
    if inside:
        text = json.dumps({"__metadata__": {"fhejax": text}})
    path.write_bytes(struct.pack("<Q", len(text)) + text.encode())
    tracemalloc.start()
    assert_refused(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30 * len(text) and 30 * container.LARGEST_HEADER < 2**28


CHILD = """import resource, sys, fhejax as fhe
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, used + 2**26))
for path in sys.argv[1:]:
    try:
        fhe.load(path)
    except ValueError as error:
        assert "nable to allocate" not in str(error) and "MemoryError" not in str(error), error
    else:
        raise AssertionError(path)
print("refused")"""


@pytest.mark.slow
def test_nothing_is_allocated_that_the_file_has_not(tmp_path):
    """In a process that may take 64 MiB more: files of a few kilobytes that speak of far larger tensors."""
    paths = [tmp_path / str(i) for i in range(8)]
    shapes = [(2**20, 2, 2, 16), (2**40, 2, 2, 16), (2**58, 2, 2, 16), (2**62, 2, 2, 16)]
    for path, shape in zip(paths[:4], shapes, strict=True):
        with_entry(path, "ciphertext", shape=shape)
    for path, shape in zip(paths[4:], shapes, strict=True):
        size = min(np.prod([int(n) for n in shape], dtype=object) * 8, 2**63 - 1)
        fhe.save(path, EVERY["ciphertext"])
        whole = path.read_bytes()
        start = 8 + struct.unpack("<Q", whole[:8])[0]
        header = json.loads(whole[8:start])
        header["data"] |= {"shape": shape, "data_offsets": [0, size]}
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + whole[start:])
    done = subprocess.run([sys.executable, "-c", CHILD, *paths], check=True, capture_output=True, text=True)
    assert done.stdout == "refused\n"


# What is no file


def test_what_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fhe.load(tmp_path / "nowhere")
    with pytest.raises(IsADirectoryError):
        fhe.load(tmp_path)
    (tmp_path / "empty").touch()
    assert_refused(tmp_path / "empty", "the file has 0 bytes, too few for a safetensors file")
    os.mkfifo(tmp_path / "pipe")
    assert_refused(tmp_path / "pipe", "not a file, but a device or a pipe")
    assert_refused("/dev/zero", "not a file, but a device or a pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="loop"):
        fhe.load(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        fhe.load(tmp_path / "dangling")


def test_a_link_to_a_file_is_as_good_as_the_file(tmp_path):
    fhe.save(tmp_path / "value", EVERY["ciphertext"])
    (tmp_path / "link").symlink_to(tmp_path / "value")
    assert_same(fhe.load(tmp_path / "link"), EVERY["ciphertext"])
    fhe.save(tmp_path / "link", EVERY["plaintext"])
    assert_same(fhe.load(tmp_path / "value"), EVERY["ciphertext"])


def test_a_place_where_no_file_can_be(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fhe.save(tmp_path / "nowhere" / "value", EVERY["plaintext"])
    with pytest.raises(IsADirectoryError):
        fhe.save(tmp_path, EVERY["plaintext"])
    assert not list(tmp_path.iterdir())
