"""Keys: what they hold in big integers, and that seeds and masks never meet twice."""

import math

import jax
import numpy as np
import pytest
from residues import centred, compose, negacyclic_product, on_device

import fhejax as fhe
from fhejax.primitives import modular
from fhejax.primitives.key_switch import key_masks
from fhejax.primitives.ntt import inverse_ntt
from fhejax.primitives.sampling import sample_gaussian

PARAMS = fhe.Parameters.for_depth(3, log_degree=5, security=None)
BASIS = PARAMS.moduli + PARAMS.special_moduli
SEED = np.arange(8, dtype=np.uint32)


def integers(residues, moduli):
    """A polynomial in NTT form as centred integers."""
    product = math.prod(moduli)
    return [centred(x, product) for x in compose(np.asarray(inverse_ntt(residues, moduli)), moduli)]


def error_of(pair, secret, moduli):
    """b + a s as centred integers, for (b, a) and s in NTT form."""
    return integers(modular.multiply_add(pair[1], secret, pair[0], moduli), moduli)


def test_secret_is_ternary_in_every_limb():
    coefficients = integers(fhe.secret_key(SEED, PARAMS).data, BASIS)
    assert set(coefficients) == {-1, 0, 1}


def test_public_key_encrypts_zero():
    sk = fhe.secret_key(SEED, PARAMS)
    pk, limbs = fhe.public_key(SEED, sk), len(PARAMS.moduli) + 1
    assert max(map(abs, error_of(pk.data, sk.data[:limbs], BASIS[:limbs]))) < 13 * PARAMS.error_deviation


@pytest.mark.parametrize("level", [3, 2, 0])
def test_evaluation_keys_encrypt_the_gadget(level):
    """b + a target = P g_i source + e, with a small e that is not zero, for every digit of every key."""
    sk = fhe.secret_key(SEED, PARAMS)
    keys = fhe.evaluation_keys(SEED, sk, rotations=(1, -1), conjugation=True, level=level)
    moduli = PARAMS.moduli_at(level) + PARAMS.special_moduli
    s = integers(sk.data, BASIS)
    product, special = math.prod(PARAMS.moduli_at(level)), math.prod(PARAMS.special_moduli)
    square = negacyclic_product(s, s, math.prod(moduli))
    cases = [(keys.relinearization, square, 1)] + [(key, s, g) for g, key in keys.galois.items()]
    assert len(cases) == 4
    for key, source, element in cases:
        inverse = pow(element, -1, 2 * PARAMS.degree)
        target = fhe.primitives.automorphism.automorphism(sk.data, inverse)
        target = np.asarray(target)[[*range(level + 1), *range(len(PARAMS.moduli), len(BASIS))]]
        for i, digit in enumerate(PARAMS.digit_moduli(level)):
            cofactor = product // math.prod(digit)
            gadget = special * cofactor * pow(cofactor, -1, math.prod(digit))
            got = error_of(key.data[i], on_device(target), moduli)
            errors = [centred(x - gadget * m, math.prod(moduli)) for x, m in zip(got, source, strict=True)]
            assert 0 < max(map(abs, errors)) < 13 * PARAMS.error_deviation


def all_keys(keys):
    return [keys.relinearization, *(keys.galois[element] for element in sorted(keys.galois))]


@pytest.mark.parametrize("level", [3, 2, 0])
def test_seeded_keys_are_the_same_keys(level):
    sk = fhe.secret_key(SEED, PARAMS)
    full, seeded = (
        fhe.evaluation_keys(SEED, sk, rotations=(1, -1), conjugation=True, level=level, seeded=seeded)
        for seeded in (False, True)
    )
    assert sorted(full.galois) == sorted(seeded.galois) and len(full.galois) == 3
    for key, half in zip(all_keys(full), all_keys(seeded), strict=True):
        digits = len(PARAMS.digit_moduli(level))
        masks = key_masks(half.mask_seed, digits, PARAMS.moduli_at(level), PARAMS.special_moduli, PARAMS.degree)
        np.testing.assert_array_equal(half.data, key.data[:, 0])
        np.testing.assert_array_equal(masks, key.data[:, 1])
        assert (half.level, half.mask_seed.shape, half.mask_seed.dtype) == (level, (8,), np.uint32)


@pytest.mark.parametrize("level", [2, 1, 0])
def test_a_lower_key_is_a_part_of_a_higher_one(level):
    """One seed at two levels draws one mask and one error: two masks with one error would give away the secret."""
    sk = fhe.secret_key(SEED, PARAMS)
    high, low = (all_keys(fhe.evaluation_keys(SEED, sk, (1,), level=at)) for at in (None, level))
    limbs = [*range(level + 1), *range(len(PARAMS.moduli), len(BASIS))]
    for key, part in zip(high, low, strict=True):
        np.testing.assert_array_equal(np.asarray(key.data)[: part.data.shape[0]][:, :, limbs], part.data)


def test_the_seed_of_the_masks_tells_nothing_about_the_errors():
    """It makes neither the errors of the key nor the seeds that other keys are drawn from."""
    sk = fhe.secret_key(SEED, PARAMS)
    keys = all_keys(fhe.evaluation_keys(SEED, sk, rotations=(1, 2), seeded=True))
    digits, s = PARAMS.digit_moduli(PARAMS.max_level), integers(sk.data, BASIS)
    square = negacyclic_product(s, s, math.prod(BASIS))
    gadget = math.prod(PARAMS.special_moduli) * math.prod(PARAMS.moduli[len(digits[0]) :])
    gadget *= pow(math.prod(PARAMS.moduli[len(digits[0]) :]), -1, math.prod(digits[0]))

    seed = keys[0].mask_seed
    mask = key_masks(seed, 1, PARAMS.moduli, PARAMS.special_moduli, PARAMS.degree)[0]
    got = error_of((keys[0].data[0], mask), sk.data, BASIS)
    errors = [centred(x - gadget * m, math.prod(BASIS)) for x, m in zip(got, square, strict=True)]
    assert 0 < max(map(abs, errors)) < 13 * PARAMS.error_deviation
    drawn = fhe.split_seed(SEED, 4)
    public = [seed, *fhe.split_seed(seed, 4)]
    for guess in public:
        sample = sample_gaussian(guess, 1, BASIS, PARAMS.degree, PARAMS.error_deviation)[0]
        guessed = [centred(x, math.prod(BASIS)) for x in compose(np.asarray(sample), BASIS)]
        assert guessed != errors
    seeds = [np.asarray(x).tobytes() for x in (SEED, *drawn, *public, *(key.mask_seed for key in keys[1:]))]
    assert len(set(seeds)) == len(seeds)


def test_one_seed_for_everything_gives_different_masks():
    """The same mask in two keys would cancel, and leave a secret in the clear."""
    sk = fhe.secret_key(SEED, PARAMS)
    keys = fhe.evaluation_keys(SEED, sk, rotations=(1, 2), conjugation=True)
    masks = [np.asarray(fhe.public_key(SEED, sk).data)[1, 0], np.asarray(fhe.encrypt(SEED, sk, [1.0]).data)[1, 0]]
    for key in (keys.relinearization, *keys.galois.values()):
        masks += [np.asarray(digit)[1, 0] for digit in key.data]
    assert len({mask.tobytes() for mask in masks}) == len(masks)


def test_a_batch_has_randomness_of_its_own_in_each_entry():
    sk = fhe.secret_key(SEED, PARAMS)
    for key in (sk, fhe.public_key(SEED, sk)):
        batch = np.asarray(fhe.encrypt(SEED, key, np.zeros((6, PARAMS.slots))).data)
        assert len({entry.tobytes() for entry in batch[:, 1]}) == 6


@pytest.mark.parametrize("axes", [(None, 0, None), (None, None, 0)], ids=["many keys", "many messages"])
def test_vmap_with_one_seed_is_refused(axes):
    """One mask under many keys, or for many messages, gives away what it should hide."""
    sks = jax.vmap(lambda seed: fhe.secret_key(seed, PARAMS))(fhe.split_seed(SEED, 3))
    key = jax.tree.map(lambda x: x[0], sks) if axes[1] is None else sks
    values = np.zeros((3, PARAMS.slots)) if axes[2] == 0 else np.zeros(PARAMS.slots)
    with pytest.raises(ValueError, match="split_seed"):
        jax.vmap(fhe.encrypt, in_axes=axes)(SEED, key, values)


def test_vmap_of_key_generation_with_one_seed_is_refused():
    sks = jax.vmap(lambda seed: fhe.secret_key(seed, PARAMS))(fhe.split_seed(SEED, 3))
    for make in (fhe.public_key, fhe.evaluation_keys):
        with pytest.raises(ValueError, match="split_seed"):
            jax.vmap(make, in_axes=(None, 0))(SEED, sks)
