"""Every kernel of every instruction set of this machine against the pure-JAX reference, bit for bit."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from references import assert_equals_reference
from residues import on_device, random_residues

from fhejax.parameters.primes import largest_primes
from fhejax.primitives import modular, native
from fhejax.primitives.automorphism import automorphism
from fhejax.primitives.basis import convert_basis, mod_down, mod_raise
from fhejax.primitives.key_switch import (
    SeededKey,
    gadget_product,
    hoisted_rotations,
    inner_product,
    key_masks,
    key_switch,
)
from fhejax.primitives.multiply_ciphertexts import multiply_ciphertexts, relinearize_rescale
from fhejax.primitives.ntt import inverse_ntt, ntt

EXTENSION = native.cpu_extension()
SETS = EXTENSION.instruction_sets() if EXTENSION else ()
# The ranges of each kind of kernel end at 2^45, 2^46, 2^50 and 2^61.
BITS = (20, 30, 45, 46, 50, 51, 61)


@pytest.fixture(params=SETS)
def instruction_set(request):
    default = EXTENSION.instruction_set()
    EXTENSION.choose_instruction_set(request.param)
    yield request.param
    EXTENSION.choose_instruction_set(default)


@functools.cache
def extreme_chain(n: int, bits: tuple[int, ...]) -> tuple[int, ...]:
    """The largest primes 1 mod 2N of so many bits, distinct: lazy ranges are nearest to their limits."""
    found: list[int] = []
    for size in bits:
        found += largest_primes(1, size, 2 * n, found)
    return tuple(found)


def extremes(moduli: tuple[int, ...], n: int, batch: tuple[int, ...] = ()) -> jax.Array:
    """All residues at their largest."""
    return on_device(np.broadcast_to(np.array(moduli, np.uint64)[:, None] - 1, (*batch, len(moduli), n)).copy())


@functools.cache
def case(name: str, *key):
    """A case, the same function for all instruction sets, so that it is compiled once."""
    function, arguments = CASES[name](*key)
    return jax.jit(function), arguments


def check(name: str, *key):
    function, arguments = case(name, *key)
    assert_equals_reference(function(*arguments), function, *arguments)


def transforms(log_n, rows):
    n = 1 << log_n
    moduli = extreme_chain(n, BITS)
    x, top = random_residues(log_n, moduli, n, (rows,)), extremes(moduli, n, (1,))
    return lambda *xs: [f(x, moduli) for f in (ntt, inverse_ntt) for x in xs], (x, top)


def value_by_value(n):
    moduli = extreme_chain(64, BITS)
    a, b, c = (random_residues(i, moduli, n) for i in range(3))
    top = extremes(moduli, n)

    def function(a, b, c, top):
        products = [modular.multiply(x, y, moduli) for x, y in ((a, b), (top, top))]
        sums = [modular.multiply_add(x, y, z, moduli) for x, y, z in ((a, b, c), (top, top, top))]
        return products, sums, [modular.multiply_scalar(x, top[:, 0], moduli) for x in (a, top)]

    return function, (a, b, c, top)


def conversions(terms, bits):
    """From `terms` primes of one size to all sizes, and sums of many terms, which kernels reduce on the way."""
    n = 64
    source = extreme_chain(n, (bits,) * terms)
    target = extreme_chain(n, (bits,) * terms + BITS)[terms:]
    x, top = random_residues(terms, source, n, (2,)), extremes(source, n, (1,))

    def function(x, top):
        converted = [convert_basis(y, source, target) for y in (x, top)]
        return converted, [mod_raise(y, source, target) for y in (x, top)]

    return function, (x, top)


def divisions(log_n, kept, dropped):
    n = 1 << log_n
    keep = extreme_chain(n, kept)
    drop = extreme_chain(n, kept + dropped)[len(kept) :]
    x = random_residues(5, keep + drop, n, (2, 2))
    return lambda x, top: [mod_down(y, keep, drop) for y in (x, top)], (x, extremes(keep + drop, n, (1,)))


def inner_products(terms):
    n, moduli = 64, extreme_chain(64, BITS)
    digits, key = random_residues(1, moduli, n, (terms,)), random_residues(2, moduli, n, (terms, 2))
    top = extremes(moduli, n, (terms,)), extremes(moduli, n, (terms, 2))
    return lambda *pairs: [inner_product(*pair, moduli) for pair in pairs], ((digits, key), top)


def switches(log_n, bits, special_bits, digit_size, batch):
    """All handlers that contain a key switch, of a key longer than the ciphertext."""
    n = 1 << log_n
    primes = extreme_chain(n, bits + special_bits)
    everything, special = primes[: len(bits)], primes[len(bits) :]
    moduli = everything[:-1]
    digits = -(-len(everything) // digit_size)
    x, y = (random_residues(i, moduli, n, (*batch, 2)) for i in (1, 2))
    key, other = (random_residues(i, everything + special, n, (digits, 2)) for i in (3, 4))

    def function(x, y, key, other):
        one = x[..., 1, :, :]
        return [
            gadget_product(one, key, moduli, special, digit_size),
            key_switch(one, key, moduli, special, digit_size),
            hoisted_rotations(x, [key], (5,), moduli, special, digit_size),
            hoisted_rotations(x, [key, other], (2 * n - 1, 25 % (2 * n)), moduli, special, digit_size),
            multiply_ciphertexts(x, y, key, moduli, special, digit_size),
            relinearize_rescale(jnp.concatenate([x, y[..., :1, :, :]], -3), key, moduli, special, digit_size),
        ]

    return function, (x, y, key, other)


def permutations(n):
    moduli = (97,)
    x = random_residues(7, moduli, n, (3,))
    return lambda x: [automorphism(x, g) for g in (5, 25 % (2 * n), 2 * n - 1, n + 1)], (x,)


CASES = {
    f.__name__: f for f in (transforms, value_by_value, conversions, divisions, inner_products, switches, permutations)
}


@pytest.mark.parametrize("log_n", range(3, 14))
def test_transforms(log_n, instruction_set):
    check("transforms", log_n, 3 if log_n < 12 else 2)


@pytest.mark.slow
@pytest.mark.parametrize("log_n", range(14, 18))
def test_long_transforms(log_n, instruction_set):
    check("transforms", log_n, 2)


@pytest.mark.parametrize("n", [8, 16, 64, 104, 1024])
def test_value_by_value(n, instruction_set):
    check("value_by_value", n)


def test_large_sums(instruction_set):
    """From 8 MiB on sums have a handler."""
    n = 1 << 17
    moduli = extreme_chain(n, (30, 40, 45, 46, 50, 51, 60, 61))
    a, b, q = random_residues(1, moduli, n), random_residues(2, moduli, n), np.array(moduli, np.uint64)[:, None]
    x, y = np.asarray(a), np.asarray(b)
    np.testing.assert_array_equal(modular.add(a, b, moduli), (x + y) % q)
    np.testing.assert_array_equal(modular.subtract(a, b, moduli), (x + q - y) % q)


def test_large_products(instruction_set):
    """Above 16 MiB products are written past the caches."""
    n = 1 << 17
    moduli = extreme_chain(n, (30, 40, 45, 46, 50, 51, 60, 61))
    a, b = (random_residues(seed, moduli, n, batch=(3,)) for seed in (1, 2))
    parts = [np.asarray(modular.multiply(a[i], b[i], moduli)) for i in range(3)]
    np.testing.assert_array_equal(modular.multiply(a, b, moduli), np.stack(parts))


@pytest.mark.parametrize("bits", [30, 45, 50, 51, 61])
@pytest.mark.parametrize("terms", [1, 2, 8])
def test_conversions(terms, bits, instruction_set):
    check("conversions", terms, bits)


@pytest.mark.parametrize("bits", [30, 45, 50, 51, 61])
@pytest.mark.parametrize("terms", [2, 8])
def test_conversions_close_to_the_half(terms, bits, instruction_set):
    """Integers close to C/2, where the last bits of every quotient decide what is subtracted."""
    n = 64
    source = extreme_chain(n, (bits,) * terms)
    target = extreme_chain(n, (bits,) * terms + BITS)[terms:]
    product = math.prod(source)
    integers = [product // 2 + sign * (product >> bit) for bit in range(12, 44) for sign in (1, -1)]
    x, expected = (
        np.array([[value % q for value in values] for q in moduli], np.uint64)
        for values, moduli in ((integers, source), ([v - product * (2 * v > product) for v in integers], target))
    )
    np.testing.assert_array_equal(convert_basis(on_device(x), source, target), expected)


@pytest.mark.slow  # to compile the reference
@pytest.mark.parametrize("bits", [50, 61])
@pytest.mark.parametrize("terms", [14, 15, 33])
def test_conversions_of_many_terms(terms, bits, instruction_set):
    check("conversions", terms, bits)


@pytest.mark.parametrize(
    ("kept", "dropped"), [((40, 45, 50), (50,)), ((61, 30, 49), (61, 60)), ((45,) * 9, (50, 50, 49)), ((61,), (40,))]
)
@pytest.mark.parametrize("log_n", [3, 5, 9])
def test_divisions(log_n, kept, dropped, instruction_set):
    check("divisions", log_n, kept, dropped)


@pytest.mark.parametrize("terms", [1, 2, 13, 14, 15, 29, 65])
def test_inner_products(terms, instruction_set):
    check("inner_products", terms)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize(
    ("bits", "special_bits", "digit_size"),
    [
        ((50, 40, 40, 40, 40, 40, 40), (50, 50, 50), 3),
        ((45, 45, 45, 45), (46,), 1),
        ((61, 50, 50, 51, 49), (61, 61), 2),
        ((60, 30, 30), (61,), 2),
    ],
)
@pytest.mark.parametrize("log_n", [3, 8, 10])
def test_key_switches(log_n, bits, special_bits, digit_size, batch, instruction_set):
    check("switches", log_n, bits, special_bits, digit_size, batch)


@pytest.mark.parametrize("n", [8, 16, 32, 1024])
def test_permutations(n, instruction_set):
    check("permutations", n)


def test_an_unknown_set_is_refused():
    with pytest.raises(ValueError, match="no such instruction set"):
        EXTENSION.choose_instruction_set("sse9")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize(
    ("bits", "special_bits", "digit_size"), [((50, 40, 45, 40), (50,), 1), ((61, 50, 50, 51, 49), (61, 61), 2)]
)
@pytest.mark.parametrize("log_n", [3, 11])
def test_seeded_key_switches(log_n, bits, special_bits, digit_size, batch, instruction_set):
    """A seeded key, its masks drawn block by block, against the full one with the masks that a seed gives."""
    n = 1 << log_n
    primes = extreme_chain(n, bits + special_bits)
    everything, special = primes[: len(bits)], primes[len(bits) :]
    moduli, digits = everything[:-1], -(-len(everything) // digit_size)
    x, y = (random_residues(i, moduli, n, (*batch, 2)) for i in (1, 2))
    first = random_residues(3, everything + special, n, (*batch, digits))
    seeds = on_device(np.random.default_rng(4).integers(0, 2**32, (*batch, 8), dtype=np.uint32))
    draw = lambda seeds: key_masks(seeds, digits, everything, special, n)
    masks = draw(seeds)
    assert_equals_reference(masks, draw, seeds)
    full = on_device(np.stack([first, masks], axis=-3))

    def function(x, y, key):
        one = x[..., 1, :, :]
        return [
            gadget_product(one, key, moduli, special, digit_size),
            key_switch(one, key, moduli, special, digit_size),
            hoisted_rotations(x, [key, key], (5, 2 * n - 1), moduli, special, digit_size),
            multiply_ciphertexts(x, y, key, moduli, special, digit_size),
            relinearize_rescale(jnp.concatenate([x, y[..., :1, :, :]], -3), key, moduli, special, digit_size),
        ]

    got, expected = (jax.jit(function)(x, y, key) for key in (SeededKey(first, seeds), full))
    jax.tree.map(np.testing.assert_array_equal, got, expected)
