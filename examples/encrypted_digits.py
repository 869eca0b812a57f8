"""Handwritten digits, recognised by a neural network that never sees them.

Three steps: train a small network in the clear, replace its activation by a polynomial (ciphertexts know only sums
and products), and run it on encrypted images. Two parties take part: the client has the images and the secret key,
the server the network and the evaluation keys. Run it with

    pip install fhejax[examples]
    python examples/encrypted_digits.py
"""

import argparse
import sys
import time

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import optax
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import fhejax as fhe

# An image has 8 x 8 pixels; the hidden layer has as many units, so each layer is a square matrix (the last one padded).
WIDTH, CLASSES = 64, 10
# A product with a WIDTH x WIDTH matrix takes WIDTH rotations, or 8 + 8 in two nested steps.
BABY_STEPS = GIANT_STEPS = 8
# Ciphertexts that the server takes at a time, by `jax.vmap`.
BATCH = 2
TRAINING_STEPS = 300


def main(images: int, picture: str) -> int:
    pixels, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(pixels / 16, labels, test_size=0.2, random_state=0)
    test_x, test_y = test_x[:images], test_y[:images]

    # In the clear: the network, a quadratic for GELU where its values really fall, and what both say about the images.
    network = train(train_x, train_y)
    activations = entering(network, train_x)
    polynomial = fhe.polynomial.fit(
        jax.nn.gelu, guard_interval(activations), 2, "gradient", samples=activations, progress=True
    )
    clear = forward(network, test_x, lambda t: np.asarray(jax.nn.gelu(t)))
    powers = polynomial.to_power()  # lowest first
    expected = forward(network, test_x, lambda t: np.polynomial.polynomial.polyval(t, powers))

    # The circuit takes three levels: a matrix, a square, a matrix. All else follows: the primes, the ring, the slots.
    params = fhe.Parameters.for_depth(3, scale_bits=35)
    stride = params.slots // WIDTH  # images in a ciphertext, and the distance between two pixels of one image

    # The client makes keys. The secret key stays with it; the evaluation keys, which decrypt nothing, go to the server.
    seeds = fhe.split_seed(fhe.new_seed(), 4)
    secret = fhe.secret_key(seeds[0], params)
    public = fhe.public_key(seeds[1], secret)
    keys = fhe.evaluation_keys(seeds[2], secret, rotations=[stride * step for step in range(1, BABY_STEPS + 1)])

    # The client encrypts. One seed serves a whole array of messages: each gets randomness of its own.
    encrypted = fhe.encrypt(seeds[3], public, pack(test_x, stride))
    batches = [jax.tree.map(lambda x, i=i: x[i : i + BATCH], encrypted) for i in range(0, encrypted.shape[0], BATCH)]

    # The server compiles the model once, since all batches have one shape and one level, and runs it. Weights and keys
    # are arguments: what a jitted function closes over becomes a constant of the program.
    weights = encode_network(with_square(network, powers), params, stride)
    run = jax.jit(jax.vmap(model, in_axes=(0, None, None))).lower(batches[0], weights, keys).compile()
    begin = time.perf_counter()
    progress = tqdm(batches, desc="encrypted inference", unit="batch")
    results = [jax.block_until_ready(run(batch, weights, keys)) for batch in progress]
    seconds = time.perf_counter() - begin

    # The client decrypts. These numbers carry a trace of noise that tells about the secret key (IND-CPA-D): they are
    # for the client's eyes, not for whoever chose the images or computed the results.
    slots = np.concatenate([fhe.decrypt(secret, result, dtype=np.float64) for result in results])
    scores = unpack(slots, stride)[: len(test_x)]

    equal = scores.argmax(-1) == expected.argmax(-1)
    accuracy = [f"{np.mean(each.argmax(-1) == test_y):.4f}" for each in (clear, expected, scores)]
    print_table(
        {
            "parameters": params,
            "security": f"{params.security_bits} bits",
            "images": f"{len(test_x)}; {stride} in a ciphertext, {BATCH} ciphertexts in a batch",
            "activation": "GELU; as a polynomial {:.4f} + {:.4f} t + {:.4f} t^2".format(*powers),
            "accuracy in the clear": accuracy[0],
            "accuracy with the polynomial": accuracy[1],
            "accuracy encrypted": f"{accuracy[2]}; {equal.sum()} of {len(equal)} labels equal the polynomial's",
            "worst score error": f"{fhe.precision(expected, scores):.1f} bits; scores reach {abs(expected).max():.1f}",
            "time per image": f"{1e3 * seconds / len(test_x):.2f} ms, of the model",
            "keys": f"evaluation {size(keys)}, public {size(public)}",
            "ciphertexts": f"images {size(encrypted)}, scores {size(results)}",
        }
    )
    draw(picture, test_y, scores, expected)
    return 0 if equal.all() else 1


def train(x, y):
    """A network of one hidden layer with GELU, by Adam on the cross-entropy."""
    first, second = jax.random.split(jax.random.key(0))
    network = {
        "hidden": jax.random.normal(first, (WIDTH, WIDTH)) / WIDTH**0.5,
        "hidden_bias": jnp.zeros(WIDTH),
        "output": jax.random.normal(second, (CLASSES, WIDTH)) / WIDTH**0.5,
        "output_bias": jnp.zeros(CLASSES),
    }
    optimizer = optax.adam(optax.cosine_decay_schedule(0.01, TRAINING_STEPS))

    def loss(network):
        scores = forward(network, jnp.asarray(x), jax.nn.gelu)
        return optax.softmax_cross_entropy_with_integer_labels(scores, jnp.asarray(y)).mean()

    @jax.jit
    def step(network, state):
        updates, state = optimizer.update(jax.grad(loss)(network), state)
        return optax.apply_updates(network, updates), state

    state = optimizer.init(network)
    for _ in tqdm(range(TRAINING_STEPS), desc="training", unit="step"):
        network, state = step(network, state)
    return jax.tree.map(lambda x: np.asarray(x, np.float64), network)


def entering(network, x):
    """What the activation is applied to, `[images, WIDTH]`."""
    return x @ network["hidden"].T + network["hidden_bias"]


def guard_interval(values):
    """An interval that holds the values, with a quarter of room for images that are yet to come."""
    end = 1.25 * float(np.max(np.abs(values)))
    return -end, end


def forward(network, x, activation):
    """The scores, in the clear."""
    return activation(entering(network, x)) @ network["output"].T + network["output_bias"]


def pack(x, stride):
    """Images to slots: pixel p of image i goes to slot `p * stride + i`.

    With pixels outside and images inside, a rotation by `k * stride` moves all the images of a ciphertext by k pixels
    at once, and the last pixel wraps round to the first one.
    """
    missing = -len(x) % (stride * BATCH)
    x = np.pad(x, ((0, missing), (0, 0)))
    return x.reshape(-1, stride, WIDTH).swapaxes(1, 2).reshape(-1, WIDTH * stride)


def unpack(slots, stride):
    """Slots to scores, `[images, CLASSES]`: the inverse of `pack`, without the padding of the last layer."""
    return slots.reshape(-1, WIDTH, stride).swapaxes(1, 2).reshape(-1, WIDTH)[:, :CLASSES]


def with_square(network, powers):
    """The network with the polynomial c0 + c1 t + c2 t^2 for its activation, as one whose activation is the square.

    Completing the square, it is c2 (t + h)^2 + k. The layer before takes h into its bias, the layer after takes c2 and
    k, and the activation that is left takes one level, where `fhejax.evaluate` takes two for any quadratic.
    """
    c0, c1, c2 = powers
    h, k = c1 / (2 * c2), c0 - c1**2 / (4 * c2)
    return network | {
        "hidden_bias": network["hidden_bias"] + h,
        "output": c2 * network["output"],
        "output_bias": network["output_bias"] + k * network["output"].sum(1),
    }


def encode_network(network, params, stride):
    """The weights as plaintexts, each at the level where the circuit meets it: the first at the top, the last at 0."""
    vector = lambda values, level: fhe.encode(np.repeat(values, stride), params, level=level)
    matrix = lambda values, level: [[vector(d, level) for d in row] for row in diagonals(values)]
    missing = (0, WIDTH - CLASSES)
    return {
        "hidden": matrix(network["hidden"], params.max_level),
        "hidden_bias": vector(network["hidden_bias"], params.max_level - 1),
        "output": matrix(np.pad(network["output"], (missing, (0, 0))), 1),
        "output_bias": vector(np.pad(network["output_bias"], missing), 0),
    }


def diagonals(matrix):
    """What `matrix_product` multiplies with: diagonal k = 8 j + i at [j][i], turned back by 8 j.

    With d_k the k-th generalised diagonal, M x = sum over k of d_k * rotate(x, k).
    """
    index = np.arange(WIDTH)
    turned = lambda i, turn: np.roll(matrix[index, (index + turn + i) % WIDTH], turn)
    return [[turned(i, j * BABY_STEPS) for i in range(BABY_STEPS)] for j in range(GIANT_STEPS)]


def matrix_product(x, rows, keys):
    """M x, one level down: the sum over j of rotate(sum over i of diagonal[j][i] * rotate(x, i), 8 j).

    The inner rotations are of one ciphertext, so `rotate_many` shares their costly part. The outer ones go by Horner's
    rule, 8 more each time, so that a single key serves them all.
    """
    stride = x.slots // WIDTH
    rotated = fhe.rotate_many(x, [i * stride for i in range(BABY_STEPS)], keys)
    total = fhe.dot_plain(rotated, rows[-1])
    for row in reversed(rows[:-1]):
        total = fhe.rotate(total, BABY_STEPS * stride, keys) + fhe.dot_plain(rotated, row)
    return total


def model(images, weights, keys, activation=fhe.square):
    """The network on one ciphertext: `stride` images at the top level become their scores at level 0."""
    hidden = matrix_product(images, weights["hidden"], keys) + weights["hidden_bias"]
    return matrix_product(activation(hidden, keys), weights["output"], keys) + weights["output_bias"]


def size(tree):
    return f"{sum(leaf.nbytes for leaf in jax.tree.leaves(tree)) / 2**20:.1f} MiB"


def print_table(rows):
    width = max(map(len, rows))
    print("\n".join(f"{name:<{width}}  {value}" for name, value in rows.items()))


def draw(path, labels, scores, expected):
    """Left, which digit was taken for which; right, how far the decrypted scores are from those in the clear."""
    figure = matplotlib.figure.Figure(figsize=(10, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    confusion = np.zeros((CLASSES, CLASSES), int)
    np.add.at(confusion, (labels, scores.argmax(-1)), 1)
    left.imshow(confusion, cmap="Blues")
    for (row, column), count in np.ndenumerate(confusion):
        if count:
            left.text(column, row, count, ha="center", va="center", color="white" if count > 15 else "black")
    left.set(title="encrypted inference", xlabel="recognised as", ylabel="digit", xticks=range(10), yticks=range(10))
    right.hist(np.log2(np.abs(scores - expected).ravel() + 2.0**-60), bins=40)
    right.set(title="error of the decrypted scores", xlabel="log2 |decrypted - polynomial|", ylabel="scores")
    figure.savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Recognises encrypted handwritten digits.")
    parser.add_argument("--images", type=int, default=360, help="how many of the 360 test images")
    parser.add_argument("--picture", default="encrypted_digits.png", help="where the picture goes")
    arguments = parser.parse_args()
    if arguments.images < 1:
        parser.error(f"--images {arguments.images}: need at least 1")
    sys.exit(main(arguments.images, arguments.picture))
