"""What `fhejax.count` foretells beside what programs take: the examples, and a bootstrapping.

    python benchmarks/count.py [--measure] [--preset C] [--quick]

`--measure` makes this machine's table first (`python -m fhejax.planning.machine`); else the one that fhejax comes with
is used, which is of another machine. Times are of processor time, all threads together, the median of some runs.
"""

import argparse
import functools
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

import fhejax as fhe
from fhejax.arrays.layouts.record import stack_ciphertexts
from fhejax.planning.machine import measure

sys.path += [str(pathlib.Path(__file__).parents[1] / folder) for folder in ("examples", "tests")]
RNG = np.random.default_rng(0)


def programs(quick: bool, preset: str) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]]:
    """Each program with the arguments that it runs on, and those that it is counted on."""
    secret = lambda params: fhe.secret_key(fhe.new_seed(), params)
    ring = {"log_degree": 10, "security": None} if quick else {}

    import encrypted_digits as digits

    params = fhe.Parameters.for_depth(3, scale_bits=35, **ring)
    stride, width = params.slots // digits.WIDTH, digits.WIDTH
    network = {
        "hidden": RNG.normal(size=(width, width)) / width,
        "hidden_bias": RNG.normal(size=width) / 4,
        "output": RNG.normal(size=(digits.CLASSES, width)) / width,
        "output_bias": RNG.normal(size=digits.CLASSES) / 4,
    }
    weights, owner = digits.encode_network(network, params, stride), secret(params)
    images = fhe.encrypt(fhe.new_seed(), owner, RNG.uniform(size=(digits.BATCH, params.slots)))
    run = jax.vmap(digits.model, in_axes=(0, None, None))
    yield "encrypted_digits.py, a batch", run, (images, weights, _keys(run, owner, images, weights)), (images, weights)

    import fit_activation as activation

    depth = activation.on_unit_interval(fhe.Polynomial(np.ones(8))).depth
    params = fhe.Parameters.for_depth(depth + 2, scale_bits=35, **ring)
    stride, owner = params.slots // digits.WIDTH, secret(params)
    weights = digits.encode_network(network, params, stride)
    polynomial = activation.in_slots(fhe.Polynomial(RNG.normal(size=8) / 8), stride)
    images = fhe.encrypt(fhe.new_seed(), owner, RNG.uniform(size=(digits.BATCH, params.slots)))

    def run(images, weights, polynomial, keys):
        evaluated = lambda t, keys: fhe.evaluate(polynomial, t, keys)
        return jax.vmap(lambda x: digits.model(x, weights, keys, evaluated))(images)

    given = images, weights, polynomial
    yield "fit_activation.py, degree 7, a batch", run, (*given, _keys(run, owner, *given)), given

    import encrypted_cnn as cnn

    params = fhe.Parameters.for_depth(5, scale_bits=35, **ring)
    shapes = {"first": (2, 1, 3, 3), "second": (2, 2, 3, 3), "dense": (2, 2, 2, 2)}
    network = {name: RNG.normal(size=shape) / 4 for name, shape in shapes.items()}
    network |= {f"{name} bias": RNG.normal(size=2) / 4 for name in shapes}
    layout, owner = fhe.Layout.images((1, 8, 8), params.slots), secret(params)
    layers = cnn.prepare(network, layout, params)
    image = fhe.encrypt(fhe.new_seed(), owner, np.tile(RNG.uniform(size=64), params.slots // 64))
    image = fhe.EncryptedArray(stack_ciphertexts([image]), None, layout)
    yield "encrypted_cnn.py, one image", cnn.run, (image, layers, _keys(cnn.run, owner, image, layers)), (image, layers)

    import encrypted_training as training

    params = fhe.Parameters.for_depth(training.depth(3), scale_bits=30, **ring)
    patients = np.clip(RNG.normal(0.3, 1.0, (params.slots // (2 * training.WIDTH), 31)), -3, 3)
    slope = training.slope_of(fhe.Polynomial.from_power([0.7, -0.5, 0.1, 0, -1e-4], (-24, 24)), len(patients))
    owner = secret(params)
    data = fhe.encrypt(fhe.new_seed(), owner, training.pack(patients, params.slots)[0])
    run = lambda data, keys: training.train([data], slope, training.nesterov(3), keys)[-1]
    yield "encrypted_training.py, three steps", run, (data, _keys(run, owner, data)), (data,)

    import encrypted_iteration as iteration

    boot = fhe.Bootstrapping("T", slots_first=True)
    params, owner = boot.params, secret(boot.params)
    unroll, refreshing = boot.preset.depth // iteration.STEP_LEVELS, boot.keys(fhe.new_seed(), owner)
    keys = fhe.evaluation_keys(fhe.new_seed(), owner, rotations=iteration.rotations(params.slots), seeded=True)
    rows = RNG.normal(size=(iteration.WIDTH * 4, iteration.WIDTH - 5)) / 4
    data = fhe.encrypt(fhe.new_seed(), owner, iteration.pack(rows, params.slots))
    state = (fhe.drop_to_level(fhe.encrypt(fhe.new_seed(), owner, np.zeros(params.slots)), boot.output_level),) * 2
    run = functools.partial(iteration.descend, patients=len(rows), refreshes=1, unroll=unroll)
    given = state, data, data
    yield "encrypted_iteration.py, one refresh", run, (*given, keys, refreshing), (*given, None, boot)

    boot = fhe.Bootstrapping(preset)
    owner = secret(boot.params)
    x = fhe.encrypt(fhe.new_seed(), owner, RNG.uniform(-1, 1, boot.params.slots))
    x = fhe.drop_to_level(x, boot.input_level)
    keys = boot.keys(fhe.new_seed(), owner)
    yield f"a bootstrapping, preset {preset}", fhe.bootstrap, (x, keys), (x, boot)


def _keys(run: Callable[..., Any], owner: Any, *given: Any) -> Any:
    return fhe.plan_keys(run, *given).generate(fhe.new_seed(), owner)


def _seconds(run: Callable[..., Any], arguments: tuple[Any, ...], runs: int) -> float:
    compiled = jax.jit(run).lower(*arguments).compile()
    jax.block_until_ready(compiled(*arguments))
    taken = []
    for _ in range(runs):
        start = time.process_time()
        jax.block_until_ready(compiled(*arguments))
        taken.append(time.process_time() - start)
    return statistics.median(taken)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measure", action="store_true", help="measure this machine's table first")
    parser.add_argument("--preset", default="T", help="of the bootstrapping (T)")
    parser.add_argument("--quick", action="store_true", help="small rings: that everything runs, and nothing else")
    options = parser.parse_args()
    table = measure() if options.measure else None
    print(f"{'program':<40}{'key switches':>14}{'foretold s':>12}{'taken s':>10}{'ratio':>8}")
    for name, run, arguments, counted in programs(options.quick, options.preset):
        count = fhe.count(run, *counted, machine=table)
        taken = _seconds(run, arguments, 1 if options.quick else 5)
        print(f"{name:<40}{count.key_switches:>14}{count.seconds:>12.3f}{taken:>10.3f}{count.seconds / taken:>8.2f}")
