"""What a circuit may ask of a value: the one class that every kind of encrypted value is of.

A circuit is a function of ciphertexts. On another kind it means something else: what it will err (`Simulated`), what it
will cost (`Counted`). Which level and scale come out, and what is refused, is decided once for all kinds (operations,
linear, polynomials, bootstrapping, arrays). What is left is here, a method each. Their names begin with an underscore
because their operands have been checked and aligned: programs call `fhejax.add`, not `x._add`.

A further kind is a further file beside this one, with a dataclass that is a pytree and a subclass of `Kind`.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from fhejax.parameters.parameters import Parameters

# Filled by fhejax.operations.arithmetic, so that imports run one way.
operators: dict[str, Callable[..., Any]] = {}


class Operators:
    """The signs + - * / for what programs compute with: what `fhejax.operations.arithmetic` does."""

    __slots__ = ()

    # NumPy would otherwise take `array * ciphertext` apart into an array of objects.
    __array_ufunc__ = None

    def __add__(self, other: Any, /) -> Any:
        return operators["add"](self, other)

    def __radd__(self, other: Any, /) -> Any:
        return operators["add"](self, other)

    def __sub__(self, other: Any, /) -> Any:
        return operators["subtract"](self, other)

    def __rsub__(self, other: Any, /) -> Any:
        return operators["add"](operators["negate"](self), other)

    def __neg__(self) -> Any:
        return operators["negate"](self)

    def __mul__(self, other: Any, /) -> Any:
        return operators["product"](self, other)

    def __truediv__(self, other: Any, /) -> Any:
        return operators["product"](self, 1.0 / other)

    def __rmul__(self, other: Any, /) -> Any:
        return operators["product"](self, other)


class Kind(Operators, abc.ABC):
    """A kind of encrypted values. In the methods, x is the value itself.

    Attributes:
      params: the parameter set.
      level: the index of the last prime.
      scale: what the slots are multiplied by.
      slots: how many values there are.
      real: whether they are known to be real.
    """

    __slots__ = ()

    params: Parameters
    level: int
    scale: float
    slots: int
    real: bool

    adjective: ClassVar[str]
    """How its values are called: "encrypted"."""
    needs_keys: ClassVar[bool] = True
    """Whether operations take real keys; if not, None will do."""
    in_the_clear: ClassVar[bool] = False
    """Whether whoever holds a value can read it."""
    leaf_axes: ClassVar[tuple[int, ...]]
    """How many axes each leaf of the pytree has behind those of the batch."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The batch shape: one ciphertext each."""

    @property
    @abc.abstractmethod
    def components(self) -> int:
        """2, or 3 for a product before relinearisation."""

    # --- arithmetic, see fhejax.operations ---

    @abc.abstractmethod
    def _change_level(self, factor: int, top: int, level: int, scale: float, /) -> Any:
        """Drops the limbs above `top`, multiplies the residues by `factor`, divides by the primes down to `level`.

        The values stay: `scale` is the one at which they then are.
        """

    @abc.abstractmethod
    def _add(self, other: Any, /) -> Any:
        """x + y, at the level and scale of both; of components, those that one has are kept."""

    @abc.abstractmethod
    def _subtract(self, other: Any, /) -> Any:
        """x - y, as `_add`."""

    @abc.abstractmethod
    def _negate(self, /) -> Any:
        """-x."""

    @abc.abstractmethod
    def _plaintext_like(self, values: Any, /) -> Any:
        """What x can be combined with: a plaintext, or an array at the level, scale and packing of x."""

    @abc.abstractmethod
    def _add_plain(self, plain: Any, negative: bool, /) -> Any:
        """x + plain or x - plain, for what `_plaintext_like` gives at the level and scale of x."""

    @abc.abstractmethod
    def _add_number(self, number: Any, negative: bool, /) -> Any:
        """x + number or x - number, for one real number for all slots."""

    @abc.abstractmethod
    def _multiply_integer(self, factor: int, /) -> Any:
        """x times a Python integer, exactly."""

    @abc.abstractmethod
    def _multiply_number(self, number: Any, scale: float, /) -> Any:
        """x times one real number for all slots, rescaled to `scale`."""

    @abc.abstractmethod
    def _multiply_plain(self, plain: Any, more: Sequence[tuple[Any, Any]], scale: float, /) -> Any:
        """x times a plaintext, plus such products of `more`, rescaled once to `scale`."""

    @abc.abstractmethod
    def _tensor(self, other: Any, /) -> Any:
        """The raw product, of three components."""

    @abc.abstractmethod
    def _multiply(self, other: Any, key: Any, scale: float, /) -> Any:
        """x y, relinearised and rescaled to `scale`."""

    @abc.abstractmethod
    def _relinearize(self, key: Any, /) -> Any:
        """Three components brought to two."""

    @abc.abstractmethod
    def _automorphisms(self, elements: Sequence[int], keys: Sequence[Any], /) -> list[Any]:
        """For each galois element, x with its automorphism applied and switched back by its key; hoisted."""

    # --- sums, see fhejax.polynomials.evaluation, fhejax.linear and fhejax.arrays ---

    @abc.abstractmethod
    def _combine(
        self,
        level: int,
        scale: float,
        terms: Sequence[Any],
        weights: Any,
        products: Sequence[tuple[Any, Any]],
        constant: Any,
        key: Any,
        /,
    ) -> Any:
        """weights . terms + sum of products + constant, relinearised and rescaled once, into `level` and `scale`.

        It is added up one level higher, at the scale that is the product of each product's two scales. x is a term or a
        factor; terms have two components and any scales; weights are floating `[terms]`, or `[terms, slots]` for one in
        each slot; the constant is a number, `[slots]`, or None for zero.
        """

    @abc.abstractmethod
    def _transformed(self, xs: Sequence[Any], transform: Any, keys: Any, /) -> list[Any]:
        """The outputs of a linear transform of `xs`, of which x is the first, at its level.

        `keys`: by step, the galois element and its key.
        """

    @abc.abstractmethod
    def _weighted_sums(self, weights: Any, scale: float, /) -> Any:
        """For each column of `[terms, sums]` the sum of x_i weights[i], rescaled; a batch `[*batch, sums]`."""

    @abc.abstractmethod
    def _tensor_sum(self, xs: Sequence[Any], ys: Sequence[Any], /) -> Any:
        """The sum of the raw products x_i y_i, of three components; x is the first; batch axes are broadcast."""

    @abc.abstractmethod
    def _relinearize_rescale(self, key: Any, scale: float, /) -> Any:
        """A sum of raw products relinearised and rescaled to `scale` with a single rounding, one level lower."""

    # --- bootstrapping, see fhejax.bootstrapping.stages ---

    @abc.abstractmethod
    def _mod_raise(self, keys: Any, /) -> Any:
        """x, of level 0, at the top, by way of the sparse secret; before the trace. `keys` are of a bootstrapping."""

    @abc.abstractmethod
    def _multiply_by_i(self, /) -> Any:
        """i x, exactly."""

    @abc.abstractmethod
    def _repack(self, slots: int, /) -> Any:
        """x of twice the slots, with all of them repeated; or of half, where they repeat after half of them."""

    @abc.abstractmethod
    def _known_real(self, /) -> Any:
        """x as real values, which they are up to errors."""

    def _with_imaginary(self, other: Any, /) -> Any:
        """x + i y, of real slots."""
        return self._add(other._multiply_by_i())

    def _refresh(self, stages: Callable[[Any, Any], Any], keys: Any, /) -> Any:
        """x through all stages of a bootstrapping."""
        return stages(self, keys)

    def _without_errors(self, /) -> Any:
        """x as it is: of kinds that know their errors, without them."""
        return self

    # --- what is not computed on contents ---

    @abc.abstractmethod
    def _decrypt(self, secret: Any, dtype: Any, /) -> Any:
        """The values, `[*batch, slots]`."""

    @staticmethod
    def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        """How a compiled function of values and floating numbers is called."""
        return function

    def _warn_outside(self, operation: str, domain: tuple[float, float], /) -> None:
        """Warns of values outside a domain, where they can be looked at."""


Encrypted = TypeVar("Encrypted", bound=Kind)
"""What a program computes with; the same program takes any kind."""


class AnyKey:
    """The key of a kind that needs none."""

    operand = None


class AnyKeys:
    """The evaluation keys of a kind that needs none: whatever an operation asks for is there."""

    def relinearization_key(self, level: int) -> AnyKey:
        return AnyKey()

    def galois_key(self, element: int, level: int, slots: int | None = None) -> AnyKey:
        return AnyKey()
