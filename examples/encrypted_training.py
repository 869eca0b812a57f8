"""Logistic regression, trained on encrypted patients: who computes sees neither data nor gradients nor weights.

The loss is written once, in the clear, with a curve for what one patient costs: log(1 + exp(-m)) of the margin m, or
a polynomial in its place. `jax.grad` differentiates the polynomial, and what is evaluated on ciphertexts are the
coefficients of that derivative; the rest of the gradient is two sums of products. So the encrypted weights are, up to
noise, those that `jax.grad` of the whole loss gives in the clear, which the table at the end compares. Run it with

    pip install fhejax[examples]
    python examples/encrypted_training.py

Source: a matrix in one ciphertext, and Nesterov's method on it: Kim, Song, Kim, Lee & Cheon, "Logistic Regression Model
Training Based on the Approximate Homomorphic Encryption", 2018.
"""

import argparse
import sys
import time

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import fhejax as fhe

# A patient is a row of 2 * WIDTH slots: 30 features, a one for the constant, and zeros behind them. There are as many
# ciphertexts as it takes.
WIDTH = 32
# Margins stay within -REACH and REACH, and are computed divided by it. The weights are computed GAIN times as large, so
# that the gradient's factors are not too small beside the noise. Both are taken from the data before it is encrypted.
REACH, GAIN = 24.0, 4.0
RATE = 0.5


def main(steps: int, picture: str) -> int:
    train_x, test_x, train_y, test_y = train_test_split(
        *load_breast_cancer(return_X_y=True), test_size=0.2, random_state=0
    )
    train_x, test_x = scaled(train_x, train_x), scaled(test_x, train_x)
    signed, signed_test = by_sign(train_x, train_y), by_sign(test_x, test_y)

    # In the clear: the curve of the loss, its polynomial, and the training with either.
    polynomial = fhe.polynomial.fit(curve, (-REACH, REACH), 4, "chebyshev")
    momenta = nesterov(steps)
    exact = train_in_clear(signed, curve, momenta)
    expected = train_in_clear(signed, polynomial, momenta)
    finished = LogisticRegression(max_iter=1000).fit(train_x[:, :-1], train_y)

    # The depth follows from the steps, and the ring from the depth. The dry run needs neither keys nor data.
    params = fhe.Parameters.for_depth(depth(steps), scale_bits=30)
    slope, packed = slope_of(polynomial, len(signed)), pack(signed, params.slots)
    shapes = jax.eval_shape(lambda values: [fhe.simulate(each, params) for each in values], packed)
    plan = fhe.plan_keys(lambda data, keys: train(data, slope, momenta, keys), shapes)

    # The client makes just the keys that the training needs, and encrypts. The secret key stays with it.
    seeds = fhe.split_seed(fhe.new_seed(), 2 + len(packed))
    secret = fhe.secret_key(seeds[0], params)
    keys = plan.generate(seeds[1], secret, progress=True)
    data = [fhe.encrypt(seed, secret, each) for seed, each in zip(seeds[2:], packed, strict=True)]

    # The server trains.
    begin = time.perf_counter()
    history = train(data, slope, momenta, keys, progress=True)
    seconds = time.perf_counter() - begin

    # The client decrypts the weights after each step.
    columns = signed.shape[1]
    rows = [unpack(fhe.decrypt(secret, weights, dtype=np.float64), columns) for weights in history]
    got = [each[0] for each in rows]

    # The same training on simulated values says how large the errors should be.
    simulated = train([fhe.simulate(each, params, secret_key=True) for each in packed], slope, momenta, None)
    predicted = [each.error_bits + np.log2(GAIN) for each in simulated]
    bits = [fhe.precision(np.broadcast_to(w, each.shape), each) for w, each in zip(expected, rows, strict=True)]

    trained = {"exact": exact, "polynomial": expected, "encrypted": got}
    losses = {name: [mean_loss(weights, signed) for weights in history] for name, history in trained.items()}
    accuracies = {name: [accuracy(weights, signed_test) for weights in history] for name, history in trained.items()}
    print_row("", "", "loss,", "by the", "", "accuracy,", "", "bits of", "")
    print_row("step", "level", "clear", "polynomial", "encrypted", "clear", "encrypted", "weights", "predicted")
    for i, weights in enumerate(history):
        numbers = [*(losses[name][i] for name in trained), accuracies["exact"][i], accuracies["encrypted"][i]]
        print_row(i + 1, weights.level, *(f"{x:.4f}" for x in numbers), f"{bits[i]:.1f}", f"{predicted[i]:.1f}")
    print()
    print_table(
        {
            "parameters": params,
            "patients": f"{len(signed)} to train, {len(signed_test)} to test, {signed.shape[1] - 1} features",
            "curve": f"log(1 + exp(-m)), as a polynomial of degree {polynomial.degree} on {polynomial.domain}",
            "accuracy when trained to the end": f"{finished.score(test_x[:, :-1], test_y):.4f}, by scikit-learn",
            "largest margin": f"{max(abs(signed @ w).max() for w in expected):.1f}",
            "time of a step": f"{seconds / steps:.2f} s",
            "keys": f"{len(plan.rotations)} rotations, {plan.bytes() / 2**20:.1f} MiB",
            "encrypted patients": f"{len(data)} ciphertexts, {sum(x.data.nbytes for x in data) / 2**20:.1f} MiB",
        }
    )
    draw(picture, losses, bits, predicted)
    right = abs(accuracies["encrypted"][-1] - accuracies["polynomial"][-1]) <= 0.01
    return 0 if right and all(each > foreseen - 1.5 for each, foreseen in zip(bits, predicted, strict=True)) else 1


# --- the loss, and training in the clear -----------------------------------------------------------------------------


def curve(margin):
    """What a patient costs whose margin, the weighted sum of features times 1 or -1 by diagnosis, is this."""
    return jax.nn.softplus(-margin)


def loss(weights, signed, curve):
    """The mean cost of patients, `[patients, columns]`."""
    return jnp.mean(curve(signed @ weights))


def train_in_clear(signed, curve, momenta):
    """The weights after each step of Nesterov's method, in double precision, by `jax.grad` of the loss."""
    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(lambda weights: loss(weights, jnp.asarray(signed), curve)))
        weights = probe = jnp.zeros(signed.shape[1])
        history = []
        for momentum in momenta:
            before, weights = weights, probe - RATE * gradient(probe)
            probe = weights + momentum * (weights - before)
            history.append(np.asarray(weights))
    return history


def nesterov(steps):
    """How much of each step's move is added to it to find where the next gradient is taken; nothing after the last."""
    return [t / (t + 3) for t in range(steps - 1)] + [0.0]


# --- training under encryption ---------------------------------------------------------------------------------------


def depth(steps):
    """The levels that `train` takes."""
    return 1 + 3 * (steps - 1)


def slope_of(polynomial, patients):
    """`jax.grad` of the polynomial, with all that the gradient is multiplied by: a_0, a_1 and a_3 for (-1, 1).

    Interpolation finds a polynomial of degree 3 itself. There is no a_2: the curve is an even function and a line. The
    factors are the rate, 1 / patients, GAIN of the weights, and what the encrypted data has been divided by.
    """
    slope = fhe.polynomial.fit(jax.jit(jax.vmap(jax.grad(polynomial))), polynomial.domain, 3, "chebyshev")
    a0, a1, _, a3 = fhe.Polynomial(slope.coefficients).to_power() * RATE / patients * GAIN * (GAIN * REACH)
    return a0, a1, a3


def train(data, slope, momenta, keys, progress=False):
    """The weights after each step, a copy in every row.

    Nesterov's method, as in `train_in_clear`. The move of a step is computed `1 + momentum` times as large, as the
    next probe needs it: a factor to the move would take a level, to the data and to earlier weights it does not.

    Args:
      data: a list of ciphertexts, or of simulated values.
      slope: from `slope_of`.
      momenta: from `nesterov`.
      keys: evaluation keys; None for simulated values.
      progress: whether to show a progress meter.
    """
    total = add_rotations(sum(data[1:], start=data[0]), across_rows(data[0].slots), keys)
    history, weights, probe = [], None, None
    for momentum in tqdm(momenta, desc="encrypted training", unit="step", disable=not progress):
        ahead = 1 + momentum
        move = descent(data, total, [ahead * a for a in slope], probe, keys)
        if probe is None:
            weights = probe = move
        elif momentum == 0:
            weights = probe = probe + move
        else:
            weights, probe = probe + 1 / ahead * move, ahead * probe - momentum * weights + move
        history.append(jax.block_until_ready(weights) if progress else weights)
    return history


def descent(data, total, slope, probe, keys):
    """Minus the gradient at the probe, three levels below it.

    With the margins m of patients x, it is the sum of -(a_0 + a_1 m + a_3 m^3) x. At zero, where the training starts
    (a probe of None), all margins are zero: what is left is a number times the sum of patients, and takes one level.
    """
    a0, a1, a3 = slope
    constant = -a0 * total
    if probe is None:
        return constant
    pairs = []
    for x in data:
        margins = sum_of_products([(x, probe)], within_row(), keys)
        pairs.append((fhe.square(margins, keys) + a1 / a3, fhe.multiply(margins, -a3 * x, keys)))
    return sum_of_products(pairs, across_rows(total.slots), keys) + constant


def sum_of_products(pairs, steps, keys):
    """The sum of products, and of all that it becomes by rotations; relinearised once, and rescaled last.

    So the rounding of the rescale is not added up.
    """
    total = fhe.relinearize(sum((x * y for x, y in pairs[1:]), start=pairs[0][0] * pairs[0][1]), keys)
    return fhe.rescale(add_rotations(total, steps, keys))


def add_rotations(x, steps, keys):
    """The sum of x, and of all that it becomes by rotations by some of the steps."""
    for step in steps:
        x = x + fhe.rotate(x, step, keys)
    return x


def within_row():
    """Steps that add up a row, in each of its slots that has a feature: together they reach from -WIDTH to WIDTH - 1.

    What a slot does not find in its own row are the zeros of the one before. In the slots behind the features rows
    mix; that has no meaning, and ends where it is multiplied with the data, which is zero there.
    """
    return [*powers_of_two(1, WIDTH), -WIDTH]


def across_rows(slots):
    """Steps that add up all rows, in every row."""
    return powers_of_two(2 * WIDTH, slots)


def powers_of_two(first, end):
    """first, 2 first, 4 first, ... below the end."""
    return [first << i for i in range((end // first).bit_length() - 1)]


# --- patients, slots and weights -------------------------------------------------------------------------------------


def scaled(x, reference):
    """Logarithms of the features, in deviations of the reference, within -3 and 3; and a one for the constant."""
    x, reference = np.log1p(x), np.log1p(reference)
    x = np.clip((x - reference.mean(0)) / reference.std(0), -3, 3)
    return np.pad(x, ((0, 0), (0, 1)), constant_values=1.0)


def by_sign(x, labels):
    """Rows times 1 or -1 by their label: then the right answer is always a positive margin."""
    return x * np.where(labels, 1.0, -1.0)[:, None]


def pack(signed, slots):
    """Patients to slots, `[ciphertexts, slots]`, filled up with zeros, which add nothing to a gradient."""
    rows = slots // (2 * WIDTH)
    patients, columns = signed.shape
    return np.pad(signed / (GAIN * REACH), ((0, -patients % rows), (0, 2 * WIDTH - columns))).reshape(-1, slots)


def unpack(slots, columns):
    """The weights in every row, `[rows, columns]`."""
    return np.asarray(slots).reshape(-1, 2 * WIDTH)[:, :columns] / GAIN


def mean_loss(weights, signed):
    return np.mean(np.logaddexp(0, -signed @ weights))


def accuracy(weights, signed):
    return np.mean(signed @ weights > 0)


# --- what is shown ---------------------------------------------------------------------------------------------------


def print_row(*cells):
    print(*(f"{cell:>{width}}" for cell, width in zip(cells, (4, 5, 8, 10, 9, 10, 9, 8, 9), strict=True)))


def print_table(rows):
    width = max(map(len, rows))
    print("\n".join(f"{name:<{width}}  {value}" for name, value in rows.items()))


def draw(path, losses, bits, predicted):
    """Left, the losses; right, how many bits of the weights are right, and how many were predicted."""
    figure = matplotlib.figure.Figure(figsize=(10, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    steps = np.arange(1, len(bits) + 1)
    left.plot(steps, losses["exact"], color="black", linewidth=4, alpha=0.3, label="in the clear, the curve itself")
    left.plot(
        steps, losses["polynomial"], color="tab:blue", linewidth=4, alpha=0.3, label="in the clear, its polynomial"
    )
    left.plot(steps, losses["encrypted"], "o-", color="tab:blue", label="encrypted")
    left.set(title="mean loss over the training patients", xlabel="step", xticks=steps)
    left.legend()
    right.plot(steps, predicted, color="black", linewidth=4, alpha=0.3, label="predicted by the simulated training")
    right.plot(steps, bits, "o-", color="tab:blue", label="measured")
    right.set(title="bits of the encrypted weights", xlabel="step", xticks=steps, ylim=(0, None))
    right.legend()
    figure.savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Trains a logistic regression on encrypted patients.")
    parser.add_argument("--steps", type=int, default=8, help="of gradient descent; they decide on the ring")
    parser.add_argument("--picture", default="encrypted_training.png", help="where the picture goes")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps {arguments.steps}: need at least 1")
    sys.exit(main(arguments.steps, arguments.picture))
