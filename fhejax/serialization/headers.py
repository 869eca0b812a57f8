"""Headers: JSON text with a checksum, and fields of the types expected. Files and exported programs hold the same.

Floating-point numbers are hexadecimal, so that they come back as they were.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

FORMAT = 1


def seal(header: dict[str, Any]) -> str:
    """The text of a header, with its checksum."""
    return canonical(header | {"sha256": sha256(canonical(header))})


def unseal(text: str) -> dict[str, Any]:
    """The header in a text made by `seal`; ValueError for a damaged one, or another format version."""
    header = parse(text)
    version = field(header, "format", int)
    if version != FORMAT:
        raise ValueError(f"format version {version}; this fhejax reads version {FORMAT}; install the one that wrote it")
    if header.pop("sha256", None) != sha256(canonical(header)):
        raise ValueError("the header is damaged: its checksum does not fit")
    return header


def parse(text: str) -> dict[str, Any]:
    """The JSON object in a text from anywhere; names that occur twice and numbers that are none are refused."""
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the header is no JSON text: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"the header is {found!r:.60}; expected a JSON object")
    return found


def field(header: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """A field of a header, of exactly one of the types expected."""
    if type(header.get(name)) not in kinds:
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"header field {name!r} is {header.get(name)!r:.60}; expected {expected}")
    return header[name]


def hexadecimal(name: str, text: Any) -> float:
    """A floating-point number in a header."""
    if not isinstance(text, str):
        raise ValueError(f"header field {name!r} holds {text!r:.60}; expected a hexadecimal float such as '0x1.0p+40'")
    return float.fromhex(text)


def canonical(record: Any) -> str:
    """The one JSON text of a record, which checksums are taken of."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def sha256(text: str) -> str:
    """The checksum of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object none of whose names occurs twice: programs differ in which one they take."""
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a name occurs twice in an object")
    return record


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")
