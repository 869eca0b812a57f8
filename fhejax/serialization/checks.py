"""What fields must be, and how they must fit each other: of values to be written as of those read."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fhejax.arrays.layouts.layout import Layout
from fhejax.bootstrapping.preset import Preset
from fhejax.linear.plan import is_chain
from fhejax.parameters.parameters import Parameters
from fhejax.parameters.security import SECURITY_BITS, require_sparse_security
from fhejax.planning.plan import KeyUse
from fhejax.scheme.values import SwitchingKey

# A file names no larger arrays than this: their places are computed when it is read.
_MOST_ENTRIES = 1 << 32
# No recipe has larger numbers; a polynomial of a higher degree would take long to fit.
_LARGEST = 256


def check_static(kind: type, params: Parameters, fields: Mapping[str, Any]) -> None:
    """Refuses fields of a value that do not fit its parameters."""
    top, most = params.max_level, params.degree // 2
    rules = {
        "level": (f"an integer from 0 to {top}", lambda x: type(x) is int and 0 <= x <= top),
        "scale": ("a finite float above 0", lambda x: isinstance(x, float) and 0 < x < math.inf),
        "slots": (f"a power of two up to {most}", lambda x: type(x) is int and 0 < x <= most and x & (x - 1) == 0),
        "real": ("True or False", lambda x: type(x) is bool),
        "noisy": ("True or False", lambda x: type(x) is bool),
        "components": ("1, 2 or 3", lambda x: type(x) is int and 1 <= x <= 3),
    }
    for name, (expected, fits) in rules.items():
        if name in fields and not fits(fields[name]):
            raise ValueError(f"{kind.__name__}: {name} is {fields[name]!r:.60}; expected {expected}")


def check_elements(params: Parameters, elements: Iterable[Any]) -> None:
    """Refuses galois elements that no key can have."""
    for element in elements:
        if type(element) is not int or element % 2 == 0 or not 1 < element < 2 * params.degree:
            raise ValueError(f"galois element {element!r:.60}; expected an odd one between 1 and {2 * params.degree}")


def check_transform(transform: Any) -> None:
    """Refuses what `fhejax.apply` could not follow."""
    level, slots, shape, plan = transform.level, transform.slots, transform.shape, transform.plan
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
    if plan.repeated and not is_chain(giants, slots):
        raise ValueError(f"the plan's `repeated` is {plan.repeated!r:.60}, and its sums have the steps {giants!r:.200}")
    most = plan.outputs * slots, plan.inputs * slots
    if len(shape) != 2 or not all(_are_below([x], limit + 1) and x for x, limit in zip(shape, most, strict=True)):
        raise ValueError(f"LinearTransform: shape is {shape!r:.60}; expected two integers from 1 to {most}")


def check_key_plan(plan: Any) -> None:
    """Refuses elements and levels that the parameters do not have; `galois` are pairs."""
    params, elements = plan.params, [element for element, _ in plan.galois]
    check_elements(params, [*elements, *(use.element for use in plan.uses if use.element != 0)])
    if len({*elements}) < len(elements):
        raise ValueError(f"the plan has {len(elements)} levels for {len({*elements})} galois elements")
    for level in (*dict(plan.galois).values(), *([] if plan.relinearization is None else [plan.relinearization])):
        check_static(SwitchingKey, params, {"level": level})
    for use in plan.uses:
        check_static(KeyUse, params, {"level": use.level} | ({} if use.slots is None else {"slots": use.slots}))
        if type(use.element) is not int or type(use.count) is not int or not 0 <= use.count < 2**63:
            raise ValueError(f"a use of a key is {use!r:.200}; expected integers, the count from 0 to 2^63 - 1")


def check_preset(preset: Preset, params: Parameters) -> None:
    """Refuses a recipe of numbers that no recipe has, or of an ephemeral secret that its security does not allow."""
    for name, value in dataclasses.asdict(preset).items():
        if not all(x is None or 0 <= x <= _LARGEST for x in (value if isinstance(value, tuple) else (value,))):
            raise ValueError(f"field {name!r} of the preset holds {value!r:.60}; expected 0 to {_LARGEST}")
    if preset.security not in (None, *SECURITY_BITS):
        raise ValueError(f"the preset's security is {preset.security}; expected None or one of {SECURITY_BITS}")
    if preset.security or params.security:
        exposed = params.moduli[0], params.special_moduli[0]
        require_sparse_security("Preset", params.log_degree, preset.secret_weight, exposed)


def check_layout(layout: Layout) -> None:
    """Refuses a layout that no array can have."""
    shape, slots, digits, copies = layout.shape, layout.slots, layout.axes, layout.copies
    if not all(size > 0 for size in shape) or math.prod(shape) > _MOST_ENTRIES:
        raise ValueError(f"header field 'shape' is {[*shape]!r:.60}; expected positive integers")
    if len(digits) != len(shape) or slots < 1 or slots & (slots - 1):
        raise ValueError(f"a layout of {len(digits)} axes and {slots} slots; expected {len(shape)} and a power of two")
    for digit in (*copies, *(each for own in digits for each in own)):
        if digit.size < 1 or digit.stride == 0:
            raise ValueError(f"a digit of a layout has size {digit.size} and stride {digit.stride}")
    for size, own in zip(shape, digits, strict=True):
        if math.prod(digit.size for digit in own) < size:
            raise ValueError(f"a layout of digits {own} for {size} entries")
    lowest = layout.offset + sum(min(0, (size - 1) * by) for own in digits for size, by in own)
    reach = sum((size - 1) * by for size, by in copies)
    # Without the third condition there could be far more copies than slots.
    if lowest < 0 or reach >= slots or math.prod(size for size, _ in copies) > slots or any(by < 1 for _, by in copies):
        raise ValueError(f"a layout that reaches to {lowest}, with copies {copies} in {slots} slots")
    if layout.diagonal and len(shape) < 2:
        raise ValueError(f"diagonals of an array of shape {shape}")


def check_slots(layout: Layout, slots: int) -> None:
    """Refuses a layout, or one for another number of slots."""
    check_layout(layout)
    if layout.slots != slots:
        raise ValueError(f"a layout in {layout.slots} slots, and {slots} slots")


def check_array(array: Any) -> None:
    """Refuses an array whose entries are not all in its ciphertexts."""
    layout, slots, batch = array.layout, array.ciphertext.slots, array.ciphertext.shape
    check_slots(layout, slots)
    # The number of ciphertexts comes from the places of all entries: first, whether there can be so many.
    if not batch or layout.size > batch[-1] * slots or layout.ciphertexts > batch[-1]:
        raise ValueError(f"ciphertexts {batch} of {slots} slots do not hold an array of shape {layout.shape!r:.200}")


def check_map(linear: Any) -> None:
    """Refuses a map between layouts of other slots than its transform has."""
    for layout in (linear.source, linear.target):
        check_slots(layout, linear.transform.slots)


def _are_below(numbers: Sequence[Any], limit: Any) -> bool:
    return type(limit) is int and all(type(x) is int and 0 <= x < limit for x in numbers)
