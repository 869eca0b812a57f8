"""Saving and loading."""

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO

from fhejax import _compat
from fhejax.errors import MissingKeyError, ParametersMismatchError
from fhejax.planning.plan import KeyPlan
from fhejax.report.progress import meter
from fhejax.scheme.values import EvaluationKeys, SecretKey
from fhejax.serialization import container, evaluation_keys, headers
from fhejax.serialization.codec import refuse
from fhejax.serialization.source import Source
from fhejax.serialization.table import KINDS, by_name


@_compat.x64
def save(path: str | os.PathLike[str], value: object, allow_secret: bool = False, *, progress: bool = False) -> None:
    """Writes a value to a file.

    The file appears whole or not at all, in the place of an older one. Equal values make equal files, byte by byte.
    Arrays in the memory of the CPU are written without a copy, others are brought there one by one.

    Args:
      path: where; by custom it ends in `.safetensors`.
      value: a Plaintext, Ciphertext, PublicKey, SwitchingKey, EvaluationKeys, SecretKey, Parameters, Polynomial,
        LinearTransform, KeyPlan, EncryptedArray, ArrayMap or BootstrappingKeys. A batch is one value. Left out are the
        report of a fitted polynomial and the keys of an array.
      allow_secret: whether a SecretKey may be written. The file is not encrypted; only its owner may read it.
      progress: whether to show a progress meter.

    Raises:
      TypeError: another kind of value, a SecretKey without `allow_secret=True`, or residues that are not `uint64`.
        Simulated values are among the others: their file would show to whoever gets it what a ciphertext hides.
      ValueError: a value whose arrays do not fit its level and parameters, or numbers that are not finite.
      OSError: the file cannot be written.
      ImportError: a progress meter without tqdm.

    Example:
      >>> import os, tempfile
      >>> import fhejax as fhe
      >>> path = os.path.join(tempfile.mkdtemp(), "message.safetensors")
      >>> fhe.save(path, fhe.encode([1.0, 2.0], fhe.Parameters.for_depth(1)))
      >>> fhe.load(path)
      Plaintext(level=1, scale=2^40.00, slots=4096 real, shape=(), N=2^13, 128.0 KiB)
    """
    _check_kind(value, allow_secret)
    try:
        write, _ = KINDS[type(value)]
        header, tensors = write(value)
        header = header | {
            "tensors": {name: tensor.checksum() for name, tensor in tensors.items()},
            "shapes": {name: tensor.data.shape for name, tensor in tensors.items()},
        }
        arrays, metadata = {name: tensor.data for name, tensor in tensors.items()}, {"fhejax": headers.seal(header)}
        with meter("save", progress, sum(array.nbytes for array in arrays.values()), "saving", "B") as watcher:
            with _replacing(os.path.abspath(path), private=isinstance(value, SecretKey)) as file:
                container.write(file, arrays, metadata, watcher)
    except ValueError as error:
        raise ValueError(f"save: {error}") from error


@_compat.x64
def load(path: str | os.PathLike[str], *, plan: KeyPlan | None = None, progress: bool = False) -> Any:
    """Reads what `save` wrote.

    Args:
      path: a file.
      plan: of a file of EvaluationKeys, which to read, from `fhejax.plan_keys`: the others are passed over, and each is
        cut down to the level at which the plan needs it. They are those that `plan.generate` makes, of equal type, so
        that a program that was compiled or exported for these takes them. All keys if None.
      progress: whether to show a progress meter.

    Returns:
      The value, its type equal to that of the one saved (parameters, level, scale), so that nothing compiles anew. The
      coefficients of a Polynomial are an array of NumPy.

    Raises:
      ValueError: the file is damaged, was not written by fhejax, is of another format version, or is to be read by a
        plan and holds something else than EvaluationKeys.
      MissingKeyError: the plan needs a key that the file has not, or has for lower levels only.
      ParametersMismatchError: the plan is for other parameters.
      TypeError: the plan is none.
      OSError: it cannot be opened.
      ImportError: a progress meter without tqdm.
    """
    if plan is not None and not isinstance(plan, KeyPlan):
        raise TypeError(f"load: got {type(plan).__name__} for the plan; type plan=fhejax.plan_keys(function, x)")
    path = os.fspath(path)
    with open(path, "rb", opener=_open_at_once) as file:
        try:
            return _read(file, plan, progress)
        except (MissingKeyError, ParametersMismatchError) as error:
            raise type(error)(f"load: {path}: {error}") from error
        except (ValueError, ArithmeticError, RecursionError, MemoryError) as error:
            raise ValueError(f"load: {path}: {error or type(error).__name__}") from error


def _check_kind(value: object, allow_secret: bool) -> None:
    kind = type(value)
    if kind not in KINDS:
        refuse(value, ", ".join(by_name()))
    if kind is SecretKey and not allow_secret:
        raise TypeError(
            "save: a SecretKey decrypts everything, and its file is not encrypted; if that is meant, "
            "type fhejax.save(path, secret_key, allow_secret=True)"
        )


@contextlib.contextmanager
def _replacing(path: str, private: bool) -> Iterator[BinaryIO]:
    """A new file, which takes the place of an older one when all of it has been written."""
    directory, name = os.path.split(path)
    # Nobody else can look into this directory, so that a secret is at no time readable.
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=directory) as scratch:
        whole = os.path.join(scratch, name)
        with open(os.open(whole, os.O_WRONLY | os.O_CREAT, 0o600 if private else 0o666), "wb") as file:
            yield file
        os.replace(whole, path)


def _read(file: BinaryIO, plan: KeyPlan | None, progress: bool) -> Any:
    source = Source(container.TensorFile(file))
    name, kinds = headers.field(source.header, "kind", str), by_name()
    if name not in kinds:
        raise ValueError(f"unknown kind of value {name!r:.60}; there are {', '.join(kinds)}")
    kind = kinds[name]
    if plan is None:
        read, names = KINDS[kind][1], source.names
    elif kind is EvaluationKeys:
        wanted, names = evaluation_keys.planned(source, plan)
        read = functools.partial(evaluation_keys.read, wanted=wanted)
    else:
        raise ValueError(f"the file holds a {name}, and a plan is for EvaluationKeys; type fhejax.load(path)")
    with meter("load", progress, source.size(names), "loading", "B") as source.watcher:
        return read(source)


def _open_at_once(path: str, flags: int) -> int:
    """Opens a pipe without waiting for its other end, so that it can be refused."""
    return os.open(path, flags | os.O_NONBLOCK)
