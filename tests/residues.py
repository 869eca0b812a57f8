"""Residues for tests, and the definitions of the exact steps in Python integers."""

import math

import jax
import numpy as np

from fhejax.parameters.primes import nearest_prime, primitive_root


def chain(n: int, bits: tuple[int, ...]) -> tuple[int, ...]:
    """Distinct primes 1 mod 2N of about these sizes."""
    primes: list[int] = []
    for size in bits:
        primes.append(nearest_prime((1 << size) - (1 << (size - 3)), 2 * n, primes))
    return tuple(primes)


def random_residues(seed: int, moduli: tuple[int, ...], n: int, batch: tuple[int, ...] = ()) -> jax.Array:
    """Uniform residues with the boundary values 0, 1, (q-1)/2, (q+1)/2, q-1 scattered among them."""
    rng = np.random.default_rng(seed)
    limbs = []
    for q in moduli:
        row = rng.integers(0, q, (*batch, n), dtype=np.uint64)
        edges = rng.choice(np.array([0, 1, q // 2, q // 2 + 1, q - 1], np.uint64), (*batch, n))
        limbs.append(np.where(rng.random((*batch, n)) < 0.25, edges, row))
    return on_device(np.stack(limbs, axis=-2))


def on_device(array: np.ndarray) -> jax.Array:
    with jax.enable_x64(True):
        return jax.device_put(array)  # jnp.asarray compiles a program for each shape, since jax 0.10.2


def brv(i: int, n: int) -> int:
    bits = n.bit_length() - 1
    return int(f"{i:0{bits}b}"[::-1], 2) if bits else 0


def values_at_roots(coefficients, q: int) -> list[int]:
    """The NTT by its definition: the value at psi^(2 brv(i) + 1), for each i."""
    n = len(coefficients)
    psi = primitive_root(2 * n, q)
    points = [pow(psi, 2 * brv(i, n) + 1, q) for i in range(n)]
    return [sum(int(c) * pow(x, k, q) for k, c in enumerate(coefficients)) % q for x in points]


def compose(residues: np.ndarray, moduli: tuple[int, ...]) -> list[int]:
    """The integers in [0, Q) with these residues `[limbs, N]` (Chinese remainders)."""
    product = math.prod(moduli)
    weights = [(product // q) * pow(product // q, -1, q) for q in moduli]
    return [sum(int(r) * w for r, w in zip(column, weights, strict=True)) % product for column in residues.T]


def centred(x: int, modulus: int) -> int:
    """The representative of x in (-modulus/2, modulus/2]."""
    x %= modulus
    return x - modulus if 2 * x > modulus else x


def spread(integers: list[int], moduli: tuple[int, ...]) -> np.ndarray:
    """Residues `uint64[limbs, N]` of integers."""
    return np.array([[x % q for x in integers] for q in moduli], np.uint64)


def negacyclic_product(a: list[int], b: list[int], modulus: int) -> list[int]:
    """a b mod X^N + 1 in Python integers."""
    n = len(a)
    out = [0] * n
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            out[(i + j) % n] += x * y if i + j < n else -x * y
    return [c % modulus for c in out]
