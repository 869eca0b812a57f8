"""Files that were written once must load for ever; so a change of the format cannot happen unnoticed."""

import pathlib

import golden_values
import pytest
from file_values import assert_same

import fhejax as fhe
from fhejax.serialization.table import KINDS

GOLDEN = pathlib.Path(__file__).parent / "golden"  # in its folder `first`, files whose headers state no shapes
FILES = sorted(GOLDEN.rglob("*.safetensors"))
VALUES = golden_values.values()


def test_every_kind_has_a_file():
    assert {path.stem for path in GOLDEN.glob("*.safetensors")} == {*VALUES}
    assert {type(value) for value in VALUES.values()} == {*KINDS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_old_files_load(path):
    assert_same(fhe.load(path), VALUES[path.stem])


@pytest.mark.parametrize("name", VALUES)
def test_new_files_are_like_them(tmp_path, name):
    """When the format changes, move the old files into a folder of their own, and write new ones."""
    fhe.save(tmp_path / "new", VALUES[name], allow_secret=True)
    assert (tmp_path / "new").read_bytes() == (GOLDEN / f"{name}.safetensors").read_bytes()
