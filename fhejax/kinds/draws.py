"""Draws of errors for simulated values: labels that say what was computed, and normal variables that they determine.

Equal computations have equal labels and draw equal errors, as the same ciphertexts are one ciphertext.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

from fhejax.kinds import noise

SAMPLES = 16  # runs: the deviation of a slot is known to 1 / sqrt(2 SAMPLES), that of all slots far better


def padded(array: Any, slots: int) -> Any:
    """Values of JAX's default type, zeros behind them; a number in every slot."""
    xp = np if isinstance(array, np.ndarray) else jnp  # NumPy compiles nothing
    kind = complex if jnp.issubdtype(array.dtype, jnp.complexfloating) else float
    array = xp.asarray(array, jax.dtypes.canonicalize_dtype(kind))
    if array.ndim == 0:
        return xp.broadcast_to(array, (slots,))
    return xp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, slots - array.shape[-1])])


def as_complex(x: Any) -> Any:
    """x with the imaginary parts of its errors, which are independent of the real ones and like them.

    They are those of another run: whatever was done to real values, conjugation aside, it did the same to both parts. A
    plaintext has none: the rounding of real values is real.
    """
    if not x.real or x.components == 1:
        return x
    dtype = jnp.result_type(x.values.dtype, jnp.complex64)
    values = x.values.astype(dtype)
    if x.noisy:
        values = values + 1j * x.errors[..., 0, :].astype(dtype)
    errors = x.errors.astype(dtype) + 1j * jnp.roll(x.errors, 1, axis=-2).astype(dtype)
    return dataclasses.replace(x, values=values, errors=errors, real=False)


def mixed(operation: str, *labels: Any) -> jax.Array:
    """The label of an operation's result: a hash of its name and its operands' labels."""
    words = np.frombuffer(operation.encode().ljust(24, b"\0"), np.uint32)
    label = np.array([0x243F6A88, 0x85A308D3], np.uint32)
    for pair in (*np.split(words, 3), *labels):
        label = hashed(label ^ pair)  # each word by itself: where both meet, XLA compiles long circuits very slowly
    return jnp.asarray(label)


def label_of(values: Any) -> jax.Array:
    """The label of numbers that a circuit contains, by four random sums of them, each to some 4 %.

    Equal numbers draw equal errors, and different ones most probably different errors; but a small change leaves the
    draws as they are, so that finite differences of a circuit with noise see a smooth function.
    """
    values = jax.lax.stop_gradient(jnp.asarray(values))
    values = (jnp.real(values) + jnp.imag(values)).astype(jnp.float32)
    bits = hashed(jnp.arange(values.size, dtype=jnp.uint32).reshape(values.shape))
    signs = [1 - 2 * (bits >> np.uint32(i) & np.uint32(1)).astype(jnp.float32) for i in range(4)]
    sums = jnp.stack([jnp.sum(values * sign) for sign in signs])
    sizes = jnp.floor(16 * jnp.log2(jnp.abs(sums) + np.float32(1e-30)) + np.float32(0.29))
    words = (2 * sizes.astype(jnp.int32) + (sums > 0)).astype(jnp.uint32)
    return words[:2] + words[2:] * np.uint32(0x9E3779B1)


def disturbed(x: Any, operation: str, variance: float, from_secret: bool) -> Any:
    """x with an independent error on top.

    Args:
      x: the exact result, of which the label has been mixed.
      operation: for a draw of its own.
      variance: of a coefficient, at the scale of x, as the noise model states it.
      from_secret: whether it is that of a rounding, r_0 + r_1 s: the slots of such errors carry those of the secret,
        the same for the whole circuit, and so have longer tails than a normal variable; longer still, with s^2, for
        three components.
    """
    deviation = noise.slot_deviation(variance, x.scale, x.slots)
    label = mixed(operation, x.label)
    with set_xla_metadata(inlineable="false"):  # else XLA fuses the draws into each of their many uses, in minutes
        errors, value_error = _draws(label, x.values.dtype, x.slots, x.params.degree, (x.components - 1) * from_secret)
    values = x.values + value_error * deviation if x.noisy else x.values
    return dataclasses.replace(x, values=values, errors=x.errors + errors * deviation)


@functools.partial(jax.jit, static_argnums=(1, 2, 3, 4))
def _draws(label, dtype, slots, degree, power):
    """Unit errors, `[*batch, SAMPLES, slots]` for the runs and `[*batch, slots]` for the values."""
    label = label[..., None, None]
    unit = _normal(label, slots)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        unit = unit + 1j * _normal(label ^ np.uint32(0x6A09E667), slots)
    if power:
        # The moments of an exponential variable are factorials: a mean square of 1 for s, and for s^2.
        unit = unit * (_secret_sizes(slots, degree) ** power / math.factorial(power) ** 0.5)
    unit = unit.astype(dtype)
    return unit[..., :SAMPLES, :], unit[..., SAMPLES, :]


def _normal(label, slots):
    """Normal variables `[*batch, SAMPLES + 1, slots]`, a hash of label and position: compiled far faster than Threefry,
    and nothing here is secret."""
    position = jnp.arange((SAMPLES + 1) * slots, dtype=jnp.uint32).reshape(SAMPLES + 1, slots)
    words = hashed(hashed(position * np.uint32(0x9E3779B1) ^ label[..., 0, :, :]) ^ label[..., 1, :, :])
    uniform = ((words >> np.uint32(9)).astype(jnp.float32) + np.float32(0.5)) / np.float32(2**22) - 1  # never 1
    return np.float32(2**0.5) * jax.lax.erf_inv(uniform)


def hashed(x):
    """A bijection of 32 bits that spreads every bit. Source: Wellons, "Prospecting for Hash Functions", 2018."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def _secret_sizes(slots, degree):
    """|s(z)| of the secret at each slot over its deviation, for every run: the root of an exponential variable.

    The quantiles are spread evenly over the slots of a run. A slot of sparse packing sees the mean over N / (2 slots)
    points of the secret, which varies less.
    """
    index = jnp.arange((SAMPLES + 1) * slots, dtype=jnp.uint32).reshape(SAMPLES + 1, slots)
    quantile = ((index * np.uint32(0x9E3779B1) >> np.uint32(8)).astype(jnp.float32) + 0.5) / 2**24
    spread = (degree // 2 / slots) ** -0.5
    return jnp.sqrt(1 + (-jnp.log(quantile) - 1) * np.float32(spread))


def seed_words(noise_seed):
    words = jnp.zeros(0) if noise_seed is None else jnp.atleast_1d(jnp.asarray(noise_seed))
    words = words.astype(jnp.uint32).reshape(-1)
    return jnp.pad(words, (0, len(words) % 2)).reshape(-1, 2)


def entry_numbers(batch):
    """Each entry's number, so that those of a batch draw errors of their own."""
    number = jnp.arange(math.prod(batch), dtype=jnp.uint32).reshape(*batch, 1)
    return number * np.array([1, 0], np.uint32)
