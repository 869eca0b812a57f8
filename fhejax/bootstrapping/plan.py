"""What a bootstrapping does and what it needs, counted without keys: key switches, work, bytes.

What is counted here is what `jax.make_jaxpr(fhejax.bootstrap)` shows, and the sizes are those of the arrays that
`Bootstrapping.keys` makes.
"""

import functools
from typing import Any, NamedTuple

from fhejax.kinds.work import width
from fhejax.linear.plan import costs
from fhejax.linear.transform import LinearTransform
from fhejax.parameters.parameters import Parameters
from fhejax.planning.plan import key_bytes
from fhejax.polynomials.plan import planned
from fhejax.polynomials.polynomial import Polynomial, pattern
from fhejax.scheme.keys import RELINEARIZATION


class Stage(NamedTuple):
    """One stage of a bootstrapping.

    Attributes:
      name: in words.
      levels: that it takes.
      hoisted: key switches that share their ModUp, and need no ModDown.
      switched: the others.
      work: about how many transforms of one limb its key switches are worth.
    """

    name: str
    levels: int
    hoisted: int
    switched: int
    work: float


class Bytes(NamedTuple):
    """What a bootstrapping holds.

    Attributes:
      keys: of all keys, the larger ones seeded.
      full_keys: of all keys, made with `seeded=False`.
      transforms: of the encoded diagonals.
    """

    keys: int
    full_keys: int
    transforms: int


def stages(how: Any, real: bool = True) -> list[Stage]:
    """The stages in the order in which they run.

    Args:
      how: a `Bootstrapping`.
      real: whether the slots are.
    """
    preset, params, made = how.preset, how.params, how.without_keys()
    down = made.coeff_to_slot
    if made.halves is not None and not real:
        down = (*down[:-1], made.halves)
    trace, top = len(how.trace_steps()), preset.top_level
    raising = Stage("raise", 0, 0, 2 + trace, (1 + trace) * costs(params, top)[1])
    to_slots = _of_transforms("coefficients to slots", down)
    conjugation = costs(params, preset.sine_level)[1]
    to_slots = to_slots._replace(switched=to_slots.switched + 1, work=to_slots.work + conjugation)
    to_coefficients = _of_transforms("slots to coefficients", made.slot_to_coeff)
    # Slots-to-coefficients last wants both halves, whatever the slots are.
    both, beside = not (real and how.slots_first), how.side_by_side
    sine = [_with(each, 2.0 if both and not beside else 1.0, 0, params) for each in _of_sine(how)]
    if both and beside and how.slots_first:  # the arcsine takes them apart, and each is added up with a rotation
        arcsine = how.sine.arcsine
        alone, two = (planned((pattern(arcsine),) * count).cost[0] for count in (1, 2))
        apart = two / max(alone, 1)  # a line takes no product
        sine[-1] = _with(sine[-1], apart, 2, params)
    elif both and beside:
        to_coefficients = _with(to_coefficients, 1.0, 1, params)
    middle = [raising, to_slots, *sine]
    return [to_coefficients, *middle] if how.slots_first else [*middle, to_coefficients]


def sizes(how: Any) -> Bytes:
    """The bytes of keys and transforms.

    Args:
      how: a `Bootstrapping`.
    """
    params, preset, made = how.params, how.preset, how.without_keys()
    transforms = [each for each in (*made.coeff_to_slot, *made.slot_to_coeff, made.halves) if each is not None]
    levels, repeated = how.galois_levels(transforms)
    full, uses = {RELINEARIZATION, *repeated}, {RELINEARIZATION: preset.sine_level} | levels
    # To the sparse secret modulo q_0 p_0, and back; always seeded.
    others = 8 * 2 * params.degree + 32 + key_bytes(params, params.max_level, True)
    size = functools.partial(key_bytes, params)
    seeded = sum(size(level, element not in full) for element, level in uses.items())
    return Bytes(others + seeded, others + sum(map(size, uses.values())), sum(map(_encoded_bytes, transforms)))


def work(how: Any) -> float:
    """About what a bootstrapping of real slots takes, in transforms of one limb of 2^16 and of 50 bits.

    Good for comparing presets.

    Args:
      how: a `Bootstrapping`.
    """
    params = how.params
    share = params.degree * params.log_degree / (16 << 16)
    return share * width(params) * sum(stage.work for stage in stages(how))


def _with(stage: Stage, times: float, rotations: int, params: Parameters) -> Stage:
    """A stage that is done so often, and some rotations at the level of fresh ciphertexts."""
    added = rotations * costs(params, params.fresh_level)[1]
    return stage._replace(switched=round(times * stage.switched) + rotations, work=times * stage.work + added)


def _of_transforms(name: str, transforms: tuple[LinearTransform, ...]) -> Stage:
    plans = [(each.plan, costs(each.params, each.level)) for each in transforms]
    total = sum(plan.hoisted * baby + plan.switched * giant for plan, (baby, giant) in plans)
    hoisted, switched = (sum(getattr(plan, kind) for plan, _ in plans) for kind in ("hoisted", "switched"))
    return Stage(name, len(transforms), hoisted, switched, total)


def _of_sine(how: Any) -> list[Stage]:
    sine, params, level = how.sine, how.params, how.preset.sine_level
    steps = [
        ("cosine", sine.cosine.depth, _products(sine.cosine)),
        ("doublings", how.preset.doublings, how.preset.doublings),
        ("arcsine", sine.arcsine.depth, _products(sine.arcsine)),
    ]
    found = []
    for name, levels, products in steps:
        # Products are spread over the levels.
        found.append(Stage(name, levels, 0, products, products * costs(params, level - levels // 2)[1]))
        level -= levels
    return found


def _products(polynomial: Polynomial) -> int:
    return planned((pattern(polynomial),)).cost[0]


def _encoded_bytes(transform: LinearTransform) -> int:
    limbs = transform.level + 1 + len(transform.params.special_moduli)
    return 8 * transform.plan.terms * limbs * 2 * transform.values.shape[-1]


def exposed(params: Parameters) -> tuple[int, int]:
    """The primes of the only key that is public under the ephemeral secret."""
    return params.moduli[0], params.special_moduli[0]
