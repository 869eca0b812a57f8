"""Ciphertexts refreshed: once, or in several iterations for more bits, and in loops.

A bootstrapping errs by some 2^-27, whatever the size of the message. So where a scale holds more bits than that, it is
repeated for what it got wrong: with y the refreshed x, the residual x - y is small, 2^k times it is bootstrapped as
well, and 2^-k times the result is added to y, with an error that is 2^k times smaller. The factor 2^-k is a part of the
sine's last polynomial (`Bootstrapping.with_height`) and takes no level.

Source: Bae, Cheon, Cho, Kim & Kim, "META-BTS: Bootstrapping Precision Beyond the Limit", 2022.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from fhejax.bootstrapping.bootstrapping import Bootstrapping, BootstrappingKeys
from fhejax.bootstrapping.stages import by_stages, checked_bootstrapping_keys, joined
from fhejax.errors import LevelError, static_integer
from fhejax.kinds.base import Encrypted
from fhejax.operations.arithmetic import add, subtract
from fhejax.operations.levels import drop_to_level, to_canonical
from fhejax.parameters.parameters import Parameters

# A residual is enlarged by 2^12 at most: what any preset gets wrong is smaller than 2^-12 by far.
_MOST_BITS = 12


def bootstrap(
    x: Encrypted, keys: BootstrappingKeys | Bootstrapping, *, iterations: int = 1, to_level: int | None = None
) -> Encrypted:
    """Refreshes a ciphertext: the same values at a level from which programs can go on.

    Args:
      x: a ciphertext of two components, or simulated values; every entry of a batch is refreshed. Its values may be 1
        at most, of complex ones the real and the imaginary part; ciphertexts cannot tell, simulated values warn. It is
        at `keys.bootstrapping.input_level` or above.
      keys: what `Bootstrapping.keys` makes. For simulated values, a `Bootstrapping` serves as well, or
        `Bootstrapping.without_keys()`; they are computed in double precision whatever the x64 flag, and have the
        gradient of their operand.
      iterations: how often to bootstrap: every further time makes the error that the sine leaves 2^12 times smaller,
        until the roundings of the programs' scale are larger; the preset "M" has a wide one.
      to_level: of the result; the output level if None. The shortest keys that reach it are taken, of those that
        `Bootstrapping.keys(..., to_levels=...)` made. With keys for the output level alone, the result is dropped to
        the level, which costs as much as without.

    Returns:
      Level out: `to_level`, or `keys.bootstrapping.output_level`. Scale out: canonical. Error added: that of the four
      stages, which `simulate` states; about 2^-26 for the preset "C". Keys needed: `Bootstrapping.keys`.

    Raises:
      LevelError: `x` is below the input level, or `to_level` above the output level.
      MissingKeyError: `keys` were made for simulated values.
      ParametersMismatchError: parameters or slots differ.
      TypeError: `x` is not a ciphertext, or `keys` are not those of a bootstrapping.
      ValueError: a ciphertext of three components, or fewer iterations than one.

    Source: Cheon, Han, Kim, Kim & Song, "Bootstrapping for Approximate Homomorphic Encryption", 2018; the order with
    slots-to-coefficients first, Chen & Han, "Homomorphic Lower Digits Removal and Improved FHE Bootstrapping", 2018;
    iterations, Bae, Cheon, Cho, Kim & Kim, 2022.
    """
    keys = shortest("bootstrap", checked_bootstrapping_keys("bootstrap", x, keys), to_level)
    own = at_input_level("bootstrap", x, keys)
    (y,) = iterated("bootstrap", own, keys, iterations, lambda x, keys: [x._refresh(by_stages, keys)])
    return at_level(y, x.params, keys, to_level)


def refresh(x: Encrypted, keys: BootstrappingKeys | Bootstrapping, *, iterations: int = 1) -> Encrypted:
    """x at the output level: dropped to it from above, bootstrapped from below.

    So what goes into a loop and what comes out of its body have one type, and `jax.lax.scan` and `jax.lax.while_loop`
    compile the body once for any number of steps:

        step = lambda x, _: (fhejax.refresh(body(x), keys), None)
        x, _ = jax.lax.scan(step, fhejax.refresh(x, keys), length=1000)

    Args:
      x, keys, iterations: as for `bootstrap`.

    Returns:
      Level out: `keys.bootstrapping.output_level`. Scale out: canonical. Error added: as of `drop_to_level` or
      `bootstrap`.

    Raises:
      As `bootstrap`.
    """
    keys = checked_bootstrapping_keys("refresh", x, keys)
    level = keys.bootstrapping.output_level
    x = to_canonical(x)
    return drop_to_level(x, level) if x.level >= level else bootstrap(x, keys, iterations=iterations)


def iterated(
    operation: str,
    x: Any,
    keys: BootstrappingKeys,
    iterations: int,
    once: Callable[[Any, BootstrappingKeys], list[Any]],
) -> list[Any]:
    """What `once` gives, refined in iterations.

    Args:
      operation: on whose behalf.
      x: of the input level.
      keys: of its parameters.
      iterations: at least 1.
      once: bootstraps x, into one or two parts that `joined` joins.
    """
    if (iterations := static_integer(operation, "iterations", iterations)) < 1:
        raise ValueError(f"{operation}: iterations = {iterations}; need at least 1")
    how, parts = keys.bootstrapping, once(x, keys)
    for i in range(1, iterations):
        # The residual is from what was refreshed, errors included: it takes them away.
        parts = [part._without_errors() for part in parts]
        bits = i * _bits(how)
        # Not `multiply_plain`, which asks whether the factor would fit at level 0: its product with a residual does.
        residual = subtract(x, joined(parts))._multiply_integer(1 << bits)
        small = dataclasses.replace(keys, bootstrapping=how.with_height(2.0**-bits))
        parts = [add(part, more) for part, more in zip(parts, once(residual, small), strict=True)]
    return parts


def _bits(how):
    """By how many bits a residual may be enlarged."""
    return max(0, min(_MOST_BITS, math.floor(-math.log2(how.sine.error))))


def shortest(operation: str, keys: BootstrappingKeys, to_level: int | None) -> BootstrappingKeys:
    """The keys for the lowest output level that is not below `to_level`.

    Raises:
      LevelError: none is so high, or `to_level` is negative.
    """
    if to_level is None:
        return keys
    level, highest = static_integer(operation, "to_level", to_level), keys.bootstrapping.output_level
    if not 0 <= level <= highest:
        raise LevelError(f"{operation}: to_level = {level}; these keys refresh to levels 0 to {highest}")
    reaching = [each for each in (keys, *keys.shorter) if each.bootstrapping.output_level >= level]
    return min(reaching, key=lambda each: each.bootstrapping.output_level)


def at_input_level(operation: str, x: Any, keys: BootstrappingKeys) -> Any:
    """x at the level from which it is refreshed, as a ciphertext of the keys' own parameters.

    Raises:
      LevelError: it is below that level.
    """
    level, x = keys.bootstrapping.input_level, to_canonical(x)
    if x.level < level:
        raise LevelError(
            f"{operation}: with slots-to-coefficients first a ciphertext is refreshed from level {level}, and this one "
            f"is at level {x.level}; bootstrap it earlier, or type Bootstrapping(..., slots_first=False), which "
            "refreshes ciphertexts of level 0"
        )
    return dataclasses.replace(drop_to_level(x, level), params=keys.params)


def at_level(y: Any, params: Parameters, keys: BootstrappingKeys, to_level: int | None) -> Any:
    """What comes out, as a ciphertext of the parameters of what went in: all its primes are among their first ones."""
    level = keys.bootstrapping.output_level if to_level is None else to_level
    return dataclasses.replace(drop_to_level(y, level), params=params)
