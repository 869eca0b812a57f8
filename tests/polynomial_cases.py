"""The series on which other libraries went wrong, as their users reported it, with the right values.

The values come from closed forms, never from the code under test: cos(k arccos u) for T_k, powers of x, and the
function itself at the points where a series interpolates it. Tests in the clear and on ciphertexts run through them.
Below stands what tests of polynomials in the clear share.
"""

import math
from typing import NamedTuple

import jax
import numpy as np

import fhejax as fhe
from fhejax.polynomials import least_squares


class Case(NamedTuple):
    """A polynomial, points of its domain, and its values there."""

    name: str
    thread: str
    polynomial: fhe.Polynomial
    x: np.ndarray
    right: np.ndarray


def points(low, high, count=32):
    return np.linspace(low, high, count)


def series(name, thread, coefficients, low=-1.0, high=1.0, parity=None):
    """A series, its values by cosines."""
    x = points(low, high)
    angles = np.arccos(np.clip((x - (low + high) / 2) / ((high - low) / 2), -1, 1))
    right = sum(c * np.cos(k * angles) for k, c in enumerate(coefficients))
    return Case(name, thread, fhe.Polynomial(coefficients, (low, high), parity), x, right + np.zeros_like(x))


def square(low, high):
    """x^2, by x = middle + half u and u^2 = (1 + T_2) / 2."""
    middle, half, x = (low + high) / 2, (high - low) / 2, points(low, high)
    coefficients = [middle**2 + half**2 / 2, 2 * middle * half, half**2 / 2]
    return Case(f"x^2 on ({low}, {high})", "FIDESlib #42", fhe.Polynomial(coefficients, (low, high)), x, x**2)


def interpolation(name, thread, f, low, high, degree):
    """The series of a degree that meets f at degree + 1 points; c_0 is a whole coefficient, not twice that."""
    angles = np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1)
    x = (low + high) / 2 + (high - low) / 2 * np.cos(angles)
    values = np.array([f(point) for point in x])
    coefficients = [2 / (degree + 1) * np.sum(values * np.cos(k * angles)) for k in range(degree + 1)]
    coefficients[0] /= 2
    return Case(name, thread, fhe.Polynomial(coefficients, (low, high)), x, values)


def unit(k):
    return [0.0] * k + [1.0]


# On intervals that are not symmetric about zero the middle was confused with half of the width.
INTERVALS = [(1, 3), (3, 5), (-3, -1), (0, 1), (0, 4), (-1, 3), (-0.25, 0.75), (2, 10), (-10, -2), (-8, 8), (99, 101)]
MIDPOINT = [square(low, high) for low, high in INTERVALS] + [
    series(f"T7 on ({low}, {high})", "FIDESlib #42", unit(7), low, high) for low, high in INTERVALS
]

# Exact zeros among the coefficients shifted the others to wrong places.
ZEROS = [
    series("zeros between", "FIDESlib #24", [0.25, 0.0, 0.0, -0.5, 0.0, 0.125, 0.0, 0.0, 0.0, 0.25]),
    series("odd", "FIDESlib #24", [0.0, 0.5, 0.0, -0.25, 0.0, 0.125]),
    series("odd, said so", "FIDESlib #24", [0.0, 0.5, 0.0, -0.25, 0.0, 0.125], parity="odd"),
    series("even", "FIDESlib #24", [0.5, 0.0, -0.25, 0.0, 0.125]),
    series("even, said so", "FIDESlib #24", [0.5, 0.0, -0.25, 0.0, 0.125], parity="even"),
    series("like a sign", "FIDESlib #24", [0.0 if k % 2 == 0 else (-1) ** (k // 2) / k for k in range(16)]),
    series("odd, degree 27", "FIDESlib #24", [0.0 if k % 2 == 0 else 1 / k**2 for k in range(28)], parity="odd"),
    series("odd about 2", "FIDESlib #24", [0.0, 0.75, 0.0, 0.25], 0, 4, parity="odd"),
    series("first and last", "FIDESlib #24", [0.5, *unit(14)]),
    series("no constant", "FIDESlib #24", [0.0, 0.3, -0.2, 0.1]),
    series("only T4 and T8", "FIDESlib #24", [*unit(4), 0.0, 0.0, 0.0, -0.5]),
    series("zeros on top", "FIDESlib #24", [0.1, 0.2, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0]),
    series("zero", "FIDESlib #24", [0.0]),
    series("many zeros", "FIDESlib #24", [0.0] * 8),
]

# A degree d made d coefficients, not d + 1: T_d comes out as another polynomial, or as nothing.
DEGREES = [series(f"T{d}", "OpenFHE #530", unit(d)) for d in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32)] + [
    series(f"all of degree {d}", "OpenFHE #769" if d in (5, 6) else "OpenFHE #530", [1 / (k + 1) for k in range(d + 1)])
    for d in (2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 31)
]

# Degree 0 and vectors of one element crashed; a + b x panicked.
SMALL = [
    series("one coefficient", "OpenFHE #558", [0.75]),
    series("one coefficient on (3, 5)", "OpenFHE #558", [-2.0], 3, 5),
    series("a + b u", "Lattigo #359", [0.2, -0.5]),
    series("a + b u on (-9, 8)", "Lattigo #359", [0.5, 0.25], -9, 8),
]

# People want to see the error of the interpolation in the clear, before that of the encryption is added.
CLEAR = [
    interpolation("exp of degree 7", "OpenFHE #959", math.exp, -1, 3, 7),
    interpolation("sigmoid of degree 15", "OpenFHE #958", lambda x: 1 / (1 + math.exp(-x)), -8, 8, 15),
    interpolation("a constant of degree 3", "OpenFHE #959", lambda x: 0.5, 2, 3, 3),
    interpolation("square root of degree 15", "Lattigo #235", math.sqrt, 0.5, 8.5, 15),
    interpolation("square root of degree 6", "Lattigo #235", math.sqrt, 2, 6, 6),
]

CASES = [*MIDPOINT, *ZEROS, *DEGREES, *SMALL, *CLEAR]


def closed_form(
    f, domain, degree, parity=None, samples=None, weight=None, per_slot=False, guard_weight=2.0**-8
) -> fhe.Polynomial:
    """The polynomial nearest to f in the mean square over data, and a little over the whole domain."""
    columns = least_squares.series_columns(degree, parity)
    points = least_squares.weighted_samples(samples, domain, degree, weight, per_slot)
    data = least_squares.triangle(f, domain, columns, *points)
    guard = least_squares.triangle(f, domain, columns, *least_squares.weighted_guard(domain, degree, weight))
    coefficients = least_squares.minimizer(least_squares.combine_triangles(data, guard_weight**0.5 * guard))
    return least_squares.as_polynomial(coefficients, columns, domain, degree, parity, per_slot)


X = np.linspace(-2, 6, 41)
DOMAIN = (-2.0, 6.0)


def values(polynomial, x=X):
    with jax.enable_x64(True):
        return np.asarray(polynomial(x))


def close(got, want, within=1e-13):
    np.testing.assert_allclose(got, want, rtol=0, atol=within * max(1.0, np.max(np.abs(want))))


def random(degree, seed=0, *slots):
    return np.random.default_rng([degree, seed]).normal(size=(degree + 1, *slots))
