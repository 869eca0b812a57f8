"""Plans of Chebyshev series: exact in integers, as deep as promised, and with the products that they count."""

import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import fhejax as fhe
from fhejax import _compat
from fhejax.polynomials.plan import planned

SEEDS = fhe.split_seed(np.arange(8, dtype=np.uint32), 3)
TINY = fhe.Parameters.for_depth(10, log_degree=4, security=None)


def pattern_of(coefficients):
    return tuple(c != 0 for c in coefficients)


def dense(degree):
    return (True,) * (degree + 1)


def odd(degree):
    return tuple(i % 2 == 1 for i in range(degree + 1))


def even(degree):
    """Of an odd degree, the even series below."""
    return tuple(i % 2 == 0 for i in range(degree + 1 - degree % 2))


# --- in integers -------------------------------------------------------------------------------------------------


def value_of(node, powers, weights):
    """(value, levels) of a planned sum, from (T_k(x), levels of T_k), in Python integers."""
    value, below = 0 if node.constant is None else weights[node.constant], 0
    for i, row in zip(node.indices, node.rows, strict=True):
        value, below = value + weights[row] * powers[i][0], max(below, powers[i][1])
    for k, quotient in node.products:
        factor, levels = value_of(quotient, powers, weights)
        value, below = value + factor * powers[k][0], max(below, levels, powers[k][1])
    return value, below + 1


def check_plan(many, x):
    """Several series together: values and levels of each."""
    plan = planned(tuple(pattern_of(coefficients) for coefficients in many))
    powers = {0: (1, 0), 1: (x, 0)}
    for k, a in plan.splits:
        value = 2 * powers[a][0] * powers[k - a][0] - powers[2 * a - k][0]
        powers[k] = value, 1 + max(powers[i][1] for i in (a, k - a, 2 * a - k))
    for coefficients, series in zip(many, plan.series, strict=True):
        weights = [sum(int(m) * c for m, c in zip(row, coefficients, strict=True)) for row in series.rows]
        value, levels = value_of(series.root, powers, weights)
        t = [1, x]
        while len(t) < len(coefficients):
            t.append(2 * x * t[-1] - t[-2])
        assert value == sum(c * p for c, p in zip(coefficients, t, strict=False))
        assert levels <= series.levels == math.ceil(math.log2(len(coefficients)))


SERIES = st.builds(
    lambda coefficients, last: [*coefficients, last],
    st.lists(st.integers(-9, 9), min_size=1, max_size=70),
    st.sampled_from([1, -4]),
)


@settings(deadline=None, max_examples=60)
@given(SERIES, st.integers(-5, 5))
def test_plans_are_exact_and_deep_as_promised(coefficients, x):
    check_plan([coefficients], x)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.sets(st.integers(1, 130), min_size=1, max_size=6), st.integers(-5, 5))
def test_sparse_plans_too(places, x):
    check_plan([[i + 1 if i in places else 0 for i in range(max(places) + 1)]], x)


@settings(deadline=None, max_examples=30)
@given(st.lists(SERIES, min_size=2, max_size=4), st.integers(-5, 5))
def test_several_series_at_once(many, x):
    check_plan(many, x)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [dense(1023), odd(1023), even(1023)], ids=["dense", "odd", "even"])
def test_degree_1023_is_exact(pattern):
    check_plan([[7 * i % 19 - 9 or 1 if there else 0 for i, there in enumerate(pattern)]], 2)


# --- what they cost ----------------------------------------------------------------------------------------------

# (Key switches, products) beside Chen, Chillotti & Song's method, which takes as many key switches as products.
COSTS = {7: (4, 5), 15: (7, 8), 31: (10, 13), 63: (13, 23), 127: (18, 28), 255: (23, 45), 1023: (37, 90)}
ODD = {7: (4, 5), 15: (7, 8), 31: (10, 13), 63: (13, 23), 127: (17, 27), 255: (22, 44), 1023: (33, 86)}
EVEN = {7: (3, 3), 15: (5, 6), 31: (8, 9), 63: (11, 14), 127: (14, 24), 255: (19, 29), 1023: (29, 82)}
PUBLISHED = {7: 4, 15: 7, 31: 11, 63: 16, 127: 24, 255: 33}
# Key switches of degrees 1 to 31.
SWITCHES = [0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5, 5, 6, 6, 7, 6, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8, 9, 9, 10]


@pytest.mark.slow
def test_costs():
    assert [planned((dense(degree),)).cost[0] for degree in range(1, 32)] == SWITCHES
    for parity, costs in ((dense, COSTS), (odd, ODD), (even, EVEN)):
        assert {degree: planned((parity(degree),)).cost for degree in costs} == costs


@pytest.mark.parametrize(
    "patterns, together, apart",
    [
        ([dense(7)] * 2, (6, 8), (8, 10)),
        ([dense(15)] * 3, (13, 16), (21, 24)),
        ([dense(31)] * 3, (18, 30), (30, 39)),
        ([dense(3), dense(7), dense(31)], (13, 16), (16, 20)),
        ([odd(15), odd(15), odd(27)], (14, 19), (22, 27)),
    ],
)
def test_several_series_cost_less_together(patterns, together, apart):
    assert planned(tuple(patterns)).cost == together
    assert tuple(map(sum, zip(*(planned((pattern,)).cost for pattern in patterns), strict=True))) == apart


def cost_of(function, *arguments):
    """(Key switches, products) in the program: a product is one primitive, or one of a combination."""
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    count = lambda name: sum(number for _, number in _compat.count_equations(jaxpr, f"fhejax_{name}"))
    both, switches = count("multiply_ciphertexts"), count("relinearize_rescale")
    assert not count("key_switch")
    combined = _compat.count_equations(jaxpr, "fhejax_combination")
    return both + switches, both + sum(parameters["products"] * number for parameters, number in combined)


@pytest.fixture(scope="module")
def operands():
    sk = fhe.secret_key(SEEDS[0], TINY)
    return fhe.encrypt(SEEDS[1], sk, np.zeros(TINY.slots)), fhe.evaluation_keys(SEEDS[2], sk)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("degree", COSTS)
def test_programs_have_these_products_and_levels(degree, operands):
    polynomial = fhe.Polynomial(np.ones(degree + 1))
    out = jax.eval_shape(fhe.evaluate, polynomial, *operands)
    assert out.level == TINY.max_level - math.ceil(math.log2(degree + 1)) and out.scale == TINY.scale_at(out.level)
    switches, products = cost_of(fhe.evaluate, polynomial, *operands)
    assert (switches, products) == COSTS[degree]
    assert switches <= PUBLISHED.get(degree, switches)


@pytest.mark.parametrize("parity, costs", [("odd", ODD), ("even", EVEN)])
@pytest.mark.parametrize("degree", [15, 31, 127])
def test_parity_saves_products_of_traced_coefficients(degree, parity, costs, operands):
    polynomial = fhe.Polynomial(np.ones(degree + 1, np.float32), parity=parity)
    assert cost_of(fhe.evaluate, polynomial, *operands) == costs[degree]
    known = fhe.Polynomial(np.where(np.arange(degree + 1) % 2 == (parity == "odd"), 1.0, 0.0))
    assert cost_of(lambda x, keys: fhe.evaluate(known, x, keys), *operands) == costs[degree]


def test_several_polynomials_share_their_products(operands):
    polynomials = [fhe.Polynomial(np.ones(n)) for n in (16, 16, 16, 2, 1)]
    assert cost_of(fhe.evaluate, polynomials, *operands) == (13, 16)


@pytest.mark.parametrize(
    "places, most", [(range(0, 31, 2), 8), (range(0, 17, 2), 5), (range(0, 15, 2), 5), ([16], 4), ([24], 5)]
)
def test_known_zeros_save_key_switches(places, most, operands):
    coefficients = np.zeros(max(places) + 1)
    coefficients[list(places)] = 0.1
    program = lambda x, keys: fhe.evaluate(fhe.Polynomial(coefficients), x, keys)
    assert cost_of(program, *operands)[0] == most


@pytest.mark.slow
def test_planning_is_done_once():
    planned.cache_clear()
    plan = planned((dense(1023),))
    assert planned((dense(1023),)) is plan and planned.cache_info().hits == 1
