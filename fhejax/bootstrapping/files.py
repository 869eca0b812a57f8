"""Files of bootstrapping keys: the keys, and the recipe, from which transforms are made again when they are read."""

import dataclasses
import functools
from typing import Any

from fhejax.bootstrapping.bootstrapping import Bootstrapping, BootstrappingKeys
from fhejax.bootstrapping.preset import Preset
from fhejax.parameters.parameters import Parameters
from fhejax.primitives.key_switch import SeededKey
from fhejax.serialization import headers, kinds, residues
from fhejax.serialization.source import Source, Tensor, Written, check_array, on_device

_SEED = ".mask_seed"
# No recipe has larger numbers; a polynomial of a higher degree would take long to fit.
_LARGEST = 256


def write(keys: BootstrappingKeys) -> Written:
    """Bootstrapping keys as they go into a file.

    Raises:
      TypeError: there are none, as for simulated values.
      ValueError: they are for part of a chain, or do not fit their parameters.
    """
    how = keys.bootstrapping
    if how.shortened or how.height != 1:
        raise ValueError("these bootstrapping keys are part of others; save those, which hold them in `shorter`")
    header, tensors = _write_chain(keys, "")
    described = headers.describe("BootstrappingKeys", how.params, {"slots_first": how.slots_first})
    shorter = []
    for i, each in enumerate(keys.shorter):
        part, own = _write_chain(each, f"shorter.{i}.")
        shorter.append(part | {"to_level": each.bootstrapping.output_level})
        tensors |= own
    preset = {name: _write_entry(value) for name, value in dataclasses.asdict(how.preset).items()}
    return Written(described | {"preset": preset, "keys": header, "shorter": shorter}, tensors)


def read(source: Source) -> BootstrappingKeys:
    """Bootstrapping keys from their file.

    Raises:
      ValueError: the file does not hold them.
    """
    params = headers.read_parameters(source.header)
    preset = _read_preset(headers.field(source.header, "preset", dict))
    how = Bootstrapping.from_parameters(preset, params, headers.field(source.header, "slots_first", bool))
    records, shorter = headers.field(source.header, "shorter", list), []
    for i, record in enumerate(records):
        if not isinstance(record, dict):
            raise ValueError(f"header field 'shorter' holds {record!r:.60}; expected objects")
        part = how.shortened_to(headers.field(record, "to_level", int))
        shorter.append(_read_chain(source.part(f"shorter.{i}."), record, part))
    own = source.part("", [f"shorter.{i}." for i in range(len(records))])
    keys = _read_chain(own, headers.field(source.header, "keys", dict), how)
    return dataclasses.replace(keys, shorter=tuple(shorter))


def _write_chain(keys: BootstrappingKeys, prefix: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The levels and the tensors of the keys of one chain."""
    if keys.evaluation is None:
        raise TypeError("save: bootstrapping keys for simulated values hold no keys; make them with Bootstrapping.keys")
    written = residues.write_keys(keys.evaluation)
    tensors = {f"evaluation.{name}": tensor for name, tensor in written.tensors.items()}
    for name, shape, moduli in _seeded(keys.params):
        key = getattr(keys, name)
        check_array(name, key.first)
        _check(name, key.first.shape, shape)
        tensors[name] = Tensor(key.first, functools.partial(residues.check_residues, name, moduli))
        tensors[name + _SEED] = Tensor(key.mask_seed, lambda _: None)
    return {"levels": written.header["levels"]}, {prefix + name: tensor for name, tensor in tensors.items()}


def _read_chain(source: Source, record: dict[str, Any], how: Bootstrapping) -> BootstrappingKeys:
    """The keys of one chain, and its transforms."""
    params, found = how.params, {}
    header = headers.describe("EvaluationKeys", params, {"levels": headers.field(record, "levels", dict)})
    evaluation = source.part("evaluation.", (), header)
    source.expect(
        *(f"evaluation.{name}" for name in evaluation.names),
        *(name + end for name, _, _ in _seeded(params) for end in ("", _SEED)),
    )
    for name, shape, moduli in _seeded(params):
        _check(name, source.shape(name, "uint64"), shape)
        _check(name + _SEED, source.shape(name + _SEED, "uint32"), (8,))
        first = source.read(name)
        residues.check_residues(name, moduli, first)
        found[name] = SeededKey(on_device(first), on_device(source.read(name + _SEED)))
    keys = residues.read_keys(evaluation)
    return BootstrappingKeys(
        keys, **found, coeff_to_slot=how.coeff_to_slot(), halves=how.halves(), slot_to_coeff=how.slot_to_coeff(),
        bootstrapping=how,
    )  # fmt: skip


def _seeded(params: Parameters) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """The keys to the sparse secret and back: name, shape, and the modulus of each limb."""
    few, all_moduli = params.moduli[:1] + params.special_moduli[:1], params.moduli + params.special_moduli
    return [
        ("to_sparse", (1, len(few), params.degree), few),
        ("to_dense", (params.digits, len(all_moduli), params.degree), all_moduli),
    ]


def _check(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if tuple(shape) != expected:
        raise ValueError(f"tensor {name!r} of bootstrapping keys has shape {tuple(shape)}; expected {expected}")


def _read_preset(record: dict[str, Any]) -> Preset:
    names = [field.name for field in dataclasses.fields(Preset)]
    if sorted(record) != sorted(names):
        raise ValueError(f"a preset of {sorted(record)!r:.200}; expected {sorted(names)}")
    return Preset(**{name: _read_entry(name, value) for name, value in record.items()})


def _write_entry(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_write_entry(each) for each in value]
    return value.hex() if isinstance(value, float) else value


def _read_entry(name: str, value: Any) -> Any:
    """A number, several, or None."""
    if isinstance(value, list):
        return tuple(_read_entry(name, each) for each in value)
    number = headers.hexadecimal(name, value) if isinstance(value, str) else value
    if number is not None and not (type(number) in (int, float) and 0 <= number <= _LARGEST):
        raise ValueError(f"field {name!r} of the preset holds {value!r:.60}; expected 0 to {_LARGEST}")
    return number


kinds.register(BootstrappingKeys, write, read)
