"""One table of all operations: how each is called, on what, and what it means for the values.

The tests of operations go through it: each entry against NumPy, and under every transformation of JAX. Operands are
single values; `stacked` makes batches of them. Numbers are exact in float32, so that tracing them loses nothing.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from making import made_once
from residues import on_device

import fhejax as fhe
from fhejax.kinds import noise

PARAMS = fhe.Parameters.for_depth(3, log_degree=5, security=None)
TOP, SLOTS = PARAMS.max_level, PARAMS.slots
DEPLETED = 1  # the level of the operand "low ciphertext"


class Keys(NamedTuple):
    """What one user has."""

    secret: fhe.SecretKey
    public: fhe.PublicKey
    evaluation: fhe.EvaluationKeys


@dataclasses.dataclass(frozen=True)
class Operation:
    """An entry of the table.

    Attributes:
      run: `(keys, *operands)`, as a user would type it.
      operands: their kinds, see `operand`.
      meaning: the same on NumPy arrays of the operands' values; real where the result is real.
      level: out.
      raw: whether the scale out is the square of the canonical one.
      error: the deviation of the result, in those of a fresh ciphertext.
    """

    run: Callable[..., Any]
    operands: tuple[str, ...]
    meaning: Callable[..., Any]
    level: int = TOP
    raw: bool = False
    error: float = 2.0


def seed(*words: int) -> jax.Array:
    return on_device(np.array([*words, *range(len(words), 8)], np.uint32))


def make_keys(seeds: jax.Array) -> Keys:
    """The keys of one user, from `uint32[3, 8]`."""
    secret = fhe.secret_key(seeds[0], PARAMS)
    evaluation = fhe.evaluation_keys(seeds[2], secret, rotations=(1, 2, 4, 8), conjugation=True)
    return Keys(secret, fhe.public_key(seeds[1], secret), evaluation)


def user_seeds(user: int) -> jax.Array:
    return jnp.stack([seed(user, part) for part in range(3)])


@made_once
def keys(user: int = 0) -> Keys:
    return make_keys(user_seeds(user))


def numbers(index: int, *shape: int) -> np.ndarray:
    """Multiples of 1/256 in (-1, 1)."""
    return np.random.default_rng(index).integers(-255, 256, shape).astype(np.float32) / 256


def complexes(index: int, *shape: int) -> np.ndarray:
    return (numbers(index, *shape) + 1j * numbers(index + 100, *shape)).astype(np.complex64)


@made_once
def operand(kind: str, index: int, user: int = 0) -> tuple[Any, np.ndarray]:
    """An operand and its values; `index` tells operands of one kind apart."""
    values = complexes(index, SLOTS) if "complex" in kind else numbers(index, SLOTS)
    match kind.split()[-1]:
        case "seed":
            return seed(7, index), np.zeros(SLOTS)
        case "ciphertext":
            x = fhe.encrypt(seed(8, index, user), keys(user).public, values)
            return (fhe.drop_to_level(x, DEPLETED) if "low" in kind else x), values
        case "product":
            return operand("ciphertext", index, user)[0] * operand("ciphertext", index + 1, user)[0], (
                operand("ciphertext", index)[1] * operand("ciphertext", index + 1)[1]
            )
        case "plaintext":
            return fhe.encode(values, PARAMS), values
        case "array":
            return values, values
        case "row":  # fewer values than slots
            return values[: SLOTS // 2], np.where(np.arange(SLOTS) < SLOTS // 2, values, 0)
        case "number":
            number = values[0].item()
            return number, np.full(SLOTS, number)
    raise AssertionError(kind)


def entries(operation: Operation, index: int = 0, user: int = 0) -> tuple[Any, ...]:
    """The operands of one call."""
    return tuple(operand(kind, 10 * index + 2 * i, user)[0] for i, kind in enumerate(operation.operands))


def expected(operation: Operation, index: int = 0) -> np.ndarray:
    """What the result of the call on `entries(operation, index)` means."""
    values = [operand(kind, 10 * index + 2 * i)[1] for i, kind in enumerate(operation.operands)]
    return operation.meaning(*(v.astype(complex if np.iscomplexobj(v) else float) for v in values))


def stack(trees: list[Any], shape: tuple[int, ...]) -> Any:
    """Values of one type as a batch."""
    return jax.tree.map(lambda *leaves: jnp.reshape(jnp.stack(leaves), (*shape, *jnp.shape(leaves[0]))), *trees)


def stacked(operation: Operation, *shape: int) -> tuple[Any, ...]:
    """The operands of calls 0, 1, ... as batches of a shape."""
    return stack([entries(operation, index) for index in range(int(np.prod(shape)))], shape)


def values_of(result: Any, user: int = 0) -> np.ndarray:
    """The values in a result, in double precision."""
    if isinstance(result, list):
        return np.stack([values_of(part, user) for part in result])
    if isinstance(result, fhe.Ciphertext):
        return np.asarray(fhe.decrypt(keys(user).secret, result, dtype="float64" if result.real else "complex128"))
    if isinstance(result, fhe.Plaintext):
        return np.asarray(fhe.decode(result, dtype="float64" if result.real else "complex128"))
    return np.asarray(result)


def tolerance(operation: Operation, scale: float = PARAMS.scale_at(0)) -> float:
    """Six deviations."""
    fresh = noise.encrypt_public(PARAMS) + noise.encode(real=True)
    return 6 * operation.error * noise.slot_deviation(fresh, scale, SLOTS)


def roll(step: int) -> Callable[..., np.ndarray]:
    return lambda x: np.roll(x, -step, axis=-1)


def _sum(x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x.sum(-1, keepdims=True), x.shape)


_SECOND = (
    "ciphertext",
    "complex ciphertext",
    "low ciphertext",
    "plaintext",
    "array",
    "complex row",
    "number",
    "complex number",
)


def _binary(name: str, run: Callable, meaning: Callable, levels: int = 0, seconds=_SECOND) -> dict[str, Operation]:
    """An operation of two operands, for each kind that the second may be."""
    level = lambda kind: (DEPLETED if "low" in kind else TOP) - levels
    return {f"{name} {kind}": Operation(run, ("ciphertext", kind), meaning, level(kind)) for kind in seconds}


_CT = ("ciphertext",)

OPERATIONS: dict[str, Operation] = {
    **_binary("add", lambda k, x, y: fhe.add(x, y), lambda x, y: x + y),
    **_binary("subtract", lambda k, x, y: fhe.subtract(x, y), lambda x, y: x - y, seconds=("ciphertext", "plaintext")),
    **_binary("multiply", lambda k, x, y: fhe.multiply(x, y, k.evaluation), lambda x, y: x * y, 1),
    "x * y": Operation(lambda k, x, y: x * y, ("ciphertext", "ciphertext"), lambda x, y: x * y, raw=True),
    "negate": Operation(lambda k, x: fhe.negate(x), _CT, lambda x: -x),
    "square": Operation(lambda k, x: fhe.square(x, k.evaluation), _CT, lambda x: x * x, TOP - 1),
    "multiply_plain, integer": Operation(lambda k, x: fhe.multiply_plain(x, -3), _CT, lambda x: -3 * x, error=3),
    "5 * x": Operation(lambda k, x: 5 * x, _CT, lambda x: 5 * x, error=5),
    "x + 2": Operation(lambda k, x: x + 2, _CT, lambda x: x + 2),
    "dot_plain": Operation(
        lambda k, x, y, a, b: fhe.dot_plain([x, y], [a, b]),
        ("ciphertext", "low ciphertext", "array", "complex array"),
        lambda x, y, a, b: x * a + y * b,
        DEPLETED - 1,
        error=4,
    ),
    "rescale": Operation(lambda k, x: fhe.rescale(x), ("product",), lambda x: x, TOP - 1, error=12),
    "relinearize": Operation(
        lambda k, x: fhe.relinearize(x, k.evaluation), ("product",), lambda x: x, raw=True, error=4
    ),
    "product + ciphertext": Operation(lambda k, x, y: x + y, ("product", "ciphertext"), lambda x, y: x + y, raw=True),
    "rotate": Operation(lambda k, x: fhe.rotate(x, 1, k.evaluation), _CT, roll(1)),
    "rotate, composed": Operation(lambda k, x: fhe.rotate(x, -5, k.evaluation), _CT, roll(-5), error=4),
    "rotate_many": Operation(
        lambda k, x: fhe.rotate_many(x, (4, 0, 3, 1), k.evaluation),
        _CT,
        lambda x: np.stack([np.roll(x, -step, axis=-1) for step in (4, 0, 3, 1)]),
        error=3,
    ),
    "conjugate": Operation(lambda k, x: fhe.conjugate(x, k.evaluation), ("complex ciphertext",), np.conj),
    "sum_slots": Operation(lambda k, x: fhe.sum_slots(x, k.evaluation), _CT, _sum, error=SLOTS + 8),
    "evaluate": Operation(
        lambda k, x: fhe.evaluate(fhe.Polynomial([0.25, 0.5, 0.0, -0.125]), x, k.evaluation),
        _CT,
        lambda x: np.polynomial.chebyshev.chebval(x, [0.25, 0.5, 0.0, -0.125]),
        1,
        error=64,
    ),
    "drop_to_level": Operation(lambda k, x: fhe.drop_to_level(x, 1), _CT, lambda x: x, 1),
    "encode": Operation(lambda k, x: fhe.encode(x, PARAMS), ("array",), lambda x: x),
    "decode": Operation(lambda k, x: fhe.decode(x, dtype="float32"), ("plaintext",), lambda x: x, error=2**20),
    "encrypt": Operation(lambda k, s, x: fhe.encrypt(s, k.public, x), ("seed", "array"), lambda s, x: x),
    "encrypt, plaintext": Operation(
        lambda k, s, x: fhe.encrypt(s, k.public, x), ("seed", "complex plaintext"), lambda s, x: x
    ),
    "encrypt, secret key": Operation(lambda k, s, x: fhe.encrypt(s, k.secret, x), ("seed", "array"), lambda s, x: x),
    "decrypt": Operation(lambda k, x: fhe.decrypt(k.secret, x), _CT, lambda x: x, error=2**20),
    "decrypt, product": Operation(
        lambda k, x: fhe.decrypt(k.secret, x, dtype="complex64"), ("product",), lambda x: x + 0j, error=2**20
    ),
}

_SIGNS = {
    "x + y": (lambda k, x, y: x + y, lambda x, y: x + y, TOP),
    "x - y": (lambda k, x, y: x - y, lambda x, y: x - y, TOP),
    "x * y": (lambda k, x, y: x * y, lambda x, y: x * y, TOP - 1),
    "add": (lambda k, x, y: fhe.add(x, y), lambda x, y: x + y, TOP),
    "subtract": (lambda k, x, y: fhe.subtract(x, y), lambda x, y: x - y, TOP),
    "multiply": (lambda k, x, y: fhe.multiply(x, y), lambda x, y: x * y, TOP - 1),
}

# The same by Python's signs, with the operands exchanged, and on complex values.
VARIANTS: dict[str, Operation] = {
    f"{sign}, {first}, {second}": Operation(run, (first, second), meaning, level)
    for sign, (run, meaning, level) in _SIGNS.items()
    for kind in ("plaintext", "array", "complex row", "number", "complex number")
    for first, second in (("ciphertext", kind), (kind, "ciphertext"))
} | {
    "x / 4": Operation(lambda k, x: x / 4, ("complex ciphertext",), lambda x: x / 4, TOP - 1),
    "-x": Operation(lambda k, x: -x, ("complex ciphertext",), lambda x: -x),
    "square, complex": Operation(
        lambda k, x: fhe.square(x, k.evaluation), ("complex ciphertext",), lambda x: x * x, TOP - 1, error=4
    ),
    "encode, complex": Operation(lambda k, x: fhe.encode(x, PARAMS, level=1), ("complex row",), lambda x: x, 1),
    "multiply_plain": Operation(
        lambda k, x, y: fhe.multiply_plain(x, y), ("ciphertext", "array"), lambda x, y: x * y, TOP - 1
    ),
    "x + y": Operation(lambda k, x, y: x + y, ("ciphertext", "ciphertext"), lambda x, y: x + y),
    "x - y": Operation(lambda k, x, y: x - y, ("ciphertext", "ciphertext"), lambda x, y: x - y),
}

# Operations that take a ciphertext to one of the same type: what loops carry, and what a donated buffer can hold.
CARRIED = [
    *("add ciphertext", "add array", "add number", "subtract plaintext", "negate", "5 * x"),
    *("x + 2", "rotate", "rotate, composed", "conjugate", "sum_slots", "multiply_plain, integer"),
]
