"""Timing on a shared machine: everything that is compared takes turns within one run."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

# A subject has the caches to itself for this long, after a run that fills them: a program runs the same operations over
# and over, not between another library's.
_TURN_SECONDS = 0.01


class Timing(NamedTuple):
    """Seconds of one subject, over `runs` runs; `cpu` is the median of the processor time, of all threads together."""

    minimum: float
    median: float
    cpu: float
    runs: int

    def divided(self, parts: float) -> "Timing":
        """The same for one of so many equal parts."""
        return Timing(self.minimum / parts, self.median / parts, self.cpu / parts, self.runs)


class Turn(NamedTuple):
    """Seconds of each run of a turn, and of processor time for one run on average."""

    seconds: list[float]
    cpu: float


Clock = Callable[[], float]


def take_turns(
    subjects: Mapping[str, Callable[[], Any]],
    rounds: int = 7,
    seconds: float = 0.5,
    clock: Clock = time.perf_counter,
) -> dict[str, Timing]:
    """Times functions in turns, so that a change of clock or load meets all of them.

    Args:
      subjects: functions without arguments that return when their work is done. One that returns a `Turn` has been
        timed where it ran (workers.py).
      rounds: turns of each subject, at least; each is one run that is not timed, and then as many as fit into 10 ms.
      seconds: goes on for so long in all.
      clock: what runs are timed by; `time.process_time` leaves out what other programs take, and adds up threads.
    """
    for function in subjects.values():  # compiles, allocates, fills caches
        function()
        function()
    turns: dict[str, list[Turn]] = {name: [] for name in subjects}
    start, done = time.perf_counter(), 0
    while done < rounds or time.perf_counter() - start < seconds:
        for name, function in subjects.items():
            turns[name].append(turn(function, clock))
        done += 1
    return {name: _summary(taken) for name, taken in turns.items()}


def turn(function: Callable[[], Any], clock: Clock = time.perf_counter) -> Turn:
    """One turn of a subject."""
    runs: list[float] = []
    result = function()
    if isinstance(result, Turn):
        return result
    cpu, end = time.process_time(), time.perf_counter() + _TURN_SECONDS
    while not runs or time.perf_counter() < end:
        start = clock()
        function()
        runs.append(clock() - start)
    return Turn(runs, (time.process_time() - cpu) / len(runs))


def _summary(turns: list[Turn]) -> Timing:
    runs = [seconds for one in turns for seconds in one.seconds]
    return Timing(min(runs), statistics.median(runs), statistics.median(one.cpu for one in turns), len(runs))
