"""The noise model of whole operations, which measured errors are held to.

Variances are of a coefficient at the ciphertext's scale, as in `fhejax.kinds.noise`. A product also needs the size of
what is multiplied: `message` and `values` are the mean of |slot|^2, in the values' own units; with the largest |slot|^2
instead, the result holds for the worst slot. D is the scale, N the ring degree.

Source: Costache, Curtis, Hales, Murphy, Ogilvie & Player, "On the Precision Loss in Approximate Homomorphic
Encryption", 2023.
"""

import math

from fhejax.kinds.noise import *  # noqa: F403
from fhejax.kinds.noise import Variance, key_errors, key_switch, rounding
from fhejax.parameters.parameters import Parameters


def encode_number(slots: int) -> float:
    """The rounding of one number for all slots: 1/12 in the constant coefficient, so 1/12 in each slot, for any N.

    Args:
      slots: of the ciphertext that it meets.
    """
    return 1 / (12 * slots)


def add(x: Variance, y: Variance) -> Variance:
    """A sum or difference of independent operands: the variances add. An array as operand has that of its encoding."""
    return x + y


def product(
    params: Parameters, level: int, x: Variance, y: Variance, message_x: Variance, message_y: Variance
) -> Variance:
    """The raw product of independent operands, at the square of the scale D.

    D^2 message_y x + D^2 message_x y + N x y, from (m_x + e_x)(m_y + e_y); a coefficient of e_x e_y has N terms.

    Args:
      params: the parameter set.
      level: of both operands.
      x, y: the operands' variances.
      message_x, message_y: the mean of |slot|^2 of each.
    """
    power = params.scale_at(level) ** 2
    return power * (message_y * x + message_x * y) + params.degree * x * y


def multiply(
    params: Parameters, level: int, x: Variance, y: Variance, message_x: Variance, message_y: Variance
) -> Variance:
    """A product of independent operands, relinearised and rescaled: one rounding ends it, that of the merged ModDown.

    Arguments as for `product`.
    """
    return rescale(params, level, product(params, level, x, y, message_x, message_y) + key_errors(params, level))


def square(params: Parameters, level: int, x: Variance, message: Variance) -> Variance:
    """The square of one operand, relinearised and rescaled: before the rescale 4 D^2 message x + 2 N x^2.

    Twice the variance of a product of independent operands: its two halves are the same error.

    Args:
      params: the parameter set.
      level: of the operand.
      x: its variance.
      message: its mean of |slot|^2.
    """
    raw = 2 * product(params, level, x, x, message, message)
    return rescale(params, level, raw + key_errors(params, level))


def multiply_plain(
    params: Parameters, level: int, x: Variance, message: Variance, values: Variance, encoding: Variance
) -> Variance:
    """A product with an array, a plaintext or a number, rescaled.

    A Python integer k multiplies exactly and takes no rescale: then the variance is k^2 x.

    Arguments as for `product_plain`.
    """
    return rescale(params, level, product_plain(params, level, x, message, values, encoding))


def product_plain(
    params: Parameters, level: int, x: Variance, message: Variance, values: Variance, encoding: Variance
) -> Variance:
    """What `multiply_plain` and `dot_plain` rescale, at the square of the scale D: D^2 (values x + message encoding).

    Args:
      params: the parameter set.
      level: of the ciphertext.
      x: its variance.
      message: its mean of |slot|^2.
      values: that of the other operand.
      encoding: what `encode` or `encode_number` gives.
    """
    return params.scale_at(level) ** 2 * (values * x + message * encoding)


def linear_transform(
    params: Parameters,
    level: int,
    x: Variance,
    message: Variance,
    diagonals: int,
    weights: Variance,
    rotated: Variance,
    encoding: Variance,
) -> Variance:
    """A linear transform by double hoisting: E^2 (weights x + rotated keys) + D^2 diagonals message encoding, rescaled.

    D is the level's scale, and E that of the plaintexts, which is another one where scales start anew.
    A hoisted rotation brings the errors of its key, which its plaintexts multiply, and no rounding. The giant steps'
    errors are not multiplied before the rescale, and vanish in it.

    Args:
      params: the parameter set.
      level: of the ciphertext.
      x: its variance.
      message: its mean of |slot|^2.
      diagonals: how many differ from zero.
      weights: the mean over slots of the sum over diagonals of |slot|^2: of a matrix that fills the slots, that of its
        rows.
      rotated: that of the diagonals with a baby step other than 0.
      encoding: what `encode` gives; times period / slots for diagonals that repeat.

    Source: Bossuat, Mouchet, Troncoso-Pastoriza & Hubaux, "Efficient Bootstrapping for Approximate Homomorphic
    Encryption with Non-Sparse Keys", 2021, section 4.
    """
    carried = params.plain_scale_at(level) ** 2 * (weights * x + rotated * key_errors(params, level))
    return rescale(params, level, carried + params.scale_at(level) ** 2 * diagonals * message * encoding)


def rescale(params: Parameters, level: int, x: Variance, components: int = 2) -> Variance:
    """A division by the last prime q: x / q^2 and the rounding.

    Args:
      params: the parameter set.
      level: before the rescale.
      x: the variance before it.
      components: of the ciphertext, 2 or 3.
    """
    return x / float(params.moduli[level]) ** 2 + rounding(params, components)


def drop_to_level(params: Parameters, level: int, x: Variance, target: int) -> Variance:
    """A change of level and scale, D to D': x (D' / D)^2 and one rounding; nothing if the level stays.

    The integer that stands for D' q / D leaves a relative error below 1 / (2 D'), far below the rounding for any
    message that fits.

    Args:
      params: the parameter set.
      level: before.
      x: the variance before.
      target: the level wanted.
    """
    if target == level:
        return x
    return x * (params.scale_at(target) / params.scale_at(level)) ** 2 + rounding(params)


def relinearize(params: Parameters, level: int, x: Variance) -> Variance:
    """A raw product brought back to two components: a key switch on top."""
    return x + key_switch(params, level)


def rotate(params: Parameters, level: int, x: Variance) -> Variance:
    """A rotation or conjugation with a key of its own: a key switch on top; the automorphism only moves errors."""
    return x + key_switch(params, level)


def bits(deviation: float, slots: int) -> float:
    """The bits of the worst slot, as `fhejax.precision` measures them, of a real result.

    The rounding error of slot j is r(z_j) s(z_j) with the same secret s for ever: about a complex normal times a
    complex normal, of which the real part has a Laplace distribution. Its tail exp(-sqrt(2) |t| / deviation) is longer
    than that of a normal error, and the expected largest of n is at most deviation (1 + ln n) / sqrt(2). Where the
    error is normal, as after encryption with the secret key, this is some 0.8 bits too careful.

    Args:
      deviation: what `slot_deviation` gives.
      slots: of the ciphertext.
    """
    return -math.log2(deviation * (1 + math.log(slots)) / math.sqrt(2))
