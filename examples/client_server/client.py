"""The client: has patients and the secret key, and sends what decrypts nothing.

python client.py send mine sent       # makes keys and encrypts; the secret key stays in `mine`
python client.py receive mine sent    # decrypts the scores that the server has put into `sent`
"""

import argparse
import pathlib
import time

import jax
import numpy as np
import program

import fhejax as fhe

SECRET, RESULT = "secret_key.safetensors", "scores.npy"


def send(private: pathlib.Path, public: pathlib.Path) -> None:
    """Makes a secret key and the evaluation keys of the server's program, and encrypts the patients' records."""
    _, (records, _) = program.hospitals()
    seeds = fhe.split_seed(fhe.new_seed(), 3)
    secret = fhe.secret_key(seeds[0], program.PARAMS)
    plan = program.plan_keys()
    begin = time.perf_counter()
    # Seeded keys take half the file: a seed stands for their random half.
    keys = jax.block_until_ready(plan.generate(seeds[1], secret, seeded=True))
    seconds = time.perf_counter() - begin
    encrypted = fhe.encrypt(seeds[2], secret, pack(records))
    private.mkdir(exist_ok=True)
    public.mkdir(exist_ok=True)
    fhe.save(private / SECRET, secret, allow_secret=True)
    fhe.save(public / program.KEYS, keys)
    fhe.save(public / program.RECORDS, encrypted)
    print(f"client: {program.PARAMS}")
    print(f"client: made the {len(plan.rotations) + 1} keys that the program needs in {seconds:.2f} s")
    for name in (program.KEYS, program.RECORDS):
        print(f"client: sent {program.described(public / name)}")


def receive(private: pathlib.Path, public: pathlib.Path) -> None:
    """Decrypts the scores. They carry a trace of noise that tells about the secret key: they are for the client."""
    _, (records, labels) = program.hospitals()
    secret = fhe.load(private / SECRET)
    scores = np.asarray(fhe.decrypt(secret, fhe.load(public / program.SCORES), dtype=np.float64))[: len(records)]
    np.save(private / RESULT, scores)
    right = np.sum((scores > 0.5) == labels)
    print(
        f"client: {np.sum(scores > 0.5)} of {len(scores)} tumours are benign by their scores; {right} diagnoses agree"
    )


def pack(records):
    """Records `[patients, FEATURES]` to slots: a row of patients for each feature."""
    return np.pad(records, ((0, program.PATIENTS - len(records)), (0, 0))).T.ravel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Sends encrypted patients, and decrypts their scores.")
    parser.add_argument("action", choices=["send", "receive"])
    parser.add_argument("private", type=pathlib.Path, help="the client's directory, which nobody else may read")
    parser.add_argument("public", type=pathlib.Path, help="the directory that the server gets")
    arguments = parser.parse_args()
    {"send": send, "receive": receive}[arguments.action](arguments.private, arguments.public)
