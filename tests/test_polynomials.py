"""Chebyshev series: on arrays, planned in exact integers, and on ciphertexts within what their noise explains."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.polynomial import chebyshev

import fhejax as fhe
from fhejax.polynomials import evaluation
from fhejax.simulation import noise

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


# --- on arrays ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "complex64"])
@pytest.mark.parametrize("degree", [0, 1, 2, 15])
def test_call_is_the_series(degree, dtype):
    within = {"float64": 1e-14, "bfloat16": 2e-2}.get(dtype, 1e-5)
    coefficients = np.random.default_rng(degree).normal(size=degree + 1)
    with jax.enable_x64(dtype == "float64"):
        x = jnp.linspace(-3, 5, 40).reshape(5, 8).astype(dtype)
        got = jax.jit(fhe.Polynomial(coefficients, (-3, 5)))(x)
        assert got.dtype == x.dtype and got.shape == x.shape
        want = chebyshev.chebval((np.asarray(x).astype(complex).real - 1) / 4, coefficients)
        np.testing.assert_allclose(np.asarray(got).astype(complex), want, atol=within * np.sum(np.abs(coefficients)))


def test_call_takes_integers_and_lists():
    np.testing.assert_allclose(fhe.Polynomial([1, 2, 3])([-1, 0, 1]), [2, -2, 6])


def test_gradients_in_x_and_in_coefficients():
    coefficients = np.array([0.3, -0.2, 0.5, 0.1, -0.4])
    with jax.enable_x64(True):
        polynomial, x = fhe.Polynomial(coefficients, (-2, 2)), jnp.linspace(-1.5, 1.5, 7)
        slope = jax.vmap(jax.grad(polynomial))(x)
        np.testing.assert_allclose(slope, chebyshev.chebval(x / 2, chebyshev.chebder(coefficients)) / 2, atol=1e-14)
        gradient = jax.grad(lambda p: p(x).sum())(polynomial)
        assert isinstance(gradient, fhe.Polynomial) and gradient.domain == (-2.0, 2.0)
        np.testing.assert_allclose(gradient.coefficients, chebyshev.chebvander(x / 2, 4).sum(0), atol=1e-14)


def test_vmap_over_polynomials(keys, ct):
    many = jax.vmap(fhe.Polynomial)(np.array([[0.0, 1.0], [1.0, 2.0]], np.float32))
    assert many.degree == 1
    np.testing.assert_allclose(jax.vmap(lambda p: p(0.5))(many), [0.5, 2.0])
    for use in (lambda: many(0.5), lambda: fhe.evaluate(many, ct, keys)):
        with pytest.raises(ValueError, match=r"shape \(2, 2\) .* jax.vmap"):
            use()


def test_is_a_pytree_with_a_static_domain():
    polynomial = fhe.Polynomial([1.0, 2.0], (0, 8))
    ((path, leaf),) = jax.tree_util.tree_leaves_with_path(polynomial)
    assert jax.tree_util.keystr(path) == ".coefficients" and leaf is polynomial.coefficients
    assert jax.tree.structure(polynomial) != jax.tree.structure(fhe.Polynomial([1.0, 2.0]))
    doubled = jax.jit(lambda p: jax.tree.map(lambda c: 2 * c, p))(polynomial)
    assert doubled.domain == (0.0, 8.0) and doubled.coefficients.tolist() == [2, 4]
    assert repr(jax.tree.map(lambda _: None, polynomial)) == "Polynomial(None, domain=(0.0, 8.0))"


def test_degree_and_depth():
    depths = [fhe.Polynomial(np.ones(degree + 1)).depth for degree in range(40)]
    assert depths == [math.ceil(math.log2(degree + 1)) for degree in range(40)]
    assert fhe.Polynomial([1, 2, 3, 0, 0]).degree == 4 and fhe.Polynomial([1, 2, 3, 0, 0]).depth == 2
    assert [fhe.Polynomial(np.ones(4), domain).depth for domain in [(3, 5), (0, 1), (0, 4), (-8, 8)]] == [2, 2, 3, 3]
    assert [fhe.Polynomial(np.ones(n), (-8, 8)).depth for n in (1, 2, 3)] == [0, 1, 3]
    jax.jit(lambda p: np.testing.assert_equal((p.degree, p.depth), (4, 3)))(fhe.Polynomial([1, 2, 3, 0, 0.0]))


@pytest.mark.parametrize(
    "coefficients, shown",
    [
        ([0.0], "0"),
        ([-0.5, 0.0, 0.25], "-0.5 + 0.25 T2"),
        ([0.0, 1.0, -1e-7], "1 T1 - 1e-07 T2"),
        (np.arange(1, 10), "1 + 2 T1 + 3 T2 + 4 T3 + ... + 9 T8"),
    ],
)
def test_repr_is_the_series(coefficients, shown):
    assert repr(fhe.Polynomial(coefficients)).startswith(f"Polynomial({shown}, degree={len(coefficients) - 1}, ")


@pytest.mark.parametrize(
    "arguments, error, says",
    [
        (([],), ValueError, r"shape \(0,\); need \(degree \+ 1,\)"),
        ((1.5,), ValueError, r"shape \(\); need"),
        ((np.ones((2, 2)),), ValueError, r"shape \(2, 2\); need"),
        (([1j],), TypeError, "complex128; need real numbers"),
        ((["a"],), TypeError, "need real numbers"),
        (([1.0], (1, 1)), ValueError, r"domain = \(1.0, 1.0\); need two finite numbers, the lower first"),
        (([1.0], (1, -1)), ValueError, "the lower first"),
        (([1.0], (0, math.inf)), ValueError, "two finite numbers"),
        (([1.0], (math.nan, 1)), ValueError, "two finite numbers"),
        (([1.0], 3), ValueError, "domain = 3; need two numbers"),
        (([1.0], (0, 1, 2)), ValueError, "need two numbers"),
    ],
)
def test_refuses_what_is_no_polynomial(arguments, error, says, unchecked):
    with pytest.raises(error, match=f"Polynomial: .*{says}"):
        fhe.Polynomial(*arguments)


# --- the plan ----------------------------------------------------------------------------------------------------


def planned(node, powers, weights):
    """(value, levels) of a planned sum, from (T_k(x), levels of T_k), in Python integers."""
    value, below = 0 if node.constant is None else weights[node.constant], 0
    for i, row in zip(node.indices, node.rows, strict=True):
        value, below = value + weights[row] * powers[i][0], max(below, powers[i][1])
    for k, quotient in node.products:
        factor, levels = planned(quotient, powers, weights)
        value, below = value + factor * powers[k][0], max(below, levels, powers[k][1])
    return value, below + 1


def check_plan(coefficients, x):
    plan = evaluation._plan(tuple(c != 0 for c in coefficients))
    powers = {0: (1, 0), 1: (x, 0)}
    for k, a in plan.splits:
        value = 2 * powers[a][0] * powers[k - a][0] - powers[2 * a - k][0]
        powers[k] = value, 1 + max(powers[i][1] for i in (a, k - a, 2 * a - k))
    weights = [sum(int(m) * c for m, c in zip(row, coefficients, strict=True)) for row in plan.rows]
    value, levels = planned(plan.root, powers, weights)
    t = [1, x]
    while len(t) < len(coefficients):
        t.append(2 * x * t[-1] - t[-2])
    assert value == sum(c * p for c, p in zip(coefficients, t, strict=False))
    assert levels <= math.ceil(math.log2(len(coefficients)))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=70), st.sampled_from([1, -4]), st.integers(-5, 5))
def test_plans_are_exact_and_deep_as_promised(coefficients, last, x):
    check_plan([*coefficients, last], x)


@settings(deadline=None, max_examples=60)
@given(st.sets(st.integers(1, 130), min_size=1, max_size=6), st.integers(-5, 5))
def test_sparse_plans_too(places, x):
    check_plan([i + 1 if i in places else 0 for i in range(max(places) + 1)], x)


SWITCHING = {"fhejax_gadget_product", "fhejax_key_switch", "fhejax_multiply_ciphertexts"}


def key_switches(jaxpr):
    count = 0
    for equation in jaxpr.eqns:
        count += equation.primitive.name in SWITCHING
        inner = [value.jaxpr for value in equation.params.values() if hasattr(value, "jaxpr")]
        count += sum(map(key_switches, inner))
    return count


TINY = fhe.Parameters.for_depth(7, log_degree=4, security=None)
# Chen, Chillotti & Song's method takes 4, 7, 11, 16 and 24 for degrees 7, 15, 31, 63 and 127.
# Of degrees 1 to 31:
DENSE = [0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5, 5, 6, 6, 7, 6, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8, 9, 9, 10]


@pytest.mark.parametrize("degree, most", [*enumerate(DENSE, 1), (63, 13), (127, 18)])
def test_levels_and_key_switches(degree, most):
    sk = fhe.secret_key(SEEDS[0], TINY)
    keys, x = fhe.evaluation_keys(SEEDS[1], sk), fhe.encrypt(SEEDS[2], sk, np.zeros(TINY.slots))
    jaxpr, out = jax.make_jaxpr(fhe.evaluate, return_shape=True)(fhe.Polynomial(np.ones(degree + 1)), x, keys)
    assert key_switches(jaxpr.jaxpr) == most
    assert out.level == TINY.max_level - math.ceil(math.log2(degree + 1)) and out.scale == TINY.scale_at(out.level)


@pytest.mark.parametrize(
    "places, most", [(range(0, 31, 2), 8), (range(0, 17, 2), 5), (range(0, 15, 2), 5), ([16], 4), ([24], 5)]
)
def test_known_zeros_save_key_switches(places, most, ct, keys):
    coefficients = np.zeros(max(places) + 1)
    coefficients[list(places)] = 0.1
    jaxpr = jax.make_jaxpr(lambda x, keys: fhe.evaluate(fhe.Polynomial(coefficients), x, keys))(ct, keys)
    assert key_switches(jaxpr.jaxpr) == most


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
    native = fhe.evaluate(fhe.Polynomial([0.1, 0.2, 0.3, 0.4]), x, keys)
    with fhe.lowering("reference"):
        reference = fhe.evaluate(fhe.Polynomial([0.1, 0.2, 0.3, 0.4]), x, keys)
    np.testing.assert_array_equal(native.data, reference.data)


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


@pytest.mark.parametrize(
    "attempt, error, says",
    [
        (lambda x, keys: fhe.evaluate(UNIT, X, keys), TypeError, "got ndarray for the ciphertext"),
        (lambda x, keys: fhe.evaluate([1.0], x, keys), TypeError, r"got list for the polynomial; type evaluate\("),
        (lambda x, keys: fhe.evaluate(UNIT, x * x, keys), ValueError, r"type fhejax.relinearize\(x, keys\) first"),
        (lambda x, keys: fhe.evaluate(SQUARE, x), fhe.MissingKeyError, "needs the relinearisation key at level 5"),
        (lambda x, keys: fhe.evaluate(fhe.Polynomial([0, np.nan]), x), ValueError, "coefficient of T_1 is not finite"),
        (lambda x, keys: fhe.evaluate(fhe.Polynomial([0, 1e60]), x), ValueError, r"magnitude 1e\+60 is too large"),
    ],
)
def test_refuses(attempt, error, says, unchecked, keys, ct):
    with pytest.raises(error, match=f"evaluate: .*{says}"):
        attempt(ct, keys)
