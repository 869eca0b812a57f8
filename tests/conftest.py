"""Two CPU devices, a cache of compiled programs, examples that stay, and slow tests left out unless asked for."""

import os
import pathlib

ROOT = pathlib.Path(__file__).parent.parent

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
# Read by JAX when it is imported, here and in the processes that tests start. A program's key in the cache has the
# names and attributes of the handlers that it calls, not their code: those that are loaded serve.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / "build" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import hypothesis  # noqa: E402
import jaxtyping  # noqa: E402
import pytest  # noqa: E402

hypothesis.settings.register_profile("same", derandomize=True)


def pytest_configure(config):
    """Examples are drawn anew only where slow tests run too."""
    if not config.getoption("-m"):
        hypothesis.settings.load_profile("same")


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
