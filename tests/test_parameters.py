"""Parameters: what each constructor promises, what it refuses and with which words, and identity as metadata."""

import copy
import inspect
import math
import pickle
import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from fhejax.parameters.parameters import Parameters
from fhejax.parameters.primes import is_prime
from fhejax.parameters.security import InsecureParametersError, maximum_log_qp

PRESETS = {"n13": (13, 3, 35, 210), "n14": (14, 7, 40, 428), "n15": (15, 15, 40, 850), "n16": (16, 34, 40, 1710)}
SMALL = Parameters.for_depth(3, log_degree=8, security=None)


def check(params):
    """What every parameter set promises."""
    every = (*params.moduli, *params.special_moduli)
    assert len(set(every)) == len(every)
    assert all(is_prime(q) and q % (2 * params.degree) == 1 and q < 2**61 for q in every)
    digits = params.digit_moduli(params.max_level)
    assert sum(digits, ()) == params.moduli and len(digits) == params.digits
    assert max(map(math.prod, digits)) < math.prod(params.special_moduli)
    assert len(params.scales) == len(params.moduli)
    for level in range(params.max_level):
        exact = Fraction(params.scale_at(level + 1)) ** 2 / params.moduli[level + 1]
        assert abs(params.scale_at(level) / exact - 1) < Fraction(2) ** -51
        assert params.scale_at(level) == params.scale_at(level + 1) ** 2 / params.moduli[level + 1]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("depth", [0, 1, 2, 3, 4, 6, 7, 8, 9, 12, 15, 18, 19, 26, 34, 38, 60])
@pytest.mark.parametrize("security, attack_model", [(128, "classical"), (128, "quantum"), (192, "classical")])
def test_for_depth_is_the_smallest_ring_within_the_limit(depth, security, attack_model):
    if (depth, security) == (60, 192):
        depth = 55
    params = Parameters.for_depth(depth, security=security, attack_model=attack_model)
    check(params)
    product = math.prod(params.moduli) * math.prod(params.special_moduli)
    assert product.bit_length() <= maximum_log_qp(params.log_degree, security, attack_model)
    assert params.max_level == depth and params.scale_at(depth) == 2.0**40 and params.slots == params.degree // 2
    assert params.security_bits >= security and params.security.attack_model == attack_model
    # q_0 and one special prime that exceeds it by 2^4 is the least any set needs.
    assert maximum_log_qp(params.log_degree - 1, security, attack_model) < 105 + 40 * depth


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 5), st.integers(20, 60), st.integers(3, 11))
def test_small_rings_without_security(depth, scale_bits, log_degree):
    params = Parameters.for_depth(depth, scale_bits, log_degree=log_degree, security=None)
    check(params)
    assert params.security is None and params.security_bits == 0
    assert (params.degree, params.max_level) == (1 << log_degree, depth)
    assert params.moduli[0].bit_length() == min(scale_bits + 10, 61)


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name):
    params, (log_degree, depth, scale_bits, log_qp) = Parameters.preset(name), PRESETS[name]
    check(params)
    product = math.prod(params.moduli) * math.prod(params.special_moduli)
    assert product.bit_length() <= maximum_log_qp(log_degree)
    assert (params.log_degree, params.max_level) == (log_degree, depth)
    assert params.scale_at(depth) == 2.0**scale_bits
    assert round(params.log_qp) == log_qp and params.security_bits == 128
    assert max(map(math.prod, params.digit_moduli(depth))) * 16 <= math.prod(params.special_moduli)


def test_unknown_preset_lists_the_names():
    with pytest.raises(ValueError, match="no preset 'n12'; there are 'n13', 'n14', 'n15', 'n16'"):
        Parameters.preset("n12")


def test_scale_drift_at_the_default_scale():
    for name in ("n14", "n15", "n16"):
        params = Parameters.preset(name)
        drift = max(abs(scale / 2.0**40 - 1) for scale in params.scales)
        assert drift < 2.0 ** (params.log_degree - 31)  # 2^-17 at N = 2^14


def test_slots_choose_the_ring_too():
    assert Parameters.for_depth(1, slots=64).log_degree == 13
    assert Parameters.for_depth(1, slots=64).slots == 64
    assert Parameters.for_depth(1, slots=2**14).log_degree == 15


@pytest.mark.parametrize("digits, alive", [(1, 1), (2, 2), (3, 3), (4, 4), (7, 7), (5, 4)])
def test_digits(digits, alive):
    params = Parameters.for_depth(6, log_degree=10, security=None, digits=digits)
    check(params)
    assert params.digit_size == -(-7 // digits) and params.digits == alive


def test_properties():
    assert SMALL.log_q == pytest.approx(sum(map(math.log2, SMALL.moduli)), abs=1e-9)
    assert SMALL.log_qp == pytest.approx(SMALL.log_q + sum(map(math.log2, SMALL.special_moduli)), abs=1e-9)
    assert SMALL.moduli_at(1) == SMALL.moduli[:2] and SMALL.digit_size == 2
    assert SMALL.digit_moduli(2) == (SMALL.moduli[:2], SMALL.moduli[2:3])
    assert SMALL.digit_moduli(0) == (SMALL.moduli[:1],)
    assert Parameters.error_deviation == SMALL.error_deviation == 3.19


@pytest.mark.parametrize("operation", ["scale_at", "moduli_at", "digit_moduli"])
@pytest.mark.parametrize("level", [-1, 4])
def test_a_level_that_is_not_there(operation, level):
    with pytest.raises(ValueError) as caught:
        getattr(SMALL, operation)(level)
    assert str(caught.value) == f"Parameters.{operation}: level {level}; there are levels 0 to 3"


def test_too_deep_for_the_ring_given():
    with pytest.raises(InsecureParametersError) as caught:
        Parameters.for_depth(20, log_degree=14)
    for word in ("depth 20", "905 bits", "850.0", "55.0", "430", "N = 2^14", "475 bits too many", "MATZOV",
                 "ePrint 2024/463", "log_degree=16", "largest depth that fits is 8", "security=None"):  # fmt: skip
        assert word in str(caught.value)
    assert Parameters.for_depth(20).log_degree == 16
    assert Parameters.for_depth(8, log_degree=14).max_level == 8


@pytest.mark.slow
def test_too_deep_for_any_ring():
    with pytest.raises(InsecureParametersError) as caught:
        Parameters.for_depth(90)
    for word in ("3705 bits", "3523", "N = 2^17", "largest depth that fits is 85", "Type a smaller depth"):
        assert word in str(caught.value)


def test_a_ring_too_small_for_any_depth():
    with pytest.raises(InsecureParametersError, match=r"limit is 0 for N = 2\^9 .* no depth fits"):
        Parameters.for_depth(1, log_degree=9)


def test_sparse_secrets_are_refused_by_each_constructor_even_without_the_check():
    calls = [
        lambda: Parameters.for_depth(3, secret_weight=192),
        lambda: Parameters.for_depth(3, log_degree=8, security=None, secret_weight=192),
        lambda: Parameters.from_bits(8, (50, 40), (55,), scale_bits=40, security=None, secret_weight=192),
        lambda: Parameters.from_moduli(8, SMALL.moduli, SMALL.special_moduli, scale=2.0**40, secret_weight=192),
    ]
    for call in calls:
        with pytest.raises(InsecureParametersError, match="sparse main secrets are refused"):
            call()


@pytest.mark.parametrize(
    "arguments, says",
    [
        (dict(depth=-1), "depth = -1; need an integer from 0 to 1000"),
        (dict(depth=2, scale_bits=61), "scale_bits = 61; need an integer from 20 to 60"),
        (dict(depth=2, scale_bits=19), "scale_bits = 19; need"),
        (dict(depth=2, slots=100), "slots = 100; need a power of two from 1 to N/2"),
        (dict(depth=2, slots=0), "slots = 0; need a power of two"),
        (dict(depth=2, slots=2**13, log_degree=13), "slots = 8192; need a power of two from 1 to N/2 = 4096"),
        (dict(depth=2, log_degree=18), "log_degree = 18; need an integer from 3 to 17"),
        (dict(depth=2, log_degree=2), "log_degree = 2; need"),
        (dict(depth=2, digits=0), "digits = 0; need an integer from 1 to 3"),
        (dict(depth=2, digits=4), "digits = 4; need an integer from 1 to 3"),
        (dict(depth=2, security=100), "security = 100; choose 128, 192 or 256, or None"),
        (dict(depth=2, attack_model="post"), 'choose "classical" or "quantum"'),
        (dict(depth=2, security=None), "security=None leaves the ring open; type log_degree"),
        (dict(depth=30, scale_bits=20, log_degree=16, security=None), "Use another scale_bits, fewer levels"),
    ],
)
def test_bad_arguments_of_for_depth(arguments, says):
    with pytest.raises(ValueError) as caught:
        Parameters.for_depth(**arguments)
    assert says in str(caught.value)


def test_from_moduli_keeps_what_it_is_given():
    again = Parameters.from_moduli(8, SMALL.moduli, SMALL.special_moduli, scale=2.0**40, digit_size=2, security=None)
    assert again == SMALL and again is not SMALL
    tiny = Parameters.from_moduli(3, (193, 97), (257,), scale=80.0, slots=2, security=None)
    assert (tiny.slots, tiny.digit_size, tiny.scales) == (2, 1, (80.0 * 80.0 / 97, 80.0))


def test_from_moduli_takes_the_largest_digit_with_room():
    moduli, special = SMALL.moduli, SMALL.special_moduli  # 50 + 3 x 40 and 2 x 50 bits
    assert Parameters.from_moduli(8, moduli, special, scale=2.0**40, security=None).digit_size == 2
    # A digit of one modulus stays below a P of about its size where nothing better is left.
    assert Parameters.from_moduli(8, special[1:], special[:1], scale=2.0**40, security=None).digit_size == 1


MODULI, SPECIAL = SMALL.moduli, SMALL.special_moduli


@pytest.mark.parametrize(
    "moduli, special, options, says",
    [
        ((), SPECIAL, {}, "needs at least one modulus and one special modulus"),
        (MODULI, (), {}, "needs at least one modulus and one special modulus"),
        ((MODULI[0] * 3, *MODULI[1:]), SPECIAL, {}, "need a prime below 2^61"),
        ((2**61 + 15, *MODULI[1:]), SPECIAL, {}, "need a prime below 2^61"),
        ((*MODULI, 2**31 - 1), SPECIAL, {}, "modulus 2147483647 is 511 mod 2N; N = 2^8 needs 1"),
        ((*MODULI, MODULI[1]), SPECIAL, {}, "is given 2 times; moduli must be distinct"),
        (MODULI, MODULI[:1], {}, "is given 2 times"),
        (MODULI, SPECIAL, dict(digit_size=3), "digits must be smaller. Give more special moduli, or a smaller digit_s"),
        (MODULI, SPECIAL, dict(digit_size=5), "digit_size = 5; need an integer from 1 to 4"),
        (MODULI, SPECIAL, dict(scale=2.0**61), "need more than 1 and at most 2.0**60"),
        (MODULI, SPECIAL, dict(scale=2.0**20), "the scale at level 2 would be 1; need more than 1"),
        (MODULI, SPECIAL, dict(scale=2.0**50), "the scale at level 0 would be"),
        (MODULI, SPECIAL, dict(slots=256), "slots = 256; need a power of two from 1 to N/2 = 128"),
        (MODULI, SPECIAL, dict(security=128), "270 bits, rounded up"),
    ],
)
def test_bad_arguments_of_from_moduli(moduli, special, options, says):
    with pytest.raises(ValueError) as caught:
        Parameters.from_moduli(8, moduli, special, **(dict(scale=2.0**40, security=None) | options))
    assert says in str(caught.value)


def test_from_bits():
    params = Parameters.from_bits(10, (60, 45, 45, 45), (61, 61), scale_bits=45, digit_size=1, security=None)
    check(params)
    assert [q.bit_length() for q in params.special_moduli] == [61, 61] and params.digits == 4
    assert max(abs(scale / 2.0**45 - 1) for scale in params.scales) < 2.0**-27
    assert Parameters.from_bits(14, (50, *(40,) * 7), (49, 49), scale_bits=40) == Parameters.preset("n14")
    with pytest.raises(ValueError, match="a modulus's bits = 62; need an integer from 20 to 61"):
        Parameters.from_bits(10, (62, 40), (61,), scale_bits=40, security=None)
    with pytest.raises(ValueError, match="at least one modulus"):
        Parameters.from_bits(10, (), (61,), scale_bits=40, security=None)
    with pytest.raises(InsecureParametersError, match="limit is 430"):
        Parameters.from_bits(14, (50, *(40,) * 9), (49, 49), scale_bits=40)


def test_equality_is_of_content():
    again = Parameters.for_depth(3, log_degree=8, security=None)
    assert again == SMALL and again is not SMALL and hash(again) == hash(SMALL)
    others = [
        Parameters.for_depth(2, log_degree=8, security=None),
        Parameters.for_depth(3, log_degree=9, security=None),
        Parameters.for_depth(3, log_degree=8, security=None, slots=4),
        Parameters.for_depth(3, log_degree=8, security=None, digits=4),
    ]
    assert len({SMALL, again, *others}) == 5
    assert SMALL != "SMALL" and SMALL.__eq__(3) is NotImplemented
    checked, unchecked = Parameters.preset("n13"), Parameters.for_depth(3, 35, log_degree=13, security=None)
    assert checked != unchecked


@pytest.mark.parametrize("params", [SMALL, Parameters.preset("n13")], ids=["insecure", "n13"])
def test_survives_pickle_and_copy(params):
    for again in (pickle.loads(pickle.dumps(params)), copy.copy(params), copy.deepcopy(params)):
        assert again == params and hash(again) == hash(params) and again.security == params.security


@pytest.mark.slow
def test_the_hash_is_the_same_in_every_process():
    program = "from fhejax.parameters.parameters import Parameters; print(hash(Parameters.preset('n13')))"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(child.stdout) == hash(Parameters.preset("n13"))


def test_is_frozen():
    with pytest.raises(AttributeError):
        SMALL.slots = 4
    assert not hasattr(SMALL, "__dict__")


def test_hashing_does_no_work():
    assert inspect.getsource(Parameters.__hash__).strip().endswith("return self._hash")
    assert SMALL == SMALL


def test_repr_is_one_readable_line():
    assert repr(SMALL) == "Parameters(N=2^8, slots=128, depth=3, scale=2^40, log2(QP)=270.0, security=None)"
    assert repr(Parameters.preset("n14")) == (
        "Parameters(N=2^14, slots=8192, depth=7, scale=2^40, log2(QP)=428.0 of 430, security=128 classical)"
    )
    assert str(Parameters.preset("n14").security).startswith("128-bit security against classical attacks (MATZOV")
