"""The guideline table, the comparison in integers, and what a refusal tells."""

import math

import pytest
from hypothesis import given, strategies as st

from fhejax.parameters.primes import largest_primes
from fhejax.parameters.security import (
    InsecureParametersError,
    maximum_log_qp,
    refuse_sparse_secret,
    require_security,
    security_report,
)

# ePrint 2024/463, table 5.2: N, then 128, 192, 256 classical, then 128, 192, 256 quantum.
TABLE = """
10   26    0    0   25    0    0
11   53   36   27   50   34   26
12  106   73   56  101   69   53
13  214  147  114  203  140  108
14  430  297  230  409  283  219
15  868  597  462  825  570  442
16 1747 1199  929 1663 1145  888
17 3523 2411 1866 3348 2301 1784
"""


@pytest.mark.parametrize("row", [tuple(map(int, line.split())) for line in TABLE.split("\n") if line])
def test_table(row):
    log_degree, *limits = row
    columns = [(bits, model) for model in ("classical", "quantum") for bits in (128, 192, 256)]
    assert [maximum_log_qp(log_degree, bits, model) for bits, model in columns] == limits


def test_no_modulus_is_secure_in_a_small_ring():
    assert maximum_log_qp(9) == maximum_log_qp(3, 256, "quantum") == 0
    assert security_report(9, [1073741441]).bits == 0


@pytest.mark.parametrize(
    "arguments, says",
    [
        ((14, 100), "security = 100; choose 128, 192 or 256, or None"),
        ((14, 128, "ternary"), 'attack_model = \'ternary\'; choose "classical" or "quantum"'),
        ((18,), "log_degree = 18; the table ends at 17"),
    ],
)
def test_refuses_what_the_table_does_not_have(arguments, says):
    with pytest.raises(ValueError) as caught:
        maximum_log_qp(*arguments)
    assert says in str(caught.value)


@given(log_degree=st.integers(10, 17), model=st.sampled_from(["classical", "quantum"]), offset=st.integers(-3, 3))
def test_the_comparison_is_exact_at_the_limit(log_degree, model, offset):
    limit = maximum_log_qp(log_degree, 128, model)
    product = (1 << limit) + offset  # as floats all of these have the same logarithm
    if offset <= 0:
        assert require_security(log_degree, [product], [1], 128, model).bits >= 128
    else:
        with pytest.raises(InsecureParametersError, match=f"is {limit + 1} bits, .* limit is {limit} .*: 1 bits too"):
            require_security(log_degree, [product], [1], 128, model)


def test_special_primes_count():
    moduli, special = largest_primes(8, 50, 2**15), largest_primes(1, 55, 2**15)
    assert require_security(14, moduli, [1]).log_qp < 400
    with pytest.raises(InsecureParametersError) as caught:
        require_security(14, moduli, special)
    for number in (
        "455 bits",
        "400.0 of ciphertext",
        "55.0 of special",
        "limit is 430",
        "N = 2^14",
        "25 bits too many",
    ):
        assert number in str(caught.value)
    for way_out in ("Type log_degree=15", "a smaller depth", "security=None"):
        assert way_out in str(caught.value)


def test_no_larger_ring_is_offered_where_none_holds_it():
    with pytest.raises(InsecureParametersError) as caught:
        require_security(17, [2**3500], [2**50])
    assert "27 bits too many" in str(caught.value) and "log_degree" not in str(caught.value)


def test_none_is_the_only_way_round():
    assert require_security(10, [2**500], [2**50], None) is None
    for nearly in (0, False, 80, 127):
        with pytest.raises(ValueError, match="choose 128, 192 or 256, or None"):
            require_security(10, [2**500], [2**50], nearly)


@pytest.mark.parametrize("log_qp, bits, limit", [(230, 256, 230), (231, 192, 297), (430, 128, 430), (431, 0, 430)])
def test_report_names_the_highest_security_reached(log_qp, bits, limit):
    report = security_report(14, [2 ** (log_qp - 30), 2**30])
    assert (report.bits, report.limit, report.log_qp, report.margin) == (bits, limit, log_qp, limit - log_qp)


def test_report_reads_well():
    text = str(security_report(15, [2**850], "quantum"))
    for word in ("below 128-bit", "quantum", "ChaLoy21", "ePrint 2024/463 table 5.2", "850.0 of 825", "margin -25.0"):
        assert word in text
    report = security_report(15, [2**850])
    assert (report.table, report.cost_model) == ("ePrint 2024/463 table 5.2", "MATZOV")
    assert "128-bit security against classical attacks (MATZOV" in repr(report) and "margin 18.0 bits" in repr(report)


def test_report_measures_the_product():
    primes = largest_primes(5, 50, 2**15)
    assert math.isclose(security_report(14, primes).log_qp, sum(map(math.log2, primes)), rel_tol=1e-14)


def test_sparse_secrets_are_refused():
    refuse_sparse_secret(None)
    with pytest.raises(InsecureParametersError, match=r"secret_weight = 192.*sparse main secrets are refused"):
        refuse_sparse_secret(192)
