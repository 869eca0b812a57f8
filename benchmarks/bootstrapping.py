"""Measures bootstrapping on one core: its time beside its transforms and bytes, kinds and packings beside each other.

python benchmarks/bootstrapping.py [PRESET[@LEVELS][:SLOTS] ...] [--json PATH] [--quick]

LEVELS are those for programs, if fewer than the preset's. The default is C with all slots, with 4096, with 8
and with 4 levels; B2, A and M. The first table:

  time       of one bootstrapping of real slots, in seconds
  of first   the share of the time of the first row, and the share that `fhejax.bootstrapping.plan.work` foretells
  /bound     the time beside the sum of its transforms, each as fast as in programs of eight, and of a copy that moves
             as many bytes as the operands and results of all its kernels; and how fast that copy is, in GB/s
  keys       seconds to make the keys, compilation and diagonals included, and GB of keys; GB of diagonals
  peak       GB that the process held at most, up to the first bootstrapping
  bits       mean and worst: real slots uniform in [-1, 1]; all slots 1

The second: seconds for complex slots, for two real ciphertexts by `bootstrap_many`, and for `iterations=2`, with bits.
"""

import argparse
import json
import pathlib
import resource
import time
from typing import Any

import machine
import workers
from timing import take_turns

_CASES, _QUICK = ["C", "C:4096", "C:8", "C@4", "B2", "A", "M"], ["T", "T@2:8"]
_LINKS, _COPIED = 8, 1 << 28


def main() -> None:
    """Measures all cases and prints two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="PRESET[@LEVELS][:SLOTS]")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the figures")
    parser.add_argument("--quick", action="store_true", help="a small ring and few runs: says only that all runs")
    options = parser.parse_args()
    report: dict[str, Any] = {"machine": machine.describe(), "quick": options.quick, "cases": []}
    print(_line("preset", "time", "of first: time, plan", "/bound: copy", "keys", "diagonals", "peak", "bits", "ones"))
    for case in options.cases or (_QUICK if options.quick else _CASES):
        name, _, slots = case.partition(":")
        rounds = 1 if options.quick else 5
        entry = workers.run_on(machine.cores()[-1:], measure, name, int(slots) if slots else None, rounds)
        report["cases"].append(entry)
        print(_row(entry, report["cases"][0]), flush=True)
    print("\n" + _line("preset", "complex", "two by bootstrap_many", "twice", "bits twice"))
    for entry in report["cases"]:
        seconds = (f"{entry['cpu'][kind]:.2f}" for kind in ("complex", "pair", "twice"))
        print(_line(_name(entry), *seconds, _bits(entry, "twice")))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


def measure(name: str, slots: int | None, rounds: int) -> dict[str, Any]:
    """Seconds, bytes and bits of a preset."""
    import jax
    import numpy as np
    import operations

    import fhejax as fhe
    from fhejax.bootstrapping import plan
    from fhejax.bootstrapping.preset import PRESETS

    preset, _, levels = name.partition("@")
    how = fhe.Bootstrapping(PRESETS[preset].with_depth(int(levels or PRESETS[preset].depth)), slots, slots_first=True)
    params, rng, sizes = how.params, np.random.default_rng(0), plan.sizes(how)
    seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 5)
    secret = fhe.secret_key(seeds[0], params)
    started = time.process_time()
    keys = jax.block_until_ready(how.keys(seeds[1], secret))
    entry = {"preset": name, "slots": params.slots, "levels": how.output_level - how.input_level}
    entry |= {"key_seconds": time.process_time() - started, "keys": sizes.keys, "diagonals": sizes.transforms}

    real, other = rng.uniform(-1, 1, (2, params.slots))
    vectors = {"random": real, "constant": np.ones(params.slots), "complex": real + 1j * other}
    fresh = {
        kind: fhe.encrypt(seed, secret, each) for seed, (kind, each) in zip(seeds[2:], vectors.items(), strict=True)
    }
    given = {kind: fhe.drop_to_level(x, how.input_level) for kind, x in fresh.items()}
    once = jax.jit(fhe.bootstrap)
    twice = jax.jit(lambda x, keys: fhe.bootstrap(x, keys, iterations=2))
    pair = jax.jit(lambda x, keys: fhe.bootstrap_many([x, x], keys))

    def bits(kind, run, x):
        found = fhe.precision(vectors[kind], fhe.decrypt(secret, run(x, keys), dtype="float64"))
        return found.mean, found.worst

    entry["bits"] = {kind: bits(kind, once, given[kind]) for kind in ("random", "constant")}
    entry["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    entry["bits"]["twice"] = bits("random", twice, fresh["random"])
    others = {
        "complex": operations.ready(once, given["complex"], keys),
        "pair": operations.ready(pair, given["random"], keys),
        "twice": operations.ready(twice, fresh["random"], keys),
    }
    entry |= {"plan": plan.work(how)} | _beside_bound(once, given["random"], keys, rounds)
    entry["cpu"] |= {name: timing.cpu for name, timing in take_turns(others, rounds=1).items()}
    return entry


def _beside_bound(once, x, keys, rounds):
    """The time, the bound, and what it is made of."""
    import jax
    import operations
    import work

    from fhejax import _compat
    from fhejax.primitives.ntt import inverse_ntt, ntt

    needed = work.of_equations(_compat.x64(jax.make_jaxpr(once))(x, keys).jaxpr)
    primes = {q.bit_length(): q for q in sorted({*needed.forward, *needed.inverse}, reverse=True)}
    with jax.enable_x64(True):
        row = jax.numpy.ones((1, keys.params.degree), "uint64")
        chains = {
            f"{way.__name__} {bits}": operations.ready(jax.jit(lambda a, way=way, q=q: _chain(way, q, a)), row)
            for bits, q in primes.items()
            for way in (ntt, inverse_ntt)
        }
    subjects = {"real": operations.ready(once, x, keys), "copy": machine.copy(_COPIED)}
    times = take_turns(subjects | chains, rounds=rounds)
    of = lambda way, counts: sum(
        times[f"{way.__name__} {q.bit_length()}"].median / _LINKS * count for q, count in counts.items()
    )
    transforms = of(ntt, needed.forward) + of(inverse_ntt, needed.inverse)
    copied = times["copy"].median * needed.moved / _COPIED
    return {
        "cpu": {"real": times["real"].cpu},
        "transforms": needed.transforms(),
        "moved": needed.moved,
        "transform_seconds": transforms,
        "copy_seconds": copied,
        "copy_rate": _COPIED / times["copy"].median,
        "over_bound": times["real"].median / (transforms + copied),
    }


def _chain(transform, q, a):
    for _ in range(_LINKS):
        a = transform(a, (q,))
    return a


def _row(entry: dict[str, Any], first: dict[str, Any]) -> str:
    shares = f"{entry['cpu']['real'] / first['cpu']['real']:.2f}, {entry['plan'] / first['plan']:.2f}"
    return _line(
        _name(entry),
        f"{entry['cpu']['real']:.2f}",
        shares,
        f"{entry['over_bound']:.2f}: {entry['copy_rate'] / 1e9:.0f}",
        f"{entry['key_seconds']:.1f}, {entry['keys'] / 1e9:.2f}",
        f"{entry['diagonals'] / 1e9:.2f}",
        f"{entry['peak'] / 1e9:.2f}",
        *(_bits(entry, kind) for kind in ("random", "constant")),
    )


def _name(entry: dict[str, Any]) -> str:
    return f"{entry['preset']}:{entry['slots']}"


def _bits(entry: dict[str, Any], kind: str) -> str:
    return "{:.1f} {:.1f}".format(*entry["bits"][kind])


def _line(*cells: str) -> str:
    return "".join(
        cell.ljust(width) for cell, width in zip(cells, (10, 9, 23, 15, 12, 11, 7, 11, 11), strict=False)
    ).rstrip()


if __name__ == "__main__":
    main()
