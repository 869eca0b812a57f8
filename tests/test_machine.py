"""The table of a machine: what units take is found from what operations take."""

import builtins
import platform

import numpy as np
import pytest

import fhejax as fhe
from fhejax.kinds import work
from fhejax.planning import machine


def test_seconds_of_units_are_found_from_those_of_operations():
    """Operations that take what their units say, tell the units."""
    rng = np.random.default_rng(0)
    seconds = dict(zip(work.UNITS, [3e-4, 2e-5, 4e-6, 1e-3, 5e-4], strict=True))
    rows = [dict(zip(work.UNITS, rng.uniform(1, 50, len(work.UNITS)).tolist(), strict=True)) for _ in range(20)]
    measured = [(row, sum(row[unit] * seconds[unit] for unit in work.UNITS)) for row in rows]
    assert machine._fitted(measured) == pytest.approx(seconds, rel=1e-3)


def test_every_ring_of_the_table_that_is_shipped_is_measured():
    assert {str(ring) for ring in machine._RINGS} == work.machine_table()["seconds"].keys()


def test_a_measured_table_tells_the_seconds_of_a_program(monkeypatch):
    monkeypatch.setattr(machine, "_RINGS", {11: (2,)})
    monkeypatch.setattr(machine, "_SECONDS", 0.0)
    table = machine.measure(progress=False)
    assert table["seconds"].keys() == {"11"} and table["seconds"]["11"].keys() == set(work.UNITS)
    params = fhe.Parameters.for_depth(2, log_degree=11, security=None)
    counted = fhe.count(lambda x: fhe.square(x, None), fhe.simulate([1.0], params), machine=table)
    assert counted.seconds > 0


@pytest.mark.parametrize("processor", ["a processor", ""])
def test_the_name_without_a_list_of_processors(monkeypatch, processor):
    """As on other systems than Linux."""

    def missing(*_):
        raise FileNotFoundError

    monkeypatch.setattr(builtins, "open", missing)
    monkeypatch.setattr(platform, "processor", lambda: processor)
    monkeypatch.setattr(platform, "machine", lambda: "an architecture")
    assert machine._name().startswith(f"{processor or 'an architecture'}, ")
