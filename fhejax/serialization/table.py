"""The kinds of values that files hold, each in a statement; the name of a type is that of its kind."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fhejax.arrays.array import EncryptedArray
from fhejax.arrays.layouts.layout import Layout
from fhejax.arrays.layouts.maps import ArrayMap
from fhejax.bootstrapping.bootstrapping import BootstrappingKeys
from fhejax.kinds.ciphertext import Ciphertext
from fhejax.linear.transform import LinearTransform
from fhejax.parameters.parameters import Parameters
from fhejax.planning.plan import KeyPlan, KeyUse
from fhejax.polynomials.checks import checked_domain, checked_parity
from fhejax.polynomials.polynomial import Polynomial
from fhejax.scheme.values import EvaluationKeys, Plaintext, PublicKey, SecretKey
from fhejax.serialization import bootstrapping_keys, checks, codec, evaluation_keys
from fhejax.serialization.codec import Schema, static_types
from fhejax.serialization.evaluation_keys import SWITCHING_KEY
from fhejax.serialization.source import Source, Written
from fhejax.serialization.tensors import COMPLEX, FLOATING, Spec, check_finite, numbers, residues


def _ring_elements(kind: type, moduli: Callable[[Any], tuple[int, ...]], *components: tuple[int, ...]) -> Schema:
    """Values whose `data` is `uint64[*batch, *one of the components, limbs, N]`."""

    def tensors(x, shapes):
        own = moduli(x)
        return {"data": residues(kind, own, *((*axes, len(own), x.params.degree) for axes in components or [()]))}

    return Schema(kind, static_types(kind), tensors, (("data",),))


def _transform_tensors(x, shapes):
    moduli, terms = x.params.moduli_at(x.level) + x.params.special_moduli, x.plan.terms
    periods = tuple(1 << i for i in range(x.slots.bit_length()))
    if "values" in shapes:
        return {"values": numbers(LinearTransform, FLOATING if x.real else COMPLEX, (terms, periods))}
    widths = tuple(2 * period for period in periods)
    return {"data": residues(LinearTransform, moduli, (terms, len(moduli), widths))}


def _check_coefficients(name, dtype, shape):
    if len(shape) not in (1, 2) or 0 in shape:
        raise ValueError(f"tensor {name!r} has shape {shape}; expected (degree + 1,) or (degree + 1, slots)")


def _fields_of_plan(plan):
    galois = tuple(sorted(plan.galois.items()))
    return {"params": plan.params, "relinearization": plan.relinearization, "galois": galois, "uses": plan.uses}


PLAINTEXT = _ring_elements(Plaintext, lambda x: x.params.moduli_at(x.level))
CIPHERTEXT = _ring_elements(Ciphertext, lambda x: x.params.moduli_at(x.level), (2,), (3,))
PUBLIC_KEY = _ring_elements(PublicKey, lambda x: x.params.moduli + x.params.special_moduli[:1], (2,))
SECRET_KEY = _ring_elements(SecretKey, lambda x: x.params.moduli + x.params.special_moduli)
PARAMETERS = Schema(
    Parameters, {"params": Parameters}, take=lambda params: {"params": params}, make=lambda params: params
)
# Coefficients stay arrays of NumPy: with jax_enable_x64 off, JAX would cut its own to 32 bits.
POLYNOMIAL = Schema(
    Polynomial,
    {"domain": tuple[float, float], "parity": str | None},
    lambda x, shapes: {"coefficients": Spec("float64", _check_coefficients, check_finite, FLOATING)},
    (("coefficients",),),
    check=lambda x: (checked_domain("Polynomial", x.domain), checked_parity(x.parity)),
    put=np.asarray,
)
LINEAR_TRANSFORM = Schema(
    LinearTransform,
    static_types(LinearTransform),
    _transform_tensors,
    (("data",), ("values",)),
    check=checks.check_transform,
)
KEY_PLAN = Schema(
    KeyPlan,
    {
        "params": Parameters,
        "relinearization": int | None,
        "galois": tuple[tuple[int, int], ...],
        "uses": tuple[KeyUse, ...],
    },
    check=checks.check_key_plan,
    take=_fields_of_plan,
    make=lambda galois, **fields: KeyPlan(galois=dict(galois), **fields),
)
# The keys of an array have files of their own.
ENCRYPTED_ARRAY = Schema(
    EncryptedArray,
    {"layout": Layout},
    parts={"ciphertext": CIPHERTEXT},
    check=checks.check_array,
    make=partial(EncryptedArray, keys=None),
)
ARRAY_MAP = Schema(ArrayMap, static_types(ArrayMap), parts={"transform": LINEAR_TRANSFORM}, check=checks.check_map)

SCHEMAS = (
    PLAINTEXT, CIPHERTEXT, PUBLIC_KEY, SWITCHING_KEY, SECRET_KEY, PARAMETERS, POLYNOMIAL, LINEAR_TRANSFORM, KEY_PLAN,
    ENCRYPTED_ARRAY, ARRAY_MAP,
)  # fmt: skip

# How each kind of value is written, and how it is read.
KINDS: dict[type, tuple[Callable[[Any], Written], Callable[[Source], Any]]] = {
    **{each.type: (partial(codec.write, each), partial(codec.read, each)) for each in SCHEMAS},
    EvaluationKeys: (evaluation_keys.write, evaluation_keys.read),
    BootstrappingKeys: (bootstrapping_keys.write, bootstrapping_keys.read),
}


def by_name() -> dict[str, type]:
    """The types by their names in files."""
    return {kind.__name__: kind for kind in KINDS}
