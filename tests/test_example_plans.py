"""Each example's keys: it runs with exactly those that are planned, and needs every one of them, to its level."""

import jax
import numpy as np
import pytest
from example_modules import example_module
from making import made_once
from operations import seed

import fhejax as fhe
from fhejax import _compat
from fhejax.arrays.layouts.record import stack_ciphertexts, take_ciphertexts
from fhejax.scheme.keys import galois_element

RNG = np.random.default_rng(0)


def digits():
    """The network on a small ring: random weights, and images side by side."""
    example = example_module("encrypted_digits.py")
    params = fhe.Parameters.for_depth(3, scale_bits=35, log_degree=10, security=None)
    width, stride = example.WIDTH, params.slots // example.WIDTH
    network = {
        "hidden": RNG.normal(size=(width, width)) / width,
        "hidden_bias": RNG.normal(size=width) / 4,
        "output": RNG.normal(size=(example.CLASSES, width)) / width,
        "output_bias": RNG.normal(size=example.CLASSES) / 4,
    }
    weights = example.encode_network(network, params, stride)
    images = RNG.uniform(size=params.slots)
    return lambda images, keys: example.model(images, weights, keys), params, images


def client_server():
    """The scores, with a model of other weights than the server's."""
    program = example_module("client_server/program.py")
    model = program.make_model(RNG.uniform(-0.5, 0.5, program.FEATURES))
    records = RNG.uniform(-1, 1, program.FEATURES * program.PATIENTS)
    return lambda records, keys: program.score(model, records, keys), program.PARAMS, records


def training():
    """Three steps on a small ring, on as many patients as go into one ciphertext."""
    example = example_module("encrypted_training.py")
    params = fhe.Parameters.for_depth(example.depth(3), scale_bits=30, log_degree=10, security=None)
    patients = np.clip(RNG.normal(0.3, 1.0, (params.slots // (2 * example.WIDTH), 31)), -3, 3)
    slope = example.slope_of(fhe.Polynomial.from_power([0.7, -0.5, 0.1, 0, -1e-4], (-24, 24)), len(patients))
    run = lambda data, keys: example.train([data], slope, example.nesterov(3), keys)[-1]
    return run, params, example.pack(patients, params.slots)[0]


def cnn():
    """Fewer channels on a small ring, one image."""
    example = example_module("encrypted_cnn.py")
    params = fhe.Parameters.for_depth(5, scale_bits=35, log_degree=10, security=None)
    shapes = {"first": (2, 1, 3, 3), "second": (2, 2, 3, 3), "dense": (2, 2, 2, 2)}
    network = {name: RNG.normal(size=shape) / 4 for name, shape in shapes.items()}
    network |= {f"{name} bias": RNG.normal(size=2) / 4 for name in shapes}
    layout = fhe.Layout.images((1, 8, 8), params.slots)
    layers = example.prepare(network, layout, params)
    run = lambda x, keys: take_ciphertexts(
        example.run(fhe.EncryptedArray(stack_ciphertexts([x]), None, layout), layers, keys).ciphertext, 0
    )
    return run, params, np.tile(RNG.uniform(size=64), params.slots // 64)


EXAMPLES = {"digits": digits, "cnn": cnn, "client and server": client_server, "training": training}
each_example = pytest.mark.parametrize("name", EXAMPLES)


@made_once
def case(name):
    """The function, encrypted operands, their values, the secret key, the plan, and its keys."""
    function, params, values = EXAMPLES[name]()
    secret = fhe.secret_key(seed(1), params)
    x = fhe.encrypt(seed(2), secret, values)
    plan = fhe.plan_keys(function, x)
    return function, x, values, secret, plan, plan.generate(seed(3), secret)


def key_switches(function, x, keys):
    """Of all rotations in the program, as it is traced with these keys."""
    jaxpr = jax.make_jaxpr(function)(x, keys).jaxpr
    found = _compat.count_equations(jaxpr, "fhejax_hoisted_rotations")
    return sum(count * len(parameters["elements"]) for parameters, count in found)


def one_less(keys):
    """The keys without one of them, and with one of them a level lower; with the element of that one, or None."""

    def lower(key):
        return fhe.SwitchingKey(key.data[..., 1:, :], key.params, key.level - 1)

    for key in (None, lower(keys.relinearization)):
        yield None, fhe.EvaluationKeys(key, keys.galois, keys.params)
    for element, key in keys.galois.items():
        rest = {g: other for g, other in keys.galois.items() if g != element}
        yield element, fhe.EvaluationKeys(keys.relinearization, rest, keys.params)
        yield element, fhe.EvaluationKeys(keys.relinearization, rest | {element: lower(key)}, keys.params)


@pytest.mark.slow
@each_example
def test_it_runs_with_exactly_the_keys_of_its_plan(name):
    function, x, values, secret, plan, keys = case(name)
    assert {element: key.level for element, key in keys.galois.items()} == plan.galois
    assert keys.relinearization.level == plan.relinearization
    with jax.enable_x64(True):
        simulated = function(fhe.simulate(values, x.params, secret_key=True), None)
        predicted = float(simulated.error_bits)
    got = np.asarray(fhe.decrypt(secret, function(x, keys), dtype="float64"))
    assert abs(fhe.precision(np.asarray(simulated.values), got) - predicted) < 2


@pytest.mark.slow
@each_example
def test_every_key_of_the_plan_is_needed(name):
    """Without one, or with one for lower levels only, tracing fails; or, where `rotate` composes it of others, the
    program takes strictly more key switches."""
    function, x, _, _, plan, keys = case(name)
    with_all, composed, tried = key_switches(function, x, keys), set(), 0
    assert plan.extra_key_switches == 0
    for element, fewer in one_less(keys):
        tried += 1
        try:
            switches = key_switches(function, x, fewer)
        except fhe.MissingKeyError:
            continue
        assert switches > with_all
        composed.add(element)
    assert tried == 2 * (1 + len(plan.galois))
    steps = {step for step in plan.rotations if galois_element(x.params, step) in composed}
    assert len(steps) == len(composed)  # of rotations only: products are never without their key
    assert steps == COMPOSED[name](x)


# The steps of each example that others compose. The digits' are 1 to 8 times a stride, and each is a sum of others. The
# keys of `apply` are never composed. In training a step is twice another, but for the first within a row, and the first
# across rows: those reach a higher level than the ones within.
COMPOSED = {
    "digits": lambda x: {x.slots // 64 * step for step in range(1, 9)},
    "cnn": lambda x: set(),
    "client and server": lambda x: set(),
    "training": lambda x: {2, 4, 8, 16, x.slots - 32, 128, 256},
}


@pytest.mark.slow
def test_the_plans():
    """Which rotations the examples turn out to need."""
    rotations = {name: [*case(name)[4].rotations] for name in EXAMPLES}
    stride = case("digits")[1].slots // 64
    assert rotations["digits"] == [stride * k for k in range(1, 9)]
    slots = case("training")[1].slots
    assert rotations["training"] == [1, 2, 4, 8, 16, *(64 << i for i in range(3)), slots - 32]
    program = example_module("client_server/program.py")
    assert rotations["client and server"] == [*program.plan_keys().rotations]
    assert case("client and server")[4].galois == program.plan_keys().galois  # the client knows no weights
    assert all(step % program.PATIENTS == 0 for step in rotations["client and server"])
