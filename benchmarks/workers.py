"""Processes of their own, confined to some cores: JAX counts the cores once, when it is imported."""

import concurrent.futures
import contextlib
import functools
import multiprocessing
from collections.abc import Callable, Iterator
from typing import Any

import machine
import timing

_prepared: dict[str, Callable[[], Any]] = {}  # in a worker: its subjects


def run_on(cores: list[int], function: Callable, *arguments: Any) -> Any:
    """Runs a function of a module in a fresh process on some cores, and returns what it returns."""
    with _pool(cores) as pool:
        return pool.submit(function, *arguments).result()


@contextlib.contextmanager
def subjects_on(cores: list[int], prepare: Callable, *arguments: Any) -> Iterator[dict[str, Callable[[], timing.Turn]]]:
    """Subjects for `timing.take_turns` that run, and are timed, in a process on some cores.

    Args:
      cores: where it may run.
      prepare: called there with the arguments; returns functions without arguments by their names.
      arguments: picklable.
    """
    with _pool(cores) as pool:
        names = pool.submit(_prepare, prepare, arguments).result()
        yield {name: functools.partial(_turn_in, pool, name) for name in names}


def _pool(cores: list[int]) -> concurrent.futures.ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return concurrent.futures.ProcessPoolExecutor(1, context, initializer=machine.pin, initargs=(cores,))


def _prepare(prepare: Callable, arguments: tuple) -> list[str]:
    _prepared.update(prepare(*arguments))
    return list(_prepared)


def _turn_in(pool: concurrent.futures.Executor, name: str) -> timing.Turn:
    return pool.submit(_turn_of, name).result()


def _turn_of(name: str) -> timing.Turn:
    return timing.turn(_prepared[name])
