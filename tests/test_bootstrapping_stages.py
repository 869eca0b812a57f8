"""The stages of bootstrapping against their meanings in the clear; the transforms, the keys, and how often it fails."""

import functools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bootstrapping_cases import SPARSE, encrypted, opened, pairs, run, setup, values
from hypothesis import given, settings, strategies as st
from operations import seed
from residues import centred, compose
from scipy import stats

import fhejax as fhe
from fhejax.bootstrapping import dft, keys as bootstrapping_keys, stages
from fhejax.bootstrapping.failure import log2_exceeding, log2_failure
from fhejax.kinds import noise
from fhejax.primitives.key_switch import key_masks
from fhejax.primitives.modular import multiply_add
from fhejax.primitives.ntt import inverse_ntt, ntt
from fhejax.primitives.sampling import sample_sparse_ternary
from fhejax.scheme.random import split_seed

PACKINGS = pytest.mark.parametrize("slots", [None, SPARSE], ids=["full", "sparse"])


def integers(secret, x):
    """The polynomial that a ciphertext holds, in centred Python integers."""
    params, level = x.params, x.level
    moduli = params.moduli_at(level)
    with jax.enable_x64(True):
        values = multiply_add(x.data[1], secret.data[: level + 1], x.data[0], moduli)
        residues = np.asarray(inverse_ntt(values, moduli))
    modulus = functools.reduce(int.__mul__, moduli)
    return np.array([centred(t, modulus) for t in compose(residues, moduli)], object)


@PACKINGS
def test_raised_integers_are_equal_modulo_q0(slots):
    """In big integers: t = unit (m + q_0 I) + error, with small I that are as uncertain as the model says."""
    s = setup(slots)
    params, how = s.boot.params, s.boot
    index = params.degree // 2 // s.slots
    q, unit, weight = params.moduli[0], index * how.raised, how.preset.secret_weight
    x = stages.slot_to_coeff(encrypted(s, values(s, "complex")), s.keys)
    m, t = integers(s.secret, x)[::index], integers(s.secret, stages.mod_raise(x, s.keys))
    multiples = np.array([round(Fraction(int(a - unit * b), unit * q)) for a, b in zip(t[::index], m, strict=True)])
    error = np.array([int(a - unit * (b + q * int(i))) for a, b, i in zip(t[::index], m, multiples, strict=True)])
    assert np.max(np.abs(multiples)) <= weight // 2
    # A sum of h + 1 uniform numbers.
    expected = 2 * s.slots * (weight + 1) / 12
    assert abs(np.sum(multiples.astype(float) ** 2) / expected - 1) < 6 / s.slots**0.5
    switches = unit**2 * noise.key_switch_to_sparse(params, weight)
    switches += noise.key_switch(params, params.max_level) * sum((index >> i) ** 2 for i in range(index.bit_length()))
    assert 0.8 < np.sqrt(np.mean(error.astype(float) ** 2) / switches) < 1.25
    if slots is not None:  # what lies between is cleared
        between = np.delete(t, np.arange(0, params.degree, index))
        assert np.max(np.abs(between.astype(float))) < 2.0**-20 * unit * q


@PACKINGS
def test_coefficients_become_slots(slots):
    """Each half as real slots, up to their order, and divided by what the sine takes."""
    s = setup(slots)
    x = stages.mod_raise(stages.slot_to_coeff(encrypted(s, values(s, "complex")), s.keys), s.keys)
    index = s.boot.params.degree // 2 // s.slots
    sizes = s.boot.params.scale_at(x.level) / (s.boot.raised * s.boot.params.moduli[0] * index * s.boot.sine.width)
    halves = stages.coeff_to_slot(x, s.keys)
    assert all(half.real and half.level == s.boot.preset.sine_level for half in halves)
    got = np.concatenate([opened(s, half) for half in halves]).reshape(2, s.slots)
    meant = pairs(opened(s, x)) * sizes
    np.testing.assert_allclose(np.sort_complex(got[0] + 1j * got[1]), np.sort_complex(meant), atol=2.0**-30)
    (first,) = stages.coeff_to_slot(x, s.keys, real=True)
    np.testing.assert_allclose(np.sort(opened(s, first)), np.sort(meant.real), atol=2.0**-30)


@PACKINGS
def test_slots_become_coefficients(slots):
    s = setup(slots)
    message = values(s, "complex")
    x = stages.slot_to_coeff(encrypted(s, message), s.keys)
    assert x.level == 0 and not x.real
    np.testing.assert_allclose(np.sort_complex(pairs(opened(s, x))), np.sort_complex(message), atol=2.0**-20)


def test_transforms_undo_each_other():
    """Slots, from the top to coefficients and back: one of the two orders, in which what follows finds its place."""
    s = setup(slots_first=False)
    params = s.boot.params
    message = values(s, "complex")
    x = fhe.encrypt(seed(16), s.secret, fhe.encode(message, params, level=params.max_level))
    index = params.degree // 2 // s.slots
    sizes = params.scale_at(x.level) / (s.boot.raised * params.moduli[0] * index * s.boot.sine.width)
    y = stages.slot_to_coeff(stages.joined(stages.coeff_to_slot(x, s.keys)), s.keys)
    assert y.level == s.boot.output_level
    np.testing.assert_allclose(opened(s, y), message * sizes, atol=2.0**-20 * sizes)


@pytest.mark.parametrize("extreme", [False, True])
def test_multiples_are_taken_away(extreme):
    """For every integer that may occur, of messages up to the bound."""
    s = setup()
    how, rng = s.boot, np.random.default_rng(1)
    multiples = rng.integers(-how.preset.bound, how.preset.bound + 1, s.slots)
    message = rng.uniform(-1, 1, s.slots)
    if extreme:
        multiples, message = np.sign(multiples + 0.5) * how.preset.bound, np.sign(message)
    x = (multiples + message / how.ratio) / how.sine.width
    x = fhe.encrypt(seed(17), s.secret, fhe.encode(x, how.params, level=how.preset.sine_level))
    y = stages.eval_mod(x, s.keys)
    assert y.level == how.preset.level and y.real
    limit = how.sine.error + 2.0**-19  # the operand's error is multiplied by the ratio and the width
    assert np.max(np.abs(opened(s, y) - message)) < limit


def test_times_i():
    s = setup()
    message = values(s, "complex")
    x = encrypted(s, message)
    y = stages.multiply_by_i(x)
    with jax.enable_x64(True):
        np.testing.assert_allclose(opened(s, y), 1j * opened(s, x), atol=1e-15)
        z = fhe.simulate(message, s.boot.params, noise_seed=1)
        turned = stages.multiply_by_i(stages.multiply_by_i(z))
        np.testing.assert_array_equal(turned.values, -z.values)
        np.testing.assert_array_equal(turned.errors, -z.errors)


# --- transforms ----------------------------------------------------------------------------------------------------

SIZES = st.integers(1, 7).map(lambda log: 1 << log)


def random_slots(slots, number):
    rng = np.random.default_rng(number)
    return rng.normal(size=slots) + 1j * rng.normal(size=slots)


@given(SIZES, st.integers(1, 7), st.integers(0, 100))
@settings(deadline=None, max_examples=40)
def test_factors_make_the_fourier_transform(slots, levels, number):
    """z_j = sum_k w_k zeta^(5^j k), w in reversed order; the inverse; and as few diagonals as stages allow."""
    w = random_slots(slots, number)
    bits = slots.bit_length() - 1
    reversed_order = [int(f"{k:0{bits}b}"[::-1], 2) for k in range(slots)]
    powers = np.array([pow(5, j, 4 * slots) for j in range(slots)])
    meant = np.exp(2j * np.pi * (powers[:, None] * np.array(reversed_order) % (4 * slots)) / (4 * slots)) @ w
    forward = dft.slots_to_coefficients_factors(slots, levels)
    backward = dft.coefficients_to_slots_factors(slots, levels)
    np.testing.assert_allclose(run(forward, w), meant, atol=1e-11 * slots)
    np.testing.assert_allclose(run(backward, meant), w, atol=1e-11 * slots)
    assert len(forward) == len(backward) == min(levels, bits)
    for factor in (*forward, *backward):
        assert len(factor) < 2 ** (-(-bits // len(forward)) + 1)


# --- keys ----------------------------------------------------------------------------------------------------------


def test_encapsulation_keys():
    """first + mask target = P g source + error, with the errors of a key."""
    s = setup()
    params, weight, degree = s.boot.params, s.boot.preset.secret_weight, s.boot.params.degree
    basis = params.moduli + params.special_moduli
    with jax.enable_x64(True):
        down, up = bootstrapping_keys.encapsulation_keys(seed(18), s.secret.data, params, weight)
        coefficients = sample_sparse_ternary(split_seed(seed(18), 3)[0], 1, basis, degree, weight)[0]
        sparse = np.asarray(ntt(coefficients, basis))
    rows = np.array([0, len(params.moduli)])
    cases = [(down, s.secret.data[rows], sparse[rows], (params.moduli[:1],), params.special_moduli[:1])]
    cases += [(up, sparse, s.secret.data, params.digit_moduli(params.max_level), params.special_moduli)]
    for key, source, target, digits, special in cases:
        moduli = sum(digits, ()) + special
        p = functools.reduce(int.__mul__, special)
        with jax.enable_x64(True):
            masks = key_masks(key.mask_seed, len(digits), sum(digits, ()), special, degree)
            sums = np.asarray(multiply_add(masks, jnp.asarray(target), key.first, moduli))
        assert sums.shape == (len(digits), len(moduli), degree)
        for i, digit in enumerate(digits):
            gadget = [p if q in digit else 0 for q in moduli]
            rest = [[(int(a) - g * int(b)) % q for a, b in zip(*each, strict=True)] for *each, g, q in
                    zip(sums[i], np.asarray(source), gadget, moduli, strict=True)]  # fmt: skip
            with jax.enable_x64(True):
                errors = np.asarray(inverse_ntt(jnp.asarray(np.array(rest, np.uint64)), moduli))
            errors = np.array([[centred(int(e), q) for e in row] for row, q in zip(errors, moduli, strict=True)])
            assert np.all(errors == errors[0]) and np.max(np.abs(errors)) < 7 * params.error_deviation
            assert 0.9 < np.std(errors[0]) / params.error_deviation < 1.1


def test_sparse_secrets():
    """Exactly h coefficients 1 or -1, the same modulo every prime; every place and both signs as likely."""
    degree, weight, count = 64, 8, 500
    moduli = fhe.Parameters.for_depth(1, log_degree=6, security=None).moduli
    with jax.enable_x64(True):
        draw = jax.vmap(lambda words: sample_sparse_ternary(words, 1, moduli, degree, weight)[0])
        residues = np.asarray(jax.jit(draw)(split_seed(seed(19), count)))
    secrets = np.where(residues > 1, residues.astype(np.int64) - np.array(moduli)[:, None], residues.astype(np.int64))
    assert np.all(secrets[:, 0] == secrets[:, 1])
    secrets = secrets[:, 0]
    assert set(np.unique(secrets)) == {-1, 0, 1} and np.all(np.sum(np.abs(secrets), axis=1) == weight)
    places = np.sum(np.abs(secrets), axis=0)
    # A place is taken or not, of which the variance is less than Poisson's.
    statistic = np.sum((places - count * weight / degree) ** 2) / (count * weight / degree * (1 - weight / degree))
    assert 0.001 < stats.chi2.sf(statistic, degree - 1) < 0.999
    assert abs(np.sum(secrets)) < 4 * (count * weight) ** 0.5


# --- how often it fails --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weight, bound, log_degree, log2",
    [(32, 12, 16, -34), (32, 14, 16, -62), (32, 16, 15, -139.7), (32, 16, 16, -138.7), (64, 16, 15, -25),
     (64, 25, 16, -96), (192, 25, 16, -16), (192, 28, 15, -24)],
)  # fmt: skip
def test_customary_bounds(weight, bound, log_degree, log2):
    """Those in the literature: the sum of uniform numbers beyond K."""
    assert abs(log2_exceeding(weight, bound, 2**log_degree) - log2) < 1


def test_failure_by_monte_carlo():
    """Of 3 and of 9 uniform numbers, against 10^6 draws."""
    rng = np.random.default_rng(2)
    for weight, limit in ((2, Fraction(1)), (8, Fraction(3, 2)), (8, Fraction(2))):
        sums = rng.uniform(-0.5, 0.5, (1_000_000, weight + 1)).sum(axis=1)
        measured = np.mean(np.abs(sums) > float(limit))
        assert abs(measured / 2 ** log2_exceeding(weight, limit, 1) - 1) < 4 / np.sqrt(1e6 * measured)


def test_failure_of_the_presets():
    """It cannot fail with h <= 2K; and a bound half an integer higher is what the sine covers."""
    assert log2_failure(32, 16, 2**16) == -np.inf
    assert log2_failure(192, 28, 2**16) == log2_exceeding(192, Fraction(57, 2), 2**16) < log2_exceeding(192, 28, 2**16)
