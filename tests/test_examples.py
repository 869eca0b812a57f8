"""The examples run as a user runs them: as programs of their own."""

import os
import pathlib
import re
import subprocess
import sys

import fhejax

ROOT = pathlib.Path(__file__).parents[1]


def run(example, *options, picture):
    """What it wrote; its picture is checked."""
    command = [sys.executable, str(ROOT / "examples" / example), *options, "--picture", str(picture)]
    # A script's own folder comes first on its path: name the package's, which may not be installed.
    environment = os.environ | {"PYTHONPATH": str(pathlib.Path(fhejax.__file__).parents[1])}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    return finished


def test_encrypted_digits(tmp_path):
    finished = run("encrypted_digits.py", picture=tmp_path / "digits.png")
    assert "encrypted inference: 100%" in finished.stderr
    table = dict(re.split(r"  +", line, maxsplit=1) for line in finished.stdout.splitlines())
    assert "depth=3" in table["parameters"]
    assert table["security"] == "128 bits"
    assert "360 of 360" in table["accuracy encrypted"]
    assert float(table["accuracy encrypted"].split(";")[0]) >= 0.95
    assert float(table["worst score error"].split()[0]) > 14


def test_fit_activation(tmp_path):
    finished = run("fit_activation.py", "--degrees", "5", picture=tmp_path / "fit.png")
    assert "fitting: 100%" in finished.stderr and "encrypted, gradient: 100%" in finished.stderr
    rows = [re.split(r"  +", line.strip()) for line in finished.stdout.splitlines()[2:10]]
    table = {(int(degree), fit): rest for degree, fit, *rest in rows}
    assert {degree for degree, _ in table} == {3, 5}
    for degree in (3, 5):
        mean, sup = ({fit: float(table[degree, fit][i]) for of, fit in table if of == degree} for i in (1, 2))
        assert mean["gradient, each unit"] > max(mean["chebyshev"], mean["minimax"]) + 2
        assert sup["gradient, each unit"] > sup["minimax"] - 3
    for fit in ("chebyshev", "minimax", "gradient", "gradient, each unit"):
        depth, _, _, clear, encrypted, equal = table[3, fit]
        assert depth == "2" and clear == encrypted and equal == "360 of 360"
    assert float(table[3, "gradient"][4]) >= float(table[3, "minimax"][4]) > float(table[3, "chebyshev"][4])
