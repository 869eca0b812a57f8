"""Parameters in headers, rebuilt by their own constructor, which checks them.

They carry a SHA-256 of their own, which tells whether two files belong together.
"""

import functools
import json
from typing import Any

from fhejax.parameters.parameters import LARGEST_DEPTH, Parameters
from fhejax.serialization.headers import canonical, field, sha256
from fhejax.serialization.records import decode, encode

_INTEGERS = "log_degree", "digit_size", "slots"
_MODULI = "moduli", "special_moduli"


def describe_parameters(params: Parameters) -> dict[str, Any]:
    """The fields of a header that hold parameters."""
    text = _describe(params)
    return {"parameters": json.loads(text), "parameters_sha256": sha256(text)}


def read_parameters(header: dict[str, Any]) -> Parameters:
    """The parameters in a header; equal ones are one object."""
    text = canonical(field(header, "parameters", dict))
    if field(header, "parameters_sha256", str) != sha256(text):
        raise ValueError("the parameters in the header are damaged: their checksum does not fit")
    return _rebuild(text)


@functools.lru_cache(maxsize=64)
def _describe(params: Parameters) -> str:
    record = {name: encode(getattr(params, name)) for name in (*_INTEGERS, *_MODULI, "scales")}
    security, scales, top = params.security, params.scales, params.max_level
    record["security"] = security and {"bits": security.bits, "attack_model": security.attack_model}
    # What only parameters for bootstrapping have; a version that knows nothing of it refuses the file.
    steps = zip(scales, scales[1:], params.moduli[1:], strict=False)
    if anchors := [level for level, (low, high, q) in enumerate(steps) if low != high * high / q]:
        record["anchors"] = anchors
    if params.fresh_level != top:
        record["fresh_level"] = params.fresh_level
    return canonical(record)


@functools.lru_cache(maxsize=64)
def _rebuild(text: str) -> Parameters:
    """Parameters by their own constructor, which checks them."""
    record = json.loads(text)
    integers = {name: field(record, name, int) for name in (*_INTEGERS, *["fresh_level"] * ("fresh_level" in record))}
    moduli, special = (_integers(record, name) for name in _MODULI)
    scales = decode(tuple[float, ...], "scales", record)
    if len(scales) != len(moduli) or not scales:
        raise ValueError(f"header field 'scales' holds {len(scales)}; expected one for each of {len(moduli)} moduli")
    top = len(scales) - 1
    anchors = _integers(record, "anchors") if "anchors" in record else ()
    if not all(0 <= level < top for level in anchors):
        raise ValueError(f"header field 'anchors' holds {[*anchors]!r:.60}; expected levels below {top}")
    claim: dict[str, Any] = {"security": None}
    if record.get("security") is not None:
        security = field(record, "security", dict)
        claim = {"security": field(security, "bits", int), "attack_model": field(security, "attack_model", str)}
    params = Parameters.from_moduli(
        moduli=moduli,
        special_moduli=special,
        scale={level: scales[level] for level in (*anchors, top)},
        **integers,
        **claim,
    )
    if _describe(params) != text:
        raise ValueError(f"the parameters in the header are not what their moduli and top scale make, {params!r}")
    return params


def _integers(record: dict[str, Any], name: str) -> list[int]:
    numbers = field(record, name, list)
    # The constructor's checks take time that grows with the square of the length.
    if len(numbers) > LARGEST_DEPTH + 1 or any(type(q) is not int for q in numbers):
        raise ValueError(
            f"header field {name!r} holds {len(numbers)} entries; expected up to {LARGEST_DEPTH + 1} integers"
        )
    return numbers
