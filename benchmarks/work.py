"""What each operation cannot do without: transforms of a limb, and bytes to and from memory.

With L limbs, k special primes, digits of alpha primes and beta = ceil(L / alpha) digits, a key switch transforms

  L to coefficients, each digit to the L + k - alpha primes that are not its own: beta (L + k) in all,
  and in ModDown, for both halves, k back and L forward: 2 (L + k).

Nothing else is counted: neither basis conversions nor products, neither sampling nor the complex transform of
encoding. So a bound is what no program of this structure can beat, not what a perfect one would take.
"""

import math
import types
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fhejax import Parameters


class Work(NamedTuple):
    """What an operation has to do at least.

    Attributes:
      moved: bytes of the operands, read once, and of the results, written once.
      forward, inverse: transforms of one limb modulo each prime.
    """

    moved: int
    forward: Mapping[int, int] = types.MappingProxyType({})
    inverse: Mapping[int, int] = types.MappingProxyType({})

    def transforms(self) -> tuple[int, int]:
        """How many, forward and inverse."""
        return sum(self.forward.values()), sum(self.inverse.values())


def of_operations(params: Parameters, rotations: int) -> dict[str, Work]:
    """The work of each operation at the top level; of `ntt` and `inverse_ntt`, for all limbs.

    Args:
      params: the parameter set.
      rotations: how many rotations `rotate_many` makes.
    """
    q, special = params.moduli, params.special_moduli
    limb, limbs, digits = 8 * params.degree, len(q), params.digits
    slots, plain, lower, tensor = 8 * params.slots, limbs * limb, 2 * (limbs - 1) * limb, 3 * limbs * limb
    ciphertext, public_key, key = 2 * plain, 2 * (limbs + 1) * limb, 2 * digits * (limbs + len(special)) * limb
    all_of, rescale = _times(1, q), (_times(2, q[:-1]), _times(2, q[-1:]))
    key_switch = _key_switch(params, 1, q, special)
    many = _key_switch(params, rotations, q, special)
    # ModDown by P and the rescale are one.
    product = _key_switch(params, 1, q[:-1], (*special, q[-1]))
    # The ternary polynomial and two errors; the errors are divided by the special prime in coefficient form.
    encrypt = _times(3, q) + _times(1, special[:1]), _times(2, special[:1])
    return {
        "ntt": Work(2 * plain, all_of),
        "inverse_ntt": Work(2 * plain, inverse=all_of),
        "encode": Work(slots + plain, all_of),
        "decode": Work(plain + slots, inverse=all_of),
        "encrypt": Work(plain + public_key + ciphertext, *encrypt),
        "encode_encrypt": Work(slots + public_key + ciphertext, *encrypt),
        "decrypt": Work(ciphertext + plain + slots, inverse=all_of),
        "add": Work(3 * ciphertext),
        "subtract": Work(3 * ciphertext),
        "raw_multiply_plain": Work(2 * ciphertext + plain),
        "multiply_plain": Work(ciphertext + plain + lower, *rescale),
        "multiply": Work(2 * ciphertext + key + lower, *product),
        "square": Work(ciphertext + key + lower, *product),
        "rescale": Work(ciphertext + lower, *rescale),
        "rotate": Work(2 * ciphertext + key, *key_switch),
        f"rotate_many({rotations})": Work((1 + rotations) * ciphertext + rotations * key, *many),
        "conjugate": Work(2 * ciphertext + key, *key_switch),
        "relinearize": Work(tensor + key + ciphertext, *key_switch),
        # The errors forward; the masks are drawn in evaluation form.
        "evaluation_key": Work((limbs + len(special)) * limb + key, _times(digits, (*q, *special))),
    }


def of_equations(jaxpr: Any) -> Work:
    """The work of fhejax's primitives in a jaxpr, each for itself: what one leaves for the next is moved twice.

    Of keys that are made for a higher level only the limbs are counted that are needed.

    Args:
      jaxpr: without loops.
    """
    moved, forward, inverse = 0, Counter(), Counter()
    for equation in jaxpr.eqns:
        nested = [getattr(value, "jaxpr", value) for value in equation.params.values()]
        for each in (of_equations(value) for value in nested if hasattr(value, "eqns")):
            moved, forward, inverse = moved + each.moved, forward + each.forward, inverse + each.inverse
        name = equation.primitive.name
        if name.startswith("fhejax_"):
            shapes = [v.aval for v in equation.invars], [v.aval for v in equation.outvars]
            more = _PRIMITIVES.get(name.removeprefix("fhejax_"), _none)(equation.params, *shapes)
            moved += _moved(equation.params, *shapes)
            forward, inverse = forward + more[0], inverse + more[1]
    return Work(moved, forward, inverse)


def terms_of_equations(jaxpr: Any) -> float:
    """Products of the primitives in a jaxpr beside their butterflies, in units of N: terms of basis conversions and of
    inner products, products of values. About: lifts, reductions and sums are left out.

    Args:
      jaxpr: without loops.
    """
    terms = 0.0
    for equation in jaxpr.eqns:
        nested = [getattr(value, "jaxpr", value) for value in equation.params.values()]
        terms += sum(terms_of_equations(value) for value in nested if hasattr(value, "eqns"))
        count = _TERMS.get(equation.primitive.name.removeprefix("fhejax_"))
        if count is not None:
            terms += count(equation.params, [v.aval for v in equation.invars], [v.aval for v in equation.outvars])
    return terms


def _moved(parameters, operands, results):
    """Bytes; every operand is read in full, except for keys."""
    size = lambda x: math.prod(x.shape) * x.dtype.itemsize
    whole = sum(map(size, (*operands, *results)))
    if "digit_size" not in parameters:
        return whole
    limbs, extended = len(parameters["moduli"]), len(parameters["moduli"]) + len(parameters["special"])
    for key in (x for x in operands if x.ndim > 2 and x.shape[-2] > extended):
        digits = math.ceil(limbs / parameters["digit_size"])
        needed = digits * math.prod(key.shape[1:-2]) * extended * key.shape[-1] * key.dtype.itemsize
        whole -= size(key) - needed
    return whole


def _none(parameters, operands, results):
    return Counter(), Counter()


def _mod_up(parameters, count=1):
    """The digits of so many polynomials modulo all primes; their own limbs are there in evaluation form."""
    q, special = parameters["moduli"], parameters["special"]
    digits = math.ceil(len(q) / parameters["digit_size"])
    return _times(count * (digits - 1), q) + _times(count * digits, special), _times(count, q)


def _and_mod_down(mod_up, kept, dropped, components):
    forward, inverse = mod_up
    return forward + _times(components, kept), inverse + _times(components, dropped)


def _add_rotation(parameters, operands, results):
    """One component is divided by P in coefficient form, from which its digits are raised."""
    q, special = parameters["moduli"], parameters["special"]
    return _times(math.ceil(len(q) / parameters["digit_size"]), (*q, *special)), _times(1, (*q, *special))


def _hoisted_rotations(parameters, operands, results):
    count = sum(element != 1 for element in parameters["elements"])
    return _and_mod_down(_mod_up(parameters), parameters["moduli"], parameters["special"], 2 * count)


def _multiply_ciphertexts(parameters, operands, results):
    q, special = parameters["moduli"], parameters["special"]
    return _and_mod_down(_mod_up(parameters), q[:-1], (*special, q[-1]), 2)


def _rows(operands):
    return math.prod(operands[0].shape[:-2])


_PRIMITIVES = {
    "ntt": lambda p, x, y: (_times(_rows(x), p["moduli"]), Counter()),
    "inverse_ntt": lambda p, x, y: (Counter(), _times(_rows(x), p["moduli"])),
    "mod_raise": lambda p, x, y: (_times(_rows(x), p["more"]), _times(_rows(x), p["source"])),
    "mod_down": lambda p, x, y: _and_mod_down((Counter(), Counter()), p["keep"], p["drop"], _rows(x)),
    "gadget_product": lambda p, x, y: _mod_up(p, math.prod(x[0].shape[:-2])),
    "key_switch": lambda p, x, y: _and_mod_down(_mod_up(p), p["moduli"], p["special"], 2),
    "hoisted_sums": lambda p, x, y: _mod_up(p, p["inputs"]),
    "hoisted_rotations": _hoisted_rotations,
    "add_rotation": _add_rotation,
    "multiply_ciphertexts": _multiply_ciphertexts,
    "relinearize_rescale": _multiply_ciphertexts,
}


def _raise_terms(p):
    """To convert each digit to the primes that are not its own."""
    limbs, extended = len(p["moduli"]), len(p["moduli"]) + len(p["special"])
    sizes = [min(p["digit_size"], limbs - start) for start in range(0, limbs, p["digit_size"])]
    return sum(size * (1 + extended - size) for size in sizes)


def _inner_terms(p, count=1):
    """Both halves of so many inner products with a key."""
    return 2 * count * math.ceil(len(p["moduli"]) / p["digit_size"]) * (len(p["moduli"]) + len(p["special"]))


def _down_terms(kept, dropped, components=2):
    return components * (len(dropped) * (1 + len(kept)) + len(kept))


def _values(p, operands, results):
    return sum(math.prod(result.shape[:-1]) for result in results)


def _multiply_terms(p, operands, results):
    q, special = p["moduli"], p["special"]
    return _raise_terms(p) + _inner_terms(p) + _down_terms(q[:-1], (*special, q[-1])) + 4 * len(q)


def _hoisted_rotation_terms(p, operands, results):
    count = sum(element != 1 for element in p["elements"])
    return _raise_terms(p) + _inner_terms(p, count) + count * _down_terms(p["moduli"], p["special"])


def _hoisted_sum_terms(p, operands, results):
    switched = sum(element != 1 for element in p["elements"])
    plain = 2 * len(p["terms"]) * (len(p["moduli"]) + len(p["special"]))
    return p["inputs"] * _raise_terms(p) + _inner_terms(p, switched) + plain


_TERMS = {
    "multiply": _values,
    "multiply_add": _values,
    "multiply_scalar": _values,
    "convert_basis": lambda p, x, y: _rows(x) * len(p["source"]) * (1 + len(p["target"])),
    "mod_raise": lambda p, x, y: _rows(x) * len(p["source"]) * (1 + len(p["more"])),
    "mod_down": lambda p, x, y: _down_terms(p["keep"], p["drop"], _rows(x)),
    "gadget_product": lambda p, x, y: _raise_terms(p) + _inner_terms(p),
    "key_switch": lambda p, x, y: _raise_terms(p) + _inner_terms(p) + _down_terms(p["moduli"], p["special"]),
    "hoisted_rotations": _hoisted_rotation_terms,
    "hoisted_sums": _hoisted_sum_terms,
    "add_rotation": lambda p, x, y: _down_terms(p["moduli"], p["special"], 1) + _raise_terms(p) + _inner_terms(p),
    "multiply_ciphertexts": _multiply_terms,
    "relinearize_rescale": _multiply_terms,
    "combination": lambda p, x, y: 4 * p["products"] * len(p["moduli"]) + _values(p, x, y),
    "weighted_sums": lambda p, x, y: x[0].shape[-4] * _values(p, x, y),
}


def _key_switch(
    params: Parameters, count: int, kept: Iterable[int], dropped: Iterable[int]
) -> tuple[Counter[int], Counter[int]]:
    """One ModUp, and as many ModDowns as `count`; forward and inverse."""
    q, digits = params.moduli, params.digits
    forward = _times(digits - 1, q) + _times(digits, params.special_moduli)
    return forward + _times(2 * count, kept), _times(1, q) + _times(2 * count, dropped)


def _times(count: int, moduli: Iterable[int]) -> Counter[int]:
    return Counter({modulus: count for modulus in moduli})
