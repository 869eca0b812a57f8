"""Calls of every primitive, drawn from its statement, on which its implementations are compared."""

import functools
import math
import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fhejax.parameters.primes import nearest_prime
from fhejax.primitives import native
from fhejax.primitives.define import definitions
from fhejax.primitives.handlers import HANDLERS, ROWS
from fhejax.primitives.statement import (
    FULL_KEY,
    SEEDED_KEY,
    Array,
    Handler,
    Moduli,
    Places,
    Scale,
    evaluate,
    parse_axis,
)

BITS = (50, 45, 61, 40, 51, 30, 55)  # on both sides of where kernels differ

COUNTS = {"limbs": 3, "specials": 2, "sources": 3, "targets": 2, "added": 2, "kept": 2, "dropped": 2}
SIZES = {"values": 24, "slots": 4, "components": 3, "sums": 2, "numbers": 3, "width": 4, "operands": 5}
SIZES |= {
    "message_count": 2,
    "key_count": 1,
    "count": 2,
    "terms": 3,
    "babies": 3,
    "rotations": 2,
    "switched": 1,
    "term_count": 3,
}

# What a primitive is given besides its moduli.
PARAMETERS: dict[str, dict[str, Any]] = {
    "automorphism": {"element": 5},
    "add_rotation": {"element": 5},
    "coefficients_to_slots": {"slots": 4},
    "combination": {"products": 1},
    "sample_sparse_ternary": {"weight": 5},
    "hoisted_rotations": {"elements": (5, 7)},
    "hoisted_sums": {"inputs": 2, "sources": (0, 0, 1), "elements": (1, 5, 5), "sizes": (2, 1), "terms": (0, 1, 2)},
    "switching_key": {"seeded": False},
}

NEGATE = Handler("negate", (Array("a", ROWS),), (Moduli("moduli", "limbs"),), (Array("out", ROWS),))


def check_implementation(primitive: str, name: str) -> None:
    """Compares an implementation of a primitive with its reference, on calls of several shapes.

    Args:
      primitive: its name in docs/cuda.md, as "ntt".
      name: "native", "composed" or what `register_implementation` was given.

    Raises:
      ValueError: there is no such primitive or implementation, or a result differs: of integers in any bit, of others
        beyond rounding.

    Example:
      >>> import fhejax as fhe
      >>> fhe.check_implementation("multiply", "native")
    """
    with native.lowering({primitive: name}):  # refuses names that are not there
        pass
    for arrays, parameters in example_calls(primitive):
        got, expected = (_run(primitive, kind, arrays, parameters) for kind in (name, "reference"))
        for one, other in zip(got, expected, strict=True):
            same = np.array_equal if one.dtype.kind == "u" else functools.partial(np.allclose, rtol=1e-12, atol=1e-12)
            if one.shape != other.shape or one.dtype != other.dtype or not same(one, other):
                shapes = ", ".join(f"{array.dtype}{list(array.shape)}" for array in arrays)
                raise ValueError(f"{primitive}: {name!r} differs from the reference for ({shapes}) with {parameters}")


def example_calls(primitive: str) -> Iterator[tuple[list[np.ndarray], dict[str, Any]]]:
    """Arrays and parameters: without a batch, and with batch axes that broadcast and seeded keys."""
    stated = HANDLERS.get(primitive, NEGATE)
    for degree, batches in ((16, [()]), (64, [(2, 1), (1, 3)])):
        parameters = _parameters(stated, degree)
        draw = _Draw(stated, parameters, degree, batches)
        yield draw.operands(), parameters


def _run(primitive, kind, arrays, parameters):
    with jax.enable_x64(True):
        lowering = native.Choice("native", ((primitive, kind),))
        bind = definitions[f"fhejax_{primitive}"].primitive.bind
        return list(map(np.asarray, jax.tree.leaves(bind(*map(jnp.asarray, arrays), lowering=lowering, **parameters))))


def _parameters(stated, degree):
    found, parameters = [], {}
    for each in stated.attributes:
        if isinstance(each, Moduli):
            count = int(each.count) if each.count.isdigit() else COUNTS[each.count]
            for _ in range(count):
                found.append(nearest_prime((1 << BITS[len(found)]) - 1, 2 * degree, found))
            parameters[each.name] = tuple(found[len(found) - count :])
        elif isinstance(each, Scale):
            parameters[each.name] = 2.0**30
        elif each.name == "digit_size":
            parameters[each.name] = 2
        elif each.name == "thresholds":
            parameters["deviation"] = 3.2
        elif not isinstance(each, Places):
            parameters[each.name] = PARAMETERS[stated.name][each.name]
    if stated.name.startswith("sample_"):
        parameters |= {"count": 2, "degree": degree}
    if stated.name == "slots_to_coefficients":
        parameters["degree"] = degree
    return parameters | ({"slots": 4} if stated.name == "coefficients_to_slots" else {})


class _Draw:
    """Draws the operands of one call."""

    def __init__(self, stated, parameters, degree, batches):
        self.stated, self.batches, self.random = stated, batches, np.random.default_rng(degree)
        self.moduli = [q for each in stated.attributes if isinstance(each, Moduli) for q in parameters[each.name]]
        numbers = {name: value for name, value in parameters.items() if isinstance(value, int)}
        self.sizes = SIZES | COUNTS | numbers | {"N": degree}
        self.sizes |= {name: evaluate(text, self.sizes) for name, text in stated.where.items()}
        self.made = 0

    def operands(self):
        arrays = []
        for each in self.stated.operands:
            for _ in range(1 if each.repeats is None else evaluate(each.repeats, self.sizes)):
                if isinstance(each, Array):
                    arrays.append(self.array(each.axes, each.dtype))
                elif len(self.batches) == 1:
                    arrays.append(self.array(FULL_KEY, "uint64"))
                else:
                    arrays += [self.array(SEEDED_KEY, "uint64"), self.array("8", "uint32")]
        return arrays

    def array(self, axes, dtype):
        stated = list(map(parse_axis, axes.split()))
        own = [evaluate(axis.size or axis.name or "0", self.sizes) for axis in stated]
        shape = (*self.batches[self.made % len(self.batches)], *own)
        self.made += 1
        if dtype == "uint32":
            return self.random.integers(0, 1 << 32, shape, np.uint32)
        if dtype != "uint64":
            values = self.random.standard_normal(shape)
            return values + 1j * self.random.standard_normal(shape) if dtype == "complex128" else values
        limbs = next(i for i, axis in enumerate(axes.split()) if re.search("limb|source|kept", axis))
        behind = math.prod(own[limbs + 1 :])
        q = np.array(self.moduli[: own[limbs]] or [1 << 40], np.uint64)
        rows = self.random.integers(0, 1 << 63, (math.prod(shape) // max(behind, 1), behind), np.uint64)
        return (rows % np.resize(q, len(rows))[:, None]).reshape(shape)
