"""Files in the format safetensors, written and read piece by piece.

Eight bytes hold the length of a header; the header is JSON text, with the type, the shape and the place of each tensor;
behind it lie the tensors, one after the other. The library of that name maps the files that it reads, so that a file
which is cut short at that moment ends the process, and holds what it reads twice. Here a tensor is in memory once, in
the array that JAX takes over; and no more is allocated than there are bytes in the file.

Source: https://github.com/huggingface/safetensors, section "Format".
"""

import json
import math
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import jax
import numpy as np

from fhejax import _compat
from fhejax.serialization.headers import parse

# JSON text becomes objects of up to some 25 times its size; no keys that a machine can hold need as much.
LARGEST_HEADER = 8 * 2**20

_TYPES = {"U64": np.dtype(np.uint64), "F64": np.dtype(np.float64), "U32": np.dtype(np.uint32)}
_CODES = {dtype: code for code, dtype in _TYPES.items()}
_MOST_AXES = 32
_CHUNK = 16 * 2**20  # bytes written or read at a time
_ALIGNMENT = 64  # what JAX asks of memory that it takes over without a copy


class Entry(NamedTuple):
    """Where a tensor lies in a file: its first byte and the one behind it, counted from the end of the header."""

    code: str  # its type, as the format names it
    shape: tuple[int, ...]
    start: int
    stop: int


def write(file: BinaryIO, tensors: Mapping[str, Any], metadata: Mapping[str, str], watcher: Any = None) -> None:
    """Writes arrays of NumPy or JAX, `uint64`, `float64` or `uint32`; a watcher gets `update(bytes)`.

    Raises ValueError if there are so many tensors that `TensorFile` would refuse the header.
    """
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))  # so that each is aligned
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    start = 0
    for name in names:
        array = tensors[name]
        stop = start + array.nbytes
        header[name] = {"dtype": _CODES[array.dtype], "shape": [*array.shape], "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LARGEST_HEADER:
        raise ValueError(f"the header takes {len(text)} bytes, of at most {LARGEST_HEADER}: save it in several files")
    file.write(struct.pack("<Q", len(text)) + text)
    for name in names:
        for piece in pieces(tensors[name]):
            for chunk in _chunks(piece):
                file.write(chunk)
                _report(watcher, chunk)


def pieces(array: Any) -> Iterator[np.ndarray]:
    """The elements of an array in their order, in contiguous arrays of NumPy, of which one is in memory at a time.

    What is contiguous on the host already is one piece, without a copy; other pieces hold the last two axes at least.
    """
    if isinstance(array, jax.Array):
        array = _on_host(array)
    if array.flags.c_contiguous:
        yield array
    elif array.ndim <= 2 or array.nbytes <= _CHUNK:
        yield np.ascontiguousarray(array)
    elif rows := _CHUNK // (array.nbytes // len(array)):
        for first in range(0, len(array), rows):
            yield np.ascontiguousarray(array[first : first + rows])
    else:
        for row in array:
            yield from pieces(row)


class TensorFile:
    """An open file: its metadata and its tensors by their names, and their contents as they are asked for."""

    def __init__(self, file: BinaryIO) -> None:
        """Reads the header; ValueError for no such file, or tensors that do not fill it without gaps and overlaps."""
        information = os.fstat(file.fileno())
        if not stat.S_ISREG(information.st_mode):
            raise ValueError("not a file, but a device or a pipe")
        text = _header_text(file, information.st_size)
        self._file, self._start = file, 8 + len(text)
        header = parse(text.decode())
        self.metadata = _metadata(header.pop("__metadata__", {}))
        self.entries = {name: _entry(name, entry) for name, entry in header.items()}
        _check_places(self.entries, information.st_size - self._start)

    def read(self, name: str, watcher: Any = None) -> np.ndarray:
        """The contents of a tensor, in memory of its own that JAX can take over; a watcher gets `update(bytes)`."""
        entry = self.entries[name]
        array = _aligned(entry.shape, dtype_of(name, entry))
        self._file.seek(self._start + entry.start)
        for chunk in _chunks(array):
            if self._file.readinto(chunk) != len(chunk):  # pyright: ignore[reportAttributeAccessIssue]
                raise ValueError(f"the file ends inside tensor {name!r:.60}: it was cut short while it was read")
            _report(watcher, chunk)
        return array


def dtype_of(name: str, entry: Entry) -> np.dtype:
    """The type of a tensor; ValueError if it is none that `write` writes."""
    if entry.code not in _TYPES:
        raise ValueError(f"tensor {name!r:.60} is of type {entry.code!r:.60}; fhejax writes {', '.join(_TYPES)}")
    return _TYPES[entry.code]


def _header_text(file: BinaryIO, size: int) -> bytes:
    head = file.read(8)
    if len(head) < 8:
        raise ValueError(f"the file has {size} bytes, too few for a safetensors file")
    (length,) = struct.unpack("<Q", head)
    if length > min(size - 8, LARGEST_HEADER):
        raise ValueError(
            f"the file says that its header has {length} bytes; expected at most {min(size - 8, LARGEST_HEADER)}: it "
            "is cut short, or no safetensors file"
        )
    text = file.read(length)
    if len(text) < length:
        raise ValueError("the file ends inside its header: it was cut short while it was read")
    return text


def _metadata(texts: Any) -> dict[str, str]:
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError(f"the metadata is {texts!r:.60}; expected an object of texts")
    return texts


def _entry(name: str, entry: Any) -> Entry:
    """An entry whose numbers fit each other."""
    if not isinstance(entry, dict) or sorted(entry) != ["data_offsets", "dtype", "shape"]:
        raise ValueError(f"tensor {name!r:.60} is {entry!r:.80}; expected its dtype, shape and data_offsets")
    code, shape, places = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str):
        raise ValueError(f"tensor {name!r:.60} is of type {code!r:.60}; expected a text")
    if not _are_sizes(shape, _MOST_AXES):
        raise ValueError(
            f"tensor {name!r:.60} has shape {shape!r:.80}; expected up to {_MOST_AXES} integers from 0 to 2^63 - 1"
        )
    if not _are_sizes(places, 2) or len(places) != 2 or places[0] > places[1]:
        raise ValueError(f"tensor {name!r:.60} has data_offsets {places!r:.80}; expected its first and last byte")
    found = Entry(code, tuple(shape), *places)
    if code in _TYPES and found.stop - found.start != math.prod(shape) * _TYPES[code].itemsize:
        raise ValueError(
            f"tensor {name!r:.60} has {found.stop - found.start} bytes; its shape {shape!r:.80} takes "
            f"{math.prod(shape) * _TYPES[code].itemsize}"
        )
    return found


def _are_sizes(numbers: Any, most: int) -> bool:
    return (
        isinstance(numbers, list) and len(numbers) <= most and all(type(x) is int and 0 <= x < 2**63 for x in numbers)
    )


def _check_places(entries: Mapping[str, Entry], size: int) -> None:
    """Refuses tensors that leave gaps or lie upon each other."""
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start != end:
            raise ValueError(f"tensor {name!r:.60} begins at byte {entry.start}; expected {end}, the end of another")
        end = entry.stop
    if end != size:
        raise ValueError(f"the tensors take {end} bytes, and the file has {size} behind its header")


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Memory of which JAX on a CPU makes an array without a copy; nobody else knows of it."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + size].view(dtype).reshape(shape)


def _chunks(array: np.ndarray) -> Iterator[memoryview]:
    """The memory of a contiguous array."""
    memory = array.reshape(-1).view(np.uint8).data
    for start in range(0, len(memory), _CHUNK):
        yield memory[start : start + _CHUNK]


def _report(watcher: Any, chunk: memoryview) -> None:
    if watcher is not None:
        watcher.update(len(chunk))


@_compat.x64
def _on_host(array: jax.Array) -> np.ndarray:
    """An array of JAX as one of NumPy, which is a view on a CPU.

    From elsewhere it is copied through a CPU: of what NumPy gets directly, JAX keeps the copy as long as the array.
    """
    devices = array.sharding.device_set
    if len(devices) > 1 or any(device.platform != "cpu" for device in devices):
        try:
            array = jax.device_put(array, jax.local_devices(backend="cpu")[0])
        except RuntimeError:  # JAX was told to do without CPUs
            pass
    return np.asarray(array)
