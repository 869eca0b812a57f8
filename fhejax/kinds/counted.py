"""Counted values: ciphertexts without contents, whose operations leave records of their work in the trace of a program.

The work is stated in `fhejax.kinds.work`; `fhejax.planning.count` adds the records up.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.kinds.base import Kind
from fhejax.kinds.work import (
    Work,
    divide_work,
    raise_work,
    switch_work,
    transform_work,
)
from fhejax.parameters.parameters import Parameters
from fhejax.scheme.values import Plaintext

_STATIC = {"static": True}
RECORD = "fhejax_counted"


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, eq=False)
class Counted(Kind):
    """A ciphertext without contents.

    Attributes:
      token: `bool[*batch]`, which carries the batch shape through loops and maps.
      params, level, scale, slots, real, components: as of a ciphertext.
    """

    adjective = "counted"
    needs_keys = False
    leaf_axes = (0,)

    token: Any
    params: Parameters = field(metadata=_STATIC)
    level: int = field(metadata=_STATIC)
    scale: float = field(metadata=_STATIC)
    slots: int = field(metadata=_STATIC)
    real: bool = field(metadata=_STATIC)
    components: int = field(metadata=_STATIC)

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch shape."""
        return tuple(self.token.shape)

    def _did(self, name: str, work: Work, others: Sequence[Any] = (), **changed: Any) -> "Counted":
        """The result of an operation on x and others, which is left in the trace."""
        operands = [x for x in (self, *others) if isinstance(x, Counted)]
        entries = math.prod(np.broadcast_shapes(*(x.shape for x in operands)))
        tokens = (x.token for x in operands)
        token = _record.bind(*tokens, name=name, work=work, entries=entries)
        return replace(self, token=token, **changed)

    def _change_level(self, factor, top, level, scale, /):
        work = divide_work(level + 1, top - level, self.components)
        if factor != 1:
            work = work.plus(Work(passes=2 * self.components * (top + 1)))
        return self._did("rescale" if level < top else "scale", work, level=level, scale=scale)

    def _pass(self, name, count, others=(), **changed):
        return self._did(name, Work(passes=count * self.components * (self.level + 1)), others, **changed)

    def _add(self, other, /):
        components = max(self.components, other.components)
        return self._pass("add", 3, (other,), real=self.real and other.real, components=components)

    _subtract = _add

    def _negate(self, /):
        return self._pass("negate", 2)

    def _plaintext_like(self, values, /):
        if isinstance(values, Plaintext):
            return values
        values = jnp.asarray(values)
        token, real = jnp.zeros(values.shape[:-1], bool), not jnp.iscomplexobj(values)
        work = Work(transforms=self.level + 1, passes=self.level + 1, embeddings=1)
        return replace(self, token=token, real=real, components=1)._did("encode", work)

    def _add_plain(self, plain, negative, /):
        return self._pass("add_plain", 2, (plain,), real=self.real and plain.real)

    def _add_number(self, number, negative, /):
        return self._pass("add_plain", 2)

    def _multiply_integer(self, factor, /):
        return self._pass("multiply_integer", 2)

    def _multiply_number(self, number, scale, /):
        return self._multiply_plain(self, (), scale)

    def _multiply_plain(self, plain, more, scale, /):
        pairs = ((self, plain), *more)
        work = Work(passes=3 * len(pairs) * (self.level + 1)).plus(divide_work(self.level, 1, self.components))
        operands = [each for pair in pairs for each in pair]
        real = all(each.real for each in operands)
        return self._did("multiply_plain", work, operands, level=self.level - 1, scale=scale, real=real)

    def _tensor(self, other, /):
        work, real = Work(passes=7 * (self.level + 1)), self.real and other.real
        return self._did("tensor", work, (other,), scale=self.scale * other.scale, real=real, components=3)

    def _multiply(self, other, key, scale, /):
        work = switch_work(self.params, self.level, 1).plus(Work(passes=4 * (self.level + 1)))
        real = self.real and other.real
        return self._did("multiply", work, (other,), level=self.level - 1, scale=scale, real=real)

    def _relinearize(self, key, /):
        return self._did("relinearize", switch_work(self.params, self.level), components=2)

    def _relinearize_rescale(self, key, scale, /):
        work = switch_work(self.params, self.level, 1)
        return self._did("relinearize", work, level=self.level - 1, scale=scale, components=2)

    def _automorphisms(self, elements, keys, /):
        params, level, count = self.params, self.level, len(elements)
        work, raised = switch_work(params, level), raise_work(params, level)
        if count > 1:
            work = replace(work, hoisted=1, switched=0).plus(raised, 1 / count - 1)
        work = replace(work, calls=1 / count)
        return [self._did("conjugate" if g == 2 * params.degree - 1 else "rotate", work) for g in elements]

    def _combine(self, level, scale, terms, weights, products, constant, key, /):
        above = level + 2  # limbs, before the rescale
        work = Work(passes=2 * above * len(terms) + 4 * above * len(products))
        if jnp.ndim(weights) == 2:
            work = work.plus(Work(transforms=above, embeddings=1), len(terms))
        end = switch_work(self.params, level + 1, 1) if products else divide_work(level + 1, 1)
        operands = [*terms, *(x for pair in products for x in pair)]
        real = all(x.real for x in operands)
        return self._did("combine", work.plus(end), operands, level=level, scale=scale, real=real, components=2)

    def _transformed(self, xs, transform, keys, /):
        level, plan = self.level - 1, transform.plan
        work, scale = transform_work(transform), self.params.scale_at(level)
        real = transform.real and all(x.real for x in xs)
        first = self._did("apply", work, xs, level=level, scale=scale, real=real)
        return [first] * plan.outputs

    def _weighted_sums(self, weights, scale, /):
        terms, sums = weights.shape
        terms *= 2 if jnp.iscomplexobj(weights) else 1
        work = Work(passes=2 * (self.level + 1) * (terms + sums + terms * sums / 4))
        work = work.plus(divide_work(self.level, 1), sums)
        token = jnp.zeros((*self.shape[:-1], 1), bool)
        result = replace(self, token=token)._did("weighted_sums", work, level=self.level - 1, scale=scale)
        return replace(result, token=jnp.broadcast_to(result.token, (*self.shape[:-1], sums)))

    def _tensor_sum(self, xs, ys, /):
        work, real = Work(passes=(4 * len(xs) + 3) * (self.level + 1)), all(x.real for x in (*xs, *ys))
        return self._did("tensor", work, (*xs, *ys), scale=self.scale * ys[0].scale, real=real, components=3)

    def _mod_raise(self, keys, /):
        params, top = self.params, self.params.max_level
        work = switch_work(params, top).plus(switch_work(params, 0)).plus(Work(transforms=2 * (top + 1)))
        return self._did("mod_raise", work, level=top, scale=params.scale_at(top), real=False)

    def _multiply_by_i(self, /):
        return replace(self._pass("multiply_by_i", 2), real=False)

    def _repack(self, slots, /):
        return replace(self, slots=slots)

    def _known_real(self, /):
        return replace(self, real=True)

    def _decrypt(self, secret, dtype, /):
        raise TypeError("decrypt: counted values have no contents; type fhejax.count(program, x) without decrypting")


def _record_shape(*tokens, name, work, entries):
    return _compat.like(tokens, np.broadcast_shapes(*(token.shape for token in tokens)), bool, 0)


_record = _compat.make_primitive(RECORD, _record_shape, multiple_results=False)


def _batch(tokens, axes, *, entries, **parameters):
    size = next(x.shape[axis] for x, axis in zip(tokens, axes, strict=True) if axis is not None)
    rank = max(x.ndim - (axis is not None) for x, axis in zip(tokens, axes, strict=True))
    moved = [_compat.axis_to_front(x, axis, size) for x, axis in zip(tokens, axes, strict=True)]
    moved = [x.reshape(x.shape[0], *(1,) * (rank + 1 - x.ndim), *x.shape[1:]) for x in moved]
    return _record.bind(*moved, entries=size * entries, **parameters), 0


_compat.register_batching(_record, _batch)
