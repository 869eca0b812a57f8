"""Client and server apart: patients are scored by a model that their hospital does not have, and nobody else sees them.

Three processes, one after the other, which share nothing but files. Run them all with

    pip install fhejax[examples]
    python examples/client_server/run.py

or by hand, as `client.py` and `server.py` say. At the end the scores are compared with those of the same model in the
clear, which only this script can do: it plays both parts.
"""

import pathlib
import subprocess
import sys
import tempfile

import client
import numpy as np
import program
import server

import fhejax as fhe

HERE = pathlib.Path(__file__).parent


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        private, public = pathlib.Path(directory, "mine"), pathlib.Path(directory, "sent")
        for command in (
            ["client.py", "send", private, public],
            ["server.py", public],
            ["client.py", "receive", private, public],
        ):
            subprocess.run([sys.executable, HERE / command[0], *command[1:]], check=True)
        scores = np.load(private / client.RESULT)
    _, (records, _) = program.hospitals()
    expected = 1 / (1 + np.exp(-records @ server.train()))
    equal, worst = np.sum((scores > 0.5) == (expected > 0.5)), np.max(np.abs(scores - expected))
    bits = fhe.precision(expected, scores)
    print(f"compared: {equal} of {len(scores)} verdicts are those in the clear, with the sigmoid itself; ", end="")
    print(f"the scores differ by {worst:.4f} at most, {bits:.1f} bits (the polynomial was asked for 8)")
    return 0 if equal == len(scores) else 1


if __name__ == "__main__":
    sys.exit(main())
