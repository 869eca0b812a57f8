"""How a primitive is made: abstract evaluation, its lowerings, and batching by leading axes.

Every operand has `batch axes` in front of its own. Within one call all operands have equally many of them, and
each is of the common size or 1, as in NumPy's broadcasting; `align_batch` brings arrays into that form. `vmap`
then only adds a leading axis.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.primitives import native
from fhejax.primitives.handlers import HANDLERS
from fhejax.primitives.statement import Handler

Derived = Callable[..., Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Definition:
    """A primitive with what serves it.

    Attributes:
      primitive: what JAX binds.
      handler: the statement of what serves it on every platform; None where the reference always serves.
      handler_from: bytes of the result from which on the handler serves.
      derived: the handler's attributes that are no parameters of the primitive, from those that are.
      composed: whether it is a whole operation, made of smaller primitives.
      by_jax: the lowering rule of the composition or the reference.
    """

    primitive: Any
    handler: Handler | None
    handler_from: int
    derived: Derived | None
    composed: bool
    by_jax: Callable

    @property
    def name(self) -> str:
        """What users call the primitive."""
        return self.primitive.name.removeprefix("fhejax_")


definitions: dict[str, Definition] = {}
"""Every primitive, by its name in a jaxpr."""


def define_primitive(
    name: str,
    *,
    abstract: Callable,
    reference: Callable | None = None,
    composition: Callable | None = None,
    handler: Handler | None = None,
    handler_from: int = 0,
    derived: Derived | None = None,
    multiple_results: bool = False,
) -> Callable:
    """Makes a primitive and returns the function that binds it, `bind(*arrays, **parameters)`.

    Args:
      name: what it is called in a jaxpr, after `fhejax_`, and in `HANDLERS`, if it has a handler.
      abstract: `(*avals, **parameters) -> aval`, refuses what does not fit, in words for the user.
      reference: the same in pure JAX: its meaning, and its lowering wherever there is no kernel.
      composition: for a whole operation, in place of `reference`: the same made of smaller primitives.
      handler: the statement of what returns the same bits, if `HANDLERS` has none.
      handler_from: bytes of the result from which on the handler serves; below, the reference does.
      derived: `(**parameters) -> dict`, those of the handler's attributes that are no parameters.
      multiple_results: whether `abstract` and `reference` return a list.
    """
    handler = handler or HANDLERS.get(name)
    primitive = _compat.make_primitive(
        f"fhejax_{name}", lambda *avals, lowering, **parameters: abstract(*avals, **parameters), multiple_results
    )

    meaning = composition or reference
    assert meaning is not None, f"{name} has no reference"

    definition = Definition(
        primitive,
        handler,
        handler_from,
        derived,
        composition is not None,
        _lower_by(meaning, multiple_results),
    )
    definitions[primitive.name] = definition
    native.implementations[name] = {}
    _compat.register_lowering(primitive, functools.partial(_lower_without_kernels, definition))
    if handler is not None:
        native.handlers.add(handler.target)
        _compat.register_lowering(primitive, functools.partial(lower_on_cpu, definition), platform="cpu")
        _compat.register_lowering(primitive, functools.partial(_lower_on_cuda, definition), platform="cuda")
    _compat.register_batching(primitive, functools.partial(_batch, primitive))

    def bind(*arrays, **parameters):
        return primitive.bind(*arrays, lowering=native.current_lowering(), **parameters)

    return bind


def register_implementation(primitive: str, name: str, function: Callable) -> None:
    """Makes a function a lowering of one primitive, for `lowering({primitive: name})`.

    Args:
      primitive: its name in docs/cuda.md, as "ntt".
      name: of the implementation; not one that the primitive has.
      function: in JAX, `(*arrays, **parameters)`, as the primitive's reference in `fhejax.primitives`; traced with
        64-bit types enabled. `check_implementation` compares it with the reference.

    Raises:
      ValueError: there is no such primitive, or the name is taken.

    Example:
      >>> import jax.numpy as jnp
      >>> import numpy as np
      >>> import fhejax as fhe
      >>> def negate(a, *, moduli):
      ...     return jnp.where(a == 0, a, np.array(moduli, np.uint64)[:, None] - a)
      >>> fhe.register_implementation("negate", "by comparison", negate)
      >>> fhe.check_implementation("negate", "by comparison")
      >>> with fhe.lowering({"negate": "by comparison"}):
      ...     pass
    """
    native.require_one_of("register_implementation: there is no primitive", primitive, native.implementations)
    taken = native.implementations[primitive]
    if name in taken or name in native.LOWERINGS:
        raise ValueError(f"register_implementation: {primitive} has an implementation {name!r}; choose another name")
    taken[name] = _lower_by(function, definitions[f"fhejax_{primitive}"].primitive.multiple_results)


def _lower_by(function, multiple_results):
    """The lowering rule that traces a function, with another lowering for the primitives that it is made of."""

    def traced(*arrays, lowering, **parameters):
        with _compat.lowering_context(lowering):
            return function(*arrays, **parameters)

    return _compat.lower_function(traced, multiple_results)


def _lower_by_jax(definition, kind, context, /, *operands, lowering, **parameters):
    registered = native.implementations[definition.name].get(kind)
    if registered is None and (kind == "reference" or not definition.composed):
        return definition.by_jax(context, *operands, lowering="reference", **parameters)
    inner = native.Choice("native", ()) if isinstance(lowering, str) else lowering
    single = tuple(each for each in inner.single if each[0] != definition.name)
    default = inner.default if registered else "composed"
    inner = native.Choice(default, single) if single else default
    return (registered or definition.by_jax)(context, *operands, lowering=inner, **parameters)


def _lower_without_kernels(definition, context, *operands, lowering, **parameters):
    """A composition is made of primitives some of which may have kernels here."""
    kind = native.kind_of(lowering, definition.name)
    return _lower_by_jax(definition, kind, context, *operands, lowering=lowering, **parameters)


def lower_on_cpu(definition, context, *operands, lowering, **parameters):
    kind = _kind_of_lowering(definition, context, lowering)
    if kind != "native" or native.cpu_extension() is None:
        kind = "reference" if kind == "native" else kind
        return _lower_by_jax(definition, kind, context, *operands, lowering=lowering, **parameters)
    assert definition.handler is not None
    call = _compat.lower_handler(definition.handler.target)
    return call(context, *operands, **_attributes(definition, parameters))


def _lower_on_cuda(definition, context, *operands, lowering, **parameters):
    kind = _kind_of_lowering(definition, context, lowering)
    if kind != "native" or not native.lowers_to_cuda():
        kind = "reference" if kind == "native" else kind
        return _lower_by_jax(definition, kind, context, *operands, lowering=lowering, **parameters)
    assert definition.handler is not None
    return lower_with_workspace(definition, definition.handler.target, context, *operands, **parameters)


def lower_with_workspace(definition: Definition, target: str, context: Any, /, *operands: Any, **parameters: Any):
    """Calls a CUDA handler of the definition, under the name `target`, with its workspace as a further result."""
    assert definition.handler is not None
    attributes, call = _attributes(definition, parameters), _compat.lower_handler(target)
    if not definition.handler.workspace:
        return call(context, *operands, **attributes)
    words = definition.handler.workspace_words(context.avals_in, context.avals_out, attributes)
    return call(_compat.with_result(context, (words,), np.uint64), *operands, **attributes)[:-1]


def _attributes(definition, parameters):
    derived = definition.derived(**parameters) if definition.derived else {}
    return definition.handler.attribute_values({**parameters, **derived})


def _kind_of_lowering(definition, context, lowering):
    """The lowering that is asked for, as far as this primitive has it."""
    kind = native.kind_of(lowering, definition.name)
    if kind in native.implementations[definition.name] or (kind == "composed" and definition.composed):
        return kind
    small = sum(out.size * out.dtype.itemsize for out in context.avals_out) < definition.handler_from
    return "reference" if kind == "reference" or small else "native"


def _batch(primitive, arguments, axes, **parameters):
    size = next(x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None)
    moved = [_compat.axis_to_front(x, axis, size) for x, axis in zip(arguments, axes, strict=True)]
    results = primitive.bind(*moved, **parameters)
    return results, ([0] * len(results) if primitive.multiple_results else 0)


def align_batch(*operands: tuple[jax.Array, int]) -> list[jax.Array]:
    """Gives all arrays the same number of batch axes, by leading axes of one.

    Args:
      *operands: pairs of an array and the number of axes that are its own, behind the batch axes.
    """
    batch = max(x.ndim - own for x, own in operands)
    return [jnp.reshape(x, (1,) * (batch - (x.ndim - own)) + x.shape) for x, own in operands]


def batch_shape(name: str, *operands: tuple[Any, int]) -> tuple[int, ...]:
    """The common batch shape of aligned operands.

    Raises:
      ValueError: the batch axes do not broadcast.
    """
    shapes = [x.shape[: x.ndim - own] for x, own in operands]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"{name}: batch shapes {' and '.join(map(str, shapes))} do not broadcast") from None


def check_residues(
    name: str, x: Any, moduli: tuple[int, ...], axes: str = "*batch, limbs, N", or_more: bool = False
) -> None:
    """Refuses anything but `uint64[..., limbs, N]` with one limb for each of `moduli`, or more where that is allowed.

    Raises:
      TypeError: not `uint64`.
      ValueError: another number of limbs.
    """
    if x.dtype != np.uint64:
        raise TypeError(
            f"{name}: residues are uint64, got {x.dtype}. An array made by NumPy, changed by arithmetic or described "
            "by jax.ShapeDtypeStruct while jax_enable_x64 is off is cut to 32 bits; use fhejax.encode, fhejax.load and "
            "the operations of fhejax, and jax.typeof for shapes"
        )
    own = axes.count(",") + (0 if axes.startswith("*") else 1)
    if x.ndim < own or x.shape[-2] < len(moduli) or (x.shape[-2] > len(moduli) and not or_more):
        raise ValueError(
            f"{name}: got shape {x.shape} for {len(moduli)} moduli; need ({axes}) with {len(moduli)} limbs"
            f"{' or more' if or_more else ''}"
        )
