"""How primes are chosen: sizes, drift, room above the digits, and the cheapest key switch by exhaustion."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from fhejax.parameters.moduli import (
    choose_for_depth,
    choose_moduli,
    choose_special_moduli,
    explain_refusal,
    largest_digit,
    split,
)
from fhejax.parameters.primes import is_prime, largest_primes


def transforms(limbs, special, digits):
    """N-point transforms of a key switch: input, raised digits, ModDown of two polynomials."""
    return limbs + digits * (limbs + special) + 2 * special + 2 * limbs


def conversions(limbs, special, digit_size):
    """Products a coefficient in basis conversions: raising each digit, and ModDown."""
    rows = [min(digit_size, limbs - start) for start in range(0, limbs, digit_size)]
    return sum(row * (limbs + special - row) for row in rows) + 2 * special * limbs


@settings(deadline=None, max_examples=25)
@given(log_degree=st.integers(3, 14), depth=st.integers(0, 12), scale_bits=st.integers(30, 60))
def test_each_prime_is_the_nearest_to_what_undoes_the_drift(log_degree, depth, scale_bits):
    q_bits, order = min(scale_bits + 10, 61), 2 << log_degree
    moduli = choose_moduli(log_degree, (q_bits, *(scale_bits,) * depth), scale_bits)
    assert len(set(moduli)) == depth + 1 and all(is_prime(q) and q % order == 1 for q in moduli)
    assert moduli[0] == largest_primes(1, q_bits, order)[0]
    scale = 2.0**scale_bits
    for level in range(depth, 0, -1):
        target, q = Fraction(scale) ** 2 / 2**scale_bits, moduli[level]
        steps = math.ceil(2 * abs(target - q) / order)
        nearer = (q + (step if q < target else -step) * order for step in range(1, steps + 1))
        left = [x for x in nearer if abs(x - target) + 2**9 < abs(q - target) and x not in (moduli[0], *moduli[level:])]
        assert not any(map(is_prime, left))  # 2^9: at 60 bits the target is rounded to a float
        scale = scale * scale / q


@pytest.mark.parametrize("log_degree", [10, 12, 13, 14, 15, 16, 17])
def test_scales_stay_near_nominal(log_degree):
    moduli = choose_moduli(log_degree, (50, *(40,) * 30), 40)
    scale, drift = 2.0**40, []
    for q in reversed(moduli[1:]):
        scale = scale**2 / q
        drift.append(abs(scale / 2.0**40 - 1))
    assert max(drift) < 2.0 ** (log_degree - 31)  # 2^-17 at N = 2^14


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 15), st.integers(25, 60), st.sampled_from([None, 430, 868]), st.integers(1, 20))
def test_special_primes_leave_room_above_each_digit(depth, scale_bits, limit, digits):
    for wanted in (None, min(digits, depth + 1)):
        chosen = choose_for_depth(13, depth, scale_bits, wanted, limit)
        if chosen is None:
            assert limit is not None
            continue
        moduli, special, digit_size = chosen
        p, q = math.prod(special), math.prod(moduli)
        assert p >= 16 * max(math.prod(digit) for digit in split(moduli, digit_size))
        assert limit is None or (p * q).bit_length() <= limit
        assert len({*moduli, *special}) == len(moduli) + len(special)
        if wanted is not None:
            assert digit_size == -(-len(moduli) // wanted)


@pytest.mark.parametrize("depth, log_degree, limit", [(3, 14, 430), (7, 14, 430), (10, 15, 868), (20, 16, 1747)])
def test_takes_the_cheapest_of_what_fits(depth, log_degree, limit):
    moduli, special, digit_size = choose_for_depth(log_degree, depth, 40, None, limit)
    limbs, room = depth + 1, limit - math.prod(moduli).bit_length()
    costs = {}
    for count in range(1, limbs + 2):
        for size in range(1, limbs + 1):
            needed = max(math.prod(digit) for digit in split(moduli, size)).bit_length() + 5
            if needed <= min(room, 50 * count):  # with primes of at most 50 bits
                work = transforms(limbs, count, -(-limbs // size)) + conversions(limbs, count, size) * 2 / log_degree
                costs[count, size] = work
    assert costs[len(special), digit_size] == min(costs.values())
    assert all(p < 2**50 for p in special)


def test_one_special_prime_is_larger_than_q_0():
    _, (p,), digit_size = choose_for_depth(13, 2, 40, None, 214)
    assert (p.bit_length(), digit_size) == (55, 1)


def test_shrinks_special_primes_to_the_room_left():
    moduli, special, _ = choose_for_depth(15, 18, 40, None, 868)
    assert [p.bit_length() for p in special] == [49, 49]
    assert (math.prod(moduli) * math.prod(special)).bit_length() == 868


def test_special_moduli_pass_over_the_chain():
    order = 2 << 12
    taken = largest_primes(2, 50, order)
    assert choose_special_moduli(12, (50, 50, 45), taken) == (
        *largest_primes(4, 50, order)[2:],
        *largest_primes(1, 45, order),
    )


def test_split_and_largest_digit():
    assert split((2, 3, 5, 7, 11), 2) == ((2, 3), (5, 7), (11,))
    assert largest_digit((2, 3, 5, 7, 11), 2) == 35


def test_sizes_that_carry_the_scale_away_are_refused():
    with pytest.raises(ValueError, match=r"modulus of 60 bits at level 2 would make the scale below it 2\^-10"):
        choose_moduli(12, (50, 40, 60, 55), 40)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("depth, log_degree, largest", [(9, 14, 8), (20, 14, 8), (90, 17, 85), (5, 13, 2)])
def test_refusal_names_the_largest_depth_that_fits(depth, log_degree, largest):
    limit = {13: 214, 14: 430, 17: 3523}[log_degree]
    text = explain_refusal(log_degree, depth, 40, None, 128, "classical")
    assert f"the largest depth that fits is {largest}" in text
    assert f"is {50 + 40 * depth + 55} bits" in text and f"{105 + 40 * depth - limit} bits too many" in text
    assert choose_for_depth(log_degree, largest, 40, None, limit)
    assert not choose_for_depth(log_degree, largest + 1, 40, None, limit)
