"""Three ways to fit a polynomial to an activation, compared where it counts: in the network that has it.

Trains the network of `encrypted_digits.py`, and fits GELU on an interval with room for what enters it: by
interpolation, by minimax approximation, and by gradient descent on the values that the training images really give,
with one polynomial for all hidden units or with one for each. Then it tells how large the errors are, on average over
those values and at worst in the interval, and runs the network on encrypted images with each polynomial of one degree.
Run it with

    pip install fhejax[examples]
    python examples/fit_activation.py
"""

import argparse
import sys
import time

import jax
import matplotlib.figure
import numpy as np
from encrypted_digits import (
    BABY_STEPS,
    BATCH,
    WIDTH,
    encode_network,
    entering,
    forward,
    guard_interval,
    model,
    pack,
    print_table,
    train,
    unpack,
)
from numpy.polynomial import chebyshev
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import fhejax as fhe

METHODS = {
    "chebyshev": {"method": "chebyshev"},
    "minimax": {"method": "minimax"},
    "gradient": {"method": "gradient"},
    "gradient, each unit": {"method": "gradient", "per_slot": True},
}


def main(degrees: list[int], encrypted_degree: int, images: int, picture: str) -> int:
    pixels, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(pixels / 16, labels, test_size=0.2, random_state=0)
    test_x, test_y = test_x[:images], test_y[:images]

    # In the clear: the network, the values that its activation meets, the polynomials, and what they make of images.
    network = train(train_x, train_y)
    activations = entering(network, train_x)
    domain = guard_interval(activations)
    choices = [(degree, name) for degree in sorted({*degrees, encrypted_degree}) for name in METHODS]
    polynomials = {
        (degree, name): fhe.polynomial.fit(jax.nn.gelu, domain, degree, samples=activations, **METHODS[name])
        for degree, name in tqdm(choices, desc="fitting", unit="polynomial")
    }
    expected = {choice: forward(network, test_x, values_of(polynomial)) for choice, polynomial in polynomials.items()}

    # Encrypted: those of one degree.
    chosen = {name: polynomials[encrypted_degree, name] for name in METHODS}
    scores, params, seconds = run_encrypted(network, chosen, test_x)
    equal = {name: scores[name].argmax(-1) == expected[encrypted_degree, name].argmax(-1) for name in METHODS}

    accuracy = lambda scores: f"{np.mean(scores.argmax(-1) == test_y):.4f}"
    print_row("", "", "", "mean", "sup", "accuracy", "accuracy", "labels as")
    print_row("degree", "fit", "depth", "bits", "bits", "in the clear", "encrypted", "in the clear")
    for (degree, name), polynomial in polynomials.items():
        report, depth = polynomial.report, on_unit_interval(polynomial).depth
        row = [degree, name, depth, f"{report.mean_bits:.2f}", f"{report.bits:.2f}", accuracy(expected[degree, name])]
        if degree == encrypted_degree:
            row += [accuracy(scores[name]), f"{equal[name].sum()} of {len(test_x)}"]
        print_row(*row)
    print()
    reach, low, high = domain[1], activations.min(), activations.max()
    print_table(
        {
            "accuracy with GELU": accuracy(forward(network, test_x, lambda t: np.asarray(jax.nn.gelu(t)))),
            "fitted on": f"({-reach:.2f}, {reach:.2f}); the training images give {low:.2f} to {high:.2f}",
            "encrypted with": params,
            "time per image": f"{1e3 * seconds / len(test_x):.2f} ms, of the model",
        }
    )
    draw(picture, activations, chosen)
    return 0 if all(map(np.all, equal.values())) and gradient_is_best(polynomials) else 1


def gradient_is_best(polynomials):
    """Whether gradient fits have the smallest mean errors of their degree, and those for each unit the very least."""
    errors = {choice: polynomial.report.mean_error for choice, polynomial in polynomials.items()}
    order = ("gradient, each unit", "gradient"), ("gradient", "minimax"), ("gradient", "chebyshev")
    return all(errors[degree, good] < errors[degree, bad] for degree, _ in polynomials for good, bad in order)


def run_encrypted(network, polynomials, x):
    """Decrypted scores with each of the polynomials; the parameters; and the seconds that a run takes."""
    network = with_inputs_on_unit_interval(network, next(iter(polynomials.values())).domain)
    depth = max(on_unit_interval(polynomial).depth for polynomial in polynomials.values())
    params = fhe.Parameters.for_depth(depth + 2, scale_bits=35)  # a level for each of the two matrices
    stride = params.slots // WIDTH  # images in a ciphertext
    seeds = fhe.split_seed(fhe.new_seed(), 4)
    secret = fhe.secret_key(seeds[0], params)
    public = fhe.public_key(seeds[1], secret)
    keys = fhe.evaluation_keys(seeds[2], secret, rotations=[stride * step for step in range(1, BABY_STEPS + 1)])
    encrypted = fhe.encrypt(seeds[3], public, pack(x, stride))
    batches = [
        jax.tree.map(lambda leaf, i=i: leaf[i : i + BATCH], encrypted) for i in range(0, *encrypted.shape, BATCH)
    ]
    weights = encode_network(network, params, stride)

    @jax.jit
    def run(images, weights, polynomial, keys):
        activation = lambda t, keys: fhe.evaluate(polynomial, t, keys)
        return jax.vmap(lambda x: model(x, weights, keys, activation))(images)

    # The polynomial is an argument, and has as many coefficients each time: the program is compiled once.
    arguments = {name: in_slots(polynomial, stride) for name, polynomial in polynomials.items()}
    run = run.lower(batches[0], weights, arguments["chebyshev"], keys).compile()
    scores, seconds = {}, []
    for name, polynomial in arguments.items():
        begin = time.perf_counter()
        progress = tqdm(batches, desc=f"encrypted, {name}", unit="batch")
        results = [jax.block_until_ready(run(batch, weights, polynomial, keys)) for batch in progress]
        seconds.append(time.perf_counter() - begin)
        slots = np.concatenate([fhe.decrypt(secret, result, dtype=np.float64) for result in results])
        scores[name] = unpack(slots, stride)[: len(x)]
    return scores, params, min(seconds)


def with_inputs_on_unit_interval(network, domain):
    """The network whose activation is given u in (-1, 1) for the t in the domain: no level is taken for this later."""
    low, high = domain
    factor, middle = 2 / (high - low), (low + high) / 2
    return network | {
        "hidden": factor * network["hidden"],
        "hidden_bias": factor * (network["hidden_bias"] - middle),
    }


def on_unit_interval(polynomial):
    """The polynomial of u: the same Chebyshev series."""
    return fhe.Polynomial(polynomial.coefficients)


def in_slots(polynomial, stride):
    """The polynomial of u with a column of coefficients for each slot; in `stride` slots lie the images of one unit."""
    columns = polynomial.coefficients.reshape(polynomial.degree + 1, -1)
    return fhe.Polynomial(np.repeat(np.broadcast_to(columns, (len(columns), WIDTH)), stride, axis=1))


def values_of(polynomial):
    """The polynomial, or that of each unit, as a function of NumPy's doubles `[..., WIDTH]`."""
    low, high = polynomial.domain
    return lambda t: chebyshev.chebval((2 * t - low - high) / (high - low), polynomial.coefficients, tensor=False)


def print_row(degree, fit, depth, *rest):
    widths = zip(rest, (6, 6, 13, 10, 13), strict=False)
    print(f"{degree:>6}  {fit:<19}  {depth:>5}", *(f"{each:>{width}}" for each, width in widths))


def draw(path, activations, polynomials):
    """Above, GELU and a polynomial of each method; below, their errors; behind both, where the activations lie."""
    figure = matplotlib.figure.Figure(figsize=(8, 7), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for axes in (above, below):
        behind = axes.twinx()
        behind.hist(activations.ravel(), bins=100, color="lightgray")
        behind.set(yticks=[])
        axes.set(zorder=behind.get_zorder() + 1, facecolor="none")
    x = np.linspace(*polynomials["minimax"].domain, 1001)
    gelu = np.asarray(jax.nn.gelu(x))
    above.plot(x, gelu, color="black", linewidth=4, alpha=0.3, label="GELU")
    for method in ("chebyshev", "minimax", "gradient"):
        values, report = values_of(polynomials[method])(x), polynomials[method].report
        above.plot(x, values, label=method)
        label = f"{method}: {report.mean_bits:.1f} bits on the data, {report.bits:.1f} at worst"
        below.semilogy(x, np.abs(values - gelu), label=label)
    above.set(title=f"degree {report.degree}; in gray, the activations of the training images", ylabel="value")
    below.set(xlabel="what the activation is given", ylabel="error", ylim=(1e-3, None))
    above.legend()
    below.legend()
    figure.savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compares polynomials for an activation.")
    parser.add_argument("--degrees", type=int, nargs="+", default=[3, 5, 7, 11, 15], help="of the polynomials compared")
    parser.add_argument("--encrypted-degree", type=int, default=3, help="of those that are run encrypted")
    parser.add_argument("--images", type=int, default=360, help="how many of the 360 test images")
    parser.add_argument("--picture", default="fit_activation.png", help="where the picture goes")
    arguments = parser.parse_args()
    if min(*arguments.degrees, arguments.encrypted_degree) < 1:
        parser.error("--degrees, --encrypted-degree: need at least 1")
    if arguments.images < 1:
        parser.error(f"--images {arguments.images}: need at least 1")
    sys.exit(main(arguments.degrees, arguments.encrypted_degree, arguments.images, arguments.picture))
