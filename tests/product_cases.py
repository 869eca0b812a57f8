"""Encrypted and simulated arrays that the tests of their products share, with anything in slots that no entry owns."""

import jax
import jax.numpy as jnp
import numpy as np
from operations import seed

import fhejax as fhe
from fhejax.arrays.layouts.layout import NAMED, Digit, Layout

PARAMS = fhe.Parameters.for_depth(4, log_degree=7, security=None)
SLOTS, TOP = PARAMS.slots, PARAMS.max_level
SECRET = fhe.secret_key(seed(1), PARAMS)


def numbers(*shape, index=0):
    return np.random.default_rng(index).uniform(-1, 1, shape)


def in_slots(values, layout, index=7):
    """`[ciphertexts, slots]` with the values in all their places, and other numbers elsewhere."""
    slots = numbers(layout.ciphertexts * layout.slots, index=index)
    for offset in layout.copy_offsets():
        slots[layout.positions() + offset] = values
    return slots.reshape(layout.ciphertexts, layout.slots)


def encrypted(values, layout, index=0, params=PARAMS, secret=SECRET):
    layout = NAMED[layout](np.shape(values), params.slots) if isinstance(layout, str) else layout
    return fhe.EncryptedArray(fhe.encrypt(seed(3, index), secret, in_slots(values, layout, index)), None, layout)


def simulated(values, layout, index=0, params=PARAMS):
    layout = NAMED[layout](np.shape(values), params.slots) if isinstance(layout, str) else layout
    return fhe.EncryptedArray(fhe.simulate(in_slots(values, layout, index), params, secret_key=True), None, layout)


def opened(x, secret=SECRET):
    """The values, the same in all copies."""
    dtype = "float64" if x.ciphertext.real else "complex128"
    slots = np.asarray(fhe.decrypt(secret, x.ciphertext, dtype=dtype)).ravel()
    found = [slots[x.layout.positions() + offset] for offset in x.layout.copy_offsets()]
    assert all(np.abs(each - found[0]).max() < 1e-5 for each in found)
    return found[0]


def with_its_keys(function, *arrays):
    """What a function makes of arrays that have exactly the keys that it needs; and their plan."""
    plan = fhe.plan_keys(lambda *args: function(*(x.with_keys(args[-1]) for x in args[:-1])).without_keys(), *arrays)
    keys = plan.generate(seed(4), SECRET)
    return jax.jit(function)(*(x.with_keys(keys) for x in arrays)), plan


def stacked(arrays):
    with jax.enable_x64(True):
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays)


def by_entries(shape, everywhere=False):
    """A batch of matrices in the slots, with a ciphertext for each entry; or one matrix, each entry in all slots."""
    *batch, n, m = shape
    batch = fhe.Layout.row(batch, SLOTS).axes
    copies = (Digit(SLOTS, 1),) if everywhere else ()
    return Layout(tuple(shape), (*batch, (Digit(n, m * SLOTS),), (Digit(m, SLOTS),)), SLOTS, copies=copies)


def by_diagonals(shape):
    """A matrix by its diagonals, each in a ciphertext of its own."""
    axes = tuple((Digit(size, stride),) if size > 1 else () for size, stride in zip(shape, (1, SLOTS), strict=True))
    return Layout(shape, axes, SLOTS, diagonal=True)
