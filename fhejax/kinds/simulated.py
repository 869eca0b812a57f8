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
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fhejax.kinds import (
    domains,
    noise,
    simulated_bootstrapping as bootstrapping,
    simulated_operations as operations,
    simulated_transforms as transforms,
)
from fhejax.kinds.base import Kind
from fhejax.kinds.draws import SAMPLES, disturbed, entry_numbers, label_of, mixed, padded, seed_words
from fhejax.parameters.parameters import Parameters
from fhejax.scheme.encoding import checked_numbers

_STATIC = {"static": True}


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Simulated(Kind):
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

    adjective = "simulated"
    needs_keys = False
    in_the_clear = True
    leaf_axes = (1, 2, 1)  # values, errors, label

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
        return _worst_bits(self.errors)

    def __repr__(self) -> str:
        parts = [f"level={self.level}", f"scale=2^{np.log2(self.scale):.2f}"]
        parts.append(f"slots={self.slots} {'real' if self.real else 'complex'}")
        if getattr(self.values, "shape", None) is not None:
            parts.append(f"shape={self.shape}")
        parts += ["3 components"] * (self.components == 3) + ["noisy"] * self.noisy
        return f"Simulated({', '.join(parts)}, N=2^{self.params.log_degree})"

    _change_level = operations.change_level
    _add = operations.add
    _subtract = operations.subtract
    _negate = operations.negate
    _plaintext_like = operations.plaintext_like
    _add_plain = operations.add_plain
    _add_number = operations.add_number
    _multiply_integer = operations.multiply_integer
    _multiply_number = operations.multiply_number
    _multiply_plain = operations.multiply_plain
    _tensor = operations.tensor
    _multiply = operations.multiply
    _relinearize = operations.relinearize
    _automorphisms = operations.automorphisms
    _combine = operations.combine
    _weighted_sums = operations.weighted_sums
    _tensor_sum = operations.tensor_sum
    _relinearize_rescale = operations.relinearize_rescale
    _multiply_by_i = operations.multiply_by_i
    _decrypt = operations.decrypt
    _transformed = transforms.transformed
    _refresh = bootstrapping.refresh
    _mod_raise = bootstrapping.mod_raise
    _repack = bootstrapping.repack
    _with_imaginary = bootstrapping.with_imaginary
    _known_real = bootstrapping.known_real
    _warn_outside = domains.warn_outside

    def _without_errors(self) -> "Simulated":
        return dataclasses.replace(self, errors=0 * self.errors)


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
    words, noisy = seed_words(noise_seed), noise_seed is not None
    return _encrypted(padded(array, slots), words, params, level, scale, secret_key, noisy)


@jax.jit
def _worst_bits(errors):
    return -jnp.log2(jnp.mean(jnp.max(jnp.abs(errors), axis=-1), axis=-1))


@functools.partial(jax.jit, static_argnums=(2, 3, 4, 5, 6))
def _encrypted(array, words, params, level, scale, secret_key, noisy):
    real = not jnp.issubdtype(array.dtype, jnp.complexfloating)
    *batch, slots = array.shape
    label = mixed("simulate", label_of(array), *words, entry_numbers(batch))
    zeros = jnp.zeros((*batch, SAMPLES, slots), array.dtype)
    x = Simulated(array, zeros, label, params, level, scale, slots, real, 2, noisy)
    fresh = noise.encrypt_secret(params) if secret_key else noise.encrypt_public(params)
    return disturbed(x, "encrypt", fresh, not secret_key)
