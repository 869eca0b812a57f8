"""Few rotation keys for many rotations: which keys to make when memory is short.

Every rotation that has no key of its own is composed of others, at a key switch each. Starting from one key that
generates all rotations, the key is added that saves the most key switches a byte, until no other fits; then keys are
exchanged one by one while that saves more.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from fhejax.operations.rotations import find_path, shortest_paths

_LONGEST = 512  # so many times in a row is a key tried
_UNREACHABLE = 1e12  # key switches, where there is no path


class Rotation(NamedTuple):
    """A rotation that a program does."""

    step: int  # in [0, slots)
    level: int  # of the ciphertext
    slots: int  # modulo which the step may be composed
    count: int  # how often


def choose_steps(
    rotations: list[Rotation],
    fixed: Mapping[int, int],
    size: Callable[[int], int],
    limit: int,
    largest: int,
) -> dict[int, int]:
    """Keys, level by step, that compose all the rotations in few key switches, within a limit of bytes.

    `fixed` steps need keys of their own; `largest` is the slots of full packing; `smallest_steps` fits the limit.
    """
    choice = _Choice(rotations, fixed, size, limit, largest)
    chosen = choice.filled(smallest_steps(rotations, fixed, largest))
    while (better := choice.exchanged(chosen)) is not None:
        chosen = better
    return chosen


def smallest_steps(rotations: list[Rotation], fixed: Mapping[int, int], largest: int) -> dict[int, int]:
    """The keys that must be, and one key that generates all the rotations."""
    if not rotations:
        return dict(fixed)
    generator = math.gcd(largest, *(each.step for each in rotations))
    return {**fixed, generator: max(*(each.level for each in rotations), fixed.get(generator, 0))}


def paths(rotations: Iterable[Rotation], steps: Mapping[int, int]) -> Iterable[tuple[Rotation, tuple[int, ...]]]:
    """The path of each rotation, by the steps that have a key for its level."""
    for each in rotations:
        usable = {step % each.slots: step for step in sorted(steps, reverse=True) if steps[step] >= each.level}
        yield each, tuple(usable[part] for part in find_path(each.step, tuple(sorted(usable)), each.slots))


class _Choice:
    """A choice among steps: what sets of keys cost, and how to better one."""

    def __init__(self, rotations, fixed, size, limit, largest):
        self.rotations, self.fixed, self.size, self.limit = rotations, fixed, size, limit
        generator = math.gcd(largest, *(each.step for each in rotations))
        powers = [generator << i for i in range((largest // generator).bit_length() - 1)]
        steps = {each.step for each in rotations} | {step for p in powers for step in (p, largest - p)}
        self.candidates = sorted(steps | {*fixed})
        self.levels = sorted({each.level for each in rotations})
        groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for each in rotations:
            groups.setdefault((each.level, each.slots), []).append((each.step, each.count))
        self.groups = {key: np.array(pairs).T for key, pairs in groups.items()}

    def bytes(self, chosen):
        return sum(map(self.size, chosen.values()))

    def lengths(self, chosen):
        """For each group of rotations, the length of the path to every step."""
        for level, slots in self.groups:
            usable = {step % slots for step, up_to in chosen.items() if up_to >= level}
            _, length = shortest_paths(tuple(sorted(usable)), slots)
            yield (level, slots), np.where(length < 0, _UNREACHABLE, length)

    def cost(self, chosen):
        """Key switches; infinite if a rotation cannot be composed."""
        total = 0
        for key, length in self.lengths(chosen):
            steps, counts = self.groups[key]
            total += counts @ length[steps]
        return math.inf if total >= _UNREACHABLE else total

    def additions(self, chosen):
        """Every key that fits beside others: what it saves, in key switches and for each byte."""
        lengths, left = dict(self.lengths(chosen)), self.limit - self.bytes(chosen)
        for step in self.candidates:
            before = self.size(chosen[step]) if step in chosen else 0
            saved = 0
            for level in self.levels:
                saved += sum(self._saved(step, key, length) for key, length in lengths.items() if key[0] == level)
                more = self.size(level) - before
                if saved > 0 and 0 < more <= left:
                    yield saved / more, saved, step, level

    def _saved(self, step, key, length):
        steps, counts = self.groups[key]
        now = length[steps]
        repeats = np.arange(1 + min(_LONGEST, int(now.max())))
        return counts @ (now - (length[(steps[:, None] - step * repeats) % key[1]] + repeats).min(axis=1))

    def filled(self, chosen):
        """Adds keys while one fits that saves something, and cuts each to the level at which it is used."""
        while True:
            while found := max(self.additions(chosen), default=None):
                chosen = {**chosen, found[2]: found[3]}
            cut = self._cut(chosen)
            if cut == chosen:
                return chosen
            chosen = cut

    def _cut(self, chosen):
        used = dict(self.fixed)
        for each, path in paths(self.rotations, chosen):
            for step in path:
                used[step] = max(each.level, used.get(step, 0))
        return used

    def exchanged(self, chosen):
        """Better keys, with one of them left out for another; None if there are none."""
        for step in chosen:
            rest = {other: level for other, level in chosen.items() if other != step}
            if step in self.fixed:
                rest[step] = self.fixed[step]
            found = max(self.additions(rest), key=lambda found: found[1], default=None)
            if found and self.cost(changed := {**rest, found[2]: found[3]}) < self.cost(chosen):
                return self.filled(changed)
        return None
