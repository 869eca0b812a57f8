"""Switching keys: every lowering against the reference, and against their definition."""

import math

import jax
import numpy as np
import pytest
from references import assert_equals_reference
from residues import chain, on_device, random_residues

import fhejax as fhe
from fhejax.primitives import native
from fhejax.primitives.key_generation import switching_key
from fhejax.primitives.key_switch import key_masks
from fhejax.primitives.ntt import inverse_ntt
from fhejax.primitives.sampling import sample_gaussian

EXTENSION = native.cpu_extension()


def seeds(*batch):
    return on_device(np.random.default_rng(len(batch)).integers(0, 2**32, (2, *batch, 8), dtype=np.uint32))


def secrets(primes, n, *batch):
    return [random_residues(i, primes, n, batch) for i in (1, 2)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seeded", [True, False])
@pytest.mark.parametrize("limbs", [1, 2, 5])
@pytest.mark.parametrize("n", [8, 2048])
def test_every_lowering(n, limbs, seeded):
    """Of secrets with more limbs than the key has."""
    primes = chain(n, (50, 45, 44, 61, 43, 50, 52))
    moduli, special = primes[:limbs], primes[5:]

    def make(*operands):
        return switching_key(*operands, moduli, special, 2, 3.19, seeded)

    operands = *seeds(), *secrets(primes, n)
    with fhe.lowering("composed"):
        assert_equals_reference(make(*operands), make, *operands)
    default = EXTENSION.instruction_set() if EXTENSION else None
    for name in EXTENSION.instruction_sets() if EXTENSION else ():
        EXTENSION.choose_instruction_set(name)
        try:
            assert_equals_reference(make(*operands), make, *operands)
        finally:
            EXTENSION.choose_instruction_set(default)


def test_a_key_is_what_it_should_be():
    """b + a target = e + P g source, by Python integers, with the errors that the seed draws."""
    n, primes = 16, chain(16, (40, 41, 42, 50, 51))
    moduli, special = primes[:3], primes[3:]
    source, target = secrets(primes, n)
    mask_seed, error_seed = seeds()
    key = switching_key(mask_seed, error_seed, source, target, moduli, special, 2, 3.19, False)
    integer = lambda x: np.asarray(x).astype(object)
    q = np.array(primes, object)[:, None]
    b, a = integer(key[:, 0]), integer(key[:, 1])
    np.testing.assert_array_equal(a, integer(key_masks(mask_seed, 2, moduli, special, n)))
    rest = b + a * integer(target)
    for digit, own in enumerate((moduli[:2], moduli[2:])):
        factors = [math.prod(special) if p in own else 0 for p in primes]
        rest[digit] = (rest[digit] - np.array(factors, object)[:, None] * integer(source)) % q
    errors = inverse_ntt(on_device(rest.astype(np.uint64)), primes)
    np.testing.assert_array_equal(errors, sample_gaussian(error_seed, 2, primes, n, 3.19))


def test_batches():
    primes = chain(16, (40, 41, 50))
    both, one = seeds(3), secrets(primes, 16)
    key = switching_key(*both, *one, primes[:2], primes[2:], 1, 3.19, True)
    assert key.first.shape == (3, 2, 3, 16) and key.mask_seed.shape == (3, 8)
    alone = switching_key(both[0, 1], both[1, 1], *one, primes[:2], primes[2:], 1, 3.19, True)
    np.testing.assert_array_equal(key.first[1], alone.first)
    mapped = jax.vmap(lambda m, e: switching_key(m, e, *one, primes[:2], primes[2:], 1, 3.19, False))(*both)
    np.testing.assert_array_equal(mapped[:, :, 0], key.first)


@pytest.mark.parametrize(
    ("spoil", "error", "says"),
    [
        (lambda m, s: (m.astype("float32"), s), TypeError, "a seed is uint32"),
        (lambda m, s: (m[:4], s), ValueError, "a seed is uint32[..., 8]"),
        (lambda m, s: (m, s[:2]), ValueError, "for 3 moduli"),
        (lambda m, s: (m, s[:, :8]), ValueError, "need one degree"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_refuses_what_does_not_fit(spoil, error, says):
    primes = chain(16, (40, 41, 50))
    mask_seed, error_seed = seeds()
    source, target = secrets(primes, 16)
    mask_seed, target = spoil(mask_seed, target)
    with pytest.raises(error) as caught:
        jax.eval_shape(
            lambda *given: switching_key(*given, primes[:2], primes[2:], 1, 3.19, True),
            mask_seed,
            error_seed,
            source,
            target,
        )
    assert says in str(caught.value)


@pytest.mark.usefixtures("unchecked")
def test_refuses_deviations_as_the_sampler_does():
    primes = chain(16, (40, 41, 50))
    with pytest.raises(ValueError, match="deviation"):
        switching_key(*seeds(), *secrets(primes, 16), primes[:2], primes[2:], 1, 0.0, True)
