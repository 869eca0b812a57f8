"""What a program does and what it will take, before any key is made."""

import collections
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp

from fhejax import _compat
from fhejax.kinds.base import Kind
from fhejax.kinds.counted import RECORD, Counted
from fhejax.kinds.work import UNITS, Work, machine_table, seconds_of
from fhejax.scheme.values import megabytes


@dataclass(frozen=True, repr=False)
class Count:
    """What a program does.

    Attributes:
      operations: how often each runs, batches counted by their entries.
      hoisted: key switches that share their ModUp.
      switched: other key switches.
      bytes: that operations read and write, keys included.
      units: of work, by `UNITS`.
      seconds: of processor time that it will take on the machine of the table.
      machine: of which the table is.
    """

    operations: dict[str, int]
    hoisted: int
    switched: int
    bytes: int
    units: dict[str, float]
    seconds: float
    machine: str

    @property
    def key_switches(self) -> int:
        """Of both sorts."""
        return self.hoisted + self.switched

    def __repr__(self) -> str:
        parts = [f"{count} {name}" for name, count in sorted(self.operations.items(), key=lambda item: -item[1])]
        switches = f"{self.hoisted} hoisted and {self.switched} other key switches"
        return f"Count({', '.join(parts)}; {switches}; {megabytes(self.bytes)}; {self.seconds:.3g} s on {self.machine})"


def count(function: Callable[..., Any], *avals: Any, machine: Mapping[str, Any] | None = None) -> Count:
    """What a function on ciphertexts does and takes, found by tracing it without keys and without data.

    Args:
      function: takes ciphertexts and evaluation keys; what `jax.jit` takes.
      *avals: its arguments: ciphertexts, real, simulated, or made of shapes by `jax.eval_shape`; arrays; for
        bootstrapping keys, the `Bootstrapping`. None stands where the keys go; without one, they come last.
      machine: a table that `python -m fhejax.planning.machine` wrote; the one that fhejax comes with if None.

    Returns:
      Of a loop each step counts, of a `cond` the branch that does more, of a `while_loop` one step.

    Raises:
      TypeError: no argument is a ciphertext. And what the function raises when it is traced.

    Example:
      >>> import fhejax as fhe
      >>> x = fhe.simulate([1.0, 2.0], fhe.Parameters.for_depth(2))
      >>> counted = fhe.count(lambda x, keys: fhe.rotate(fhe.square(x, keys), 3, keys), x)
      >>> counted.operations, counted.key_switches
      ({'multiply': 1, 'rotate': 1}, 2)
    """
    leaves, tree = jax.tree.flatten(_with_place_for_keys(function, avals), is_leaf=lambda x: isinstance(x, Kind))
    values = [leaf for leaf in leaves if isinstance(leaf, Kind)]
    if not values:
        raise TypeError("count: no argument is a ciphertext; type count(function, x) with a ciphertext x")
    traced = {i: _stand_in(leaf) for i, leaf in enumerate(leaves) if isinstance(leaf, Kind) or hasattr(leaf, "shape")}

    def run(traced):
        return function(*tree.unflatten([traced.get(i, leaf) for i, leaf in enumerate(leaves)]))

    records = _compat.count_equations(jax.make_jaxpr(run)(traced).jaxpr, RECORD)
    return _summary(records, values[0].params.degree, machine_table() if machine is None else machine)


def _with_place_for_keys(function, avals):
    if any(aval is None for aval in avals):
        return avals
    try:
        inspect.signature(function).bind(*avals, None)
    except (TypeError, ValueError):  # one that takes bootstrapping keys alone, which are among the arguments
        return avals
    return (*avals, None)


def _stand_in(x):
    if not isinstance(x, Kind):
        return _compat.abstract(x)
    return Counted(jnp.zeros(x.shape, bool), x.params, x.level, x.scale, x.slots, x.real, x.components)


def _summary(records, degree, machine):
    operations, totals = collections.Counter(), collections.Counter()
    for record, times in records:
        work, entries = record["work"], record["entries"]
        operations[record["name"]] += times * entries
        for f in fields(Work):  # a batch is one call
            totals[f.name] += times * getattr(work, f.name) * (1 if f.name == "calls" else entries)
    units = {unit: float(totals[unit]) for unit in UNITS}
    size = int(8 * degree * (units["keyed"] + units["passes"]))
    switches = round(totals["hoisted"]), round(totals["switched"])
    return Count(dict(operations), *switches, size, units, seconds_of(units, degree, machine), machine["machine"])
