"""Encoding and decoding: precision, conventions, refusals, and manners under jit, vmap and either x64 flag."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jax.experimental import checkify
from residues import on_device

import fhejax as fhe
from fhejax.primitives.automorphism import automorphism
from fhejax.primitives.embedding import slots_to_coefficients
from fhejax.primitives.ntt import inverse_ntt
from fhejax.primitives.rounding import residues_to_float

PARAMS = fhe.Parameters.for_depth(2, log_degree=5, security=None)
FLAGS = [False, True]


def parameters(log_degree, scale_bits=40):
    return fhe.Parameters.for_depth(1, scale_bits, log_degree=log_degree, security=None)


def random_values(seed, shape, real=True):
    rng = np.random.default_rng(seed)
    values = rng.uniform(-1, 1, shape)
    return values if real else values + 1j * rng.uniform(-1, 1, shape)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("log_degree, scale_bits", [(3, 60), (5, 30), (8, 40), (11, 60), (14, 40)])
def test_round_trip_error_is_that_of_rounding(log_degree, scale_bits):
    params = parameters(log_degree, scale_bits)
    for slots in {1, 2, params.slots // 2, params.slots}:
        for real in (True, False):
            values = random_values(slots, (2, slots), real)
            got = np.asarray(fhe.decode(fhe.encode(values, params, slots=slots), dtype=complex))
            # 2n coefficients are rounded, each by a uniform error of deviation 1/sqrt(12): 6 deviations of a slot.
            bound = 6 * math.sqrt(2 * slots / 12) / 2.0**scale_bits + 2.0**-50 * log_degree
            assert np.abs(got - values).max() <= bound
            assert got.shape == (2, slots)


def test_a_plaintext_is_the_rounded_coefficients():
    values = random_values(1, 16, real=False)
    plaintext = fhe.encode(values, PARAMS, level=1, scale=3.0**20)
    moduli = PARAMS.moduli_at(1)
    got = np.asarray(residues_to_float(inverse_ntt(plaintext.data, moduli), moduli))
    coefficients = np.asarray(slots_to_coefficients(on_device(values), 32))
    assert got.tolist() == [float(round(Fraction(float(a)) * 3**20)) for a in coefficients]


def test_metadata():
    plaintext = fhe.encode([1.0], PARAMS)
    assert (plaintext.level, plaintext.scale, plaintext.slots) == (2, 2.0**40, 16)
    assert plaintext.real and plaintext.data.shape == (3, 32) and plaintext.data.dtype == "uint64"
    plaintext = fhe.encode(np.ones((2, 5, 3), np.complex64), PARAMS, level=1, slots=4)
    assert (plaintext.level, plaintext.scale, plaintext.slots) == (1, PARAMS.scale_at(1), 4)
    assert not plaintext.real and plaintext.data.shape == (2, 5, 2, 32)


def test_fewer_values_than_slots_are_followed_by_zeros():
    got = np.asarray(fhe.decode(fhe.encode([1.0, 2.0, 3.0], PARAMS), dtype=float))
    np.testing.assert_allclose(got, [1, 2, 3] + [0] * 13, atol=1e-10)


@pytest.mark.parametrize("value", [1.5, 3, True, 2 - 1j, np.float32(0.5), jnp.float32(0.5)])
def test_one_number_goes_into_every_slot(value):
    got = np.asarray(fhe.decode(fhe.encode(value, PARAMS), dtype=complex))
    np.testing.assert_allclose(got, np.full(16, complex(value)), atol=1e-11)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint32", "float16", "bfloat16", "float32", "float64"])
def test_real_dtypes(dtype):
    values = np.array([0, 1, 1, 0]).astype(jnp.dtype(dtype))
    for array in (values, on_device(values)):
        plaintext = fhe.encode(array, PARAMS, slots=4)
        assert plaintext.real
        np.testing.assert_allclose(fhe.decode(plaintext, dtype=float), [0, 1, 1, 0], atol=1e-10)


@pytest.mark.parametrize("slots", [4, 16])
def test_rotation_and_conjugation_of_slots(slots):
    values = random_values(2, slots, real=False)
    plaintext = fhe.encode(values, PARAMS, slots=slots)
    for element, expected in ((5, np.roll(values, -1)), (pow(5, 3, 64), np.roll(values, -3)), (63, values.conj())):
        moved = fhe.Plaintext(automorphism(plaintext.data, element), PARAMS, 2, 2.0**40, slots, False)
        np.testing.assert_allclose(fhe.decode(moved, dtype=complex), expected, atol=1e-10)


@settings(deadline=None, max_examples=25)
@given(values=st.lists(st.floats(-1e6, 1e6), min_size=16, max_size=16), level=st.sampled_from([0, 2]))
def test_lowerings_agree(values, level):
    scale = 2.0**20
    plaintext = fhe.encode(values, PARAMS, level=level, scale=scale)
    with fhe.lowering("reference"):
        reference = fhe.encode(values, PARAMS, level=level, scale=scale)
        slots = np.asarray(fhe.decode(plaintext, dtype=float))
    moduli = PARAMS.moduli_at(level)
    apart = [np.asarray(residues_to_float(inverse_ntt(p.data, moduli), moduli)) for p in (plaintext, reference)]
    assert np.abs(apart[0] - apart[1]).max() <= 1  # a coefficient near a half may be rounded either way
    np.testing.assert_allclose(slots, fhe.decode(plaintext, dtype=float), rtol=0, atol=1e-8)


# --- manners -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", FLAGS)
def test_doubles_stay_doubles(flag):
    params = parameters(5, 60)
    values = random_values(3, 16)
    with jax.enable_x64(flag):
        plaintext = fhe.encode(values, params)
        got = fhe.decode(plaintext, dtype="float64")
        assert plaintext.data.dtype == "uint64" and got.dtype == "float64"
        assert np.abs(np.asarray(got) - values).max() < 1e-15
        assert bool(jax.config.jax_enable_x64) == flag


@pytest.mark.parametrize("flag", FLAGS)
def test_default_dtypes_follow_the_flag(flag):
    with jax.enable_x64(flag):
        assert fhe.decode(fhe.encode([1.0], PARAMS)).dtype == ("float64" if flag else "float32")
        assert fhe.decode(fhe.encode([1j], PARAMS)).dtype == ("complex128" if flag else "complex64")
        assert fhe.decode(fhe.encode([1.0], PARAMS), dtype="bfloat16").dtype == "bfloat16"
        assert fhe.decode(fhe.encode([1.0], PARAMS), dtype=jnp.complex64).dtype == "complex64"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("flag", FLAGS)
def test_jit_and_vmap_give_the_same_plaintext(flag):
    with jax.enable_x64(flag):
        values = np.asarray(random_values(4, (2, 3, 7)), np.float32)
        expected = fhe.encode(values, PARAMS)
        encode = lambda v: fhe.encode(v, PARAMS)
        for function in (jax.jit(encode), jax.vmap(encode), jax.jit(jax.vmap(jax.vmap(encode)))):
            got = function(values)
            assert jax.tree.structure(got) == jax.tree.structure(expected)
            np.testing.assert_array_equal(got.data, expected.data)
        decode = lambda p: fhe.decode(p)
        for function in (jax.jit(decode), jax.vmap(decode), jax.vmap(jax.vmap(decode), in_axes=1, out_axes=1)):
            np.testing.assert_array_equal(function(expected), fhe.decode(expected))
        np.testing.assert_array_equal(jax.jit(lambda: fhe.encode(values, PARAMS).data)(), expected.data)
        np.testing.assert_array_equal(
            jax.jit(lambda a, b: fhe.encode([a, b], PARAMS).data)(1.0, 2.0), fhe.encode([1.0, 2.0], PARAMS).data
        )
        assert jax.eval_shape(encode, values).data.shape == (2, 3, 3, 32)


def test_eager_calls_compile_once():
    fhe.decode(fhe.encode(np.ones(9), PARAMS))
    with jax.no_tracing():
        for i in range(3):
            fhe.decode(fhe.encode(np.ones(9) * i, PARAMS))


# --- refusals ----------------------------------------------------------------------------------------------------


def spoilt(value, index=(1, 2), shape=(2, 4)):
    array = np.zeros(shape, type(value))
    array[index] = value
    return array


@pytest.mark.parametrize(
    "values, error, says",
    [
        (spoilt(math.nan), ValueError, r"values\[1, 2\] = nan is not finite"),
        (spoilt(-math.inf), ValueError, r"values\[1, 2\] = -inf is not finite"),
        (spoilt(complex(0, math.inf)), ValueError, r"values\[1, 2\] = .*infj.* is not finite"),
        (jnp.array([1.0, jnp.nan]), ValueError, r"values\[1\] = nan is not finite"),
        (math.nan, ValueError, "is not finite"),
        (np.zeros(0), ValueError, r"no values \(shape \(0,\)\); need 1 to 16"),
        (np.zeros((3, 0)), ValueError, "no values"),
        (np.zeros(17), ValueError, "got 17 values for 16 slots"),
        (["a"], TypeError, "dtype <U1"),
        (np.array(["a"] * 16), TypeError, "dtype <U1"),
        (None, TypeError, "NoneType of dtype object"),
        (np.array([2**70, None]), TypeError, "dtype object"),
        (jax.random.key(0), TypeError, "dtype key"),
    ],
)
def test_refuses_values(values, error, says):
    with pytest.raises(error, match=says):
        fhe.encode(values, PARAMS)


@pytest.mark.parametrize("value", [1e40, -1e40, 8e306, 1.7e308, 1.7e308 - 1.7e308j, 1e40j])
@pytest.mark.parametrize("slots", [1, 16])
def test_refuses_values_too_large_for_the_modulus(value, slots):
    with pytest.raises(ValueError, match=r"too large for the modulus: level 1 and scale .* take a higher level"):
        fhe.encode(spoilt(value, (slots - 1,), (slots,)), PARAMS, level=1, slots=slots)
    with pytest.raises(ValueError, match="too large"):
        jax.jit(lambda: fhe.encode(np.full(16, value), PARAMS))()


def test_accepts_values_up_to_half_the_modulus():
    capacity = math.prod(PARAMS.moduli) / 2 / PARAMS.scale_at(2)
    got = np.asarray(fhe.decode(fhe.encode(np.full(16, 0.999 * capacity), PARAMS), dtype=float))
    np.testing.assert_allclose(got, 0.999 * capacity, rtol=1e-14)
    with pytest.raises(ValueError, match="too large"):
        fhe.encode(np.full(16, 1.001 * capacity), PARAMS)
    # One slot of 16 spreads over all coefficients, an eighth of its size or less.
    single = spoilt(7 * capacity, (3,), (16,))
    np.testing.assert_allclose(fhe.decode(fhe.encode(single, PARAMS), dtype=float), single, atol=1e-13 * capacity)
    with pytest.raises(ValueError, match="too large"):
        fhe.encode(spoilt(17 * capacity, (3,), (16,)), PARAMS)


@pytest.mark.parametrize(
    "arguments, says",
    [
        ({"level": 3}, "level = 3; there are levels 0 to 2"),
        ({"level": -1}, "level = -1"),
        ({"scale": 0.0}, "scale = 0"),
        ({"scale": math.nan}, "scale = nan"),
        ({"scale": math.inf}, "scale = inf"),
        ({"scale": 2.0**60, "level": 0}, r"below half the modulus, 2\^49.* at level 0"),
        ({"slots": 3}, "slots = 3; need a power of two from 1 to N/2 = 16"),
        ({"slots": 32}, "slots = 32"),
    ],
)
def test_refuses_arguments(arguments, says):
    with pytest.raises(ValueError, match=says):
        fhe.encode([1.0], PARAMS, **arguments)


def test_refuses_a_traced_scale(unchecked):
    with pytest.raises(TypeError, match="scale is part of the plaintext's type"):
        jax.jit(lambda scale: fhe.encode([1.0], PARAMS, scale=scale))(2.0)


def test_decode_refuses(unchecked):
    with pytest.raises(TypeError, match="got ndarray; need a Plaintext"):
        fhe.decode(np.ones(3))
    with pytest.raises(TypeError, match=r"type decrypt\(secret_key, ciphertext\)"):
        fhe.decode(fhe.Ciphertext(None, PARAMS, 2, 1.0, 16, True))
    with pytest.raises(TypeError, match="the slots are complex, got dtype float32"):
        fhe.decode(fhe.encode([1j], PARAMS), dtype="float32")
    with pytest.raises(TypeError, match="the slots are real, got dtype int32"):
        fhe.decode(fhe.encode([1.0], PARAMS), dtype=np.int32)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("wrap", ["jit", "vmap", "jit of vmap", "jit of jit", "scan", "cond"])
def test_checkify_finds_faults(flag, wrap):
    encode = lambda v: fhe.encode(v, PARAMS)
    wrapped = {
        "jit": jax.jit(encode),
        "vmap": jax.vmap(encode),
        "jit of vmap": jax.jit(jax.vmap(encode)),
        "jit of jit": jax.jit(lambda v: jax.jit(encode)(v)),
        "scan": lambda v: jax.lax.scan(lambda carry, row: (carry, encode(row)), 0, v),
        "cond": lambda v: jax.lax.cond(v[0, 0] > 5, encode, lambda v: encode(-v), v),
    }[wrap]
    with jax.enable_x64(flag):
        for values, says in ((spoilt(math.nan), "not finite"), (spoilt(1e38), "too large for the modulus at level 2")):
            error, _ = checkify.checkify(wrapped)(values)
            assert says in error.get()
        error, _ = checkify.checkify(wrapped)(np.ones((2, 4)))
        assert error.get() is None
        wrapped(spoilt(math.nan))  # without checkify, nothing happens
