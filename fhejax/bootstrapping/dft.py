"""The special Fourier transform in factors: what carries coefficients to slots, and slots to coefficients.

With w_k = t_k + i t_(k+n), the n slots of a polynomial t of degree below 2n in Y are z_j = sum_k w_k zeta^(5^j k),
where zeta is a primitive root of order 4n. That is a Fourier transform of log2(n) stages, each a linear map of slots
with diagonals 0, h and -h. Stages next to each other are multiplied together into as many factors as there are levels
for them: b stages make at most 2^(b+1) - 1 diagonals. The reordering of coefficients by reversed bits is left out: what
happens between the two transforms happens in every slot alike.

Source: Cheon, Han & Hhan, "Faster Homomorphic Discrete Fourier Transforms and Improved FHE Bootstrapping", 2018; Chen,
Chillotti & Song, "Improved Bootstrapping for Approximate Homomorphic Encryption", 2019, section 3.
"""

import functools
import itertools

import numpy as np

Map = dict[int, np.ndarray]  # diagonals by step: the sum of diagonal * rotate(x, step)


def slots_to_coefficients_factors(slots: int, levels: int) -> list[Map]:
    """The transform from coefficients in reversed order to slots, as maps to be applied one after the other.

    Named as the step of bootstrapping is: what it makes of slots w is a ciphertext whose coefficients are w.

    Args:
      slots: n, a power of two, at least 2.
      levels: how many factors.
    """
    stages = [_stage(slots, 1 << i) for i in range(slots.bit_length() - 1)]
    return [functools.reduce(lambda first, then: _product(then, first), part) for part in _parts(stages, levels)]


def coefficients_to_slots_factors(slots: int, levels: int) -> list[Map]:
    """Its inverse, from slots to coefficients in reversed order."""
    stages = [_inverse_stage(slots, 1 << i) for i in reversed(range(slots.bit_length() - 1))]
    return [functools.reduce(lambda first, then: _product(then, first), part) for part in _parts(stages, levels)]


def one_way(maps: list[Map], turn: int = 0) -> tuple[list[Map], int]:
    """Maps whose steps begin at 0: steps in one direction take fewer keys.

    Args:
      maps: to be applied one after the other.
      turn: a rotation to be done before them.

    Returns:
      As many maps, and a rotation to be done after them.
    """
    turned = []
    for each in maps:
        slots = len(next(iter(each.values())))
        least = min((step + slots // 2) % slots - slots // 2 for step in each)
        turn += least
        turned.append({(step - least) % slots: np.roll(diagonal, turn) for step, diagonal in each.items()})
    return turned, turn


def after_rotation(factor: Map, turn: int) -> Map:
    """A map of what a rotation makes of its input."""
    slots = len(next(iter(factor.values())))
    return {(step + turn) % slots: diagonal for step, diagonal in factor.items()}


def beside(factor: Map) -> Map:
    """A map to slots w, made one to w and -i w side by side, whose real parts are those of w and its imaginary ones.

    It takes slots twice as many as it was made for, of which the second half repeats the first.
    """
    return {step: np.concatenate([diagonal, -1j * diagonal]) for step, diagonal in factor.items()}


def of_both(factor: Map) -> Map:
    """A map of u + i v, made one of u and v side by side.

    What it should give is the sum of what it gives and of that rotated by half of the slots.
    """
    slots = len(next(iter(factor.values())))
    units = np.repeat([1, 1j], slots)
    return {step: np.tile(diagonal, 2) * np.roll(units, -step) for step, diagonal in factor.items()}


def _parts(stages, levels):
    """Stages in as many parts, as equal as can be; the first ones are the longer ones."""
    levels = min(levels, len(stages))
    sizes = [len(stages) // levels + (i < len(stages) % levels) for i in range(levels)]
    ends = np.cumsum([0, *sizes]).tolist()
    return [stages[start:end] for start, end in itertools.pairwise(ends)]


def _roots(slots: int, half: int) -> np.ndarray:
    """The twiddle factor of each pair of a stage, repeated over the slots: `[slots]`, for the first of each pair."""
    powers, power = [], 1
    for _ in range(half):
        powers.append(power)
        power = 5 * power % (8 * half)
    block = np.exp(2j * np.pi * np.array(powers) / (8 * half))
    return np.tile(np.concatenate([block, block]), slots // (2 * half))


def _stage(slots: int, half: int) -> Map:
    """(u, v) -> (u + xi v, u - xi v) for entries `half` apart."""
    first, roots = _first(slots, half), _roots(slots, half)
    return _collected(
        slots, [(0, np.where(first, 1.0, -roots)), (half, np.where(first, roots, 0)), (-half, np.where(first, 0, 1.0))]
    )


def _inverse_stage(slots: int, half: int) -> Map:
    """(a, b) -> ((a + b) / 2, (a - b) / (2 xi))."""
    first, roots = _first(slots, half), np.conj(_roots(slots, half)) / 2
    return _collected(
        slots, [(0, np.where(first, 0.5, -roots)), (half, np.where(first, 0.5, 0)), (-half, np.where(first, 0, roots))]
    )


def _first(slots, half):
    return np.arange(slots) % (2 * half) < half


def _collected(slots, diagonals):
    """Equal steps added, modulo the slots."""
    total: Map = {}
    for step, diagonal in diagonals:
        step %= slots
        total[step] = total.get(step, 0) + diagonal.astype(complex)
    return {step: diagonal for step, diagonal in total.items() if np.any(diagonal)}


def _product(then: Map, first: Map) -> Map:
    """The map that is `then` after `first`: rotating a product rotates both its factors."""
    slots = len(next(iter(first.values())))
    return _collected(slots, [(a + b, x * np.roll(y, -a)) for a, x in then.items() for b, y in first.items()])
