"""Timing on a shared machine: everything that is compared takes turns within one run."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

# A short subject has the caches to itself for this long, however much the others move.
_TURN_SECONDS = 0.002


class Timing(NamedTuple):
    """Seconds of one subject, over `runs` runs."""

    minimum: float
    median: float
    runs: int

    def divided(self, parts: int) -> "Timing":
        """The same for one of so many equal parts."""
        return Timing(self.minimum / parts, self.median / parts, self.runs)


def take_turns(subjects: Mapping[str, Callable[[], Any]], rounds: int = 7, seconds: float = 0.5) -> dict[str, Timing]:
    """Times functions in turns, so that a change of clock or load meets all of them.

    Args:
      subjects: functions without arguments that return when their work is done.
      rounds: turns of each subject, at least; each is one run, or as many as fit into 2 ms.
      seconds: goes on for so long in all.
    """
    for function in subjects.values():  # compiles, allocates, fills caches
        function()
        function()
    samples: dict[str, list[float]] = {name: [] for name in subjects}
    start, done = time.perf_counter(), 0
    while done < rounds or time.perf_counter() - start < seconds:
        for name, function in subjects.items():
            samples[name] += _turn(function)
        done += 1
    return {name: Timing(min(runs), statistics.median(runs), len(runs)) for name, runs in samples.items()}


def _turn(function: Callable[[], Any]) -> list[float]:
    runs, end = [], time.perf_counter() + _TURN_SECONDS
    while not runs or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        runs.append(time.perf_counter() - start)
    return runs
