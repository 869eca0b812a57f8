"""The server: has a model, and scores patients whom it never sees; it holds no secret key.

    python server.py sent

It refuses a directory with anything in it but what `program.py` names, and looks at the kind of each file before it
reads what is in it: a secret key that came along by mistake is not loaded.
"""

import argparse
import json
import pathlib
import sys
import time

import jax
import numpy as np
import program
from safetensors import safe_open
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import fhejax as fhe

EXPECTED = {program.KEYS: "EvaluationKeys", program.RECORDS: "Ciphertext", program.SCORES: "Ciphertext"}


def main(public: pathlib.Path) -> None:
    check(public)
    begin = time.perf_counter()
    keys, records = fhe.load(public / program.KEYS), fhe.load(public / program.RECORDS)
    loaded = time.perf_counter() - begin
    model = program.make_model(train())
    # Keys and weights are arguments: what a jitted function closes over becomes a constant of the program.
    run = jax.jit(program.score).lower(model, records, keys).compile()
    begin = time.perf_counter()
    scores = jax.block_until_ready(run(model, records, keys))
    seconds = time.perf_counter() - begin
    fhe.save(public / program.SCORES, scores)
    print(f"server: loaded keys and records in {loaded:.2f} s, and scored them in {1000 * seconds:.0f} ms")
    print(f"server: sent {program.described(public / program.SCORES)}")


def check(public):
    """Refuses files that are not expected, by their names and then by the kinds that their headers tell."""
    for path in sorted(public.iterdir()):
        if path.name not in EXPECTED:
            sys.exit(
                f"server: refused: {path.name} is not among what a client sends ({', '.join(EXPECTED)}). If it is a "
                "secret key, it has left the client: make new keys"
            )
        with safe_open(path, framework="numpy") as file:
            kind = json.loads((file.metadata() or {}).get("fhejax", "{}")).get("kind")
        if kind != EXPECTED[path.name]:
            sys.exit(f"server: refused: {path.name} holds a {kind}, and not {EXPECTED[path.name]}")


def train():
    """The weights of a logistic regression on the server's own patients."""
    (records, labels), _ = program.hospitals()
    scaler = StandardScaler().fit(records[:, :-1])
    model = LogisticRegression(C=0.03).fit(scaler.transform(records[:, :-1]), labels)
    weights = model.coef_[0] / scaler.scale_
    return np.append(weights, model.intercept_ - weights @ scaler.mean_)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Scores encrypted patients.")
    parser.add_argument("public", type=pathlib.Path, help="the directory that the client has sent")
    main(parser.parse_args().public)
