"""Primes for the number-theoretic transform, and their roots of unity, in exact Python integers.

A negacyclic transform of length N modulo q needs a root of order 2N, so q = 1 mod 2N. The primes of
a parameter set have 20 to 61 bits: four times the largest still fits in 64 bits, as lazy butterflies need.
"""

import functools
from collections.abc import Collection

SMALLEST_BITS = 20
LARGEST_BITS = 61

# The first twelve primes: no composite below 3.1e23 passes all of them.
_BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def is_prime(number: int) -> bool:
    """Whether a number below 2^64 is prime: the Miller-Rabin test with bases that never err there.

    Source: Sorenson & Webster, "Strong pseudoprimes to twelve prime bases", Math. Comp. 86, 2017.
    """
    if number.bit_length() > 64:
        raise ValueError(f"is_prime: {number} has {number.bit_length()} bits; need at most 64")
    if number < 2:
        return False
    for base in _BASES:
        if number % base == 0:
            return number == base
    twos = (number - 1 & 1 - number).bit_length() - 1
    odd = number - 1 >> twos
    return all(_is_strong_probable_prime(number, base, odd, twos) for base in _BASES)


def nearest_prime(target: int, order: int, used: Collection[int] = ()) -> int:
    """The prime q = 1 mod `order` nearest to `target` that is not in `used`; of two as near, the smaller.

    It has 20 to 61 bits, and is within a factor of two; a ValueError if there is none.
    """
    lowest = max(target // 2, 1 << SMALLEST_BITS - 1)
    highest = min(2 * target, (1 << LARGEST_BITS) - 1)
    below = target - (target - 1) % order
    above = below + order
    while below >= lowest or above <= highest:
        if above > highest or (below >= lowest and target - below <= above - target):
            candidate, below = below, below - order
        else:
            candidate, above = above, above + order
        if candidate not in used and is_prime(candidate):
            return candidate
    raise ValueError(
        f"nearest_prime: no unused prime = 1 mod {order} within a factor of two of {target} "
        f"({target.bit_length()} bits; primes have {SMALLEST_BITS} to {LARGEST_BITS}). "
        "Use another scale_bits, fewer levels, or a smaller log_degree"
    )


def largest_primes(count: int, bits: int, order: int, used: Collection[int] = ()) -> tuple[int, ...]:
    """The `count` largest primes q = 1 mod `order` of exactly these bits that are not in `used`, largest first."""
    if not SMALLEST_BITS <= bits <= LARGEST_BITS:
        raise ValueError(f"largest_primes: bits = {bits}; primes have {SMALLEST_BITS} to {LARGEST_BITS} bits")
    found: list[int] = []
    top = (1 << bits) - 1
    candidate = top - (top - 1) % order
    while len(found) < count and candidate >> bits - 1:
        if candidate not in used and is_prime(candidate):
            found.append(candidate)
        candidate -= order
    if len(found) < count:
        raise ValueError(
            f"largest_primes: only {len(found)} unused primes of {bits} bits are 1 mod {order}, {count} needed. "
            "Use more bits, fewer moduli, or a smaller log_degree"
        )
    return tuple(found)


@functools.lru_cache(maxsize=1024)
def primitive_root(order: int, q: int) -> int:
    """The numerically smallest primitive root of unity of an order, a power of two, modulo a prime 1 mod `order`."""
    if (q - 1) % order:
        raise ValueError(f"primitive_root: no root of order {order} modulo {q}; need q = 1 mod {order}")
    non_residue = next(g for g in range(2, q) if pow(g, (q - 1) // 2, q) == q - 1)
    root = pow(non_residue, (q - 1) // order, q)
    square, smallest, power = root * root % q, root, root
    for _ in range(order // 2 - 1):  # the primitive roots are the odd powers of one
        power = power * square % q
        if power < smallest:
            smallest = power
    return smallest


def _is_strong_probable_prime(number: int, base: int, odd: int, twos: int) -> bool:
    """Whether `number = odd 2^twos + 1` passes Miller's test to `base`."""
    power = pow(base, odd, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False
