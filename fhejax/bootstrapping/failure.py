"""How often a bootstrapping fails: the exact tail of what raising the modulus adds.

The coefficients of a raised ciphertext are t = m + q_0 I, and t / q_0 is a sum of h + 1 independent numbers, each
uniform between -1/2 and 1/2: one from c_0, and one for each coefficient of the sparse secret that is not zero. The sine
stands for t where |I| <= K, so a bootstrapping is wrong where the sum exceeds K + 1/2. With h + 1 <= 2 K + 1 it cannot.

Source: Bossuat, Troncoso-Pastoriza & Hubaux, "Bootstrapping for Approximate Homomorphic Encryption with Negligible
Failure-Probability by Using Sparse-Secret Encapsulation", 2022, section 5, which counts a sum beyond K as a failure.
"""

import functools
import itertools
import math
from fractions import Fraction


def log2_failure(weight: int, bound: int, coefficients: int) -> float:
    """log2 of the probability that some coefficient is outside of where the sine stands for it.

    Args:
      weight: the Hamming weight h of the sparse secret.
      bound: K.
      coefficients: how many there are: N, or 2n for n slots.

    Returns:
      The union bound over all coefficients, of exact rational tails; -inf where it cannot happen.

    >>> log2_failure(32, 16, 2**16), round(log2_failure(32, 15, 2**16), 1)
    (-inf, -105.7)
    """
    return log2_exceeding(weight, Fraction(2 * bound + 1, 2), coefficients)


@functools.lru_cache(maxsize=64)
def log2_exceeding(weight: int, limit: Fraction | int, coefficients: int) -> float:
    """log2 of the probability that some coefficient's t / q_0 exceeds a limit.

    Args:
      weight: the Hamming weight h of the sparse secret.
      limit: of |t / q_0|.
      coefficients: how many there are.

    >>> round(log2_exceeding(32, 16, 2**16), 1)
    -138.7
    """
    tail = 2 * coefficients * _tail(weight + 1, Fraction(limit))
    return math.log2(tail.numerator) - math.log2(tail.denominator) if tail else -math.inf


@functools.lru_cache(maxsize=16)
def probabilities(weight: int, bound: int) -> tuple[float, ...]:
    """How often the multiple of q_0 in a coefficient is -bound, ..., bound.

    Args:
      weight: the Hamming weight h of the sparse secret.
      bound: K.

    >>> [round(p, 3) for p in probabilities(32, 2)]
    [0.118, 0.198, 0.236, 0.198, 0.118]
    """
    tails = [_tail(weight + 1, Fraction(2 * k + 1, 2)) for k in range(bound + 1)]
    some = [float(before - after) for before, after in itertools.pairwise(tails)]
    return (*reversed(some), float(1 - 2 * tails[0]), *some)


def _tail(count: int, limit: Fraction) -> Fraction:
    """The probability that `count` numbers, uniform between -1/2 and 1/2, exceed a limit together (Irwin & Hall)."""
    rest = Fraction(count, 2) - limit  # numbers uniform from 0 to 1 are together below this as often
    if rest <= 0:
        return Fraction(0)
    terms = ((-1) ** k * math.comb(count, k) * (rest - k) ** count for k in range(math.floor(rest) + 1))
    return sum(terms, Fraction(0)) / math.factorial(count)
