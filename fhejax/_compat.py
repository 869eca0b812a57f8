"""The only file that touches JAX's extension points (`jax.extend`, `jax.interpreters`, `jax.ffi`, tracers).

When a JAX release moves one of them, this is the file to mend.
"""

import functools
import importlib.metadata
import operator
import pathlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import core
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir, xla
from jax.sharding import PartitionSpec

_Function = TypeVar("_Function", bound=Callable[..., Any])

# Part of JAX's jit cache key, so that a program compiled for one lowering is never served for another.
lowering_context = jax.make_user_context(default_value=None)


def x64(function: _Function) -> _Function:
    """Runs `function` with 64-bit types enabled, whatever the caller's flag, and leaves the flag as it was."""

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return wrapped  # pyright: ignore[reportReturnType]


def jit(*static: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`jax.jit` with static positional arguments, run with 64-bit types enabled: how the work of every operation runs.

    The public function around it stays in the caller's x64 mode, where checkify and default dtypes belong.
    """
    return lambda function: x64(jax.jit(function, static_argnums=static))


def is_traced(*values: Any) -> bool:
    """Whether any leaf of `values` has no concrete value yet (inside jit, vmap, eval_shape)."""
    return any(isinstance(leaf, core.Tracer) for leaf in jax.tree.leaves(values))


def like(avals: Sequence[Any], shape: tuple[int, ...], dtype: Any, batch: int) -> Any:
    """The type of a result that keeps the sharding of the first `batch` axes and the manual axes of its operands."""
    first = max(avals, key=lambda aval: len(aval.manual_axis_type.varying))
    spec = tuple(first.sharding.spec)[:batch]
    sharding = first.sharding.update(spec=PartitionSpec(*spec, *[None] * (len(shape) - len(spec))))
    return first.update(shape=shape, dtype=jnp.dtype(dtype), weak_type=False, sharding=sharding)


def abstract(value: Any) -> Any:
    """A `jax.ShapeDtypeStruct` of 64-bit residues as JAX takes it uncut, whatever the caller's x64 flag."""
    if isinstance(value, jax.ShapeDtypeStruct) and value.dtype == np.uint64:
        with jax.enable_x64(True):
            return jax.typeof(value)
    return value


def count_equations(jaxpr: Any, name: str) -> list[tuple[dict[str, Any], int]]:
    """The different parameters of a primitive in a jaxpr, and how often it runs with each.

    A `scan` counts by its length, of a `cond` the branch that does it more often, and a `while_loop` once.
    """
    return [(dict(parameters), count) for parameters, count in _count(jaxpr, name).items()]


def _count(jaxpr, name):
    counts: Counter[Any] = Counter()
    for equation in jaxpr.eqns:
        kind, parameters = equation.primitive.name, equation.params
        if kind == name:
            counts[tuple(sorted(parameters.items()))] += 1
        nested = [value if isinstance(value, (list, tuple)) else [value] for value in parameters.values()]
        inside = [getattr(value, "jaxpr", value) for values in nested for value in values]
        parts = [_count(each, name) for each in inside if hasattr(each, "eqns")]
        if kind == "cond":
            parts = [functools.reduce(operator.or_, parts)]
        for key, count in (item for part in parts for item in part.items()):
            counts[key] += count * (parameters["length"] if kind == "scan" else 1)
    return counts


def make_primitive(name: str, abstract: Callable, multiple_results: bool) -> Primitive:
    """A primitive whose eager call compiles and runs it."""
    primitive = Primitive(name)
    primitive.multiple_results = multiple_results
    primitive.def_impl(functools.partial(xla.apply_primitive, primitive))
    primitive.def_abstract_eval(abstract)
    return primitive


def register_lowering(primitive: Primitive, rule: Callable, platform: str | None = None) -> None:
    """Sets the rule that lowers `primitive` on `platform`, or on every platform that has none of its own."""
    mlir.register_lowering(primitive, rule, platform=platform)


def lower_function(function: Callable, multiple_results: bool) -> Callable:
    """The lowering rule that traces `function`. It is traced late, outside the caller's x64 context."""
    return mlir.lower_fun(x64(function), multiple_results=multiple_results)


def lower_handler(handler: str) -> Callable:
    """The lowering rule that calls the FFI target `handler`; keyword arguments become its attributes."""
    return jax.ffi.ffi_lowering(handler)


def with_result(context: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The lowering context of the same call with one more result, which lowers to one more value at the end."""
    return context.replace(avals_out=[*context.avals_out, core.ShapedArray(shape, jnp.dtype(dtype))])


@functools.cache
def has_devices(platform: str) -> bool:
    """Whether this process has devices of `platform`. Starts JAX's backends if nothing has."""
    try:
        return bool(jax.devices(platform))
    except RuntimeError:
        return False


def register_batching(primitive: Primitive, rule: Callable) -> None:
    """Sets the rule by which `vmap` maps `primitive`."""
    batching.primitive_batchers[primitive] = rule


def as_array(value: Any) -> jax.Array:
    """`jnp.asarray`, for values that nobody writes to again: NumPy's may be shared.

    For each new shape of a NumPy array, `jnp.asarray` of jax 0.10.2 compiles a program: 24 ms, where 0.10.0 took 0.15.
    """
    if not isinstance(value, np.ndarray):
        return jnp.asarray(value)
    with jax.ensure_compile_time_eval():  # a constant, as that of jnp.asarray, where a program is traced
        return jax.device_put(value)


def axis_to_front(value: Any, axis: int | None, size: int) -> Any:
    """Moves the mapped axis to the front; an operand that is not mapped gets a leading axis of one."""
    return jnp.expand_dims(value, 0) if axis is None else batching.bdim_at_front(value, axis, size)


def register_handler(name: str, capsule: Any, platform: str) -> None:
    """Makes an FFI handler known to XLA: a capsule, or one for each of its stages in a dict."""
    jax.ffi.register_ffi_target(name, capsule, platform=platform)


def runtime_ffi_version() -> tuple[int, int]:
    """The XLA FFI version of the installed jaxlib, read from the headers that it ships."""
    text = (pathlib.Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h").read_text()
    major, minor = (re.search(rf"#define XLA_FFI_API_{part} (\d+)", text) for part in ("MAJOR", "MINOR"))
    if major is None or minor is None:
        raise ImportError("this jaxlib's XLA FFI headers state no version")
    return int(major[1]), int(minor[1])


def jaxlib_version() -> str:
    """The version of the installed jaxlib."""
    return importlib.metadata.version("jaxlib")
