"""Parameters of CKKS: the ring, the chain of primes, the canonical scales, and their checks.

A ciphertext at level l lives modulo q_0 ... q_l, and each level has one scale:
`scale_at(l - 1) = scale_at(l)**2 / q_l`, what a product has after its rescale. An error of the scale doubles
at each level, so each prime is chosen to undo what has gathered: going down from the top, q_l is the unused
prime nearest to scale_at(l)^2 / 2^scale_bits.

A key switch splits a ciphertext into digits of `digit_size` primes and works modulo P, the product of the
special primes, besides; P exceeds every digit.

Source: Kim, Papadimitriou & Polyakov, "Approximate homomorphic encryption with reduced approximation
error", CT-RSA 2022 (scales); Han & Ki, "Better bootstrapping for approximate homomorphic encryption",
CT-RSA 2020 (digits).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from fhejax.parameters.moduli import (
    SPECIAL_MARGIN_BITS,
    choose_for_depth,
    choose_moduli,
    choose_special_moduli,
    explain_refusal,
    largest_digit,
    split,
)
from fhejax.parameters.primes import LARGEST_BITS, SMALLEST_BITS, is_prime
from fhejax.parameters.security import (
    LARGEST_LOG_DEGREE,
    SMALLEST_LOG_DEGREE,
    InsecureParametersError,
    SecurityReport,
    maximum_log_qp,
    refuse_sparse_secret,
    require_security,
)

LARGEST_SCALE_BITS = 60
LARGEST_DEPTH = 1000  # far beyond what any tabulated ring holds

_PRESETS = {  # log_degree, bits of q_0..q_L, bits of the special primes, scale_bits
    "n13": (13, (50, *(35,) * 3), (55,), 35),
    "n14": (14, (50, *(40,) * 7), (49, 49), 40),
    "n15": (15, (50, *(40,) * 15), (50,) * 4, 40),
    "n16": (16, (50, *(40,) * 34), (50,) * 6, 40),
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Parameters:
    """A parameter set; made by `for_depth`, `from_bits`, `from_moduli` or `preset`, which check it.

    Static metadata of every value: hashable, compared by content, cheap to hash.

    Attributes:
      log_degree: log2 of the ring degree N.
      moduli: the ciphertext primes q_0, ..., q_L.
      special_moduli: the special primes p_0, ..., p_{k-1} of the key switch.
      digit_size: primes in a key-switch digit.
      slots: the default packing, a power of two up to N/2.
      scales: the canonical scale of each level, level 0 first.
      fresh_level: the level of fresh ciphertexts; those above it, if any, serve bootstrapping.
      security: what the guideline table says, or None where the check was declined.
    """

    log_degree: int
    moduli: tuple[int, ...]
    special_moduli: tuple[int, ...]
    digit_size: int
    slots: int
    scales: tuple[float, ...]
    fresh_level: int
    security: SecurityReport | None
    _hash: int = field(init=False)

    error_deviation: ClassVar[float] = 3.19
    """Standard deviation of encryption and key errors."""

    def __post_init__(self):
        # Every jit call hashes its static metadata; numbers alone, so that the hash is the same in each process.
        object.__setattr__(self, "_hash", hash(self._content()[:-1]))

    @classmethod
    def for_depth(
        cls,
        depth: int,
        scale_bits: int = 40,
        slots: int | None = None,
        log_degree: int | None = None,
        security: int | None = 128,
        digits: int | None = None,
        *,
        attack_model: str = "classical",
        secret_weight: int | None = None,
    ) -> "Parameters":
        """The smallest ring that holds `depth` multiplications in a row at the security asked for.

        q_0 has ten bits more than the scale (at most 61), so messages stay below 2^9. Several special primes have at
        most 50 bits where that fits; of the sets that fit, the one with the cheapest key switch at the top is taken.

        Args:
          depth: multiplicative depth, 0 to 1000; levels are 0 to `depth`.
          scale_bits: log2 of the scale, 20 to 60: about the bits of a slot before and after the binary point.
          slots: the default packing, a power of two; N/2 if None.
          log_degree: log2 of the ring degree, 3 to 17; the smallest if None.
          security: 128, 192 or 256 bits; None does without the check, and then needs `log_degree`.
          digits: at most so many digits in a key switch; chosen by cost if None.
          attack_model: "classical" or "quantum", which column of the table is enforced.
          secret_weight: always refused: main secrets are uniform ternary, never sparse.

        Returns:
          Parameters with `max_level == depth` and `scale_at(depth) == 2**scale_bits`.

        Raises:
          InsecureParametersError: no ring, or not the ring asked for, holds the depth; or a sparse secret.
          ValueError: an argument out of range, or too few primes of the size needed.

        >>> Parameters.for_depth(6)
        Parameters(N=2^14, slots=8192, depth=6, scale=2^40, log2(QP)=428.0 of 430, security=128 classical)
        """
        name = "Parameters.for_depth"
        refuse_sparse_secret(secret_weight)
        _check_integer(name, "depth", depth, 0, LARGEST_DEPTH)
        _check_integer(name, "scale_bits", scale_bits, SMALLEST_BITS, LARGEST_SCALE_BITS)
        if digits is not None:
            _check_integer(name, "digits", digits, 1, depth + 1)
        if log_degree is not None:
            _check_degree(name, log_degree, slots)
            rings = [log_degree]
        elif security is None:
            raise ValueError(f"{name}: security=None leaves the ring open; type log_degree as well, such as 14")
        else:
            _check_degree(name, LARGEST_LOG_DEGREE, slots)
            smallest = max(SMALLEST_LOG_DEGREE, (slots or 1).bit_length())
            rings = list(range(smallest, LARGEST_LOG_DEGREE + 1))
        for ring in rings:
            limit = None if security is None else maximum_log_qp(ring, security, attack_model)
            chain = choose_for_depth(ring, depth, scale_bits, digits, limit)
            if chain is not None:
                moduli, special, digit_size = chain
                return cls.from_moduli(
                    ring,
                    moduli,
                    special,
                    scale=2.0**scale_bits,
                    digit_size=digit_size,
                    slots=slots,
                    security=security,
                    attack_model=attack_model,
                )
        assert security is not None  # without a limit every depth fits
        refusal = explain_refusal(rings[-1], depth, scale_bits, digits, security, attack_model)
        raise InsecureParametersError(f"{name}: {refusal}")

    @classmethod
    def from_bits(
        cls,
        log_degree: int,
        modulus_bits: Sequence[int],
        special_bits: Sequence[int],
        *,
        scale_bits: int,
        digit_size: int | None = None,
        slots: int | None = None,
        security: int | None = 128,
        attack_model: str = "classical",
        secret_weight: int | None = None,
    ) -> "Parameters":
        """Parameters with primes of the sizes given.

        q_0 and the special primes are the largest of their size; q_l is the one nearest to its size corrected by
        the drift of the scale above it.

        Args:
          log_degree: log2 of the ring degree N, 3 to 17.
          modulus_bits: bits of q_0, ..., q_L, 20 to 61 each.
          special_bits: bits of the special primes, 20 to 61 each.
          scale_bits: log2 of the scale at the top level, up to 60.
          digit_size, slots, security, attack_model, secret_weight: as in `from_moduli`.

        Raises:
          InsecureParametersError: log2(QP) exceeds the limit, or a sparse secret.
          ValueError: an argument out of range, or too few primes of the size needed.
        """
        name = "Parameters.from_bits"
        refuse_sparse_secret(secret_weight)
        _check_degree(name, log_degree, slots)
        _check_integer(name, "scale_bits", scale_bits, 1, LARGEST_SCALE_BITS)
        for bits in (*modulus_bits, *special_bits):
            _check_integer(name, "a modulus's bits", bits, SMALLEST_BITS, LARGEST_BITS)
        if not modulus_bits or not special_bits:
            raise ValueError(f"{name}: needs at least one modulus and one special modulus")
        moduli = choose_moduli(log_degree, modulus_bits, scale_bits)
        special = choose_special_moduli(log_degree, special_bits, moduli)
        return cls.from_moduli(
            log_degree,
            moduli,
            special,
            scale=2.0**scale_bits,
            digit_size=digit_size,
            slots=slots,
            security=security,
            attack_model=attack_model,
        )

    @classmethod
    def from_moduli(
        cls,
        log_degree: int,
        moduli: Sequence[int],
        special_moduli: Sequence[int],
        *,
        scale: float | Mapping[int, float],
        digit_size: int | None = None,
        slots: int | None = None,
        fresh_level: int | None = None,
        security: int | None = 128,
        attack_model: str = "classical",
        secret_weight: int | None = None,
    ) -> "Parameters":
        """Parameters with the primes given.

        Args:
          log_degree: log2 of the ring degree N, 3 to 17.
          moduli: q_0, ..., q_L: distinct primes below 2^61, each 1 mod 2N.
          special_moduli: the special primes, likewise, distinct from `moduli`.
          scale: the scale at the top level, up to 2^60; or by level, with the top's among them, scales at which the
            rule s[l-1] = s[l]^2 / q[l] starts anew. A product that enters such a level has a scale of its own, and
            takes another level to become canonical, unless it is with a plaintext at `plain_scale_at(level)`.
          digit_size: primes in a key-switch digit; if None the most whose product stays 2^4 below P (or below P).
          slots: the default packing, a power of two; N/2 if None.
          fresh_level: the level of fresh ciphertexts; the top if None.
          security: 128, 192 or 256 bits; None does without the check.
          attack_model: "classical" or "quantum", which column of the table is enforced.
          secret_weight: always refused: main secrets are uniform ternary, never sparse.

        Raises:
          InsecureParametersError: log2(QP) exceeds the limit, or a sparse secret.
          ValueError: a modulus that does not serve, a digit not below P, or a scale that leaves its modulus.
        """
        name = "Parameters.from_moduli"
        refuse_sparse_secret(secret_weight)
        _check_degree(name, log_degree, slots)
        moduli = tuple(int(q) for q in moduli)
        special_moduli = tuple(int(p) for p in special_moduli)
        _check_moduli(name, log_degree, moduli, special_moduli)
        report = require_security(log_degree, moduli, special_moduli, security, attack_model)
        top = len(moduli) - 1
        fresh_level = top if fresh_level is None else fresh_level
        _check_integer(name, "fresh_level", fresh_level, 0, top)
        return cls(
            log_degree=log_degree,
            moduli=moduli,
            special_moduli=special_moduli,
            digit_size=_checked_digit_size(name, digit_size, moduli, special_moduli),
            slots=slots or 1 << log_degree - 1,
            scales=_canonical_scales(name, moduli, scale if isinstance(scale, Mapping) else {top: scale}),
            fresh_level=fresh_level,
            security=report,
        )

    def with_levels(self, levels: Sequence[int]) -> "Parameters":
        """These parameters with some of their primes, each with the scale of its level.

        Args:
          levels: ascending, with 0; fresh ciphertexts are at the last one before any gap.
        """
        first = next((i for i, level in enumerate(levels) if level != i), len(levels)) - 1
        return Parameters.from_moduli(
            self.log_degree,
            [self.moduli[level] for level in levels],
            self.special_moduli,
            scale={i: self.scales[level] for i, level in enumerate(levels)},
            digit_size=self.digit_size,
            slots=self.slots,
            fresh_level=min(first, self.fresh_level),
            security=self.security.bits if self.security else None,
            attack_model=self.security.attack_model if self.security else "classical",
        )

    @classmethod
    def preset(cls, name: str) -> "Parameters":
        """A named parameter set at 128 bits against classical attacks.

        Args:
          name: "n13" (depth 3, scale 2^35), "n14" (depth 7), "n15" (depth 15) or "n16" (depth 34, each scale 2^40).

        Raises:
          ValueError: an unknown name.

        >>> Parameters.preset("n15").max_level
        15
        """
        if name not in _PRESETS:
            raise ValueError(f"Parameters.preset: no preset {name!r}; there are {', '.join(map(repr, _PRESETS))}")
        log_degree, modulus_bits, special_bits, scale_bits = _PRESETS[name]
        return cls.from_bits(log_degree, modulus_bits, special_bits, scale_bits=scale_bits)

    @property
    def degree(self) -> int:
        """The ring degree N."""
        return 1 << self.log_degree

    @property
    def max_level(self) -> int:
        """The highest level, L."""
        return len(self.moduli) - 1

    @property
    def digits(self) -> int:
        """Digits of a key switch at the top level."""
        return -(-len(self.moduli) // self.digit_size)

    @property
    def log_q(self) -> float:
        """log2 of the product of the ciphertext primes."""
        return math.log2(math.prod(self.moduli))

    @property
    def log_qp(self) -> float:
        """log2 of the product of all primes, which security is measured by."""
        return math.log2(math.prod(self.moduli) * math.prod(self.special_moduli))

    @property
    def security_bits(self) -> int:
        """128, 192 or 256; 0 where the check was declined."""
        return self.security.bits if self.security else 0

    def scale_at(self, level: int) -> float:
        """The canonical scale of a level.

        Raises:
          ValueError: there is no such level.
        """
        self._check_level("scale_at", level)
        return self.scales[level]

    def plain_scale_at(self, level: int) -> float:
        """The scale of a plaintext whose product with a ciphertext at a level is canonical once it is rescaled.

        Where scales follow each other by the rule, that is the level's own scale.

        Raises:
          ValueError: there is no such level, or it is 0.
        """
        self._check_level("plain_scale_at", level)
        self._check_level("plain_scale_at", level - 1)
        scale, after, q = self.scales[level], self.scales[level - 1], self.moduli[level]
        return scale if scale * scale / q == after else after * q / scale

    def moduli_at(self, level: int) -> tuple[int, ...]:
        """The primes q_0, ..., q_level.

        Raises:
          ValueError: there is no such level.
        """
        self._check_level("moduli_at", level)
        return self.moduli[: level + 1]

    def digit_moduli(self, level: int) -> tuple[tuple[int, ...], ...]:
        """The primes of each key-switch digit alive at a level; the last digit may be shorter.

        Raises:
          ValueError: there is no such level.
        """
        self._check_level("digit_moduli", level)
        return split(self.moduli[: level + 1], self.digit_size)

    def _check_level(self, operation: str, level: int):
        if not 0 <= level < len(self.moduli):
            raise ValueError(f"Parameters.{operation}: level {level}; there are levels 0 to {self.max_level}")

    def _content(self):
        ring = (self.log_degree, self.moduli, self.special_moduli, self.digit_size, self.slots)
        return (*ring, self.scales, self.fresh_level, self.security)

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        if self is other:
            return True
        if not isinstance(other, Parameters):
            return NotImplemented
        return self._hash == other._hash and self._content() == other._content()

    def __reduce__(self):
        return Parameters, self._content()

    def __repr__(self):
        scale = f"2^{math.log2(self.scales[self.fresh_level]):.4g}"
        limit, security = "", "None"
        if self.security:
            limit, security = f" of {self.security.limit}", f"{self.security.bits} {self.security.attack_model}"
        return (
            f"Parameters(N=2^{self.log_degree}, slots={self.slots}, depth={self.fresh_level}, scale={scale}, "
            f"log2(QP)={self.log_qp:.1f}{limit}, security={security})"
        )


def _canonical_scales(name: str, moduli: tuple[int, ...], anchors: Mapping[int, float]) -> tuple[float, ...]:
    """The scale of each level, level 0 first; each must leave room below its modulus."""
    scales, modulus = [], math.prod(moduli)
    for level in range(len(moduli) - 1, -1, -1):
        if level in anchors:
            if not 1 < anchors[level] <= 2.0**LARGEST_SCALE_BITS:
                raise ValueError(
                    f"{name}: scale = {anchors[level]}; need more than 1 and at most 2.0**{LARGEST_SCALE_BITS}"
                )
            scales.append(float(anchors[level]))
        elif not scales:
            raise ValueError(f"{name}: scales for the levels {sorted(anchors)}; the top level, {level}, needs one")
        else:
            scales.append(scales[-1] * scales[-1] / moduli[level + 1])
        if not 1 < scales[-1] < modulus:
            raise ValueError(
                f"{name}: the scale at level {level} would be {scales[-1]:.4g}; need more than 1 and less than the "
                f"level's modulus, 2^{math.log2(modulus):.1f}. Give a scale below q_0 and near the other moduli"
            )
        modulus //= moduli[level]
    return tuple(reversed(scales))


def _checked_digit_size(name: str, digit_size: int | None, moduli, special_moduli) -> int:
    """The digit size given, or the largest whose digits stay well below P."""
    p = math.prod(special_moduli)
    digits = {size: largest_digit(moduli, size) for size in range(1, len(moduli) + 1)}
    if digit_size is None:
        roomy = [size for size, digit in digits.items() if digit <= p >> SPECIAL_MARGIN_BITS]
        digit_size = max(roomy or [size for size, digit in digits.items() if digit < p], default=1)
    _check_integer(name, "digit_size", digit_size, 1, len(moduli))
    if digits[digit_size] >= p:
        raise ValueError(
            f"{name}: a digit of {digit_size} moduli has {math.log2(digits[digit_size]):.1f} bits, the special moduli "
            f"{math.log2(p):.1f}; digits must be smaller. Give more special moduli, or a smaller digit_size"
        )
    return digit_size


def _check_moduli(name: str, log_degree: int, moduli: tuple[int, ...], special_moduli: tuple[int, ...]):
    if not moduli or not special_moduli:
        raise ValueError(f"{name}: needs at least one modulus and one special modulus")
    every = moduli + special_moduli
    for q in every:
        if q.bit_length() > LARGEST_BITS or not is_prime(q):
            raise ValueError(f"{name}: modulus {q}; need a prime below 2^{LARGEST_BITS}")
        if q % (2 << log_degree) != 1:
            raise ValueError(f"{name}: modulus {q} is {q % (2 << log_degree)} mod 2N; N = 2^{log_degree} needs 1")
        if every.count(q) > 1:
            raise ValueError(f"{name}: modulus {q} is given {every.count(q)} times; moduli must be distinct")


def _check_degree(name: str, log_degree: int, slots: int | None):
    _check_integer(name, "log_degree", log_degree, 3, LARGEST_LOG_DEGREE)
    if slots is not None and slots not in [1 << bits for bits in range(log_degree)]:
        raise ValueError(
            f"{name}: slots = {slots}; need a power of two from 1 to N/2 = {1 << log_degree - 1}, "
            "None for N/2, or a larger log_degree"
        )


def _check_integer(name: str, argument: str, value: int, low: int, high: int):
    if not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name}: {argument} = {value!r}; need an integer from {low} to {high}")
