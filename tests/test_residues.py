"""Coefficients to residues and back, against Python's fractions and integers."""

import math
from fractions import Fraction

import jax
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from references import assert_equals_reference, lowerings
from residues import centred, chain, compose, on_device, random_residues, spread

import fhejax as fhe
from fhejax.primitives.rounding import residues_to_float, round_to_residues

LOWERINGS = ["native", "reference"]
MODULI = chain(16, (61, 20, 40, 50))


def rounded(a, scale):
    """round(a scale), ties away from zero."""
    product = Fraction(float(a)) * Fraction(scale)
    magnitude = math.floor(abs(product) + Fraction(1, 2))
    return -magnitude if product < 0 else magnitude


def check_rounding(a, scale, moduli=MODULI):
    expected = spread([rounded(x, scale) for x in a], moduli)
    for lowering in lowerings(*LOWERINGS):
        with fhe.lowering(lowering):
            np.testing.assert_array_equal(round_to_residues(on_device(a), scale, moduli), expected, err_msg=lowering)


@pytest.mark.parametrize("scale", [2.0**20, 2.0**40, 2.0**60, 3.0, 1.1 * 2.0**40, math.pi * 2.0**58, 1e-3])
def test_rounding_is_exact(scale):
    rng = np.random.default_rng(0)
    sizes = 2.0 ** rng.integers(-70, 200, 512)
    check_rounding(rng.uniform(-1, 1, 512) * sizes, scale)


@settings(deadline=None, max_examples=60)
@given(
    a=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=16, max_size=16),
    scale=st.sampled_from([1.0, 2.0**20, 2.0**60, 0.3, 1.7e30, 2.0**-1074, 1.7e308]),
)
def test_rounding_is_exact_for_any_doubles(a, scale):
    check_rounding(np.array(a), scale)


@pytest.mark.parametrize("scale", [1.0, 2.0**20, 2.0**40, 2.0**60])
def test_ties_go_away_from_zero(scale):
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.0**51 + 0.5, 0.49999999999999994]) / scale
    neighbours = np.concatenate([np.nextafter(halves, 0), np.nextafter(halves, np.inf * np.sign(halves))])
    check_rounding(np.concatenate([halves, neighbours]), scale)
    got = np.asarray(round_to_residues(on_device(halves), scale, (97,)))[0].tolist()
    assert got[:6] == [1, 2, 3, 96, 95, 94]
    assert got[7] == 0


def test_halves_of_a_product_of_106_bits_are_seen():
    # 2^53 - 1 times 2^53 + ... leaves bits on both sides of the cut between two words.
    odd = float(2**53 - 1)
    for exponent in (-106, -105, -104, -65, -64, -63, -1, 0, 1):
        check_rounding(np.array([odd, -odd, float(2**52 + 1), 2.0**52]), math.ldexp(odd, exponent))


@pytest.mark.parametrize("special", [0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308])
def test_extremes(special):
    for scale in (1.0, 2.0**60, 1.7976931348623157e308, 5e-324):
        check_rounding(np.array([special, 1.0]), scale)


def test_infinities_have_the_same_residues_in_every_lowering():
    a = on_device(np.array([np.inf, -np.inf, np.nan, 1.0]))
    assert_equals_reference(round_to_residues(a, 2.0**40, MODULI), lambda a: round_to_residues(a, 2.0**40, MODULI), a)


@pytest.mark.parametrize("bits", [(61,), (20,), (50, 40), (20, 61), (61, 61, 61), (50,) + (40,) * 7, (30, 61, 20, 61)])
def test_floats_are_the_centred_integers(bits):
    moduli = chain(16, bits)
    product = math.prod(moduli)
    x = random_residues(7, moduli, 512, (2,))
    edges = [product // 2, product // 2 + 1, product // 2 - 1, product - 1, 0, 1, moduli[0], product - moduli[0]]
    near_half = [(product // 2 + d) % product for d in (2**20, -(2**20), moduli[0], -moduli[0])]
    x = np.concatenate([np.asarray(x), np.broadcast_to(spread(edges + near_half, moduli), (2, len(bits), 12))], axis=-1)
    expected = np.array([[centred(v, product) for v in compose(entry, moduli)] for entry in x], object)
    for lowering in lowerings(*LOWERINGS):
        with fhe.lowering(lowering):
            got = np.asarray(residues_to_float(on_device(x), moduli))
        for value, exact in zip(got.ravel(), expected.ravel(), strict=True):
            assert abs(Fraction(float(value)) - exact) <= 5 * Fraction(2.0**-53) * abs(exact), lowering


@settings(deadline=None, max_examples=40)
@given(integers=st.lists(st.integers(-(2**53), 2**53), min_size=16, max_size=16))
@example(integers=[0, 1, -1, 2**53, -(2**53), 2**53 - 1, MODULI[3], -MODULI[1], MODULI[1]] + [2] * 7)
def test_small_integers_are_exact(integers):
    for moduli in (MODULI, MODULI[1:], MODULI[::-1], MODULI[:1]):
        bounded = [x if abs(x) < math.prod(moduli) // 2 else 0 for x in integers]
        for lowering in lowerings(*LOWERINGS):
            with fhe.lowering(lowering):
                got = residues_to_float(on_device(spread(bounded, moduli)), moduli)
            assert np.asarray(got).tolist() == bounded


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_moduli_beyond_the_largest_double(lowering):
    moduli = chain(16, (61,) * 18)  # about 2^1097
    product = math.prod(moduli)
    integers = [3, -7, 2**900 + 1, -(2**900), product // 2, -(product // 2)]
    with fhe.lowering(lowering):
        got = np.asarray(residues_to_float(on_device(spread(integers, moduli)), moduli))
    assert got[[0, 1, 4, 5]].tolist() == [3.0, -7.0, math.inf, -math.inf]
    np.testing.assert_allclose(got[2:4], [2.0**900, -(2.0**900)], rtol=5 * 2.0**-53)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bits", [(61,) * 70, (40,) * 70, (61, 40) * 35, (49, 50, 51, 52, 53) * 4])
def test_long_chains(bits):
    moduli = chain(64, bits)
    rng = np.random.default_rng(len(bits))
    signs, sizes = rng.choice([-1, 1], 128), rng.integers(0, 900, 128)
    integers = [int(s) * int(rng.integers(1, 2**62)) << int(k) >> 62 for s, k in zip(signs, sizes, strict=True)]
    got = np.asarray(residues_to_float(on_device(spread(integers, moduli)), moduli))
    for value, exact in zip(got, integers, strict=True):
        assert abs(Fraction(float(value)) - exact) <= 5 * Fraction(2.0**-53) * (abs(exact) if abs(exact) > 2**53 else 0)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32 - 1), shape=st.sampled_from([(8,), (1, 8), (2, 3, 8), (0, 8), (300,)]))
def test_the_way_back(seed, shape):
    a = np.round(np.random.default_rng(seed).uniform(-1, 1, shape) * 2**50)
    x = round_to_residues(on_device(a), 1.0, MODULI)
    assert x.shape == (*shape[:-1], len(MODULI), shape[-1])
    np.testing.assert_array_equal(residues_to_float(x, MODULI), a)


def test_vmap_is_a_leading_axis():
    a = on_device(np.random.default_rng(3).uniform(-1, 1, (2, 3, 8)))
    x = round_to_residues(a, 2.0**40, MODULI)
    mapped = jax.jit(jax.vmap(jax.vmap(lambda row: round_to_residues(row, 2.0**40, MODULI))))(a)
    np.testing.assert_array_equal(mapped, x)
    mapped = jax.vmap(lambda entry: residues_to_float(entry, MODULI), in_axes=1, out_axes=1)(x)
    np.testing.assert_array_equal(mapped, residues_to_float(x, MODULI))


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: round_to_residues(on_device(np.ones(8, np.float32)), 1.0, MODULI), TypeError, "float64"),
        (lambda: round_to_residues(on_device(np.ones(8)), 0.0, MODULI), ValueError, "scale = 0.0"),
        (lambda: round_to_residues(on_device(np.ones(8)), math.inf, MODULI), ValueError, "scale = inf"),
        (lambda: residues_to_float(on_device(np.ones((4, 8), np.uint32)), MODULI), TypeError, "residues are uint64"),
        (lambda: residues_to_float(on_device(np.ones((3, 8), np.uint64)), MODULI), ValueError, "for 4 moduli"),
    ],
)
def test_refuses(call, error, says, unchecked):
    with pytest.raises(error, match=says):
        call()
