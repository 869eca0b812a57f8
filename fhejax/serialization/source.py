"""What goes into a file and comes out of it: a header, and tensors whose contents are checked on both ways."""

import copy
import zlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import numpy as np

from fhejax import _compat
from fhejax.serialization.container import Entry, TensorFile, pieces
from fhejax.serialization.headers import field, unseal


class Tensor(NamedTuple):
    """A tensor to be written, and what refuses its contents, of two axes at least, or all."""

    data: Any  # uint64, float64 or uint32, of NumPy or JAX
    check: Callable[[np.ndarray], None]

    def checksum(self) -> int:
        """The CRC-32 of its bytes, all of them checked."""
        checksum = 0
        for piece in pieces(self.data):
            self.check(piece)
            checksum = zlib.crc32(piece.data, checksum)
        return checksum


class Written(NamedTuple):
    """A value to be written: its header, but for the checksums, and its tensors by their names."""

    header: dict[str, Any]
    tensors: dict[str, Tensor]


class Source:
    """A file as the functions that read values see it: its header, and the names of its tensors, sorted.

    A `watcher` gets `update(bytes)` as tensors are read.
    """

    def __init__(self, file: TensorFile) -> None:
        """Reads the header of fhejax; ValueError if there is none, or one that does not fit the file."""
        if "fhejax" not in file.metadata:
            raise ValueError("not written by fhejax.save: there is no metadata named 'fhejax'")
        self._file, self.header, self.watcher = file, unseal(file.metadata["fhejax"]), None
        self._prefix, self._checksums = "", field(self.header, "tensors", dict)
        self.names = sorted(self._checksums)
        if self.names != sorted(file.entries):
            raise ValueError(
                f"the file holds tensors {sorted(file.entries)!r:.200}; its header says {self.names!r:.200}"
            )
        shapes = {name: [*entry.shape] for name, entry in file.entries.items()}
        # The first files had none: the shape of a batch was in no checksum.
        if (said := self.header.get("shapes", shapes)) != shapes:
            raise ValueError(f"the file holds tensors of shapes {shapes!r:.200}; its header says {said!r:.200}")

    def part(self, prefix: str, others: Iterable[str] = (), header: dict[str, Any] | None = None) -> "Source":
        """Those tensors whose names begin with a prefix but with none of the others, as a file without the prefix.

        Its header is that of the file if none is given.
        """
        part, left_out = copy.copy(self), tuple(others)
        part._prefix = self._prefix + prefix
        part.header = self.header if header is None else header
        chosen = [name for name in self.names if name.startswith(prefix) and not name.startswith(left_out)]
        part.names = [name.removeprefix(prefix) for name in chosen]
        return part

    def expect(self, *names: str) -> None:
        """Refuses a file of other tensors."""
        if self.names != sorted(names):
            raise ValueError(f"a {self.header['kind']} with tensors {self.names!r:.200}; expected {sorted(names)}")

    def size(self, names: Iterable[str]) -> int:
        """How many bytes these tensors take."""
        entries = [self._file.entries[self._prefix + name] for name in names]
        return sum(entry.stop - entry.start for entry in entries)

    def entry(self, name: str) -> Entry:
        """The type and the shape of a tensor, without its contents."""
        return self._file.entries[self._prefix + name]

    def read(self, name: str) -> np.ndarray:
        """The contents of a tensor; ValueError if they are damaged."""
        tensor = self._file.read(self._prefix + name, self.watcher)
        if zlib.crc32(tensor.data) != field(self._checksums, self._prefix + name, int):
            raise ValueError(f"tensor {name!r:.60} is damaged: its checksum does not fit")
        return tensor


def check_array(name: str, data: Any) -> Any:
    """An array, if it holds elements; TypeError if it is none, or traced."""
    if not isinstance(data, (jax.Array, np.ndarray)) or _compat.is_traced(data):
        raise TypeError(f"save: tensor {name!r} is {data!r:.80}, not an array; a program being traced has none yet")
    return data


def on_device(array: np.ndarray) -> jax.Array:
    """An array of JAX, on a CPU in the same memory. It must be in nobody else's hands."""
    return jax.device_put(array)
