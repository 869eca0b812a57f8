"""The automorphism against its definition on coefficients."""

import numpy as np
import pytest
from references import assert_equals_reference
from residues import chain, random_residues

import fhejax as fhe
from fhejax.primitives.automorphism import automorphism
from fhejax.primitives.ntt import inverse_ntt, ntt


def substitute(coefficients, element, q):
    """m(X^element) mod X^N + 1, in Python integers."""
    n = len(coefficients)
    out = [0] * n
    for k, c in enumerate(coefficients):
        at = k * element % (2 * n)
        out[at % n] = (int(c) if at < n else -int(c)) % q
    return out


@pytest.mark.parametrize("lowering", ["native", "reference"])
@pytest.mark.parametrize("element", [1, 3, 5, 25, 125, 63, 127])
def test_substitutes_a_power_of_x(element, lowering):
    n, moduli = 64, chain(64, (30, 61))
    x = random_residues(element, moduli, n)
    with fhe.lowering(lowering):
        got = np.asarray(inverse_ntt(automorphism(ntt(x, moduli), element), moduli))
    for limb, q in enumerate(moduli):
        assert got[limb].tolist() == substitute(np.asarray(x)[limb], element, q)


def test_native_equals_reference_at_full_size():
    n, moduli = 1 << 14, chain(1 << 14, (50,))
    x = random_residues(0, moduli, n, (2,))
    turn = lambda x: automorphism(x, 5**77 % (2 * n))
    assert_equals_reference(turn(x), turn, x)


@pytest.mark.parametrize("element", [0, 2, 128, 129, -1])
@pytest.mark.usefixtures("unchecked")
def test_refuses_elements_that_are_none(element):
    with pytest.raises(ValueError, match="must be odd and between"):
        automorphism(random_residues(0, chain(64, (30,)), 64), element)
