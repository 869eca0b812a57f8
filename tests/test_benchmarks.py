"""The benchmark runs and writes what it promises; how fast anything is, is not a test's business."""

import json
import os
import pathlib
import subprocess
import sys

RUN = pathlib.Path(__file__).parent.parent / "benchmarks" / "run.py"
OPERATIONS = {
    *("ntt", "inverse_ntt", "encode", "decode", "encrypt", "decrypt", "add", "multiply_plain", "multiply", "square"),
    *("rescale", "rotate", "rotate_many(8)", "conjugate", "relinearize", "evaluation_key"),
}


def test_the_smallest_quick_run(tmp_path):
    path = tmp_path / "results.json"
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, RUN, "--log-degree", "13", "--quick", "--json", path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    report = json.loads(path.read_text())
    assert {"processor", "flags", "cores", "versions"} <= report["machine"].keys()
    assert {"python", "jax", "jaxlib", "fhejax"} <= report["machine"]["versions"].keys()
    (ring,) = report["rings"]
    assert ring["log_degree"] == 13 and ring["instruction_set"] and ring["limits"]["copy_gigabytes_per_second"] > 0
    assert {"overhead_us", "limit_us", "ratio_to_limit"} <= ring["eager_add"].keys()
    assert ring["operations"].keys() == OPERATIONS
    for name, row in ring["operations"].items():
        assert row["fhejax"]["runs"] >= 7 and name in done.stdout
        assert all({"minimum_ms", "ratio"} <= row[other].keys() for other in row.keys() - {"fhejax"})
    for about in ring["peers"].values():
        assert "unavailable" in about or {"threads", "moduli"} <= about.keys()
