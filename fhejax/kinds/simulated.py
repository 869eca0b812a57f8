"""Simulated values: what a ciphertext would hold, in the clear, with the errors that it would have.

`Simulated` stands wherever a ciphertext may, and follows the same levels and scales. Beside its values it carries a
sample of SAMPLES runs of the circuit's errors: every operation applies itself to each run and adds what encryption
would add, a normal variable with the deviation that the noise model states (`fhejax.kinds.noise`). So errors that
meet again after they have parted, as in x * f(x), in Newton's iteration or in a sum of rotations, add or cancel as they
really do. Values and errors are floats of the usual kind, and everything here can be differentiated.

The draws are a function of the circuit alone. Each value carries a label, mixed from its operands' labels and from what
was done; equal computations draw equal errors, as the same ciphertexts are one ciphertext.

Source: errors injected into a run in the clear, as the noise estimator of ePrint 2024/853 does; here many runs at once.
"""

import dataclasses
import functools
import math
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

from fhejax.kinds import noise
from fhejax.parameters.parameters import Parameters
from fhejax.scheme.encoding import checked_numbers
from fhejax.scheme.values import Operators

SAMPLES = 16  # runs: the deviation of a slot is known to 1 / sqrt(2 SAMPLES), that of all slots far better

_STATIC = {"static": True}


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Simulated(Operators):
    """Values in the clear with level, scale and errors of the ciphertext that they stand for.

    Attributes:
      values: floating or complex `[*batch, slots]`: what the circuit computes, in exact arithmetic; with a noise seed,
        what one run of the encrypted circuit could decrypt to.
      errors: like the values, `[*batch, SAMPLES, slots]`: the error of each slot in each run; of real values the real
        part, since the imaginary part does not reach it before it meets complex values (`as_complex`).
      label: `uint32[*batch, 2]`, which draws are determined by.
      params: the parameter set.
      level: the index of the last prime.
      scale: what the slots would be multiplied by.
      slots: how many there are.
      real: whether the values are known to be real.
      components: 2, or 3 for a product before relinearisation; 1 for a plaintext operand.
      noisy: whether errors are added to the values as well.
    """

    values: Any
    errors: Any
    label: Any
    params: Parameters = field(metadata=_STATIC)
    level: int = field(metadata=_STATIC)
    scale: float = field(metadata=_STATIC)
    slots: int = field(metadata=_STATIC)
    real: bool = field(metadata=_STATIC)
    components: int = field(metadata=_STATIC)
    noisy: bool = field(metadata=_STATIC)

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch shape: one simulated ciphertext each."""
        return tuple(self.values.shape[:-1])

    @property
    def variance(self) -> jax.Array:
        """The mean of |error|^2 over the runs, `[*batch, slots]`."""
        return jnp.mean(jnp.real(self.errors * jnp.conj(self.errors)), axis=-2)

    @property
    def error_bits(self) -> jax.Array:
        """What `fhejax.precision` of the decrypted values will show, `[*batch]`: the bits of the worst slot.

        -log2 of the largest error of a run, averaged over the runs.
        """
        return -jnp.log2(jnp.mean(jnp.max(jnp.abs(self.errors), axis=-1), axis=-1))

    def __repr__(self) -> str:
        parts = [f"level={self.level}", f"scale=2^{np.log2(self.scale):.2f}"]
        parts.append(f"slots={self.slots} {'real' if self.real else 'complex'}")
        if getattr(self.values, "shape", None) is not None:
            parts.append(f"shape={self.shape}")
        parts += ["3 components"] * (self.components == 3) + ["noisy"] * self.noisy
        return f"Simulated({', '.join(parts)}, N=2^{self.params.log_degree})"


def simulate(
    values: Any,
    params: Parameters,
    *,
    level: int | None = None,
    slots: int | None = None,
    secret_key: bool = False,
    noise_seed: Any = None,
) -> Simulated:
    """Values as they are after encryption, in the clear.

    Every function of fhejax that takes ciphertexts takes the result, with None for the keys (or with real ones: then
    rotations are composed as those keys ask for). A circuit that runs out of levels fails in the same way.

    Args:
      values: real or complex numbers `[*batch, k]` with k from 1 to `slots`; zeros are put behind them. A single number
        goes into every slot. May be traced: the result can be differentiated by them.
      params: the parameter set that the circuit will run with.
      level: of the result; the top if None.
      slots: how many there are; `params.slots` if None.
      secret_key: whether it stands for encryption with the secret key, of which the error is smaller than with a
        public key.
      noise_seed: None, so that `values` are exact; or an integer or `uint32` array, perhaps traced: then every
        operation adds one draw of its error to the values too, as the encrypted circuit would, for training under
        noise. The entries of a batch get draws of their own; under `vmap`, map the seed as well.

    Returns:
      Values of JAX's default floating (or complex) type. Level out: `level`. Scale out: canonical.

    Raises:
      TypeError: the values are not numbers.
      ValueError: a value that does not fit, as for `encode`.

    Example:
      >>> import fhejax as fhe
      >>> params = fhe.Parameters.for_depth(2)
      >>> x = fhe.simulate([0.5, -1.0], params)
      >>> y = fhe.square(x, None) - 0.25
      >>> y
      Simulated(level=1, scale=2^40.00, slots=4096 real, shape=(), N=2^13)
      >>> y.values[:2].tolist(), bool(25 < y.error_bits < 28)
      ([0.0, 0.75], True)
    """
    array, level, scale, slots = checked_numbers(values, params, level, None, slots)
    array = padded(array, slots)
    real = not jnp.issubdtype(array.dtype, jnp.complexfloating)
    label = mixed("simulate", label_of(array), *_seed_words(noise_seed), _entries(array.shape[:-1]))
    zeros = jnp.zeros((*array.shape[:-1], SAMPLES, slots), array.dtype)
    x = Simulated(array, zeros, label, params, level, scale, slots, real, 2, noise_seed is not None)
    fresh = noise.encrypt_secret(params) if secret_key else noise.encrypt_public(params)
    return disturbed(x, "encrypt", fresh, not secret_key)


def padded(array: Any, slots: int) -> jax.Array:
    """Values of JAX's default type, zeros behind them; a number in every slot."""
    kind = complex if jnp.issubdtype(array.dtype, jnp.complexfloating) else float
    array = jnp.asarray(array, jax.dtypes.canonicalize_dtype(kind))
    if array.ndim == 0:
        return jnp.broadcast_to(array, (slots,))
    return jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, slots - array.shape[-1])])


def as_complex(x: Simulated) -> Simulated:
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


def disturbed(x: Simulated, operation: str, variance: float, from_secret: bool) -> Simulated:
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
    fields = x.params, x.level, x.scale, x.slots, x.real, x.components, x.noisy
    return Simulated(values, x.errors + errors * deviation, x.label, *fields)


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


def _seed_words(noise_seed):
    words = jnp.zeros(0) if noise_seed is None else jnp.atleast_1d(jnp.asarray(noise_seed))
    words = words.astype(jnp.uint32).reshape(-1)
    return jnp.pad(words, (0, len(words) % 2)).reshape(-1, 2)


def _entries(batch):
    """Each entry's number, so that those of a batch draw errors of their own."""
    number = jnp.arange(math.prod(batch), dtype=jnp.uint32).reshape(*batch, 1)
    return number * np.array([1, 0], np.uint32)
