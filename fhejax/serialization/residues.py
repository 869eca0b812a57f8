"""Files of plaintexts, ciphertexts and keys: residues, and the seeds of masks."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from fhejax.errors import MissingKeyError, ParametersMismatchError
from fhejax.parameters.parameters import Parameters
from fhejax.planning.plan import KeyPlan
from fhejax.scheme.values import Ciphertext, EvaluationKeys, PublicKey, SecretKey, SwitchingKey, galois_steps
from fhejax.serialization import headers
from fhejax.serialization.source import Source, Tensor, Written, check_array, on_device

_SEED = ".mask_seed"  # behind the name of a key's tensor
_RELINEARIZATION = "relinearization"


def write(value: Any) -> Written:
    """A Plaintext, Ciphertext, PublicKey, SecretKey or SwitchingKey as it goes into a file.

    Raises:
      TypeError: it holds no array, or residues that are not `uint64`.
      ValueError: its arrays do not fit its level and parameters.
    """
    header = headers.describe(type(value).__name__, value.params, headers.static_fields(value))
    return Written(header, tensors_of("data", value))


def read(kind: type, source: Source) -> Any:
    """One of these values from its file.

    Raises:
      ValueError: the file does not hold one.
    """
    params = headers.read_parameters(source.header)
    source.expect("data", *["data" + _SEED] * (kind is SwitchingKey and "data" + _SEED in source.names))
    static = headers.read_static(kind, params, source.header)
    arrays = {name: on_device(array) for name, array in read_arrays(source, "data", kind, params, static).items()}
    return kind(**arrays, params=params, **static)


def write_keys(keys: EvaluationKeys) -> Written:
    """Evaluation keys as they go into a file: a tensor for each, or two.

    Raises:
      As `write`; TypeError also for a part that is no SwitchingKey of the same parameters.
    """
    parts = _parts(keys)
    header = headers.describe(
        "EvaluationKeys", keys.params, {"levels": {name: key.level for name, key in parts.items()}}
    )
    tensors = [tensors_of(name, key) for name, key in parts.items()]
    return Written(header, functools.reduce(dict.__or__, tensors, {}))


def read_keys(source: Source, plan: KeyPlan | None = None) -> EvaluationKeys:
    """Evaluation keys from their file: all, or those of a plan, each cut down to its level there.

    Raises:
      MissingKeyError: the plan has a key that the file has not.
      ParametersMismatchError: the plan is for other parameters.
      ValueError: the file does not hold evaluation keys.
    """
    params = headers.read_parameters(source.header)
    levels = _levels(source, params)
    wanted = levels if plan is None else _planned_levels(plan, levels, params)
    keys = {name: _read_key(source, name, params, levels[name], level) for name, level in wanted.items()}
    galois = {_element(name, params): key for name, key in keys.items() if name != _RELINEARIZATION}
    return EvaluationKeys(keys.get(_RELINEARIZATION), dict(sorted(galois.items())), params)


def planned_names(source: Source, plan: KeyPlan) -> list[str]:
    """The tensors that hold the keys of a plan.

    Raises:
      As `read_keys`.
    """
    params = headers.read_parameters(source.header)
    wanted = _planned_levels(plan, _levels(source, params), params)
    return [name for name in source.names if name.removesuffix(_SEED) in wanted]


def read_arrays(
    source: Source, name: str, kind: type, params: Parameters, static: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """The arrays of a value by its fields: types and shapes are checked before they are read, their contents after.

    Args:
      source: the file.
      name: of the tensor that its data makes.
      kind, params, static: the value's type, parameters and other static fields.

    Raises:
      ValueError: they do not fit.
    """
    seeded, arrays = name + _SEED in source.names, {}
    batch, moduli = _check_shape(name, source.shape(name, "uint64"), kind, params, static, seeded)
    if seeded:
        _check_seeds(name + _SEED, "uint32", source.shape(name + _SEED, "uint32"), batch)
        arrays["mask_seed"] = source.read(name + _SEED)
    arrays["data"] = source.read(name)
    check_residues(name, moduli, arrays["data"])
    return arrays


def tensors_of(name: str, value: Any) -> dict[str, Tensor]:
    """The tensors of a value that has `data`, by their names, checked as they will be when they are read.

    Args:
      name: of the tensor that its data makes.
      value: as for `write`.

    Raises:
      As `write`.
    """
    kind, params, static = type(value), value.params, headers.static_fields(value)
    seed = getattr(value, "mask_seed", None)
    headers.check_static(kind, params, static)
    check_array(name, value.data)
    if value.data.dtype != np.uint64:
        raise TypeError(
            f"save: residues are uint64, got {value.data.dtype} (arithmetic on .data with jax_enable_x64 off?)"
        )
    batch, moduli = _check_shape(name, value.data.shape, kind, params, static, seed is not None)
    tensors = {name: Tensor(value.data, functools.partial(check_residues, name, moduli))}
    if seed is not None:
        check_array(name + _SEED, seed)
        _check_seeds(name + _SEED, str(seed.dtype), seed.shape, batch)
        tensors[name + _SEED] = Tensor(seed, lambda _: None)
    return tensors


def check_residues(name: str, moduli: tuple[int, ...], residues: np.ndarray) -> None:
    """Refuses residues `[..., limbs, N]` that are not reduced, in one pass and without a temporary of their size.

    Raises:
      ValueError: one is not less than its modulus.
    """
    largest = residues.max(axis=(*range(residues.ndim - 2), -1), initial=0)
    for limb, q in enumerate(moduli):
        if largest[limb] >= q:
            raise ValueError(
                f"tensor {name!r} holds {largest[limb]} in limb {limb}; expected less than its modulus {q}"
            )


def _parts(keys: EvaluationKeys) -> dict[str, SwitchingKey]:
    """The keys by the names of their tensors."""
    headers.check_elements(keys.params, keys.galois)
    parts = {} if keys.relinearization is None else {_RELINEARIZATION: keys.relinearization}
    parts |= {f"galois.{element}": keys.galois[element] for element in sorted(keys.galois)}
    for name, key in parts.items():
        if not isinstance(key, SwitchingKey) or key.params != keys.params:
            raise TypeError(f"save: {name} is {key!r}; EvaluationKeys hold SwitchingKeys of their own parameters")
    return parts


def _levels(source: Source, params: Parameters) -> dict[str, int]:
    """The level of each key in a file, by its name."""
    levels = headers.field(source.header, "levels", dict)
    names = [name for name in source.names if not (name.endswith(_SEED) and name.removesuffix(_SEED) in levels)]
    if sorted(levels) != names:
        raise ValueError(f"levels for tensors {sorted(levels)!r:.200}; expected {names!r:.200}")
    for name, level in levels.items():
        headers.check_static(SwitchingKey, params, {"level": level})
        if name != _RELINEARIZATION:
            _element(name, params)
    return levels


def _planned_levels(plan: KeyPlan, levels: Mapping[str, int], params: Parameters) -> dict[str, int]:
    """The level by the name of each key that a plan needs, all of which are there."""
    if plan.params != params:
        raise ParametersMismatchError(f"the plan is for {plan.params!r}, and the keys are for {params!r}")
    wanted = {} if plan.relinearization is None else {_RELINEARIZATION: plan.relinearization}
    wanted |= {f"galois.{element}": level for element, level in sorted(plan.galois.items())}
    missing = [_said(name, level, params) for name, level in wanted.items() if levels.get(name, -1) < level]
    if missing:
        there = ", ".join(_said(name, level, params) for name, level in levels.items())
        more = f" and {len(missing) - 8} more" * (len(missing) > 8)
        raise MissingKeyError(
            f"the plan needs {', '.join(missing[:8])}{more}, which the file has not: it has {there or 'no keys':.400}; "
            "make them by plan.generate(seed, secret_key), or load all keys and let rotations be composed"
        )
    return wanted


def _element(name: str, params: Parameters) -> int:
    digits = name.removeprefix("galois.")
    if not (digits.isascii() and digits.isdecimal() and name == f"galois.{int(digits)}"):
        raise ValueError(f"unknown tensor {name!r:.60}; EvaluationKeys hold relinearization and galois.<element>")
    headers.check_elements(params, [int(digits)])
    return int(digits)


def _said(name: str, level: int, params: Parameters) -> str:
    """A key for people."""
    steps = galois_steps(params.degree)
    if name == _RELINEARIZATION:
        return f"relinearization at level {level}"
    step = steps.get(_element(name, params))
    return f"{'conjugation' if step is None else f'rotation by {step}'} at level {level}"


def _read_key(source: Source, name: str, params: Parameters, level: int, wanted: int) -> SwitchingKey:
    """A key, cut down to the level wanted."""
    arrays = read_arrays(source, name, SwitchingKey, params, {"level": level})
    if wanted < level:
        # Keys of lower levels are parts of those of higher ones: their digits come first, their limbs with P stay.
        digits, limbs = len(params.digit_moduli(wanted)), np.r_[: wanted + 1, level + 1 : arrays["data"].shape[-2]]
        own = (slice(digits),) if "mask_seed" in arrays else (slice(digits), slice(None))
        arrays["data"] = arrays["data"][..., *own, limbs, :]
    return SwitchingKey(**{field: on_device(array) for field, array in arrays.items()}, params=params, level=wanted)


def _check_shape(
    name: str, shape: tuple[int, ...], kind: type, params: Parameters, static: Mapping[str, Any], seeded: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Refuses a shape that does not fit; returns the batch axes, and the modulus of each limb."""
    level = static.get("level", params.max_level)
    moduli, axes = params.moduli_at(level), [()]
    if kind is Ciphertext:
        axes = [(2,), (3,)]
    elif kind is SecretKey:
        moduli += params.special_moduli
    elif kind is PublicKey:
        moduli, axes = moduli + params.special_moduli[:1], [(2,)]
    elif kind is SwitchingKey:
        halves = () if seeded else (2,)
        moduli, axes = moduli + params.special_moduli, [(len(params.digit_moduli(level)), *halves)]
    expected = [(*own, len(moduli), params.degree) for own in axes]
    if shape[-len(expected[0]) :] not in expected:
        said = " or ".join(f"(*batch, {', '.join(map(str, own))})" for own in expected)
        raise ValueError(f"tensor {name!r} of a {kind.__name__} has shape {shape}; expected {said}")
    return shape[: len(shape) - len(expected[0])], moduli


def _check_seeds(name: str, dtype: str, shape: tuple[int, ...], batch: tuple[int, ...]) -> None:
    """Refuses seeds of masks that are not `uint32[*batch, 8]`."""
    if dtype != "uint32" or shape != (*batch, 8):
        raise ValueError(f"tensor {name!r} is {dtype}{[*shape]}; the seeds of masks are uint32{[*batch, 8]}")
