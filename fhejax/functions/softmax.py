"""Softmax over blocks of slots, without a search for the largest entry."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fhejax.errors import static_integer
from fhejax.functions.composite import (
    SQUARE,
    Composition,
    cheapest,
    check_operand,
    checked_bits,
    cost_of,
    plus,
    with_levels,
)
from fhejax.functions.fits import affine, cost_of_degree, estimated_degree, fit_least, free_domain
from fhejax.functions.inverse import relative_inverses
from fhejax.kinds.base import Encrypted
from fhejax.operations.arithmetic import add, multiply, multiply_plain, square
from fhejax.operations.levels import to_canonical
from fhejax.operations.rotations import rotate
from fhejax.polynomials.checks import checked_domain
from fhejax.polynomials.evaluation import evaluate
from fhejax.scheme.values import EvaluationKeys

# What sums may be off by, relative to them, before a reciprocal: its domain is that much wider.
_MARGIN = 2.0**-6
_MOST_SQUARINGS = 4
_WIDEST = 32  # a domain, divided by the powers of two; beyond it the sums span too much for a reciprocal


def softmax(
    x: Encrypted,
    keys: EvaluationKeys | None = None,
    *,
    size: int,
    stride: int = 1,
    domain: Sequence[Any],
    bits: float | int,
) -> Encrypted:
    """exp(x) divided by its sum over the block that the slot is in.

    Blocks are rows of `values.reshape(-1, size, stride)` along the middle axis: with stride 1, `size` slots beside one
    another. No maximum is subtracted: the upper end of the domain bounds the entries, and exp is scaled by it. Then
    either exp(x) times the reciprocal of its sum; or, for a wide domain, the softmax y of x / 2^k first and then, k
    times, y^2 times the reciprocal of its sum, which only spans the factor `size`. The shallower is taken.

    Args:
      x: a ciphertext or simulated values.
      keys: evaluation keys.
      size: entries of a block, a power of two; for fewer, fill up with entries at the lower end of the domain, which
        count exp(a).
      stride: slots from one entry of a block to the next; size * stride divides the slots.
      domain: (a, b) that the slots lie in, all of them.
      bits: the absolute error is to be at most 2^-bits.

    Returns:
      Level out: lower by the depth. Scale out: canonical. Error added: 2^-bits, x's errors times at most 1/4 each, and
      roundings. Keys needed: relinearisation; rotations by stride * 2^i for i < log2(size), and, unless the block is
      all slots, back by as many. Depth and key switches below are those of blocks that are not all slots; otherwise
      each sum takes a level and log2(size) key switches less.

      On (-1, 1), size 16, 8 bits: error 2^-8.9, depth 9, 16 key switches.
      On (-4, 4), size 16, 8 bits: error 2^-9, depth 15, 32 key switches.
      On (-4, 4), size 16, 12 bits: error 2^-17.2, depth 17, 33 key switches.
      On (-8, 8), size 128, 8 bits: error 2^-9, depth 24, 65 key switches.

      The errors are bounds, put together from those of the polynomials.

    Raises:
      LevelError: not enough levels are left.
      MissingKeyError: a rotation key is missing.
      ValueError: blocks that do not fit, a domain that is none, or bits that are not reachable.

    Source: Cho, Hanrot, Kim, Park & Stehle, "Fast and Accurate Homomorphic Softmax Evaluation", 2024.
    """
    domain, bits = checked_domain("softmax", domain), checked_bits("softmax", bits)
    check_operand("softmax", x, keys)
    size, stride = _checked_block(size, stride, x.slots)
    composition = _softmax(domain, bits, size, size * stride == x.slots)
    x = with_levels("softmax", composition.depth, to_canonical(x), f"on the domain {domain} to {bits:g} bits")
    x._warn_outside("softmax", domain)
    return composition.program(x, functools.partial(_block_sum, size=size, stride=stride, keys=keys), keys)


def _checked_block(size, stride, slots):
    size, stride = (static_integer("softmax", name, value) for name, value in (("size", size), ("stride", stride)))
    if size < 2 or size & (size - 1) or stride < 1 or slots % (size * stride):
        raise ValueError(
            f"softmax: size = {size}, stride = {stride} and {slots} slots; the size must be a power of two, and size * "
            "stride must divide the slots; fill up with entries at the lower end of the domain"
        )
    return size, stride


def _block_sum(x, size, stride, keys):
    """The sum of each block, in each of its slots."""
    for step in _steps(size, stride):
        x = add(x, rotate(x, step, keys))
    if size * stride == x.slots:
        return x
    # What is at the first entries is the sum of their blocks; elsewhere it reaches into the next one.
    first = (np.arange(x.slots) // stride % size == 0).astype(np.float64)
    x = multiply_plain(x, first)
    for step in _steps(size, stride):
        x = add(x, rotate(x, -step, keys))
    return x


def _steps(size, stride):
    return [stride << i for i in range(size.bit_length() - 1)]


@functools.lru_cache(maxsize=64)
def _softmax(domain, bits, size, whole):
    counts = [i for i in range(_MOST_SQUARINGS + 1) if domain[1] - domain[0] < _WIDEST * 2**i]
    options = lambda bits: (x for i in counts for x in _options(domain, 2.0**-bits, size, whole, i))
    return cheapest("softmax", domain, bits, options)


def _options(domain, tolerance, size, whole, count):
    """Softmax of x / 2^count, and `count` times the squares of it, normalised.

    What all entries have in common, an error of a reciprocal, falls out with the next sum: only the last must be small.
    """
    share = math.exp(-(domain[1] - domain[0]) / 2**count)
    # So that the sums' domain has the width 2, which takes no level.
    top = 2 / (size * (1 + _MARGIN - share * (1 - _MARGIN)))
    lowest = size * top * share * (1 - _MARGIN)
    again = free_domain(((1 - _MARGIN) / size, 1 + _MARGIN), "low")
    domains = [(lowest, lowest + 2)] + [again] * count
    ways = [list(relative_inverses(each, _MARGIN / 4)) for each in domains[:-1]]
    ways.append(list(relative_inverses(domains[-1], tolerance / 2)))
    # A relative error e of exp becomes one of 2^count e, and as much again in the sum.
    exps = _scaled_exps(domain, 2**count, top, tolerance / 2 ** (count + 2))
    if not exps or not all(ways):
        return []
    inverses = [min(each, key=lambda inverse: inverse.cost) for each in ways]
    exp_cost, fit = min(exps, key=lambda option: option[0])
    levels, switches = (0, 1) if whole else (1, 2)
    sums = levels, switches * (size.bit_length() - 1)
    # A sum and a product for each reciprocal, and the squares between them.
    cost = plus(exp_cost, count + (count + 1) * (sums[0] + 1), count + (count + 1) * (sums[1] + 1))
    for inverse in inverses:
        cost = plus(cost, *inverse.cost)

    def build():
        stages, own = fit()

        def program(x, block_sum, keys):
            y = functools.reduce(lambda x, stage: evaluate(stage, x, keys), stages, x)
            for i, inverse in enumerate(inverses):
                y = square(y, keys) if i else y
                y = multiply(y, inverse(block_sum(y), keys), keys)
            return y

        final = plus(cost, *(a - b for a, b in zip(cost_of(stages), exp_cost, strict=True)))
        error = 2 ** (count + 1) * own + inverses[-1].error
        return Composition(program, final, error, tuple(p.degree for p in stages))

    return [(cost, build)]


def _scaled_exps(domain, parts, top, tolerance):
    """(cost, fit) for exp((x - b) / parts) top on (a, b); `fit` returns the polynomials and their relative error."""
    wide, options = free_domain(domain, "high"), []
    for squarings in range(_MOST_SQUARINGS + 1):
        share = parts * 2**squarings
        fitted = lambda x, share=share: jnp.exp((x - domain[1]) / share)
        weight = lambda x, share=share: jnp.exp((domain[1] - x) / share)
        degree = estimated_degree(fitted, wide, tolerance / 2**squarings, weight=weight)
        if degree is not None:
            fit = functools.partial(_fitted_exp, fitted, weight, wide, tolerance, top, squarings)
            options.append((plus(cost_of_degree(degree, wide), squarings, squarings), fit))
    return options


def _fitted_exp(fitted, weight, wide, tolerance, top, squarings):
    first = fit_least(fitted, wide, tolerance / 2**squarings, weight=weight)
    error = (1 + first.report.sup_error) ** 2**squarings - 1
    return [affine(first, top ** (1 / 2**squarings), 0.0)] + [SQUARE] * squarings, error
