"""Encrypted arrays: a logical shape over ciphertexts, with NumPy's rules."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import jax
import numpy as np

from fhejax import _compat
from fhejax.arrays.layouts.layout import Layout, as_layout
from fhejax.arrays.layouts.placement import pack
from fhejax.arrays.layouts.record import Arranged
from fhejax.arrays.layouts.shapes import dummy
from fhejax.arrays.operations import conversions, elementwise, reductions, views
from fhejax.arrays.products import matmul
from fhejax.kinds.simulated import simulate
from fhejax.operations.encryption import decrypt, encrypt
from fhejax.parameters.parameters import Parameters
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
        layout, slots = _pack("EncryptedArray.encrypt", values, layout, key.params)
        return cls(encrypt(seed, key, slots), None, layout)

    @classmethod
    def simulate(
        cls, values: Any, params: Parameters, layout: Layout | str = "row", **options: Any
    ) -> "EncryptedArray":
        """An array as it is after encryption, in the clear: see `fhejax.simulate`, which takes the options."""
        layout, slots = _pack("EncryptedArray.simulate", values, layout, params)
        return cls(simulate(slots, params, **options), None, layout)

    def decrypt(self, secret: SecretKey | None, *, dtype: Any = None) -> jax.Array:
        """Decrypts the array, as `fhejax.decrypt`."""
        slots = decrypt(secret, self.ciphertext, dtype=dtype)
        return _entries(slots, self.layout.positions())

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

    transpose = views.transpose
    swapaxes = views.swapaxes
    moveaxis = views.moveaxis
    reshape = views.reshape
    ravel = views.ravel
    squeeze = views.squeeze
    expand_dims = views.expand_dims
    broadcast_to = views.broadcast_to

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
            return views.basic_index(self, parts)
        return conversions.gather(self, index)

    take = conversions.take

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

    to_layout = conversions.to_layout
    conversion = conversions.conversion
    clean = elementwise.clean

    def layout_for(self, shape: Sequence[int]) -> Layout:
        """Where an array of another shape has to lie to meet this one, for `y.to_layout(x.layout_for(y.shape))`.

        Raises:
          ValueError: the shape does not broadcast to this one, or no copies do it.
        """
        return elementwise.layout_for(self.layout, shape)

    # --- arithmetic -------------------------------------------------------------------------------------------------

    __add__ = __radd__ = elementwise.add
    __sub__ = elementwise.subtract
    __neg__ = elementwise.negate
    __mul__ = __rmul__ = elementwise.multiply
    __truediv__ = elementwise.divide
    __pow__ = elementwise.power
    map = elementwise.map

    def __rsub__(self, other: Any) -> "EncryptedArray":
        return -self + other

    def __pos__(self) -> "EncryptedArray":
        return self

    def __rtruediv__(self, other: Any) -> Any:
        raise elementwise.no_division()

    def __matmul__(self, other: Any) -> "EncryptedArray":
        return matmul.matmul(self, other)

    def __rmatmul__(self, other: Any) -> "EncryptedArray":
        return matmul.matmul(other, self)

    def dot(self, other: Any) -> "EncryptedArray":
        """As `numpy.dot`: with a number x * other, else x @ other."""
        return matmul.dot(self, other)

    # --- reductions -------------------------------------------------------------------------------------------------

    sum = reductions.sum
    mean = reductions.mean
    var = reductions.var
    norm = reductions.norm


def _pack(operation: str, values: Any, layout: Layout | str, params: Parameters) -> tuple[Layout, Any]:
    """The layout, and `[ciphertexts, slots]` with the values in all their places and zeros elsewhere."""
    array = values if _compat.is_traced(values) else np.asarray(values)
    layout = as_layout(operation, layout, np.shape(array), params.slots)
    return layout, pack(array, layout)


@_compat.jit()
def _entries(slots, positions):
    return slots.reshape(*slots.shape[:-2], -1)[..., positions]


def _is_integer(value: Any) -> bool:
    """Whether an index picks one entry of an axis; booleans are masks."""
    return hasattr(value, "__index__") and np.ndim(value) == 0 and not isinstance(value, (bool, np.bool_))
