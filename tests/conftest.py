"""Two CPU devices, a cache of compiled programs, examples that stay, and slow tests left out unless asked for."""

import collections
import os
import pathlib

ROOT = pathlib.Path(__file__).parent.parent
WRITING = "FHEJAX_WRITE_DIGESTS" in os.environ

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
# Read by JAX when it is imported, here and in the processes that tests start. A program's key in the cache has the
# names and attributes of the handlers that it calls, not their code: those that are loaded serve.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / "build" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import drawing  # noqa: E402
import hypothesis  # noqa: E402
import jaxtyping  # noqa: E402
import pytest  # noqa: E402

hypothesis.settings.register_profile("same", derandomize=True)


def pytest_configure(config):
    """Examples are drawn anew, and as many as tests ask for, only where slow tests run too."""
    drawing.everything = bool(config.getoption("-m"))
    if not drawing.everything:
        hypothesis.settings.load_profile("same")


def pytest_collection_modifyitems(config, items):
    import references  # late, so that the import hook of jaxtyping comes first

    references.computed_always = bool(config.getoption("-m"))
    left_out = {} if config.getoption("-m") else {"slow": "run by make test-all (-m 'slow or not slow')"}
    if not references.computes_references():
        left_out["reference"] = "the reference itself, whose sources have not changed: run by make test-all"
    for item in items:
        of_reference = getattr(item, "callspec", None) and item.callspec.params.get("lowering") == "reference"
        names = {*item.keywords, *(["reference"] if of_reference else [])}
        for name, reason in left_out.items():
            if name in names:
                item.add_marker(pytest.mark.skip(reason=f"{name}: {reason}"))


def pytest_sessionfinish(session, exitstatus):
    """With `make digests`, the first process writes what all have met."""
    if WRITING and "PYTEST_XDIST_WORKER" not in os.environ and exitstatus == 0:
        import references

        references.write()


def pytest_terminal_summary(terminalreporter, config):
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ())]
    for reason, count in sorted(collections.Counter(reasons).items()):
        terminalreporter.write_line(f"left out: {count} tests, {reason.removeprefix('Skipped: ')}")


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
