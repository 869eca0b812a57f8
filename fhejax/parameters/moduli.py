"""How the primes of a parameter set are chosen: sizes, drift of the scale, digits of the key switch.

Going down from the top level, q_l is the unused prime nearest to what brings the scale back to its nominal
value, because an error of the scale doubles at each level. The special primes' product P exceeds each
digit of the key switch by 2^4, which makes the digits' noise vanish beside the rounding.

Source: Kim, Papadimitriou & Polyakov, "Approximate homomorphic encryption with reduced approximation
error", CT-RSA 2022 (scales); Han & Ki, "Better bootstrapping for approximate homomorphic encryption",
CT-RSA 2020 (digits).
"""

import math
from collections.abc import Iterator, Sequence

from fhejax.parameters.primes import LARGEST_BITS, SMALLEST_BITS, largest_primes, nearest_prime
from fhejax.parameters.security import describe_excess, maximum_log_qp

# Headroom of q_0 over the scale: messages up to 2^9 and a sign.
_MESSAGE_BITS = 10
SPECIAL_MARGIN_BITS = 4
# Primes below 2^50 are the fast ones (52-bit multiply-add), and the default size of special primes.
_FAST_BITS = 50


def choose_moduli(log_degree: int, bits: Sequence[int], scale_bits: int) -> tuple[int, ...]:
    """Primes q_0..q_L of about the sizes given, each undoing the drift of the scale above it.

    Refused where the sizes carry the scale away, or there are too few primes.
    """
    order = 2 << log_degree
    base = largest_primes(1, bits[0], order)[0]
    chosen: list[int] = []  # q_L first
    scale, exponent = 2.0**scale_bits, scale_bits
    for size in reversed(bits[1:]):
        exponent = 2 * exponent - size
        if not 0 < exponent <= 2 * LARGEST_BITS:
            raise ValueError(
                f"Parameters.from_bits: the modulus of {size} bits at level {len(bits) - 1 - len(chosen)} would make "
                f"the scale below it 2^{exponent}; give moduli of about scale_bits = {scale_bits} bits"
            )
        q = nearest_prime(round(scale * scale / 2.0**exponent), order, {base, *chosen})
        scale = scale * scale / q
        chosen.append(q)
    return (base, *reversed(chosen))


def choose_special_moduli(log_degree: int, bits: Sequence[int], moduli: Sequence[int]) -> tuple[int, ...]:
    """The largest unused primes of the sizes given."""
    special: list[int] = []
    for size in bits:
        special += largest_primes(1, size, 2 << log_degree, {*moduli, *special})
    return tuple(special)


def choose_for_depth(
    log_degree: int, depth: int, scale_bits: int, digits: int | None, limit: int | None
) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:
    """The chain of a depth with the cheapest key switch at its top: ciphertext primes, special primes and digit size.

    None where log2(QP) would exceed the limit. At most `digits` digits; by cost if None.
    """
    moduli = _moduli_for_depth(log_degree, depth, scale_bits, limit)
    if moduli is None:
        return None
    for *_, count, digit_size, size in sorted(_digit_choices(log_degree, moduli, digits, limit)):
        special = choose_special_moduli(log_degree, (size,) * count, moduli)
        if math.prod(special) >> SPECIAL_MARGIN_BITS >= largest_digit(moduli, digit_size):
            return moduli, special, digit_size
    return None


def explain_refusal(
    log_degree: int, depth: int, scale_bits: int, digits: int | None, security: int, attack_model: str
) -> str:
    """Why a depth does not fit, with the smallest modulus it needs and the largest depth that fits."""
    limit, bits = maximum_log_qp(log_degree, security, attack_model), _bits_for_depth(depth, scale_bits)
    moduli = _moduli_for_depth(log_degree, depth, scale_bits, limit) or tuple((1 << size) - 1 for size in bits)
    required = _special_bits(moduli, 1 if digits is None else -(-len(bits) // digits))
    sizes = {count: _least_size(required, count) for count in range(1, len(bits) + 2)}
    p = 1 << min(count * size for count, size in sizes.items() if size <= LARGEST_BITS)
    excess = describe_excess(log_degree, math.prod(moduli), p, security, attack_model)
    candidates = range(min(depth - 1, limit // (scale_bits - 1)), -1, -1)
    largest = next((d for d in candidates if choose_for_depth(log_degree, d, scale_bits, None, limit)), None)
    advice = "no depth fits" if largest is None else f"the largest depth that fits is {largest}"
    return f"depth {depth} at scale_bits={scale_bits}: {excess}. For N = 2^{log_degree}, {advice}"


def split(moduli: tuple[int, ...], digit_size: int) -> tuple[tuple[int, ...], ...]:
    """Cuts a chain into digits, q_0's first."""
    return tuple(moduli[i : i + digit_size] for i in range(0, len(moduli), digit_size))


def largest_digit(moduli: tuple[int, ...], digit_size: int) -> int:
    """The largest product of a digit's primes."""
    return max(map(math.prod, split(moduli, digit_size)))


def _moduli_for_depth(log_degree: int, depth: int, scale_bits: int, limit: int | None) -> tuple[int, ...] | None:
    """The chain of a depth, or None, without a search, where its product must exceed 2^limit."""
    modulus_bits = _bits_for_depth(depth, scale_bits)
    if limit is not None and sum(modulus_bits) - len(modulus_bits) > limit:  # a prime is over half its power of two
        return None
    return choose_moduli(log_degree, modulus_bits, scale_bits)


def _bits_for_depth(depth: int, scale_bits: int) -> tuple[int, ...]:
    return (min(scale_bits + _MESSAGE_BITS, LARGEST_BITS), *(scale_bits,) * depth)


def _digit_choices(
    log_degree: int, moduli: tuple[int, ...], digits: int | None, limit: int | None
) -> Iterator[tuple[bool, float, int, int, int]]:
    """Yields (slow primes?, cost, number of special primes, digit size, bits of a special prime), least best."""
    limbs = len(moduli)
    room = LARGEST_BITS * 2 * limbs if limit is None else limit - math.prod(moduli).bit_length()
    # Without a limit, P of half the chain's size or less, unless the digits given are larger.
    counts = range(1, max(2, -(-limbs // 2)) + 1 if limit is None and digits is None else limbs + 2)
    for digit_size in range(1, limbs + 1) if digits is None else [-(-limbs // digits)]:
        required = _special_bits(moduli, digit_size)
        for count in counts:
            least = _least_size(required, count)
            size = min(max(least, _FAST_BITS), room // count)
            if least <= size <= LARGEST_BITS:
                slow = count > 1 and size > _FAST_BITS
                yield slow, _key_switch_cost(log_degree, limbs, count, digit_size), count, digit_size, size


def _special_bits(moduli: tuple[int, ...], digit_size: int) -> int:
    """The bits P needs; one of them pays for special primes that lie a little below a power of two."""
    return largest_digit(moduli, digit_size).bit_length() + SPECIAL_MARGIN_BITS + 1


def _least_size(required: int, count: int) -> int:
    """The bits of each of `count` special primes that have `required` bits together."""
    return max(-(-required // count), SMALLEST_BITS)


def _key_switch_cost(log_degree: int, limbs: int, special: int, digit_size: int) -> float:
    """Cost of a key switch at the top level, in transforms of length N.

    A basis conversion multiplies once for each pair of a source and a target limb, a transform (log2 N)/2 times.
    """
    sizes = [min(digit_size, limbs - start) for start in range(0, limbs, digit_size)]
    transforms = limbs + len(sizes) * (limbs + special) + 2 * special + 2 * limbs
    conversions = sum(size * (limbs + special - size) for size in sizes) + 2 * special * limbs
    return transforms + conversions * 2 / log_degree
