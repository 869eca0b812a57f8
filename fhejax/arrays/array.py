"""Encrypted arrays: a logical shape over ciphertexts, with NumPy's rules."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import jax
import numpy as np

from fhejax import _compat
from fhejax.arrays.layouts.layout import Layout, as_layout
from fhejax.arrays.layouts.maps import ArrayMap
from fhejax.arrays.layouts.placement import placed as placed
from fhejax.arrays.layouts.record import Arranged
from fhejax.arrays.layouts.shapes import dummy
from fhejax.arrays.operations import conversions, elementwise, reductions, views
from fhejax.arrays.operations.reductions import Axis
from fhejax.arrays.products import matmul
from fhejax.kinds.simulated import simulate
from fhejax.operations.encryption import decrypt, encrypt
from fhejax.parameters.parameters import Parameters
from fhejax.polynomials.polynomial import Polynomial
from fhejax.scheme.random import Seed
from fhejax.scheme.values import EvaluationKeys, PublicKey, SecretKey, size_of


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class EncryptedArray(Arranged):
    """An array of encrypted numbers, or of simulated ones, that is used like a NumPy array.

    What only changes shapes costs nothing: `x.T`, `x[1:, ::2]`, `x.reshape(...)`, `x.squeeze()`. What computes takes
    levels and keys, as each method says; the keys are a part of the array, `x.with_keys(keys)`. Nothing else costs:
    where entries would have to be brought elsewhere, an error says what to type. See docs/arrays.md.

    Attributes:
      ciphertext: a Ciphertext or Simulated value, with a last batch axis that counts the ciphertexts of the array.
      keys: the evaluation keys that its operations take, or None. They are leaves of the pytree: return
        `y.without_keys()` from jitted functions.
      layout: where the entries lie (`fhejax.Layout`).

    Example:
      >>> import fhejax as fhe, numpy as np
      >>> params = fhe.Parameters.for_depth(1)
      >>> x = fhe.EncryptedArray.simulate([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], params)
      >>> x.T[::2].sum(axis=1).decrypt(None).round(3).tolist()
      [5.0, 9.0]
    """

    # NumPy would otherwise take `array @ x` apart into an array of objects.
    __array_ufunc__ = None

    @classmethod
    def encrypt(
        cls, seed: Seed, key: PublicKey | SecretKey, values: Any, layout: Layout | str = "row"
    ) -> "EncryptedArray":
        """Encrypts an array.

        Args:
          seed: as for `fhejax.encrypt`.
          key: a public key, or the secret key.
          values: real or complex, of any shape.
          layout: "row", "dense", "column", "replicated", "diagonal", "interleaved", "images", "columns", or a
            `fhejax.Layout`.
        """
        layout, slots = _placed("EncryptedArray.encrypt", values, layout, key.params)
        return cls(encrypt(seed, key, slots), None, layout)

    @classmethod
    def simulate(
        cls, values: Any, params: Parameters, layout: Layout | str = "row", **options: Any
    ) -> "EncryptedArray":
        """An array as it is after encryption, in the clear: see `fhejax.simulate`, which takes the options."""
        layout, slots = _placed("EncryptedArray.simulate", values, layout, params)
        return cls(simulate(slots, params, **options), None, layout)

    def decrypt(self, secret: SecretKey | None, *, dtype: Any = None) -> jax.Array:
        """Decrypts the array, as `fhejax.decrypt`."""
        slots = decrypt(secret, self.ciphertext, dtype=dtype)
        return slots.reshape(*slots.shape[:-2], -1)[..., self.layout.positions()]

    def with_keys(self, keys: EvaluationKeys | None) -> "EncryptedArray":
        """The same array; what is computed from it takes these keys."""
        return replace(self, keys=keys)

    def without_keys(self) -> "EncryptedArray":
        """The same array without keys: what a program returns."""
        return replace(self, keys=None)

    def __repr__(self) -> str:
        kind, count = type(self.ciphertext).__name__, self.layout.ciphertexts
        return f"EncryptedArray(level={self.level}, {self.layout}, {count} x {kind}, {size_of(self.ciphertext)})"

    # --- other shapes: free -----------------------------------------------------------------------------------------

    @property
    def T(self) -> "EncryptedArray":
        """The axes in the opposite order."""
        return views.transpose(self)

    @property
    def mT(self) -> "EncryptedArray":
        """The last two axes exchanged."""
        return views.matrix_transpose(self)

    def transpose(self, *axes: Any) -> "EncryptedArray":
        """The axes in another order, as `numpy.ndarray.transpose`."""
        return views.transpose(self, _one_or_many(axes) if axes else None)

    def swapaxes(self, first: int, second: int) -> "EncryptedArray":
        """Two axes exchanged."""
        return views.swapaxes(self, first, second)

    def moveaxis(self, source: Any, destination: Any) -> "EncryptedArray":
        """Axes moved to other places, as `numpy.moveaxis`."""
        return views.moveaxis(self, source, destination)

    def reshape(self, *shape: Any) -> "EncryptedArray":
        """The entries in another shape, in their order.

        Raises:
          ValueError: NumPy's; or entries would have to move: a conversion costs a level, and has to be asked for.
        """
        return views.reshape(self, _one_or_many(shape))

    def ravel(self) -> "EncryptedArray":
        """All entries along one axis. As `reshape`."""
        return views.reshape(self, -1)

    def squeeze(self, axis: Any = None) -> "EncryptedArray":
        """Without axes of one entry."""
        return views.squeeze(self, axis)

    def expand_dims(self, axis: Any) -> "EncryptedArray":
        """With more axes of one entry, as `numpy.expand_dims`."""
        return views.expand_dims(self, axis)

    def broadcast_to(self, *shape: Any) -> "EncryptedArray":
        """Repeated along new or single axes, where the array stands in copies already.

        Raises:
          ValueError: NumPy's; or there are too few copies.
        """
        return views.broadcast_to(self, _one_or_many(shape))

    def __getitem__(self, index: Any) -> "EncryptedArray":
        """Integers, slices, None and Ellipsis give views, which are free.

        Arrays of integers or booleans bring entries elsewhere: one level, and the key switches of a map; see `take`.

        Raises:
          IndexError, TypeError: NumPy's.
          ValueError: no entry is left; or a slice of digits that cannot say it.
        """
        parts = index if isinstance(index, tuple) else (index,)
        if _compat.is_traced(parts):
            raise TypeError("x[...]: the index is traced; indices are static, chosen when the program is traced")
        shape = dummy(self.shape)[index].shape
        if 0 in shape:
            raise ValueError(f"x[...]: the result of shape {shape} is empty; encrypted arrays have at least one entry")
        if all(each is None or each is Ellipsis or isinstance(each, slice) or _is_integer(each) for each in parts):
            return views.indexed(self, parts)
        return conversions.gathered(self, index)

    def take(self, indices: Any, axis: int | None = None, *, layout: Layout | str | None = None) -> "EncryptedArray":
        """Entries by their numbers along an axis, as `numpy.take`.

        Args:
          indices: integers.
          axis: along which; of the raveled array if None.
          layout: of the result; "replicated" if None and the array stands in copies, as far as it fits, else "row".

        Returns:
          Level out: one lower. Keys needed: the rotations of a map, one for each different distance at most.
        """
        return conversions.take(self, indices, axis, layout)

    def __len__(self) -> int:
        return len(dummy(self.shape))

    def __iter__(self) -> Iterator["EncryptedArray"]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> NoReturn:
        raise TypeError("an encrypted array is neither true nor false; type x.decrypt(secret_key) first")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            "an encrypted array is no NumPy array; type x.decrypt(secret_key) first, or call its own methods"
        )

    # --- other layouts ----------------------------------------------------------------------------------------------

    def to_layout(self, layout: Layout | str) -> "EncryptedArray":
        """The same array in another layout, with zeros in every slot that no entry owns.

        Where the entries lie there already, nothing is done, and other slots stay as they are. Level out: one lower, or
        then the same. Keys needed: `x.conversion(layout).rotations`.
        """
        return conversions.to_layout(self, layout)

    def conversion(self, layout: Layout | str, *, encoded: bool = True) -> ArrayMap:
        """The map into another layout: its `repr` says what it costs, and `x @ conversion` applies it.

        Args:
          layout: a name, or a layout of this shape.
          encoded: whether to encode its plaintexts now, once, for many arrays. False is for looking.
        """
        return conversions.conversion(self, layout, encoded)

    def layout_for(self, shape: Sequence[int]) -> Layout:
        """Where an array of another shape has to lie to meet this one, for `y.to_layout(x.layout_for(y.shape))`.

        Raises:
          ValueError: the shape does not broadcast to this one, or no copies do it.
        """
        return elementwise.layout_for(self.layout, shape)

    def clean(self, fill: Any = 0.0) -> "EncryptedArray":
        """A number in every slot that no entry owns. Level out: one lower; the same if there are no such slots."""
        return elementwise.cleaned(self, fill)

    # --- arithmetic -------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> "EncryptedArray":
        return elementwise.add(self, other)

    def __radd__(self, other: Any) -> "EncryptedArray":
        return elementwise.add(self, other)

    def __sub__(self, other: Any) -> "EncryptedArray":
        return elementwise.subtract(self, other)

    def __rsub__(self, other: Any) -> "EncryptedArray":
        return elementwise.add(elementwise.negate(self), other)

    def __neg__(self) -> "EncryptedArray":
        return elementwise.negate(self)

    def __pos__(self) -> "EncryptedArray":
        return self

    def __mul__(self, other: Any) -> "EncryptedArray":
        return elementwise.multiply(self, other)

    def __rmul__(self, other: Any) -> "EncryptedArray":
        return elementwise.multiply(self, other)

    def __truediv__(self, other: Any) -> "EncryptedArray":
        return elementwise.divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        raise elementwise.no_division()

    def __pow__(self, exponent: Any) -> "EncryptedArray":
        return elementwise.power(self, exponent)

    def __matmul__(self, other: Any) -> "EncryptedArray":
        return matmul.matmul(self, other)

    def __rmatmul__(self, other: Any) -> "EncryptedArray":
        return matmul.matmul(other, self)

    def dot(self, other: Any) -> "EncryptedArray":
        """As `numpy.dot`: with a number x * other, else x @ other."""
        return matmul.dot(self, other)

    def map(self, function: Callable[..., Any] | Polynomial, *, fill: Any = None, **options: Any) -> "EncryptedArray":
        """A function of each entry: `x.map(fhejax.functions.sigmoid, domain=(-8, 8), bits=12)`.

        Slots that no entry owns go through the function as well. Where it is a polynomial on a domain, what stands
        there may lie outside of it, grow beyond the modulus and destroy the whole ciphertext: after sums and slices,
        say what is to stand there instead. Simulated values outside are warned of.

        Args:
          function: of a ciphertext and keys, acting on every slot for itself, such as those of `fhejax.functions`; or a
            `fhejax.Polynomial`.
          fill: a number for all slots that no entry owns, put there first by `clean`; None leaves them as they are.
          options: what the function takes besides.
        """
        return elementwise.mapped(self, function, fill, **options)

    # --- reductions -------------------------------------------------------------------------------------------------

    def sum(self, axis: Axis = None, keepdims: bool = False) -> "EncryptedArray":
        """The sum over axes, as `numpy.sum`.

        Level out: the same. Keys needed: rotations, about log2(n) for n entries of an axis inside a ciphertext. Slots
        that no entry owns hold sums of other entries.

        Raises:
          numpy.exceptions.AxisError: there is no such axis.
          ValueError: the entries of some sums are cut by the end of a ciphertext where those of others are not.
          MissingKeyError: a rotation has no key.
        """
        return reductions.summed(self, axis, keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> "EncryptedArray":
        """The mean over axes, and zeros in slots that no entry owns. Level out: one lower. Keys needed: as `sum`."""
        return reductions.mean(self, axis, keepdims)

    def var(self, axis: Axis = None, ddof: int | float = 0, keepdims: bool = False) -> "EncryptedArray":
        """The variance over axes, as `numpy.var`: the mean square less the square of the mean.

        Both are large where the mean is large beside the deviation, and so is the error then. Level out: two lower.
        Keys needed: as `sum`, and relinearisation; of complex arrays, conjugation.
        """
        return reductions.variance(self, axis, ddof, keepdims)

    def norm(
        self, axis: Axis = None, keepdims: bool = False, *, domain: Sequence[Any], bits: float | int
    ) -> "EncryptedArray":
        """The Euclidean norm over axes; `(x * x).sum(axis)` is its square, and cheaper.

        Args:
          axis, keepdims: as of `sum`.
          domain: (a, b) that the norms lie in, with 0 <= a < b.
          bits: the absolute error of the square root is to be at most 2^-bits.

        Returns:
          Level out: lower by one for the square, one for what stands in slots that no entry owns (where there are
          such), and the depth of `fhejax.functions.sqrt` on (a^2, b^2). Keys needed: as `var`.
        """
        return reductions.norm(self, axis, keepdims, domain=domain, bits=bits)


def _placed(operation: str, values: Any, layout: Layout | str, params: Parameters) -> tuple[Layout, Any]:
    """The layout, and `[ciphertexts, slots]` with the values in all their places and zeros elsewhere."""
    array = values if _compat.is_traced(values) else np.asarray(values)
    layout = as_layout(operation, layout, np.shape(array), params.slots)
    return layout, placed(array, layout)


def _one_or_many(arguments: tuple[Any, ...]) -> Any:
    """What NumPy's methods take either as one sequence or as several arguments."""
    return arguments[0] if len(arguments) == 1 and isinstance(arguments[0], (tuple, list)) else arguments


def _is_integer(value: Any) -> bool:
    """Whether an index picks one entry of an axis; booleans are masks."""
    return hasattr(value, "__index__") and np.ndim(value) == 0 and not isinstance(value, (bool, np.bool_))
