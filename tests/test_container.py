"""The format of files: the library of that name reads what is written here and the other way round, and no piece is
in memory twice."""

import json
import math
import os
import struct
import subprocess
import sys
import tracemalloc

import jax
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from fhejax.serialization import container

DTYPES = {"U64": np.uint64, "F64": np.float64, "U32": np.uint32}
quick = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6).filter(lambda name: name != "__metadata__")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tensors.safetensors"


def array(shape, dtype, seed=0):
    return np.random.default_rng(seed).integers(0, 2**32, shape).astype(dtype)


def written(path, tensors, metadata):
    with open(path, "wb") as file:
        container.write(file, tensors, metadata)


tensors_of = st.dictionaries(names, st.builds(array, shapes, st.sampled_from([*DTYPES.values()])), max_size=4)


@quick
@given(tensors=tensors_of, metadata=st.dictionaries(names, names, max_size=3))
def test_the_library_reads_what_is_written(path, tensors, metadata):
    written(path, tensors, metadata)
    with safetensors.safe_open(path, framework="numpy") as file:
        assert (file.metadata() or {}) == metadata and sorted(file.keys()) == sorted(tensors)
        for name, expected in tensors.items():
            np.testing.assert_array_equal(file.get_tensor(name), expected, strict=True)


@quick
@given(tensors=tensors_of, metadata=st.dictionaries(names, names, max_size=3))
def test_what_the_library_writes_is_read(path, tensors, metadata):
    assume(tensors or metadata)  # of nothing, its version 0.8.0 writes no JSON text
    safetensors.numpy.save_file(tensors, path, metadata)
    with open(path, "rb") as file:
        found = container.TensorFile(file)
        assert found.metadata == metadata and sorted(found.entries) == sorted(tensors)
        for name, expected in tensors.items():
            np.testing.assert_array_equal(found.read(name), expected, strict=True)


def test_tensors_are_aligned(path):
    tensors = {"a": array((3,), np.uint32), "b": array((5,), np.uint64), "c": array((1,), np.uint32)}
    written(path, tensors, {"x": "y"})
    with open(path, "rb") as file:
        found = container.TensorFile(file)
        starts = {name: (found._start + entry.start) % tensors[name].itemsize for name, entry in found.entries.items()}
    assert not any(starts.values())


# Memory


@pytest.mark.parametrize("x64", [False, True])
def test_jax_takes_over_what_is_read(path, x64):
    written(path, {"a": array((1000,), np.uint64)}, {})
    with open(path, "rb") as file, jax.enable_x64(True):
        read = container.TensorFile(file).read("a")
        assert jax.device_put(read).unsafe_buffer_pointer() == read.ctypes.data


@pytest.mark.parametrize("of_jax", [False, True])
def test_an_array_on_the_host_is_not_copied(of_jax):
    with jax.enable_x64(True):
        held = array((3, 4), np.uint64)
        held = jax.numpy.asarray(held) if of_jax else held
    (piece,) = container.pieces(held)
    assert piece.ctypes.data == (held.unsafe_buffer_pointer() if of_jax else held.ctypes.data)


VIEWS = {
    "broadcast": lambda value: np.broadcast_to(value[:1], value.shape),
    "fortran": np.asfortranarray,
    "strided": lambda value: np.repeat(value, 2, axis=0)[::2],
    "transposed": lambda value: value.swapaxes(-1, -2),
}


@pytest.mark.parametrize("chunk", [100, 450, 1700])
@pytest.mark.parametrize("kind", VIEWS)
def test_views_come_in_pieces(monkeypatch, kind, chunk):
    view = VIEWS[kind](array((3, 4, 5, 5), np.uint64))
    monkeypatch.setattr(container, "_CHUNK", chunk)
    found = [*container.pieces(view)]
    assert all(piece.flags.c_contiguous and piece.shape[-2:] == (5, 5) for piece in found)
    least = 800 if kind in ("broadcast", "strided") else 200  # what is contiguous already stays whole
    assert max(piece.nbytes for piece in found) <= max(least, chunk)
    np.testing.assert_array_equal(np.concatenate(found, axis=None).reshape(view.shape), view, strict=True)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("kind", [jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit])
def test_an_array_on_several_devices(kind, x64):
    value = array((3, 4, 2, 5), np.uint64)
    mesh = jax.make_mesh((2,), ("part",), axis_types=(kind,), devices=jax.devices()[:2])
    with jax.enable_x64(True):
        spread = jax.device_put(value, jax.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "part")))
    with jax.enable_x64(x64):
        (piece,) = container.pieces(spread)
    np.testing.assert_array_equal(piece, value, strict=True)


def test_pieces_of_a_view_take_no_memory_of_its_size(path):
    view = np.broadcast_to(array((1, 64, 1024), np.uint64), (512, 64, 1024))  # 256 MiB
    tracemalloc.start()
    written(path, {"a": view}, {})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size > view.nbytes and peak < 3 * container._CHUNK


CHILD = """import resource, sys
import jax, numpy as np, fhejax as fhe
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
path, doing = sys.argv[1:]
params = fhe.Parameters.for_depth(1, log_degree=13, security=None)
with jax.enable_x64(True):
    data = jax.numpy.zeros((1024, 2, 2, params.degree), np.uint64) if doing == "save" else None  # 256 MiB
before = peak()
if doing == "save":
    fhe.save(path, fhe.Ciphertext(data, params, 1, params.scale_at(1), 4, True))
else:
    fhe.load(path).data.block_until_ready()
print(peak() - before)"""


@pytest.mark.slow
def test_files_are_streamed(path):
    """The growth of the process at its largest, in bytes: nothing for saving, the value itself for loading."""
    size, slack = 2**28, 2**25
    for doing, most in (("save", slack), ("load", size + slack)):
        done = subprocess.run([sys.executable, "-c", CHILD, path, doing], check=True, capture_output=True, text=True)
        assert int(done.stdout) < most, doing
    assert size < path.stat().st_size < size + slack


# Refusals


def plain_file(path, text, size):
    text = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(size))


def entry(shape=(2,), start=0, stop=16, dtype="U64"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


REFUSED = [
    (b"", 0, "no JSON text"),
    (b"\xff\xfe{}", 0, "codec can't decode"),
    ("[]", 0, "expected a JSON object"),
    ("{}", 1, "the tensors take 0 bytes, and the file has 1 behind its header"),
    ('{"a":1,"a":1}', 0, "a name occurs twice"),
    ('{"__metadata__":{"a":"b","a":"b"}}', 0, "a name occurs twice"),
    ('{"__metadata__":{"a":1}}', 0, "expected an object of texts"),
    ('{"__metadata__":[]}', 0, "expected an object of texts"),
    ('{"a":NaN}', 0, "NaN is no number"),
    ('{"a":-Infinity}', 0, "-Infinity is no number"),
    ('{"a":1e400}', 0, "tensor 'a' is inf"),
    ("[" * 10**5, 0, "no JSON text"),
    ('{"a":' * 10**5, 0, "no JSON text"),
    ('{"a":' + "9" * 5000 + "}", 0, "no JSON text"),
    ('{"\\ud800":1}', 0, "is 1; expected its dtype"),
    ({"a": None}, 0, "tensor 'a' is None; expected its dtype, shape and data_offsets"),
    ({"a": {"dtype": "U64", "shape": []}}, 0, "expected its dtype, shape and data_offsets"),
    ({"a": entry() | {"more": 1}}, 16, "expected its dtype, shape and data_offsets"),
    ({"a": entry(dtype=8)}, 16, "is of type 8"),
    ({"a": entry(shape=None)}, 16, "has shape None"),
    ({"a": entry(shape=[True, 2])}, 16, "has shape [True, 2]"),
    ({"a": entry(shape=[2.0])}, 16, "has shape [2.0]"),
    ({"a": entry(shape=[-2])}, 16, "has shape [-2]"),
    ({"a": entry(shape=[2**63])}, 16, "has shape [9223372036854775808]"),
    ({"a": entry(shape=[1] * 33)}, 8, "expected up to 32 integers"),
    ({"a": entry(shape=[3])}, 16, "has 16 bytes; its shape [3] takes 24"),
    ({"a": entry(shape=[2**61])}, 16, "takes 18446744073709551616"),
    ({"a": entry(shape=[2**62, 2**62, 2**62])}, 16, "has 16 bytes"),
    ({"a": entry(start=16, stop=0)}, 16, "has data_offsets [16, 0]"),
    ({"a": entry(start=-16, stop=0)}, 16, "has data_offsets [-16, 0]"),
    ({"a": entry(start=0, stop=16.0)}, 16, "has data_offsets [0, 16.0]"),
    ({"a": entry(start=2**64, stop=2**64 + 16)}, 16, "data_offsets"),
    ({"a": entry() | {"data_offsets": [0]}}, 16, "has data_offsets [0]"),
    ({"a": entry() | {"data_offsets": "01"}}, 16, "has data_offsets '01'"),
    ({"a": entry(start=8, stop=24)}, 24, "begins at byte 8; expected 0"),
    ({"a": entry()}, 8, "the tensors take 16 bytes, and the file has 8"),
    ({"a": entry()}, 24, "the tensors take 16 bytes, and the file has 24"),
    ({"a": entry(), "b": entry()}, 16, "tensor 'b' begins at byte 0; expected 16"),
    ({"a": entry(), "b": entry(start=8, stop=24)}, 24, "tensor 'b' begins at byte 8; expected 16"),
    ({"a": entry(), "b": entry(start=24, stop=40)}, 40, "tensor 'b' begins at byte 24; expected 16"),
    ({"a": entry(shape=(0,), start=5, stop=5)}, 0, "begins at byte 5"),
]


def opened(path):
    with open(path, "rb") as file:
        return container.TensorFile(file)


@pytest.mark.parametrize("header, size, says", REFUSED, ids=range(len(REFUSED)))
def test_refuses(path, header, size, says):
    plain_file(path, json.dumps(header) if isinstance(header, dict) else header, size)
    with pytest.raises(ValueError) as caught:
        opened(path)
    assert says in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3", "X9", "u64", "U64 "])
def test_refuses_to_read_other_types(path, dtype):
    plain_file(path, json.dumps({"a": entry(dtype=dtype)}), 16)
    with open(path, "rb") as file:
        found = container.TensorFile(file)
        with pytest.raises(ValueError, match="fhejax writes U64, F64, U32"):
            found.read("a")


@pytest.mark.parametrize("shape", [(2**62, 0), (0, 2**62), (2**62, 2**62, 0)])
def test_refuses_to_read_shapes_that_no_array_has(path, shape):
    plain_file(path, json.dumps({"a": entry(shape, 0, 0)}), 0)
    with open(path, "rb") as file:
        found = container.TensorFile(file)
        with pytest.raises(ValueError):
            found.read("a")


@pytest.mark.parametrize("length", [0, 1, 7])
def test_refuses_a_file_without_a_header(path, length):
    path.write_bytes(bytes(length))
    with pytest.raises(ValueError, match=f"the file has {length} bytes, too few"):
        opened(path)


@pytest.mark.parametrize("length", [3, 2**23 + 1, 2**31, 2**63, 2**64 - 1])
def test_refuses_a_header_longer_than_the_file(path, length):
    path.write_bytes(struct.pack("<Q", length) + b"{}")
    with pytest.raises(ValueError, match="the file says that its header has"):
        opened(path)


def test_refuses_a_header_longer_than_any(path):
    """A sparse file, of a size that would let its header through."""
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", container.LARGEST_HEADER + 1))
        file.truncate(2**34)
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"expected at most {container.LARGEST_HEADER}"):
        opened(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_no_header_is_written_that_would_be_refused(path, monkeypatch):
    monkeypatch.setattr(container, "LARGEST_HEADER", 200)
    with pytest.raises(ValueError, match="save it in several files"):
        written(path, {str(i): array((1,), np.uint64) for i in range(9)}, {})


def test_refuses_a_file_that_is_cut_short_while_it_is_read(path):
    written(path, {"a": array((1000,), np.uint64)}, {})
    with open(path, "rb") as file:
        found = container.TensorFile(file)
        os.truncate(path, path.stat().st_size - 100)
        with pytest.raises(ValueError, match="cut short while it was read"):
            found.read("a")


def test_a_watcher_hears_of_every_byte(path, monkeypatch):
    class Watcher:
        total = 0

        def update(self, count):
            self.total += count

    monkeypatch.setattr(container, "_CHUNK", 1000)
    value, watchers = array((7, 100), np.uint64), (Watcher(), Watcher())
    with open(path, "wb") as file:
        container.write(file, {"a": value}, {}, watchers[0])
    with open(path, "rb") as file:
        container.TensorFile(file).read("a", watchers[1])
    assert [watcher.total for watcher in watchers] == [math.prod(value.shape) * 8] * 2
