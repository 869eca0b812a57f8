"""Primes and roots against their definitions, in Python integers."""

import pytest
from hypothesis import given, settings, strategies as st

from fhejax.parameters.primes import is_prime, largest_primes, nearest_prime, primitive_root


def divisible(number):
    return any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1))


def test_small_numbers_are_decided_as_trial_division_does():
    assert [n for n in range(-5, 3000) if is_prime(n)] == [n for n in range(2, 3000) if not divisible(n)]


@pytest.mark.parametrize("prime", [2**61 - 1, 2**64 - 59, 2**31 - 1, 1125899906826241, 576460752303415297])
def test_knows_large_primes(prime):
    assert is_prime(prime)


@pytest.mark.parametrize(
    "composite",
    [
        3215031751,  # a strong pseudoprime to the bases 2, 3, 5, 7
        3825123056546413051,  # to the first nine primes
        (2**31 - 1) ** 2,
        4294967291 * 4294967279,
        2**64 - 1,
        561,
    ],
)
def test_knows_composites_that_pass_weaker_tests(composite):
    assert not is_prime(composite)


def test_refuses_to_guess_beyond_64_bits():
    with pytest.raises(ValueError, match="65 bits; need at most 64"):
        is_prime(2**64 + 13)


@settings(deadline=None, max_examples=25)
@given(target=st.integers(2**20, 2**26), log_order=st.integers(4, 12))
def test_nearest_is_nearest_and_ties_go_down(target, log_order):
    order = 1 << log_order
    used = {nearest_prime(target, order)}
    got = nearest_prime(target, order, used)
    for number in range(target - abs(got - target), target + abs(got - target) + 1):
        if number % order == 1 and number not in used and is_prime(number):
            assert (abs(number - target), number) >= (abs(got - target), got)
    assert got % order == 1 and is_prime(got) and got not in used


def test_nearest_at_a_tie():
    # 97 and 193 mod 96 play no part here: 786433 = 3 2^18 + 1 and 1179649 = 9 2^17 + 1 are 1 mod 2^17.
    assert nearest_prime((786433 + 1179649) // 2, 2**17) == 786433


def test_nearest_stays_within_20_to_61_bits():
    order = 2**14
    got = nearest_prime(2**61 - 1, order)
    assert got == largest_primes(1, 61, order)[0] and got.bit_length() == 61
    used: set[int] = set()
    with pytest.raises(ValueError, match=r"no unused prime = 1 mod 16384 within a factor of two of 524288"):
        while True:
            used.add(nearest_prime(2**19, order, used))
    assert used == {q for q in range(2**19 - 2**19 % order + 1, 2**20, order) if is_prime(q)}


@pytest.mark.parametrize("bits, log_degree", [(20, 3), (35, 10), (50, 15), (61, 16)])
def test_largest_primes_misses_none(bits, log_degree):
    order = 2 << log_degree
    first = largest_primes(3, bits, order)
    assert list(first) == sorted(first, reverse=True) and first[0] < 2**bits
    between = range((2**bits - 1) // order * order + 1, first[-1] - 1, -order)
    assert [q for q in between if q < 2**bits and is_prime(q)] == list(first)
    assert largest_primes(1, bits, order, first[:2]) == first[2:]


def test_largest_primes_says_when_there_are_too_few():
    with pytest.raises(ValueError, match="unused primes of 20 bits are 1 mod 131072, 50 needed"):
        largest_primes(50, 20, 2**17)
    with pytest.raises(ValueError, match="bits = 62; primes have 20 to 61 bits"):
        largest_primes(1, 62, 16)


@settings(deadline=None, max_examples=20)
@given(log_degree=st.integers(3, 6), bits=st.integers(20, 61))
def test_root_is_the_smallest_of_its_order(log_degree, bits):
    order = 2 << log_degree
    q = largest_primes(1, bits, order)[0]
    root = primitive_root(order, q)
    powers = [pow(root, k, q) for k in range(order)]
    assert len(set(powers)) == order and pow(root, order, q) == 1
    assert root == min(powers[1::2])


def test_root_of_a_tiny_field_by_exhaustion():
    roots = [x for x in range(1, 97) if pow(x, 16, 97) == 96]
    assert primitive_root(32, 97) == min(roots)
    assert primitive_root(2, 97) == 96


def test_root_in_the_largest_ring():
    q = largest_primes(1, 50, 2**18)[0]
    root = primitive_root(2**18, q)
    assert pow(root, 2**17, q) == q - 1 and root <= q - root


def test_root_refuses_a_modulus_without_one():
    with pytest.raises(ValueError, match="no root of order 64 modulo 97; need q = 1 mod 64"):
        primitive_root(64, 97)
