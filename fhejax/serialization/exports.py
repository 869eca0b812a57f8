"""Exported programs: the types of their arguments and results as bytes for `jax.export`."""

import functools
from typing import Any

import jax.export

from fhejax.kinds.simulated import Simulated
from fhejax.linear.transform import LinearTransform
from fhejax.primitives import native
from fhejax.scheme.values import Ciphertext, EvaluationKeys, Plaintext, PublicKey, SecretKey, SwitchingKey
from fhejax.serialization import headers, transforms


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


def _serialize_static(kind: type, metadata: tuple[Any, ...]) -> bytes:
    """The metadata of a pytree node, `(params, *static fields)`, as a header."""
    params, *static = metadata
    fields = dict(zip(headers.static_names(kind), static, strict=True))
    if kind is LinearTransform:
        return headers.seal(transforms.describe(params, fields)).encode()
    return headers.seal(headers.describe(kind.__name__, params, fields)).encode()


def _deserialize_static(kind: type, text: bytes | bytearray) -> tuple[Any, ...]:
    header = headers.unseal(bytes(text).decode())
    params = headers.read_parameters(header)
    if kind is LinearTransform:
        return (params, *transforms.read_static(params, header).values())
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
    native.cuda_extension()
    for kind in (Plaintext, Ciphertext, PublicKey, SecretKey, SwitchingKey, LinearTransform, Simulated):
        write, read = functools.partial(_serialize_static, kind), functools.partial(_deserialize_static, kind)
        _register(kind, write, read)
    _register(EvaluationKeys, _serialize_keys, _deserialize_keys)


def _register(kind, write, read):
    jax.export.register_pytree_node_serialization(
        kind, serialized_name=f"fhejax.{kind.__name__}", serialize_auxdata=write, deserialize_auxdata=read
    )


_register_export()
