"""Gradient descent to convergence on encrypted patients: as many steps as it takes, by bootstrapping.

A circuit of fixed depth ends after a few steps. Here the weights are refreshed inside the loop, so that its body can
run any number of times; `jax.lax.scan` compiles it once. Least squares contracts: whatever error a refresh adds, the
steps after it make smaller, so the distance to the clear run does not grow, as the picture shows. Run it with

    pip install fhejax[examples]
    python examples/encrypted_iteration.py            # a small ring, for a quick look: NOT secure
    python examples/encrypted_iteration.py --secure   # 128 bits; takes minutes and some GiB

Source: Polyak, "Some Methods of Speeding up the Convergence of Iteration Methods", 1964 (the momentum).
"""

import argparse
import functools
import sys
import time

import jax
import matplotlib.figure
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from tqdm import tqdm

import fhejax as fhe

# A patient is a row of WIDTH slots: ten features, a one for the constant, and zeros.
WIDTH = 16
# Ridge regression, and how it descends.
PENALTY, RATE, MOMENTUM = 0.1, 0.7, 0.5
# Levels of a step: two sums of products, a mask between them, and the rate.
STEP_LEVELS = 4
# Refreshes in one call of the compiled loop, after which the progress bar moves.
TOGETHER = 4


def main(steps: int, secure: bool, picture: str) -> int:
    features, target = load_diabetes(return_X_y=True, scaled=False)
    rows, target = with_constant(standardized(features)), standardized(target)
    boot = fhe.Bootstrapping("C" if secure else "T", slots_first=True)
    params, unroll = boot.params, boot.preset.depth // STEP_LEVELS  # steps from one refresh to the next
    calls = -(-steps // (unroll * TOGETHER))
    clear = descend_in_clear(rows, target, calls * TOGETHER * unroll)

    # The client makes keys and encrypts. The secret key stays with it.
    seeds = iter(fhe.split_seed(fhe.new_seed(), 6))
    secret = fhe.secret_key(next(seeds), params)
    begin = time.perf_counter()
    refreshing = boot.keys(next(seeds), secret, progress=True)
    keys = fhe.evaluation_keys(next(seeds), secret, rotations=rotations(params.slots), seeded=True)
    jax.block_until_ready((refreshing, keys))
    making = time.perf_counter() - begin
    data = fhe.encrypt(next(seeds), secret, pack(rows, params.slots))
    wanted = fhe.encrypt(next(seeds), secret, pack(np.repeat(target[:, None], WIDTH, axis=1), params.slots))
    zeros = fhe.encrypt(next(seeds), secret, np.zeros(params.slots))

    # The server descends. What goes round the loop is of one type: at the level to which ciphertexts are refreshed.
    state = fhe.refresh(zeros, refreshing), fhe.refresh(zeros, refreshing)
    run = jax.jit(functools.partial(descend, patients=len(rows), refreshes=TOGETHER, unroll=unroll))
    begin = time.perf_counter()
    run = run.lower(state, data, wanted, keys, refreshing).compile()
    compiling, history = time.perf_counter() - begin, []
    begin = time.perf_counter()
    for _ in tqdm(range(calls), desc="encrypted descent", unit=f"{TOGETHER * unroll} steps"):
        state, weights = jax.block_until_ready(run(state, data, wanted, keys, refreshing))
        history.append(weights)
    seconds = time.perf_counter() - begin

    # The client decrypts the weights after every refresh, which only an experiment does.
    slots = np.concatenate([fhe.decrypt(secret, weights, dtype=np.float64) for weights in history])
    got = slots[:, : rows.shape[1]]
    expected = clear[unroll - 1 :: unroll]
    errors = np.abs(got - expected).max(axis=1)
    solution = solve(rows, target)
    distances = np.abs(got - solution).max(axis=1)
    print_table(
        {
            "parameters": params,
            "security": f"{params.security_bits} bits" if secure else "NONE: a small ring; type --secure",
            "patients": f"{len(rows)}, in {data.shape[0]} ciphertext{'s' * (data.shape[0] > 1)}",
            "steps": f"{len(got) * unroll}, {unroll} from refresh to refresh; compiled once, in {compiling:.0f} s",
            "time per refresh": f"{seconds / len(got):.2f} s, steps included",
            "keys": f"{size(refreshing)} for refreshing and {size(keys)} for a step, made in {making:.0f} s",
            "distance to the solution": f"2^{np.log2(distances[-1]):.1f}; in the clear "
            f"2^{np.log2(np.abs(expected[-1] - solution).max()):.1f}",
            "explained variance": f"{explained(rows, target, got[-1]):.6f}; "
            f"of scikit-learn {explained(rows, target, solution):.6f}",
        }
    )
    print("\nafter step  error against the clear  distance to the solution")
    for i in np.unique(np.geomspace(1, len(got), 12).round().astype(int)) - 1:
        print(f"{unroll * (i + 1):10}  {f'2^{np.log2(errors[i]):.1f}':>23}  {f'2^{np.log2(distances[i]):.1f}':>24}")
    draw(picture, unroll, errors, distances, np.abs(clear - solution).max(axis=1))
    return 0 if errors[-1] < 2.0**-18 and errors[-1] < 4 * np.median(errors) else 1


def standardized(values):
    return (values - values.mean(axis=0)) / values.std(axis=0)


def with_constant(features):
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)


def solve(rows, target):
    """The weights that the descent approaches."""
    ridge = Ridge(alpha=PENALTY * len(rows), fit_intercept=False, tol=1e-12, solver="cholesky")
    return ridge.fit(rows, target).coef_


def explained(rows, target, weights):
    return 1 - np.mean((rows @ weights - target) ** 2) / np.mean(target**2)


def descend_in_clear(rows, target, steps):
    """The weights after each step, `[steps, features]`."""
    weights, change, history = np.zeros(rows.shape[1]), np.zeros(rows.shape[1]), []
    for _ in range(steps):
        gradient = rows.T @ (rows @ weights - target) / len(rows)
        change = MOMENTUM * change - RATE * gradient - RATE * PENALTY * weights
        weights = weights + change
        history.append(weights)
    return np.array(history)


def pack(rows, slots):
    """Rows to slots, `[ciphertexts, slots]`: entry j of row i in slot `i * WIDTH + j`."""
    together = slots // WIDTH
    rows = np.pad(rows, ((0, -len(rows) % together), (0, WIDTH - rows.shape[1])))
    return rows.reshape(-1, slots)


def rotations(slots):
    """The rotation steps that a descent takes."""
    inside = [1 << i for i in range(WIDTH.bit_length() - 1)]
    across = [WIDTH << i for i in range((slots // WIDTH).bit_length() - 1)]
    return [*inside, *(-step for step in inside), *across]


def descend(state, data, wanted, keys, refreshing, patients, refreshes, unroll):
    """Steps in a loop: the state after them, and the weights after each refresh."""

    def body(state, _):
        for _ in range(unroll):
            state = step(state, data, wanted, keys, patients)
        # Two real ciphertexts are refreshed as the parts of one complex ciphertext, for less.
        weights, change = fhe.bootstrap_many(state, refreshing)
        return (weights, change), fhe.drop_to_level(weights, 0)

    return jax.lax.scan(body, state, length=refreshes)


def step(state, data, wanted, keys, patients):
    """One step, four levels down. The weights stand in every row."""
    weights, change = state
    gradients = jax.vmap(gradient, in_axes=(None, 0, 0, None))(weights, data, wanted, keys)
    total = functools.reduce(fhe.add, (jax.tree.map(lambda x, i=i: x[i], gradients) for i in range(data.shape[0])))
    # Divided at the end: it is a sum of many roundings, and this makes them small.
    change = MOMENTUM * change - (RATE / patients * total + RATE * PENALTY * weights)
    return weights + change, change


def gradient(weights, data, wanted, keys):
    """The gradient of the squares of one ciphertext's rows, in every row."""
    products = fhe.multiply(weights, data, keys)
    for shift in (1, 2, 4, 8):
        products += fhe.rotate(products, shift, keys)
    # In the first slot of each row is now its sum. The others hold parts of the next row: they are cleared.
    predicted = products * (np.arange(data.slots) % WIDTH == 0).astype(float)
    for shift in (1, 2, 4, 8):
        predicted += fhe.rotate(predicted, -shift, keys)
    total = fhe.multiply(predicted - wanted, data, keys)
    shift = WIDTH
    while shift < data.slots:
        total += fhe.rotate(total, shift, keys)
        shift *= 2
    return total


def size(tree):
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(tree))
    return f"{size / 2**20:.0f} MiB"


def print_table(rows):
    width = max(map(len, rows))
    print("\n".join(f"{name:<{width}}  {value}" for name, value in rows.items()))


def draw(path, unroll, errors, distances, clear):
    """How near the weights are to the solution, encrypted and in the clear, and how far the two are apart."""
    figure = matplotlib.figure.Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    at = unroll * (1 + np.arange(len(errors)))
    axes.semilogy(1 + np.arange(len(clear)), clear, color="0.6", label="clear, to the solution")
    axes.semilogy(at, distances, ".", label="encrypted, to the solution")
    axes.semilogy(at, errors, ".", label="encrypted, to the clear")
    axes.set(title="encrypted gradient descent", xlabel="step", ylabel="largest difference of a weight")
    axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Encrypted gradient descent to convergence, by bootstrapping.")
    parser.add_argument("--steps", type=int, default=80, help="at least so many")
    parser.add_argument("--secure", action="store_true", help="the preset C, at 128 bits, instead of T")
    parser.add_argument("--picture", default="encrypted_iteration.png", help="where the picture goes")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps {arguments.steps}: need at least 1")
    sys.exit(main(arguments.steps, arguments.secure, arguments.picture))
