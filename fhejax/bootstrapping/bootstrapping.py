"""Bootstrapping as a value: a preset with a packing and an order, its transforms and its keys."""

import copy
import dataclasses
import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import jax

from fhejax.bootstrapping.dft import (
    Map,
    after_rotation,
    beside,
    coefficients_to_slots_factors,
    of_both,
    one_way,
    slots_to_coefficients_factors,
)
from fhejax.bootstrapping.keys import encapsulation_keys
from fhejax.bootstrapping.mod1 import Sine, sine
from fhejax.bootstrapping.preset import PRESETS, Preset
from fhejax.bootstrapping.report import Card, card, cheapest, name_of
from fhejax.errors import LevelError
from fhejax.linear.transform import LinearTransform
from fhejax.parameters.parameters import Parameters
from fhejax.planning.plan import key_bytes
from fhejax.scheme.keys import RELINEARIZATION, check_one, galois_element, restricted, switching_keys
from fhejax.scheme.random import Seed, seed_for, split_seed
from fhejax.scheme.values import EvaluationKeys, SecretKey

_STATIC = {"static": True}


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Bootstrapping:
    """How ciphertexts are refreshed: which primes, which polynomials, which order.

    Attributes:
      preset: the recipe.
      params: the parameter set that it makes.
      slots_first: whether slots become coefficients before the modulus is raised, at the bottom of the chain, which is
        more precise; or at the end, which refreshes ciphertexts of level 0.
      height: what messages come out multiplied by, at no cost; see `with_height`.
      shortened: whether it is for part of a chain; see `shortened_to`.
    """

    preset: Preset
    params: Parameters
    slots_first: bool
    height: float
    shortened: bool

    def __init__(self, preset: str | Preset = "C", slots: int | None = None, slots_first: bool | None = None) -> None:
        if isinstance(preset, str):
            if preset not in PRESETS:
                raise ValueError(f"Bootstrapping: no preset {preset!r}; there are {', '.join(map(repr, PRESETS))}")
            # The preset for trying things out takes ciphertexts of any level.
            slots_first = preset != "T" if slots_first is None else slots_first
            preset = PRESETS[preset]
        preset = preset if slots is None else preset.packed(slots)
        first = True if slots_first is None else slots_first
        self._set(preset=preset, params=_parameters(preset, slots), slots_first=first, height=1.0, shortened=False)

    @classmethod
    def from_parameters(
        cls, preset: Preset, params: Parameters, slots_first: bool, shortened: bool = False
    ) -> "Bootstrapping":
        """With a chain that is there already, or part of one.

        Raises:
          ValueError: it is not one of the recipe.
        """
        shape = preset.log_degree, preset.top_level, preset.level - shortened
        if shape != (params.log_degree, params.max_level, params.fresh_level):
            raise ValueError(
                f"the recipe makes N = 2^{shape[0]} and levels to {shape[1]}, fresh at {shape[2]}; the parameters are "
                f"{params!r}, with levels to {params.max_level}"
            )
        made = object.__new__(cls)
        return made._set(preset=preset, params=params, slots_first=slots_first, height=1.0, shortened=shortened)

    def _set(self, **fields: Any) -> "Bootstrapping":
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        return self

    @classmethod
    def for_program(cls, levels: int, bits: int | float | None = None, slots: int | None = None) -> "Bootstrapping":
        """The cheapest bootstrapping that a program can do with, among the secure presets.

        A preset's levels are cut to those needed, which makes it cheaper.

        Args:
          levels: from one bootstrapping to the next.
          bits: of precision, -log2 of the mean error of values up to 1; any if None.
          slots: as for the constructor.

        Raises:
          ValueError: no preset has so many levels and bits; the message says what there is.

        Example:
          >>> import fhejax as fhe
          >>> boot = fhe.Bootstrapping.for_program(levels=6, bits=25)
          >>> boot.output_level - boot.input_level, boot.params.security_bits
          (6, 128)
        """
        return cls(cheapest("Bootstrapping.for_program", levels, bits, slots, cls), slots)

    def card(self) -> Card:
        """What there is to say of it: security, levels, bits, failure, memory, time. `print` shows it."""
        return card(self)

    def __str__(self) -> str:
        return repr(self.card())

    @property
    def ratio(self) -> float:
        """How many times q_0 is larger than the scale of a message."""
        return self.params.moduli[0] / self.params.scale_at(0)

    @property
    def sine(self) -> Sine:
        """The polynomials that take multiples of q_0 away."""
        return sine(self.preset, self.ratio, self.height)

    @property
    def raised(self) -> int:
        """The integer that raised residues are multiplied by, so that t / q_0 fills the scale of the top."""
        return round(self.params.scale_at(self.preset.top_level) / self.params.moduli[0])

    def with_height(self, height: float) -> "Bootstrapping":
        """The same, but that messages come out multiplied by a number of at most 1, which the sine's last step does.

        The keys are the same too.
        """
        return copy.copy(self)._set(height=float(height))

    @property
    def input_level(self) -> int:
        """The level from which ciphertexts are refreshed."""
        return self.preset.slot_levels if self.slots_first else 0

    @property
    def output_level(self) -> int:
        """The level to which they are refreshed."""
        if not self.slots_first:
            return self.preset.depth
        # A shortened chain ends in the prime that leads from the sine's scale to that of programs, which is no prime of
        # theirs at that level.
        return self.preset.level - self.shortened

    def shortened_to(self, level: int) -> "Bootstrapping":
        """For programs of the same parameters that need fewer levels: a chain without the primes between.

        Raised is to the primes needed: those up to the level, the one above them all at which the sine ends, and those
        of the sine and of coefficients-to-slots. Its keys are of the same secret.

        Args:
          level: the output level.

        Raises:
          LevelError: there is no such output level.
        """
        preset, params = self.preset, self.params
        if not self.input_level < level < self.output_level - self.slots_first:
            raise LevelError(
                f"Bootstrapping: to_levels: level {level}; chains can be shortened to levels {self.input_level + 1} to "
                f"{self.output_level - self.slots_first - 1}"
            )
        depth = level + 1 - preset.slot_levels if self.slots_first else level
        kept = [*range(preset.slot_levels + depth), *range(preset.level, params.max_level + 1)]
        chain = params.with_levels(kept)
        return copy.copy(self)._set(preset=dataclasses.replace(preset, depth=depth), params=chain, shortened=True)

    @property
    def side_by_side(self) -> bool:
        """Whether both halves of the coefficients go through the sine as one ciphertext of twice the slots.

        With few slots there is room. With slots-to-coefficients first, the arcsine takes them apart again.
        """
        return 4 * self.params.slots <= self.params.degree

    def coeff_to_slot(self, encoded: bool = True) -> tuple[LinearTransform, ...]:
        """The transforms after raising, from the top down; they leave slots rotated, as `slot_to_coeff` takes them."""
        *factors, last = self._raised_factors()[0]
        last = beside(last) if self.side_by_side and not self.slots_first else last
        return self._transforms([*factors, last], self._whole, self.preset.top_level, encoded)

    def halves(self, encoded: bool = True) -> LinearTransform | None:
        """What stands for the last of `coeff_to_slot` where slots-to-coefficients is first and slots are complex.

        None where both halves go through the sine as ciphertexts of their own.
        """
        if not (self.side_by_side and self.slots_first):
            return None
        factors, _ = self._raised_factors()
        share = self._whole ** (1 / len(factors))
        return self._transforms([beside(factors[-1])], share, self.preset.top_level - len(factors) + 1, encoded)[0]

    @property
    def _whole(self) -> float:
        """What the transforms after raising multiply by in all."""
        params = self.params
        # The trace over a subring multiplies by its index; the real part takes a half.
        index = params.degree / params.slots
        return params.scale_at(self.preset.top_level) / (self.raised * params.moduli[0]) / self.sine.width / index

    def slot_to_coeff(self, encoded: bool = True) -> tuple[LinearTransform, ...]:
        """The transforms that make slots coefficients."""
        _, turn = self._raised_factors()
        *factors, last = slots_to_coefficients_factors(self.params.slots, self.preset.slot_levels)
        factors, turn = one_way(factors, turn)
        factors.append(after_rotation(last, turn))
        if self.side_by_side and not self.slots_first:
            factors[0] = of_both(factors[0])
        return self._transforms(
            factors, 1.0, self.preset.slot_levels if self.slots_first else self.preset.level, encoded
        )

    def _raised_factors(self) -> tuple[list[Map], int]:
        return one_way(coefficients_to_slots_factors(self.params.slots, self.preset.coefficient_levels))

    def _transforms(self, factors: list[Map], whole: float, top: int, encoded: bool) -> tuple[LinearTransform, ...]:
        share = whole ** (1 / len(factors))
        transforms = []
        for level, factor in zip(range(top, 0, -1), factors, strict=False):
            diagonals = {step: share * diagonal for step, diagonal in factor.items()}
            cost = self.preset.key_cost * key_bytes(self.params, level, True) / 2**20
            slots = len(next(iter(diagonals.values())))
            made = LinearTransform.from_diagonals(
                diagonals, self.params, level, slots=slots, encoded=encoded, key_cost=cost
            )
            transforms.append(made)
        return tuple(transforms)

    def keys(
        self,
        seed: Seed,
        secret: SecretKey,
        *,
        to_levels: Iterable[int] = (),
        seeded: bool = True,
        progress: bool = False,
    ) -> "BootstrappingKeys":
        """Makes the keys, each up to the level where it is used, and encodes the transforms.

        Args:
          seed: `uint32[8]` of its own.
          secret: the secret key, of `params`.
          to_levels: lower output levels that `fhejax.bootstrap(..., to_level=...)` shall reach for less: for each there
            are keys besides, for a chain without the primes between.
          seeded: whether to leave out the random half of the keys that are used once, which is most of them; what is
            used many times is quicker with both halves at hand.
          progress: whether to show a progress meter, which needs tqdm.
        """
        check_one("Bootstrapping.keys", secret)
        first, second, third = split_seed(seed_for("bootstrapping_keys", seed, secret), 3)
        down, up, halves = self.coeff_to_slot(), self.slot_to_coeff(), self.halves()
        levels, repeated = self.galois_levels((*down, *up, *([] if halves is None else [halves])))
        full = {RELINEARIZATION, *repeated}
        evaluation = switching_keys(first, secret, self.preset.sine_level, levels, seeded, progress, full)
        to_sparse, to_dense = encapsulation_keys(second, secret.data, self.params, self.preset.secret_weight)
        shorter = [self.shortened_to(level) for level in sorted(to_levels)]
        seeds = split_seed(third, len(shorter)) if shorter else ()
        more = tuple(
            how.keys(each, restricted(secret, how.params), seeded=seeded, progress=progress)
            for each, how in zip(seeds, shorter, strict=True)
        )
        return BootstrappingKeys(evaluation, to_sparse, to_dense, down, halves, up, self, more)

    def without_keys(self) -> "BootstrappingKeys":
        """What simulated values take for keys: the transforms alone, as numbers, made once.

        Give them to jitted functions as an argument: what they close over becomes a constant of the program.
        """
        return _without_keys(self)

    def galois_levels(self, transforms: Iterable[LinearTransform]) -> tuple[dict[int, int], set[int]]:
        """By galois element, the level up to which there is a key; and the elements that a bootstrapping uses often.

        Args:
          transforms: those of both kinds.
        """
        params, preset = self.params, self.preset
        uses = [(2 * params.degree - 1, preset.sine_level)]
        uses += [(galois_element(params, step), preset.top_level) for step in self.trace_steps()]
        uses += [(galois_element(params, step), each.level) for each in transforms for step in each.rotations]
        levels: dict[int, int] = {}
        for element, level in uses:
            levels[element] = max(level, levels.get(element, 0))
        chains = [each for each in transforms if each.plan.repeated and each.plan.switched > 2]
        return levels, {galois_element(params, each.plan.stride) for each in chains}

    def __repr__(self) -> str:
        order = "" if self.slots_first else ", slots to coefficients last"
        levels = self.output_level - self.input_level
        return f"Bootstrapping({name_of(self.preset)}, levels={levels}{order}, {self.params!r})"

    def trace_steps(self) -> list[int]:
        """The rotations that add up what lies outside of the subring of a sparse packing."""
        full = self.params.degree // 2
        return [self.params.slots << i for i in range((full // self.params.slots).bit_length() - 1)]


@functools.lru_cache(maxsize=32)
def _parameters(preset, slots):
    return preset.parameters(slots)


@functools.lru_cache(maxsize=4)
def _without_keys(how):
    with jax.ensure_compile_time_eval():  # for as long as the process lives, whoever traces now
        return BootstrappingKeys(
            None, None, None, how.coeff_to_slot(False), how.halves(False), how.slot_to_coeff(False), how
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class BootstrappingKeys:
    """What `fhejax.bootstrap` takes; made by `Bootstrapping.keys`.

    Attributes:
      evaluation: rotations, conjugation and products; None, as the next two, for simulated values.
      to_sparse: the key to the ephemeral secret, modulo q_0 p_0.
      to_dense: the key back, at the top level.
      coeff_to_slot: the transforms after raising.
      halves: for complex slots, what takes the place of the last of them; see `Bootstrapping.halves`.
      slot_to_coeff: the transforms that make slots coefficients.
      bootstrapping: how.
      shorter: keys for lower output levels.
    """

    evaluation: EvaluationKeys | None
    to_sparse: Any
    to_dense: Any
    coeff_to_slot: tuple[LinearTransform, ...]
    halves: LinearTransform | None
    slot_to_coeff: tuple[LinearTransform, ...]
    bootstrapping: Bootstrapping = field(metadata=_STATIC)
    shorter: "tuple[BootstrappingKeys, ...]" = ()

    @property
    def params(self) -> Parameters:
        """The parameter set."""
        return self.bootstrapping.params
