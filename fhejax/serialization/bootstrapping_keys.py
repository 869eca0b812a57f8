"""Bootstrapping keys in files: the keys, and the recipe, from which transforms are made again when they are read."""

import dataclasses
import functools
from typing import Any

from fhejax.bootstrapping.bootstrapping import Bootstrapping, BootstrappingKeys
from fhejax.bootstrapping.preset import Preset
from fhejax.parameters.parameters import Parameters
from fhejax.primitives.key_switch import SeededKey
from fhejax.serialization import evaluation_keys
from fhejax.serialization.checks import check_preset
from fhejax.serialization.codec import describe
from fhejax.serialization.evaluation_keys import SEED
from fhejax.serialization.headers import field
from fhejax.serialization.parameter_sets import read_parameters
from fhejax.serialization.records import decode
from fhejax.serialization.source import Source, Tensor, Written, on_device
from fhejax.serialization.tensors import Spec, read_tensors, residues, seeds, write_tensors


def write(keys: BootstrappingKeys) -> Written:
    """Bootstrapping keys as they go into a file.

    Raises TypeError if there are none, as for simulated values; ValueError if they are for part of a chain.
    """
    how = keys.bootstrapping
    if how.shortened or how.height != 1:
        raise ValueError("these bootstrapping keys are part of others; save those, which hold them in `shorter`")
    record, tensors = _write_chain(keys, "")
    shorter = []
    for i, each in enumerate(keys.shorter):
        part, own = _write_chain(each, f"shorter.{i}.")
        shorter.append(part | {"to_level": each.bootstrapping.output_level})
        tensors |= own
    fields = {"params": how.params, "preset": how.preset, "slots_first": how.slots_first}
    return Written(describe("BootstrappingKeys", fields | {"keys": record, "shorter": shorter}), tensors)


def read(source: Source) -> BootstrappingKeys:
    """Bootstrapping keys from their file."""
    how, shorter = read_bootstrapping(source.header), []
    records = field(source.header, "shorter", list)
    for i, record in enumerate(records):
        if not isinstance(record, dict):
            raise ValueError(f"header field 'shorter' holds {record!r:.60}; expected objects")
        part = how.shortened_to(field(record, "to_level", int))
        shorter.append(_read_chain(source.part(f"shorter.{i}."), record, part))
    own = source.part("", [f"shorter.{i}." for i in range(len(records))])
    keys = _read_chain(own, field(source.header, "keys", dict), how)
    return dataclasses.replace(keys, shorter=tuple(shorter))


def read_bootstrapping(header: dict[str, Any], shortened: bool = False) -> Bootstrapping:
    """How ciphertexts are refreshed, from the recipe in a header, of which nothing may be missing or added."""
    params = read_parameters(header)
    found, expected = sorted(field(header, "preset", dict)), sorted(each.name for each in dataclasses.fields(Preset))
    if found != expected:
        raise ValueError(f"a preset of {found!r:.200}; expected {expected}")
    preset = decode(Preset, "preset", header)
    check_preset(preset, params)
    return Bootstrapping.from_parameters(preset, params, field(header, "slots_first", bool), shortened)


def _write_chain(keys: BootstrappingKeys, prefix: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The levels and the tensors of the keys of one chain."""
    if keys.evaluation is None:
        raise TypeError("save: bootstrapping keys for simulated values hold no keys; make them with Bootstrapping.keys")
    written = evaluation_keys.write(keys.evaluation)
    arrays = {"to_sparse": keys.to_sparse.first, "to_sparse" + SEED: keys.to_sparse.mask_seed}
    arrays |= {"to_dense": keys.to_dense.first, "to_dense" + SEED: keys.to_dense.mask_seed}
    tensors = {f"evaluation.{name}": tensor for name, tensor in written.tensors.items()}
    tensors |= write_tensors(_encapsulation_specs(keys.params), arrays)
    return {"levels": written.header["levels"]}, {prefix + name: tensor for name, tensor in tensors.items()}


def _read_chain(source: Source, record: dict[str, Any], how: Bootstrapping) -> BootstrappingKeys:
    """The keys of one chain, and its transforms."""
    specs = _encapsulation_specs(how.params)
    header = describe("EvaluationKeys", {"params": how.params, "levels": field(record, "levels", dict)})
    evaluation = source.part("evaluation.", (), header)
    source.expect(*(f"evaluation.{name}" for name in evaluation.names), *specs)
    found = {name: on_device(array) for name, array in read_tensors(specs, source).items()}
    to_sparse, to_dense = (SeededKey(found[name], found[name + SEED]) for name in ("to_sparse", "to_dense"))
    keys, transforms = evaluation_keys.read(evaluation), (how.coeff_to_slot(), how.halves(), how.slot_to_coeff())
    return BootstrappingKeys(keys, to_sparse, to_dense, *transforms, how)


def _encapsulation_specs(params: Parameters) -> dict[str, Spec]:
    """The keys to the sparse secret and back, seeded."""
    few, whole = params.moduli[:1] + params.special_moduli[:1], params.moduli + params.special_moduli
    specs = {}
    for name, digits, moduli in (("to_sparse", 1, few), ("to_dense", params.digits, whole)):
        shape = (digits, len(moduli), params.degree)
        specs[name] = residues(BootstrappingKeys, moduli, shape)._replace(fits=functools.partial(_check_shape, shape))
        specs[name + SEED] = seeds(())
    return specs


def _check_shape(expected: tuple[int, ...], name: str, dtype: str, shape: tuple[int, ...]) -> None:
    if shape != expected:
        raise ValueError(f"tensor {name!r} of bootstrapping keys has shape {shape}; expected {expected}")
