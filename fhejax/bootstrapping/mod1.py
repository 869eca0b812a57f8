"""The polynomials that take multiples of q_0 away: a cosine, its angle doubled, and an arcsine.

With x = t / q_0 = e + I, sin(2 pi x) / (2 pi) is nearly e, whatever the integer I. The sine is cos(2 pi (x - 1/4)),
whose angle is divided by 2^r: then a polynomial of low degree stands for it, near the integers only, and r steps
y <- 2 y^2 - c double the angle again. The constants are such that no step needs a factor: from y_0 = a cos(..) with
c_i = a^(2^(i+1)) comes a^(2^r) cos(2^r ..). What is left of the sine's curve, (2 pi e)^2 / 6 of e, is up to 2^-9 of a
message that fills its range, such as a constant vector; a polynomial for the arcsine straightens it.

Source: Han & Ki, "Better Bootstrapping for Approximate Homomorphic Encryption", 2020, section 4 (the even polynomial
near the integers, and doubling); Lee, Lee, Lee, Kim & No, "High-Precision Bootstrapping of RNS-CKKS Homomorphic
Encryption Using Optimal Minimax Polynomial Approximation and Inverse Sine Function", 2021 (the arcsine).
"""

import functools
import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from numpy.polynomial import chebyshev

from fhejax.bootstrapping.failure import probabilities
from fhejax.bootstrapping.preset import Preset
from fhejax.polynomials.fitting import fit
from fhejax.polynomials.polynomial import Polynomial

# Multiples of q_0 are as likely as failure.py says, and the fit is the better, the likelier they are. None counts less
# than this, so that those that occur once in thousands of bootstrappings are fitted fairly too.
_LEAST = 2.0**-30
_NODES = 24  # of the fit, around each integer


@dataclass(frozen=True, slots=True)
class Sine:
    """What the sine's evaluation takes.

    Attributes:
      cosine: the polynomial in u = (x - 1/4) / width on [-1, 1].
      width: what x - 1/4 is divided by.
      constants: c_0, ..., c_(r-1) of the doublings.
      arcsine: the odd polynomial that makes `height * message` of what the doublings give.
      error: the largest difference between the message and what comes out, of a message that fills its range.
      mean_error: the root mean square of it, of messages uniform in their range and multiples of q_0 as they occur.
    """

    cosine: Polynomial
    width: float
    constants: tuple[float, ...]
    arcsine: Polynomial
    error: float
    mean_error: float


@functools.lru_cache(maxsize=16)
def sine(preset: Preset, ratio: float, height: float) -> Sine:
    """The polynomials of a preset.

    Args:
      preset: its degrees, doublings and bound.
      ratio: how many times q_0 is larger than the largest coefficient of a message.
      height: what a message that fills its range comes out as: e = x - I as height * ratio * e.
    """
    reach, r = 1 / ratio, preset.doublings
    width = preset.bound + 0.25 + reach
    # The doublings give amplitude * sin(2 pi e) / (2 pi): half the unit interval.
    amplitude = ratio / 2
    a = (amplitude / (2 * math.pi)) ** (1 / 2**r)
    cosine = _cosine(preset, a, width, reach)
    constants = tuple(a ** (2 ** (i + 1)) for i in range(r))
    arcsine = _arcsine(preset.arcsine_degree, amplitude, reach, height * ratio)
    errors = _errors(cosine, width, constants, arcsine, preset, reach, height * ratio)
    weights = np.array(probabilities(preset.secret_weight, preset.bound))
    mean = math.sqrt(np.sum(weights[:, None] * errors**2) / errors.shape[1])
    return Sine(cosine, width, constants, arcsine, float(np.max(errors)), mean)


def _cosine(preset, amplitude, width, reach):
    """The even polynomial nearest to amplitude * cos(2 pi width u / 2^r), in the mean over what u is."""
    multiples = np.arange(-preset.bound, preset.bound + 1)[:, None]
    weights = np.sqrt(np.maximum(probabilities(preset.secret_weight, preset.bound), _LEAST))[:, None]
    u = (multiples - 0.25 + reach * chebyshev.chebpts1(_NODES)) / width
    rows = weights[..., None] * chebyshev.chebvander(u, preset.cosine_degree)[..., ::2]
    target = weights * amplitude * np.cos(2 * math.pi * width / 2**preset.doublings * u)
    coefficients = np.zeros(preset.cosine_degree + 1)
    coefficients[::2] = np.linalg.lstsq(rows.reshape(-1, rows.shape[-1]), target.ravel(), rcond=None)[0]
    return Polynomial(coefficients, (-1.0, 1.0), "even")


def _arcsine(degree, amplitude, reach, factor):
    """Of y = amplitude sin(2 pi e) / (2 pi), factor * e for |e| <= reach, on the unit interval."""
    end = amplitude * math.sin(2 * math.pi * reach) / (2 * math.pi)

    def inverse(y):
        return factor * jnp.arcsin(2 * math.pi * y / amplitude) / (2 * math.pi)

    fitted = fit(inverse, (-end, end), degree, method="minimax", parity="odd")
    powers = chebyshev.cheb2poly(np.asarray(fitted.coefficients, np.float64))
    powers = powers / end ** np.arange(len(powers))
    return Polynomial(chebyshev.poly2cheb(powers), (-1.0, 1.0), "odd")


def _errors(cosine, width, constants, arcsine, preset, reach, factor):
    """Of the chain in the clear, relative to the largest message: `[multiple, message]`."""
    e = np.linspace(-reach, reach, 129)
    x = e + np.arange(-preset.bound, preset.bound + 1)[:, None]
    y = chebyshev.chebval((x - 0.25) / width, np.asarray(cosine.coefficients, np.float64))
    for c in constants:
        y = 2 * y * y - c
    y = chebyshev.chebval(y, np.asarray(arcsine.coefficients))
    return np.abs(y / factor - e) / reach
