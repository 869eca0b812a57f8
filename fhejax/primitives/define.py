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

Attributes = Callable[..., Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Definition:
    """A primitive with what serves it.

    Attributes:
      primitive: what JAX binds.
      handler: the FFI target, the same on every platform; None where the reference always serves.
      handler_from: bytes of the result from which on the handler serves.
      attributes: the handler's attributes from the primitive's parameters; None: the parameters themselves.
      workspace: the 64-bit words that the CUDA handler works in; None: none.
      composed: whether it is a whole operation, made of smaller primitives.
      by_jax: the lowering rule of the composition or the reference.
    """

    primitive: Any
    handler: str | None
    handler_from: int
    attributes: Attributes | None
    workspace: Callable[..., int] | None
    composed: bool
    by_jax: Callable


definitions: dict[str, Definition] = {}
"""Every primitive, by its name in a jaxpr."""


def define_primitive(
    name: str,
    *,
    abstract: Callable,
    reference: Callable | None = None,
    composition: Callable | None = None,
    handler: str | None = None,
    handler_from: int = 0,
    attributes: Attributes | None = None,
    workspace: Callable[..., int] | None = None,
    multiple_results: bool = False,
) -> Callable:
    """Makes a primitive and returns the function that binds it, `bind(*arrays, **parameters)`.

    Args:
      name: what it is called in a jaxpr, after `fhejax_`.
      abstract: `(*avals, **parameters) -> aval`, refuses what does not fit, in words for the user.
      reference: the same in pure JAX: its meaning, and its lowering wherever there is no kernel.
      composition: for a whole operation, in place of `reference`: the same made of smaller primitives.
      handler: the FFI target that returns the same bits.
      handler_from: bytes of the result from which on the handler serves; below, the reference does.
      attributes: `(**parameters) -> dict`, the handler's attributes; the parameters themselves if None.
      workspace: `(*avals, **parameters) -> int`, how many 64-bit words of its own the CUDA handler works in: a last
        result of the call, flat, that nobody sees. None: it needs none.
      multiple_results: whether `abstract` and `reference` return a list.
    """
    primitive = _compat.make_primitive(
        f"fhejax_{name}", lambda *avals, lowering, **parameters: abstract(*avals, **parameters), multiple_results
    )

    meaning = composition or reference
    assert meaning is not None, f"{name} has no reference"

    def as_jax(*arrays, lowering, **parameters):
        with _compat.lowering_context("composed" if lowering == "composed" else "reference"):
            return meaning(*arrays, **parameters)

    definition = Definition(
        primitive,
        handler,
        handler_from,
        attributes,
        workspace,
        composition is not None,
        _compat.lower_function(as_jax, multiple_results),
    )
    definitions[primitive.name] = definition
    _compat.register_lowering(primitive, functools.partial(_lower_without_kernels, definition))
    if handler is not None:
        native.handlers.add(handler)
        _compat.register_lowering(primitive, functools.partial(lower_on_cpu, definition), platform="cpu")
        _compat.register_lowering(primitive, functools.partial(_lower_on_cuda, definition), platform="cuda")
    _compat.register_batching(primitive, functools.partial(_batch, primitive))

    def bind(*arrays, **parameters):
        return primitive.bind(*arrays, lowering=native.current_lowering(), **parameters)

    return bind


def _lower_without_kernels(definition, context, *operands, lowering, **parameters):
    composed = definition.composed and lowering != "reference"  # of primitives some of which may have kernels here
    return definition.by_jax(context, *operands, lowering="composed" if composed else "reference", **parameters)


def lower_on_cpu(definition, context, *operands, lowering, **parameters):
    kind = _kind_of_lowering(definition, context, lowering)
    if kind != "native" or native.cpu_extension() is None:
        return definition.by_jax(context, *operands, lowering=kind, **parameters)
    attributes = definition.attributes(**parameters) if definition.attributes else parameters
    return _compat.lower_handler(definition.handler)(context, *operands, **attributes)


def _lower_on_cuda(definition, context, *operands, lowering, **parameters):
    kind = _kind_of_lowering(definition, context, lowering)
    if kind != "native" or not native.lowers_to_cuda():
        return definition.by_jax(context, *operands, lowering=kind, **parameters)
    assert definition.handler is not None
    return lower_with_workspace(definition, definition.handler, context, *operands, **parameters)


def lower_with_workspace(definition: Definition, handler: str, context: Any, *operands: Any, **parameters: Any):
    """Calls a CUDA handler of the definition, under the name `handler`, with its workspace as a further result."""
    attributes = definition.attributes(**parameters) if definition.attributes else parameters
    call = _compat.lower_handler(handler)
    if definition.workspace is None:
        return call(context, *operands, **attributes)
    words = definition.workspace(*context.avals_in, **parameters)
    return call(_compat.with_result(context, (words,), np.uint64), *operands, **attributes)[:-1]


def _kind_of_lowering(definition, context, lowering):
    """The lowering that is asked for, as far as this primitive has it."""
    if lowering == "composed" and definition.composed:
        return "composed"
    small = sum(out.size * out.dtype.itemsize for out in context.avals_out) < definition.handler_from
    return "reference" if lowering == "reference" or small else "native"


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


def modulus_attributes(**parameters: Any) -> dict[str, Any]:
    """The parameters as FFI attributes: tuples of moduli become `uint64` arrays, other integers `int64`."""
    return {name: _attribute(value) for name, value in parameters.items()}


def _attribute(value):
    if isinstance(value, tuple):
        return np.array(value, np.uint64)
    return np.int64(value) if isinstance(value, int) else value
