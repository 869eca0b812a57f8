"""The figures that targets.py judges: each function runs in a process of its own and returns figures.

Everything that a figure compares takes turns in the same run, on one core and by processor time, which other programs
change little. Only what a second core brings is timed by the clock. `Size` says how large the rings are, so that tests
can take small ones.
"""

import concurrent.futures
import functools
import time
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import butterflies
import jax
import machine
import memory
import numpy as np
import operations
import peers
import work
import workers
from timing import Timing, take_turns

import fhejax as fhe
from fhejax.parameters.primes import largest_primes
from fhejax.primitives.ntt import inverse_ntt, ntt

_LINKS = 8  # transforms in a chain
_processor_turns = functools.partial(take_turns, clock=time.process_time)


class Size(NamedTuple):
    """How much is measured: rings at most so large, and seconds for everything that takes turns together."""

    log_degree: int
    limbs: int
    seconds: float

    def ring(self, log_degree: int, limbs: int, bits: int) -> fhe.Parameters:
        """The comparison's ring, or the largest allowed."""
        return operations.ring(min(log_degree, self.log_degree), min(limbs, self.limbs), bits)

    def rings(
        self, degrees_limbs: tuple[tuple[int, int], ...], sizes: tuple[int, ...]
    ) -> list[tuple[int, fhe.Parameters]]:
        """All of them for all sizes of primes, each with its size; none twice."""
        made = [(bits, self.ring(*degree_limbs, bits)) for degree_limbs in degrees_limbs for bits in sizes]
        return list(dict.fromkeys(made))


class Figure(NamedTuple):
    """One figure and its goal.

    Attributes:
      what: in words.
      median, least: by the medians and by the least times.
      goal: the bound, or None where the figure stands for itself.
      at_least: whether it is a lower bound.
      unit: what follows the number.
      details: times in milliseconds and the like.
    """

    what: str
    median: float
    least: float
    goal: float | None = None
    at_least: bool = False
    unit: str = "x"
    details: Mapping[str, Any] = types.MappingProxyType({})

    def met(self) -> bool | None:
        """Whether the median is within the goal."""
        if self.goal is None:
            return None
        return self.median >= self.goal if self.at_least else self.median <= self.goal


def transforms(size: Size) -> list[Figure]:
    """Transforms beside the loop of their butterflies, for the three sizes of primes."""
    figures = []
    for log_degree in sorted({min(log_degree, size.log_degree) for log_degree in (14, 16)}):
        for bits in (50, 45, 60):
            figures += _transforms(log_degree, bits, 1.25 if bits == 50 else None, size.seconds)
    return figures


def against_peers(size: Size) -> list[Figure]:
    """A product and a rotation beside those of the peers, at N = 2^14 with 8 limbs."""
    figures = []
    for bits, params in size.rings(((14, 8),), (49, 45)):
        theirs = peers.prepare(params)[1]
        ours = operations.prepare(params)
        for operation in ("multiply", "rotate"):
            figures += _beside(theirs, ours, operation, f"{_where(params)}, {bits} bits", 12, size.seconds)
    return figures


def against_transforms(size: Size) -> list[Figure]:
    """A product and a rotation beside the time of their transforms and of reading and writing their operands."""
    figures = []
    for bits, params in size.rings(((15, 16), (16, 28)), (49, 45)):
        figures += _against_transforms(params, bits, size.seconds)
    return figures


def two_threads(size: Size, cores: list[int]) -> list[Figure]:
    """How much faster a product is on two cores, beside how much faster the loop of butterflies is on them."""
    if len(cores) < 2:
        raise machine.Unavailable("two threads need two cores")
    params = size.ring(15, 16, 49)
    whole, half = (butterflies.loop(operations.instruction_set(), 50, passes=passes)[0] for passes in (20_000, 10_000))
    with (
        workers.subjects_on(cores[-1:], _product, params) as one,
        workers.subjects_on(cores[-2:], _product, params) as two,
    ):
        subjects = {"one": one["multiply"], "two": two["multiply"], "loop": whole}
        times = take_turns(subjects | {"loop on both": _on_each(cores[-2:], half)}, seconds=2 * size.seconds)

    share = lambda t: (t["one"] / t["two"]) / (t["loop"] / t["loop on both"])
    what = f"multiply, {_where(params)}: speed-up by two cores / that of the butterflies"
    details = {
        "speed_up": times["one"].median / times["two"].median,
        "speed_up_of_butterflies": times["loop"].median / times["loop on both"].median,
    }
    return [_figure(what, times, share, 0.9, at_least=True, details=details)]


def batch(size: Size) -> list[Figure]:
    """A product of eight pairs under `vmap`, in units of one."""
    params = size.ring(15, 16, 49)
    given = operations.operands(params, ())
    x, keys = given["x"], given["keys"]
    xs = fhe.encrypt(given["seed"], given["secret"], np.stack([given["values"]] * 8))
    several = jax.jit(jax.vmap(fhe.multiply, in_axes=(0, 0, None)))
    subjects = {
        "one": operations.ready(jax.jit(fhe.multiply), x, x, keys),
        "eight": operations.ready(several, xs, xs, keys),
    }
    return [_ratio(f"multiply of 8 under vmap / one, {_where(params)}", subjects, "eight", "one", 7.5, size.seconds)]


def streaming(size: Size) -> list[Figure]:
    """Bytes a second of additions and raw products, as a share of those of a copy that moves as many."""
    params = size.ring(16, 28, 49)
    given, calls = operations.operands(params, ()), operations.calls(params)
    needed = work.of_operations(params, 8)
    figures = []
    for operation in ("add", "subtract", "raw_multiply_plain"):
        call = calls[operation]
        run = operations.ready(jax.jit(call.function), *(given[name] for name in call.operands))
        moved = needed[operation].moved
        times = _processor_turns({"ours": run, "copy": machine.copy(moved)}, seconds=size.seconds)
        rates = {f"{name}_gigabytes_per_second": moved / time.median / 1e9 for name, time in times.items()}
        what = f"{operation}, {_where(params)}: bytes per second / those of a copy"
        share = lambda t: 100 * t["copy"] / t["ours"]
        figures.append(_figure(what, times, share, 80, at_least=True, unit="%", details=rates))
    return figures


def hoisting(size: Size) -> list[Figure]:
    """Eight rotations together, in units of eight apart."""
    figures = []
    for _, params in size.rings(((14, 8), (15, 16)), (49,)):
        given = operations.operands(params)
        apart = jax.jit(lambda x, keys: [fhe.rotate(x, step, keys) for step in operations.ROTATIONS])
        together = jax.jit(lambda x, keys: fhe.rotate_many(x, operations.ROTATIONS, keys))
        subjects = {
            "apart": operations.ready(apart, given["x"], given["keys"]),
            "together": operations.ready(together, given["x"], given["keys"]),
        }
        what = f"rotate_many of 8 / 8 rotations, {_where(params)}"
        figures.append(_ratio(what, subjects, "together", "apart", 0.55, size.seconds))
    return figures


def seeded_keys(size: Size) -> list[Figure]:
    """A product with seeded keys, in units of one with full keys: of one ciphertext, and of four under `vmap`."""
    figures = []
    for _, params in size.rings(((14, 8), (15, 16)), (49,)):
        given = operations.operands(params, ())
        seeded = fhe.evaluation_keys(given["seed"], given["secret"], seeded=True)
        four = fhe.encrypt(given["seed"], given["secret"], np.stack([given["values"]] * 4))
        for words, x in {"multiply": given["x"], "multiply of 4 under vmap": four}.items():
            square = jax.jit(lambda keys, x: fhe.multiply(x, x, keys))
            subjects = {
                "full": operations.ready(square, given["keys"], x),
                "seeded": operations.ready(square, seeded, x),
            }
            what = f"{words}, {_where(params)}: seeded keys / full ones"
            figures.append(_ratio(what, subjects, "seeded", "full", None, size.seconds))
    return figures


def coding(size: Size) -> list[Figure]:
    """Encoding with encryption, and decryption with decoding, beside the faster peer's."""
    params = size.ring(15, 16, 49)
    theirs = peers.prepare(params)[1]
    ours = operations.prepare(params)
    names = {"encode_encrypt": "encode + encrypt", "decrypt": "decrypt + decode"}
    figures = []
    for operation, words in names.items():
        beside = _beside(theirs, ours, operation, _where(params), 5, size.seconds)
        if beside:
            fastest = min(beside, key=lambda figure: figure.median)
            figures.append(fastest._replace(what=fastest.what.replace(operation, words)))
    return figures


def peak_memory(size: Size) -> list[Figure]:
    """Memory of one product beyond its operands and its result, in ciphertexts."""
    params = size.ring(16, 28, 49)
    measured = memory.of_call("multiply", params)
    ciphertext = 2 * 8 * params.degree * len(params.moduli)
    beyond = (measured.peak - measured.result) / ciphertext
    what = f"multiply, {_where(params)}: peak memory beyond operands, key and result"
    return [Figure(what, beyond, beyond, 3, unit=" ciphertexts", details=measured._asdict())]


def _transforms(log_degree: int, bits: int, goal: float | None, seconds: float) -> list[Figure]:
    """Chains of transforms of one limb, judged; and eight limbs in a call of their own, whose result is new memory."""
    moduli = largest_primes(8, bits, 2 << log_degree)
    x, one = _residues(moduli, 1 << log_degree), moduli[:1]
    loops, counts = butterflies.loops(operations.instruction_set(), {butterflies.size_of(one[0])})
    figures = []
    for direction, transform in {"forward": ntt, "inverse": inverse_ntt}.items():
        loop = butterflies.name_of(butterflies.size_of(one[0]), transform is inverse_ntt)
        subjects = {
            "chain": _chain(transform, one, x[:1]),
            "call": operations.ready(jax.jit(lambda a, f=transform: f(a, moduli)), x),
            "butterflies": loops[loop],
        }
        times = _processor_turns(subjects, seconds=seconds)
        parts = {
            "chain": _LINKS,
            "call": len(moduli),
            "butterflies": counts[loop] / butterflies.of_transform(log_degree),
        }
        times = {name: time.divided(parts[name]) for name, time in times.items()}
        what = f"NTT, N=2^{log_degree}, {bits} bits, {direction}"
        figures += [
            _figure(f"{what}: time", times, lambda t: 1e3 * t["chain"], unit=" ms"),
            _figure(f"{what}: time / its butterflies", times, lambda t: t["chain"] / t["butterflies"], goal),
            _figure(
                f"{what}: a limb of 8 in one call / its butterflies", times, lambda t: t["call"] / t["butterflies"]
            ),
        ]
    return figures


def _chain(transform: Callable, moduli: tuple[int, ...], x: jax.Array) -> Callable[[], Any]:
    """`_LINKS` transforms one after the other in one program: without JAX's dispatch and fresh memory for each."""

    def links(a):
        for _ in range(_LINKS):
            a = transform(a, moduli)
        return a

    return operations.ready(jax.jit(links), x)


def _against_transforms(params: fhe.Parameters, bits: int, seconds: float) -> list[Figure]:
    given, calls = operations.operands(params, (1,)), operations.calls(params)
    needed = work.of_operations(params, 8)
    moduli = (*params.moduli, *params.special_moduli)
    x = _residues(moduli, params.degree)
    figures = []
    for operation in ("multiply", "rotate"):
        call = calls[operation]
        subjects = {
            "ours": operations.ready(jax.jit(call.function), *(given[name] for name in call.operands)),
            "forward": _chain(ntt, moduli, x),
            "inverse": _chain(inverse_ntt, moduli, x),
            "copy": machine.copy(needed[operation].moved),
        }
        times = _processor_turns(subjects, seconds=2 * seconds)
        forward, inverse = (count / len(moduli) / _LINKS for count in needed[operation].transforms())
        ratio = lambda t, f=forward, i=inverse: t["ours"] / (f * t["forward"] + i * t["inverse"] + t["copy"])
        what = f"{operation}, {_where(params)}, {bits} bits: time / (its NTTs + its bytes)"
        figures.append(_figure(what, times, ratio, 1.5))
    return figures


def _beside(theirs, ours, operation: str, where: str, goal: float, seconds: float) -> list[Figure]:
    """One figure a peer: its time in units of ours."""
    subjects = {name: peer[operation].run for name, peer in theirs.items() if operation in peer}
    times = _processor_turns(subjects | {"ours": ours[operation].run}, seconds=2 * seconds)
    ratio = lambda name: lambda t: t[name] / t["ours"]
    return [
        _figure(f"{operation}, {where}: {name} / ours", times, ratio(name), goal, at_least=True) for name in subjects
    ]


def _ratio(what: str, subjects, numerator: str, denominator: str, goal: float | None, seconds: float) -> Figure:
    times = _processor_turns(subjects, seconds=2 * seconds)
    return _figure(what, times, lambda t: t[numerator] / t[denominator], goal)


def _figure(
    what: str,
    times: Mapping[str, Timing],
    formula: Callable[[dict[str, float]], float],
    goal: float | None = None,
    *,
    at_least: bool = False,
    unit: str = "x",
    details: Mapping[str, float] = types.MappingProxyType({}),
) -> Figure:
    """A figure of times, once by their medians and once by the least ones."""
    median = formula({name: time.median for name, time in times.items()})
    least = formula({name: time.minimum for name, time in times.items()})
    milliseconds = {f"{name}_milliseconds": 1e3 * time.median for name, time in times.items()}
    return Figure(what, median, least, goal, at_least, unit, {**milliseconds, **details})


def _on_each(cores: list[int], function: Callable[[], Any]) -> Callable[[], Any]:
    """The function on several threads at once, each confined to a core."""
    pools = [concurrent.futures.ThreadPoolExecutor(1, initializer=machine.pin, initargs=([core],)) for core in cores]
    return lambda: [started.result() for started in [pool.submit(function) for pool in pools]]


def _product(params: fhe.Parameters) -> dict[str, Callable[[], Any]]:
    given = operations.operands(params, ())
    return {"multiply": operations.ready(jax.jit(fhe.multiply), given["x"], given["y"], given["keys"])}


def _residues(moduli: tuple[int, ...], degree: int) -> jax.Array:
    generator = np.random.default_rng(0)
    with jax.enable_x64(True):
        return jax.device_put(np.stack([generator.integers(0, q, degree, np.uint64) for q in moduli]))


def _where(params: fhe.Parameters) -> str:
    return f"N=2^{params.log_degree}, {len(params.moduli)} limbs"
