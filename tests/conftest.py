"""Two CPU devices, a cache of compiled programs, examples that stay, and what is left out unless it is asked for.

Left out are slow tests, and of a test's many cases those that its sample (`@pytest.mark.sampled`) has not.
"""

import collections
import hashlib
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

# Of docstrings, what takes longer than the others.
SLOW_EXAMPLES = {
    f"fhejax.{name}"
    for name in (
        "arrays.images.convolutions.conv2d",
        "arrays.products.matmul.matmul",
        "bootstrapping.bootstrapping.Bootstrapping.for_program",
        "functions.activations.gelu",
        "kinds.simulated.simulate",
        "polynomials.minimax.best_sign_degrees",
        "polynomials.gradient.fit_gradient",
        "polynomials.gradient.fit_loss",
    )
}

hypothesis.settings.register_profile("same", derandomize=True)


def pytest_configure(config):
    """Examples are drawn anew, and as many as tests ask for, only where slow tests run too."""
    drawing.everything = bool(config.getoption("-m"))
    if not drawing.everything:
        hypothesis.settings.load_profile("same")


def pytest_collection_modifyitems(config, items):
    import references  # late, so that the import hook of jaxtyping comes first

    everything = bool(config.getoption("-m"))
    references.computed_always = everything or "FHEJAX_COMPUTE_REFERENCES" in os.environ
    if not everything:  # examples cannot be skipped: some have no line to be named
        slow = [item for item in items if item.name in SLOW_EXAMPLES]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
    computes_references = references.computes_references()
    taken = collections.Counter()
    for item in sorted(items, key=_drawn):
        if not everything and item.get_closest_marker("slow"):
            reason = "slow: run by make test-all (-m 'slow or not slow')"
        elif not computes_references and _is_of_reference(item):
            reason = "the reference itself, whose sources have not changed: run by make test-all"
        elif not everything and taken[_function(item)] >= _largest_sample(item):
            reason = "of whose function others are the sample: run by make test-all"
        else:
            taken[_function(item)] += 1
            continue
        item.add_marker(pytest.mark.skip(reason=reason))


def _drawn(item):
    """An order of a function's cases that neither their order nor that of their parameters tells: a sample's."""
    return hashlib.sha256(item.nodeid.encode()).digest()


def _function(item):
    return item.nodeid.partition("[")[0]


def _largest_sample(item):
    marker = item.get_closest_marker("sampled")
    return marker.args[0] if marker else float("inf")


def _is_of_reference(item):
    return hasattr(item, "callspec") and item.callspec.params.get("lowering") == "reference"


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
