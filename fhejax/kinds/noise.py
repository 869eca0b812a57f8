"""The noise model: how far a ciphertext's values are from the exact ones, before anything is encrypted.

Everything here is a variance: that of one coefficient of the error polynomial, at the ciphertext's scale. Independent
errors add, and each operation of fhejax has the function of its name, which takes its operands' variances and returns
the result's. They are written with + * / alone, so they take floats and arrays of floats. `slot_deviation` and `bits`
read off what a variance means for the values.

A product also needs the size of what is multiplied: `message` and `values` are the mean of |slot|^2, in the values'
own units; with the largest |slot|^2 instead, the result holds for the worst slot.

N is the ring degree, sigma the deviation of key and encryption errors (3.19), S = 2N/3 the expected squared norm of
the secret, a uniform ternary polynomial. A coefficient rounded to an integer is off by a variance of 1/12.

Source: Cheon, Kim, Kim & Song, "Homomorphic Encryption for Arithmetic of Approximate Numbers", 2017, lemmas 1 to 3,
with variances in place of bounds as in Costache, Curtis, Hales, Murphy, Ogilvie & Player, "On the Precision Loss in
Approximate Homomorphic Encryption", 2023.
"""

import math

import jax

from fhejax.parameters.parameters import Parameters

Variance = float | jax.Array


def encode(real: bool) -> float:
    """The rounding of an encoded array: 1/12, and twice that for real values.

    Real values have coefficients m_k = -m_(N-k), and so do their rounding errors: all of the error lies in the real
    part.

    Args:
      real: whether the values are real.
    """
    return 1 / 6 if real else 1 / 12


def encode_number(slots: int) -> float:
    """The rounding of one number for all slots: 1/12 in the constant coefficient, so 1/12 in each slot, for any N.

    Args:
      slots: of the ciphertext that it meets.
    """
    return 1 / (12 * slots)


def encrypt_public(params: Parameters) -> float:
    """Encryption with a public key: (1 + S)/12, a rounding. The encoding's rounding comes on top.

    The errors v e + e_0 + e_1 s, with v ternary, have the variance sigma^2 (1 + 2N/3 + S); but the special prime
    p_0 > 2N divides them before the rounding, and what is left is below 64 / N^2 of it.
    """
    return rounding(params)


def encrypt_secret(params: Parameters) -> float:
    """Encryption with the secret key: sigma^2. The encoding's rounding comes on top."""
    return params.error_deviation**2


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


def key_switch(params: Parameters, level: int) -> float:
    """What a key switch adds: the keys' errors and the rounding of ModDown."""
    return key_errors(params, level) + rounding(params)


def key_errors(params: Parameters, level: int) -> float:
    """The keys' errors after the division by P: sum_i N sigma^2 (Q_i / P)^2 / 12.

    A centred digit is uniform modulo Q_i, of variance Q_i^2 / 12, and multiplies an error of the key. Q_i is the
    product of the primes of digit i that are alive at the level.

    Source: Han & Ki, "Better Bootstrapping for Approximate Homomorphic Encryption", 2020, section 3.
    """
    p = math.prod(params.special_moduli)
    digits = sum((math.prod(digit) / p) ** 2 for digit in params.digit_moduli(level))
    return params.degree * params.error_deviation**2 * digits / 12


def key_switch_to_sparse(params: Parameters, weight: int) -> float:
    """What the key switch before raising the modulus adds: N sigma^2 (q_0 / p_0)^2 / 12 and (1 + h)/12.

    Args:
      params: the parameter set.
      weight: h, the Hamming weight of the secret that it switches to.
    """
    keys = params.degree * params.error_deviation**2 * (params.moduli[0] / params.special_moduli[0]) ** 2
    return (keys + 1 + weight) / 12


def rounding(params: Parameters, components: int = 2) -> float:
    """What a ModDown or rescale adds: (1 + S)/12, from r_0 + r_1 s with r_i uniform in (-1/2, 1/2).

    A third component adds r_2 s^2, where s^2 has the expected squared norm 2 S^2.
    """
    norm = secret_norm(params)
    return (1 + norm + (2 * norm**2 if components == 3 else 0)) / 12


def secret_norm(params: Parameters) -> float:
    """S = 2N/3: the expected squared norm of a uniform ternary secret."""
    return 2 * params.degree / 3


def slot_deviation(variance: Variance, scale: float, slots: int) -> Variance:
    """The deviation of a slot's real part, and of its imaginary part: sqrt(slots variance) / scale.

    That of the slot as a complex number is sqrt(2) times as large, except by `encode(real=True)` alone.

    Args:
      variance: of a coefficient.
      scale: of the ciphertext.
      slots: of the ciphertext: a slot is a sum of 2 slots coefficients, each times a root of unity.

    Source: Cheon et al., 2017, section 2.2.
    """
    return (slots * variance) ** 0.5 / scale


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
