"""Files of polynomials."""

from fhejax.polynomials.checks import checked_parity
from fhejax.polynomials.polynomial import Polynomial
from fhejax.serialization import headers
from fhejax.serialization.numbers import FLOATING, read_numbers, write_numbers
from fhejax.serialization.source import Source, Written


def write(polynomial: Polynomial) -> Written:
    """A polynomial as it goes into a file, without its report.

    Raises:
      TypeError: it holds no array, or one of another type.
      ValueError: a shape that no polynomial has.
    """
    coefficients = polynomial.coefficients
    tensor = write_numbers("coefficients", coefficients, FLOATING)
    _check_shape(coefficients.shape)
    header = headers.describe("Polynomial", None, {"dtype": str(coefficients.dtype), "parity": polynomial.parity})
    header["domain"] = [end.hex() for end in polynomial.domain]
    return Written(header, {"coefficients": tensor})


def read(source: Source) -> Polynomial:
    """A polynomial, its coefficients a NumPy array: with jax_enable_x64 off, JAX would cut its own to 32 bits.

    Raises:
      ValueError: the file does not hold one.
    """
    source.expect("coefficients")
    domain = [headers.hexadecimal("domain", end) for end in headers.field(source.header, "domain", list)]
    coefficients = read_numbers(source, "coefficients", source.header.get("dtype"), FLOATING, _check_shape)
    return Polynomial(coefficients, domain, checked_parity(source.header.get("parity")))


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) not in (1, 2) or 0 in shape:
        raise ValueError(f"tensor 'coefficients' has shape {shape}; expected (degree + 1,) or (degree + 1, slots)")
