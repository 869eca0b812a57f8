"""Every FFI handler, stated once: operands, attributes, results, and what the CUDA handler works in.

`python ffi/generate.py` writes `ffi/common/handlers.gen.h` and `.cc` from it: names, what a handler is given as a C++
struct, and the checks that fill it, for the CPU and CUDA alike. `define.py` takes attributes and workspaces from it.
"""

from fhejax.primitives.statement import (
    Array,
    Element,
    Handler,
    Integer,
    Integers,
    Key,
    Moduli,
    Places,
    Region,
    Scale,
    Thresholds,
)

ROWS = "limbs values"  # residues of which each is alone: a row of any length
RING = "limbs N"
PAIR = "2 limbs N"
EXTENDED = "2 limbs+specials N"

_MODULI = Moduli("moduli", "limbs")
_RING_MODULI = Moduli("moduli", "limbs", transforms=True)
_SEEDS = Array("seeds", "8", "uint32")
_DIGIT_SIZE = Integer("digit_size", 1, 1 << 12)
_DIGITS = {"digits": "ceiling(limbs, digit_size)"}


def _sums(name: str, *operands: str) -> Handler:
    return Handler(name, tuple(Array(each, ROWS) for each in operands), (_MODULI,), (Array("out", ROWS),))


def _coefficients(words: str) -> Region:
    """Rows of coefficients."""
    return Region("coefficients", words)


ARITHMETIC = (
    _sums("add", "a", "b"),
    _sums("subtract", "a", "b"),
    _sums("multiply", "a", "b"),
    _sums("multiply_add", "a", "b", "c"),
    Handler("multiply_scalar", (Array("a", ROWS), Array("scalar", "limbs")), (_MODULI,), (Array("out", ROWS),)),
    Handler(
        "weighted_sums",
        (Array("x", "terms components limbs values"), Array("weights", "sums limbs terms")),
        (_MODULI,),
        (Array("out", "sums components limbs values"),),
    ),
    Handler(
        "combination",  # three components where there are products
        (
            Array("xs", "2 limbs_of_x>=limbs values", repeats="products"),
            Array("ys", "2 limbs_of_y>=limbs values", repeats="products"),
            Array("terms", "components limbs_of_term>=limbs values", repeats="operands-2*products-1"),
            Array("weights", "numbers limbs"),
        ),
        (_MODULI, Integer("products", 0, 1 << 12)),
        (Array("out", "max(components,3*(products>0)) limbs values"),),
        where={"term_count": "operands - 2 * products - 1"},
        needs=("products > 0 or term_count > 0", "term_count == 0 or components == 2 or components == 3",
               "numbers == term_count or numbers == term_count + 1"),
    ),
)  # fmt: skip

TRANSFORMS = (
    Handler("ntt", (Array("x", RING),), (_RING_MODULI,), (Array("out", RING),)),
    Handler("inverse_ntt", (Array("x", RING),), (_RING_MODULI,), (Array("out", RING),)),
    Handler(
        "automorphism",
        (Array("x", RING),),
        (Element(),),
        (Array("out", RING),),
    ),
    Handler(
        "slots_to_coefficients",
        (Array("z", "slots", "complex128"),),
        (),
        (Array("out", "N", "float64"),),
        (Region("transformed", "(slots > 2048) * 2 * z_entries * slots"),),  # of what one block does not transform
        needs=("2 * slots <= N",),
    ),
    Handler(
        "coefficients_to_slots",
        (Array("a", "N", "float64"),),
        (),
        (Array("out", "slots", "complex128"),),
        needs=("2 * slots <= N",),
    ),
)

ROUNDING = (
    Handler("round_to_residues", (Array("a", "values", "float64"),), (_MODULI, Scale()), (Array("out", ROWS),)),
    Handler("encode_coefficients", (Array("a", "N", "float64"),), (_RING_MODULI, Scale()), (Array("out", RING),)),
    Handler(
        "residues_to_float",
        (Array("x", ROWS),),
        (_MODULI, Places()),
        (Array("out", "values", "float64"),),
        distinct=("moduli",),
    ),
    Handler(
        "decode_coefficients",
        (Array("x", RING),),
        (_RING_MODULI, Places()),
        (Array("out", "N", "float64"),),
        (_coefficients("x_entries * limbs * N"),),
        distinct=("moduli",),
    ),
)

CONVERSIONS = (
    Handler(
        "convert_basis",
        (Array("x", "sources values"),),
        (Moduli("source", "sources"), Moduli("target", "targets")),
        (Array("out", "targets values"),),
        distinct=("source",),
    ),
    Handler(
        "mod_raise",
        (Array("x", "sources N"),),
        (Moduli("source", "sources", transforms=True), Moduli("more", "added", transforms=True)),
        (Array("out", "sources+added N"),),
        (_coefficients("x_entries * sources * N"),),
        distinct=("source",),
    ),
    Handler(
        "mod_down",
        (Array("x", "kept+dropped N"),),
        (Moduli("keep", "kept", transforms=True), Moduli("drop", "dropped", transforms=True)),
        (Array("out", "kept N"),),
        (Region("lifts", "x_entries * kept * N"), Region("dropped_rows", "x_entries * dropped * N")),
        distinct=("keep", "drop"),
    ),
)


def _switching(
    name: str,
    operands: tuple[Array | Key, ...],
    results: tuple[Array, ...],
    workspace: tuple[Region, ...],
    *more: Integer | Integers | Element,
    special: int = 0,
    limbs: int = 1,
    needs: tuple[str, ...] = (),
) -> Handler:
    """With at least so many special primes and others."""
    basis = (
        Moduli("moduli", "limbs", transforms=True, least=limbs),
        Moduli("special", "specials", transforms=True, least=special),
        _DIGIT_SIZE,
    )
    distinct = ("moduli", "special")
    return Handler(name, operands, (*basis, *more), results, workspace, _DIGITS, needs, distinct)


def _raised(polynomials: str) -> tuple[Region, ...]:
    """Coefficients of so many polynomials, and their digits modulo all primes."""
    digits = f"{polynomials} * digits * (limbs + specials) * N"
    return (_coefficients(f"{polynomials} * limbs * N"), Region("raised", digits))


_MASKS = Region("masks", "seeds * digits * (limbs + specials) * N")  # of one key at a time
_PRODUCT = Region("product", "2 * batch * (limbs + specials) * N")


def _switch_memory(polynomials: str, kept: str, over_if: str = "1") -> tuple[Region, ...]:
    """That of a key switch with its division: what is subtracted from kept limbs lies where digits were."""
    lifts = Region("lifts", f"2 * batch * ({kept}) * N", over="coefficients", over_if=over_if)
    return (*_raised(polynomials), lifts, _MASKS, _PRODUCT)


KEY_SWITCHES = (
    Handler(
        "inner_product",
        (Array("digits", "terms limbs values"), Array("key", "terms 2 limbs values")),
        (_MODULI,),
        (Array("out", "2 limbs values"),),
    ),
    _switching("gadget_product", (Array("x", RING), Key()), (Array("out", EXTENDED),), (*_raised("x_entries"), _MASKS)),
    _switching(
        "key_switch", (Array("x", RING), Key()), (Array("out", PAIR),), _switch_memory("x_entries", "limbs"), special=1
    ),
    _switching(
        "multiply_ciphertexts",
        (Array("x", "2 limbs_of_x>=limbs N"), Array("y", "2 limbs_of_y>=limbs N"), Key()),
        (Array("out", "2 limbs-1 N"),),
        _switch_memory("batch", "limbs - 1"),
        limbs=2,
    ),
    _switching(
        "relinearize_rescale",
        (Array("d", "3 limbs N"), Key()),
        (Array("out", "2 limbs-1 N"),),
        _switch_memory("d_entries", "limbs - 1"),
        limbs=2,
    ),
    _switching(
        "hoisted_rotations",
        (Array("ciphertext", PAIR), Key("keys", repeats="rotations")),
        (Array("out", PAIR, repeats="rotations"),),
        _switch_memory("ciphertext_entries", "limbs", over_if="rotations == 1"),
        Integers("elements", "rotations", least=1, elements="switched"),
        special=1,
    ),
    _switching(
        "hoisted_sums",
        (
            Array("ciphertexts", PAIR, repeats="inputs"),
            Array("plains", "term_count limbs+specials width"),
            Key("keys", repeats="switched"),
        ),
        (Array("out", EXTENDED, repeats="sum_count"),),
        (
            _coefficients("ciphertexts_most * limbs * N"),  # of one at a time
            Region("raised", "ciphertexts_entries * digits * (limbs + specials) * N"),
            _MASKS,
            Region("rotated", "2 * babies * batch * (limbs + specials) * N"),
        ),
        Integer("inputs", 1, 1 << 12),
        Integers("sources", "babies", below="inputs"),
        Integers("elements", "babies", least=1, elements="switched"),
        Integers("sizes", "sum_count", least=1, total="term_count"),
        Integers("terms", "term_count", below="babies"),
        needs=("N % width == 0",),
    ),
    _switching(
        "add_rotation",
        (Array("total", EXTENDED), Array("pair", EXTENDED), Key()),
        (Array("out", EXTENDED),),
        (*_raised("pair_entries"), _MASKS, Region("divided", "pair_entries * limbs * N")),
        Element(),
        special=1,
    ),
)

RANDOMNESS = (
    Handler(
        "chacha20",
        (Array("key", "8", "uint32"), Array("place", "count 4", "uint32")),
        (),
        (Array("out", "count 16", "uint32"),),
    ),
    Handler("sample_uniform", (_SEEDS,), (_MODULI,), (Array("out", "count limbs values"),)),
    Handler("sample_ternary", (_SEEDS,), (_MODULI,), (Array("out", "count limbs values"),)),
    Handler("sample_gaussian", (_SEEDS,), (_MODULI, Thresholds()), (Array("out", "count limbs values"),)),
    Handler(
        "sample_sparse_ternary",
        (_SEEDS,),
        (_MODULI, Integer("weight", 0, 1 << 31)),
        (Array("out", "count limbs values"),),
        (
            Region("steps", "seeds_entries * count * weight"),
            Region("positions", "seeds_entries * count * ceiling(values, 2)"),
            Region("signs", "seeds_entries * count * ceiling(values, 4)"),
        ),
        needs=("weight <= values",),
    ),
)

ENCRYPTION = (
    Handler(
        "encrypt_public",
        (
            _SEEDS,
            Array("key", "key_count 2 limbs_of_key>=limbs+1 N"),
            Array("message", "message_count limbs N"),
        ),
        (_RING_MODULI, Moduli("special", "1", transforms=True), Thresholds()),
        (Array("out", "count=broadcast(key_count,message_count) 2 limbs N"),),
        (
            Region("v", "batch * count * limbs * N"),
            Region("products", "2 * batch * count * N"),
            Region("small_v", "ceiling(batch * count * N, 4)"),
            Region("errors", "ceiling(batch * count * N, 2)"),
        ),
        needs=("key_count == 1 or key_count == count", "message_count == 1 or message_count == count"),
        distinct=("moduli", "special"),
    ),
    Handler(
        "decrypt_coefficients",
        (Array("data", "components limbs N"), Array("secret", "limbs_of_secret>=limbs N")),
        (_RING_MODULI, Places()),
        (Array("out", "N", "float64"),),
        (_coefficients("batch * limbs * N"),),
        distinct=("moduli",),
    ),
    Handler(
        "switching_key",
        (
            Array("mask_seeds", "8", "uint32"),
            Array("error_seeds", "8", "uint32"),
            Array("source", "limbs_of_source>=limbs+specials N"),
            Array("target", "limbs_of_target>=limbs+specials N"),
        ),
        (
            _RING_MODULI,
            Moduli("special", "specials", transforms=True, least=0),
            _DIGIT_SIZE,
            Integer("seeded", 0, 1),
            Thresholds(),
        ),
        (Array("out", "digits 2|seeded limbs+specials N"),),
        where=_DIGITS,
        distinct=("moduli", "special"),
    ),
)

HANDLERS = {
    handler.name: handler
    for family in (ARITHMETIC, TRANSFORMS, ROUNDING, CONVERSIONS, KEY_SWITCHES, RANDOMNESS, ENCRYPTION)
    for handler in family
}
"""Every handler, by the name of its primitive."""
