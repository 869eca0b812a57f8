"""The kinds of values that files hold: how each is written, and how it is read."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from fhejax.linear.transform import LinearTransform
from fhejax.parameters.parameters import Parameters
from fhejax.planning.plan import KeyPlan
from fhejax.polynomials.polynomial import Polynomial
from fhejax.scheme.values import Ciphertext, EvaluationKeys, Plaintext, PublicKey, SecretKey, SwitchingKey
from fhejax.serialization import headers, plans, polynomials, residues, transforms
from fhejax.serialization.source import Source, Written


class Kind(NamedTuple):
    """How values of one type get into files.

    Attributes:
      write: its header and tensors, checked.
      read: a value from a file, every part of it checked, and the large ones before they are read.
    """

    write: Callable[[Any], Written]
    read: Callable[[Source], Any]


def _write_parameters(params: Parameters) -> Written:
    return Written(headers.describe("Parameters", params, {}), {})


def _read_parameters(source: Source) -> Parameters:
    source.expect()
    return headers.read_parameters(source.header)


# The name of a type is that of its kind in files. Types that are defined above here add their own by `register`.
KINDS: dict[type, Kind] = {
    **{
        kind: Kind(residues.write, partial(residues.read, kind))
        for kind in (Plaintext, Ciphertext, PublicKey, SwitchingKey)
    },
    EvaluationKeys: Kind(residues.write_keys, residues.read_keys),
    SecretKey: Kind(residues.write, partial(residues.read, SecretKey)),
    Parameters: Kind(_write_parameters, _read_parameters),
    Polynomial: Kind(polynomials.write, polynomials.read),
    LinearTransform: Kind(transforms.write, transforms.read),
    KeyPlan: Kind(plans.write, plans.read),
}


def register(kind: type, write: Callable[[Any], Written], read: Callable[[Source], Any]) -> None:
    """Adds a kind of values.

    Args:
      kind: their type, of which no other has the name.
      write, read: as in `Kind`.
    """
    KINDS[kind] = Kind(write, read)


def by_name() -> dict[str, type]:
    """The types by their names in files."""
    return {kind.__name__: kind for kind in KINDS}
