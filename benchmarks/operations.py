"""fhejax's operations as they are measured: each a jitted function of its operands, keys included."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from timing import take_turns

import fhejax as fhe
from fhejax import native
from fhejax.primitives import modular
from fhejax.primitives.ntt import inverse_ntt, ntt

ROTATIONS = tuple(range(1, 9))


class Subject(NamedTuple):
    """Something to time. A run counts as `parts` equal ones, so that transforms are given for one limb."""

    run: Callable[[], Any]
    parts: int = 1


def parameters(log_degree: int) -> fhe.Parameters:
    """The library's own set of each ring; for N = 2^16 with fewer limbs than the preset, as many as DESILO has there.

    Raises:
      ValueError: a ring outside 2^13 ... 2^16.
    """
    if log_degree == 16:
        return fhe.Parameters.for_depth(28, scale_bits=40, log_degree=16)
    return fhe.Parameters.preset(f"n{log_degree}")


def prepare(params: fhe.Parameters) -> dict[str, Subject]:
    """Makes keys and ciphertexts, checks one product, and returns the operations."""
    seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 6)
    secret = fhe.secret_key(seeds[0], params)
    public = fhe.public_key(seeds[1], secret)
    keys = fhe.evaluation_keys(seeds[2], secret, rotations=ROTATIONS, conjugation=True)
    values, plain, x = example(params, seeds[3], public)
    y = fhe.encrypt(seeds[5], public, plain)
    raw = x * y
    error = np.max(np.abs(fhe.decrypt(secret, fhe.multiply(x, y, keys)) - values**2))
    assert error < 1e-3, f"the product is wrong by {error}"

    # Of two components, with the scale of a product.
    squared = fhe.encrypt(seeds[3], secret, fhe.encode(values, params, scale=params.scale_at(params.max_level) ** 2))
    moduli, limbs = params.moduli, len(params.moduli)
    calls: dict[str, tuple[Callable, tuple]] = {
        "ntt": (lambda a: ntt(a, moduli), (plain.data,)),
        "inverse_ntt": (lambda a: inverse_ntt(a, moduli), (plain.data,)),
        "encode": (lambda v: fhe.encode(v, params), (values,)),
        "decode": (fhe.decode, (plain,)),
        "encrypt": (fhe.encrypt, (seeds[4], public, plain)),
        "decrypt": (fhe.decrypt, (secret, x)),
        "add": (fhe.add, (x, y)),
        "multiply_plain": (fhe.multiply_plain, (x, plain)),
        "multiply": (fhe.multiply, (x, y, keys)),
        "square": (fhe.square, (x, keys)),
        "rescale": (fhe.rescale, (squared,)),
        "rotate": (lambda c, k: fhe.rotate(c, 1, k), (x, keys)),
        f"rotate_many({len(ROTATIONS)})": (lambda c, k: fhe.rotate_many(c, ROTATIONS, k), (x, keys)),
        "conjugate": (fhe.conjugate, (x, keys)),
        "relinearize": (fhe.relinearize, (raw, keys)),
        "evaluation_key": (lambda seed, key: fhe.evaluation_keys(seed, key), (seeds[4], secret)),
    }
    parts = {"ntt": limbs, "inverse_ntt": limbs}
    return {name: Subject(_ready(jax.jit(f), *operands), parts.get(name, 1)) for name, (f, operands) in calls.items()}


def example(params: fhe.Parameters, seed: Any, key: Any) -> tuple[np.ndarray, fhe.Plaintext, fhe.Ciphertext]:
    """Values in [-1, 1] in all slots: plain, encoded and encrypted."""
    values = np.linspace(-1, 1, params.slots)
    plain = fhe.encode(values, params)
    return values, plain, fhe.encrypt(seed, key, plain)


def eager_add(params: fhe.Parameters, rounds: int, seconds: float) -> dict[str, float]:
    """What an eager `add` costs beyond its kernel, in microseconds.

    The kernel's own time is the slope between a jitted chain of 65 additions and one of a single addition, so
    everything that an eager call does besides counts as overhead: Python, pytrees, dispatch, waiting.
    """
    seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 2)
    _, _, x = example(params, seeds[1], fhe.secret_key(seeds[0], params))
    links = 64

    def chain(a):
        total = a
        for _ in range(links + 1):
            total = modular.add(total, a, params.moduli)
        return total

    times = take_turns(
        {
            "eager": _ready(fhe.add, x, x),
            "jit": _ready(jax.jit(fhe.add), x, x),
            "once": _ready(jax.jit(lambda a: modular.add(a, a, params.moduli)), x.data),
            "chain": _ready(jax.jit(chain), x.data),
        },
        rounds,
        seconds,
    )
    kernel = (times["chain"].minimum - times["once"].minimum) / links
    return {
        "eager_us": 1e6 * times["eager"].median,
        "jit_us": 1e6 * times["jit"].median,
        "kernel_us": 1e6 * kernel,
        "overhead_us": 1e6 * (times["eager"].median - kernel),
        "eager_over_jit": times["eager"].median / times["jit"].median,
    }


def instruction_set() -> str:
    """The kernels in use: their instruction set, or that there are none."""
    extension = native.cpu_extension()
    return extension.instruction_set() if extension else "none: pure-JAX reference"


def _ready(function: Callable, *operands: Any) -> Callable[[], Any]:
    return lambda: jax.block_until_ready(function(*operands))
