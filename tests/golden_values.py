"""The values in `tests/golden/`, files of each format version there was; made of nothing that may change."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from residues import on_device

import fhejax as fhe
from fhejax.arrays.layouts.layout import Digit
from fhejax.arrays.layouts.maps import ArrayMap
from fhejax.bootstrapping.preset import Preset
from fhejax.linear.plan import Plan, Sum
from fhejax.planning.plan import KeyUse
from fhejax.primitives.key_switch import SeededKey

MODULI = (1125899906842273, 1099511628161, 1099511627297, 1099511627873)
SPECIAL = (1125899906842177, 1125899906841377)

# Primes of a bootstrapping, and its special primes.
CHAIN = (
    (
        *(35184372088673, 1099511628161, 1099511627297, 1099511627873, 70368744177601, 1125882726976673),
        *(1125882726972257, 1125882726974657, 1125882726972737, 72058693566333121, 1125882726973601),
    ),
    (1125899906842273, 1125899906842177, 1125899906841377),
)

SECURE = (1125899904679937, 1099511922689), (36028797017456641,)


def parameters():
    """N = 16, three multiplications, two digits."""
    return fhe.Parameters.from_moduli(4, MODULI, SPECIAL, scale=2.0**40, digit_size=2, security=None)


def spread(moduli, *shape):
    """Residues `uint64[*shape, limbs, 16]` that look like any."""
    count = np.arange(math.prod(shape) * len(moduli) * 16, dtype=np.uint64).reshape(*shape, len(moduli), 16)
    with np.errstate(over="ignore"):
        words = (count + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return on_device(words % np.array(moduli, np.uint64)[:, None])


def bootstrapping_keys():
    """Of a chain that refreshes nothing well, with few keys, and with those of a part of it."""
    preset = Preset(4, 45, 40, 3, 1, 50, (53.0,), 1, (50, 50, 50), 2, 2, 1, 3, 2, 1, None)
    scales = {10: 2.0**50 * (1 - 2.0**-16), 9: 2.0**53, 4: 2.0**43}
    params = fhe.Parameters.from_moduli(4, *CHAIN, scale=scales, fresh_level=4, digit_size=2, security=None)
    how = fhe.Bootstrapping.from_parameters(preset, params, True)
    keys = [_keys_of(each) for each in (how, how.shortened_to(2))]
    return dataclasses.replace(keys[0], shorter=(keys[1],))


def _keys_of(how):
    params, words = how.params, jnp.arange(24, dtype=jnp.uint32).reshape(3, 8)
    q, p = params.moduli, params.special_moduli
    key = fhe.SwitchingKey(spread(q[:2] + p, 1), params, 1, words[0])
    evaluation = fhe.EvaluationKeys(None, {5: key}, params)
    to_sparse = SeededKey(spread(q[:1] + p[:1], 1), words[1])
    to_dense = SeededKey(spread(q + p, params.digits), words[2])
    transforms = how.coeff_to_slot(), how.halves(), how.slot_to_coeff()
    return fhe.BootstrappingKeys(evaluation, to_sparse, to_dense, *transforms, how)


def values():
    """By the names of their files."""
    params = parameters()
    q, p = params.moduli, params.special_moduli
    words = jnp.arange(16, dtype=jnp.uint32).reshape(2, 8) * jnp.uint32(0x9E3779B1)
    full = fhe.SwitchingKey(spread(q[:2] + p, 1, 2), params, 1)
    plan = Plan(1, 1, ((0, 0), (0, 1)), (Sum(0, 0, (0, 1)), Sum(0, 6, (1,))))
    transform = fhe.LinearTransform(spread(q[:2] + p, 3)[..., :4], None, params, 1, 8, (3, 5), True, plan)
    with jax.enable_x64(True):
        numbers = jnp.asarray(np.array([[0.1, -1e-300j], [1 / 3, 2.0], [0.0, 1e300]]))
    seeded = fhe.SwitchingKey(spread(q[:3] + p, 2), params, 2, words[0])
    return {
        "parameters": params,
        "secure_parameters": fhe.Parameters.from_moduli(
            14, *SECURE, scale=2.0**40, slots=8, security=192, attack_model="quantum"
        ),
        "bootstrapping_parameters": fhe.Parameters.from_moduli(
            4, MODULI, SPECIAL, scale={3: 2.0**40, 1: 2.0**41}, fresh_level=2, digit_size=2, security=None
        ),
        "plaintext": fhe.Plaintext(spread(q[:2], 3), params, 1, params.scale_at(1), 4, True),
        "bootstrapping_keys": bootstrapping_keys(),
        "ciphertext": fhe.Ciphertext(spread(q[:1], 2), params, 0, math.pi * 2**30, 8, False),
        "raw_product": fhe.Ciphertext(spread(q[:2], 3), params, 1, params.scale_at(1) ** 2, 8, True),
        "public_key": fhe.PublicKey(spread(q + p[:1], 2), params),
        "secret_key": fhe.SecretKey(spread(q + p), params),
        "switching_key": full,
        "seeded_key": seeded,
        "evaluation_keys": fhe.EvaluationKeys(seeded, {25: full, 5: seeded, 31: full}, params),
        "no_keys": fhe.EvaluationKeys(None, {}, params),
        "transform": transform,
        "transform_as_numbers": dataclasses.replace(transform, data=None, values=numbers, real=False),
        "array": fhe.EncryptedArray(
            fhe.Ciphertext(spread(q[:2], 2, 2), params, 1, params.scale_at(1), 8, True),
            None,
            fhe.Layout((3, 2), ((Digit(2, 8), Digit(2, -4)), (Digit(2, 1),)), 8, 4, (Digit(2, 2),), True),
        ),
        "map": ArrayMap(transform, fhe.Layout((5,), ((Digit(5, 1),),), 8), fhe.Layout((3,), ((Digit(3, 2),),), 8, 1)),
        "key_plan": fhe.KeyPlan(params, 3, {31: 0, 5: 2}, (KeyUse(0, 3, None, 2), KeyUse(5, 2, 8, 1))),
        "polynomial": fhe.Polynomial(np.array([0.1, -1e-300, 0.3]), (-8.0, 1 / 3)),
        "odd_polynomial": fhe.Polynomial(np.array([[0.0, 0.0], [0.1, 0.2]], np.float32), parity="odd"),
    }
