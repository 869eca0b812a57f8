"""Where a bootstrapping spends its time, its levels and its bits: stage by stage, on a ciphertext."""

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from fhejax import _compat
from fhejax.bootstrapping import stages
from fhejax.bootstrapping.bootstrapping import BootstrappingKeys
from fhejax.bootstrapping.refresh import at_input_level
from fhejax.kinds.ciphertext import Ciphertext
from fhejax.kinds.requirements import check_same_params
from fhejax.kinds.simulated import simulate
from fhejax.operations.encryption import decrypt
from fhejax.report.precision import Precision, precision
from fhejax.report.progress import meter
from fhejax.scheme.keys import check_one
from fhejax.scheme.values import SecretKey

# Primitives that switch keys: how many of those that share their ModUp, and how many others, by their parameters.
_SWITCHES: dict[str, Callable[[dict[str, Any]], tuple[int, int]]] = {
    "fhejax_hoisted_sums": lambda parameters: (sum(element != 1 for element in parameters["elements"]), 0),
    "fhejax_hoisted_rotations": lambda parameters: (
        (len(parameters["elements"]), 0) if len(parameters["elements"]) > 1 else (0, 1)
    ),
    **dict.fromkeys(
        (
            "fhejax_add_rotation",
            "fhejax_gadget_product",
            "fhejax_key_switch",
            "fhejax_multiply_ciphertexts",
            "fhejax_relinearize_rescale",
        ),
        lambda parameters: (0, 1),
    ),
}


@dataclass(frozen=True)
class StageProfile:
    """What a stage took.

    Attributes:
      name: in words.
      levels: that it took.
      hoisted: key switches that share their ModUp and need no ModDown, counted in the jaxpr.
      switched: other key switches.
      cpu: seconds of processor time, of all threads together; the least of all runs.
      wall: seconds; the least of all runs.
      precision: bits of the values at the end, if what follows the stage were exact; None without the secret key.
    """

    name: str
    levels: int
    hoisted: int
    switched: int
    cpu: float
    wall: float
    precision: Precision | None


@dataclass(frozen=True, repr=False)
class Profile:
    """The stages of a bootstrapping, in the order in which they ran; as a table by `print`."""

    stages: tuple[StageProfile, ...]

    def __repr__(self) -> str:
        rows = [("stage", "levels", "key switches", "cpu s", "wall s", "bits: mean", "worst", "lost")]
        before = None
        for stage in self.stages:
            mean, worst, lost, bits = "", "", "", stage.precision
            if bits is not None:
                mean, worst = f"{bits.mean:.1f}", f"{bits.worst:.1f}"
                lost = "" if before is None else f"{round(before.mean - bits.mean, 1) + 0.0:.1f}"  # no -0.0
            rows.append((*_costs(stage.name, [stage]), mean, worst, lost))
            before = bits
        rows.append((*_costs("all", self.stages), "", "", ""))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        aligned = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
        return "\n".join("  ".join(row).rstrip() for row in aligned)


def _costs(name: str, stages_of: Sequence[StageProfile]) -> tuple[str, str, str, str, str]:
    hoisted, switched = sum(stage.hoisted for stage in stages_of), sum(stage.switched for stage in stages_of)
    cpu, wall = sum(stage.cpu for stage in stages_of), sum(stage.wall for stage in stages_of)
    switches = f"{hoisted} + {switched}" if hoisted else f"{switched}"
    return name, str(sum(stage.levels for stage in stages_of)), switches, f"{cpu:.3f}", f"{wall:.3f}"


def profile(
    keys: BootstrappingKeys,
    x: Ciphertext,
    secret: SecretKey | None = None,
    *,
    repeats: int = 2,
    progress: bool = False,
) -> Profile:
    """Bootstraps a ciphertext stage by stage: time, levels, key switches and bits of each.

    The bits after a stage are those that the result would have if all that follows were exact. Telling them takes
    decrypting in between, which only the owner of the secret key can.

    Args:
      keys: what `Bootstrapping.keys` makes.
      x: a single ciphertext of two components, as for `bootstrap`.
      secret: the secret key; None leaves the bits out.
      repeats: how often each stage runs for its time, after a run that compiles it.
      progress: whether to show a progress meter, which needs tqdm.

    Returns:
      A table, once it is printed.

    Raises:
      As `fhejax.bootstrap`; TypeError for what is no secret key, ValueError for a batch of them.
    """
    keys = stages.checked_bootstrapping_keys("profile", x, keys)
    if secret is not None:
        check_one("profile", secret)
        check_same_params("profile", keys, secret)
    state: Any = at_input_level("profile", x, keys)
    steps, found = _steps(keys.bootstrapping, x.real), []
    expected = None if secret is None else _opened(secret, state)
    with meter("profile", progress, len(steps), "stages", "stage") as watcher:
        for i, (name, step) in enumerate(steps):
            before = _level(state)
            run, (hoisted, switched) = jax.jit(step), key_switches(step, state, keys)
            state, cpu, wall = _timed(run, state, keys, repeats)
            bits = None
            if secret is not None:
                rest = [each for _, each in steps[i + 1 :]]
                bits = precision(expected, _finished(rest, state, secret, keys))
            levels = before - _level(state) if name != "raise" else 0
            found.append(StageProfile(name, levels, hoisted, switched, cpu, wall, bits))
            if watcher is not None:
                watcher.update(1)
    return Profile(tuple(found))


def _steps(how, real):
    """The stages as functions of a ciphertext, or of a list of them, and keys; the last gives the result."""

    def each(function):
        return lambda xs, keys: [function(x, keys) for x in xs]

    def end(xs, keys):
        if how.slots_first and xs[0].slots > keys.params.slots:
            return stages.joined(stages.straightened_apart(xs[0], keys))
        return stages.joined([stages.straightened(x, keys) for x in xs])

    to_coefficients = "slots to coefficients", stages.slot_to_coeff
    middle = [
        ("raise", stages.mod_raise),
        ("coefficients to slots", lambda x, keys: stages.coeff_to_slot(x, keys, real and how.slots_first)),
        ("cosine", each(stages.cosine)),
        ("doublings", each(stages.doubled)),
        ("arcsine", end),
    ]
    return [to_coefficients, *middle] if how.slots_first else [*middle, to_coefficients]


def _level(state):
    return (state[0] if isinstance(state, list) else state).level


def key_switches(function: Callable[..., Any], *arguments: Any) -> tuple[int, int]:
    """How many key switches a function takes, counted in its jaxpr: those that share their ModUp, and others."""
    return key_switches_of(_compat.x64(jax.make_jaxpr(function))(*arguments).jaxpr)


def key_switches_of(jaxpr: Any) -> tuple[int, int]:
    """The same of a jaxpr."""
    counts = [
        np.multiply(kind(parameters), count)
        for name, kind in _SWITCHES.items()
        for parameters, count in _compat.count_equations(jaxpr, name)
    ]
    hoisted, switched = np.sum(counts, axis=0, initial=0) if counts else (0, 0)
    return int(hoisted), int(switched)


def _timed(run, state, keys, repeats):
    result = jax.block_until_ready(run(state, keys))
    cpu, wall = float("inf"), float("inf")
    for _ in range(repeats):
        started = time.process_time(), time.perf_counter()
        result = jax.block_until_ready(run(state, keys))
        cpu, wall = min(cpu, time.process_time() - started[0]), min(wall, time.perf_counter() - started[1])
    return result, cpu, wall


def _opened(secret, x):
    """In double precision: single precision holds 24 bits."""
    return np.asarray(decrypt(secret, x, dtype="float64" if x.real else "complex128"))


@_compat.x64
def _finished(rest, state, secret, keys):
    """What decrypted values come out as by stages without errors."""
    keys = dataclasses.replace(keys, evaluation=None, to_sparse=None, to_dense=None)
    secret = SecretKey(secret.data, keys.params)
    values = jax.tree.map(
        lambda x: simulate(_opened(secret, x), keys.params, level=x.level, slots=x.slots),
        state,
        is_leaf=lambda x: isinstance(x, Ciphertext),
    )
    return np.asarray(functools.reduce(lambda state, step: step(state, keys), rest, values).values)
