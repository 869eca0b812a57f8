"""How a function is computed: compositions of polynomials, their cost and error, and the choice among them."""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fhejax.errors import LevelError
from fhejax.kinds.base import Encrypted
from fhejax.kinds.requirements import check_ciphertext, check_two_components, checked_keys
from fhejax.operations.arithmetic import multiply
from fhejax.operations.levels import to_canonical
from fhejax.polynomials.checks import checked_domain
from fhejax.polynomials.evaluation import evaluate
from fhejax.polynomials.plan import planned
from fhejax.polynomials.polynomial import Polynomial, pattern
from fhejax.polynomials.report import evaluate_function, series
from fhejax.scheme.values import EvaluationKeys

Domain = tuple[float, float]
Cost = tuple[int, int]  # levels, and key switches

SQUARE = Polynomial([0.5, 0.0, 0.5], parity="even")


@dataclasses.dataclass(frozen=True, eq=False)
class Composition:
    """A way to compute a function."""

    program: Callable[..., Any]  # takes the input and the keys (softmax: what sums blocks between them)
    cost: Cost
    error: float  # the largest one over the domain, in exact arithmetic
    degrees: tuple[int, ...]  # of the polynomials in it

    @property
    def depth(self) -> int:
        """The levels that it takes."""
        return self.cost[0]


# What may be built, with about what it will cost.
Option = tuple[Cost, Callable[[], Composition]]


@runtime_checkable
class Elementwise(Protocol):
    """A function of every slot, as it is called."""

    def __call__(
        self, x: Encrypted, keys: EvaluationKeys | None = None, *, domain: Sequence[Any], bits: float | int
    ) -> Encrypted: ...


_ARGUMENTS = """

Args:
  x: a ciphertext or simulated values.
  keys: evaluation keys; None for simulated values.
  domain: (a, b) that the slots lie in.
  bits: the absolute error is to be at most 2^-bits.

Returns:
  Level out: lower by the depth. Scale out: canonical. Error added: 2^-bits, what becomes of x's error, and roundings.
  Keys needed: relinearisation.

Raises:
  LevelError: not enough levels are left.
  ValueError: a domain that is none or that the function is not for, or bits that are not reachable.
"""


def elementwise(compose: Callable[[Domain, float], Composition]) -> Elementwise:
    """The function that computes what `compose` chooses; its docstring goes on with the arguments."""
    name, chosen = compose.__name__, functools.lru_cache(maxsize=256)(compose)

    def function(
        x: Encrypted, keys: EvaluationKeys | None = None, *, domain: Sequence[Any], bits: float | int
    ) -> Encrypted:
        return apply_composition(name, chosen, x, keys, domain, bits)

    function.__name__ = function.__qualname__ = name
    function.__module__ = compose.__module__
    function.__doc__ = inspect.cleandoc(compose.__doc__ or "") + _ARGUMENTS
    return function


def cost_of(polynomials: Iterable[Polynomial]) -> Cost:
    """The levels and key switches of polynomials evaluated one after the other."""
    polynomials = list(polynomials)
    patterns = [pattern(polynomial) for polynomial in polynomials]
    switches = sum(planned((each,)).cost[0] for each in patterns if len(each) > 1)
    return sum(polynomial.depth for polynomial in polynomials), switches


def plus(cost: Cost, levels: int, switches: int) -> Cost:
    """The cost with so many more."""
    return cost[0] + levels, cost[1] + switches


def chain(polynomials: Sequence[Polynomial], error: float, times_input: bool = False) -> Composition:
    """Polynomials one after the other; with `times_input`, their result times the input."""

    def program(x, keys):
        result = functools.reduce(lambda y, polynomial: evaluate(polynomial, y, keys), polynomials, x)
        return multiply(x, result, keys) if times_input else result

    cost = plus(cost_of(polynomials), int(times_input), int(times_input))
    return Composition(program, cost, error, tuple(polynomial.degree for polynomial in polynomials))


def evaluate_chain(polynomials: Iterable[Polynomial], x: Any) -> Any:
    """The values of polynomials one after the other, in double precision."""
    return functools.reduce(lambda x, polynomial: series(polynomial, x), polynomials, x)


def measure_chain(
    f: Callable, polynomials: Sequence[Polynomial], domain: Domain, times_input: bool = False, near: float | None = None
) -> Composition:
    """`chain`, with the error measured: at 2^14 points, dense at the ends of the domain, and at 2^14 about `near`."""
    low, high = domain
    x = low + (high - low) * (0.5 - 0.5 * np.cos(np.linspace(0, np.pi, 1 << 14)))
    if near is not None:
        steps = np.geomspace(1e-8, 1, 1 << 13) * max(high - near, near - low)
        x = np.concatenate([x, near + steps, near - steps])
    x = np.clip(x, low, high)
    values = evaluate_chain(polynomials, x) * (x if times_input else 1)
    return chain(polynomials, float(np.max(np.abs(values - evaluate_function(f, x)))), times_input)


def cheapest(name: str, domain: Domain, bits: float, options: Callable[[float], Iterable[Option]]) -> Composition:
    """The first option that reaches the bits, in the order of depth, and then of key switches.

    Options that cannot reach them need not be there; if none is, an error says how many bits are reachable.
    """
    for _, build in sorted(options(bits), key=lambda option: option[0]):
        composition = build()
        if composition.error <= 2.0**-bits:
            return composition
    none, some = math.ceil(bits), 0
    while none - some > 1:
        middle = (some + none) // 2
        some, none = (middle, none) if any(True for _ in options(middle)) else (some, middle)
    reachable = f"about {some} are reachable" if some else "none are reachable"
    raise ValueError(f"{name}: bits = {bits:g} on the domain {domain}: {reachable}; ask for fewer, or a smaller domain")


def checked_bits(name: str, bits: Any) -> float:
    """The bits as a float; a ValueError unless they are a positive number."""
    try:
        number = float(bits)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"{name}: bits = {bits!r}; need a positive number: the error is to be at most 2^-bits")
    return number


def apply_composition(
    name: str, compose: Callable[..., Composition], x: Encrypted, keys: EvaluationKeys | None, domain: Any, bits: Any
) -> Encrypted:
    """What `compose` chooses for the domain and the bits, at x: after checks of arguments and of the levels left."""
    domain, bits = checked_domain(name, domain), checked_bits(name, bits)
    check_operand(name, x, keys)
    composition = compose(domain, bits)
    x = with_levels(name, composition.depth, to_canonical(x), f"on the domain {domain} to {bits:g} bits")
    x._warn_outside(name, domain)
    return composition.program(x, keys)


def check_operand(name: str, x: Any, keys: Any) -> None:
    """Refuses what is no ciphertext, keys that are none, and three components."""
    check_ciphertext(name, x)
    checked_keys(name, keys, x)
    check_two_components(name, x)


def with_levels(name: str, depth: int, x: Encrypted, task: str) -> Encrypted:
    """x, if it has the levels that a task takes; a LevelError, if not."""
    if x.level < depth:
        raise LevelError(
            f"{name}: {task} takes {depth} levels, and the operand is at level {x.level}; make parameters with more "
            f"depth, such as Parameters.for_depth({x.params.max_level + depth - x.level}), ask for fewer bits or a "
            "smaller domain, or bootstrap"
        )
    return x
