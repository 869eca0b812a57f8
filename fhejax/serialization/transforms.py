"""Files of linear transforms: their diagonals, and the plan by which they are applied."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from fhejax.linear.plan import Plan, Sum, is_chain
from fhejax.linear.transform import LinearTransform
from fhejax.parameters.parameters import Parameters
from fhejax.serialization import headers
from fhejax.serialization.numbers import COMPLEX, FLOATING, read_numbers, write_numbers
from fhejax.serialization.residues import check_residues
from fhejax.serialization.source import Source, Tensor, Written, check_array, on_device


def write(transform: LinearTransform) -> Written:
    """A linear transform as it goes into a file, encoded or not, as it is.

    Raises:
      TypeError: it holds no array, or one of another type.
      ValueError: its arrays do not fit its plan, level and parameters.
    """
    static = headers.static_fields(transform)
    header = describe(transform.params, static)
    if transform.values is None:
        check_array("data", transform.data)
        if transform.data.dtype != "uint64":
            raise TypeError(f"save: residues are uint64, got {transform.data.dtype}")
        moduli = _check_encoded(transform.data.shape, transform.params, static)
        return Written(header, {"data": Tensor(transform.data, functools.partial(check_residues, "data", moduli))})
    if transform.data is not None:
        raise ValueError("a LinearTransform holds `data` or `values`, and this one both")
    tensor = write_numbers("values", transform.values, _types(static))
    _check_numbers(static, transform.values.shape)
    return Written(header | {"dtype": str(transform.values.dtype)}, {"values": tensor})


def read(source: Source) -> LinearTransform:
    """A linear transform from its file.

    Raises:
      ValueError: the file does not hold one.
    """
    params = headers.read_parameters(source.header)
    static = read_static(params, source.header)
    if source.names == ["values"]:
        check_shape = functools.partial(_check_numbers, static)
        values = read_numbers(source, "values", source.header.get("dtype"), _types(static), check_shape)
        return LinearTransform(None, on_device(values), params, **static)
    source.expect("data")
    moduli = _check_encoded(source.shape("data", "uint64"), params, static)
    data = source.read("data")
    check_residues("data", moduli, data)
    return LinearTransform(on_device(data), None, params, **static)


def describe(params: Parameters, static: Mapping[str, Any]) -> dict[str, Any]:
    """The header of a transform by its static fields.

    Raises:
      ValueError: they do not fit each other.
    """
    _check_static(params, static)
    plan = static["plan"]._asdict()
    if not plan["repeated"]:
        del plan["repeated"]  # as in files from before there were others
    return headers.describe("LinearTransform", params, dict(static) | {"plan": plan})


def read_static(params: Parameters, header: Mapping[str, Any]) -> dict[str, Any]:
    """The static fields from a header, in their order.

    Raises:
      ValueError: one is missing, or they do not fit each other.
    """
    static = {name: header.get(name) for name in headers.static_names(LinearTransform)}
    shape, plan = headers.field(header, "shape", list), headers.field(header, "plan", dict)
    babies, sums = headers.field(plan, "babies", list), headers.field(plan, "sums", list)
    static["shape"] = tuple(shape)
    static["plan"] = Plan(
        headers.field(plan, "inputs", int),
        headers.field(plan, "outputs", int),
        tuple(_pair("babies", baby, 2) for baby in babies),
        tuple(_sum(each) for each in sums),
        plan.get("repeated", False),
    )
    _check_static(params, static)
    return static


def _pair(name: str, entry: Any, length: int) -> tuple[Any, ...]:
    if not isinstance(entry, list) or len(entry) != length:
        raise ValueError(f"the plan's {name} hold {entry!r:.60}; expected lists of {length}")
    return tuple(entry)


def _sum(entry: Any) -> Sum:
    output, step, terms = _pair("sums", entry, 3)
    if not isinstance(terms, list):
        raise ValueError(f"the terms of a sum are {terms!r:.60}; expected a list")
    return Sum(output, step, tuple(terms))


def _check_static(params: Parameters, static: Mapping[str, Any]) -> None:
    """Refuses what `fhejax.apply` could not follow."""
    level, slots, shape, plan = (static[name] for name in ("level", "slots", "shape", "plan"))
    headers.check_static(LinearTransform, params, {"level": level, "slots": slots, "real": static["real"]})
    if level == 0:
        raise ValueError("LinearTransform: level is 0; expected at least 1, which it takes")
    for name, count, numbers in (
        ("inputs", plan.inputs, [baby[0] for baby in plan.babies]),
        ("outputs", plan.outputs, [each.output for each in plan.sums]),
    ):
        # Of what nothing is made there could be any number.
        if not _are_below(numbers, count) or len({*numbers}) != count:
            raise ValueError(f"the plan has {count!r:.60} {name}; expected as many as its babies and sums speak of")
    if not _are_below([*(baby[1] for baby in plan.babies), *(each.step for each in plan.sums)], slots):
        raise ValueError(f"the plan has steps that are no integers from 0 to {slots - 1}")
    terms = [number for each in plan.sums for number in each.terms]
    if not _are_below(terms, len(plan.babies)) or not all(each.terms for each in plan.sums):
        raise ValueError(f"the plan's sums have terms that are no integers from 0 to {len(plan.babies) - 1}, or none")
    giants = [slots * each.output + each.step for each in plan.sums]
    if type(plan.repeated) is not bool or (plan.repeated and not is_chain(giants, slots)):
        raise ValueError(f"the plan's `repeated` is {plan.repeated!r:.60}, and its sums have the steps {giants!r:.200}")
    most = plan.outputs * slots, plan.inputs * slots
    if len(shape) != 2 or not all(_are_below([x], limit + 1) and x for x, limit in zip(shape, most, strict=True)):
        raise ValueError(f"LinearTransform: shape is {shape!r:.60}; expected two integers from 1 to {most}")


def _are_below(numbers: Sequence[Any], limit: Any) -> bool:
    return type(limit) is int and all(type(x) is int and 0 <= x < limit for x in numbers)


def _check_encoded(shape: tuple[int, ...], params: Parameters, static: Mapping[str, Any]) -> tuple[int, ...]:
    """Refuses encoded diagonals of another shape; returns the modulus of each limb."""
    moduli = params.moduli_at(static["level"]) + params.special_moduli
    widths = [2 << i for i in range(static["slots"].bit_length())]
    if shape[-3:-1] != (static["plan"].terms, len(moduli)) or shape[-1] not in widths:
        raise ValueError(
            f"tensor 'data' of a LinearTransform has shape {shape}; expected (*batch, {static['plan'].terms}, "
            f"{len(moduli)}, a power of two from 2 to {widths[-1]})"
        )
    return moduli


def _check_numbers(static: Mapping[str, Any], shape: tuple[int, ...]) -> None:
    """Refuses diagonals as numbers of another shape."""
    periods = [1 << i for i in range(static["slots"].bit_length())]
    if shape[-2:-1] != (static["plan"].terms,) or shape[-1] not in periods:
        raise ValueError(
            f"tensor 'values' of a LinearTransform has shape {shape}; expected (*batch, {static['plan'].terms}, a "
            f"power of two from 1 to {periods[-1]})"
        )


def _types(static: Mapping[str, Any]) -> tuple[str, ...]:
    return FLOATING if static["real"] else COMPLEX
