"""Polynomials in the Chebyshev basis, and their evaluation on ciphertexts."""
