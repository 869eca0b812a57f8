"""Many ciphertexts refreshed in one call; real ones in pairs.

A pair of real ciphertexts is one complex one, x + i y, exactly. It costs one coefficients-to-slots, and with few slots
one sine as well, and comes apart into real and imaginary parts again. The pairs are refreshed one after the other by
one compiled program, so that memory does not grow with their number.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from fhejax import _compat
from fhejax.bootstrapping.bootstrapping import Bootstrapping, BootstrappingKeys
from fhejax.bootstrapping.refresh import at_input_level, at_level, iterated, shortest
from fhejax.bootstrapping.stages import by_stages, checked_bootstrapping_keys, refreshed_parts
from fhejax.kinds.requirements import check_one_kind
from fhejax.operations.arithmetic import add, subtract
from fhejax.operations.rotations import conjugate


def bootstrap_many(
    xs: Any, keys: BootstrappingKeys | Bootstrapping, *, iterations: int = 1, to_level: int | None = None
) -> Any:
    """Refreshes several ciphertexts, or all entries of a batch, for less than one by one.

    Args:
      xs: a list of ciphertexts or of simulated values, of any batch shapes; or one with batch axes.
      keys, iterations, to_level: as for `bootstrap`.

    Returns:
      As many, in the same order and shapes. Levels, scales and errors as of `bootstrap`.

    Raises:
      As `bootstrap`; TypeError also where some are encrypted and others simulated, ValueError where there are none.
    """
    if not isinstance(xs, Sequence):
        return bootstrap_many([xs], keys, iterations=iterations, to_level=to_level)[0]
    if not xs or not all(math.prod(x.shape) for x in xs):
        raise ValueError("bootstrap_many: got no ciphertexts, or an empty batch; need at least one of each")
    keys, *_ = (checked_bootstrapping_keys("bootstrap_many", x, keys) for x in xs)
    check_one_kind("bootstrap_many", xs)
    keys = shortest("bootstrap_many", keys, to_level)
    flat = [_reshaped(at_input_level("bootstrap_many", x, keys), x.shape, (-1,)) for x in xs]
    results = {}
    for real in (True, False):
        places = [i for i, x in enumerate(flat) if x.real == real]
        ends = itertools.accumulate(flat[i].shape[0] for i in places)
        if places:
            together = _refreshed(_joined([flat[i] for i in places]), keys, iterations)
            results |= {i: _part(together, end - flat[i].shape[0], end) for i, end in zip(places, ends, strict=True)}
    shaped = [_reshaped(results[i], (-1,), x.shape) for i, x in enumerate(xs)]
    return [at_level(y, x.params, keys, to_level) for x, y in zip(xs, shaped, strict=True)]


@functools.partial(jax.jit, static_argnums=2)
def _refreshed(xs, keys, iterations):
    """All entries of one batch axis, one after the other; of values in the clear together."""
    count, single = xs.shape[0], functools.partial(_iterated, keys=keys, iterations=iterations)
    if xs.in_the_clear:
        return single(xs, once=_whole)[0]
    if not xs.real:
        return jax.lax.map(lambda x: single(x, once=_whole)[0], xs)
    pairs, results = count // 2, []
    if pairs:
        complex_values = add(_part(xs, 0, pairs), _part(xs, pairs, 2 * pairs)._multiply_by_i())
        results += jax.lax.map(lambda x: single(x, once=_real_and_imaginary), complex_values)
    if count % 2:
        results += single(_part(xs, count - 1, count), once=_whole)
    return _joined(results)


def _iterated(x, keys, iterations, once):
    return iterated("bootstrap_many", x, keys, iterations, once)


def _whole(x, keys):
    return [x._refresh(by_stages, keys)]


def _real_and_imaginary(x, keys):
    """The real and the imaginary part of a ciphertext, refreshed."""
    how = keys.bootstrapping
    if how.slots_first:
        return refreshed_parts(x, keys)
    y = x._refresh(by_stages, dataclasses.replace(keys, bootstrapping=how.with_height(how.height / 2)))
    mirrored = conjugate(y, keys.evaluation)
    return [add(y, mirrored)._known_real(), subtract(mirrored, y)._multiply_by_i()._known_real()]


def _part(xs, start, end):
    return jax.tree.map(lambda leaf: leaf[start:end], xs)


def _reshaped(x, before, after):
    """x with its batch shape changed."""
    return jax.tree.map(lambda leaf: leaf.reshape(*after, *leaf.shape[len(before) :]), x)


@_compat.x64
def _joined(xs):
    """Along their first batch axis."""
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *xs)
