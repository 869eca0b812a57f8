"""fhejax's operations as they are measured: each a jitted function of its operands, keys included."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import numpy as np
from timing import take_turns

import fhejax as fhe
from fhejax.primitives import modular, native
from fhejax.primitives.ntt import inverse_ntt, ntt

ROTATIONS = tuple(range(1, 9))


class Subject(NamedTuple):
    """Something to time. A run counts as `parts` equal ones, so that transforms are given for one limb."""

    run: Callable[[], Any]
    parts: int = 1


class Call(NamedTuple):
    """A function, and the names of its operands in `operands`."""

    function: Callable
    operands: tuple[str, ...]


def parameters(log_degree: int) -> fhe.Parameters:
    """The library's own set of each ring; for N = 2^16 with fewer limbs than the preset, as many as DESILO has there.

    Raises:
      ValueError: a ring outside 2^12 ... 2^16.
    """
    if log_degree == 12:
        return fhe.Parameters.from_bits(12, (36, 30), (37,), scale_bits=30)
    if log_degree == 16:
        return fhe.Parameters.for_depth(28, scale_bits=40, log_degree=16)
    return fhe.Parameters.preset(f"n{log_degree}")


def ring(log_degree: int, limbs: int, bits: int, digits: int = 3) -> fhe.Parameters:
    """A ring for comparisons: all primes of a size, some digits, and no regard for security."""
    size = -(-limbs // digits)
    sizes = (min(bits + 1, 61), *(bits,) * (limbs - 1))
    special = (max(min(bits + 1, 61), 50),) * size
    return fhe.Parameters.from_bits(log_degree, sizes, special, scale_bits=bits, digit_size=size, security=None)


def operands(params: fhe.Parameters, rotations: Iterable[int] = ROTATIONS) -> dict[str, Any]:
    """Keys, values in [-1, 1] in all slots, and ciphertexts of them."""
    seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 6)
    secret = fhe.secret_key(seeds[0], params)
    public = fhe.public_key(seeds[1], secret)
    values, plain, x = example(params, seeds[3], public)
    y = fhe.encrypt(seeds[5], public, plain)
    # Of two components, with the scale of a product.
    squared = fhe.encode(values, params, scale=params.scale_at(params.max_level) ** 2)
    return {
        "seed": seeds[4],
        "secret": secret,
        "public": public,
        "keys": fhe.evaluation_keys(seeds[2], secret, rotations=tuple(rotations), conjugation=True),
        "values": values,
        "plain": plain,
        "x": x,
        "y": y,
        "raw": x * y,
        "squared": fhe.encrypt(seeds[3], secret, squared),
    }


def calls(params: fhe.Parameters) -> dict[str, Call]:
    """Every operation measured."""
    moduli = params.moduli
    return {
        "ntt": Call(lambda a: ntt(a.data, moduli), ("plain",)),
        "inverse_ntt": Call(lambda a: inverse_ntt(a.data, moduli), ("plain",)),
        "encode": Call(lambda v: fhe.encode(v, params), ("values",)),
        "decode": Call(fhe.decode, ("plain",)),
        "encrypt": Call(fhe.encrypt, ("seed", "public", "plain")),
        "encode_encrypt": Call(fhe.encrypt, ("seed", "public", "values")),
        "decrypt": Call(fhe.decrypt, ("secret", "x")),
        "add": Call(fhe.add, ("x", "y")),
        "subtract": Call(fhe.subtract, ("x", "y")),
        "raw_multiply_plain": Call(lambda c, p: modular.multiply(c.data, p.data, moduli), ("x", "plain")),
        "multiply_plain": Call(fhe.multiply_plain, ("x", "plain")),
        "multiply": Call(fhe.multiply, ("x", "y", "keys")),
        "square": Call(fhe.square, ("x", "keys")),
        "rescale": Call(fhe.rescale, ("squared",)),
        "rotate": Call(lambda c, k: fhe.rotate(c, 1, k), ("x", "keys")),
        f"rotate_many({len(ROTATIONS)})": Call(lambda c, k: fhe.rotate_many(c, ROTATIONS, k), ("x", "keys")),
        "conjugate": Call(fhe.conjugate, ("x", "keys")),
        "relinearize": Call(fhe.relinearize, ("raw", "keys")),
        "evaluation_key": Call(lambda seed, key: fhe.evaluation_keys(seed, key), ("seed", "secret")),
    }


def prepare(params: fhe.Parameters) -> dict[str, Subject]:
    """Makes keys and ciphertexts, checks one product, and returns the operations."""
    given = operands(params)
    product = fhe.decrypt(given["secret"], fhe.multiply(given["x"], given["y"], given["keys"]))
    error = np.max(np.abs(product - given["values"] ** 2))
    assert error < 1e-3, f"the product is wrong by {error}"
    limbs = len(params.moduli)
    parts = {"ntt": limbs, "inverse_ntt": limbs}
    return {
        name: Subject(ready(jax.jit(call.function), *(given[operand] for operand in call.operands)), parts.get(name, 1))
        for name, call in calls(params).items()
    }


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
            "eager": ready(fhe.add, x, x),
            "jit": ready(jax.jit(fhe.add), x, x),
            "once": ready(jax.jit(lambda a: modular.add(a, a, params.moduli)), x.data),
            "chain": ready(jax.jit(chain), x.data),
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


def by_instruction_set(subject: Subject) -> dict[str, Callable[[], Any]]:
    """The same with each instruction set of this machine; the last one used stays chosen."""
    extension = native.cpu_extension()
    if not extension:
        return {}

    def run_with(name):
        extension.choose_instruction_set(name)
        subject.run()

    return {name: lambda name=name: run_with(name) for name in extension.instruction_sets()}


def ready(function: Callable, *operands: Any) -> Callable[[], Any]:
    """The call, until its result is there."""
    return lambda: jax.block_until_ready(function(*operands))
