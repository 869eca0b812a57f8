"""The card of a bootstrapping: what is known of it by computing, and what was measured."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from fhejax.bootstrapping.failure import log2_exceeding, log2_failure
from fhejax.bootstrapping.plan import Bytes, Stage, exposed, sizes, stages, work
from fhejax.bootstrapping.preset import PRESETS, Preset
from fhejax.errors import static_integer
from fhejax.parameters.parameters import Parameters
from fhejax.parameters.security import LARGEST_SPARSE_MODULUS, SPARSE_SECURITY_BITS

_LABELS = 20  # the width of the first column


class Bits(NamedTuple):
    """-log2 of the mean and of the largest error over all slots, of values up to 1."""

    mean: float
    worst: float


@dataclass(frozen=True)
class Measured:
    """What `python -m fhejax.bootstrapping NAME` measured.

    Attributes:
      random: bits of real slots, uniform in [-1, 1].
      constant: bits where all slots are 1.
      complex: bits of slots whose real and imaginary parts are uniform in [-1, 1].
      seconds: processor time for real slots, of all threads together.
      key_seconds: processor time of making the keys, with the transforms.
      peak: bytes that the process held at most, from the keys to the last result.
    """

    random: Bits
    constant: Bits
    complex: Bits
    seconds: float
    key_seconds: float
    peak: int


MACHINE = "two shared cores of an AMD EPYC (family 26, model 2), AVX-512 IFMA"
# By name and slots, as the command printed them.
MEASURED = {
    ("C", 1 << 15): Measured(Bits(27.7, 24.4), Bits(27.6, 24.0), Bits(26.9, 23.6), 2.75, 7.3, 4_640_000_000),
    ("C", 1 << 12): Measured(Bits(29.1, 26.5), Bits(29.1, 26.3), Bits(27.9, 25.2), 2.59, 5.5, 3_580_000_000),
    ("C", 8): Measured(Bits(27.7, 26.7), Bits(26.6, 25.3), Bits(26.3, 25.7), 1.76, 2.7, 2_830_000_000),
    ("A", 1 << 15): Measured(Bits(32.1, 27.5), Bits(32.1, 28.3), Bits(31.1, 27.9), 2.94, 6.3, 3_810_000_000),
    ("B2", 1 << 14): Measured(Bits(21.2, 18.3), Bits(20.9, 18.0), Bits(20.5, 17.3), 1.37, 5.6, 3_540_000_000),
    ("M", 1 << 15): Measured(Bits(28.3, 24.4), Bits(28.2, 24.2), Bits(27.3, 23.5), 2.58, 6.2, 4_170_000_000),
}


@dataclass(frozen=True, repr=False)
class Card:
    """What there is to say of a bootstrapping; as text by `print`.

    Attributes:
      name: of its preset, with what differs from it.
      params: the parameter set.
      slots_first: the order.
      levels: for programs, from one bootstrapping to the next.
      output_level, input_level: where ciphertexts come out, and from where they are refreshed.
      exposure: log2 of the modulus under which the ephemeral secret has a public key.
      secret_weight: of that secret.
      log2_wrong: log2 of the probability that some coefficient is outside of what the sine stands for.
      log2_exceeding: of the customary bound: that some |t / q_0| exceeds `bound`, K.
      bound: K.
      fit: bits that the polynomials leave of a message at its worst, and in the mean.
      stages: levels and key switches.
      bytes: of keys and transforms.
      measured: bits, time and memory; None where nobody has.
      machine: on which.
    """

    name: str
    params: Parameters
    slots_first: bool
    levels: int
    output_level: int
    input_level: int
    exposure: float
    secret_weight: int
    log2_wrong: float
    log2_exceeding: float
    bound: int
    fit: Bits
    stages: tuple[Stage, ...]
    bytes: Bytes
    measured: Measured | None
    machine: str

    def __repr__(self) -> str:
        rows = [
            ("security", self._security()),
            ("ephemeral secret", self._exposure()),
            ("levels", f"{self.levels} for programs: refreshed from level {self.input_level} to {self.output_level}"),
            ("failure", self._failure()),
            (
                "fit",
                f"{self.fit.mean:.1f} bits in the mean, {self.fit.worst:.1f} for a multiple of q_0 of {self.bound}",
            ),
            ("key switches", self._key_switches()),
            ("keys", f"{_gigabytes(self.bytes.keys)}; {_gigabytes(self.bytes.full_keys)} with seeded=False"),
            ("transforms", _gigabytes(self.bytes.transforms)),
            *self._measured(),
        ]
        order = "first" if self.slots_first else "last"
        head = f"{self.name}: N=2^{self.params.log_degree}, {self.params.slots} slots, slots to coefficients {order}"
        return "\n".join([head, *(f"  {label:{_LABELS}}{text}" for label, text in rows)])

    def _security(self):
        report = self.params.security
        if report is None:
            return f"none asked for: log2(QP) = {self.params.log_qp:.1f}"
        model = f"{report.attack_model}, {report.cost_model}, {report.table}"
        return f"{report.bits} bits ({model}): log2(QP) = {report.log_qp:.1f} of {report.limit}"

    def _exposure(self):
        known = SPARSE_SECURITY_BITS.get(self.params.log_degree)
        bits = f", {known} bits there" if known else ""
        return f"weight {self.secret_weight}, modulo 2^{self.exposure:.0f} (limit 2^{LARGEST_SPARSE_MODULUS}{bits})"

    def _failure(self):
        wrong = "impossible" if self.log2_wrong == -math.inf else f"2^{self.log2_wrong:.1f}"
        return f"{wrong}; customary bound P(|t/q_0| > {self.bound}) = 2^{self.log2_exceeding:.1f}"

    def _key_switches(self):
        hoisted, switched = (sum(getattr(stage, kind) for stage in self.stages) for kind in ("hoisted", "switched"))
        return f"{hoisted} hoisted + {switched}, of real slots"

    def _measured(self):
        found = self.measured
        if found is None:
            name = self.name.partition(",")[0]
            return [
                ("bits, time", f"not measured; type python -m fhejax.bootstrapping {name} --slots {self.params.slots}")
            ]
        each = found.seconds / self.levels
        kinds = {"random": found.random, "complex": found.complex, "all slots 1": found.constant}
        return [
            *((f"bits, {kind}", f"{bits.mean:.1f} mean, {bits.worst:.1f} worst") for kind, bits in kinds.items()),
            ("time", f"{found.seconds:.2f} s of processor time, {each:.3f} s a level"),
            ("time, amortised", f"{1e6 * each / self.params.slots:.2f} us a slot and level"),
            ("time of the keys", f"{found.key_seconds:.1f} s of processor time"),
            ("peak memory", f"{_gigabytes(found.peak)} with the keys and JAX"),
            ("machine", self.machine),
        ]


def card(how: Any) -> Card:
    """The card of a `Bootstrapping`."""
    preset, params, sine = how.preset, how.params, how.sine
    name = name_of(preset)
    coefficients = 2 * params.slots
    return Card(
        name=name,
        params=params,
        slots_first=how.slots_first,
        levels=how.output_level - how.input_level,
        output_level=how.output_level,
        input_level=how.input_level,
        exposure=math.log2(math.prod(exposed(params))),
        secret_weight=preset.secret_weight,
        log2_wrong=log2_failure(preset.secret_weight, preset.bound, coefficients),
        log2_exceeding=log2_exceeding(preset.secret_weight, preset.bound, coefficients),
        bound=preset.bound,
        fit=Bits(-math.log2(sine.mean_error), -math.log2(sine.error)),
        stages=tuple(stages(how)),
        bytes=sizes(how),
        measured=MEASURED.get((name, params.slots)) if how.slots_first else None,
        machine=MACHINE,
    )


def name_of(preset: Preset) -> str:
    """The name of a preset, of one with fewer slots or levels too; else "a preset of its own"."""
    for name, each in PRESETS.items():
        for slots in (1 << i for i in range(1, each.log_degree)):
            packed = each.packed(slots)
            if preset == packed:
                return name
            if preset == packed.with_depth(preset.depth):
                return f"{name}, depth {preset.depth}"
    return "a preset of its own"


def cheapest(
    operation: str, levels: int, bits: int | float | None, slots: int | None, make: Callable[..., Any]
) -> Preset:
    """The preset, cut to as many levels as needed, that takes the least work.

    Args:
      operation: on whose behalf.
      levels, bits, slots: as for `Bootstrapping.for_program`.
      make: makes a `Bootstrapping` of a preset and a packing.
    """
    levels, found = static_integer(operation, "levels", levels), []
    if levels < 1:
        raise ValueError(f"{operation}: levels = {levels}; need at least 1")
    for name, preset in PRESETS.items():
        measured = MEASURED.get((name, preset.slots))
        if preset.security is not None and preset.depth >= levels:
            if bits is None or (measured is not None and measured.random.mean >= bits):
                found.append(preset.with_depth(levels))
    if not found:
        secure = {name: preset for name, preset in PRESETS.items() if preset.security is not None}
        have = ", ".join(f"{name!r} {preset.depth} levels{_stated(name, preset)}" for name, preset in secure.items())
        asked = f"{levels} levels" + ("" if bits is None else f" and {bits:g} bits")
        raise ValueError(
            f"{operation}: no preset has {asked}; there are {have}. Bootstrap more often for fewer levels, or refine "
            "by fhejax.bootstrap(x, keys, iterations=2) for more bits"
        )
    return min(found, key=lambda preset: work(make(preset, slots)))


def _stated(name, preset):
    measured = MEASURED.get((name, preset.slots))
    return "" if measured is None else f" at {measured.random.mean:.1f} bits"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"
