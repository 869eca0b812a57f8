"""Polynomials on ciphertexts: Paterson-Stockmeyer in the Chebyshev basis, in the fewest levels.

With a budget of n levels, a series below degree 2^n is a sum that is relinearised and rescaled only once,

    p = sum_i c_i T_i + sum_k q_k T_k,

of those T_i that are computed within n - 1 levels (a factor costs the sum's own rescale, and no level more), and of
products with quotients q_k below degree 2^(n-1), which are such sums again, with a budget of n - 1. Which T_k are
computed is chosen when the program is traced, for the fewest key switches, given which coefficients may differ from
zero: an odd or an even series is cheaper by itself.

No ciphertext is rescaled just to meet another. A sum says at what scale it needs its parts: a quotient is computed at
the scale that its factor T_k leaves for it, and every coefficient is encoded at the scale that its T_i leaves.

Sources: Paterson & Stockmeyer, "On the Number of Nonscalar Multiplications Necessary to Evaluate Polynomials", 1973;
in the Chebyshev basis, Chen, Chillotti & Song, "Improved Bootstrapping for Approximate Homomorphic Encryption", 2019;
fewest levels and exact scales, Bossuat, Mouchet, Troncoso-Pastoriza & Hubaux, "Efficient Bootstrapping for Approximate
Homomorphic Encryption with Non-Sparse Keys", 2021, section 5; products of one sum relinearised together, Han & Ki,
"Better Bootstrapping for Approximate Homomorphic Encryption", 2020.
"""

import dataclasses
import functools
import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fhejax import _compat
from fhejax.errors import LevelError
from fhejax.levels import check_ciphertext, product_scale, to_canonical
from fhejax.ops import add, multiply_plain, relinearization_key
from fhejax.polynomials.polynomial import Polynomial, check_one_series, known_coefficients, to_unit_interval
from fhejax.primitives import modular
from fhejax.primitives.basis import mod_down
from fhejax.primitives.multiply_ciphertexts import multiply_ciphertexts, relinearize_rescale, tensor
from fhejax.primitives.residues import round_to_residues
from fhejax.values import Ciphertext, EvaluationKeys


def evaluate(polynomial: Polynomial, x: Ciphertext, keys: EvaluationKeys | None = None) -> Ciphertext:
    """p(x) in every slot.

    Coefficients whose values are known when the program is traced are taken as doubles, and zeros among them save
    work. Traced ones (an argument of a jitted function, or under `grad`) are all taken to differ from zero, and have
    the precision that JAX gives them: float32 with x64 off.

    Args:
      polynomial: the series. Nothing is said about slots outside its domain, where Chebyshev series grow fast.
      x: a ciphertext of two components; real or complex slots.
      keys: evaluation keys; needed for degree 2 and above.

    Returns:
      Level out: `polynomial.depth` lower. That is ceil(log2(degree + 1)); a domain of another width than 2 takes one
      more, unless 2 / width is an integer or the degree is 1 (a mere shift takes none). A constant stays at the level.
      Scale out: canonical. Error added: the operand's slot error times |p'|; and for every sum inside one rounding,
      sqrt((1 + 2N/3)/12) per coefficient, times the derivative of the result by that sum (about k^2 c_k for T_k).
      Keys needed: relinearisation. Key switches: 4 for degree 7, 7 for 15, 10 for 31, 13 for 63, 18 for 127.

    Raises:
      LevelError: not enough levels are left.
      MissingKeyError: `keys` is missing, or was made for lower levels.
      TypeError: not a polynomial, or not a ciphertext.
      ValueError: a coefficient that is not finite or too large for the level, or a ciphertext of three components.

    Example:
      >>> import fhejax as fhe
      >>> params = fhe.Parameters.for_depth(2)
      >>> sk = fhe.secret_key(fhe.new_seed(), params)
      >>> x = fhe.encrypt(fhe.new_seed(), sk, [-1.0, 0.5, 1.0])
      >>> cube = fhe.evaluate(fhe.Polynomial([0, 0.75, 0, 0.25]), x, fhe.evaluation_keys(fhe.new_seed(), sk))
      >>> cube.level, fhe.decrypt(sk, cube)[:3].round(3).tolist()
      (0, [-1.0, 0.125, 1.0])
    """
    _check_arguments(polynomial, x)
    x, known = to_canonical(x), known_coefficients(polynomial)
    coefficients = polynomial.coefficients if known is None else known
    degree = coefficients.shape[0] - 1
    _check_levels(degree, polynomial, x)
    if known is not None:
        _check_coefficients(known, x, polynomial.depth)
    if degree == 0:
        return add(multiply_plain(x, 0), coefficients[0])
    plan = _plan((True,) * (degree + 1) if known is None else tuple((known != 0).tolist()))
    rows, (factor, shift) = plan.rows, to_unit_interval(polynomial.domain)
    if degree == 1:  # c_0 + c_1 (factor x + shift) takes no more levels than c_0 + c_1 x
        rows = rows @ np.array([[1.0, shift], [0.0, factor]])
    else:
        x = _carried(x, factor, shift)
    if known is None:
        # A copy: with x64 off, eager vmap holds a NumPy double behind a float32 tracer.
        values = _weights(jnp.array(coefficients, copy=True), rows)
    else:
        values = (rows * known).sum(axis=-1)
    key = relinearization_key("evaluate", keys, x) if degree > 1 else None
    return _evaluate(x, values, key, plan)


def _check_arguments(polynomial, x):
    if not isinstance(polynomial, Polynomial):
        raise TypeError(
            f"evaluate: got {type(polynomial).__name__} for the polynomial; type "
            "evaluate(fhejax.Polynomial(coefficients, domain), x, keys)"
        )
    check_one_series("evaluate", polynomial)
    check_ciphertext("evaluate", x)
    if x.components != 2:
        raise ValueError("evaluate: the ciphertext has three components; type fhejax.relinearize(x, keys) first")


def _check_levels(degree, polynomial, x):
    depth = polynomial.depth
    if depth > x.level:
        domain = "" if polynomial.domain == (-1.0, 1.0) else f" on the domain {polynomial.domain}"
        raise LevelError(
            f"evaluate: a polynomial of degree {degree}{domain} takes {depth} levels, and the ciphertext is at level "
            f"{x.level}; make parameters with more depth, such as "
            f"Parameters.for_depth({x.params.max_level + depth - x.level}), lower the degree, or bootstrap"
        )


def _check_coefficients(known, x, depth):
    """The largest coefficient is at most 4/pi times the largest value of the series: what holds it holds the result."""
    if not np.all(np.isfinite(known)):
        raise ValueError(f"evaluate: the coefficient of T_{np.argmin(np.isfinite(known))} is not finite")
    largest, level = float(np.max(np.abs(known))), x.level - depth
    limit = math.prod(x.params.moduli_at(level)) / 2 / x.params.scale_at(level)
    if largest >= limit:
        raise ValueError(
            f"evaluate: a coefficient of magnitude {largest:.6g} is too large for the modulus at level {level}, "
            f"where the result is; it must be below {limit:.6g}"
        )


def _carried(x, factor, shift):
    """factor x + shift: no level is taken by an integer factor."""
    if factor != 1:
        x = multiply_plain(x, int(factor) if factor.is_integer() else factor)
    return add(x, shift) if shift else x


@_compat.jit()
def _weights(coefficients, rows):
    # Not a matrix product, which XLA may compute in less than double precision.
    return (rows * coefficients.astype(jnp.float64)).sum(axis=-1)


# --- the plan ----------------------------------------------------------------------------------------------------


class _Sum(NamedTuple):
    """constant + sum of weights times T_i + sum of products of T_k with other such sums."""

    constant: int | None  # where it stands in the plan's rows
    indices: tuple[int, ...]  # the i ...
    rows: tuple[int, ...]  # ... and where their weights stand
    products: tuple[tuple[int, "_Sum"], ...]  # (k, q_k)


@dataclasses.dataclass(frozen=True)
class _Plan:
    """How series with this pattern are evaluated; equal, and hashed, by the pattern alone."""

    pattern: tuple[bool, ...]  # which coefficients may differ from zero
    root: _Sum = dataclasses.field(compare=False)
    rows: np.ndarray = dataclasses.field(compare=False)  # integers: weights = rows @ coefficients
    splits: tuple[tuple[int, int], ...] = dataclasses.field(compare=False)  # ascending (k, a): T_k from T_a and T_(k-a)

    @property
    def cost(self) -> tuple[int, int]:
        """Key switches, and products before relinearisation."""
        switches, products = _count(self.root)
        return len(self.splits) + switches, len(self.splits) + products


@functools.lru_cache(maxsize=1024)
def _plan(pattern: tuple[bool, ...]) -> _Plan:
    """The cheapest plan among those with T_1 to T_b, multiples of b up to m, and powers of two, for powers b <= m."""
    levels = (len(pattern) - 1).bit_length()
    powers = {1 << j for j in range(levels)}
    choices = [(1 << j, 1 << i) for i in range(levels) for j in range(min(i, levels // 2) + 1)]
    available = {tuple(sorted(powers | {*range(1, b), *range(b, m + 1, b)})) for b, m in choices}
    return min((_plan_with(pattern, indices) for indices in sorted(available)), key=lambda plan: plan.cost)


def _plan_with(pattern, available):
    rows, used = [], set()
    levels = (len(pattern) - 1).bit_length()
    root = _plan_sum(np.diag(np.array(pattern, np.int64)), levels, available, rows, used)
    return _Plan(pattern, root, np.array(rows), _splits(used))


def _plan_sum(series, levels, available, rows, used):
    """Plans a series below degree 2^levels; row i of `series` is the coefficient of T_i by those of the polynomial.

    It ends: powers of two up to 2^(levels-1) are usable, so the largest usable k up to i is above i / 2, and dividing
    by T_k removes T_i. The quotient is below degree 2^(levels-1).
    """
    usable, products = [k for k in available if _depth(k) < levels], []
    while missing := [i for i in range(1, len(series)) if i not in usable and series[i].any()]:
        k = max(k for k in usable if k <= missing[-1])
        quotient, series = _divide(series, k)
        products.append((k, _plan_sum(quotient, levels - 1, available, rows, used)))
    indices = [i for i in range(1, len(series)) if series[i].any()]
    used.update(indices, (k for k, _ in products))
    start = len(rows)
    rows.extend(series[i] for i in indices)
    constant = len(rows) if series[0].any() else None
    rows.extend([series[0]] if constant is not None else [])
    return _Sum(constant, tuple(indices), tuple(range(start, start + len(indices))), tuple(products))


def _divide(series, k):
    """(q, r) with series = q T_k + r, from T_i = 2 T_(i-k) T_k - T_(2k-i); what is above 2 k stays in r."""
    quotient, rest = 2 * series[k : 2 * k + 1], series.copy()
    above = len(quotient) - 1
    quotient[0] = series[k]
    rest[k : k + above + 1] = 0
    rest[k - above : k] -= series[k + above : k : -1]
    return quotient, rest


def _splits(used):
    """(k, a) for each T_k, k > 1, that is used or that another is made of: T_k = 2 T_a T_(k-a) - T_(2a-k).

    Any a up to the power of two below k keeps T_k at depth ceil(log2 k); taken is one that asks for few others.
    """
    needed, splits = set(used), []
    for k in range(max(used), 1, -1):
        if k in needed:
            choices = range(-(-k // 2), (1 << _depth(k) - 1) + 1)
            a = min(choices, key=lambda a: len({a, k - a, 2 * a - k} - needed - {0, 1}))
            needed |= {a, k - a, 2 * a - k}
            splits.append((k, a))
    return tuple(reversed(splits))


def _depth(k):
    """The levels that T_k takes, ceil(log2 k)."""
    return (k - 1).bit_length()


def _count(node):
    """(key switches, products) of a sum and the sums in it."""
    below = [_count(quotient) for _, quotient in node.products]
    switches, products = sum(count[0] for count in below), sum(count[1] for count in below)
    return switches + bool(below), products + len(below)


# --- the evaluation ----------------------------------------------------------------------------------------------


@_compat.jit(3)
def _evaluate(x, values, key, plan):
    chebyshev = {1: x}
    for k, a in plan.splits:
        chebyshev[k] = _chebyshev(chebyshev[a], chebyshev[k - a], chebyshev.get(2 * a - k), key)
    level = x.level - (len(plan.pattern) - 1).bit_length()
    return _sum(plan.root, level, x.params.scale_at(level), chebyshev, values, key)


def _chebyshev(a, b, difference, key):
    """T_(a+b) = 2 T_a T_b - T_(a-b), at the scale that comes of it; `difference` is None for a = b."""
    level = min(a.level, b.level)
    scale = product_scale(a.params, level, a.scale * b.scale)
    twice = dataclasses.replace(a, data=modular.add(a.data, a.data, a.params.moduli_at(a.level)))
    minus = [] if difference is None else [difference]
    return _combined(level - 1, scale, minus, np.full(len(minus), -1.0), [(twice, b)], None if minus else -1.0, key)


def _sum(node, level, scale, chebyshev, values, key):
    """A sum of the plan, at the level and scale asked for."""
    params = chebyshev[1].params
    raw = scale * params.moduli[level + 1]
    products = [
        (chebyshev[k], _sum(quotient, level + 1, raw / chebyshev[k].scale, chebyshev, values, key))
        for k, quotient in node.products
    ]
    weights = values[np.array(node.rows, int)]
    constant = None if node.constant is None else values[node.constant]
    return _combined(level, scale, [chebyshev[i] for i in node.indices], weights, products, constant, key)


def _combined(level, scale, terms, weights, products, constant, key):
    """weights . terms + sum of products + constant, relinearised and rescaled once, into `level` and `scale`.

    It is added up one level higher, at the scale `raw`, which is the product of each product's two scales.
    """
    like = terms[0] if terms else products[0][0]
    params, above = like.params, level + 1
    moduli, raw = params.moduli_at(above), scale * params.moduli[above]

    def limbs(x):
        return x.data[..., : above + 1, :]

    def ciphertext(data, level, scale):
        return Ciphertext(data, params, level, scale, like.slots, like.real)

    switch = key, moduli, params.special_moduli, params.digit_size
    if len(products) == 1 and not terms:  # one kernel; the constant is added behind it
        ((x, y),) = products
        total = ciphertext(multiply_ciphertexts(limbs(x), limbs(y), *switch), level, scale)
        return total if constant is None else add(total, constant)
    parts = [tensor(limbs(x), limbs(y), moduli) for x, y in products]
    if terms:
        # One scale encodes all weights: what the terms' scales differ by is multiplied into them.
        unit = params.scale_at(above)
        weights = jnp.asarray(weights) * np.array([unit / x.scale for x in terms])
        scalars = round_to_residues(weights[:, None], raw / unit, moduli)[..., 0]
        parts += [modular.multiply_scalar(limbs(x), scalar, moduli) for x, scalar in zip(terms, scalars, strict=True)]
    total = functools.reduce(add, (ciphertext(part, above, raw) for part in parts))
    data = (total if constant is None else add(total, constant)).data
    data = relinearize_rescale(data, *switch) if products else mod_down(data, moduli[:-1], moduli[-1:])
    return ciphertext(data, level, scale)
