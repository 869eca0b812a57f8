"""One statement for each kind of value, by which it is written and read.

Fields go into the header by their types, arrays become tensors. Every check holds for both ways; of a file, whatever
decides how much memory a tensor takes is checked before the tensor is read.
"""

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple, NoReturn, get_type_hints

import numpy as np

from fhejax.kinds.base import Kind
from fhejax.parameters.parameters import Parameters
from fhejax.serialization.checks import check_static
from fhejax.serialization.headers import FORMAT
from fhejax.serialization.parameter_sets import describe_parameters, read_parameters
from fhejax.serialization.records import decode, encode
from fhejax.serialization.source import Source, Written, check_array, on_device
from fhejax.serialization.tensors import Shape, Spec, read_tensors, write_tensors


class Schema(NamedTuple):
    """How values of one type lie in files and in the types of exported programs.

    Attributes:
      type: their type, whose name is that of the kind.
      header: the types of the fields that the header holds, by name.
      tensors: what the arrays must be, by field; from an object with the other fields, and from the arrays' shapes.
      arrays: the fields that are arrays, the first under the name of the value; or several such choices.
      parts: fields that are values themselves; their header and their tensors are part of those of the whole.
      check: raises ValueError for an object whose fields, but for arrays, do not fit each other.
      take: the fields of the header from a value, where they are not its attributes.
      make: the value, of fields by their names.
      put: what becomes of each array that was read.
    """

    type: type
    header: Mapping[str, Any]
    tensors: Callable[[Any, Mapping[str, Shape]], dict[str, Spec]] = lambda fields, shapes: {}
    arrays: tuple[tuple[str, ...], ...] = ((),)
    parts: "Mapping[str, Schema]" = MappingProxyType({})
    check: Callable[[Any], object] = lambda fields: None
    take: Callable[[Any], dict[str, Any]] | None = None
    make: Callable[..., Any] | None = None
    put: Callable[[np.ndarray], Any] = on_device


def static_types(kind: type) -> dict[str, Any]:
    """The types of the static fields of a pytree, by name."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in dataclasses.fields(kind) if each.metadata.get("static")}


def write(schema: Schema, value: Any, name: str | None = None) -> Written:
    """A value as it goes into a file, its main tensor under a name of its own if one is given.

    Raises TypeError for arrays that are none or of another type, ValueError for what does not fit.
    """
    if type(value) is not schema.type:
        refuse(value, schema.type.__name__)
    fields = schema.take(value) if schema.take else {field: getattr(value, field) for field in schema.header}
    parts = {field: write(part, getattr(value, field)) for field, part in schema.parts.items()}
    check_fields(schema, fields | {field: getattr(value, field) for field in parts})
    names = _names(_chosen(schema, value), name)
    arrays = {own: check_array(own, getattr(value, field)) for field, own in names.items()}
    specs = _specs(schema, fields, names, {field: arrays[own].shape for field, own in names.items()})
    header, tensors = {}, write_tensors(specs, arrays)
    for part in parts.values():
        header, tensors = header | part.header, tensors | part.tensors
    header |= describe(schema.type.__name__, fields)
    for own, spec in specs.items():
        header |= {"dtype": str(arrays[own].dtype)} if spec.types else {}
    return Written(header, tensors)


def read(schema: Schema, source: Source) -> Any:
    """A value from its file; ValueError if the file does not hold one."""
    if Parameters in schema.header.values():
        read_parameters(source.header)  # first, since most that is said of a file depends on them
    parts = {field: read(part, source) for field, part in schema.parts.items()}
    choices = [_names(choice, None) for choice in schema.arrays]
    names = next((each for each in choices if sorted(each.values()) == source.names), choices[0])
    if not parts:
        source.expect(*names.values())
    fields = read_fields(schema, source.header) | parts
    check_fields(schema, fields)
    return _made(schema, fields | read_arrays(schema, fields, source, names))


def read_arrays(
    schema: Schema, fields: Mapping[str, Any], source: Source, names: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """The arrays of a value whose other fields are known, by field; `names` are those of their tensors."""
    specs = _specs(schema, fields, names, {field: source.entry(own).shape for field, own in names.items()})
    arrays = read_tensors(specs, source)
    return {field: arrays[own] for field, own in names.items()}


def describe(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The header of a value: format version, kind, and its fields."""
    header: dict[str, Any] = {"format": FORMAT, "kind": kind}
    for name, value in fields.items():
        header |= describe_parameters(value) if isinstance(value, Parameters) else {name: encode(value)}
    return header


def read_fields(schema: Schema, header: dict[str, Any]) -> dict[str, Any]:
    """The fields of a value in a header, each of its type but for numbers, which are left to `check_fields`."""
    return {
        name: read_parameters(header) if kind is Parameters else decode(kind, name, header)
        for name, kind in schema.header.items()
    }


def check_fields(schema: Schema, fields: dict[str, Any]) -> None:
    """Refuses fields, but for arrays, that do not fit each other."""
    if "params" in fields:
        check_static(schema.type, fields["params"], fields)
    schema.check(SimpleNamespace(**fields))


def refuse(value: Any, expected: str) -> NoReturn:
    """Refuses a value of another kind; above all one in the clear, where a ciphertext may be meant."""
    kind = type(value).__name__
    if isinstance(value, Kind) and value.in_the_clear:
        raise TypeError(
            f"save: {kind} values are in the clear, and whoever gets their file would see what a ciphertext hides; "
            "if that is meant, type numpy.save(path, x.values)"
        )
    raise TypeError(f"save: got {kind}; a file holds one of {expected}")


def _chosen(schema: Schema, value: Any) -> tuple[str, ...]:
    """The array fields that a value has."""
    present = tuple(dict.fromkeys(f for choice in schema.arrays for f in choice if getattr(value, f) is not None))
    if len(present) > 1 and present not in schema.arrays:
        either = " or ".join(f"`{choice[0]}`" for choice in schema.arrays)
        raise ValueError(f"a {schema.type.__name__} holds {either}, and this one both")
    return present if present in schema.arrays else schema.arrays[0]


def _names(fields: tuple[str, ...], name: str | None) -> dict[str, str]:
    """The names of tensors by field: that of the value, and behind it those of other fields."""
    return {field: name or field if field == fields[0] else f"{name or fields[0]}.{field}" for field in fields}


def _specs(
    schema: Schema, fields: Mapping[str, Any], names: Mapping[str, str], shapes: Mapping[str, Shape]
) -> dict[str, Spec]:
    """What the tensors must be, by their names."""
    return {names[field]: spec for field, spec in schema.tensors(SimpleNamespace(**fields), shapes).items()}


def _made(schema: Schema, fields: dict[str, Any]) -> Any:
    missing = {field: None for choice in schema.arrays for field in choice}
    made = {name: schema.put(x) if isinstance(x, np.ndarray) else x for name, x in fields.items()}
    return (schema.make or schema.type)(**missing | made)
