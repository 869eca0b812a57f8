"""The examples run as a user runs them: as programs of their own."""

import os
import pathlib
import re
import subprocess
import sys

import fhejax

ROOT = pathlib.Path(__file__).parents[1]


def test_encrypted_digits(tmp_path):
    picture = tmp_path / "digits.png"
    command = [sys.executable, str(ROOT / "examples" / "encrypted_digits.py"), "--picture", str(picture)]
    # A script's own folder comes first on its path: name the package's, which may not be installed.
    environment = os.environ | {"PYTHONPATH": str(pathlib.Path(fhejax.__file__).parents[1])}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "encrypted inference: 100%" in run.stderr
    table = dict(re.split(r"  +", line, maxsplit=1) for line in run.stdout.splitlines())
    assert table["security"] == "128 bits"
    assert "360 of 360" in table["accuracy encrypted"]
    assert float(table["accuracy encrypted"].split(";")[0]) >= 0.95
    assert float(table["worst score error"].split()[0]) > 14
