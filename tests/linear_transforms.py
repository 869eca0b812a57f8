"""Keys, ciphertexts and transforms that the tests of linear transforms share."""

import noise_model as noise
import numpy as np
from making import made_once
from operations import numbers, seed

import fhejax as fhe

PARAMS = fhe.Parameters.for_depth(3, log_degree=7, security=None)  # several digits, several special primes
SLOTS, TOP = PARAMS.slots, PARAMS.max_level
SECURE = fhe.Parameters.for_depth(2)
# Special primes hardly larger than a digit, so that the errors of keys show.
NARROW = fhe.Parameters.from_bits(12, (40, 40, 40), (41,), scale_bits=35, digit_size=1, security=None)
MATRIX = numbers(1, 5, 3)


@made_once
def secret(params=PARAMS):
    return fhe.secret_key(seed(1), params)


@made_once
def keys(rotations, params=PARAMS, level=None, seeded=False):
    return fhe.evaluation_keys(seed(2), secret(params), rotations=rotations, level=level, seeded=seeded)


def encrypted(values, params=PARAMS, slots=None, index=0, level=None):
    plain = fhe.encode(values, params, slots=slots, level=level)
    return fhe.encrypt(seed(3, index), secret(params), plain)


def opened(x):
    return np.asarray(fhe.decrypt(secret(x.params), x, dtype="float64" if x.real else "complex128"))


def applied(transform, x):
    return fhe.apply(transform, x, keys(transform.rotations, transform.params))


def random(index, *shape, complex_=False):
    rng = np.random.default_rng(index)
    values = rng.uniform(-1, 1, shape)
    return values + 1j * rng.uniform(-1, 1, shape) if complex_ else values


def bound(transform, message=1.0):
    """Six deviations of what a matrix with entries up to 1 does to values up to 1."""
    params, plan = transform.params, transform.plan
    fresh = noise.encrypt_secret(params) + noise.encode(True)
    weights = float(plan.terms)
    variance = noise.linear_transform(
        params, transform.level, fresh, message, plan.terms, weights, weights, noise.encode(True)
    )
    return 6 * noise.slot_deviation(variance, params.scale_at(transform.level - 1), transform.slots) + 1e-12


TRANSFORMS = {
    "dense": lambda: fhe.LinearTransform.from_matrix(random(0, 8, 10), PARAMS),
    "repeating": lambda: fhe.LinearTransform.from_matrix(random(0, 4, 4), PARAMS, replicated=True),
    "constant": lambda: fhe.LinearTransform.from_diagonals(dict.fromkeys(range(8), 0.5), PARAMS),
    "sparse and repeating": lambda: fhe.LinearTransform.from_diagonals({0: 1, 5: 1, 37: 1}, PARAMS),
    "without giant steps at 0": lambda: fhe.LinearTransform.from_diagonals({21: 1.0, 42: -1.0}, PARAMS),
    "lower level": lambda: fhe.LinearTransform.from_matrix(random(0, 4, 4), PARAMS, 1),
}
