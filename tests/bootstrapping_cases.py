"""Bootstrappings for tests, with keys that are made once, and each stage's error beside the simulated one."""

import dataclasses
from typing import NamedTuple

import jax
import numpy as np
from making import made_once
from operations import seed

import fhejax as fhe
from fhejax.bootstrapping import BootstrappingKeys, stages
from fhejax.primitives.embedding import slots_to_coefficients

SPARSE = 64  # slots


class Setup(NamedTuple):
    """A bootstrapping with the keys of one user."""

    boot: fhe.Bootstrapping
    secret: fhe.SecretKey
    keys: BootstrappingKeys

    @property
    def slots(self) -> int:
        return self.boot.params.slots


@made_once
def setup(slots: int | None = None, slots_first: bool = True, preset: str = "T") -> Setup:
    boot = fhe.Bootstrapping(preset, slots, slots_first)
    secret = fhe.secret_key(seed(11), boot.params)
    return Setup(boot, secret, boot.keys(seed(12), secret))


def values(s: Setup, kind: str = "real", index: int = 0) -> np.ndarray:
    """Uniform in [-1, 1], or in the unit disc."""
    rng = np.random.default_rng(index)
    u = rng.uniform(-1, 1, s.slots)
    return u if kind == "real" else np.sqrt(np.abs(u)) * np.exp(2j * np.pi * rng.uniform(size=s.slots))


def encrypted(s: Setup, message: np.ndarray, index: int = 0) -> fhe.Ciphertext:
    """At the input level."""
    return fhe.drop_to_level(fhe.encrypt(seed(13, index), s.secret, message), s.boot.input_level)


def simulated(s: Setup, message: np.ndarray, **options) -> fhe.Simulated:
    """The same, of a circuit."""
    level = s.boot.params.fresh_level
    x = fhe.simulate(message, s.boot.params, level=level, secret_key=True, **options)
    return fhe.drop_to_level(x, s.boot.input_level)


def opened(s: Setup, x: fhe.Ciphertext) -> np.ndarray:
    """The values, in double precision."""
    return np.asarray(fhe.decrypt(s.secret, x, dtype="float64" if x.real else "complex128"))


def pairs(slots: np.ndarray) -> np.ndarray:
    """The coefficients a_k + i a_(k+n) of the polynomial that takes these values."""
    with jax.enable_x64(True):
        a = np.asarray(slots_to_coefficients(jax.numpy.asarray(slots, complex), 2 * slots.shape[-1]))
    return a[..., : slots.shape[-1]] + 1j * a[..., slots.shape[-1] :]


def rms(error: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.abs(error) ** 2)))


def run(factors: list[dict[int, np.ndarray]], x: np.ndarray) -> np.ndarray:
    """Maps of fhejax.bootstrapping.dft, one after the other, in the clear."""
    for factor in factors:
        x = sum(diagonal * np.roll(x, -step) for step, diagonal in factor.items())
    return x


def without_error(s: Setup, x: fhe.Ciphertext) -> fhe.Simulated:
    """Simulated values that are exactly what a ciphertext holds."""
    exact = fhe.simulate(opened(s, x), s.boot.params, level=x.level, slots=x.slots)
    return dataclasses.replace(exact, errors=0 * exact.errors)


def of_stage(s: Setup, stage, x: fhe.Ciphertext) -> tuple[list[fhe.Ciphertext], list[float]]:
    """What a stage gives, and by its error the simulated one of the same values without any error.

    Args:
      s: keys.
      stage: a function of a value and keys, to a value or to several.
      x: its operand.
    """
    with jax.enable_x64(True):
        got, meant = stage(x, s.keys), stage(without_error(s, x), s.boot.without_keys())
        got, meant = (list(each) if isinstance(each, (list, tuple)) else [each] for each in (got, meant))
        ratios = [rms(opened(s, y) - z.values) / rms(z.errors) for y, z in zip(got, meant, strict=True)]
    return got, ratios


def of_raising(s: Setup, x: fhe.Ciphertext) -> tuple[fhe.Ciphertext, float]:
    """The same of `mod_raise`, of which the integers are told by the sizes of the coefficients."""
    params, top = s.boot.params, s.boot.params.max_level
    index = params.degree // 2 // s.slots  # by which the trace multiplies
    unit = params.moduli[0] * s.boot.raised * index / params.scale_at(top)
    with jax.enable_x64(True):
        y, z = stages.mod_raise(x, s.keys), stages.mod_raise(without_error(s, x), s.boot.without_keys())
        rest = pairs(opened(s, y)) / unit - pairs(opened(s, x)) / s.boot.ratio
        error = np.concatenate([part - np.round(part) for part in (rest.real, rest.imag)])
        # A slot is a sum of 2n coefficients.
        predicted = rms(z.errors) / unit / np.sqrt(2 * s.slots)
    return y, rms(error) / predicted


def all_stages(s: Setup, message: np.ndarray) -> dict[str, float]:
    """Each stage's measured error over its simulated one; of several parts the one that is farther off."""
    worst = lambda ratios: max(ratios, key=lambda ratio: abs(np.log(ratio)))
    x, ratios, real = encrypted(s, message), {}, not np.iscomplexobj(message)
    x = dataclasses.replace(x, real=False)  # errors are complex, whatever the message
    if s.boot.slots_first:
        (x,), each = of_stage(s, stages.slot_to_coeff, x)
        ratios["slot_to_coeff"] = worst(each)
    x, ratios["mod_raise"] = of_raising(s, x)
    half = real and s.boot.slots_first
    parts, each = of_stage(s, lambda x, keys: stages.coeff_to_slot(x, keys, half), x)
    ratios["coeff_to_slot"] = worst(each)
    results = [of_stage(s, stages.eval_mod, part) for part in parts]
    ratios["eval_mod"] = worst([ratio for _, each in results for ratio in each])
    if not s.boot.slots_first:
        joined = stages.joined([y for ys, _ in results for y in ys])
        ratios["slot_to_coeff"] = worst(of_stage(s, stages.slot_to_coeff, joined)[1])
    return ratios


def of_whole(s: Setup, message: np.ndarray) -> tuple[float, float]:
    """Of a bootstrapping, the measured error over the simulated one, and the bits measured less those simulated."""
    with jax.enable_x64(True):
        error = np.abs(opened(s, fhe.bootstrap(encrypted(s, message), s.keys)) - message)
        meant = fhe.bootstrap(simulated(s, message), s.boot)
        np.testing.assert_array_equal(meant.values, message)
        return rms(error) / rms(meant.errors), -np.log2(error.max()) - float(meant.error_bits)
