"""What client and server agree on: the parameters, where a patient's features lie, the function, and the files' names.

Nothing here is secret, and nothing is the model: the client plans its keys from the shapes of the weights alone.
"""

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import fhejax as fhe

FEATURES = 31  # of which the last is a one, for the model's constant
# What enters the sigmoid stays within these; with a linear layer before, it takes seven levels.
DOMAIN = (-16, 16)
PARAMS = fhe.Parameters.for_depth(7, scale_bits=35)
# Feature f of patient p lies in slot f * PATIENTS + p: so the patients of a ciphertext are scored together.
PATIENTS = PARAMS.slots // 32

KEYS, RECORDS, SCORES = "evaluation_keys.safetensors", "records.safetensors", "scores.safetensors"


def score(model, records, keys):
    """The probability that a tumour is benign, for every patient of a ciphertext."""
    return fhe.functions.sigmoid(fhe.apply(model, records, keys), keys, domain=DOMAIN, bits=8)


def make_model(weights):
    """A logistic regression as `score` takes it, from weights `[FEATURES]`.

    Without a constant to add, the slots that hold no patient are zero before the sigmoid, and so in its domain.
    """
    return fhe.LinearTransform.from_matrix(weights[None], PARAMS, stride=PATIENTS)


def plan_keys():
    """The keys that `score` needs, each to the level at which it is used; neither weights nor patients are needed."""
    model = jax.eval_shape(make_model, jnp.zeros(FEATURES))
    return fhe.plan_keys(score, model, jax.eval_shape(lambda: fhe.simulate(0.0, PARAMS)))


def features(x):
    """What the model is given: logarithms, which suit all the features, and a one."""
    return np.pad(np.log1p(x), ((0, 0), (0, 1)), constant_values=1.0)


def hospitals():
    """The patients of the server's hospital, and of the client's, each with diagnoses: here parts of one data set."""
    x, y = load_breast_cancer(return_X_y=True)
    own, others, own_labels, other_labels = train_test_split(features(x), y, test_size=0.2, random_state=0)
    return (own, own_labels), (others, other_labels)


def described(path):
    """A file's name and size."""
    return f"{path.name}, {path.stat().st_size / 2**20:.1f} MiB"
