"""Headers: parameters and the static metadata of values as JSON text, and back, with every field checked.

Files and exported programs hold the same header. Floating-point numbers are hexadecimal, so that they come back as
they were; the parameters carry a SHA-256 of their own, which tells whether two files belong together, and the whole
header another, which tells damage.
"""

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from fhejax.parameters.parameters import LARGEST_DEPTH, Parameters

FORMAT = 1


def describe(kind: str, params: Parameters | None, static: Mapping[str, Any]) -> dict[str, Any]:
    """The header of a value: format version, kind, parameters if it has any, and static fields."""
    head: dict[str, Any] = {"format": FORMAT, "kind": kind}
    if params is not None:
        described = _describe_parameters(params)
        head |= {"parameters": json.loads(described), "parameters_sha256": _sha256(described)}
    return head | {name: x.hex() if isinstance(x, float) else x for name, x in static.items()}


def seal(header: dict[str, Any]) -> str:
    """The text of a header, with its checksum."""
    return _canonical(header | {"sha256": _sha256(_canonical(header))})


def unseal(text: str) -> dict[str, Any]:
    """The header in a text made by `seal`.

    Raises:
      ValueError: no such text, a damaged one, or another format version.
    """
    header = parse(text)
    version = field(header, "format", int)
    if version != FORMAT:
        raise ValueError(f"format version {version}; this fhejax reads version {FORMAT}; install the one that wrote it")
    if header.pop("sha256", None) != _sha256(_canonical(header)):
        raise ValueError("the header is damaged: its checksum does not fit")
    return header


def parse(text: str) -> dict[str, Any]:
    """The JSON object in a text from anywhere: names that occur twice and numbers that are none are refused.

    Raises:
      ValueError: there is none.
    """
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the header is no JSON text: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"the header is {found!r:.60}; expected a JSON object")
    return found


def field(header: Mapping[str, Any], name: str, kind: type) -> Any:
    """A field of a header, of exactly the type expected.

    Raises:
      ValueError: it is missing or of another type.
    """
    if type(header.get(name)) is not kind:
        raise ValueError(f"header field {name!r} is {header.get(name)!r:.60}; expected {kind.__name__}")
    return header[name]


def hexadecimal(name: str, text: Any) -> float:
    """A floating-point number in a header.

    Raises:
      ValueError: it is none.
    """
    if not isinstance(text, str):
        raise ValueError(f"header field {name!r} holds {text!r:.60}; expected a hexadecimal float such as '0x1.0p+40'")
    return float.fromhex(text)


def read_parameters(header: dict[str, Any]) -> Parameters:
    """The parameters in a header; equal ones are one object.

    Raises:
      ValueError: they are damaged, or not what the constructors of Parameters would accept and make.
    """
    described = _canonical(field(header, "parameters", dict))
    if field(header, "parameters_sha256", str) != _sha256(described):
        raise ValueError("the parameters in the header are damaged: their checksum does not fit")
    return _rebuild_parameters(described)


def static_names(kind: type) -> list[str]:
    """The static fields of a kind of value, but for its parameters."""
    return [f.name for f in dataclasses.fields(kind) if f.metadata.get("static") and f.name != "params"]


def static_fields(value: Any) -> dict[str, Any]:
    """The static fields of a value, but for its parameters."""
    return {name: getattr(value, name) for name in static_names(type(value))}


def read_static(kind: type, params: Parameters, header: Mapping[str, Any]) -> dict[str, Any]:
    """The static fields of a value from its header, in their order.

    Raises:
      ValueError: one is missing or does not fit.
    """
    static = {name: header.get(name) for name in static_names(kind)}
    if "scale" in static:
        static["scale"] = hexadecimal("scale", static["scale"])
    check_static(kind, params, static)
    return static


def check_static(kind: type, params: Parameters, static: Mapping[str, Any]) -> None:
    """Refuses static fields that do not fit the parameters.

    Raises:
      ValueError: one does not fit.
    """
    top, most = params.max_level, params.degree // 2
    rules = {
        "level": (f"an integer from 0 to {top}", lambda x: type(x) is int and 0 <= x <= top),
        "scale": ("a finite float above 0", lambda x: isinstance(x, float) and 0 < x < math.inf),
        "slots": (f"a power of two up to {most}", lambda x: type(x) is int and 0 < x <= most and x & (x - 1) == 0),
        "real": ("True or False", lambda x: type(x) is bool),
        "noisy": ("True or False", lambda x: type(x) is bool),
        "components": ("1, 2 or 3", lambda x: type(x) is int and 1 <= x <= 3),
    }
    for name, x in static.items():
        expected, fits = rules[name]
        if not fits(x):
            raise ValueError(f"{kind.__name__}: {name} is {x!r:.60}; expected {expected}")


def check_elements(params: Parameters, elements: Iterable[Any]) -> None:
    """Refuses galois elements that no key can have.

    Raises:
      ValueError: one is not an odd integer between 1 and 2N.
    """
    for element in elements:
        if type(element) is not int or element % 2 == 0 or not 1 < element < 2 * params.degree:
            raise ValueError(f"galois element {element!r:.60}; expected an odd one between 1 and {2 * params.degree}")


@functools.lru_cache(maxsize=64)
def _describe_parameters(params: Parameters) -> str:
    security = params.security and {"bits": params.security.bits, "attack_model": params.security.attack_model}
    record = {
        "log_degree": params.log_degree,
        "moduli": params.moduli,
        "special_moduli": params.special_moduli,
        "digit_size": params.digit_size,
        "slots": params.slots,
        "scales": [scale.hex() for scale in params.scales],
        "security": security,
    }
    # What only parameters for bootstrapping have; a version that knows nothing of it refuses the file.
    scales, top = params.scales, params.max_level
    anchors = [
        level
        for level in range(top)
        if scales[level] != scales[level + 1] * scales[level + 1] / params.moduli[level + 1]
    ]
    if anchors:
        record["anchors"] = anchors
    if params.fresh_level != top:
        record["fresh_level"] = params.fresh_level
    return _canonical(record)


@functools.lru_cache(maxsize=64)
def _rebuild_parameters(described: str) -> Parameters:
    """Parameters by their own constructor, which checks them."""
    record = json.loads(described)
    moduli, scales, security = _integers(record, "moduli"), field(record, "scales", list), record.get("security")
    if len(scales) != len(moduli) or not scales:
        raise ValueError(f"header field 'scales' holds {len(scales)}; expected one for each of {len(moduli)} moduli")
    if security is not None:
        security = field(record, "security", dict)
    top, anchors = len(scales) - 1, field(record, "anchors", list) if "anchors" in record else []
    if not all(type(level) is int and 0 <= level < top for level in anchors):
        raise ValueError(f"header field 'anchors' holds {anchors!r:.60}; expected levels below {top}")
    params = Parameters.from_moduli(
        field(record, "log_degree", int),
        moduli,
        _integers(record, "special_moduli"),
        scale={level: hexadecimal("scales", scales[level]) for level in (*anchors, top)},
        digit_size=field(record, "digit_size", int),
        slots=field(record, "slots", int),
        fresh_level=field(record, "fresh_level", int) if "fresh_level" in record else None,
        security=None if security is None else field(security, "bits", int),
        attack_model="classical" if security is None else field(security, "attack_model", str),
    )
    if _describe_parameters(params) != described:
        raise ValueError(f"the parameters in the header are not what their moduli and top scale make, {params!r}")
    return params


def _integers(record: dict[str, Any], name: str) -> list[int]:
    moduli = field(record, name, list)
    # The constructor's checks take time that grows with the square of the length.
    if len(moduli) > LARGEST_DEPTH + 1 or any(type(q) is not int for q in moduli):
        raise ValueError(
            f"header field {name!r} holds {len(moduli)} entries; expected up to {LARGEST_DEPTH + 1} integers"
        )
    return moduli


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object none of whose names occurs twice: programs differ in which one they take."""
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a name occurs twice in an object")
    return record


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _canonical(record: Any) -> str:
    """The one JSON text of a record, which checksums are taken of."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
