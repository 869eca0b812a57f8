"""Streams against their definition in Python integers, in every lowering; and the distributions they have."""

import functools
import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from references import assert_equals_reference, lowerings
from scipy import stats

from fhejax.parameters.primes import largest_primes
from fhejax.primitives import native, sampling
from fhejax.primitives.sampling import (
    chacha20,
    gaussian_thresholds,
    sample_gaussian,
    sample_sparse_ternary,
    sample_ternary,
    sample_uniform,
)
from fhejax.scheme.random import split_seed

LOWERINGS = ("native", "reference")
SEED = np.arange(8, dtype=np.uint32) * np.uint32(0x9E3779B9)
SAMPLERS = {
    "uniform": sample_uniform,
    "ternary": sample_ternary,
    "gaussian": functools.partial(sample_gaussian, deviation=3.19),
    "sparse": functools.partial(sample_sparse_ternary, weight=8),
}


# --- the definition, in Python integers ----------------------------------------------------------------------------


def block(key, counter, nonce):
    """RFC 8439, section 2.3, word by word."""
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *key, counter, *nonce]
    x = list(start)

    def quarter(a, b, c, d):
        for target, source, mixed, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[target] = x[target] + x[source] & 0xFFFFFFFF
            rotated = x[mixed] ^ x[target]
            x[mixed] = (rotated << bits | rotated >> (32 - bits)) & 0xFFFFFFFF

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return [a + b & 0xFFFFFFFF for a, b in zip(x, start, strict=True)]


def numbers(seed, nonce, count, words):
    """The first numbers of a stream, each made of so many words, the first word the lowest."""
    stream = [word for b in range(-(-count * words // 16)) for word in block(seed, b, nonce)]
    return [sum(stream[words * i + k] << (32 * k) for k in range(words)) for i in range(count)]


def uniform(seed, count, moduli, degree):
    return [[[r % q for r in numbers(seed, (2, k, j), degree, 4)] for j, q in enumerate(moduli)] for k in range(count)]


def in_every_limb(small, moduli):
    return [[[x % q for x in row] for q in moduli] for row in small]


def ternary(seed, count, moduli, degree):
    rows = (numbers(seed, (3, k, 0), degree, 2) for k in range(count))
    return in_every_limb([[(3 * r >> 64) - 1 for r in row] for row in rows], moduli)


def with_sign(r):
    return -1 if r >> 127 else 1, r % (1 << 127)


def gaussian(seed, count, moduli, degree, deviation=3.19):
    bounds = exact_thresholds(deviation)
    draws = [[with_sign(r) for r in numbers(seed, (4, k, 0), degree, 4)] for k in range(count)]
    return in_every_limb([[sign * sum(t <= u for t in bounds) for sign, u in row] for row in draws], moduli)


def sparse(seed, count, moduli, degree, weight=8):
    rows = []
    for k in range(count):
        places, row = list(range(degree)), [0] * degree
        for j, (sign, u) in enumerate(map(with_sign, numbers(seed, (5, k, 0), weight, 4))):
            other = j + u % (degree - j)
            places[j], places[other] = places[other], places[j]
            row[places[j]] = sign
        rows.append(row)
    return in_every_limb(rows, moduli)


ORACLES = {"uniform": uniform, "ternary": ternary, "gaussian": gaussian, "sparse": sparse}


@functools.cache
def exact_weights(deviation, bits=600):
    """2^bits exp(-k^2 / (2 sigma^2)) for k < 40 sigma, by the exponential series and integer products."""
    numerator, denominator = deviation.as_integer_ratio()
    one, x = 1 << bits, ((denominator**2) << bits) // (2 * numerator**2)
    base, term, i = one, one, 0
    while term:
        i += 1
        term = term * x // one // i
        base += -term if i % 2 else term
    weights = []
    for k in range(math.ceil(40 * deviation)):
        weight, power, exponent = one, base, k * k
        while exponent:
            if exponent & 1:
                weight = weight * power >> bits
            power, exponent = power * power >> bits, exponent >> 1
        weights.append(weight)
    return weights


@functools.cache
def exact_thresholds(deviation):
    first, *others = exact_weights(deviation)
    total, below, thresholds = first + 2 * sum(others), first, []
    for weight in [*others[: math.ceil(12.5 * deviation) - 1], 0]:
        thresholds.append(((below << 128) + total) // (2 * total))  # rounds to nearest
        below += 2 * weight
    return thresholds


# --- ChaCha20 --------------------------------------------------------------------------------------------------------

COUNTING = [int.from_bytes(bytes(range(4 * i, 4 * i + 4)), "little") for i in range(8)]
VECTORS = {  # key, counter, nonce, block
    "2.3.2": (
        (COUNTING, 1, (0x09000000, 0x4A000000, 0)),
        "e4e7f110 15593bd1 1fdd0f50 c47120a3 c7f4d1c7 0368c033 9aaa2204 4e6cd4c3"
        " 466482d2 09aa9f07 05d7c214 a2028bd9 d19c12b5 b94e16de e883d0cb 4e3c50a2",
    ),
    "A.1 #1": (
        ([0] * 8, 0, (0, 0, 0)),
        "ade0b876 903df1a0 e56a5d40 28bd8653 b819d2bd 1aed8da0 ccef36a8 c70d778b"
        " 7c5941da 8d485751 3fe02477 374ad8b8 f4b8436a 1ca11815 69b687c3 8665eeb2",
    ),
    "A.1 #2": (
        ([0] * 8, 1, (0, 0, 0)),
        "bee7079f 7a385155 7c97ba98 0d082d73 a0290fcb 6965e348 3e53c612 ed7aee32"
        " 7621b729 434ee69c b03371d5 d539d874 281fed31 45fb0a51 1f0ae1ac 6f4d794b",
    ),
    "A.1 #3": (
        ([0] * 7 + [0x01000000], 1, (0, 0, 0)),
        "2452eb3a 9249f8ec 8d829d9b ddd4ceb1 e8252083 60818b01 f38422b8 5aaa49c9"
        " bb00ca8e da3ba7b4 c4b592d1 fdf2732f 4436274e 2561b3c8 ebdd4aa6 a0136c00",
    ),
    "A.1 #4": (
        ([0xFF00] + [0] * 7, 2, (0, 0, 0)),
        "fb4dd572 4bc42ef1 df922636 327f1394 a78dea8f 5e269039 a1bebbc1 caf09aae"
        " a25ab213 48a6b46c 1b9d9bcb 092c5be6 546ca624 1bec45d5 87f47473 96f0992e",
    ),
    "A.1 #5": (
        ([0] * 8, 0, (0, 0, 0x02000000)),
        "374dc6c2 3736d58c b904e24a cd3f93ef 88228b1a 96a4dfb3 5b76ab72 c727ee54"
        " 0e0e978a f3145c95 1b748ea8 f786c297 99c28f5f 628314e8 398a19fa 6ded1b53",
    ),
}


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("name", VECTORS)
def test_rfc_8439(name, lowering):
    (key, counter, nonce), text = VECTORS[name]
    want = [int(word, 16) for word in text.split()]
    assert block(key, counter, nonce) == want
    with native.lowering(lowering):
        got = chacha20(np.array(key, np.uint32), np.array([[counter, *nonce]], np.uint32))
    assert np.asarray(got).tolist() == [want]


@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 2**32 - 1))
def test_chacha20_of_batches(seed):
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 2**32, (3, 1, 8), dtype=np.uint32)
    places = rng.integers(0, 2**32, (2, 4, 4), dtype=np.uint32)
    places[0, 0] = 2**32 - 1
    want = [[[block(key[0].tolist(), *split(p)) for p in row] for row in places] for key in keys]
    for lowering in lowerings(*LOWERINGS):
        with native.lowering(lowering):
            assert np.asarray(chacha20(keys, places)).tolist() == want


def split(place):
    counter, *nonce = place.tolist()
    return counter, nonce


# --- the streams -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("degree", [8, 64, 2048])  # 2048: more than one piece of work in the kernel
@pytest.mark.parametrize("name", SAMPLERS)
def test_is_the_definition(name, degree, lowering):
    moduli = (largest_primes(1, 61, 4096)[0], largest_primes(1, 20, 4096)[0])
    with native.lowering(lowering):
        got = SAMPLERS[name](SEED, 2, moduli, degree)
    assert got.dtype == np.uint64
    assert np.asarray(got).tolist() == ORACLES[name](SEED.tolist(), 2, moduli, degree)


@pytest.mark.parametrize("degree", [8, 64])
def test_gaussian_at_the_thresholds(degree, monkeypatch):
    """A number reaches a threshold equal to it, and not the next one: in both of the words that are compared."""
    drawn = [with_sign(r) for r in numbers(SEED.tolist(), (4, 0, 0), degree, 4)]
    bounds = [u + d for _, u in drawn for d in (0, 1, -1, 1 << 64, -(1 << 64))] + [0, 2**127]
    words = np.array([divmod(bound, 1 << 64) for bound in bounds], np.uint64).reshape(-1)
    monkeypatch.setattr(sampling, "threshold_words", lambda deviation: words)
    moduli = largest_primes(1, 30, 128)
    got = np.asarray(sample_gaussian(SEED, 1, moduli, degree, 3.0 + degree / 1024))
    assert got.tolist() == in_every_limb([[sign * sum(t <= u for t in bounds) for sign, u in drawn]], moduli)


@settings(deadline=None, max_examples=5)
@given(
    words=st.lists(st.integers(0, 2**32 - 1), min_size=48, max_size=48),
    log_degree=st.integers(3, 12),
    bits=st.lists(st.integers(20, 61), min_size=1, max_size=3, unique=True),
    count=st.integers(1, 3),
    batch=st.sampled_from([(), (1,), (2, 3)]),
)
@pytest.mark.parametrize("name", SAMPLERS)
def test_native_equals_reference(name, words, log_degree, bits, count, batch):
    seeds = np.array(words[: 8 * math.prod(batch)], np.uint32).reshape(*batch, 8)
    moduli = tuple(largest_primes(1, b, 16)[0] for b in bits)
    sample = lambda seeds: SAMPLERS[name](seeds, count, moduli, 1 << log_degree)
    assert sample(seeds).shape == (*batch, count, len(moduli), 1 << log_degree)
    assert_equals_reference(sample(seeds), sample, seeds)


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("count, weight", [(0, 3), (2, 0), (2, 16)])
def test_sparse_at_the_ends(count, weight, lowering):
    moduli = largest_primes(2, 30, 32)
    with native.lowering(lowering):
        got = np.asarray(sample_sparse_ternary(SEED, count, moduli, 16, weight))
    assert got.shape == (count, 2, 16)
    assert got.tolist() == sparse(SEED.tolist(), count, moduli, 16, weight)


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("name", SAMPLERS)
def test_vmap_is_stacking_and_jit_changes_nothing(name, lowering):
    moduli = largest_primes(2, 40, 128)
    sample = lambda seed: SAMPLERS[name](seed, 2, moduli, 64)
    seeds = split_seed(SEED, 4)
    with native.lowering(lowering):
        want = np.stack([sample(seed) for seed in seeds])
        np.testing.assert_array_equal(jax.vmap(sample)(seeds), want)
        np.testing.assert_array_equal(sample(seeds), want)
        nested = jax.jit(jax.vmap(jax.vmap(sample, in_axes=1)))(seeds.reshape(2, 2, 8).swapaxes(1, 2))
        np.testing.assert_array_equal(nested, want.reshape(2, 2, *want.shape[1:]))


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("name", SAMPLERS)
def test_x64_flag_changes_nothing(name, lowering):
    moduli = largest_primes(2, 50, 128)
    got = []
    for flag in (False, True):
        with jax.enable_x64(flag), native.lowering(lowering):
            got.append(jax.jit(lambda seed: SAMPLERS[name](seed, 1, moduli, 64))(SEED))
            assert got[-1].dtype == np.uint64 and jax.config.jax_enable_x64 == flag
    np.testing.assert_array_equal(*got)


@pytest.mark.parametrize("name", SAMPLERS)
def test_seeds_and_objects_have_streams_of_their_own(name):
    q = largest_primes(1, 50, 512)[0]
    flipped = [SEED ^ np.uint32(1 << 31) * np.eye(8, dtype=np.uint32)[i] for i in range(8)]
    rows = [row for seed in (SEED, *flipped) for row in np.asarray(SAMPLERS[name](seed, 3, (q,), 256))[:, 0]]
    assert len({row.tobytes() for row in rows}) == len(rows) == 27
    np.testing.assert_array_equal(SAMPLERS[name](SEED, 1, (q,), 256), SAMPLERS[name](SEED, 3, (q,), 256)[:1])


def test_uses_of_a_seed_share_no_word():
    tags = (1, sampling.UNIFORM, sampling.TERNARY, sampling.GAUSSIAN, sampling.SPARSE)
    places = np.array([(b, t, k, j) for t in tags for k in range(4) for j in range(4) for b in range(8)], np.uint32)
    words = np.asarray(chacha20(SEED, places))
    assert len(np.unique(words, axis=0)) == len(places)
    # n (n - 1) / 2^33 pairs of equal words are expected by chance: 1.5 pairs.
    assert words.size - len(np.unique(words)) < 12


# --- the distributions -----------------------------------------------------------------------------------------------
#
# The seed is fixed and was not chosen. A right sampler passes a two-sided test at 10^-6 with any seed but two in a
# million; at these sample sizes a bias of a few percent in any class fails it by orders of magnitude.

CHANCE = 1e-6
MODULUS = (largest_primes(1, 50, 2**13)[0],)


def assert_fits(observed, expected, scale=1.0):
    observed, expected = np.asarray(observed, float), np.asarray(expected, float)
    assert abs(observed.sum() - expected.sum()) < 1e-6 * observed.sum() and expected.min() > 10
    p = stats.chi2.sf(np.sum((observed - expected) ** 2 / expected) * scale, len(expected) - 1)
    assert CHANCE < p < 1 - CHANCE, (p, observed, expected)


def centred(sample, *arguments, count=64, degree=4096):
    residues = np.asarray(sample(SEED, count, MODULUS, degree, *arguments))[:, 0].astype(np.int64)
    return np.where(residues > MODULUS[0] // 2, residues - MODULUS[0], residues)


def test_uniform_fills_its_range_evenly():
    moduli = (MODULUS[0], largest_primes(1, 20, 2**13)[0], largest_primes(1, 61, 2**13)[0])
    x = np.asarray(sample_uniform(SEED, 32, moduli, 4096))
    for limb, q in enumerate(moduli):
        row = x[:, limb].ravel()
        assert row.max() < q
        assert_fits(np.histogram(row.astype(float), 256, (0, q))[0], np.full(256, row.size / 256))
        low = np.bincount(row % np.uint64(64), minlength=64)  # q mod 64 is too small a part of q to be seen
        assert_fits(low, np.full(64, row.size / 64))


def test_uniform_limbs_objects_and_neighbours_are_independent():
    q = MODULUS[0]
    x = np.asarray(sample_uniform(SEED, 64, (q, q), 4096)) * np.float64(16 / q)
    cells = x.astype(np.int64)
    pairs = {
        "limbs": (cells[:, 0], cells[:, 1]),
        "objects": (cells[:-1, 0], cells[1:, 0]),
        "coefficients": (cells[:, 0, :-1], cells[:, 0, 1:]),
        "blocks": (cells[:, 0, :-4], cells[:, 0, 4:]),
    }
    for a, b in pairs.values():
        joint = np.bincount((16 * a + b).ravel(), minlength=256)
        assert_fits(joint, np.full(256, a.size / 256))


def test_ternary_takes_its_three_values_equally_often():
    x = centred(sample_ternary)
    assert_fits([np.sum(x == v) for v in (-1, 0, 1)], np.full(3, x.size / 3))
    joint = np.bincount((3 * (x[:-1] + 1) + x[1:] + 1).ravel(), minlength=9)
    assert_fits(joint, np.full(9, joint.sum() / 9))


@pytest.mark.parametrize("deviation", [0.5, 3.19, 3.2, 8.0, 79.9])
def test_gaussian_thresholds_are_exact(deviation):
    assert list(gaussian_thresholds(deviation)) == exact_thresholds(deviation)


def test_gaussian_is_within_2_to_the_minus_110_of_the_discrete_gaussian():
    weights, thresholds = exact_weights(3.19), gaussian_thresholds(3.19)
    total = weights[0] + 2 * sum(weights[1:])
    assert len(thresholds) == 40 and list(thresholds) == sorted(set(thresholds)) and thresholds[-1] < 2**127
    made = np.diff([0, *thresholds, 2**127]).tolist() + [0] * (len(weights) - 41)
    distance = sum(
        abs((m * total) - (w << (127 + (k > 0)))) for k, (m, w) in enumerate(zip(made, weights, strict=True))
    )
    assert distance < total * 2 ** (127 - 110)  # what is cut off beyond 12.5 sigma


@pytest.mark.parametrize("deviation", [3.19, 1.0])
def test_gaussian_has_its_distribution(deviation):
    x = centred(sample_gaussian, deviation)
    weights = np.array([w / (1 << 600) for w in exact_weights(deviation)])
    probability = weights / (weights[0] + 2 * weights[1:].sum())
    edge = int(np.flatnonzero(probability * x.size > 20)[-1])  # beyond it, one class on either side
    tail = probability[edge:].sum()
    expected = [tail, *probability[edge - 1 : 0 : -1], *probability[:edge], tail]
    clipped = np.clip(x, -edge, edge)
    assert_fits([np.sum(clipped == v) for v in range(-edge, edge + 1)], np.array(expected) * x.size)
    variance = np.mean(x.astype(float) ** 2)
    exact = 2 * np.sum(probability * np.arange(len(probability)) ** 2)
    assert abs(variance - exact) < 5 * deviation**2 * math.sqrt(2 / x.size)
    # The largest of n values: more than 2 P(X > b) n = 10^-6 expected beyond the bound b.
    bound = deviation * math.sqrt(2 * math.log(x.size * 1e6))
    assert 3.5 * deviation < np.max(np.abs(x)) < bound


def test_sparse_has_its_weight_with_even_signs_and_places():
    degree, weight, count = 64, 8, 4096
    x = centred(sample_sparse_ternary, weight, count=count, degree=degree)
    assert np.all(np.sum(x != 0, axis=1) == weight) and set(np.unique(x)) == {-1, 0, 1}
    assert_fits([np.sum(x == 1), np.sum(x == -1)], np.full(2, count * weight / 2))
    # Places are drawn without replacement: that shrinks the variance by (N - h) / (N - 1).
    places = np.sum(x != 0, axis=0)
    assert_fits(places, np.full(degree, count * weight / degree), scale=(degree - 1) / (degree - weight))
    together = (x != 0).astype(int).T @ (x != 0)
    chance = weight * (weight - 1) / (degree * (degree - 1))
    pairs = together[np.triu_indices(degree, 1)]
    assert np.max(np.abs(pairs - count * chance)) < 7 * math.sqrt(count * chance)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda q: sample_gaussian(SEED, 1, q, 8, 0.0), ValueError, "deviation = 0.0; need 0 < deviation <= 80"),
        (lambda q: sample_gaussian(SEED, 1, q, 8, 81.0), ValueError, "deviation = 81.0"),
        (lambda q: sample_gaussian(SEED, 1, q, 8, math.nan), ValueError, "deviation = nan"),
        (lambda q: sample_gaussian(SEED, 1, (17,), 8, 3.19), ValueError, "12.5 deviation < every modulus"),
        (lambda q: sample_sparse_ternary(SEED, 1, q, 8, 9), ValueError, "weight = 9; need 0..8"),
        (lambda q: sample_sparse_ternary(SEED, 1, q, 8, -1), ValueError, "weight = -1; need 0..8"),
        (lambda q: sampling._uniform(SEED[:7], count=1, moduli=q, degree=8), ValueError, r"got uint32\[7\]"),
        (lambda q: sampling._ternary(SEED.view(np.int32), count=1, moduli=q, degree=8), TypeError, r"got int32\[8\]"),
        (lambda q: sampling._chacha20(SEED, np.zeros((1, 3), np.uint32)), ValueError, r"a place is uint32\[..., 4\]"),
    ],
)
def test_refuses(call, error, says):
    with pytest.raises(error, match=says):
        call(largest_primes(1, 30, 16))
