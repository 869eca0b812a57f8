"""Prints the card of a bootstrapping with what it measures here and now: python -m fhejax.bootstrapping [PRESET]."""

import argparse
import dataclasses
import resource
import sys
import time
from typing import Any

import jax
import numpy as np

from fhejax.bootstrapping.bootstrapping import Bootstrapping
from fhejax.bootstrapping.preset import PRESETS
from fhejax.bootstrapping.profile import profile
from fhejax.bootstrapping.refresh import bootstrap
from fhejax.bootstrapping.report import Bits, Measured
from fhejax.operations.encryption import decrypt, encrypt
from fhejax.operations.levels import drop_to_level
from fhejax.report.precision import precision
from fhejax.report.progress import meter
from fhejax.scheme.keys import secret_key
from fhejax.scheme.random import new_seed, split_seed


def main() -> None:
    """Measures a preset and prints its card, and with --profile its stages."""
    parser = argparse.ArgumentParser(prog="python -m fhejax.bootstrapping", description=__doc__)
    parser.add_argument("preset", nargs="?", default="C", choices=PRESETS)
    parser.add_argument("--slots", type=int, help="how many slots, a power of two; N/2 if left out")
    parser.add_argument("--repeats", type=int, default=3, help="how often each time is taken; the least counts")
    parser.add_argument("--profile", action="store_true", help="print the stages too")
    parser.add_argument("--quiet", action="store_true", help="show no progress meters, which need tqdm")
    options = parser.parse_args()
    how = Bootstrapping(options.preset, options.slots)
    measured, table = measure(how, options.repeats, options.profile, not options.quiet)
    print(dataclasses.replace(how.card(), measured=measured, machine="this machine, now"))
    if table is not None:
        print(table)


def measure(how: Bootstrapping, repeats: int, stages: bool, progress: bool) -> tuple[Measured, Any]:
    """Bits, processor time and memory of one bootstrapping; and its stages, if they are asked for.

    Args:
      how: the bootstrapping.
      repeats: how often times are taken.
      stages: whether to profile it too.
      progress: whether to show progress meters.
    """
    params, rng = how.params, np.random.default_rng(0)
    seeds = split_seed(new_seed(), 5)
    secret = secret_key(seeds[0], params)
    started = time.process_time()
    keys = jax.block_until_ready(how.keys(seeds[1], secret, progress=progress))
    key_seconds = time.process_time() - started
    parts = rng.uniform(-1, 1, (3, params.slots))
    vectors = {"random": parts[0], "constant": np.ones(params.slots), "complex": parts[1] + 1j * parts[2]}
    run, bits, seconds = jax.jit(bootstrap), {}, float("inf")
    with meter("bootstrapping", progress, len(vectors) * (1 + repeats), "bootstrapping", "run") as watcher:
        for seed, (name, values) in zip(seeds[2:], vectors.items(), strict=True):
            x = drop_to_level(encrypt(seed, secret, values), how.input_level)
            for i in range(1 + repeats):  # the first run compiles
                started = time.process_time()
                y = jax.block_until_ready(run(x, keys))
                if i and name == "random":
                    seconds = min(seconds, time.process_time() - started)
                if watcher is not None:
                    watcher.update(1)
            kind = "float64" if y.real else "complex128"  # single precision holds 24 bits
            found = precision(values, decrypt(secret, y, dtype=kind))
            bits[name] = Bits(found.mean, found.worst)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)
    x = drop_to_level(encrypt(seeds[2], secret, parts[0]), how.input_level)
    table = profile(keys, x, secret, repeats=repeats, progress=progress) if stages else None
    return Measured(**bits, seconds=seconds, key_seconds=key_seconds, peak=peak), table


if __name__ == "__main__":
    main()
