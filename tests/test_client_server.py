"""The example in two processes: what the server loads, and that no secret is anywhere in its memory."""

import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

import fhejax as fhe
from fhejax.primitives.ntt import inverse_ntt

EXAMPLE = pathlib.Path(__file__).parents[1] / "examples" / "client_server"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(pathlib.Path(fhe.__file__).parents[1])}

ROOT_SEED = fhe.new_seed()

# The server, stopped when it has computed and is about to write: everything that it ever held at once is still there.
# It tells which files it has opened, and how many secret keys Python knows. Given the file of one, it loads it as well.
STOPPED = """
import gc, json, pathlib, sys
opened = []
sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
sys.path.insert(0, sys.argv[1])
import server
fhe = server.fhe
def stopped(path, value):
    kept = [fhe.load(each) for each in sys.argv[3:]]
    secrets = sum(type(each) is fhe.SecretKey for each in gc.get_objects())
    print(json.dumps({"opened": opened, "secrets": secrets}), flush=True)
    sys.stdin.readline()
    return save(path, value)
save, fhe.save = fhe.save, stopped
server.main(pathlib.Path(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def example():
    """The example's modules, imported as its scripts import each other."""
    sys.path.insert(0, str(EXAMPLE))
    yield {name: importlib.import_module(name) for name in ("program", "client", "server")}
    sys.path.remove(str(EXAMPLE))
    for name in ("program", "client", "server"):
        del sys.modules[name]


@pytest.fixture(scope="module")
def directories(example, tmp_path_factory):
    """What the client keeps, and what it sends."""
    private, public = tmp_path_factory.mktemp("mine"), tmp_path_factory.mktemp("sent")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fhe, "new_seed", lambda: ROOT_SEED)
        example["client"].send(private, public)
    return private, public


def needles(private, client):
    """Bytes by which the secret key would be recognised: residues, coefficients as numbers of any kind, and seeds."""
    secret = fhe.load(private / client.SECRET)
    residues, modulus = np.asarray(secret.data), secret.params.moduli[0]
    found = {f"residues of limb {i}": residues[i, 100:108] for i in (0, 1, len(residues) - 1)}
    coefficients = np.asarray(inverse_ntt(secret.data[:1], (modulus,)))[0]
    # The last one is -1.
    coefficients = coefficients[: np.flatnonzero(coefficients == modulus - 1)[-1] + 1][-64:]
    ternary = np.where(coefficients == modulus - 1, -1, coefficients.astype(np.int64))
    assert set(ternary) == {-1, 0, 1}
    found["coefficients modulo q_0"] = coefficients
    for kind in (np.int8, np.int32, np.int64, np.float32, np.float64):
        found[f"coefficients, {np.dtype(kind).name}"] = ternary.astype(kind)
    found |= {f"seed {i}": np.asarray(each) for i, each in enumerate([ROOT_SEED, *fhe.split_seed(ROOT_SEED, 3)])}
    return {name: array.tobytes().rstrip(b"\0")[-128:] for name, array in found.items()}  # in zeros, searching is slow


def found_in_memory(process, needles):
    """The names of those that are somewhere in the memory of a process; and the files that are mapped into it.

    Searched is all that the process may have written.
    """
    found, files, chunk, overlap = set(), set(), 1 << 26, 1 << 12
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        for line in maps:
            start, end, rights, _, _, _, path = re.match(r"(\w+)-(\w+) (\S+) (\S+) (\S+) (\S+) *(.*)", line).groups()
            files |= {pathlib.Path(path)} if path.startswith("/") else set()
            if not rights.startswith("rw"):
                continue
            for place in range(int(start, 16), int(end, 16), chunk):
                memory.seek(place)
                text = memory.read(min(chunk + overlap, int(end, 16) - place))
                found |= {name for name, needle in needles.items() if needle in text}
    return found, files


def run_stopped(arguments, look):
    """Runs the server up to where it stops, and returns what it tells, and what `look` finds in the process."""
    command = [sys.executable, "-c", STOPPED, EXAMPLE, *arguments]
    process = subprocess.Popen(
        command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline()
        seen = look(process.pid) if line else None
        _, errors = process.communicate("\n", timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    return json.loads(line), seen


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is looked at through Linux's /proc")
@pytest.mark.parametrize("with_secret", [False, True], ids=["server", "server that loads the secret key"])
def test_no_secret_in_the_process_of_the_server(example, directories, with_secret):
    """And if there were one, it would be found: so tells the second run, and in both a part of the records."""
    private, public = directories
    program, client = example["program"], example["client"]
    secret = needles(private, client)
    record = np.asarray(fhe.load(public / program.RECORDS).data)[1, 2, 100:108].tobytes()
    arguments = [public, *[private / client.SECRET] * with_secret]
    told, (found, mapped) = run_stopped(arguments, lambda pid: found_in_memory(pid, secret | {"record": record}))
    residues = {name for name in secret if name.startswith("residues")}
    if with_secret:
        assert told["secrets"] == 1 and residues | {"record"} <= found
    else:
        assert told["secrets"] == 0 and found == {"record"}
    opened = {pathlib.Path(name).resolve() for name in told["opened"]} | mapped
    assert {path.name for path in opened if public in path.parents} == {program.KEYS, program.RECORDS}
    assert any(private in path.parents for path in opened) == with_secret


@pytest.mark.parametrize("name", ["secret_key.safetensors", "records.safetensors", "scores.safetensors", "notes.txt"])
def test_a_directory_with_a_secret_is_refused(example, directories, tmp_path, monkeypatch, name):
    """Under its own name, under one that the server expects, or under another; nothing is loaded."""
    private, public = directories
    sent = shutil.copytree(public, tmp_path / "sent", ignore=shutil.ignore_patterns("scores*"))
    shutil.copy(private / example["client"].SECRET, sent / name)
    monkeypatch.setattr(fhe, "load", None)
    why = "holds a SecretKey" if name in example["server"].EXPECTED else "has left the client"
    with pytest.raises(SystemExit, match=f"server: refused: {name} .*{why}"):
        example["server"].main(sent)


@pytest.mark.slow
def test_the_refusal_of_the_process(directories, tmp_path):
    private, _ = directories
    command = [sys.executable, EXAMPLE / "server.py", private]
    finished = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert finished.returncode == 1 and finished.stderr.startswith("server: refused: secret_key.safetensors")


@pytest.mark.slow
def test_the_scores_are_those_in_the_clear(example, directories):
    private, public = directories
    example["server"].main(public)
    example["client"].receive(private, public)
    scores = np.load(private / example["client"].RESULT)
    _, (records, _) = example["program"].hospitals()
    logits = records @ example["server"].train()
    assert np.max(np.abs(logits)) < example["program"].DOMAIN[1]
    expected = 1 / (1 + np.exp(-logits))
    assert fhe.precision(expected, scores) > 8  # what the sigmoid was asked for
    with jax.enable_x64(True):  # the logits are small differences of large numbers
        records = fhe.simulate(example["client"].pack(records), example["program"].PARAMS, secret_key=True)
        simulated = example["program"].score(example["program"].make_model(example["server"].train()), records, None)
        deviation = np.sqrt(np.mean(np.asarray(simulated.variance)[: len(scores)]))
    error = scores - np.asarray(simulated.values, np.float64)[: len(scores)]
    assert 0.4 < np.sqrt(np.mean(error**2)) / deviation < 1.6
