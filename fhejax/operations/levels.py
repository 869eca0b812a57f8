"""Levels and scales: rescaling, dropping to a level, and bringing two operands together.

Every level has one canonical scale, s[l-1] = s[l]^2 / q[l], so a product rescaled lands on it. To go from level m down
to l < m with exactly the canonical scale of l, drop limbs to l + 1, multiply by the integer
round(s[l] q[l+1] / s[m]) and rescale: the relative error of the scale is below 1 / (2 s[l]) and smaller than the noise.

Source: Kim, Papadimitriou & Polyakov, "Approximate Homomorphic Encryption with Reduced Approximation Error", 2022,
section 4.
"""

from typing import Any, TypeVar

from fhejax.errors import LevelError, ScaleError, static_integer
from fhejax.kinds.base import Encrypted, Kind
from fhejax.kinds.requirements import check_ciphertext, check_one_kind, check_same_params, no_level
from fhejax.scheme.values import Plaintext

Encoded = TypeVar("Encoded", bound=Kind | Plaintext)
Other = TypeVar("Other", bound=Kind | Plaintext)

# A ratio of scales is rounded to an integer; with fewer bits than this the rounding would show in the values.
_LEAST_FACTOR = 2.0**15


def rescale(x: Encrypted) -> Encrypted:
    """Divides by the last prime, and drops it.

    Args:
      x: a ciphertext of level at least 1, of two or three components.

    Returns:
      Level out: one less. Scale out: scale / q_level, which for a product is the canonical scale of that level.
      Error added: the deviation of a coefficient is sqrt((1 + 2N/3)/12). Keys needed: none.

    Raises:
      LevelError: no level is left.
      ScaleError: fewer than 15 bits of scale would be left: `x` is no raw product. `drop_to_level` goes down.

    Source: Cheon, Han, Kim, Kim & Song, "A Full RNS Variant of Approximate Homomorphic Encryption", 2018.
    """
    check_ciphertext("rescale", x)
    if x.level and x.scale < _LEAST_FACTOR * x.params.moduli[x.level]:
        raise ScaleError(
            f"rescale: a scale of {x.scale:.6g} divided by level {x.level}'s prime {x.params.moduli[x.level]} leaves "
            f"{x.scale / x.params.moduli[x.level]:.6g}, too small to hold the values; products are rescaled already "
            "(raw ones, x * y, are not), and fhejax.drop_to_level(x, level) goes down"
        )
    return rescaled(x, "rescale")


def drop_to_level(x: Encrypted, level: int) -> Encrypted:
    """Brings a ciphertext to a lower level, at that level's canonical scale.

    Args:
      x: a ciphertext.
      level: the level wanted, 0 to `x.level`.

    Returns:
      The same values. Level out: `level`. Scale out: `params.scale_at(level)`. Error added: that of one rescale if
      the level changes, else none. Keys needed: none.

    Raises:
      LevelError: `level` is negative or above `x.level`.
      ScaleError: `x` is a raw product, and `level` its own.
      TypeError: `level` is not an integer.
    """
    check_ciphertext("drop_to_level", x)
    level = static_integer("drop_to_level", "level", level)
    if not 0 <= level <= x.level:
        raise LevelError(f"drop_to_level: level {level} is not between 0 and the ciphertext's level {x.level}")
    return brought_to(x, level, x.params.scale_at(level))


def align(operation: str, x: Encoded, y: Other) -> tuple[Encoded, Other]:
    """Brings two operands to one level and one scale, by changing as little as possible.

    Raises:
      ParametersMismatchError: they belong to different parameter sets.
      ScaleError: their scales are too near each other to be brought together by an integer factor.
      TypeError: one is encrypted and the other simulated.
    """
    check_one_kind(operation, (x, y))
    check_same_params(operation, x, y)
    while (x.level, x.scale) != (y.level, y.scale):
        if x.level > y.level or (x.level == y.level and x.scale < y.scale):
            x = _toward(operation, x, y)
        else:
            y = _toward(operation, y, x)
    return x, y


def to_canonical(x: Encoded) -> Encoded:
    """A raw product rescaled; an operand of any other scale brought to a canonical one, a level or two below."""
    params = x.params
    while x.scale != params.scale_at(x.level):
        if x.level and params.scale_at(x.level - 1) * params.moduli[x.level] / x.scale >= _LEAST_FACTOR:
            x = brought_to(x, x.level - 1, params.scale_at(x.level - 1))
        else:
            x = rescaled(x, "rescale")
    return x


def rescaled(x: Encoded, operation: str) -> Encoded:
    """`rescale` for anything that has levels, on behalf of `operation`."""
    if x.level == 0:
        raise no_level(operation, x, "no level is left to rescale into")
    scale = product_scale(x.params, x.level, x.scale)
    return x._change_level(1, x.level, x.level - 1, scale)


def product_scale(params: Any, level: int, scale: float) -> float:
    """The scale after a rescale from `level`: the canonical number itself where it is that one up to rounding."""
    after, canonical = scale / params.moduli[level], params.scale_at(level - 1)
    return canonical if abs(after / canonical - 1) < 2.0**-40 else after


def brought_to(x: Encoded, level: int, scale: float) -> Encoded:
    """Brings `x` to a level not above its own, and to a scale, by an integer factor and at most one rescale.

    Raises:
      ScaleError: the integer factor would be too small to be exact enough.
    """
    if (x.level, x.scale) == (level, scale):
        return x
    if x.level == level and scale < x.scale:  # only a rescale makes a scale smaller, and it takes a level
        raise ScaleError(
            f"a scale of {x.scale:.6g} at level {level} cannot be made {scale:.6g}; rescale one level higher"
        )
    top = min(x.level, level + 1)
    moduli = x.params.moduli_at(top)
    factor = scale * (moduli[top] if top > level else 1) / x.scale
    if factor < _LEAST_FACTOR:
        if x.level > level:  # a raw product: rescale it first
            return brought_to(rescaled(x, "rescale"), level, scale)
        raise ScaleError(
            f"scales {x.scale:.6g} and {scale:.6g} at level {level} differ by a factor of {factor:.6g}, too small to "
            "be made an integer; encode at params.scale_at(level), or rescale the products first"
        )
    return x._change_level(round(factor), top, level, scale)


def _toward(operation, x, y):
    try:
        return brought_to(x, y.level, y.scale)
    except (ScaleError, LevelError) as error:
        raise type(error)(f"{operation}: {error}") from None
