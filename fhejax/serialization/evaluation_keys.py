"""Switching keys and evaluation keys in files: all that a file holds, or those of a plan, cut down to its levels."""

from collections.abc import Mapping

import numpy as np

from fhejax.errors import MissingKeyError, ParametersMismatchError
from fhejax.parameters.parameters import Parameters
from fhejax.planning.plan import KeyPlan
from fhejax.scheme.keys import RELINEARIZATION
from fhejax.scheme.values import EvaluationKeys, SwitchingKey, galois_steps
from fhejax.serialization import codec
from fhejax.serialization.checks import check_elements, check_static
from fhejax.serialization.codec import Schema, static_types
from fhejax.serialization.headers import field
from fhejax.serialization.parameter_sets import read_parameters
from fhejax.serialization.source import Source, Written, on_device
from fhejax.serialization.tensors import residues, seeds

SEED = ".mask_seed"  # behind the name of a key's tensor


def _key_tensors(key, shapes):
    moduli, seeded = key.params.moduli_at(key.level) + key.params.special_moduli, "mask_seed" in shapes
    halves = () if seeded else (2,)
    own = (len(key.params.digit_moduli(key.level)), *halves, len(moduli), key.params.degree)
    specs = {"data": residues(SwitchingKey, moduli, own)}
    return specs | ({"mask_seed": seeds(shapes["data"][:-3])} if seeded else {})


SWITCHING_KEY = Schema(SwitchingKey, static_types(SwitchingKey), _key_tensors, (("data",), ("data", "mask_seed")))


def write(keys: EvaluationKeys) -> Written:
    """Evaluation keys as they go into a file: a tensor for each, or two."""
    check_elements(keys.params, keys.galois)
    parts = {} if keys.relinearization is None else {_name(RELINEARIZATION): keys.relinearization}
    parts |= {_name(element): keys.galois[element] for element in sorted(keys.galois)}
    for name, key in parts.items():
        if not isinstance(key, SwitchingKey) or key.params != keys.params:
            raise TypeError(f"save: {name} is {key!r}; EvaluationKeys hold SwitchingKeys of their own parameters")
    fields = {"params": keys.params, "levels": {name: key.level for name, key in parts.items()}}
    written = [codec.write(SWITCHING_KEY, key, name) for name, key in parts.items()]
    tensors = {name: tensor for each in written for name, tensor in each.tensors.items()}
    return Written(codec.describe("EvaluationKeys", fields), tensors)


def read(source: Source, wanted: Mapping[int, int] | None = None) -> EvaluationKeys:
    """Evaluation keys from their file: all, or those wanted, by galois element, each cut down to its level."""
    params = read_parameters(source.header)
    levels = _levels(source, params)
    wanted = levels if wanted is None else wanted
    keys = {element: _read_key(source, element, params, levels[element], wanted[element]) for element in wanted}
    return EvaluationKeys(keys.pop(RELINEARIZATION, None), dict(sorted(keys.items())), params)


def planned(source: Source, plan: KeyPlan) -> tuple[dict[int, int], list[str]]:
    """The level of each key that a plan needs, by galois element, and the names of their tensors.

    Raises MissingKeyError for a key that the file has not, ParametersMismatchError for a plan of other parameters.
    """
    params = read_parameters(source.header)
    if plan.params != params:
        raise ParametersMismatchError(f"the plan is for {plan.params!r}, and the keys are for {params!r}")
    levels = _levels(source, params)
    wanted = {} if plan.relinearization is None else {RELINEARIZATION: plan.relinearization}
    wanted |= dict(sorted(plan.galois.items()))
    missing = [_said(params, each, level) for each, level in wanted.items() if levels.get(each, -1) < level]
    if missing:
        there = ", ".join(_said(params, *each) for each in levels.items()) or "no keys"
        more = f" and {len(missing) - 8} more" * (len(missing) > 8)
        raise MissingKeyError(
            f"the plan needs {', '.join(missing[:8])}{more}, which the file has not: it has {there:.400}; make them by "
            "plan.generate(seed, secret_key), or load all keys and let rotations be composed"
        )
    names = {*map(_name, wanted)}
    return wanted, [name for name in source.names if name.removesuffix(SEED) in names]


def _levels(source: Source, params: Parameters) -> dict[int, int]:
    """The level of each key in a file, by galois element."""
    levels = field(source.header, "levels", dict)
    names = [name for name in source.names if not (name.endswith(SEED) and name.removesuffix(SEED) in levels)]
    if sorted(levels) != names:
        raise ValueError(f"levels for tensors {sorted(levels)!r:.200}; expected {names!r:.200}")
    for level in levels.values():
        check_static(SwitchingKey, params, {"level": level})
    return {_element(name, params): level for name, level in levels.items()}


def _name(element: int) -> str:
    """The name of a key's tensor."""
    return "relinearization" if element == RELINEARIZATION else f"galois.{element}"


def _element(name: str, params: Parameters) -> int:
    if name == _name(RELINEARIZATION):
        return RELINEARIZATION
    digits = name.removeprefix("galois.")
    if not (digits.isascii() and digits.isdecimal() and name == _name(int(digits))):
        raise ValueError(f"unknown tensor {name!r:.60}; EvaluationKeys hold relinearization and galois.<element>")
    check_elements(params, [int(digits)])
    return int(digits)


def _said(params: Parameters, element: int, level: int) -> str:
    """A key for people."""
    step = galois_steps(params.degree).get(element)
    rotation = "conjugation" if step is None else f"rotation by {step}"
    return f"{_name(RELINEARIZATION) if element == RELINEARIZATION else rotation} at level {level}"


def _read_key(source: Source, element: int, params: Parameters, level: int, wanted: int) -> SwitchingKey:
    """A key, cut down to the level wanted."""
    name = _name(element)
    names = {"data": name} | ({"mask_seed": name + SEED} if name + SEED in source.names else {})
    arrays = codec.read_arrays(SWITCHING_KEY, {"params": params, "level": level}, source, names)
    if wanted < level:
        # Keys of lower levels are parts of those of higher ones: their digits come first, their limbs with P stay.
        digits, limbs = len(params.digit_moduli(wanted)), np.r_[: wanted + 1, level + 1 : arrays["data"].shape[-2]]
        own = (slice(digits),) if "mask_seed" in arrays else (slice(digits), slice(None))
        arrays["data"] = arrays["data"][..., *own, limbs, :]
    return SwitchingKey(**{own: on_device(array) for own, array in arrays.items()}, params=params, level=wanted)
