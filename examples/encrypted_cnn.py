"""A small convolutional network on handwritten digits that it never sees.

Convolution, square, convolution with stride 2, square, average pooling, dense layer: trained in the clear, then run on
encrypted images, once for all test images, many in a ciphertext, and once for a single one, as fast as it can be had.
Every linear layer is one linear map between layouts, planned and encoded beforehand by the server; pooling and the
dense layer are one together. The keys are just those that the program takes. Run it with

    pip install fhejax[examples]
    python examples/encrypted_cnn.py
"""

import argparse
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from encrypted_digits import draw, print_table, size
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import fhejax as fhe

FIRST, SECOND, POOL, CLASSES = 8, 16, 2, 10  # channels of the convolutions, pooled pixels, digits
# A ciphertext leaves room for so many channels of its images. The fewer, the more images it takes, and the more
# ciphertexts the layers in between.
ROOM = 4
TRAINING_STEPS = 200


def main(images: int, picture: str) -> int:
    pixels, labels = load_digits(return_X_y=True)
    pixels = pixels.reshape(-1, 1, 8, 8) / 16
    train_x, test_x, train_y, test_y = train_test_split(pixels, labels, test_size=0.2, random_state=0)
    test_x, test_y = test_x[:images], test_y[:images]
    network = train(train_x, train_y)
    with jax.enable_x64(True):
        expected = np.asarray(forward(network, jnp.asarray(test_x)))

    # Three linear layers and two squares. The smallest ring for that at 128 bits follows.
    params = fhe.Parameters.for_depth(5, scale_bits=35)
    seeds = fhe.split_seed(fhe.new_seed(), 6)
    secret = fhe.secret_key(seeds[0], params)
    public = fhe.public_key(seeds[1], secret)

    # All images: the server prepares its layers for their layout, and says which keys it needs; the client makes them.
    layout = fhe.Layout.images(test_x.shape, params.slots, channels=ROOM)
    layers = prepare(network, layout, params)
    encrypted = fhe.EncryptedArray.encrypt(seeds[2], public, test_x, layout)
    keys = plan(encrypted, layers).generate(seeds[3], secret, progress=True)
    scores, seconds = timed(encrypted, layers, keys)
    scores = np.asarray(scores.decrypt(secret, dtype=np.float64))[:, :, 0, 0]

    # A single image, alone in its ciphertext: repeated all through it, so that the channels come round.
    single = prepare(network, fhe.Layout.images(test_x.shape[1:], params.slots), params)
    one = fhe.EncryptedArray.encrypt(seeds[4], public, test_x[0], "images")
    keys_of_one = plan(one, single).generate(seeds[5], secret)
    alone, latency = timed(one, single, keys_of_one)
    alone = np.asarray(alone.decrypt(secret, dtype=np.float64))[:, 0, 0]

    # The same program in the clear, with the errors that it would have: what decryption will show, known beforehand.
    foreseen = model(fhe.EncryptedArray.simulate(test_x, params, layout), layers)

    equal = scores.argmax(-1) == expected.argmax(-1)
    accuracy = [f"{np.mean(each.argmax(-1) == test_y):.4f}" for each in (expected, scores)]
    together = f"{layout.axes[0][-1].size} in each of {layout.ciphertexts} ciphertexts"
    print_layers({together: layers, "one image": single})
    print_table(
        {
            "parameters": params,
            "security": f"{params.security_bits} bits",
            "images": f"{len(test_x)}; {together}",
            "accuracy in the clear": accuracy[0],
            "accuracy encrypted": f"{accuracy[1]}; {equal.sum()} of {len(equal)} labels equal those in the clear",
            "worst score error": f"{fhe.precision(expected, scores):.1f} bits, foreseen "
            f"{float(foreseen.ciphertext.error_bits.min()):.1f}; scores reach {abs(expected).max():.1f}",
            "time per image": f"{1e3 * seconds / len(test_x):.1f} ms among {len(test_x)}, {latency:.2f} s alone",
            "keys": f"evaluation {size(keys)} for all, {size(keys_of_one)} for one; public {size(public)}",
            "layers": f"{size(layers)} for all, {size(single)} for one",
            "ciphertexts": f"images {size(encrypted)}",
        }
    )
    draw(picture, test_y, scores, expected)
    return 0 if equal.all() and alone.argmax() == expected[0].argmax() else 1


def train(x, y):
    """The network, by Adam on the cross-entropy."""
    shapes = {"first": (FIRST, 1, 3, 3), "second": (SECOND, FIRST, 3, 3), "dense": (CLASSES, SECOND, POOL, POOL)}
    network = {}
    for name, shape in shapes.items():
        key = jax.random.fold_in(jax.random.key(0), len(network))
        network[name] = jax.random.normal(key, shape) / np.prod(shape[1:]) ** 0.5
        network[f"{name} bias"] = jnp.zeros(shape[0])
    optimizer = optax.adam(optax.cosine_decay_schedule(0.01, TRAINING_STEPS))

    def loss(network):
        scores = forward(network, jnp.asarray(x))
        return optax.softmax_cross_entropy_with_integer_labels(scores, jnp.asarray(y)).mean()

    @jax.jit
    def step(network, state):
        updates, state = optimizer.update(jax.grad(loss)(network), state)
        return optax.apply_updates(network, updates), state

    state = optimizer.init(network)
    for _ in tqdm(range(TRAINING_STEPS), desc="training", unit="step"):
        network, state = step(network, state)
    return jax.tree.map(lambda x: np.asarray(x, np.float64), network)


def forward(network, x):
    """The scores `[images, CLASSES]` in the clear."""
    convolve = lambda x, kernel, stride: jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME")
    x = (convolve(x, network["first"], 1) + network["first bias"][:, None, None]) ** 2
    x = (convolve(x, network["second"], 2) + network["second bias"][:, None, None]) ** 2
    x = x.reshape(len(x), SECOND, POOL, 4 // POOL, POOL, 4 // POOL).mean((3, 5))
    return jnp.einsum("nchw,ochw->no", x, network["dense"]) + network["dense bias"]


def prepare(network, layout, params):
    """The layers as maps from layout to layout, each at the level where the program meets it, and their biases.

    Pooling gives each pixel of a window the same weight, so with the dense layer behind it, it is a dense layer. And
    that is a convolution with a kernel as large as the image.
    """
    dense = np.repeat(np.repeat(network["dense"], 4 // POOL, -2), 4 // POOL, -1) / (4 // POOL) ** 2
    first = fhe.conv2d_map(layout, network["first"], params, 5, padding="SAME")
    second = fhe.conv2d_map(first.target, network["second"], params, 3, stride=2, padding="SAME")
    last = fhe.conv2d_map(second.target, dense, params, 1)
    bias = [network[f"{name} bias"][:, None, None] for name in ("first", "second", "dense")]
    return list(zip((first, second, last), bias, strict=True))


def model(images, layers):
    """The network on encrypted or simulated images: scores `[*images, CLASSES, 1, 1]`, five levels down."""
    (first, first_bias), (second, second_bias), (last, last_bias) = layers
    hidden = (images @ first + first_bias) ** 2
    hidden = (hidden @ second + second_bias) ** 2
    return hidden @ last + last_bias


def run(images, layers, keys):
    return model(images.with_keys(keys), layers).without_keys()


def plan(images, layers):
    """Just the keys that the program takes, each at its level, known before there are any."""
    return fhe.plan_keys(run, images, layers, None)


def timed(images, layers, keys):
    """The scores, and the seconds that the compiled program takes."""
    compiled = jax.jit(run).lower(images, layers, keys).compile()
    begin = time.perf_counter()
    return jax.block_until_ready(compiled(images, layers, keys)), time.perf_counter() - begin


def print_layers(prepared):
    names = ("convolution", "convolution, stride 2", "pooling and dense")
    print(f"{'':<42}{'level':>8}{'ciphertexts':>14}{'diagonals':>11}{'key switches':>25}")
    for images, layers in prepared.items():
        print(images)
        for name, (linear, _) in zip(names, layers, strict=True):
            plan, level = linear.transform.plan, linear.transform.level
            cost = f"{plan.hoisted} hoisted + {plan.switched}"
            print(f"  {name:<40}{level:>8}{f'{plan.inputs} to {plan.outputs}':>14}{plan.terms:>11}{cost:>25}")
            if level > 1:
                print(f"  {'square':<40}{level - 1:>8}{plan.outputs:>14}{'':>11}{plan.outputs:>25}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Recognises encrypted digits by a convolutional network.")
    parser.add_argument("--images", type=int, default=360, help="how many of the 360 test images")
    parser.add_argument("--picture", default="encrypted_cnn.png", help="where the picture goes")
    arguments = parser.parse_args()
    if arguments.images < 1:
        parser.error(f"--images {arguments.images}: need at least 1")
    sys.exit(main(arguments.images, arguments.picture))
