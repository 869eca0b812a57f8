"""Files of key plans."""

from collections.abc import Mapping, Sequence
from typing import Any

from fhejax.parameters.parameters import Parameters
from fhejax.planning.plan import KeyPlan, KeyUse
from fhejax.scheme.values import SwitchingKey
from fhejax.serialization import headers
from fhejax.serialization.source import Source, Written


def write(plan: KeyPlan) -> Written:
    """A key plan as it goes into a file.

    Raises:
      ValueError: elements or levels that its parameters do not have.
    """
    _check(plan.params, plan.relinearization, plan.galois, plan.uses)
    fields = {"relinearization": plan.relinearization, "galois": sorted(plan.galois.items()), "uses": plan.uses}
    return Written(headers.describe("KeyPlan", plan.params, fields), {})


def read(source: Source) -> KeyPlan:
    """A key plan from its file.

    Raises:
      ValueError: the file does not hold one.
    """
    source.expect()
    params = headers.read_parameters(source.header)
    galois, uses = (
        _rows(source.header, name, length) for name, length in (("galois", 2), ("uses", len(KeyUse._fields)))
    )
    headers.check_elements(params, [element for element, _ in galois])
    levels = dict(map(tuple, galois))
    if len(levels) < len(galois):
        raise ValueError(f"the plan has {len(galois)} levels for {len(levels)} galois elements")
    fields = source.header.get("relinearization"), levels, tuple(KeyUse(*use) for use in uses)
    _check(params, *fields)
    return KeyPlan(params, *fields)


def _rows(header: dict[str, Any], name: str, length: int) -> list[list[Any]]:
    rows = headers.field(header, name, list)
    for row in rows:
        if not isinstance(row, list) or len(row) != length:
            raise ValueError(f"header field {name!r} holds {row!r:.60}; expected lists of {length}")
    return rows


def _check(params: Parameters, relinearization: Any, galois: Mapping[Any, Any], uses: Sequence[KeyUse]) -> None:
    headers.check_elements(params, [*galois, *(use.element for use in uses if use.element != 0)])
    for level in (*galois.values(), *([] if relinearization is None else [relinearization])):
        headers.check_static(SwitchingKey, params, {"level": level})
    for use in uses:
        _check_use(params, use)


def _check_use(params: Parameters, use: KeyUse) -> None:
    fields = {"level": use.level} if use.slots is None else {"level": use.level, "slots": use.slots}
    headers.check_static(KeyUse, params, fields)
    if type(use.element) is not int or type(use.count) is not int or not 0 <= use.count < 2**63:
        raise ValueError(f"a use of a key is {use!r:.200}; expected integers, the count from 0 to 2^63 - 1")
