"""Polynomials in the Chebyshev basis: fitting them to functions, and their evaluation on ciphertexts."""

from fhejax.polynomials.fitting import fit as fit
from fhejax.polynomials.minimax import best_sign_degrees as best_sign_degrees, sign_composition as sign_composition
from fhejax.polynomials.polynomial import Polynomial as Polynomial
from fhejax.polynomials.remez import ConvergenceError as ConvergenceError
from fhejax.polynomials.report import FitReport as FitReport
