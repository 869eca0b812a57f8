"""Key switching and what contains it for CUDA, emulated, against the reference, bit for bit."""

import jax
import numpy as np
import pytest
from emulation import assert_equals_reference
from hypothesis import given, settings, strategies as st
from residues import chain, on_device, random_residues

from fhejax.parameters.primes import nearest_prime
from fhejax.primitives.double_hoisting import Basis, add_rotation, hoisted_sums
from fhejax.primitives.key_switch import (
    SeededKey,
    gadget_product,
    hoisted_rotations,
    inner_product,
    key_switch,
)
from fhejax.primitives.multiply_ciphertexts import multiply_ciphertexts, relinearize_rescale

BITS = (61, 40, 50, 49, 30, 55)  # of q_0..
SPECIAL_BITS = (61, 45)


class Ring:
    """Primes and random operands of one degree; keys have all limbs, ciphertexts those of a level."""

    def __init__(self, n, bits=BITS, special_bits=SPECIAL_BITS, digit_size=2, level=None, seeded=False):
        primes = chain(n, (*bits, *special_bits))
        self.n, self.digit_size, self.seeded = n, digit_size, seeded
        self.top, self.special = primes[: len(bits)], primes[len(bits) :]
        self.moduli = self.top[: len(bits) if level is None else level + 1]
        self.basis = Basis(self.moduli, self.special, digit_size)

    def residues(self, seed, *batch, extended=False):
        return random_residues(seed, self.basis.extended if extended else self.moduli, self.n, batch)

    def key(self, seed, *batch, seeded=None):
        digits, primes = -(-len(self.top) // self.digit_size), self.top + self.special
        if not (self.seeded if seeded is None else seeded):
            return random_residues(seed, primes, self.n, (*batch, digits, 2))
        words = np.random.default_rng(seed).integers(0, 2**32, (*batch, 8), dtype=np.uint32)
        return SeededKey(random_residues(seed, primes, self.n, (*batch, digits)), on_device(words))


def sums_of(ring, batch=(), key_batch=(), width=None):
    """Two ciphertexts, five rotations of them, three sums."""
    babies = ((0, 1), (0, 5), (1, 5), (1, 2 * ring.n - 1), (1, 1))
    sums = ((0, 1, 2, 3), (4,), (2, 4, 1))
    plains = random_residues(7, ring.basis.extended, width or ring.n, (*batch, sum(map(len, sums))))
    keys = {5: ring.key(4, *key_batch), 2 * ring.n - 1: ring.key(5, seeded=True)}
    operation = lambda x, y, plains, keys: hoisted_sums((x, y), plains, keys, babies, sums, ring.basis)
    return operation, ring.residues(0, *batch, 2), ring.residues(1, 2), plains, keys


def operation_of(name, ring, batch=(), key_batch=()):
    """A function and its operands, with a batch of operands and one of the key."""
    key, rest, element = ring.key(3, *key_batch), ring.basis, 2 * ring.n - 3
    if name == "gadget_product":
        return lambda x, k: gadget_product(x, k, *rest), ring.residues(0, *batch), key
    if name == "key_switch":
        return lambda x, k: key_switch(x, k, *rest), ring.residues(0, *batch), key
    if name == "hoisted_rotations":
        other = ring.key(6, seeded=not ring.seeded)
        rotate = lambda c, k, other: hoisted_rotations(c, [k, other, k], (element, 5, 1), *rest)
        return rotate, ring.residues(0, *batch, 2), key, other
    if name == "one_rotation":
        return lambda c, k: hoisted_rotations(c, [k], (5,), *rest), ring.residues(0, *batch, 2), key
    if name == "multiply_ciphertexts":
        longer = random_residues(1, ring.top, ring.n, (2,))
        return lambda x, y, k: multiply_ciphertexts(x, y, k, *rest), ring.residues(0, *batch, 2), longer, key
    if name == "relinearize_rescale":
        return lambda d, k: relinearize_rescale(d, k, *rest), ring.residues(0, *batch, 3), key
    if name == "add_rotation":
        pairs = ring.residues(0, *batch, 2, extended=True), ring.residues(1, 2, extended=True)
        return lambda a, b, k: add_rotation(a, b, k, element, rest), *pairs, key
    return sums_of(ring, batch, key_batch)


OPERATIONS = [
    "gadget_product",
    "key_switch",
    "hoisted_rotations",
    "one_rotation",
    "multiply_ciphertexts",
    "relinearize_rescale",
    "add_rotation",
    "hoisted_sums",
]


@pytest.mark.parametrize(("level", "seeded"), [(5, False), (3, True)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name, level, seeded, arithmetic):
    """With a key of the level, and with a longer seeded one."""
    function, *operands = operation_of(name, Ring(32, level=level, seeded=seeded))
    assert_equals_reference(function, *operands, seed=level)


@pytest.mark.parametrize("batches", [((3,), ()), ((2, 1), (1, 3)), ((), (2,)), ((0,), ())])
@pytest.mark.parametrize("name", OPERATIONS)
def test_batches_broadcast(name, batches):
    function, *operands = operation_of(name, Ring(8, bits=(50, 40, 61), seeded=True), *batches)
    assert_equals_reference(function, *operands)


@pytest.mark.parametrize("name", OPERATIONS)
def test_two_launches_a_transform(name, arithmetic):
    function, *operands = operation_of(name, Ring(1 << 12, bits=(55, 40, 41), special_bits=(49,)))
    assert_equals_reference(function, *operands, check=False)


@pytest.mark.parametrize("name", ["multiply_ciphertexts", "hoisted_rotations"])
def test_two_launches_a_transform_are_clean(name):
    function, *operands = operation_of(name, Ring(1 << 12, bits=(55, 40), special_bits=(49,)))
    assert_equals_reference(function, *operands)


@pytest.mark.parametrize("digit_size", [1, 3, 4, 7])
@pytest.mark.parametrize("name", ["key_switch", "multiply_ciphertexts", "add_rotation"])
def test_digits_of_any_size(name, digit_size, arithmetic):
    bits = (61, 40, 41, 42, 43, 44, 50)
    function, *operands = operation_of(name, Ring(8, bits, (60, 45, 46), digit_size, level=5))
    assert_equals_reference(function, *operands)


@pytest.mark.parametrize("width", [1, 4, 16])
def test_plaintexts_that_repeat(width):
    function, *operands = sums_of(Ring(16), (2,), (), width)
    assert_equals_reference(function, *operands)


@pytest.mark.parametrize("bits", [50, 61])
def test_largest_residues(bits, arithmetic):
    n, primes = 1 << 6, []
    for _ in range(4):
        primes.append(nearest_prime((1 << bits) - 1, 2 * n, primes))
    moduli, special = tuple(primes[:3]), tuple(primes[3:])
    q = np.array(primes, np.uint64)[:, None]
    largest = lambda *batch: on_device(np.broadcast_to(q - np.uint64(1), (*batch, 4, n)))
    x, key = largest()[:3], largest(3, 2)
    pair, d = largest(2)[:, :3], largest(3)[:, :3]
    for digit_size in (1, 2):
        basis = (moduli, special, digit_size)
        assert_equals_reference(lambda x, k, b=basis: key_switch(x, k, *b), x, key)
        assert_equals_reference(lambda c, k, b=basis: multiply_ciphertexts(c, c, k, *b), pair, key)
        assert_equals_reference(lambda d, k, b=basis: relinearize_rescale(d, k, *b), d, key)


@pytest.mark.parametrize("terms", [1, 3, 4, 130])
def test_inner_products(terms, arithmetic):
    n, moduli = 40, chain(64, (61, 50, 49, 20))
    digits, key = random_residues(0, moduli, n, (2, 1, terms)), random_residues(1, moduli, n, (3, terms, 2))
    assert_equals_reference(lambda d, k: inner_product(d, k, moduli), digits, key, check=terms < 130)
    q = np.array(moduli, np.uint64)[:, None]
    digits, key = (on_device(np.broadcast_to(q - np.uint64(1), (*own, 4, n))) for own in ((terms,), (terms, 2)))
    assert_equals_reference(lambda d, k: inner_product(d, k, moduli), digits, key)


@settings(deadline=None, max_examples=8)
@given(
    name=st.sampled_from(OPERATIONS),
    log_n=st.integers(3, 8),
    bits=st.lists(st.integers(20, 61), min_size=2, max_size=6),
    special_bits=st.lists(st.integers(50, 61), min_size=1, max_size=3),
    digit_size=st.integers(1, 4),
    seeded=st.booleans(),
    batch=st.sampled_from([(), (1,), (2,)]),
)
def test_anything(name, log_n, bits, special_bits, digit_size, seeded, batch):
    ring = Ring(1 << log_n, bits, special_bits, digit_size, seeded=seeded)
    function, *operands = operation_of(name, ring, batch)
    assert_equals_reference(function, *operands)


@pytest.mark.parametrize("name", OPERATIONS)
def test_lowering_for_cuda_calls_one_handler(name):
    """Also where there is no GPU: the handler and its workspace, and nothing else."""
    function, *operands = operation_of(name, Ring(8, bits=(50, 40, 61), seeded=True))
    with jax.enable_x64(True):
        text = jax.jit(function).trace(*operands).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("stablehlo.custom_call @") == 1
    handler = "hoisted_rotations" if name == "one_rotation" else name
    assert f"@fhejax_{handler}_v1" in text
