"""Kernels share a thread pool, and Python threads a process: nothing waits for ever, nothing is mixed up."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest
from operations import OPERATIONS, entries, keys

# A handler that waits for work it has queued on the pool it runs on deadlocks with 64 calls, though not with 8.
STRESS = """
import faulthandler, sys
faulthandler.dump_traceback_later(200, exit=True)
import concurrent.futures
import jax, numpy as np
import fhejax as fhe

seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 4)
params = fhe.Parameters.for_depth(2, log_degree=10, security=None)
secret = fhe.secret_key(seeds[0], params)
keys = fhe.evaluation_keys(seeds[1], secret, rotations=(1, 2), seeded=SEEDED)
public = fhe.public_key(seeds[3], secret)
values = np.linspace(-1, 1, 64 * params.slots).reshape(64, -1)
xs = fhe.encrypt(seeds[2], secret, values)
apart = [jax.tree.map(lambda data: data[i], xs) for i in range(64)]
held = (keys, secret, public)

def one(held, x):
    keys, secret, public = held
    return jax.tree.leaves(OPERATION)

@jax.jit
def independent(held, xs):
    return [one(held, x) for x in xs]

expected = jax.tree.map(np.asarray, independent(held, apart))

def run(_):
    got = jax.tree.map(np.asarray, independent(held, apart))
    return jax.tree.all(jax.tree.map(np.array_equal, got, expected))

assert all(run(i) for i in range(10))
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert all(pool.map(run, range(32)))
if BATCHED:
    for whole, parts in zip(jax.jit(one)(held, xs), zip(*expected)):
        assert np.array_equal(whole, np.stack(parts))
print("finished")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "seeded", "batched"),
    [
        ("fhe.rotate(x, 1, keys)", False, True),
        ("fhe.rotate_many(x, (1, 2), keys)", False, True),
        ("fhe.square(x, keys)", False, True),
        ("fhe.relinearize(x * x, keys)", False, True),
        ("fhe.rescale(x * x)", False, True),
        ("fhe.rotate(fhe.square(x, keys), 1, keys)", True, True),
        ("fhe.encode(fhe.decrypt(secret, x), params)", False, True),
        # A batch has randomness of its own for each entry.
        ("fhe.encrypt(seeds[0], public, fhe.encode(fhe.decrypt(secret, x), params))", False, False),
    ],
)
def test_sixty_four_independent_calls_finish(operation, seeded, batched):
    code = STRESS.replace("OPERATION", operation).replace("SEEDED", str(seeded)).replace("BATCHED", str(batched))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert done.stdout == "finished\n", done.stderr


@pytest.mark.parametrize("flag", [False, True], ids=["x64-off", "x64-on"])
def test_python_threads_compute_as_one(flag):
    """Eager calls of all operations, in an order of its own in each thread; x64 is a setting of the thread."""
    names = list(OPERATIONS)
    operands = {name: entries(OPERATIONS[name]) for name in names}

    def work(order):
        with jax.enable_x64(flag):
            mixed = np.random.default_rng(order).permutation(names)
            return {name: OPERATIONS[name].run(keys(), *operands[name]) for name in mixed.tolist()}

    expected = work(0)
    with ThreadPoolExecutor(4) as pool:
        for results in pool.map(work, range(4)):
            for name in names:
                jax.tree.map(np.testing.assert_array_equal, results[name], expected[name])
