"""Two CPU devices, and slow tests left out unless asked for."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import jaxtyping
import pytest


def pytest_collection_modifyitems(config, items):
    if config.getoption("-m"):
        return
    skip = pytest.mark.skip(reason="slow: run by make test-all (-m 'slow or not slow')")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture
def unchecked():
    """Leaves the shape annotations unchecked, so that a wrong argument meets the library's own message."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(params=["integer", "double"])
def arithmetic(request, monkeypatch):
    """Both arithmetics of the CUDA kernels."""
    monkeypatch.setenv("FHEJAX_CUDA_ARITHMETIC", request.param)
    return request.param
