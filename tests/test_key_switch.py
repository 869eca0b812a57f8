"""The key switch against its identity in big integers; fused, composed and reference bit for bit."""

import itertools
import math

import jax
import numpy as np
import pytest
from references import assert_equals_reference
from residues import centred, chain, compose, negacyclic_product, on_device, random_residues, spread

import fhejax as fhe
from fhejax.primitives import modular
from fhejax.primitives.key_switch import SeededKey, gadget_product, hoisted_rotations, key_masks, key_switch, mod_up
from fhejax.primitives.multiply_ciphertexts import multiply_ciphertexts
from fhejax.primitives.ntt import inverse_ntt, ntt

N = 32
MODULI, SPECIAL, DIGIT_SIZE = chain(N, (45, 40, 41, 39, 42, 50, 51))[:5], chain(N, (45, 40, 41, 39, 42, 50, 51))[5:], 2
BASIS = MODULI + SPECIAL


def random_key(seed, moduli=BASIS):
    return random_residues(seed, moduli, N, (-(-len(MODULI) // DIGIT_SIZE), 2))


def seeded_key(seed, *batch):
    """A seeded key, and the same in full."""
    digits = -(-len(MODULI) // DIGIT_SIZE)
    first = random_residues(seed, BASIS, N, (*batch, digits))
    mask_seed = on_device(np.random.default_rng(seed).integers(0, 2**32, (*batch, 8), dtype=np.uint32))
    masks = key_masks(mask_seed, digits, MODULI, SPECIAL, N)
    return SeededKey(first, mask_seed), on_device(np.stack([first, masks], axis=-3))


def errorless_key(secret, source):
    """A key without noise, in Python integers, from `source` to `secret` (both small integer polynomials)."""
    rng = np.random.default_rng(5)
    product, special = math.prod(MODULI), math.prod(SPECIAL)
    rows = []
    for first in range(0, len(MODULI), DIGIT_SIZE):
        digit = math.prod(MODULI[first : first + DIGIT_SIZE])
        gadget = special * (product // digit) * pow(product // digit, -1, digit)
        halves = []
        for q in BASIS:
            a = [int(v) for v in rng.integers(0, q, N, dtype=np.uint64)]
            b = [(gadget * g - m) % q for g, m in zip(source, negacyclic_product(a, secret, q), strict=True)]
            halves.append((b, a))
        rows.append([[h[k] for h in halves] for k in range(2)])
    return ntt(on_device(np.array(rows, np.uint64)), BASIS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("level", [4, 3, 2, 0])
def test_digits_are_centred_residues(level):
    moduli = MODULI[: level + 1]
    x = random_residues(0, moduli, N)
    raised = np.asarray(inverse_ntt(mod_up(ntt(x, moduli), moduli, SPECIAL, DIGIT_SIZE), moduli + SPECIAL))
    for i, first in enumerate(range(0, len(moduli), DIGIT_SIZE)):
        own = moduli[first : first + DIGIT_SIZE]
        product = math.prod(own)
        digits = [centred(v, product) for v in compose(np.asarray(x)[first : first + DIGIT_SIZE], own)]
        assert np.array_equal(raised[i], spread(digits, moduli + SPECIAL))


@pytest.mark.parametrize("level", [4, 3, 1, 0])
def test_identity(level):
    """u0 + u1 s = c s' up to the rounding of ModDown: half for u0, half times ||s||_1 for u1."""
    rng = np.random.default_rng(1)
    secret, source = (rng.integers(-1, 2, N).tolist() for _ in range(2))
    key, moduli = errorless_key(secret, source), MODULI[: level + 1]
    c = random_residues(3, moduli, N)
    u = np.asarray(inverse_ntt(key_switch(ntt(c, moduli), key, moduli, SPECIAL, DIGIT_SIZE), moduli))
    modulus = math.prod(moduli)
    u0, u1 = (compose(half, moduli) for half in u)
    got = [a + b for a, b in zip(u0, negacyclic_product(u1, secret, modulus), strict=True)]
    expected = negacyclic_product(compose(np.asarray(c), moduli), source, modulus)
    bound = (1 + sum(map(abs, secret))) / 2 + 1
    assert max(abs(centred(a - b, modulus)) for a, b in zip(got, expected, strict=True)) <= bound


def assert_lowerings_agree(function, *operands):
    assert_equals_reference(function(*operands), function, *operands)
    with fhe.lowering("composed"):
        assert_equals_reference(function(*operands), function, *operands)


@pytest.mark.parametrize("level", [4, 2, 0])
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_lowerings_agree(level, batch):
    moduli = MODULI[: level + 1]
    x, key = random_residues(0, moduli, N, batch), random_key(1)
    for function in (key_switch, gadget_product):
        assert_lowerings_agree(lambda x, k, f=function: f(x, k, moduli, SPECIAL, DIGIT_SIZE), x, key)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", [4, 2, 1])
@pytest.mark.parametrize("batch", [(), (2, 2)])
def test_products_of_ciphertexts_agree(level, batch):
    moduli = MODULI[: level + 1]
    x, y, key = random_residues(0, moduli, N, (*batch, 2)), random_residues(1, moduli, N, (2,)), random_key(1)
    assert_lowerings_agree(lambda *z: multiply_ciphertexts(*z, moduli, SPECIAL, DIGIT_SIZE), x, y, key)


def test_hoisted_rotations_agree():
    x, keys, elements = random_residues(0, MODULI, N, (2, 2)), [random_key(i) for i in (1, 2, 3)], (5, 25, 63)
    assert_lowerings_agree(lambda x, *k: hoisted_rotations(x, k, elements, MODULI, SPECIAL, DIGIT_SIZE), x, *keys)


def test_rotations_with_keys_of_different_batches():
    x, one, many = random_residues(0, MODULI, N, (1, 2)), random_key(1)[None], random_key(2)[None].repeat(2, axis=0)
    assert_lowerings_agree(lambda x, *k: hoisted_rotations(x, k, (5, 25), MODULI, SPECIAL, DIGIT_SIZE), x, one, many)


def test_hoisted_equals_single():
    x, keys, elements = random_residues(0, MODULI, N, (2,)), [random_key(i) for i in (1, 2)], (5, 63)
    together = hoisted_rotations(x, keys, elements, MODULI, SPECIAL, DIGIT_SIZE)
    for result, key, element in zip(together, keys, elements, strict=True):
        (alone,) = hoisted_rotations(x, [key], (element,), MODULI, SPECIAL, DIGIT_SIZE)
        np.testing.assert_array_equal(result, alone)


def test_a_key_for_each_entry():
    """vmap over ciphertexts and keys, with a batch inside that shares the entry's key."""
    x, keys = random_residues(0, MODULI, N, (3, 2)), [random_key(i) for i in range(3)]
    switch = lambda a, k: key_switch(a, k, MODULI, SPECIAL, DIGIT_SIZE)
    stacked = on_device(np.stack([np.asarray(k) for k in keys]))
    mapped = jax.vmap(switch)(x, stacked)
    for entry in range(3):
        np.testing.assert_array_equal(mapped[entry], switch(x[entry], keys[entry]))
    many_keys = jax.vmap(switch, in_axes=(None, 0))(x[0], stacked)
    np.testing.assert_array_equal(many_keys[2], switch(x[0], keys[2]))


def test_more_terms_than_an_accumulator_holds():
    """61-bit residues at their largest, with more digits than fit into one 128-bit sum."""
    n, terms = 8, 130
    (q,) = chain(n, (61,))
    digits = on_device(np.full((terms, 1, n), q - 1, np.uint64))
    key = on_device(np.full((terms, 2, 1, n), q - 1, np.uint64))
    from fhejax.primitives.key_switch import inner_product

    got = np.asarray(inner_product(digits, key, (q,)))
    assert np.all(got == terms % q)
    assert_equals_reference(got, lambda d, k: inner_product(d, k, (q,)), digits, key)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("lowering", "level", "batch"),
    [*itertools.product(["native", "composed"], [4, 3, 0], [(), (2, 2)]), ("reference", 1, (2,))],
)
def test_a_seeded_key_gives_the_bits_of_the_full_one(lowering, level, batch):
    moduli = MODULI[: level + 1]
    x, y = random_residues(0, moduli, N, (*batch, 2)), random_residues(1, moduli, N, (2,))
    keys, full = zip(*(seeded_key(seed) for seed in (1, 2)), strict=True)

    def operations(key, other):
        one, rest = x[..., 1, :, :], (moduli, SPECIAL, DIGIT_SIZE)
        results = [key_switch(one, key, *rest), gadget_product(one, key, *rest)]
        results += hoisted_rotations(x, [key], (5,), *rest) + hoisted_rotations(x, [key, other], (25, 63), *rest)
        return results + ([multiply_ciphertexts(x, y, key, *rest)] if level else [])

    with fhe.lowering(lowering):
        got = jax.jit(operations)(*keys)
    jax.tree.map(np.testing.assert_array_equal, got, operations(*full))


def test_a_seeded_key_for_each_entry():
    """More entries than go through together, two of them neighbours with one key."""
    n = 11
    keys, full = seeded_key(1, n)
    keys, full = (jax.tree.map(lambda a: a.at[4].set(a[3]), tree) for tree in (keys, full))
    x = random_residues(0, MODULI, N, (n, 2))
    switch = lambda a, k: key_switch(a, k, MODULI, SPECIAL, DIGIT_SIZE)
    for axes in ((0, 0), (None, 0), (0, None)):
        operands = [
            [
                value if axis == 0 else jax.tree.map(lambda a: a[3], value)
                for value, axis in zip(pair, axes, strict=True)
            ]
            for pair in ((x, keys), (x, full))
        ]
        got, expected = (jax.vmap(switch, in_axes=axes)(*pair) for pair in operands)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("lowering", ["native", "composed", "reference"])
def test_rotations_with_keys_of_both_kinds(lowering):
    x, (key, full), other = random_residues(0, MODULI, N, (2,)), seeded_key(1), random_key(2)
    rotations = lambda *keys: hoisted_rotations(x, keys, (5, 25, 63), MODULI, SPECIAL, DIGIT_SIZE)
    with fhe.lowering(lowering):
        got = rotations(other, key, other)
    jax.tree.map(np.testing.assert_array_equal, got, rotations(other, full, other))


@pytest.mark.parametrize(
    ("spoil", "error", "says"),
    [
        (lambda b, s: (b.astype("uint32"), s), TypeError, "the key is uint32, not uint64"),
        (lambda b, s: (b, b[0, 0, :8]), TypeError, "the seed of a key's masks is uint32[..., 8], got uint64[8]"),
        (lambda b, s: (b, s[:4]), ValueError, "the seed of a key's masks is uint32[..., 8], got uint32[4]"),
        (lambda b, s: (b[:1], s), ValueError, "at least 3 digits, at least 7 limbs, 32)"),
        (lambda b, s: (b[..., :4, :], s), ValueError, "at least 7 limbs"),
        (lambda b, s: (b[..., :16], s), ValueError, "32)"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_refuses_seeded_keys_that_do_not_fit(spoil, error, says):
    x, key = random_residues(0, MODULI, N, (2,)), SeededKey(*spoil(*seeded_key(1)[0]))
    calls = [
        lambda x, k: key_switch(x[0], k, MODULI, SPECIAL, DIGIT_SIZE),
        lambda x, k: multiply_ciphertexts(x, x, k, MODULI, SPECIAL, DIGIT_SIZE),
        lambda x, k: hoisted_rotations(x, [k], (5,), MODULI, SPECIAL, DIGIT_SIZE),
    ]
    for call in calls:
        with pytest.raises(error) as caught:
            jax.eval_shape(call, x, key)
        assert says in str(caught.value)


@pytest.mark.parametrize(
    ("spoil", "error", "says"),
    [
        (lambda k: k.astype("uint32"), TypeError, "not uint64"),
        (lambda k: k[:1], ValueError, "at least 3 digits"),
        (lambda k: k[..., :4, :], ValueError, "at least 7 limbs"),
        (lambda k: k[..., :16], ValueError, "32)"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_refuses_keys_that_do_not_fit(spoil, error, says):
    x = modular.negate(random_residues(0, MODULI, N), MODULI)
    with pytest.raises(error) as caught:
        jax.eval_shape(lambda a, k: key_switch(a, k, MODULI, SPECIAL, DIGIT_SIZE), x, spoil(random_key(1)))
    assert says in str(caught.value)
