"""Simulated bootstrapping: each stage's error and the whole's beside those measured, gradients, noise, and warnings."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bootstrapping_cases import SPARSE, all_stages, encrypted, of_whole, rms, setup, simulated, values

import fhejax as fhe
from fhejax.bootstrapping import stages

CASES = pytest.mark.parametrize(
    "slots, slots_first, kind",
    [
        pytest.param(slots, first, kind, marks=pytest.mark.slow if slots and not (first and kind == "complex") else ())
        for slots in (None, SPARSE)
        for first in (True, False)
        for kind in ("real", "complex")
    ],
)


@pytest.mark.sampled(1)
@CASES
def test_errors_of_each_stage_and_of_all(slots, slots_first, kind):
    s = setup(slots, slots_first)
    message = values(s, kind)
    ratios = all_stages(s, message)
    assert len(ratios) == 4 and all(0.6 < ratio < 1.6 for ratio in ratios.values()), ratios
    ratio, bits = of_whole(s, message)
    assert 0.6 < ratio < 1.6 and abs(bits) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_errors_of_the_default_preset(kind):
    s = setup(None, True, "C")
    message = values(s, kind)
    ratios, (ratio, bits) = all_stages(s, message), of_whole(s, message)
    print(f"C, {kind}: { ({k: round(v, 2) for k, v in ratios.items()}) }, all {ratio:.2f}, {bits:+.2f} bits")
    assert all(0.4 < each < 1.6 for each in (*ratios.values(), ratio)) and abs(bits) < 1.5


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("slots_first", [True, False])
def test_types_are_those_of_ciphertexts(slots_first, kind):
    s = setup(slots_first=slots_first)
    message = values(s, kind)
    kinds = []
    with jax.enable_x64(True):
        for x in (encrypted(s, message), simulated(s, message)):
            lifted = stages.mod_raise(x, s.keys)
            halves = stages.coeff_to_slot(lifted, s.keys)
            results = [lifted, *halves, stages.eval_mod(halves[0], s.keys), fhe.bootstrap(x, s.keys)]
            kinds.append([(y.level, y.scale, y.slots, y.real, y.components, y.shape) for y in results])
    assert kinds[0] == kinds[1]


def test_multiples_are_distributed_as_they_are():
    """The variance of a sum of h + 1 uniform numbers, and none beyond h / 2; others for other values."""
    s, found = setup(), []
    with jax.enable_x64(True):
        for index in range(2):
            x = stages.slot_to_coeff(simulated(s, values(s, index=index)), s.boot)
            (half,) = stages.coeff_to_slot(stages.mod_raise(x, s.boot), s.boot, True)
            found.append(np.round(np.asarray(half.values) * s.boot.sine.width))
    weight = s.boot.preset.secret_weight
    for multiples in found:
        assert abs(np.mean(multiples**2) / ((weight + 1) / 12) - 1) < 0.25 and abs(np.mean(multiples)) < 0.25
        assert np.max(np.abs(multiples)) <= weight / 2
    assert not np.array_equal(*found)


@pytest.mark.parametrize("x64", [False, True])
def test_precision_and_dtypes_are_the_callers(x64):
    """In double precision inside, so that the errors of single precision do not show."""
    s = setup()
    bits = []
    with jax.enable_x64(x64):
        for keys in (s.boot, s.boot.without_keys(), *([s.keys] if x64 else [])):
            y = fhe.bootstrap(simulated(s, values(s)), keys)
            assert y.values.dtype == y.errors.dtype == (np.float64 if x64 else np.float32)
            np.testing.assert_array_equal(y.values, values(s).astype(y.values.dtype))
            bits.append(float(y.error_bits))
    assert max(bits) - min(bits) < 1 and min(bits) > 20


def test_gradients_are_those_of_the_operand():
    s = setup()
    message = jnp.asarray(values(s), jnp.float32)

    def loss(factor):
        x = fhe.bootstrap(simulated(s, factor * message), s.boot)
        return jnp.sum(fhe.drop_to_level(x, 3).values * message)

    value, slope = jax.value_and_grad(loss)(0.5)
    np.testing.assert_allclose([value, slope], [0.5 * jnp.sum(message**2), jnp.sum(message**2)], rtol=1e-5)


@pytest.mark.slow
def test_noise_in_the_values():
    """One draw of the errors that are predicted, in compiled and mapped programs too."""
    s = setup()
    message = np.stack([values(s, index=i) for i in range(2)])
    with jax.enable_x64(True):
        exact = fhe.bootstrap(simulated(s, message), s.boot)
        run = lambda x, keys: fhe.bootstrap(x, keys).values
        noisy = [simulated(s, message, noise_seed=i) for i in (1, 2)]
        drawn = [run(x, s.boot.without_keys()) - message for x in noisy]
        for error in drawn:
            assert 0.7 < rms(error) / rms(exact.errors) < 1.4
        assert rms(drawn[0] - drawn[1]) > rms(exact.errors)
        mapped = jax.jit(jax.vmap(run, (0, None)))(noisy[0], s.boot.without_keys())
        np.testing.assert_allclose(mapped - message, drawn[0], atol=1e-3 * rms(drawn[0]))
        bits = np.asarray(exact.error_bits)
    single = jax.jit(fhe.bootstrap)(simulated(s, message), s.boot.without_keys())
    assert single.errors.dtype == np.float32
    np.testing.assert_allclose(single.error_bits, bits, atol=0.5)


@pytest.mark.parametrize("slots_first", [True, False])
def test_messages_beyond_the_bound_are_told(slots_first):
    s = setup(slots_first=slots_first)
    message = np.full(s.slots, 1.5)
    with pytest.warns(fhe.OutOfRangeWarning, match=r"coefficients\[.*\] = 1.5 is outside .*divide the values"):
        fhe.bootstrap(simulated(s, message), s.boot)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fhe.bootstrap(simulated(s, np.ones(s.slots)), s.boot)
