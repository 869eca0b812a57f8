"""The function library: errors, depths and noise as stated, on simulated values and on ciphertexts."""

import ast
import functools
import inspect
import itertools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import fhejax as fhe
from fhejax import functions
from fhejax.bootstrapping.profile import key_switches_of
from fhejax.functions import fits, inverse, range_extension
from fhejax.functions.composite import evaluate_chain

DEEP = fhe.Parameters.for_depth(25, log_degree=9, security=None)
PARAMS = fhe.Parameters.for_depth(9, log_degree=11, security=None)
SEEDS = fhe.split_seed(np.arange(8, dtype=np.uint32), 5)
SIZE = 4  # of the blocks of softmax


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def sk():
    return fhe.secret_key(SEEDS[0], PARAMS)


@pytest.fixture(scope="module")
def keys(sk):
    return fhe.evaluation_keys(SEEDS[1], sk, rotations=(1, 2, -1, -2))


def gelu(x):
    return x * scipy.special.ndtr(x)


def silu(x):
    return x * scipy.special.expit(x)


def step(x):
    return (1 + np.sign(x)) / 2


REFERENCES = {
    "sigmoid": scipy.special.expit, "tanh": np.tanh, "gelu": gelu, "silu": silu, "exp": np.exp, "sin": np.sin,
    "cos": np.cos, "reciprocal": lambda x: 1 / x, "rsqrt": lambda x: 1 / np.sqrt(x), "sqrt": np.sqrt, "log": np.log,
    "sign": np.sign, "step": step, "abs": np.abs, "relu": lambda x: np.maximum(x, 0),
}  # fmt: skip
OF_TWO = {"compare": lambda x, y: step(x - y), "maximum": np.maximum, "minimum": np.minimum}


def softmax(x, size, stride=1):
    blocks = np.exp(x.reshape(-1, size, stride))
    return (blocks / blocks.sum(axis=1, keepdims=True)).reshape(x.shape)


# --- what the docstrings say --------------------------------------------------------------------------------------

ROW = re.compile(
    r"On (?P<domain>\(\S+, \S+\))(, gap 2\^-(?P<gap>\d+))?(, size (?P<size>\d+))?, (?P<bits>\d+) bits"
    r": error 2\^-(?P<error>[\d.]+), depth (?P<depth>\d+), (?P<switches>\d+) key switches\."
)


def stated(name, row):
    """Deep circuits, and those whose degrees are searched for long, are left to the slow tests."""
    marks = [pytest.mark.slow] if int(row["depth"]) > 6 or row["gap"] or row["bits"] == "20" else []
    return pytest.param(name, row, id=f"{name}-{row[0][3:].partition(':')[0]}", marks=marks)


STATED = [
    stated(name, row)
    for name in [*REFERENCES, *OF_TWO, "softmax"]
    for row in ROW.finditer(inspect.getdoc(getattr(functions, name)))
]


def applied(name, row):
    """The function with the arguments that a row states."""
    options = {"domain": ast.literal_eval(row["domain"]), "bits": int(row["bits"])}
    if row["gap"]:
        options |= {"gap": 2.0 ** -int(row["gap"])}
    if row["size"]:
        options["size"] = int(row["size"])
    return functools.partial(getattr(functions, name), **options)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name, row", STATED)
def test_is_as_precise_and_deep_as_stated(name, row):
    operands, want, kept = points(name, row)
    xs = [fhe.simulate(x.reshape(-1, DEEP.slots), DEEP) for x in operands]
    with jax.disable_jit():  # faster than to compile each circuit, for so few slots
        out = applied(name, row)(*xs, None)
    assert DEEP.max_level - out.level == int(row["depth"]) and out.scale == DEEP.scale_at(out.level)
    worst, says = np.max(np.abs(np.asarray(out.values).ravel() - want) * kept), float(row["error"])
    assert worst <= 2.0 ** -int(row["bits"])
    if name == "softmax":  # a bound
        assert worst <= 2.0**-says
    else:  # rounded down to a tenth of a bit; a few points find nearly all of it
        assert 0.8 * 2.0 ** -(says + 0.1) < worst < 2.0**-says * (1 + 1e-6)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name, row", STATED)
def test_takes_as_many_key_switches_as_stated(name, row, deep):
    x, keys = deep
    operands = [x, x] if name in OF_TWO else [x]
    program, out = jax.make_jaxpr(applied(name, row), return_shape=True)(*operands, keys)
    assert count(program.jaxpr) == int(row["switches"])
    assert out.level == DEEP.max_level - int(row["depth"]) and out.scale == DEEP.scale_at(out.level)


@pytest.fixture(scope="module")
def deep():
    sk = fhe.secret_key(SEEDS[0], DEEP)
    steps = [sign << i for i in range(7) for sign in (1, -1)]
    return fhe.encrypt(SEEDS[2], sk, np.zeros(DEEP.slots)), fhe.evaluation_keys(SEEDS[1], sk, rotations=steps)


def count(jaxpr):
    """Key switches in a program."""
    return sum(key_switches_of(jaxpr))


def points(name, row):
    """Operands, what is to come out, and where it counts; with the ends of the domain, and close to zero."""
    (low, high), size = ast.literal_eval(row["domain"]), 4 * DEEP.slots
    x = low + (high - low) * (0.5 - 0.5 * np.cos(np.linspace(0, np.pi, size)))
    gap = 2.0 ** -int(row["gap"]) if row["gap"] else 0.0
    close = np.geomspace(gap or 1e-7 * (high - low), high - low, size // 4)
    if name in OF_TWO:
        y = np.random.default_rng(0).permutation(x)
        y[: size // 4] = low
        x[: size // 4] = np.minimum(low + close, high)
        return [x, y], OF_TWO[name](x, y), abs(x - y) >= gap
    if name == "softmax":
        x = np.random.default_rng(0).permutation(x)
        return [x], softmax(x, int(row["size"])), 1.0
    x[: size // 4] = np.clip(close * (-1) ** np.arange(size // 4) if low < 0 < high else low + close, low, high)
    return [x], REFERENCES[name](x), abs(x) >= gap


# --- encrypted ----------------------------------------------------------------------------------------------------

# (domain, bits, further arguments)
CASES = {
    "sigmoid": ((-4, 4), 8, {}),
    "tanh": ((-1, 1), 12, {}),
    "gelu": ((-4, 4), 8, {}),
    "silu": ((-4, 4), 8, {}),
    "exp": ((-4, 0), 8, {}),
    "sin": ((-1, 1), 12, {}),
    "cos": ((-1, 1), 8, {}),
    "reciprocal": ((-1.5, -0.5), 12, {}),
    "rsqrt": ((0.5, 1.5), 8, {}),
    "sqrt": ((0.01, 1), 8, {}),
    "log": ((0.5, 1.5), 8, {}),
    "sign": ((-1, 1), 8, {"gap": 0.25}),
    "step": ((-1, 1), 6, {"gap": 0.25}),
    "compare": ((0, 1), 6, {"gap": 0.25}),
    "abs": ((-1, 1), 5, {}),
    "relu": ((-1, 1), 6, {}),
    "maximum": ((0, 1), 6, {}),
    "minimum": ((0, 1), 6, {}),
    "softmax": ((-1, 1), 6, {"size": SIZE}),
}


def case(name, params):
    """(function, operands, what is to come out, where it counts)"""
    domain, bits, options = CASES[name]
    function = functools.partial(getattr(functions, name), domain=domain, bits=bits, **options)
    x = np.linspace(*domain, params.slots)
    kept = np.abs(x) >= options.get("gap", 0.0)
    if name in OF_TWO:
        y = np.random.default_rng(0).permutation(x)
        return function, [x, y], OF_TWO[name](x, y), np.abs(x - y) >= options.get("gap", 0.0)
    if name == "softmax":
        return function, [np.random.default_rng(0).permutation(x)], None, kept
    return function, [x], REFERENCES[name](x), kept


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CASES)
def test_encrypted_is_simulated_up_to_the_noise_predicted(name, sk, keys):
    function, operands, want, kept = case(name, PARAMS)
    with jax.disable_jit():
        simulated = function(*(fhe.simulate(x, PARAMS, secret_key=True) for x in operands), None)
    out = function(*(fhe.encrypt(seed, sk, x) for seed, x in zip(SEEDS[3:], operands, strict=False)), keys)
    assert (out.level, out.scale) == (simulated.level, simulated.scale)
    error = np.asarray(fhe.decrypt(sk, out, dtype="float64")) - simulated.values
    predicted = np.sqrt(np.mean(simulated.variance))
    assert 0.5 < np.sqrt(np.mean(error**2)) / predicted < 1.3
    want = softmax(operands[0], SIZE) if name == "softmax" else want
    assert np.max(np.abs(simulated.values - want) * kept) <= 2.0 ** -CASES[name][1]


SMALL = fhe.Parameters.for_depth(9, log_degree=6, security=None)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    function, operands, *_ = case(name, SMALL)
    directions = np.random.default_rng(1).normal(size=(len(operands), SMALL.slots))
    weights = np.random.default_rng(2).normal(size=SMALL.slots)
    middle = sum(CASES[name][0]) / 2

    def losses(t):
        """One for each entry of t."""
        inside = [
            middle + 0.9 * (x - middle) + t[:, None] * d for x, d in zip(operands, 1e-2 * directions, strict=True)
        ]
        return function(*(fhe.simulate(x, SMALL) for x in inside), None).values @ weights

    with jax.disable_jit():
        slope = jax.grad(lambda t: losses(t)[0])(jnp.zeros(1))[0]
        low, high = losses(jnp.array([-1e-3, 1e-3]))
    finite = (high - low) / 2e-3
    assert abs(slope - finite) < 1e-4 * max(1.0, abs(finite))


# --- particular points --------------------------------------------------------------------------------------------


def simulated(name, *operands, params=DEEP, **options):
    """The values of a function on simulated values."""
    with jax.disable_jit():
        out = getattr(functions, name)(*(fhe.simulate(x, params) for x in operands), None, **options)
    return np.asarray(out.values)


@pytest.mark.slow
def test_sign_inside_of_its_gap_stays_between():
    x = np.linspace(-2 * 2.0**-6, 2 * 2.0**-6, DEEP.slots)
    values = simulated("sign", x, domain=(-1, 1), bits=10, gap=2.0**-6)
    assert np.max(np.abs(values)) <= 1 + 2.0**-10
    np.testing.assert_allclose(values, -values[::-1], atol=1e-9)


@pytest.mark.slow
def test_of_equal_operands():
    x = np.linspace(-1, 1, DEEP.slots)
    np.testing.assert_allclose(simulated("compare", x, x, domain=(-1, 1), bits=6, gap=0.5), 0.5, atol=1e-9)
    y = np.clip(x + np.array([0, 1e-3, 1e-2, 1e-1])[:, None], -1, 1)
    for name in ("maximum", "minimum"):
        want = OF_TWO[name](x, y)
        np.testing.assert_allclose(simulated(name, x, y, domain=(-1, 1), bits=6), want, atol=2.0**-6)


@pytest.mark.slow
def test_the_second_operand_may_be_an_array_or_a_number():
    x = np.linspace(0, 1, DEEP.slots)
    for y in (0.5, x[::-1]):
        with jax.disable_jit():
            out = functions.maximum(fhe.simulate(x, DEEP), y, domain=(0, 1), bits=6)
        np.testing.assert_allclose(out.values, np.maximum(x, y), atol=2.0**-6)


def test_relu_of_13_bits_by_the_published_degrees():
    """Lee et al., 2021: {15, 15, 27} in depth 13, and one level more for the product with x."""
    polynomials = fhe.polynomials.minimax.sign_composition((15, 15, 27), 2.0**-9)
    x = np.concatenate([np.geomspace(1e-9, 1, 40001), np.linspace(0, 1, 40001)])
    x = np.concatenate([x, -x])
    error = np.max(np.abs(x * (1 + evaluate_chain(polynomials, x)) / 2 - np.maximum(x, 0)))
    assert error < 2.0**-13 and sum(p.depth for p in polynomials) == 13


@pytest.mark.slow
@pytest.mark.parametrize("size, stride", [(4, 1), (4, 8), (2, 16), (32, 1), (8, 4)])
def test_softmax_over_blocks(size, stride):
    params = fhe.Parameters.for_depth(12, log_degree=6, security=None)
    x = np.random.default_rng(0).uniform(-1, 1, (2, params.slots))
    values = simulated("softmax", x, params=params, size=size, stride=stride, domain=(-1, 1), bits=8)
    for row, got in zip(x, values, strict=True):
        np.testing.assert_allclose(got, softmax(row, size, stride), atol=2.0**-8)
        np.testing.assert_allclose(got.reshape(-1, size, stride).sum(axis=1), 1, atol=2.0**-8)


@pytest.mark.slow
def test_softmax_of_all_slots_saves_a_level_and_rotations():
    params = fhe.Parameters.for_depth(12, log_degree=6, security=None)
    x = fhe.simulate(np.zeros(params.slots), params)
    out = [jax.eval_shape(lambda x: functions.softmax(x, size=size, domain=(-1, 1), bits=8), x) for size in (32, 16)]  # noqa: B023
    assert out[0].level == out[1].level + 1


@pytest.mark.slow
def test_softmax_of_very_different_entries():
    x = np.full(DEEP.slots, -8.0)
    x[::16] = 8.0
    np.testing.assert_allclose(simulated("softmax", x, size=16, domain=(-8, 8), bits=6), softmax(x, 16), atol=2.0**-6)


@pytest.mark.parametrize("domain", [(0.3, 0.7), (-0.7, 0.7), (0.01, 0.5), (0.0, 1.0), (-1.0, 0.9), (0.1, 2.1)])
@pytest.mark.parametrize("anchor", ["low", "middle", "high"])
def test_domains_up_to_a_width_of_two_cost_no_level(domain, anchor):
    wide = fits.free_domain(domain, anchor)
    assert fhe.Polynomial(np.ones(4), wide).depth == 2
    assert wide[0] <= domain[0] and domain[1] <= wide[1]
    assert {"low": wide[0] == domain[0], "high": wide[1] == domain[1], "middle": True}[anchor]


@pytest.mark.slow
def test_domains_are_widened_on_the_side_without_a_pole():
    for name, domain in itertools.product(("reciprocal", "rsqrt", "log"), [(0.1, 0.9), (0.05, 0.3)]):
        x = np.linspace(*domain, DEEP.slots)
        np.testing.assert_allclose(simulated(name, x, domain=domain, bits=6), REFERENCES[name](x), atol=2.0**-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reciprocal", "rsqrt", "sqrt"])
def test_iterations_where_one_polynomial_is_not_enough(name):
    x = np.concatenate([np.geomspace(1e-4, 1, DEEP.slots - 1), [1.0]])
    bits = {"sqrt": 20}.get(name, 10)
    values = simulated(name, x, domain=(1e-4, 1), bits=bits)
    np.testing.assert_allclose(values, REFERENCES[name](x), atol=2.0**-bits)


def test_the_closed_form_is_the_minimax_polynomial():
    got = inverse.best_reciprocal((0.25, 2.25), 2.0**-9)
    want = fhe.polynomials.minimax.fit_minimax(lambda x: 1 / x, [(0.25, 2.25)], got.degree)
    np.testing.assert_allclose(got.coefficients, want.coefficients, atol=1e-6)


@pytest.mark.parametrize("degrees", [(3,), (7,), (3, 7)])
def test_range_extension_keeps_what_is_near_and_what_is_flat(degrees):
    stages, ratio = range_extension.sign_stages(degrees, 0.02)
    x = np.linspace(0, 1, 100001)
    y = evaluate_chain(stages, x)
    inside, outside = y[x <= 0.02], y[x >= 0.02]
    assert np.all(np.diff(inside) > 0) and ratio > 0.02 * 1.5 ** len(degrees)
    assert np.min(outside) > ratio * (1 - 1e-6) and np.max(outside) < 1 + 1e-9


@pytest.mark.slow
def test_range_extension_is_taken_where_it_is_cheaper(deep):
    """A narrow domain takes one polynomial; a wide one takes less than one polynomial would."""
    odd = lambda x: np.tanh(x / 2) / 2
    costs = []
    for domain in ((-8.0, 8.0), (-96.0, 96.0)):
        function = functools.partial(functions.sigmoid, domain=domain, bits=8)
        program, out = jax.make_jaxpr(function, return_shape=True)(*deep)
        costs.append((DEEP.max_level - out.level, count(program.jaxpr)))
    narrow = fits.fit_least(odd, (-8.0, 8.0), 2.0**-8, parity="odd").degree
    wide = fits.estimated_degree(odd, (-96.0, 96.0), 2.0**-8, parity="odd")
    assert costs[0] == fits.cost_of_degree(narrow, (-8.0, 8.0), "odd")
    assert costs[1] < fits.cost_of_degree(wide, (-96.0, 96.0), "odd")


def test_works_under_jit_and_vmap(sk, keys):
    x = fhe.encrypt(SEEDS[2], sk, np.stack([np.linspace(-1, 1, PARAMS.slots), np.zeros(PARAMS.slots)]))
    program = jax.jit(lambda x, keys: functions.tanh(x, keys, domain=(-1, 1), bits=6))
    together = program(x, keys)
    np.testing.assert_array_equal(jax.vmap(program, in_axes=(0, None))(x, keys).data, together.data)
    np.testing.assert_array_equal(functions.tanh(x, keys, domain=(-1, 1), bits=6).data, together.data)


def test_works_without_x64():
    with jax.enable_x64(False):
        x = np.linspace(-1, 1, DEEP.slots)
        out = functions.tanh(fhe.simulate(x, DEEP), domain=(-1, 1), bits=6)
        np.testing.assert_allclose(out.values, np.tanh(x), atol=2.0**-6)


def test_warns_of_values_outside_of_the_domain():
    x = fhe.simulate(np.array([0.5, 9.0]), DEEP)
    with pytest.warns(fhe.errors.OutOfRangeWarning, match=r"gelu: values\[1\] = 9 is outside .* \(-4.0, 4.0\)"):
        functions.gelu(x, domain=(-4, 4), bits=6)


# --- what is refused ----------------------------------------------------------------------------------------------


def test_too_few_levels_are_found_before_anything_is_done(deep):
    x, keys = deep
    low = fhe.drop_to_level(x, 2)
    says = (
        r"gelu: on the domain \(-4.0, 4.0\) to 8 bits takes 5 levels, and the operand is at level 2; .*for_depth\(28\)"
    )
    with pytest.raises(fhe.LevelError, match=says):
        jax.eval_shape(lambda x, keys: functions.gelu(x, keys, domain=(-4, 4), bits=8), low, keys)
    with pytest.raises(fhe.LevelError, match=r"softmax: .* takes 9 levels, and the operand is at level 2"):
        jax.eval_shape(lambda x, keys: functions.softmax(x, keys, size=4, domain=(-1, 1), bits=8), low, keys)


REFUSED = [
    ("gelu", {"domain": (1, 1)}, r"domain = \(1\.0, 1\.0\); need two finite numbers, the lower first"),
    ("gelu", {"domain": (8, -8)}, "the lower first"),
    ("gelu", {"domain": (-math.inf, 1)}, "two finite numbers"),
    ("gelu", {"domain": (math.nan, 1)}, "two finite numbers"),
    ("gelu", {"domain": 8}, "domain = 8; need two numbers"),
    ("gelu", {"bits": 0}, "bits = 0; need a positive number"),
    ("gelu", {"bits": math.nan}, "need a positive number"),
    ("gelu", {"bits": "many"}, "need a positive number"),
    ("sigmoid", {"bits": 60}, r"bits = 60 on the domain \(-1.0, 1.0\): about 5\d are reachable"),
    ("exp", {"domain": (0, 100)}, "none are reachable"),
    pytest.param("relu", {"bits": 40}, r"about \d\d are reachable", marks=pytest.mark.slow),
    ("reciprocal", {}, r"the domain \(-1.0, 1.0\) contains the pole at 0; need 0 < a < b, or a < b < 0"),
    ("reciprocal", {"domain": (0, 1)}, "contains the pole"),
    ("log", {"domain": (0, 1)}, r"the domain \(0.0, 1.0\) reaches to 0; need 0 < a < b"),
    ("rsqrt", {"domain": (-1, 1)}, "reaches below 0; need 0 < a < b"),
    ("sqrt", {"domain": (-1, 1)}, "reaches below 0; need 0 <= a < b"),
    ("sign", {"gap": 2.0**-30}, r"gap = 9.31323e-10; on the domain \(-1.0, 1.0\) it is from 5.96e-08 to below 1"),
    ("sign", {"gap": 1.5}, "it is from 5.96e-08 to below 1"),
    ("sign", {"gap": 0.5, "bits": 50}, "bits = 50; 40 bits are reachable"),
    ("softmax", {"size": 3}, "size = 3, stride = 1 and 256 slots; the size must be a power of two"),
    ("softmax", {"size": 16, "stride": 32}, "must divide the slots"),
    ("softmax", {"size": 1}, "the size must be a power of two"),
]


@pytest.mark.parametrize("name, options, says", REFUSED)
def test_refuses(name, options, says, unchecked):
    x = fhe.simulate(np.zeros(DEEP.slots), DEEP)
    with pytest.raises(ValueError, match=f"{name}: .*{says}"):
        getattr(functions, name)(x, **{"domain": (-1, 1), "bits": 6} | options)


def test_refuses_what_is_no_ciphertext(unchecked, deep):
    x, keys = deep
    for operand, key, error, says in [
        (np.zeros(4), keys, TypeError, "got ndarray for the ciphertext"),
        (x, 3, TypeError, "got int for the evaluation keys"),
        (x * x, keys, ValueError, r"three components; type fhejax.relinearize\(x, keys\) first"),
        (x, None, fhe.MissingKeyError, "needs the relinearisation key"),
    ]:
        with pytest.raises(error, match=says):
            functions.tanh(operand, key, domain=(-1, 1), bits=6)
