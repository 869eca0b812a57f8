"""Simulated values outside a polynomial's domain are told, with the line of the program, and nothing else changes."""

import inspect
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fhejax as fhe

PARAMS = fhe.Parameters.for_depth(3, log_degree=6, security=None)
CURVE = fhe.Polynomial([0.1, 0.2, 0.3], (-2, 2))
INSIDE = np.linspace(-2, 2, PARAMS.slots)
OUTSIDE = np.where(np.arange(PARAMS.slots) == 7, 2.5, INSIDE)


def curve(values, polynomial=CURVE, **options):
    return fhe.evaluate(polynomial, fhe.simulate(values, PARAMS, **options)).values


CURVE_LINE = inspect.getsourcelines(curve)[1] + 1


def told(program, *arguments):
    """The warnings of a program that is run once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = program(*arguments)
        jax.effects_barrier()
    jax.block_until_ready(result)
    assert all(warning.category is fhe.OutOfRangeWarning for warning in caught)
    return caught


def total(values):
    return curve(values).sum()


def scanned(values):
    return jax.lax.scan(lambda carry, row: (carry + curve(row), None), jnp.zeros(PARAMS.slots), values)[0]


def branched(values):
    return jax.lax.cond(values[0] < 3, curve, lambda values: values, values)


def rows(values):
    return np.stack([INSIDE, values])


PROGRAMS = {
    "eager": curve,
    "jit": jax.jit(curve),
    "vmap": lambda values: jax.vmap(curve)(rows(values)),
    "jit of vmap": lambda values: jax.jit(jax.vmap(curve))(rows(values)),
    "grad": jax.grad(total),
    "jit of grad": jax.jit(jax.grad(total)),
    "grad of vmap": lambda values: jax.grad(lambda x: jax.vmap(total)(x).sum())(rows(values)),
    "scan": lambda values: scanned(rows(values)),
    "grad of scan": lambda values: jax.grad(lambda x: scanned(x).sum())(rows(values)),
    "cond": branched,
    "checkpoint": jax.jit(jax.grad(jax.checkpoint(total))),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name, x64", [*((name, False) for name in PROGRAMS), ("eager", True), ("jit of grad", True)])
def test_worst_value_and_line_are_told(name, x64):
    with jax.enable_x64(x64):
        kind = jnp.zeros(0).dtype
        assert not told(PROGRAMS[name], INSIDE.astype(kind))
        (warning,) = told(PROGRAMS[name], OUTSIDE.astype(kind))
    assert str(warning.message).startswith("evaluate: values[")
    assert "7] = 2.5 is outside the polynomial's domain (-2.0, 2.0)" in str(warning.message)
    assert (warning.filename, warning.lineno) == (__file__, CURVE_LINE)


def test_once_for_each_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for scale in (1.0, 2.0, 3.0):
            curve(scale * OUTSIDE)
        fhe.evaluate(CURVE, fhe.simulate(OUTSIDE, PARAMS))
    assert [warning.lineno == CURVE_LINE for warning in caught] == [True, False]


def test_again_where_the_filters_are_others():
    assert [len(told(curve, OUTSIDE)) for _ in range(2)] == [1, 1]


def test_every_time_as_an_error():
    for _ in range(2):
        with pytest.raises(fhe.OutOfRangeWarning, match=r"= 2\.5 is"):
            curve(OUTSIDE)


def test_line_of_a_function_that_is_transformed_itself():
    (warning,) = told(lambda: jax.jit(fhe.evaluate)(CURVE, fhe.simulate(OUTSIDE, PARAMS)))
    assert warning.filename == __file__


@pytest.mark.parametrize(
    "worst, shown",
    [(-3.0, "-3"), (np.nan, "nan"), (np.inf, "inf"), (1.5 + 0.5j, r"1.5\+0.5j"), (2.5 + 0j, r"2.5\+0j")],
)
def test_what_is_outside(worst, shown):
    values = np.where(np.arange(PARAMS.slots) == 3, worst, INSIDE)
    with pytest.warns(fhe.OutOfRangeWarning, match=rf"values\[3\] = {shown} is outside"):
        fhe.evaluate(CURVE, _simulated(values))


def _simulated(values):
    """NaN and infinity are refused by `simulate`: they arise within circuits."""
    x = fhe.simulate(np.zeros_like(values), PARAMS)
    return jax.tree.unflatten(jax.tree.structure(x), [jnp.asarray(values), *jax.tree.leaves(x)[1:]])


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("domain", [(-2, 2), (0, 1e-6), (99.75, 100.25), (-3e8, 1e8), (1e-3, 4)])
def test_rounding_is_allowed_for(domain, x64):
    low, high = domain
    line = fhe.Polynomial([0.5, 0.25], domain)
    edges = np.linspace(low, high, PARAMS.slots)
    with jax.enable_x64(x64):
        assert not told(curve, edges + np.linspace(-1, 1, PARAMS.slots) * (high - low) / 2**21, line)
        assert len(told(curve, np.linspace(low, high + (high - low) / 64, PARAMS.slots), line)) == 1


def test_a_constant_and_small_imaginary_parts_are_silent():
    assert not told(curve, 10 * OUTSIDE, fhe.Polynomial([0.5], (-2, 2)))
    assert not told(curve, INSIDE + 0.05j)


@pytest.mark.slow
def test_noise_in_the_values_is_allowed_for():
    coarse = fhe.Parameters.from_bits(10, (40, 25, 25, 25), (41,), scale_bits=25, digit_size=1, security=None)
    x = fhe.simulate(np.full(coarse.slots, 2.0), coarse, noise_seed=1)
    assert np.max(x.values) > 2 + 4 / 2**19
    assert not told(fhe.evaluate, CURVE, x)


def test_zeros_behind_the_values_count():
    """They are slots of the ciphertext like others: a large value in one of them spoils them all."""
    (warning,) = told(lambda: fhe.evaluate(fhe.Polynomial([0, 0, 1.0], (1, 4)), fhe.simulate([2.0, 3.0], PARAMS)))
    assert "values[2] = 0 is outside" in str(warning.message)


def test_ciphertexts_cannot_tell():
    seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 3)
    sk = fhe.secret_key(seeds[0], PARAMS)
    assert not told(fhe.evaluate, CURVE, fhe.encrypt(seeds[1], sk, OUTSIDE), fhe.evaluation_keys(seeds[2], sk))
