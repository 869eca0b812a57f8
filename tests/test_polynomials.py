"""Chebyshev series on ciphertexts and on simulated values, within what their noise explains."""

import functools
import math

import jax
import jax.numpy as jnp
import noise_model as noise
import numpy as np
import polynomial_cases
import pytest
from making import made_once
from numpy.polynomial import chebyshev
from references import assert_equals_reference

import fhejax as fhe

PARAMS = fhe.Parameters.for_depth(5, log_degree=8, security=None)
SEEDS = fhe.split_seed(np.arange(8, dtype=np.uint32), 4)
X = np.linspace(-1, 1, PARAMS.slots)
UNIT, SQUARE = fhe.Polynomial([0.5, 0.25]), fhe.Polynomial([0.5, 0.0, 0.5])


@pytest.fixture(scope="module")
def sk():
    return fhe.secret_key(SEEDS[0], PARAMS)


@pytest.fixture(scope="module")
def keys(sk):
    return fhe.evaluation_keys(SEEDS[1], sk)


@pytest.fixture(scope="module")
def ct(sk):
    return fhe.encrypt(SEEDS[2], sk, X)


def decrypted(sk, ct):
    return np.asarray(fhe.decrypt(sk, ct, dtype="float64" if ct.real else "complex128"))


def tolerance(coefficients, factor=1.0):
    """Twice what a rounding in every T_k explains.

    T_k carries an error by its derivative, at most k^2: so Sum |c_k| k^2 roundings, and that of the last sum. The
    encryption's error, of deviation 3.2, counts as one with the operand's rounding.
    """
    variance = noise.rounding(PARAMS) + PARAMS.error_deviation**2
    rounding = 2.0 ** -noise.bits(noise.slot_deviation(variance, PARAMS.scale_at(0), PARAMS.slots), PARAMS.slots)
    derivatives = np.maximum(1, np.arange(len(coefficients)) ** 2)
    return 2 * rounding * (1 + factor * np.sum(np.abs(coefficients) * derivatives))


# --- on ciphertexts ----------------------------------------------------------------------------------------------

SERIES = {
    "zero": [0.0],
    "constant": [0.75],
    "degree 1": [0.2, -0.5],
    "T1": [0.0, 1.0],
    "T2": [0.0, 0.0, 1.0],
    "odd": [0.0, 0.5, 0.0, -0.25, 0.0, 0.125],
    "even": [0.5, 0.0, -0.25, 0.0, 0.125],
    "dense": [0.1, -0.2, 0.3, -0.15, 0.05, 0.25, -0.1],
    "T7": [0.0] * 7 + [1.0],
    "zeros on top": [0.1, 0.2, 0.3, 0.0, 0.0, 0.0],
    "sign": [0.0 if k % 2 == 0 else (-1) ** (k // 2) / k for k in range(16)],
    "large": [0.0, 400.0, 30.0, -500.0],
    "degree 31": np.random.default_rng(0).normal(size=32).tolist(),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SERIES)
def test_is_the_series_up_to_noise(name, sk, keys, ct):
    coefficients = SERIES[name]
    polynomial = fhe.Polynomial(coefficients)
    out = fhe.evaluate(polynomial, ct, keys)
    assert out.level == ct.level - polynomial.depth and out.scale == PARAMS.scale_at(out.level)
    assert out.components == 2 and out.real
    error = np.max(np.abs(decrypted(sk, out) - chebyshev.chebval(X, coefficients)))
    assert error < tolerance(np.trim_zeros(coefficients, "b") or [0.0])


def test_equal_types_by_every_route(ct, keys):
    """So that scan and cond take them, and nothing is traced twice."""
    cube = fhe.evaluate(fhe.Polynomial([0, 0.75, 0, 0.25]), ct, keys)
    assert jax.tree.structure(cube) == jax.tree.structure(fhe.multiply(fhe.square(ct, keys), ct, keys))


@pytest.mark.parametrize(
    "domain, depth",
    [((-8.0, 8.0), 4), ((0.0, 1.0), 3), ((3.0, 5.0), 3), ((-0.25, 0.75), 3), ((1.0, 4.0), 4)],
)
def test_domains(domain, depth, sk, keys):
    coefficients, x = SERIES["dense"], np.linspace(*domain, PARAMS.slots)
    polynomial = fhe.Polynomial(coefficients, domain)
    out = fhe.evaluate(polynomial, fhe.encrypt(SEEDS[2], sk, x), keys)
    assert out.level == PARAMS.max_level - depth
    factor = 2 / (domain[1] - domain[0])
    u = factor * (x - domain[0]) - 1
    error = np.max(np.abs(decrypted(sk, out) - chebyshev.chebval(u, coefficients)))
    assert error < tolerance(coefficients, max(1.0, factor))


def test_degree_one_takes_any_domain_in_one_level(sk, keys):
    x = np.linspace(-8, 8, PARAMS.slots)
    out = fhe.evaluate(fhe.Polynomial([0.5, 0.25], (-9, 8)), fhe.encrypt(SEEDS[2], sk, x), None)
    assert out.level == PARAMS.max_level - 1
    assert np.max(np.abs(decrypted(sk, out) - (0.5 + 0.25 * (2 * x + 1) / 17))) < tolerance([0.5, 0.25])


def test_complex_slots(sk, keys):
    z = 0.9 * np.exp(1j * np.linspace(0, 6, PARAMS.slots))
    out = fhe.evaluate(fhe.Polynomial(SERIES["dense"]), fhe.encrypt(SEEDS[2], sk, z), keys)
    assert not out.real
    # Off the real line T_k and its derivative are larger: by less than r^k for the ellipse with half-axis r through z.
    growth = (0.9 + math.sqrt(1 + 0.9**2)) ** np.arange(7)
    error = np.max(np.abs(decrypted(sk, out) - chebyshev.chebval(z, SERIES["dense"])))
    assert error < tolerance(SERIES["dense"] * growth)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("coefficients", [[0.75], [0.5, 0.25], SERIES["dense"]], ids=len)
def test_traced_coefficients(coefficients, x64, sk, keys, ct):
    with jax.enable_x64(x64):
        polynomial = fhe.Polynomial(coefficients)
        out = jax.jit(fhe.evaluate)(polynomial, ct, keys)
        taken = np.asarray(coefficients) if x64 else np.float32(coefficients).astype(float)
        assert out.level == ct.level - polynomial.depth
        assert np.max(np.abs(decrypted(sk, out) - chebyshev.chebval(X, taken))) < tolerance(coefficients)


def test_traced_coefficients_on_a_domain(sk, keys, ct):
    program = jax.jit(lambda c: fhe.evaluate(fhe.Polynomial(c, (-4, 4)), ct, keys))
    with jax.enable_x64(True):
        for coefficients in ([0.5, 0.25], [0.5, 0.25, -0.5]):
            want = chebyshev.chebval(X / 4, coefficients)
            assert np.max(np.abs(decrypted(sk, program(np.array(coefficients))) - want)) < tolerance(coefficients)


def test_jit_gives_the_same_bits(ct, keys):
    polynomial = fhe.Polynomial(SERIES["dense"])
    jitted = jax.jit(lambda x, keys: fhe.evaluate(polynomial, x, keys))(ct, keys)
    np.testing.assert_array_equal(jitted.data, fhe.evaluate(polynomial, ct, keys).data)


def test_reference_gives_the_same_bits():
    params = fhe.Parameters.for_depth(2, log_degree=4, security=None)
    sk = fhe.secret_key(SEEDS[0], params)
    keys, x = fhe.evaluation_keys(SEEDS[1], sk), fhe.encrypt(SEEDS[2], sk, np.linspace(-1, 1, params.slots))
    evaluate = lambda x, keys: fhe.evaluate(fhe.Polynomial([0.1, 0.2, 0.3, 0.4]), x, keys)
    assert_equals_reference(evaluate(x, keys), evaluate, x, keys)


def test_batches_and_vmap_give_the_same_bits(sk, keys):
    batch = fhe.encrypt(SEEDS[3], sk, np.stack([X, -X, X / 2]))
    evaluate = functools.partial(fhe.evaluate, fhe.Polynomial(SERIES["odd"]))
    together = evaluate(batch, keys)
    assert together.shape == (3,)
    np.testing.assert_array_equal(jax.vmap(evaluate, in_axes=(0, None))(batch, keys).data, together.data)
    for i in range(3):
        one = jax.tree.map(lambda data: data[i], batch)  # noqa: B023
        np.testing.assert_array_equal(evaluate(one, keys).data, together.data[i])


@pytest.mark.parametrize("x64", [False, True])
def test_vmap_over_polynomials_on_one_ciphertext(x64, sk, keys, ct):
    series = np.array([[0.1, 0.2, 0.3], [-0.4, 0.5, 0.6]])
    with jax.enable_x64(x64):
        out = jax.vmap(fhe.evaluate, in_axes=(0, None, None))(jax.vmap(fhe.Polynomial)(series), ct, keys)
        assert out.shape == (2,)
        taken = series if x64 else np.float32(series).astype(float)
        for values, coefficients in zip(decrypted(sk, out), taken, strict=True):
            assert np.max(np.abs(values - chebyshev.chebval(X, coefficients))) < tolerance(coefficients)


def test_rescales_a_raw_product_first(sk, keys, ct):
    raw = fhe.relinearize(ct * ct, keys)
    out = fhe.evaluate(fhe.Polynomial([0.5, 0.0, 1.0]), raw, keys)
    assert out.level == PARAMS.max_level - 3
    assert np.max(np.abs(decrypted(sk, out) - (2 * X**4 - 0.5))) < tolerance([0.5, 0.0, 2.0], 2)


def test_leaves_by_export(keys, ct):
    program = jax.jit(fhe.evaluate)
    polynomial = fhe.Polynomial(np.array([0.1, 0.2, 0.3], np.float32), (0, 1))
    exported = jax.export.export(program, disabled_checks=fhe.export_checks())(polynomial, ct, keys)
    again = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(again.call(polynomial, ct, keys).data, program(polynomial, ct, keys).data)


def test_too_few_levels_is_found_without_data(keys, ct):
    low = fhe.drop_to_level(ct, 1)
    says = r"evaluate: a polynomial of degree 3 takes 2 levels, and the ciphertext is at level 1; .*for_depth\(6\)"
    for polynomial in (fhe.Polynomial(np.ones(4)), fhe.Polynomial([1, 1, 1, 1, 0, 0])):
        with pytest.raises(fhe.LevelError, match=says):
            jax.eval_shape(lambda x, keys: fhe.evaluate(polynomial, x, keys), low, keys)  # noqa: B023
    with pytest.raises(fhe.LevelError, match=r"degree 2 on the domain \(-8.0, 8.0\) takes 3 levels"):
        jax.eval_shape(fhe.evaluate, fhe.Polynomial(np.ones(3), (-8, 8)), fhe.drop_to_level(ct, 2), keys)
    assert fhe.evaluate(fhe.Polynomial([0.5]), fhe.drop_to_level(ct, 0), keys).level == 0


# --- on simulated values, and the cases that others met ----------------------------------------------------------

CASE_PARAMS = fhe.Parameters.for_depth(7, log_degree=6, security=None)


@made_once
def case_keys():
    secret = fhe.secret_key(SEEDS[0], CASE_PARAMS)
    return secret, fhe.evaluation_keys(SEEDS[1], secret)


def rounding(x64, x, polynomial, right):
    """Of Simulated's floats: that of the result, and that of x times the slope, at most (2 / width) sum k^2 |c_k|."""
    coefficients, (low, high) = np.abs(polynomial.coefficients), polynomial.domain
    slope = 2 / (high - low) * np.sum(np.arange(len(coefficients)) ** 2 * coefficients)
    scale = np.sum(coefficients) + np.max(np.abs(right)) + np.max(np.abs(x)) * slope
    return 4 * float(jnp.finfo(np.float64 if x64 else np.float32).eps) * scale


@pytest.mark.sampled(6)
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.slow if case.polynomial.degree > 12 else (), id=case.name)
        for case in polynomial_cases.CASES
    ],
)
def test_reported_cases(case, x64):
    (secret, keys), polynomial, count = case_keys(), case.polynomial, len(case.x)
    x = np.pad(case.x, (0, CASE_PARAMS.slots - count), mode="edge")
    with jax.enable_x64(x64):
        encrypted = fhe.evaluate(polynomial, fhe.encrypt(SEEDS[2], secret, x), keys)
        simulated = fhe.evaluate(polynomial, fhe.simulate(x, CASE_PARAMS, secret_key=True))
    assert encrypted.level == simulated.level == CASE_PARAMS.max_level - polynomial.depth
    assert encrypted.scale == simulated.scale == CASE_PARAMS.scale_at(encrypted.level)
    assert np.max(np.abs(np.asarray(simulated.values)[:count] - case.right)) <= rounding(x64, x, polynomial, case.right)
    # The model is for one key of many; here is one of 64 coefficients, so that its size varies.
    assert np.max(np.abs(decrypted(secret, encrypted)[:count] - case.right)) <= 3 * np.max(np.abs(simulated.errors))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("domain", [(-1e-9, 1e-9), (1, 1 + 2**-20), (-1e9, 1e9), (-1e-3, 1e9), (0, 2**-40)])
def test_narrow_and_wide_domains(domain, sk, keys):
    """A narrow domain has a factor that amplifies errors, a wide one a factor that is rounded noticeably."""
    low, high = domain
    x = np.linspace(low, high, PARAMS.slots)
    polynomial = fhe.Polynomial([0.5, 0.25, -0.125], domain)
    out = fhe.evaluate(polynomial, fhe.encrypt(SEEDS[2], sk, x), keys)
    assert out.level == PARAMS.max_level - polynomial.depth
    with jax.enable_x64(True):
        simulated = fhe.evaluate(polynomial, fhe.simulate(x, PARAMS, secret_key=True))
    error = np.abs(decrypted(sk, out) - np.asarray(polynomial.coefficients) @ chebyshev_values(x, domain, 2))
    slope, factor_error = 0.25 + 4 * 0.125, 0.5 / PARAMS.scale_at(PARAMS.max_level)
    assert np.max(error) < 3 * np.max(np.abs(simulated.errors)) + slope * factor_error * np.max(np.abs(x))


def chebyshev_values(x, domain, degree):
    u = (2 * x - (domain[0] + domain[1])) / (domain[1] - domain[0])
    return chebyshev.chebvander(u, degree).T


@pytest.mark.slow
@pytest.mark.parametrize("degree, parity", [(255, None), (255, "odd"), (255, "even"), (1023, None)])
def test_high_degrees(degree, parity):
    params = fhe.Parameters.for_depth((degree + 1).bit_length() - 1, scale_bits=45, log_degree=10, security=None)
    secret = fhe.secret_key(SEEDS[0], params)
    x = np.cos(np.linspace(0, np.pi, params.slots))
    coefficients = np.random.default_rng(degree).normal(size=degree + 1) / (1 + np.arange(degree + 1))
    if parity is not None:
        coefficients[int(parity == "even") :: 2] = 0
    polynomial = fhe.Polynomial(coefficients, parity=parity)
    out = fhe.evaluate(polynomial, fhe.encrypt(SEEDS[2], secret, x), fhe.evaluation_keys(SEEDS[1], secret))
    with jax.enable_x64(True):
        simulated = fhe.evaluate(polynomial, fhe.simulate(x, params, secret_key=True))
        worst = 2.0 ** -float(simulated.error_bits)
    want = chebyshev.chebval(x, coefficients)
    assert out.level == simulated.level == 0 and out.scale == params.scale_at(0)
    np.testing.assert_allclose(simulated.values, want, atol=degree * 1e-15)
    assert 0.3 * worst < np.max(np.abs(decrypted(secret, out) - want)) < 2 * worst


# --- several at once, and one a slot -----------------------------------------------------------------------------


def test_vmap_over_polynomials(keys, ct):
    many = jax.vmap(fhe.Polynomial)(np.array([[0.0, 1.0], [1.0, 2.0]], np.float32))
    assert many.degree == 1
    np.testing.assert_allclose(jax.vmap(lambda p: p(0.5))(many), [0.5, 2.0])
    for use in (lambda: many(0.5), lambda: fhe.evaluate(many, ct, keys)):
        with pytest.raises(ValueError, match=r"shape \(2, 2\).* jax.vmap"):
            use()


@pytest.mark.parametrize("domain", [(-1.0, 1.0), (-8.0, 8.0)])
def test_several_at_once(domain, sk, keys):
    many = [fhe.Polynomial(SERIES[name], domain) for name in ("dense", "constant", "degree 1", "T2", "zero", "odd")]
    x = np.linspace(*domain, PARAMS.slots)
    operand = fhe.encrypt(SEEDS[2], sk, x)
    together = fhe.evaluate(many, operand, keys)
    traced = jax.jit(fhe.evaluate)(many, operand, keys)
    assert isinstance(together, list) and len(together) == len(many)
    for polynomial, out, other in zip(many, together, traced, strict=True):
        assert out.level == PARAMS.max_level - polynomial.depth and out.scale == PARAMS.scale_at(out.level)
        want = chebyshev.chebval(x / domain[1], np.asarray(polynomial.coefficients))
        assert np.max(np.abs(decrypted(sk, out) - want)) < tolerance(polynomial.coefficients)
        assert other.level >= PARAMS.max_level - 4


def test_one_of_several_has_the_same_bits(ct, keys):
    for name in ("zero", "degree 1", "dense"):
        polynomial = fhe.Polynomial(SERIES[name])
        (out,) = fhe.evaluate((polynomial,), ct, keys)
        np.testing.assert_array_equal(out.data, fhe.evaluate(polynomial, ct, keys).data)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "degree, traced, domain",
    [(d, traced, (-2.0, 4.0)) for d in (0, 1, 2) for traced in (False, True)]
    + [(3, True, (-1.0, 1.0)), (11, False, (-1.0, 1.0))],
)
def test_another_polynomial_in_each_slot(degree, traced, domain, sk, keys):
    rng = np.random.default_rng(degree)
    coefficients = rng.normal(size=(degree + 1, PARAMS.slots))
    x = rng.uniform(*domain, PARAMS.slots)
    polynomial, operand = fhe.Polynomial(coefficients, domain), fhe.encrypt(SEEDS[2], sk, x)
    with jax.enable_x64(True):
        program = jax.jit(fhe.evaluate) if traced else fhe.evaluate
        out, simulated = program(polynomial, operand, keys), program(polynomial, fhe.simulate(x, PARAMS))
    assert out.level == simulated.level == PARAMS.max_level - polynomial.depth
    assert out.scale == simulated.scale == PARAMS.scale_at(out.level)
    want = np.sum(coefficients * chebyshev_values(x, domain, degree), axis=0)
    np.testing.assert_allclose(simulated.values, want, atol=1e-12)
    assert np.max(np.abs(decrypted(sk, out) - want)) < tolerance(np.max(np.abs(coefficients), axis=1))


def test_a_slot_with_the_same_polynomial_is_that_polynomial(sk, keys, ct):
    """And weights a slot are encoded as precisely as one for all: the errors hardly differ."""
    coefficients = np.array(SERIES["dense"])
    columns = fhe.Polynomial(np.repeat(coefficients[:, None], PARAMS.slots, axis=1))
    one = decrypted(sk, fhe.evaluate(fhe.Polynomial(coefficients), ct, keys))
    each = decrypted(sk, fhe.evaluate(columns, ct, keys))
    assert np.max(np.abs(one - each)) < tolerance(coefficients) / 4


def test_columns_of_zeros_are_known(ct, keys):
    """A coefficient that is zero in every slot costs nothing."""
    coefficients = np.zeros((9, PARAMS.slots))
    coefficients[:4] = 0.25
    assert fhe.evaluate(fhe.Polynomial(coefficients), ct, keys).level == ct.level - 2


@pytest.mark.sampled(1)
@pytest.mark.parametrize("x64", [False, True])
def test_gradients_by_coefficients_of_simulated_values(x64):
    coefficients, x = np.random.default_rng(3).normal(size=(5, PARAMS.slots)), np.linspace(-0.9, 0.9, PARAMS.slots)
    vander = chebyshev.chebvander(x, 4).T
    with jax.enable_x64(x64):
        gradient = lambda coefficients, parity=None: jax.jit(
            jax.grad(lambda c: fhe.evaluate(fhe.Polynomial(c, parity=parity), fhe.simulate(x, PARAMS)).values.sum())
        )(jnp.asarray(coefficients))
        close = functools.partial(np.testing.assert_allclose, atol=1e-12 if x64 else 1e-4)
        close(gradient(coefficients), vander)
        close(gradient(coefficients[:, 0]), vander.sum(axis=1))
        close(gradient(coefficients[:, 0], "odd"), vander.sum(axis=1) * (np.arange(5) % 2))


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attempt, error, says",
    [
        (lambda x, keys: fhe.evaluate(UNIT, X, keys), TypeError, "got ndarray for the ciphertext"),
        (lambda x, keys: fhe.evaluate([1.0], x, keys), TypeError, r"got float for a polynomial; type evaluate\("),
        (lambda x, keys: fhe.evaluate([], x, keys), ValueError, r"no polynomials; type evaluate\(\[p, q\], x, keys"),
        (
            lambda x, keys: fhe.evaluate([UNIT, fhe.Polynomial([0, 1], (-8, 8))], x, keys),
            ValueError,
            r"domains \(-1.0, 1.0\) and \(-8.0, 8.0\); .*from_power\(\[0, 1\], domain=\(-1.0, 1.0\)\)",
        ),
        (
            lambda x, keys: fhe.evaluate(fhe.Polynomial(np.ones((3, 5))), x, keys),
            ValueError,
            r"shape \(3, 5\); need \(degree \+ 1,\), or \(degree \+ 1, 128\) .* 128 slots \(.*numpy.pad\)",
        ),
        (
            lambda x, keys: fhe.evaluate(fhe.Polynomial([[0.0] * 128, [np.inf] * 128]), x),
            ValueError,
            "coefficient of T_1 is not finite",
        ),
        (
            lambda x, keys: fhe.evaluate(fhe.Polynomial(np.full((2, 128), 1e60)), x),
            ValueError,
            r"magnitude 1e\+60 is too large",
        ),
        (lambda x, keys: fhe.evaluate(UNIT, x * x, keys), ValueError, r"type fhejax.relinearize\(x, keys\) first"),
        (lambda x, keys: fhe.evaluate(SQUARE, x), fhe.MissingKeyError, "needs the relinearisation key at level 5"),
        (lambda x, keys: fhe.evaluate(fhe.Polynomial([0, np.nan]), x), ValueError, "coefficient of T_1 is not finite"),
        (lambda x, keys: fhe.evaluate(fhe.Polynomial([0, 1e60]), x), ValueError, r"magnitude 1e\+60 is too large"),
    ],
)
def test_refuses(attempt, error, says, unchecked, keys, ct):
    with pytest.raises(error, match=f"evaluate: .*{says}"):
        attempt(ct, keys)


def test_modulus_beyond_the_largest_double():
    """30 levels of 40 bits: what coefficients must stay below is not a double."""
    params = fhe.Parameters.for_depth(30, log_degree=4, security=None)
    assert params.log_q > 1024
    assert fhe.evaluate(fhe.Polynomial([1.0, 2.0]), fhe.simulate([0.5], params)).level == 29
    with pytest.raises(ValueError, match="is not finite"):
        fhe.evaluate(fhe.Polynomial([0.0, np.inf]), fhe.simulate([0.5], params))
