"""The examples run as a user runs them: as programs of their own."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import fhejax

ROOT = pathlib.Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def run(example, *options, picture=None):
    """What it wrote; its picture is checked."""
    options = options if picture is None else (*options, "--picture", str(picture))
    command = [sys.executable, str(ROOT / "examples" / example), *options]
    # A script's own folder comes first on its path: name the package's, which may not be installed.
    environment = os.environ | {"PYTHONPATH": str(pathlib.Path(fhejax.__file__).parents[1])}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert picture is None or picture.read_bytes().startswith(b"\x89PNG")
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


def test_encrypted_cnn(tmp_path):
    finished = run("encrypted_cnn.py", "--images", "48", picture=tmp_path / "cnn.png")
    assert "evaluation keys: 100%" in finished.stderr
    table = dict(re.split(r"  +", line.strip(), maxsplit=1) for line in finished.stdout.splitlines() if "  " in line)
    assert "depth=5" in table["parameters"]
    assert table["security"] == "128 bits"
    assert table["images"] == "48; 32 in each of 2 ciphertexts"
    assert "48 of 48" in table["accuracy encrypted"]
    assert float(table["accuracy encrypted"].split(";")[0]) >= 0.9
    shown, foreseen = (float(bits) for bits in re.findall(r"[\d.]+(?= bits|;)", table["worst score error"]))
    assert shown > 14 and abs(shown - foreseen) < 1


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


@pytest.mark.parametrize("steps", [4, 8])
def test_encrypted_training(tmp_path, steps):
    finished = run("encrypted_training.py", "--steps", str(steps), picture=tmp_path / "training.png")
    assert "evaluation keys: 100%" in finished.stderr and "encrypted training: 100%" in finished.stderr
    head, table = finished.stdout.splitlines()[1], finished.stdout.splitlines()[2 : 2 + steps]
    assert head.split() == [*"step level clear polynomial encrypted clear encrypted weights predicted".split()]
    losses = []
    for number, row in enumerate(table, 1):
        step, _, _, polynomial, encrypted, _, _, bits, predicted = map(float, row.split())
        assert step == number and abs(encrypted - polynomial) < 0.001 and abs(bits - predicted) < 1.5
        losses.append(encrypted)
    assert losses == sorted(losses, reverse=True) and losses[-1] < (0.14 if steps == 4 else 0.1)
    level, clear, encrypted = (float(table[-1].split()[i]) for i in (1, 5, 6))
    assert level == 0 and abs(encrypted - clear) <= 0.01
    assert "security=128 classical" in finished.stdout


def test_client_server():
    lines = run("client_server/run.py").stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["client"] * 4 + ["server"] * 2 + ["client", "compared"]
    assert "security=128 classical" in lines[0]
    equal, bits = re.search(r"compared: 114 of (\d+) verdicts .* at most, ([\d.]+) bits", lines[-1]).groups()
    assert equal == "114" and float(bits) > 8


def test_encrypted_iteration(tmp_path):
    finished = run("encrypted_iteration.py", "--steps", "24", picture=tmp_path / "iteration.png")
    assert "encrypted descent: 100%" in finished.stderr
    table, rows = finished.stdout.split("\n\n")
    assert "NONE: a small ring" in table
    errors = {int(row.split()[0]): float(row.split()[1].removeprefix("2^")) for row in rows.splitlines()[1:]}
    # No error grows with the steps.
    assert len(errors) > 8 and errors[24] < errors[1] + 5 and max(errors.values()) < -23
