"""Which evaluation keys a program needs, known before any is made.

The program is traced with an object in place of its keys that has every key. Each key that an operation takes from it
becomes an equation of the jaxpr, with the galois element and the level. So what jit, vmap, scan and cond do to the
program they do to the record, and a part whose trace is cached brings its record along.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from fhejax import _compat
from fhejax.errors import static_integer
from fhejax.kinds.requirements import check_same_params
from fhejax.parameters.parameters import Parameters
from fhejax.planning.rotation_keys import Rotation, choose_steps, paths, smallest_steps
from fhejax.scheme.keys import check_one, galois_element, switching_keys
from fhejax.scheme.random import Seed
from fhejax.scheme.values import EvaluationKeys, SecretKey, SwitchingKey, galois_steps, megabytes

_PRIMITIVE = "fhejax_planned_key"
_RELINEARIZATION = 0  # among galois elements, which are odd


class KeyUse(NamedTuple):
    """A key that a program asks for.

    Attributes:
      element: the galois element; 0 for relinearisation.
      level: of the ciphertext.
      slots: of the ciphertext, if it is a rotation that may be composed of others; else None.
      count: how often: inside `scan` by its length, of the branches of `cond` the most, inside `while_loop` once.
    """

    element: int
    level: int
    slots: int | None
    count: int


@dataclasses.dataclass(frozen=True, repr=False)
class KeyPlan:
    """Evaluation keys to be made, each with the highest level at which a program uses it; from `plan_keys`.

    Attributes:
      params: the parameter set.
      relinearization: the level of the relinearisation key; None without one.
      galois: for rotations and conjugation, level by galois element.
      uses: what the program asks for.
    """

    params: Parameters
    relinearization: int | None
    galois: dict[int, int]
    uses: tuple[KeyUse, ...]

    @property
    def rotations(self) -> dict[int, int]:
        """Level by step in [0, N/2)."""
        steps = galois_steps(self.params.degree)
        return dict(sorted((steps[g], level) for g, level in self.galois.items() if g in steps))

    @property
    def conjugation(self) -> int | None:
        """The level of the conjugation key; None without one."""
        return self.galois.get(2 * self.params.degree - 1)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Every (step, level) at which the program rotates."""
        steps = galois_steps(self.params.degree)
        return tuple(sorted({(steps[use.element], use.level) for use in self.uses if use.element in steps}))

    @property
    def extra_key_switches(self) -> int:
        """How many key switches the program takes more than if each of its rotations had a key of its own.

        Loops are counted as in `KeyUse`, and all branches of a `cond` together.
        """
        return sum(each.count * (len(path) - 1) for each, path in paths(self._composable(), self.rotations))

    def bytes(self, seeded: bool = False) -> int:
        """What the keys take, in memory and, up to the header, in a file.

        Args:
          seeded: for keys made with `seeded=True`.
        """
        levels = (self.relinearization, *self.galois.values())
        return sum(key_bytes(self.params, level, seeded) for level in levels if level is not None)

    def generate(
        self, seed: Seed, secret: SecretKey, *, seeded: bool = False, progress: bool = False
    ) -> EvaluationKeys:
        """Makes just these keys, each only up to its level: parts of those that `evaluation_keys` makes from the seed.

        Args:
          seed: `uint32[8]` of its own.
          secret: the secret key.
          seeded: whether to leave out the random half of every key; see `evaluation_keys`.
          progress: whether to show a progress meter.

        Raises:
          TypeError: `seed` is not a seed, or `secret` not a secret key.
          ValueError: `secret` is a batch.
          ParametersMismatchError: `secret` belongs to another parameter set.
          ImportError: a progress meter without tqdm.
        """
        check_one("plan.generate", secret)
        check_same_params("plan.generate", self, secret)
        return switching_keys(seed, secret, self.relinearization, self.galois, seeded, progress)

    def within(self, limit: int, *, seeded: bool = False) -> "KeyPlan":
        """A plan whose keys fit a memory limit: rotations without a key of their own are composed of others.

        Keys are chosen one by one for few key switches; the result's `extra_key_switches` says what it costs.

        Args:
          limit: bytes.
          seeded: whether the keys will be made with `seeded=True`.

        Raises:
          ValueError: not even the smallest set of keys fits.

        Example:
          >>> import fhejax as fhe
          >>> params = fhe.Parameters.for_depth(1)
          >>> x = fhe.encrypt(fhe.new_seed(), fhe.secret_key(fhe.new_seed(), params), [1.0, 2.0])
          >>> plan = fhe.plan_keys(lambda x, keys: fhe.rotate_many(x, range(16), keys), x)
          >>> small = plan.within(plan.bytes() // 3)
          >>> small.rotations, small.extra_key_switches
          ({1: 1, 3: 1, 5: 1, 7: 1, 8: 1}, 10)
        """
        limit = static_integer("within", "limit", limit)
        if self.bytes(seeded) <= limit:
            return self
        size = functools.partial(key_bytes, self.params, seeded=seeded)
        steps, rotations = galois_steps(self.params.degree), self._composable()
        alone = _levels(use for use in self.uses if use.slots is None and use.element != _RELINEARIZATION)
        fixed = {steps[g]: level for g, level in alone.items() if g in steps}
        others = {g: level for g, level in alone.items() if g not in steps}
        rest = sum(size(level) for level in (self.relinearization, *others.values()) if level is not None)
        least = smallest_steps(rotations, fixed, self.params.degree // 2)
        if (needed := rest + sum(map(size, least.values()))) > limit:
            raise ValueError(
                f"within: {limit} bytes are not enough: the smallest set of keys takes {needed}; it has the rotations "
                f"{list(least)} and what cannot be composed. "
                + ("Compute at lower levels" if seeded else "seeded=True halves it")
            )
        chosen = choose_steps(rotations, fixed, size, limit - rest, self.params.degree // 2)
        galois = others | {galois_element(self.params, step): level for step, level in chosen.items()}
        return dataclasses.replace(self, galois=galois)

    def __repr__(self) -> str:
        kinds = [("relinearization", self.relinearization, [""])]
        for level in sorted({*self.rotations.values()}, reverse=True):
            kinds.append(("rotation", level, [str(step) for step, at in self.rotations.items() if at == level]))
        kinds.append(("conjugation", self.conjugation, [""]))
        rows = [("key", "level", "number", "size", "steps")]
        for kind, level, steps in kinds:
            if level is not None:
                size = megabytes(len(steps) * key_bytes(self.params, level))
                rows.append((kind, str(level), str(len(steps)), size, ", ".join(steps)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        sizes = f"{megabytes(self.bytes())}, seeded {megabytes(self.bytes(seeded=True))}"
        head = f"KeyPlan(N=2^{self.params.log_degree}, {sizes}, {self.extra_key_switches} key switches for composing)"
        return "\n".join([head, *lines])

    def _composable(self) -> list[Rotation]:
        steps = galois_steps(self.params.degree)
        return [Rotation(steps[use.element], use.level, use.slots, use.count) for use in self.uses if use.slots]


def plan_keys(function: Callable[..., Any], *avals: Any) -> KeyPlan:
    """The evaluation keys that a function on ciphertexts needs, found by tracing it without keys and without data.

    Args:
      function: takes ciphertexts and evaluation keys; what `jax.jit` takes. Keys that it closes over are not planned.
        Of a function mapped over the keys of many users, plan the one for a single user.
      *avals: its arguments or their shapes, as for `jax.eval_shape`, whose results will do. None stands where the keys
        go; without one, they come last. At least one argument has parameters: a ciphertext, real, simulated, or made
        of shapes.

    Returns:
      Exactly the keys that it asks for, each up to the highest level at which it does.

    Raises:
      TypeError: no argument has parameters.
      ParametersMismatchError: arguments of several parameter sets.
      And what the function raises when it is traced.

    Example:
      >>> import fhejax as fhe
      >>> params = fhe.Parameters.for_depth(2)
      >>> x = fhe.encrypt(fhe.new_seed(), fhe.secret_key(fhe.new_seed(), params), [1.0, 2.0])
      >>> plan = fhe.plan_keys(lambda x, keys: fhe.rotate(fhe.square(x, keys), 3, keys), x)
      >>> plan.rotations, plan.relinearization, plan.conjugation
      ({3: 1}, 2, None)
    """
    params = _parameters(avals)
    keys = _PlannedKeys(jax.ShapeDtypeStruct((), np.bool_), params)
    given = avals if any(aval is None for aval in avals) else (*avals, None)
    arguments = [keys if aval is None else jax.tree.map(_compat.abstract, aval) for aval in given]
    counts = _compat.count_equations(jax.make_jaxpr(function)(*arguments).jaxpr, _PRIMITIVE)
    uses = (KeyUse(key["element"], key["level"], key["slots"], count) for key, count in counts)
    uses = tuple(sorted(uses, key=lambda use: (use.element, -use.level, use.slots or 0)))
    galois = _levels(uses)
    return KeyPlan(params, galois.pop(_RELINEARIZATION, None), galois, uses)


class _PlannedKeys(EvaluationKeys):
    """Evaluation keys in which every key is there, made of nothing but the record that it was asked for.

    The keys' equations depend on the token: it is what JAX passes into loops and branches.
    """

    __slots__ = ("token",)

    def __init__(self, token: Any, params: Parameters) -> None:
        object.__setattr__(self, "token", token)
        object.__setattr__(self, "params", params)

    def relinearization_key(self, level: int) -> SwitchingKey:
        return self._planned(_RELINEARIZATION, level, None)

    def galois_key(self, element: int, level: int, slots: int | None = None) -> SwitchingKey:
        return self._planned(element, level, slots)

    def _planned(self, element, level, slots):
        data = _planned_key.bind(self.token, element=element, level=level, slots=slots, params=self.params)
        return SwitchingKey(data, self.params, level)

    # Programs that take a key without saying for which level get it for the top one.

    @property
    def relinearization(self) -> SwitchingKey:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.relinearization_key(self.params.max_level)

    @property
    def galois(self) -> "_EveryKey":  # pyright: ignore[reportIncompatibleVariableOverride]
        return _EveryKey(self)

    def __repr__(self) -> str:
        return "EvaluationKeys(every key, for fhejax.plan_keys)"


class _EveryKey(Mapping[int, SwitchingKey]):
    """What stands for `EvaluationKeys.galois`."""

    def __init__(self, keys: _PlannedKeys) -> None:
        self._keys = keys

    def __getitem__(self, element: int) -> SwitchingKey:
        if element not in self:
            raise KeyError(element)
        return self._keys.galois_key(element, self._keys.params.max_level)

    def __contains__(self, element: object) -> bool:
        degree = self._keys.params.degree
        return element != 1 and (element in galois_steps(degree) or element == 2 * degree - 1)

    def __iter__(self) -> Iterator[int]:
        degree = self._keys.params.degree
        return iter(sorted({*galois_steps(degree), 2 * degree - 1} - {1}))

    def __len__(self) -> int:
        return self._keys.params.degree // 2


jax.tree_util.register_pytree_node(
    _PlannedKeys, lambda keys: ((keys.token,), keys.params), lambda params, token: _PlannedKeys(*token, params)
)
_planned_key = _compat.make_primitive(
    _PRIMITIVE,
    lambda token, *, element, level, slots, params: _compat.like((token,), _key_shape(params, level), np.uint64, 0),
    multiple_results=False,
)


def _key_shape(params: Parameters, level: int) -> tuple[int, int, int, int]:
    return len(params.digit_moduli(level)), 2, level + 1 + len(params.special_moduli), params.degree


def key_bytes(params: Parameters, level: int, seeded: bool = False) -> int:
    """What a switching key up to a level takes, in memory and, up to the header, in a file."""
    size = 8 * math.prod(_key_shape(params, level))
    return size // 2 + 32 if seeded else size


def _levels(uses: Iterable[KeyUse]) -> dict[int, int]:
    """The highest level by galois element."""
    levels: dict[int, int] = {}
    for use in uses:
        levels[use.element] = max(use.level, levels.get(use.element, 0))
    return levels


def _parameters(avals: tuple[Any, ...]) -> Parameters:
    """Those that the arguments share."""

    def has(value):
        return isinstance(getattr(value, "params", None), Parameters)

    found = [value for value in jax.tree.leaves(avals, is_leaf=has) if has(value)]
    if not found:
        raise TypeError(
            "plan_keys: no argument is a ciphertext; type plan_keys(function, x) with a ciphertext x, or with its "
            "shape from jax.eval_shape(fhejax.encrypt, seed, key, values)"
        )
    check_same_params("plan_keys", *found)
    return found[0].params
