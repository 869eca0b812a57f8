"""Exported programs: the types of their arguments and results as bytes for `jax.export`."""

import functools
import json
from collections.abc import Callable
from typing import Any

import jax.export

from fhejax.arrays.array import EncryptedArray
from fhejax.arrays.layouts.layout import Layout
from fhejax.arrays.layouts.maps import ArrayMap
from fhejax.bootstrapping.bootstrapping import Bootstrapping, BootstrappingKeys
from fhejax.kinds.simulated import Simulated
from fhejax.parameters.parameters import Parameters
from fhejax.polynomials.checks import checked_domain, checked_parity
from fhejax.polynomials.polynomial import Polynomial
from fhejax.primitives import native
from fhejax.primitives.key_switch import SeededKey
from fhejax.scheme.values import EvaluationKeys
from fhejax.serialization import checks, codec, table
from fhejax.serialization.bootstrapping_keys import read_bootstrapping
from fhejax.serialization.codec import Schema, static_types
from fhejax.serialization.evaluation_keys import SWITCHING_KEY
from fhejax.serialization.headers import field, seal, unseal
from fhejax.serialization.records import decode

# Types whose static fields are those of a header.
_STATIC = (
    table.PLAINTEXT, table.CIPHERTEXT, table.PUBLIC_KEY, table.SECRET_KEY, SWITCHING_KEY, table.LINEAR_TRANSFORM,
    Schema(
        EvaluationKeys,
        {"params": Parameters, "galois": tuple[int, ...]},
        check=lambda keys: checks.check_elements(keys.params, keys.galois),
    ),
    Schema(Simulated, static_types(Simulated)),
)  # fmt: skip


def export_checks() -> list[jax.export.DisabledSafetyCheck]:
    """Lets `jax.export` export programs that contain kernels of fhejax.

    JAX refuses custom calls whose makers promise no compatibility. fhejax promises: a kernel that changes its meaning
    changes its name.

    A program that encodes arrays among its arguments carries a check for checkify, which JAX cannot write; leave it out
    by `dataclasses.replace(exported, unordered_effects=())`.

    Returns:
      What `jax.export.export` takes as `disabled_checks`: one check a kernel that programs of this process can call.

    Example:
      >>> import jax
      >>> import fhejax as fhe
      >>> export = jax.export.export(jax.jit(fhe.negate), disabled_checks=fhe.export_checks())
    """
    return [jax.export.DisabledSafetyCheck.custom_call(name) for name in sorted(native.handlers)]


def write_layouts(kind: str, layouts: tuple[Layout, ...]) -> bytes:
    """The static fields of an array or a map as a header."""
    return _sealed(kind, {"layouts": layouts})


def read_layouts(kind: str, count: int, text: bytes | bytearray) -> tuple[Layout, ...]:
    """The layouts in a header, each checked."""
    header = _unsealed(text)
    layouts = decode(tuple[Layout, ...], "layouts", header)
    if header.get("kind") != kind or len(layouts) != count:
        raise ValueError(
            f"the header holds {len(layouts)} layouts of {header.get('kind')!r:.40}; expected {count} of {kind}"
        )
    for layout in layouts:
        checks.check_layout(layout)
    return layouts


def _write_static(schema: Schema, metadata: tuple[Any, ...]) -> bytes:
    """The metadata of a pytree node as a header."""
    return _sealed(schema.type.__name__, dict(zip(schema.header, metadata, strict=True)))


def _read_static(schema: Schema, text: bytes | bytearray) -> tuple[Any, ...]:
    fields = codec.read_fields(schema, _unsealed(text))
    codec.check_fields(schema, fields)
    return tuple(fields.values())


def write_recipe(metadata: tuple[Bootstrapping]) -> bytes:
    """How bootstrapping keys are made, as a header."""
    (how,) = metadata
    names = "params", "preset", "slots_first", "height", "shortened"
    return _sealed("BootstrappingKeys", {name: getattr(how, name) for name in names})


def read_recipe(text: bytes | bytearray) -> tuple[Bootstrapping]:
    """The same from a header, checked."""
    header = _unsealed(text)
    how, height = read_bootstrapping(header, field(header, "shortened", bool)), decode(float, "height", header)
    if not 0 < height <= 1:
        raise ValueError(f"header field 'height' is {height}; expected more than 0 and at most 1")
    return (how.with_height(height),)


def _write_polynomial(metadata: tuple[Any, ...]) -> bytes:
    (low, high), parity = metadata
    return json.dumps({"domain": [low.hex(), high.hex()], "parity": parity}).encode()


def _read_polynomial(text: bytes | bytearray) -> tuple[Any, ...]:
    record = json.loads(text)
    domain = checked_domain("Polynomial", map(float.fromhex, record["domain"]))
    return domain, checked_parity(record["parity"])


def _sealed(kind: str, fields: dict[str, Any]) -> bytes:
    return seal(codec.describe(kind, fields)).encode()


def _unsealed(text: bytes | bytearray) -> dict[str, Any]:
    return unseal(bytes(text).decode())


def _register(kind: type, write: Callable[[Any], bytes], read: Callable[[Any], Any]) -> None:
    jax.export.register_pytree_node_serialization(
        kind, serialized_name=f"fhejax.{kind.__name__}", serialize_auxdata=write, deserialize_auxdata=read
    )


def _register_all() -> None:
    native.cpu_extension()  # a program from another process calls kernels by name, before any operation of ours runs
    native.cuda_extension()
    for schema in _STATIC:
        _register(schema.type, functools.partial(_write_static, schema), functools.partial(_read_static, schema))
    for kind, count in ((EncryptedArray, 1), (ArrayMap, 2)):
        name = kind.__name__
        _register(kind, functools.partial(write_layouts, name), functools.partial(read_layouts, name, count))
    _register(BootstrappingKeys, write_recipe, read_recipe)
    _register(Polynomial, _write_polynomial, _read_polynomial)
    jax.export.register_namedtuple_serialization(SeededKey, serialized_name="fhejax.SeededKey")


_register_all()
