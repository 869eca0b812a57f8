"""The table of docs/cuda.md says what is registered."""

import coverage_page
import pytest

from fhejax.primitives import native


def test_the_page_says_what_is_registered():
    text = coverage_page.PAGE.read_text()
    assert text == coverage_page.page(text), "type: python tests/coverage_page.py"


def test_every_instruction_set_is_in_the_table():
    extension = native.cpu_extension()
    if extension is None:
        pytest.skip("needs the CPU kernels")
    assert {"portable"} <= set(extension.instruction_sets()) <= set(coverage_page.instruction_sets())
    # "kernel" in every column of the CPU; for that of CUDA see test_cuda.py.
    assert set(extension.registrations()) == native.handlers
