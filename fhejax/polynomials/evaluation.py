"""Polynomials on ciphertexts, and on simulated values: each sum of a plan is one `combine`.

No ciphertext is rescaled just to meet another. A sum says at what scale it needs its parts: a quotient is computed at
the scale that its factor T_k leaves for it, and every coefficient is encoded at the scale that its T_i leaves.

Source: exact scales, Bossuat, Mouchet, Troncoso-Pastoriza & Hubaux, "Efficient Bootstrapping for Approximate
Homomorphic Encryption with Non-Sparse Keys", 2021, section 5. What is computed: see `fhejax.polynomials.plan`.
"""

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np

from fhejax.errors import LevelError
from fhejax.kinds.base import Encrypted
from fhejax.kinds.requirements import check_ciphertext, check_two_components
from fhejax.operations.arithmetic import add, multiply_plain, relinearization_key
from fhejax.operations.levels import product_scale, to_canonical
from fhejax.polynomials.plan import planned
from fhejax.polynomials.polynomial import Polynomial, depth_of, effective_coefficients, pattern, to_unit_interval
from fhejax.scheme.values import EvaluationKeys


@overload
def evaluate(polynomial: Polynomial, x: Encrypted, keys: EvaluationKeys | None = None) -> Encrypted: ...


@overload
def evaluate(polynomial: Sequence[Polynomial], x: Encrypted, keys: EvaluationKeys | None = None) -> list[Encrypted]: ...


def evaluate(polynomial: Any, x: Any, keys: EvaluationKeys | None = None) -> Any:
    """p(x) in every slot; of several polynomials on one input a list, for less than one by one.

    Coefficients whose values are known when the program is traced are taken as doubles, and zeros among them save
    work. Traced ones (an argument of a jitted function, or under `grad`) are all taken to differ from zero, but for
    those that `polynomial.parity` excludes, and have the precision that JAX gives them: float32 with x64 off.

    Several polynomials share their domain, and the T_k of their input, which are chosen for the least work in all:
    three of degree 15 take 13 key switches instead of 21. Their coefficients are not shared, so they may be of
    different degrees.

    Args:
      polynomial: the series, or a list of them. Coefficients `[degree + 1, x.slots]` are another polynomial in each
        slot; there may not be fewer columns than slots. Chebyshev series grow fast outside their domain: for simulated
        values there, the worst is told by an `OutOfRangeWarning`; ciphertexts cannot tell.
      x: a ciphertext of two components, or simulated values; real or complex slots.
      keys: evaluation keys; needed for degree 2 and above.

    Returns:
      Level out: `polynomial.depth` lower, each by its own of several. That is ceil(log2(degree + 1)); a domain of
      another width than 2 takes one more, unless 2 / width is an integer or the degree is 1 (a mere shift takes none).
      A constant stays at the level.
      Scale out: canonical. Error added: the operand's slot error times |p'|; and for every sum inside one rounding,
      sqrt((1 + 2N/3)/12) per coefficient, times the derivative of the result by that sum (about k^2 c_k for T_k).
      A factor 2 / width that is no integer is rounded to a multiple of 1 / scale, which matters for domains wider than
      some thousands.
      Keys needed: relinearisation. Key switches: 4 for degree 7, 7 for 15, 10 for 31, 13 for 63, 18 for 127, 23 for
      255; of an even series 3, 5, 8, 11, 14 and 19, of an odd one of degrees 127 and 255 one less.

    Raises:
      LevelError: not enough levels are left.
      MissingKeyError: `keys` is missing, or was made for lower levels.
      TypeError: not a polynomial, or not a ciphertext.
      ValueError: a coefficient that is not finite or too large for the level, another number of columns than slots,
        several polynomials on different domains, or a ciphertext of three components.

    Example:
      >>> import fhejax as fhe
      >>> params = fhe.Parameters.for_depth(2)
      >>> sk = fhe.secret_key(fhe.new_seed(), params)
      >>> x = fhe.encrypt(fhe.new_seed(), sk, [-1.0, 0.5, 1.0])
      >>> keys = fhe.evaluation_keys(fhe.new_seed(), sk)
      >>> cube = fhe.evaluate(fhe.Polynomial([0, 0.75, 0, 0.25]), x, keys)
      >>> cube.level, fhe.decrypt(sk, cube)[:3].round(3).tolist()
      (0, [-1.0, 0.125, 1.0])
      >>> T1, T2 = fhe.evaluate([fhe.Polynomial([0, 1]), fhe.Polynomial([0, 0, 1])], x, keys)
      >>> T1.level, T2.level, fhe.decrypt(sk, T2)[:3].round(3).tolist()
      (1, 0, [1.0, -0.5, 1.0])
    """
    together = isinstance(polynomial, (list, tuple))
    polynomials = list(polynomial) if together else [polynomial]
    _check_arguments(polynomials, x)
    x, series = to_canonical(x), [_series(each) for each in polynomials]
    for each in series:
        _check_levels(each, x)
        _check_coefficients(each, x)
    results = _evaluated(series, x, keys)
    return results if together else results[0]


class _Series(NamedTuple):
    """What counts of a polynomial.

    Attributes:
      coefficients: as many as the pattern; of NumPy where they are known.
      pattern: which of them may differ from zero.
      domain: the polynomial's.
    """

    coefficients: Any
    pattern: tuple[bool, ...]
    domain: tuple[float, float]

    @property
    def degree(self) -> int:
        return len(self.pattern) - 1

    @property
    def depth(self) -> int:
        return depth_of(self.degree, self.domain)


def _series(polynomial):
    coefficients, where = effective_coefficients(polynomial), pattern(polynomial)
    if not isinstance(coefficients, np.ndarray):
        # A copy: with x64 off, eager vmap holds a NumPy double behind a float32 tracer.
        coefficients = jnp.array(coefficients, copy=True)
    return _Series(coefficients[: len(where)], where, polynomial.domain)


def _evaluated(polynomials, x, keys):
    domain, degrees = polynomials[0].domain, [each.degree for each in polynomials]
    if any(degrees):
        x._warn_outside("evaluate", domain)
    factor, shift = to_unit_interval(domain)
    results: dict[int, Any] = {}
    for i in _where(degrees, 0, 0):
        results[i] = add(multiply_plain(x, 0), polynomials[i].coefficients[0])
    if lines := _where(degrees, 1, 1):
        # c_0 + c_1 (factor x + shift) takes no more levels than c_0 + c_1 x
        change = np.array([[1.0, shift], [0.0, factor]])
        results |= zip(lines, _by_plan([polynomials[i] for i in lines], x, None, change), strict=True)
    if curves := _where(degrees, 2, math.inf):
        key = relinearization_key("evaluate", keys, x)
        carried = _carried(x, factor, shift)
        results |= zip(curves, _by_plan([polynomials[i] for i in curves], carried, key), strict=True)
    return [results[i] for i in range(len(polynomials))]


def _where(degrees, least, most):
    return [i for i, degree in enumerate(degrees) if least <= degree <= most]


def _carried(x, factor, shift):
    """factor x + shift: no level is taken by an integer factor."""
    if factor != 1:
        x = multiply_plain(x, int(factor) if factor.is_integer() else factor)
    return add(x, shift) if shift else x


def _by_plan(polynomials, x, key, change=None):
    """The polynomials on x in the unit interval, or with their coefficients multiplied by a matrix."""
    plan = planned(tuple(each.pattern for each in polynomials))
    weigh, run = x._compiled(_weights), x._compiled(_evaluate)
    values = []
    for each, series in zip(polynomials, plan.series, strict=True):
        rows, coefficients = series.rows if change is None else series.rows @ change, each.coefficients
        if not isinstance(coefficients, np.ndarray):
            values.append(weigh(coefficients, rows))
        else:
            values.append((rows * coefficients).sum(axis=-1) if coefficients.ndim == 1 else rows @ coefficients)
    return run(x, values, key, plan)


@jax.jit
def _weights(coefficients, rows):
    coefficients = coefficients.astype(float)
    if coefficients.ndim == 1:  # not a matrix product, which XLA may compute in less than double precision
        return (rows * coefficients).sum(axis=-1)
    return jnp.matmul(rows.astype(float), coefficients, precision="highest")


# --- what is refused ---------------------------------------------------------------------------------------------


def _check_arguments(polynomials, x):
    if not polynomials:
        raise ValueError("evaluate: got no polynomials; type evaluate([p, q], x, keys)")
    for polynomial in polynomials:
        if not isinstance(polynomial, Polynomial):
            raise TypeError(
                f"evaluate: got {type(polynomial).__name__} for a polynomial; type "
                "evaluate(fhejax.Polynomial(coefficients, domain), x, keys), or a list of polynomials"
            )
    check_ciphertext("evaluate", x)
    check_two_components("evaluate", x)
    first = polynomials[0].domain
    for polynomial in polynomials:
        if polynomial.domain != first:
            raise ValueError(
                f"evaluate: polynomials on the domains {first} and {polynomial.domain}; those evaluated together share "
                "their domain: carry one to that of the other, "
                f"q.compose(Polynomial.from_power([0, 1], domain={first})), or evaluate it apart"
            )
        _check_shape(polynomial.coefficients.shape, x.slots)


def _check_shape(shape, slots):
    """A column for each slot. Fewer are not filled up: they may well be a batch of polynomials, made by `vmap`."""
    if len(shape) > 2 or (len(shape) == 2 and shape[1] != slots):
        raise ValueError(
            f"evaluate: coefficients of shape {tuple(shape)}; need (degree + 1,), or (degree + 1, {slots}) for another "
            f"polynomial in each of the {slots} slots (fewer are filled up by numpy.pad); map over a batch of "
            "polynomials with jax.vmap"
        )


def _check_levels(series, x):
    depth = series.depth
    if depth > x.level:
        domain = "" if series.domain == (-1.0, 1.0) else f" on the domain {series.domain}"
        raise LevelError(
            f"evaluate: a polynomial of degree {series.degree}{domain} takes {depth} levels, and the "
            f"ciphertext is at level {x.level}; make parameters with more depth, such as "
            f"Parameters.for_depth({x.params.max_level + depth - x.level}), lower the degree, or bootstrap"
        )


def _check_coefficients(series, x):
    """The largest coefficient is at most 4/pi times the largest value of the series: what holds it holds the result."""
    known = series.coefficients
    if not isinstance(known, np.ndarray):
        return
    finite = np.isfinite(known).reshape(len(known), -1).all(axis=1)
    if not np.all(finite):
        raise ValueError(f"evaluate: the coefficient of T_{np.argmin(finite)} is not finite")
    largest, level = float(np.max(np.abs(known))), x.level - series.depth
    limit = Fraction(math.prod(x.params.moduli_at(level)), 2) / Fraction(x.params.scale_at(level))
    if largest >= limit:
        raise ValueError(
            f"evaluate: a coefficient of magnitude {largest:.6g} is too large for the modulus at level {level}, "
            f"where the result is; it must be below {float(limit):.6g}"
        )


# --- the evaluation ----------------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=3)
def _evaluate(x, values, key, plan):
    """The series of a plan on x, each with its own values of the plan's weights."""
    chebyshev = {1: x}
    for k, a in plan.splits:
        chebyshev[k] = _chebyshev(chebyshev[a], chebyshev[k - a], chebyshev.get(2 * a - k), key)
    results = []
    for series, own in zip(plan.series, values, strict=True):
        level = x.level - series.levels
        results.append(_sum(series.root, level, x.params.scale_at(level), chebyshev, own, key))
    return results


def _chebyshev(a, b, difference, key):
    """T_(a+b) = 2 T_a T_b - T_(a-b), at the scale that comes of it; `difference` is None for a = b."""
    level = min(a.level, b.level)
    scale = product_scale(a.params, level, a.scale * b.scale)
    minus = [] if difference is None else [difference]
    products, constant = [(a._add(a), b)], None if minus else -1.0
    return a._combine(level - 1, scale, minus, np.full(len(minus), -1.0), products, constant, key)


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
    terms = [chebyshev[i] for i in node.indices]
    return chebyshev[1]._combine(level, scale, terms, weights, products, constant, key)
