"""The work of operations, in units that a table of measured times turns into seconds.

A unit is what is done to one limb of N coefficients. `python -m fhejax.planning.machine` measures what a unit takes on
a machine.
"""

import functools
import importlib.resources
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from fhejax.parameters.parameters import Parameters


@dataclass(frozen=True)
class Work:
    """What an operation does to one ciphertext, in units of a limb of N coefficients; `calls` in units of one.

    Attributes:
      transforms: NTTs, with the conversions of bases that go with them.
      keyed: products with a limb of a key or of an encoded diagonal, which is read from memory.
      passes: limbs read or written otherwise.
      embeddings: values in the clear encoded, a complex FFT each.
      calls: of a compiled kernel.
      hoisted, switched: key switches that share their ModUp, and others.
    """

    transforms: float | int = 0
    keyed: float | int = 0
    passes: float | int = 0
    embeddings: float | int = 0
    calls: float | int = 1
    hoisted: float | int = 0
    switched: float | int = 0

    def plus(self, other: "Work", times: float | int = 1) -> "Work":
        """The sum with so many times another; of one call, as kernels are fused."""
        parts = ((f.name, getattr(self, f.name) + times * getattr(other, f.name)) for f in fields(Work))
        return replace(Work(**dict(parts)), calls=self.calls)


UNITS = ("transforms", "keyed", "passes", "embeddings", "calls")
"""What a machine's table says the seconds of, for each ring."""


@functools.cache
def machine_table() -> Mapping[str, Any]:
    """The table that fhejax comes with: the machine, and by log2 N the seconds of each of `UNITS`."""
    return json.loads(importlib.resources.files("fhejax.kinds").joinpath("machine.json").read_text())


def seconds_of(units: Mapping[str, float], degree: int, machine: Mapping[str, Any]) -> float:
    """By the row of the ring, or of the nearest one that was measured, stretched by N log N."""
    rows = {int(log_degree): row for log_degree, row in machine["seconds"].items()}
    wanted = math.log2(degree)
    nearest = min(rows, key=lambda log_degree: abs(log_degree - wanted))
    stretch = degree * wanted / (2**nearest * nearest)
    return sum(units[unit] * row * (1 if unit == "calls" else stretch) for unit, row in rows[nearest].items())


def raise_work(params: Parameters, level: int) -> Work:
    """ModUp of one polynomial: all digits modulo all primes."""
    limbs, special, digits = level + 1, len(params.special_moduli), len(params.digit_moduli(level))
    return Work(transforms=digits * (limbs + special))


def keyed_work(params: Parameters, level: int) -> Work:
    """The product of raised digits with both halves of a key."""
    limbs, special, digits = level + 1, len(params.special_moduli), len(params.digit_moduli(level))
    return Work(keyed=2 * digits * (limbs + special))


def divide_work(keep: int, drop: int, components: int = 2) -> Work:
    """ModDown: the dropped limbs transformed back, what they leave transformed again."""
    return Work(transforms=components * (keep + drop), passes=components * (2 * keep + drop)) if drop else Work()


def switch_work(params: Parameters, level: int, dropped: int = 0) -> Work:
    """A key switch, with a rescale by `dropped` primes merged into its division."""
    keep, special = level + 1 - dropped, len(params.special_moduli)
    work = raise_work(params, level).plus(keyed_work(params, level)).plus(divide_work(keep, special + dropped))
    return replace(work, switched=1)


def transform_work(transform: Any) -> Work:
    """A linear transform by double hoisting: see `fhejax.linear.plan`."""
    params, level, plan = transform.params, transform.level, transform.plan
    special, extended = len(params.special_moduli), level + 1 + len(params.special_moduli)
    work = Work(keyed=2 * extended * plan.terms, hoisted=plan.hoisted, switched=plan.switched)
    if transform.values is not None:
        work = work.plus(Work(transforms=extended, embeddings=1), plan.terms)
    work = work.plus(raise_work(params, level), plan.inputs).plus(keyed_work(params, level), plan.hoisted)
    giant = raise_work(params, level).plus(keyed_work(params, level)).plus(divide_work(level + 1, special, 1))
    return work.plus(giant, plan.switched).plus(divide_work(level, special + 1), plan.outputs)
