"""Files of values, and export of programs that take them.

A file is safetensors: the residues as `uint64` tensors, the masks' seeds of seeded keys as `uint32` ones, the
coefficients of polynomials as `float64` ones, whatever their type; and under "fhejax" in its metadata the header (see
`fhejax.headers`), with a CRC-32 of each tensor. Loading trusts nothing: whatever a file holds, the result is a
well-formed value or a ValueError. That does not prove who made it: for that, sign the file.
"""

import functools
import os
import stat
import tempfile
import zlib
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from fhejax import _compat, headers, native
from fhejax.parameters import Parameters
from fhejax.polynomials.checks import checked_parity
from fhejax.polynomials.polynomial import Polynomial
from fhejax.values import Ciphertext, EvaluationKeys, Plaintext, PublicKey, SecretKey, SwitchingKey

_SEED = ".mask_seed"  # behind the name of a key's tensor
_TYPES = {kind.__name__: kind for kind in (Plaintext, Ciphertext, PublicKey, SwitchingKey, EvaluationKeys, SecretKey)}
_KINDS = (*_TYPES, "Parameters", "Polynomial")


def save(path: str | os.PathLike[str], value: object, allow_secret: bool = False) -> None:
    """Writes a value to a file.

    The file appears whole or not at all, in the place of an older one.

    Args:
      path: where; by custom it ends in `.safetensors`.
      value: a Plaintext, Ciphertext, PublicKey, SwitchingKey, EvaluationKeys, SecretKey, Parameters or Polynomial. A
        batch is one value. The report of a fitted polynomial is left out.
      allow_secret: whether a SecretKey may be written. The file is not encrypted; only its owner may read it.

    Raises:
      TypeError: another kind of value, a SecretKey without `allow_secret=True`, or residues that are not `uint64`.
      ValueError: a value whose arrays do not fit its level and parameters, or coefficients that are not finite.
      OSError: the file cannot be written.

    Example:
      >>> import os, tempfile
      >>> import fhejax as fhe
      >>> path = os.path.join(tempfile.mkdtemp(), "message.safetensors")
      >>> fhe.save(path, fhe.encode([1.0, 2.0], fhe.Parameters.for_depth(1)))
      >>> fhe.load(path)
      Plaintext(level=1, scale=2^40.00, slots=4096 real, shape=(), N=2^13, 128.0 KiB)
    """
    kind = type(value)
    if kind not in (*_TYPES.values(), Parameters, Polynomial):
        raise TypeError(f"save: got {kind.__name__}; a file holds one of {', '.join(_KINDS)}")
    if kind is SecretKey and not allow_secret:
        raise TypeError(
            "save: a SecretKey decrypts everything, and its file is not encrypted; if that is meant, "
            "type fhejax.save(path, secret_key, allow_secret=True)"
        )
    if isinstance(value, Polynomial):
        tensors = {"coefficients": _coefficients(value)}
    else:
        tensors = {name: array for key, part in _parts(value).items() for name, array in _arrays(key, part).items()}
    header = _describe(value) | {"tensors": {name: zlib.crc32(tensor.data) for name, tensor in tensors.items()}}
    _write(os.path.abspath(path), tensors, {"fhejax": headers.seal(header)}, private=kind is SecretKey)


@_compat.x64
def load(path: str | os.PathLike[str]) -> Any:
    """Reads what `save` wrote.

    Args:
      path: a file.

    Returns:
      The value, its type equal to that of the one saved (parameters, level, scale), so that nothing compiles anew.

    Raises:
      ValueError: the file is damaged, was not written by fhejax, or is of another format version.
      OSError: it cannot be opened.
    """
    path = os.fspath(path)
    with open(path, "rb"):  # raises Python's own errors, which name the path
        pass
    try:
        with safe_open(path, framework="numpy") as file:
            return _read(file)
    except (ValueError, ArithmeticError, RecursionError, MemoryError, SafetensorError) as error:
        raise ValueError(f"load: {path}: {error or type(error).__name__}") from error


def export_checks() -> list[jax.export.DisabledSafetyCheck]:
    """Lets `jax.export` export programs that contain kernels of fhejax.

    JAX refuses custom calls whose makers promise no compatibility. fhejax promises: a kernel that changes its meaning
    changes its name.

    A program that encodes arrays among its arguments carries a check for checkify, which JAX cannot write; leave it out
    by `dataclasses.replace(exported, unordered_effects=())`.

    Returns:
      What `jax.export.export` takes as `disabled_checks`: one check a kernel; an empty list where none is loaded.

    Example:
      >>> import jax
      >>> import fhejax as fhe
      >>> export = jax.export.export(jax.jit(fhe.negate), disabled_checks=fhe.export_checks())
    """
    extension = native.cpu_extension()
    names = sorted(extension.registrations()) if extension else []
    return [jax.export.DisabledSafetyCheck.custom_call(name) for name in names]


def _parts(value: Any) -> dict[str, Any]:
    """The values that hold one array each, by the name of their tensor."""
    if isinstance(value, Parameters):
        return {}
    if not isinstance(value, EvaluationKeys):
        return {"data": value}
    headers.check_elements(value.params, value.galois)
    parts = {} if value.relinearization is None else {"relinearization": value.relinearization}
    parts |= {f"galois.{element}": value.galois[element] for element in sorted(value.galois)}
    for name, key in parts.items():
        if not isinstance(key, SwitchingKey) or key.params != value.params:
            raise TypeError(f"save: {name} is {key!r}; EvaluationKeys hold SwitchingKeys of their own parameters")
    return parts


def _describe(value: Any) -> dict[str, Any]:
    """The header, but for the checksums of tensors."""
    if isinstance(value, Parameters):
        return headers.describe("Parameters", value, {})
    if isinstance(value, Polynomial):
        return headers.describe_polynomial(value.domain, value.parity, str(value.coefficients.dtype))
    header = headers.describe(type(value).__name__, value.params, _static(value))
    if isinstance(value, EvaluationKeys):
        header["levels"] = {name: key.level for name, key in _parts(value).items()}
    return header


def _static(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in headers.static_names(type(value))}


def _arrays(name: str, part: Any) -> dict[str, np.ndarray]:
    """The arrays of a value by the names of their tensors, checked as they will be when loaded."""
    kind, static, seed = type(part), _static(part), getattr(part, "mask_seed", None)
    headers.check_static(kind, part.params, static)
    residues = _array(name, part.data)
    if residues.dtype != np.uint64:
        raise TypeError(
            f"save: residues are uint64, got {residues.dtype} (arithmetic on .data with jax_enable_x64 off?)"
        )
    batch, moduli = _check_shape(name, residues.shape, kind, part.params, static, seed is not None)
    _check_residues(name, residues, moduli)
    if seed is None:
        return {name: residues}
    seeds = _array(name + _SEED, seed)
    _check_seeds(name + _SEED, str(seeds.dtype), seeds.shape, batch)
    return {name: residues, name + _SEED: seeds}


def _coefficients(polynomial: Polynomial) -> np.ndarray:
    """The coefficients as doubles, which hold every type they may have; checked as they will be when loaded."""
    array = _array("coefficients", polynomial.coefficients)
    if str(array.dtype) not in headers.FLOATING:
        raise TypeError(f"save: coefficients are {array.dtype}; a file holds {', '.join(headers.FLOATING)}")
    _check_series(array.shape)
    doubles = array.astype(np.float64)
    _check_finite(doubles)
    return doubles


def _check_series(shape: tuple[int, ...]) -> None:
    """Refuses a shape that coefficients of a polynomial do not have."""
    if len(shape) not in (1, 2) or 0 in shape:
        raise ValueError(f"coefficients have shape {shape}; expected (degree + 1,) or (degree + 1, slots)")


def _check_finite(coefficients: np.ndarray) -> None:
    if not np.all(np.isfinite(coefficients)):
        raise ValueError("a coefficient is not finite")


def _array(name: str, data: Any) -> np.ndarray:
    if not isinstance(data, (jax.Array, np.ndarray)) or _compat.is_traced(data):
        raise TypeError(f"save: tensor {name!r} is {data!r:.80}, not an array; a program being traced has none yet")
    return np.ascontiguousarray(data)  # of a view, safetensors would write the memory, not the elements


def _write(path: str, tensors: dict[str, np.ndarray], metadata: dict[str, str], private: bool) -> None:
    directory, name = os.path.split(path)
    # Nobody else can look into this directory, so that a secret is at no time readable.
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=directory) as scratch:
        whole = os.path.join(scratch, name)
        descriptor = os.open(whole, os.O_WRONLY | os.O_CREAT, 0o600 if private else 0o666)
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        os.close(descriptor)
        save_file(tensors, whole, metadata=metadata)
        os.chmod(whole, mode)  # some releases of safetensors leave a mode of 0600, whatever the umask
        os.replace(whole, path)


def _read(file: Any) -> Any:
    text = (file.metadata() or {}).get("fhejax")
    if text is None:
        raise ValueError("not written by fhejax.save: there is no metadata named 'fhejax'")
    header = headers.unseal(text)
    kind, names = headers.field(header, "kind", str), sorted(headers.field(header, "tensors", dict))
    if names != sorted(file.keys()):
        raise ValueError(f"the file holds tensors {sorted(file.keys())!r:.200}; its header says {names!r:.200}")
    if kind not in _KINDS:
        raise ValueError(f"unknown kind of value {kind!r:.60}; there are {', '.join(_KINDS)}")
    if kind == "Polynomial":
        return _read_polynomial(file, header)
    params = headers.read_parameters(header)
    if kind == "EvaluationKeys":
        return _read_evaluation_keys(file, header, params)
    expected = [] if kind == "Parameters" else ["data"]
    if names != expected and (kind, names) != ("SwitchingKey", ["data", "data" + _SEED]):
        raise ValueError(f"a {kind} with tensors {names!r:.200}; expected {expected}")
    return params if kind == "Parameters" else _read_part(file, "data", _TYPES[kind], header, header, params)


def _read_evaluation_keys(file: Any, header: dict[str, Any], params: Parameters) -> EvaluationKeys:
    levels = headers.field(header, "levels", dict)
    names = {name for name in file.keys() if not (name.endswith(_SEED) and name.removesuffix(_SEED) in levels)}
    if set(levels) != names:
        raise ValueError(f"levels for tensors {sorted(levels)!r:.200}; expected {sorted(names)!r:.200}")
    elements = {name: _galois_element(name, params) for name in levels if name != "relinearization"}
    keys = {name: _read_part(file, name, SwitchingKey, header, {"level": levels[name]}, params) for name in levels}
    galois = {elements[name]: keys[name] for name in sorted(elements, key=lambda name: elements[name])}
    return EvaluationKeys(keys.get("relinearization"), galois, params)


def _galois_element(name: str, params: Parameters) -> int:
    digits = name.removeprefix("galois.")
    if not (digits.isascii() and digits.isdecimal() and name == f"galois.{int(digits)}"):
        raise ValueError(f"unknown tensor {name!r:.60}; EvaluationKeys hold relinearization and galois.<element>")
    headers.check_elements(params, [int(digits)])
    return int(digits)


def _read_part(
    file: Any, name: str, kind: type, header: dict[str, Any], fields: dict[str, Any], params: Parameters
) -> Any:
    """A value of one tensor, or two: types and shapes are checked before they are read, their contents after."""
    static = headers.read_static(kind, params, fields)
    view, seeded = file.get_slice(name), name + _SEED in header["tensors"]
    if view.get_dtype() != "U64":
        raise ValueError(f"tensor {name!r} is of type {view.get_dtype()}; expected U64")
    batch, moduli = _check_shape(name, tuple(view.get_shape()), kind, params, static, seeded)
    if seeded:
        seeds = file.get_slice(name + _SEED)
        _check_seeds(name + _SEED, seeds.get_dtype(), tuple(seeds.get_shape()), batch)
        static["mask_seed"] = jnp.asarray(_read_tensor(file, name + _SEED, header))
    residues = _read_tensor(file, name, header)
    _check_residues(name, residues, moduli)
    return kind(jnp.asarray(residues), params=params, **static)


def _read_polynomial(file: Any, header: dict[str, Any]) -> Polynomial:
    """A polynomial, its coefficients a NumPy array: with jax_enable_x64 off, JAX would cut its own to 32 bits."""
    domain, parity, dtype = headers.read_polynomial(header)
    if list(header["tensors"]) != ["coefficients"]:
        raise ValueError(f"a Polynomial with tensors {sorted(header['tensors'])!r:.200}; expected ['coefficients']")
    view = file.get_slice("coefficients")
    if view.get_dtype() != "F64":
        raise ValueError(f"tensor 'coefficients' is of type {view.get_dtype()}; expected F64")
    _check_series(tuple(view.get_shape()))
    coefficients = _read_tensor(file, "coefficients", header)
    _check_finite(coefficients)
    with np.errstate(all="ignore"):
        narrow = coefficients.astype(dtype)
    if not np.array_equal(narrow.astype(np.float64), coefficients):
        raise ValueError(f"tensor 'coefficients' holds numbers that are no {dtype}")
    return Polynomial(narrow, domain, checked_parity(parity))


def _read_tensor(file: Any, name: str, header: dict[str, Any]) -> np.ndarray:
    tensor, checksum = file.get_tensor(name), headers.field(header["tensors"], name, int)
    if zlib.crc32(tensor.data) != checksum:
        raise ValueError(f"tensor {name!r} is damaged: its checksum does not fit")
    return tensor


def _check_shape(
    name: str, shape: tuple[int, ...], kind: type, params: Parameters, static: dict[str, Any], seeded: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Refuses a shape that does not fit; returns the batch axes, and the modulus of each limb."""
    level = static.get("level", params.max_level)
    moduli, axes = params.moduli_at(level), [()]
    if kind is Ciphertext:
        axes = [(2,), (3,)]
    elif kind is SecretKey:
        moduli += params.special_moduli
    elif kind is PublicKey:
        moduli, axes = moduli + params.special_moduli[:1], [(2,)]
    elif kind is SwitchingKey:
        halves = () if seeded else (2,)
        moduli, axes = moduli + params.special_moduli, [(len(params.digit_moduli(level)), *halves)]
    expected = [(*own, len(moduli), params.degree) for own in axes]
    if shape[-len(expected[0]) :] not in expected:
        said = " or ".join(f"(*batch, {', '.join(map(str, own))})" for own in expected)
        raise ValueError(f"tensor {name!r} of a {kind.__name__} has shape {shape}; expected {said}")
    return shape[: len(shape) - len(expected[0])], moduli


def _check_seeds(name: str, dtype: str, shape: tuple[int, ...], batch: tuple[int, ...]) -> None:
    """Refuses seeds of masks that are not `uint32[*batch, 8]`."""
    if dtype not in ("uint32", "U32") or shape != (*batch, 8):
        raise ValueError(f"tensor {name!r} is {dtype}{[*shape]}; the seeds of masks are uint32{[*batch, 8]}")


def _check_residues(name: str, residues: np.ndarray, moduli: tuple[int, ...]) -> None:
    """Refuses residues that are not reduced, in one pass and without a temporary of their size."""
    *_, limbs, degree = residues.shape
    largest = residues.reshape(-1, limbs, degree).max(axis=(0, 2), initial=0)
    for limb, q in enumerate(moduli):
        if largest[limb] >= q:
            raise ValueError(
                f"tensor {name!r} holds {largest[limb]} in limb {limb}; expected less than its modulus {q}"
            )


def _serialize_static(kind: type, metadata: tuple[Any, ...]) -> bytes:
    """The metadata of a pytree node, `(params, *static fields)`, as bytes for jax.export."""
    params, *static = metadata
    fields = dict(zip(headers.static_names(kind), static, strict=True))
    return headers.seal(headers.describe(kind.__name__, params, fields)).encode()


def _deserialize_static(kind: type, text: bytes | bytearray) -> tuple[Any, ...]:
    header = headers.unseal(bytes(text).decode())
    params = headers.read_parameters(header)
    return (params, *headers.read_static(kind, params, header).values())


def _serialize_keys(metadata: tuple[Any, ...]) -> bytes:
    """Likewise for EvaluationKeys, whose metadata are `(params, galois elements)`."""
    params, elements = metadata
    return headers.seal(headers.describe("EvaluationKeys", params, {"galois": elements})).encode()


def _deserialize_keys(text: bytes | bytearray) -> tuple[Any, ...]:
    header = headers.unseal(bytes(text).decode())
    params, elements = headers.read_parameters(header), headers.field(header, "galois", list)
    headers.check_elements(params, elements)
    return params, tuple(elements)


def _register_export() -> None:
    native.cpu_extension()  # a program from another process calls kernels by name, before any operation of ours runs
    for name, kind in _TYPES.items():
        write, read = functools.partial(_serialize_static, kind), functools.partial(_deserialize_static, kind)
        if kind is EvaluationKeys:
            write, read = _serialize_keys, _deserialize_keys
        jax.export.register_pytree_node_serialization(
            kind, serialized_name=f"fhejax.{name}", serialize_auxdata=write, deserialize_auxdata=read
        )


_register_export()
