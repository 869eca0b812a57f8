"""Records in headers: fields to JSON and back by the types that they are annotated with.

A record is a dataclass or a named tuple. By itself it is an object by the names of its fields, in which named tuples
leave out what has its default; in a list, a named tuple is a list. Everything read is of exactly its type, but for what
stands in lists of named tuples: that is left to the check of the whole, which knows its range.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, get_args, get_origin, get_type_hints

from fhejax.serialization.headers import field, hexadecimal


def encode(value: Any) -> Any:
    """A field as JSON; dictionaries but those by names are sorted pairs."""
    if dataclasses.is_dataclass(value):
        return {each.name: encode(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        defaults = value._field_defaults.items()
        return {name: encode(own) for name, own in value._asdict().items() if (name, own) not in defaults}
    if isinstance(value, dict) and not all(isinstance(name, str) for name in value):
        value = sorted(value.items())
    if isinstance(value, dict):
        return {name: encode(own) for name, own in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [encode([*each] if isinstance(each, tuple) else each) for each in value]
    return value.hex() if isinstance(value, float) else value


def decode(kind: Any, name: str, record: Any, *, exact: bool = False, owner: str = "") -> Any:
    """A field of a record that JSON text held.

    `exact` refuses numbers, texts and None of other types; `owner` is the name of a record that the record is part of.
    """
    hints = get_args(kind) or (kind,)
    if get_origin(kind) is tuple:
        holds = f"the {owner}'s {name} hold" if owner else f"header field {name!r} holds"
        return tuple(_entry(hints[0], name, holds, entry, exact) for entry in field(record, name, list))
    if _is_record(hints[0]) and (record.get(name) is not None or len(hints) == 1):
        return _record(hints[0], name, field(record, name, dict))
    value = record.get(name)
    if kind is float or (float in hints and isinstance(value, str)):
        return hexadecimal(name, value)
    return field(record, name, *hints) if exact else value


def _record(kind: Any, name: str, record: dict[str, Any]) -> Any:
    optional, whole = getattr(kind, "_field_defaults", {}), dataclasses.is_dataclass(kind)
    found = {
        own: decode(hint, own, record, exact=whole or get_origin(hint) is not tuple, owner=name)
        for own, hint in _hints(kind).items()
        if own in record or own not in optional
    }
    return kind(**found)


def _entry(kind: Any, name: str, holds: str, entry: Any, exact: bool) -> Any:
    """An entry of a list; of a named tuple or of several types, a list itself."""
    named, hints = hasattr(kind, "_fields"), get_args(kind)
    if not named and (get_origin(kind) is not tuple or ... in hints):
        return decode(kind, name, {name: entry}, exact=exact)
    each = [*_hints(kind).items()] if named else [(name, hint) for hint in hints]
    if not isinstance(entry, list) or len(entry) != len(each):
        raise ValueError(f"{holds} {entry!r:.60}; expected lists of {len(each)}")
    values = []
    for (own, hint), value in zip(each, entry, strict=True):
        if get_origin(hint) is tuple and not isinstance(value, list):
            raise ValueError(f"the {own} of a {kind.__name__.lower()} are {value!r:.60}; expected a list")
        values.append(decode(hint, own, {own: value}, exact=exact))
    return kind(*values) if named else tuple(values)


def _is_record(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")


_hints = functools.cache(get_type_hints)
