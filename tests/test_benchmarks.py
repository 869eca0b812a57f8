"""The benchmarks run and write what they promise; how fast anything is, is not a test's business."""

import importlib
import json
import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

import fhejax as fhe
from fhejax import _compat

BENCHMARKS = pathlib.Path(__file__).parent.parent / "benchmarks"
OPERATIONS = {
    *("ntt", "inverse_ntt", "encode", "decode", "encrypt", "encode_encrypt", "decrypt", "add", "subtract"),
    *("raw_multiply_plain", "multiply_plain", "multiply", "square", "rescale", "rotate", "rotate_many(8)"),
    *("conjugate", "relinearize", "evaluation_key"),
}
TARGETS = {
    *("transforms", "against_peers", "against_transforms", "two_threads", "batch", "streaming", "hoisting", "coding"),
    "peak_memory",
    "seeded_keys",
}


def run(script, folder, *options):
    """Runs a benchmark, and returns its report and what it printed."""
    path = folder / "results.json"
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, BENCHMARKS / script, *options, "--quick", "--json", path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(path.read_text())
    assert {"processor", "flags", "cores", "versions"} <= report["machine"].keys()
    assert {"python", "jax", "jaxlib", "fhejax"} <= report["machine"]["versions"].keys()
    return report, done.stdout


@pytest.mark.slow
def test_the_table_of_a_ring(tmp_path):
    report, printed = run("run.py", tmp_path, "--log-degree", "13")
    (ring,) = report["rings"]
    assert ring["log_degree"] == 13 and ring["instruction_set"] and ring["limits"]["copy_gigabytes_per_second"] > 0
    assert {"overhead_us", "limit_us", "ratio_to_limit"} <= ring["eager_add"].keys()
    assert ring["operations"].keys() == OPERATIONS
    for name, row in ring["operations"].items():
        assert row["fhejax"]["runs"] >= 7 and row["fhejax"]["cpu_ms"] > 0 and name in printed
        assert {"minimum_ms", "ratio"} <= row["bound"].keys() and row["bytes"]["gigabytes_per_second"] > 0
        for other in row.keys() & {"TenSEAL", "DESILO"}:
            assert {"minimum_ms", "median_ms", "ratio"} <= row[other].keys()
        for entry in row["instruction sets"].values():
            assert entry["minimum_ms"] > 0 and entry["ratio"] > 0
    for about in ring["peers"].values():
        assert "unavailable" in about or {"threads", "moduli"} <= about.keys()


@pytest.mark.slow
def test_the_targets(tmp_path):
    report, printed = run("targets.py", tmp_path, "--markdown")
    measured = {figure["target"] for figure in report["figures"]} | report["unavailable"].keys()
    # Without peers these two have nothing to show.
    assert TARGETS - {"against_peers", "coding"} <= measured <= TARGETS
    for figure in report["figures"]:
        assert figure["least"] > 0 and figure["median"] > 0
        assert (figure["met"] is None) == (figure["goal"] is None) == (f"| {figure['what']} |" not in printed)


@pytest.mark.slow
def test_the_growth(tmp_path):
    pytest.importorskip("matplotlib")
    report, _ = run("growth.py", tmp_path, "--png", tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
    for point in report["points"]:
        assert point["milliseconds"]["fhejax"].keys() == {"multiply", "rotate", "ntt"}


@pytest.mark.slow
def test_the_polynomials(tmp_path):
    report, printed = run("polynomials.py", tmp_path)
    (row,) = report["polynomials"]
    assert (row["degree"], row["key_switches"]) == (7, 4) and row["fhejax"]["bits"] > 20 and "    7 " in printed
    assert "unavailable" in row or row["TenSEAL"]["least_ms"] > 0


@pytest.mark.slow
def test_the_matrices(tmp_path):
    report, printed = run("linear.py", tmp_path)
    assert [case["replicated"] for case in report["cases"]] == [True, False]
    for case in report["cases"]:
        assert case["mod_downs"] == case["switched"] + 1 and case["milliseconds"]["double"] > 0
        assert f"{case['size']}" in printed


@pytest.mark.slow
def test_the_products(tmp_path):
    report, printed = run("products.py", tmp_path)
    (columns,), (matrix,) = report["columns"], report["matrices"]
    assert columns["milliseconds"].keys() >= {"columns", "by operations", "copy"} and "multiply-adds/s" in printed
    assert (matrix["depth"], matrix["relinearizations"]) == (2, 2) and matrix["keys"] < matrix["paper_keys"]
    assert all(time > 0 for entry in (columns, matrix) for time in entry["milliseconds"].values())


@pytest.mark.slow
def test_two_versions(tmp_path):
    """One version beside itself."""
    report, printed = run("versions.py", tmp_path, sys.executable)
    assert OPERATIONS <= {figure["name"].removeprefix("12: ") for figure in report["figures"]}
    for figure in report["figures"]:
        assert min(figure["ratios"]) > 0 and figure["name"] in printed


@pytest.mark.slow
def test_on_a_gpu(tmp_path):
    """Also without one: then on the CPU, with nothing to set the times beside."""
    report, printed = run("gpu.py", tmp_path, "--arithmetic", "default")
    assert "unavailable" in report["rates"] or report["rates"]["copy_bytes_per_second"] > 0
    rows = report["arithmetics"]["default"]
    for what in ("NTT", "key switch", "multiply", "rotate", "matrix", "bootstrap"):
        (row, *_) = [row for row in rows if row["name"].startswith(what)]
        assert row["median_ms"] > 0 and row["name"] in printed


def test_instructions_are_told_apart(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    kind = importlib.import_module("instructions")._kind
    named = {"DFMA": "fp64", "IMAD.WIDE.U32": "imad", "IMAD.X": "other", "IMAD.MOV.U32": "other", "LDG.E.64": "memory"}
    assert {name: kind(name) for name in named} == named


@pytest.mark.slow
def test_instructions_of_an_architecture(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    instructions = importlib.import_module("instructions")
    try:
        counts = instructions.of_architecture("90")
    except importlib.import_module("machine").Unavailable as reason:
        pytest.skip(f"counts no instructions: {reason}")
    integer, double = (counts[f"forward butterfly, {arithmetic}"] for arithmetic in ("integer", "double"))
    assert integer["fp64"] == 0 and integer["imad"] >= 9  # two low products of 3, one high of 4
    assert 10 <= double["fp64"] < 11 and double["imad"] < 1


def test_products_are_counted(monkeypatch):
    """A rotation's: conversions to the other primes, the inner product, the division."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    work = importlib.import_module("work")
    limbs, special, size = 6, 2, 2
    params = fhe.Parameters.from_bits(6, [41] + [40] * 5, [42] * 2, scale_bits=40, digit_size=size, security=None)
    seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 3)
    secret = fhe.secret_key(seeds[0], params)
    x, keys = fhe.encrypt(seeds[1], secret, [1.0]), fhe.evaluation_keys(seeds[2], secret, rotations=[1])
    jaxpr = _compat.x64(jax.make_jaxpr(lambda x, keys: fhe.rotate(x, 1, keys)))(x, keys).jaxpr
    raised = 3 * size * (1 + limbs + special - size)
    assert work.terms_of_equations(jaxpr) == raised + 2 * 3 * 8 + 2 * (special * (1 + limbs) + limbs)


def test_the_transforms_counted_are_those_of_the_text(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    params = fhe.Parameters.from_bits(10, [50] + [40] * 7, [50] * 3, scale_bits=40, digit_size=3, security=None)
    needed = importlib.import_module("work").of_operations(params, 8)
    limbs, special, digits = 8, 3, 3
    for name in ("multiply", "rotate", "relinearize"):
        assert sum(needed[name].transforms()) == (digits + 2) * (limbs + special)
    assert sum(needed["rotate_many(8)"].transforms()) == (digits + 16) * (limbs + special)
    assert sum(needed["rescale"].transforms()) == 2 * limbs


@pytest.mark.slow
def test_a_missing_compiler_is_a_line_of_the_report(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", str(tmp_path / "no_such_compiler"))
    report, printed = run("targets.py", tmp_path, "--only", "transforms")
    assert "no C++ compiler" in report["unavailable"]["transforms"] and "no C++ compiler" in printed


@pytest.mark.slow
def test_the_tables_of_bootstrapping(tmp_path):
    report, printed = run("bootstrapping.py", tmp_path)
    assert [(case["preset"], case["slots"]) for case in report["cases"]] == [("T", 1024), ("T@2", 8)]
    for case in report["cases"]:
        assert case["over_bound"] > 1 and case["moved"] > 1e8 and min(case["transforms"]) > 300
        assert case["cpu"].keys() == {"real", "complex", "pair", "twice"} and min(case["cpu"].values()) > 0
        assert all(mean > worst > 20 for mean, worst in case["bits"].values())
        assert f"{case['preset']}:{case['slots']}" in printed
