"""The noise model: how far a ciphertext's values are from the exact ones, before anything is encrypted.

Everything here is a variance: that of one coefficient of the error polynomial, at the ciphertext's scale. Independent
errors add. `slot_deviation` reads off what a variance means for the values.

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


def encrypt_public(params: Parameters) -> float:
    """Encryption with a public key: (1 + S)/12, a rounding. The encoding's rounding comes on top.

    The errors v e + e_0 + e_1 s, with v ternary, have the variance sigma^2 (1 + 2N/3 + S); but the special prime
    p_0 > 2N divides them before the rounding, and what is left is below 64 / N^2 of it.
    """
    return rounding(params)


def encrypt_secret(params: Parameters) -> float:
    """Encryption with the secret key: sigma^2. The encoding's rounding comes on top."""
    return params.error_deviation**2


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
