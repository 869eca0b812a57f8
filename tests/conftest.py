"""Two CPU devices, a cache of compiled programs, examples that stay, and what is left out unless it is asked for.

Left out are slow tests, and of a test's many cases those that its sample (`@pytest.mark.sampled`) has not.
"""

import collections
import hashlib
import importlib.metadata
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

# Tests compile thousands of small programs and run each a few times: an addition takes 58 ms to compile, and 28 with
# these. A jaxlib that does not know one of them would not start.
QUICK_TO_COMPILE = " --xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0"
KNOWS_THEM = importlib.metadata.version("jaxlib").startswith("0.10.")

# Of docstrings, what takes longer than the others.
SLOW_EXAMPLES = {
    "fhejax.arrays.images.convolutions.conv2d",
    "fhejax.arrays.products.matmul.matmul",
    "fhejax.bootstrapping.bootstrapping.Bootstrapping.for_program",
    "fhejax.functions.activations.gelu",
    "fhejax.kinds.simulated.simulate",
    "fhejax.polynomials.gradient.fit_gradient",
    "fhejax.polynomials.gradient.fit_loss",
    "fhejax.polynomials.minimax.best_sign_degrees",
}

hypothesis.settings.register_profile("same", derandomize=True)


def pytest_configure(config):
    """With -m examples are drawn anew, and as many as tests ask for; and XLA compiles as for users, digests too."""
    drawing.everything = bool(config.getoption("-m"))
    if not drawing.everything:
        hypothesis.settings.load_profile("same")
    if KNOWS_THEM and not (drawing.everything or WRITING) and QUICK_TO_COMPILE not in os.environ["XLA_FLAGS"]:
        os.environ["XLA_FLAGS"] += QUICK_TO_COMPILE


def pytest_collection_modifyitems(config, items):
    import references  # late, so that the import hook of jaxtyping comes first

    everything = references.computed_always = bool(config.getoption("-m"))
    computes_references = references.computes_references()
    taken = collections.Counter()
    for item in sorted(items, key=_drawn):
        if not everything and _is_slow(item):
            reason = "slow: run by make test-all (-m 'slow or not slow')"
        elif not computes_references and _is_of_reference(item):
            reason = "the reference itself, whose sources have not changed: run by make test-all"
        elif not everything and taken[_group(item)] >= _sample_size(item):
            reason = "outside of the sample of its function: run by make test-all"
        else:
            taken[_group(item)] += 1
            continue
        item.add_marker(pytest.mark.skip(reason=reason))
        if isinstance(item, pytest.DoctestItem) and item.dtest.lineno is None:
            item.dtest.lineno = 0  # a wrapped function's example has no line, which a skip has to name


def _drawn(item):
    """An order of a function's cases that neither their order nor that of their parameters tells: a sample's."""
    return hashlib.sha256(item.nodeid.encode()).digest()


def _group(item):
    """What a sample is drawn from: a function's cases, those of each instruction set by themselves."""
    return item.nodeid.partition("[")[0], _parameter(item, "instruction_set")


def _sample_size(item):
    marker = item.get_closest_marker("sampled")
    return marker.args[0] if marker else float("inf")


def _is_slow(item):
    return item.get_closest_marker("slow") or item.name in SLOW_EXAMPLES


def _is_of_reference(item):
    return _parameter(item, "lowering") == "reference"


def _parameter(item, name):
    return item.callspec.params.get(name) if hasattr(item, "callspec") else None


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
