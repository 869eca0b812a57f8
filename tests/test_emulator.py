"""The emulator itself: right kernels pass under every order of threads, and what is wrong is named."""

import jax
import numpy as np
import pytest
from emulation import emulated, emulated_name, library, planted
from residues import chain, random_residues

N = 64
X = np.arange(N, dtype=np.uint64) * 3

RIGHT = {
    "Reversed": X[::-1],
    "ReversedThroughWorkspace": X[::-1],
    "ReversedInWarps": X.reshape(-1, 32)[:, ::-1].ravel(),
    "ReversedByShuffles": X.reshape(-1, 32)[:, ::-1].ravel(),
    "Counted": X,
    "WithConstants": X + np.array([3, 1, 4, 1, 5, 9, 2, 6], np.uint64)[X % 8],
}


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("kernel", RIGHT)
def test_right_kernels_pass(kernel, check):
    for seed in range(5):
        with emulated(check=check, seed=seed):
            np.testing.assert_array_equal(planted(kernel, X), RIGHT[kernel])


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        ("Race", r"race in shared memory: \w+ at planted.cu:\d+ by thread \d+, \w+ at planted.cu:\d+ by thread"),
        ("HarmlessRace", "race in a result: write at planted.cu"),
        ("ShuffleForBarrier", "race in shared memory"),
        ("WriteAfterRead", "race in shared memory"),
        ("PastResult", "out of bounds: write at planted.cu"),
        ("PastOperand", "out of bounds: read at planted.cu"),
        ("PastShared", "out of bounds: write at planted.cu"),
        ("ToOperand", "write to read-only memory in an operand"),
        ("UnwrittenShared", "uninitialised read in shared memory"),
        ("UnwrittenWorkspace", "uninitialised read in a result"),
    ],
)
def test_wrong_accesses_are_found(kernel, says):
    for seed in range(3):
        with emulated(check=True, seed=seed), pytest.raises(jax.errors.JaxRuntimeError, match=says):
            planted(kernel, X)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (
            "ExitBeforeBarrier",
            r"divergent barrier: 32 threads \(first 1\) exited; 32 threads \(first 0\) wait in __sync",
        ),
        ("TwoBarriers", "divergent barrier: 32 threads .* wait in __syncthreads at planted.cu:.* 32 threads"),
        ("LaneMissing", "divergent barrier: .* wait for their warp at planted.cu"),
    ],
)
def test_divergence_is_found(kernel, says, check):
    with emulated(check=check), pytest.raises(jax.errors.JaxRuntimeError, match=says):
        planted(kernel, X)
    with emulated(check=check):  # and the next call is as if nothing had been
        np.testing.assert_array_equal(planted("Reversed", X), X[::-1])


def test_blocks_are_not_ordered():
    with emulated(check=True):
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"race in a result: .* of another block"):
            planted("Reversed", X, blocks=2)


@pytest.mark.parametrize(("threads", "blocks"), [(1025, 1), (2048, 1)])
def test_limits_of_launches(threads, blocks):
    with (
        emulated(),
        pytest.raises(jax.errors.JaxRuntimeError, match=f"a launch of {blocks} blocks of {threads} threads"),
    ):
        planted("Reversed", np.zeros(threads, np.uint64), blocks)


@pytest.mark.parametrize("more", [-1, 1])
def test_a_workspace_of_another_size_is_refused(more):
    library()
    moduli = chain(16, (30, 40, 50))
    with jax.enable_x64(True), pytest.raises(jax.errors.JaxRuntimeError, match=r"the workspace is no u64\[48\]"):
        results = [jax.ShapeDtypeStruct(shape, np.uint64) for shape in ((2, 16), (3 * 16 + more,))]
        call = jax.ffi.ffi_call(emulated_name("fhejax_mod_down_v1"), results)
        keep, drop = (np.array(each, np.uint64) for each in (moduli[:2], moduli[2:]))
        call(random_residues(0, moduli, 16), keep=keep, drop=drop)


def test_the_order_is_random():
    """A race that changes results does so under some order, without any check."""
    results = set()
    for seed in range(4):
        with emulated(check=False, seed=seed):
            results.add(planted("Race", X).tobytes())
    assert len(results) > 1
