"""The canonical embedding against its definition, in extended precision."""

import jax
import numpy as np
import pytest
from residues import on_device

import fhejax as fhe
from fhejax.primitives.embedding import coefficients_to_slots, slots_to_coefficients

LOWERINGS = ["native", "reference"]
PI = np.longdouble("3.14159265358979323846264338327950288")


def power_of_zeta(exponents, degree):
    """exp(i pi e / N) for integers e."""
    angle = PI * np.longdouble(exponents % (2 * degree)) / degree
    return np.cos(angle) + 1j * np.sin(angle)


def values_at_slots(a, slots):
    """m(zeta^(5^j)), the definition."""
    degree = a.shape[-1]
    powers = np.array([pow(5, j, 2 * degree) for j in range(slots)])
    return (power_of_zeta(np.outer(powers, np.arange(degree)), degree) * a[..., None, :]).sum(axis=-1)


def coefficients_by_sums(z, degree):
    """a_k = Re(sum over j of z_j zeta^(-k 5^j)) / n, for k in the subring of X^(N/2n)."""
    n = z.shape[-1]
    gap = degree // (2 * n)
    powers = np.array([pow(5, j, 4 * n) for j in range(n)])
    sums = (power_of_zeta(-np.outer(np.arange(2 * n), powers), 2 * n) * z[..., None, :]).sum(axis=-1)
    a = np.zeros((*z.shape[:-1], degree), np.longdouble)
    a[..., ::gap] = sums.real / n
    return a


def values_by_numpy(a):
    """N/2 slots by NumPy's FFT of u_k exp(i pi k / N), reordered from 4t + 1 = 5^j."""
    degree = a.shape[-1]
    n = degree // 2
    twisted = (a[..., :n] + 1j * a[..., n:]) * np.complex128(power_of_zeta(np.arange(n), degree))
    order = np.array([pow(5, j, 2 * degree) // 4 for j in range(n)])
    return (n * np.fft.ifft(twisted))[..., order]


def random_complex(seed, shape):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize(
    "degree, slots", [(2, 1), (4, 2), (8, 4), (8, 1), (64, 32), (256, 128), (256, 8), (128, 64), (1024, 64)]
)
def test_coefficients_are_those_of_the_definition(lowering, degree, slots):
    z = random_complex(degree + slots, (3, slots))
    with fhe.lowering(lowering):
        got = np.asarray(slots_to_coefficients(on_device(z), degree))
    error = np.abs(got - coefficients_by_sums(z, degree)).max()
    assert error <= 2.0**-52 * np.log2(2 * slots) * np.abs(z).max()


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("degree", [2, 8, 64, 128, 256])
def test_slots_are_values_at_powers_of_five(lowering, degree):
    a = np.random.default_rng(degree).uniform(-1, 1, (3, degree))
    with fhe.lowering(lowering):
        got = np.asarray(coefficients_to_slots(on_device(a), degree // 2))
    error = np.abs(got - values_at_slots(a, degree // 2)).max(axis=-1)
    assert (error <= 2.0**-52 * np.log2(degree) * np.linalg.norm(a, axis=-1)).all()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("degree", [2**12, 2**13, 2**14, 2**16, 2**17])
def test_large_degrees_agree_with_numpy(lowering, degree):
    a = np.random.default_rng(degree).uniform(-1, 1, degree)
    with fhe.lowering(lowering):
        got = np.asarray(coefficients_to_slots(on_device(a), degree // 2))
        back = np.asarray(slots_to_coefficients(on_device(got), degree))
    assert np.abs(got - values_by_numpy(a)).max() <= 2.0**-52 * np.log2(degree) * np.linalg.norm(a)
    assert np.abs(back - a).max() <= 2.0**-52 * np.log2(degree) * np.abs(got).max()


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("slots", [8, 64])
def test_few_slots_are_the_mean_over_their_places(slots, lowering):
    a = np.random.default_rng(5).uniform(-1, 1, 8 * slots)
    with fhe.lowering(lowering):
        got = np.asarray(coefficients_to_slots(on_device(a), slots))
    mean = values_at_slots(a, 4 * slots).reshape(4, slots).mean(axis=0)
    np.testing.assert_allclose(got, mean.astype(complex), atol=2e-14)


@pytest.mark.parametrize("element, change", [(5, lambda z: np.roll(z, -1)), (25, lambda z: np.roll(z, -2))])
@pytest.mark.parametrize("slots", [1, 8, 16])
def test_rotation_is_an_automorphism(element, change, slots):
    z = random_complex(1, slots)
    a = np.asarray(slots_to_coefficients(on_device(z), 32))
    got = coefficients_to_slots(on_device(substitute(a, element)), slots)
    np.testing.assert_allclose(got, change(z), atol=1e-14)


@pytest.mark.parametrize("slots", [1, 8, 16])
def test_conjugation_is_an_automorphism(slots):
    z = random_complex(2, slots)
    a = np.asarray(slots_to_coefficients(on_device(z), 32))
    np.testing.assert_allclose(coefficients_to_slots(on_device(substitute(a, 63)), slots), z.conj(), atol=1e-14)


def substitute(a, element):
    """The coefficients of m(X^element) mod X^N + 1."""
    n = a.size
    out = np.zeros(n)
    for k, c in enumerate(a):
        exponent = k * element % (2 * n)
        out[exponent % n] += c if exponent < n else -c
    return out


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_no_sum_overflows(lowering):
    z = np.full(64, 1e308 + 0j)
    with fhe.lowering(lowering):
        a = np.asarray(slots_to_coefficients(on_device(z), 128))
    assert a[0] == pytest.approx(1e308, rel=1e-15)
    assert np.abs(a[1:]).max() < 1e294


def test_vmap_is_a_leading_axis():
    z = on_device(random_complex(3, (2, 3, 8)))
    mapped = jax.vmap(jax.vmap(lambda row: slots_to_coefficients(row, 32)), in_axes=1, out_axes=1)(z)
    np.testing.assert_array_equal(mapped, slots_to_coefficients(z, 32))
    a = on_device(np.asarray(mapped))
    np.testing.assert_array_equal(
        jax.jit(jax.vmap(lambda row: coefficients_to_slots(row, 8)))(a), coefficients_to_slots(a, 8)
    )


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: slots_to_coefficients(on_device(np.ones(4)), 8), TypeError, "complex128"),
        (lambda: slots_to_coefficients(on_device(np.ones(3, complex)), 8), ValueError, "3 slots in degree 8"),
        (lambda: slots_to_coefficients(on_device(np.ones(8, complex)), 8), ValueError, "8 slots in degree 8"),
        (lambda: coefficients_to_slots(on_device(np.ones(8, np.float32)), 4), TypeError, "float64"),
        (lambda: coefficients_to_slots(on_device(np.ones(8)), 0), ValueError, "0 slots in degree 8"),
        (lambda: coefficients_to_slots(on_device(np.ones(12)), 2), ValueError, "2 slots in degree 12"),
    ],
)
def test_refuses(call, error, says, unchecked):
    with pytest.raises(error, match=says):
        call()
