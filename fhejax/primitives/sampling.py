"""Random residues from a seed: the one definition of every stream, which all lowerings share.

A block is the ChaCha20 block of RFC 8439, section 2.3: sixteen 32-bit words from a key, the eight words of a seed; a
counter; and a nonce of three words, `(tag, object, limb)`. Tags keep the uses of a seed apart: 1 for splitting, 2
uniform, 3 ternary, 4 Gaussian, 5 sparse. `object` is the index along `count`; `limb` is 0 unless said otherwise.
Counters start at 0, and two words make a 64-bit number, four a 128-bit one, the first word the lowest.

split: child `i` is the first eight words of block 0 with nonce (1, i, 0); the seed that a use of it draws from (a
  secret key, a public key, evaluation keys, an encryption: 1 to 4) is the same with nonce (1, 0, use).

uniform: coefficient `i` modulo prime number `j` is the number in words 4(i mod 4).. of block floor(i / 4), reduced
  modulo that prime, `limb` = j. No draw is rejected, so any coefficient can be made alone; the distribution is within
  2^-67 of uniform for primes below 2^61.

ternary: coefficient `i` is floor(3 r / 2^64) - 1, r the number in words 2(i mod 8).. of block floor(i / 8).

Gaussian, with deviation sigma: coefficient `i` takes 128 bits as in uniform. The top bit says whether it is negative;
  its magnitude is how many k < K = ceil(12.5 sigma) have T_k <= u, where u is the other 127 bits and T_k the integer
  nearest to 2^127 P(|X| <= k) for X with P(X = x) proportional to exp(-x^2 / (2 sigma^2)) on all integers.

sparse, of weight h: a Fisher-Yates shuffle. From the positions 0, 1, .., N-1 in a row, step j = 0..h-1 exchanges entry
  j and entry j + (u mod (N - j)); then entry j is the place of a coefficient -1 or 1. Step j takes its 128 bits as
  coefficient j does in Gaussian: u from the lower 127, negative if the top bit is set.

The last three give one small integer a coefficient, the same in every limb. Their kernels have no branch and no memory
access that depends on a secret, except for the shuffle: sparse secrets are for key generation only.

Source: Nir & Langley, "ChaCha20 and Poly1305 for IETF Protocols", RFC 8439, 2018; Peikert, "An Efficient and Parallel
Gaussian Sampler for Lattices", 2010, section 4.1 (inversion of the cumulative distribution).
"""

import decimal
import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32, UInt64

from fhejax import _compat
from fhejax.primitives.define import align_batch, batch_shape, define_primitive
from fhejax.primitives.modular import add_mod, limb_constants, multiply_high, multiply_mod, power_of_two_table

UNIFORM, TERNARY, GAUSSIAN, SPARSE = 2, 3, 4, 5

Seeds = UInt32[Array | np.ndarray, "*batch 8"]
Samples = UInt64[Array, "*batch count limbs N"]


def sample_uniform(seed: Seeds, count: int, moduli: tuple[int, ...], degree: int) -> Samples:
    """Uniform residues, independent in every limb: as good in NTT form as in coefficients.

    Args:
      seed: `uint32[*batch, 8]`.
      count: how many polynomials a seed gives.
      moduli: one prime a limb, each below 2^61.
      degree: the number of coefficients N.

    Returns:
      `uint64[*batch, count, limbs, N]`, reduced.

    Raises:
      TypeError: `seed` is not `uint32`.
      ValueError: `seed` does not end in an axis of 8.
    """
    return _uniform(jnp.asarray(seed), count=count, moduli=moduli, degree=degree)


def sample_ternary(seed: Seeds, count: int, moduli: tuple[int, ...], degree: int) -> Samples:
    """Coefficients uniform in {-1, 0, 1}, as residues. Arguments and errors as for `sample_uniform`."""
    return _ternary(jnp.asarray(seed), count=count, moduli=moduli, degree=degree)


def sample_gaussian(seed: Seeds, count: int, moduli: tuple[int, ...], degree: int, deviation: float) -> Samples:
    """Discrete Gaussian coefficients around 0, as residues.

    Args:
      seed, count, moduli, degree: as for `sample_uniform`.
      deviation: sigma, at most 80: the cost of a coefficient is 12.5 sigma comparisons.

    Raises:
      TypeError, ValueError: as for `sample_uniform`; `deviation` is not in (0, 80], or 12.5 sigma not below a modulus.
    """
    return _gaussian(jnp.asarray(seed), count=count, moduli=moduli, degree=degree, deviation=float(deviation))


def sample_sparse_ternary(seed: Seeds, count: int, moduli: tuple[int, ...], degree: int, weight: int) -> Samples:
    """Coefficients of which exactly `weight` are -1 or 1 and the others 0, as residues; not in constant time.

    Args:
      seed, count, moduli, degree: as for `sample_uniform`.
      weight: how many coefficients are not 0.

    Raises:
      TypeError, ValueError: as for `sample_uniform`; `weight` is not in 0..N.
    """
    return _sparse(jnp.asarray(seed), count=count, moduli=moduli, degree=degree, weight=weight)


def chacha20(
    key: UInt32[Array | np.ndarray, "*#batch 8"], place: UInt32[Array | np.ndarray, "*#batch count 4"]
) -> UInt32[Array, "... count 16"]:
    """ChaCha20 blocks.

    Args:
      key: `uint32[*batch, 8]`.
      place: `uint32[*batch, count, 4]`: for each block its counter and the three words of its nonce.

    Raises:
      TypeError: not `uint32`.
      ValueError: shapes that do not fit.
    """
    return _chacha20(*align_batch((jnp.asarray(key), 1), (jnp.asarray(place), 2)))


def fresh_for(seed: Any, *values: Any) -> Any:
    """The seed itself; under `vmap` it refuses to serve many values with one.

    Two ciphertexts made with the same randomness give away the difference of their messages. A loop that uses one seed
    in each of its steps (`lax.scan`) is the same mistake, and is not noticed.

    Args:
      seed: `uint32[8]`.
      *values: pytrees of everything that the seed's randomness will be combined with.

    Raises:
      ValueError: `vmap` maps a value and not the seed.
    """
    traced = [leaf for leaf in jax.tree.leaves(values) if _compat.is_traced(leaf)]
    return _fresh_for.bind(seed, *traced) if traced else seed


# --- the reference -----------------------------------------------------------------------------------------------


def _reference_chacha20(key, place):
    """Rows of four words: `rows[i]` is words 4i..4i+3 of the state, so four quarter rounds are one on whole rows."""
    constants = jnp.asarray(np.frombuffer(b"expand 32-byte k", "<u4"))
    parts = (constants, key[..., None, :], place)
    shape = jnp.broadcast_shapes(*(part.shape[:-1] for part in parts))
    start = jnp.concatenate([jnp.broadcast_to(part, (*shape, part.shape[-1])) for part in parts], axis=-1)

    def double_round(_, state):
        rows = _quarter_round(*jnp.split(state, 4, axis=-1))
        rows = _quarter_round(*(jnp.roll(row, -i, axis=-1) for i, row in enumerate(rows)))
        return jnp.concatenate([jnp.roll(row, i, axis=-1) for i, row in enumerate(rows)], axis=-1)

    return jax.lax.fori_loop(0, 10, double_round, start) + start


def _quarter_round(a, b, c, d):
    a = a + b
    d = _rotate(d ^ a, 16)
    c = c + d
    b = _rotate(b ^ c, 12)
    a = a + b
    d = _rotate(d ^ a, 8)
    c = c + d
    return a, _rotate(b ^ c, 7), c, d


def _rotate(x, bits):
    return x << np.uint32(bits) | x >> np.uint32(32 - bits)


def _numbers(seed, tag, count, limbs, numbers, words):
    """The first `numbers` of each stream, each of `words` words: `uint64[*batch, count, limbs, numbers, words / 2]`."""
    blocks = -(-numbers * words // 16)
    counter, item, limb = (jnp.arange(n, dtype=np.uint32) for n in (blocks, count, limbs))
    place = jnp.broadcast_arrays(counter, jnp.uint32(tag), item[:, None, None], limb[:, None])
    batch = seed.shape[:-1]
    block = _reference_chacha20(seed, jnp.stack(place, axis=-1).reshape(-1, 4))
    pairs = block.reshape(*batch, count, limbs, blocks * 16 // words, words // 2, 2).astype(np.uint64)
    return (pairs[..., 0] | pairs[..., 1] << np.uint64(32))[..., :numbers, :]


def _reference_uniform(seed, *, count, moduli, degree):
    numbers = _numbers(seed, UNIFORM, count, len(moduli), degree, words=4)
    low, high = numbers[..., 0], numbers[..., 1]
    constants = [jnp.asarray(constant) for constant in limb_constants(moduli)]
    q = constants[0]
    return add_mod(multiply_mod(high % q, power_of_two_table(moduli, 65)[:, 64:], *constants), low % q, q)


def _reference_ternary(seed, *, count, moduli, degree):
    r = _numbers(seed, TERNARY, count, 1, degree, words=2)[..., 0, :, 0]
    return _residues(multiply_high(r, jnp.full_like(r, 3)) - np.uint64(1), moduli)


def _reference_gaussian(seed, *, count, moduli, degree, deviation):
    low, high, negative = _signed(_numbers(seed, GAUSSIAN, count, 1, degree, words=4))
    top, bottom = jnp.asarray(threshold_words(deviation)).reshape(-1, 2).T
    above = (high[..., None] > top) | (high[..., None] == top) & (low[..., None] >= bottom)
    magnitude = jnp.sum(above, axis=-1, dtype=np.uint64)
    return _residues((magnitude ^ -negative) + negative, moduli)


def _reference_sparse(seed, *, count, moduli, degree, weight):
    low, high, negative = _signed(_numbers(seed, SPARSE, count, 1, weight, words=4))
    j = jnp.arange(weight, dtype=np.uint64)
    left = np.uint64(degree) - j
    word = np.uint64(1 << 32) % left
    word = word * word % left  # 2^64 mod (N - j); no product overflows, as N < 2^32
    other = j + (high % left * word % left + low % left) % left
    shuffle = jnp.vectorize(functools.partial(_shuffle, degree), signature="(h),(h)->(n)")
    return _residues(shuffle(other, np.uint64(1) - negative * np.uint64(2)), moduli)


def _signed(numbers):
    """Of 128-bit numbers in the one limb: the low 64 bits, the 63 above them, and the top bit."""
    low, high = numbers[..., 0, :, 0], numbers[..., 0, :, 1]
    return low, high & np.uint64((1 << 63) - 1), high >> np.uint64(63)


def _shuffle(degree, other, signs):
    def exchange(places, step):
        j, k = step
        chosen = places[k]
        return places.at[k].set(places[j]).at[j].set(chosen), chosen

    steps = (jnp.arange(other.size, dtype=np.uint64), other)
    row = jnp.arange(degree, dtype=np.uint64) + 0 * jnp.sum(other)  # under shard_map a carry varies from the start
    _, chosen = jax.lax.scan(exchange, row, steps)
    return jnp.zeros(degree, np.uint64).at[chosen].set(signs)


def _residues(small, moduli):
    """Small integers, modulo 2^64 in `uint64[*batch, N]`, in every limb: `uint64[*batch, limbs, N]`."""
    q = jnp.asarray(np.array(moduli, np.uint64)[:, None])
    small = small[..., None, :]
    return small + (q & -(small >> np.uint64(63)))


# --- Gaussian thresholds -------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def gaussian_thresholds(deviation: float) -> tuple[int, ...]:
    """T_k, the integer nearest to 2^127 P(|X| <= k), for k < ceil(12.5 sigma); X the discrete Gaussian."""
    with decimal.localcontext(decimal.Context(prec=80)):  # terms left out are below 2^-260
        sigma = decimal.Decimal(deviation)
        weights = [
            (-(k * k) / (2 * sigma * sigma)).exp() for k in map(decimal.Decimal, range(math.ceil(20 * deviation)))
        ]
        sums = list(itertools.accumulate([weights[0], *(2 * weight for weight in weights[1:])]))
        kept = sums[: math.ceil(12.5 * deviation)]
        return tuple(int((2**127 * total / sums[-1]).to_integral_value()) for total in kept)


def threshold_words(deviation: float) -> np.ndarray:
    """Each threshold as its upper and lower 64 bits: `uint64[2 K]`."""
    words = [divmod(threshold, 1 << 64) for threshold in gaussian_thresholds(deviation)]
    return np.array(words, np.uint64).reshape(-1)


# --- the primitives ------------------------------------------------------------------------------------------------


def _abstract(name):
    def abstract(seed, *, count, moduli, degree, **parameters):
        check_words(name, "a seed", seed, 8)
        refuse = _REFUSALS.get(name)
        if refuse is not None:
            refuse(name, moduli, degree, **parameters)
        batch = seed.shape[:-1]
        return _compat.like([seed], (*batch, count, len(moduli), degree), np.uint64, len(batch))

    return abstract


def check_words(name: str, what: str, value: Any, length: int) -> None:
    """Refuses anything but `uint32[..., length]`.

    Raises:
      TypeError: another dtype.
      ValueError: another length.
    """
    if value.dtype != np.uint32 or value.shape[-1:] != (length,):
        error = ValueError if value.dtype == np.uint32 else TypeError
        raise error(f"{name}: {what} is uint32[..., {length}], got {value.dtype}{list(value.shape)}")


def refuse_deviation(name, moduli, degree, deviation):
    if not 0 < deviation <= 80 or 12.5 * deviation >= min(moduli, default=math.inf):
        raise ValueError(
            f"{name}: deviation = {deviation}; need 0 < deviation <= 80, and 12.5 deviation < every modulus"
        )


def _refuse_weight(name, moduli, degree, weight):
    if not 0 <= weight <= degree:
        raise ValueError(f"{name}: weight = {weight}; need 0..{degree}, the number of coefficients")


_REFUSALS = {"sample_gaussian": refuse_deviation, "sample_sparse_ternary": _refuse_weight}


def _abstract_chacha20(key, place):
    check_words("chacha20", "a key", key, 8)
    check_words("chacha20", "a place", place, 4)
    batch = batch_shape("chacha20", (key, 1), (place, 2))
    return _compat.like([key, place], (*batch, place.shape[-2], 16), np.uint32, len(batch))


def _define(name, reference, derived=None):
    return define_primitive(name, abstract=_abstract(name), reference=reference, derived=derived)


_uniform = _define("sample_uniform", _reference_uniform)
_ternary = _define("sample_ternary", _reference_ternary)
_gaussian = _define(
    "sample_gaussian",
    _reference_gaussian,
    lambda *, deviation, **_: {"thresholds": threshold_words(deviation)},
)
_sparse = _define("sample_sparse_ternary", _reference_sparse)
_chacha20 = define_primitive(
    "chacha20",
    abstract=_abstract_chacha20,
    reference=_reference_chacha20,
)


def _batch_fresh_for(arguments, axes):
    if axes[0] is None:
        raise ValueError(
            "encrypt: vmap maps the values and not the seed, so every entry would get the same randomness, which gives "
            "away the differences of the messages. Pass a seed for each entry, vmap(encrypt, in_axes=(0, None, 0))"
            "(split_seed(seed, n), key, values), or encrypt the whole batch in one call, encrypt(seed, key, values)"
        )
    return fresh_for(*arguments), axes[0]


_fresh_for = _compat.make_primitive(
    "fhejax_fresh_for",
    lambda seed, *values: _compat.like([seed], seed.shape, seed.dtype, seed.ndim),
    multiple_results=False,
)
_compat.register_lowering(_fresh_for, lambda context, seed, *values: [seed])
_compat.register_batching(_fresh_for, _batch_fresh_for)
