"""The security limit: how large log2(QP) may be for a ring degree, and the refusal of anything larger.

Breaking a parameter set means solving ring-LWE in dimension N with modulus QP, the product of *every*
prime under which something public about the secret exists: q_0..q_L and the key switch's special
primes. The table gives the largest log2(QP) for uniform ternary secrets and errors of standard deviation
3.19; it counts an unlimited number of samples.

Main secrets are uniform ternary, always. The guidelines tabulate no sparse secret, and hybrid attacks on
small Hamming weights are still being improved, so no option asks for one. Sparse secrets serve only inside
bootstrapping, as ephemeral ones under a tiny modulus.

Source: Bossuat et al., "Security Guidelines for Implementing Homomorphic Encryption", ePrint 2024/463,
table 5.2.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

TABLE = "ePrint 2024/463 table 5.2"
SMALLEST_LOG_DEGREE = 10
LARGEST_LOG_DEGREE = 17
SECURITY_BITS = (128, 192, 256)
# Each attack model with the cost model of lattice reduction behind its column of the table.
COST_MODELS = {"classical": "MATZOV", "quantum": "ChaLoy21"}

# Largest log2(QP) for N = 2^10, ..., 2^17; 0 where no modulus is secure.
_MAXIMUM_LOG_QP = {
    ("classical", 128): (26, 53, 106, 214, 430, 868, 1747, 3523),
    ("classical", 192): (0, 36, 73, 147, 297, 597, 1199, 2411),
    ("classical", 256): (0, 27, 56, 114, 230, 462, 929, 1866),
    ("quantum", 128): (25, 50, 101, 203, 409, 825, 1663, 3348),
    ("quantum", 192): (0, 34, 69, 140, 283, 570, 1145, 2301),
    ("quantum", 256): (0, 26, 53, 108, 219, 442, 888, 1784),
}


# Ephemeral sparse secrets: their least weight, and the largest log2 of a modulus under which anything is public. By the
# lattice estimator (June 2026; MATZOV; uSVP, dual hybrid with meet-in-the-middle, primal hybrid) at least so many bits
# are left then, by log2(N). Smaller rings have not been estimated.
LEAST_SPARSE_WEIGHT, LARGEST_SPARSE_MODULUS = 32, 121
SPARSE_SECURITY_BITS = {15: 140, 16: 163}


class InsecureParametersError(ValueError):
    """Parameters below the security asked for, or outside what the guidelines tabulate."""


@dataclass(frozen=True, slots=True, repr=False)
class SecurityReport:
    """What the table says of a modulus.

    Attributes:
      bits: the highest of 128, 192, 256 that is reached, or 0.
      log_degree: log2 of the ring degree N.
      log_qp: log2 of the product of all moduli, special ones included.
      limit: the table's largest log2(QP) for N at `bits` (at 128 bits where `bits` is 0).
      attack_model: "classical" or "quantum".
    """

    bits: int
    log_degree: int
    log_qp: float
    limit: int
    attack_model: str

    @property
    def margin(self) -> float:
        """Bits of modulus left below the limit; negative where nothing is reached."""
        return self.limit - self.log_qp

    @property
    def cost_model(self) -> str:
        """The cost model of lattice reduction by which the limit was computed."""
        return COST_MODELS[self.attack_model]

    @property
    def table(self) -> str:
        """The table the limit is read from."""
        return TABLE

    def __repr__(self):
        reached = f"{self.bits}-bit security" if self.bits else "below 128-bit security"
        return (
            f"{reached} against {self.attack_model} attacks ({self.cost_model}, {self.table}, uniform ternary "
            f"secret): log2(QP) = {self.log_qp:.1f} of {self.limit} for N = 2^{self.log_degree}, "
            f"margin {self.margin:.1f} bits"
        )


def maximum_log_qp(log_degree: int, security: int = 128, attack_model: str = "classical") -> int:
    """The table's largest log2(QP), in whole bits, for a uniform ternary secret.

    0 where no modulus is secure: degrees below 2^10, and 2^10 beyond 128 bits.
    """
    if attack_model not in COST_MODELS:
        raise ValueError(f'Parameters: attack_model = {attack_model!r}; choose "classical" or "quantum"')
    if security not in SECURITY_BITS:
        raise ValueError(
            f"Parameters: security = {security!r}; choose 128, 192 or 256, or None to do without the check"
        )
    if log_degree > LARGEST_LOG_DEGREE:
        raise ValueError(f"Parameters: log_degree = {log_degree}; the table ends at {LARGEST_LOG_DEGREE}")
    if log_degree < SMALLEST_LOG_DEGREE:
        return 0
    return _MAXIMUM_LOG_QP[attack_model, security][log_degree - SMALLEST_LOG_DEGREE]


def security_report(log_degree: int, moduli: Sequence[int], attack_model: str = "classical") -> SecurityReport:
    """What the table says of a ring degree and all primes: 128, 192, 256 bits or none, decided in integers."""
    product = math.prod(moduli)
    limits = {bits: maximum_log_qp(log_degree, bits, attack_model) for bits in SECURITY_BITS}
    reached = max((bits for bits in SECURITY_BITS if product <= 1 << limits[bits]), default=0)
    return SecurityReport(reached, log_degree, math.log2(product), limits[reached or 128], attack_model)


def require_security(
    log_degree: int,
    moduli: Sequence[int],
    special_moduli: Sequence[int],
    security: int | None = 128,
    attack_model: str = "classical",
) -> SecurityReport | None:
    """The report; refuses QP > 2^limit, compared as integers. None where `security` is."""
    if security is None:
        return None
    q, p = math.prod(moduli), math.prod(special_moduli)
    if q * p > 1 << maximum_log_qp(log_degree, security, attack_model):
        raise InsecureParametersError("Parameters: " + describe_excess(log_degree, q, p, security, attack_model))
    return security_report(log_degree, (*moduli, *special_moduli), attack_model)


def describe_excess(log_degree: int, q: int, p: int, security: int, attack_model: str) -> str:
    """The words of a refusal of QP = q p: the numbers of the excess, and the ways out."""
    limit, bits = maximum_log_qp(log_degree, security, attack_model), (q * p - 1).bit_length()
    rings = range(SMALLEST_LOG_DEGREE, LARGEST_LOG_DEGREE + 1)
    holding = [ring for ring in rings if maximum_log_qp(ring, security, attack_model) >= bits]
    larger = f"log_degree={holding[0]}, " if holding else ""
    return (
        f"log2(QP) is {bits} bits, rounded up ({math.log2(q):.1f} of ciphertext primes and {math.log2(p):.1f} of "
        f"special primes); the limit is {limit} for N = 2^{log_degree} at {security} bits against {attack_model} "
        f"attacks ({COST_MODELS[attack_model]}, {TABLE}): {bits - limit} bits too many. "
        f"Type {larger}a smaller depth (fewer or smaller moduli), or security=None to do without the check"
    )


def require_sparse_security(operation: str, log_degree: int, weight: int, moduli: Sequence[int]) -> None:
    """Refuses an ephemeral sparse secret: too light, exposed modulo too much, or in a ring without an estimate."""
    log_modulus = math.log2(math.prod(moduli))
    fits = log_modulus <= LARGEST_SPARSE_MODULUS and weight >= LEAST_SPARSE_WEIGHT
    if not fits or log_degree < min(SPARSE_SECURITY_BITS):
        raise InsecureParametersError(
            f"{operation}: the ephemeral secret has weight {weight} and is exposed modulo 2^{log_modulus:.1f} for "
            f"N = 2^{log_degree}; 128 bits are known for weights from {LEAST_SPARSE_WEIGHT} on, moduli q_0 p_0 up to "
            f"2^{LARGEST_SPARSE_MODULUS} and N from 2^{min(SPARSE_SECURITY_BITS)} on. Make q_0 or the first special "
            "prime smaller, or type security=None to do without the check"
        )


def refuse_sparse_secret(secret_weight: int | None) -> None:
    """Refuses a sparse main secret, however it is asked for."""
    if secret_weight is not None:
        raise InsecureParametersError(
            f"Parameters: secret_weight = {secret_weight}, but sparse main secrets are refused. The 2024 guidelines "
            f"({TABLE}) tabulate none, so no limit on log2(QP) is known to hold; secrets are uniform ternary. "
            "Leave secret_weight out"
        )
