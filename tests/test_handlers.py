"""The statement of the handlers, and what is generated from it."""

import importlib.util
import pathlib
import re
import shutil

import fuzz_handlers
import jax
import numpy as np
import pytest
from residues import chain, random_residues

import fhejax as fhe
from fhejax.primitives import basis, calls, define, native, ntt as ntt_module
from fhejax.primitives.handlers import HANDLERS
from fhejax.primitives.statement import Axis, parse_axis

ROOT = pathlib.Path(__file__).parents[1]


def array(*shape, dtype=np.uint64):
    with jax.enable_x64(True):
        return jax.ShapeDtypeStruct(shape, dtype)


def test_the_generated_files_are_those_of_the_statement():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "ffi" / "generate.py")
    assert spec is not None and spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    for path, write in generate.FILES.items():
        assert path.read_text() == write(), "type: python ffi/generate.py"


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("N", Axis("N", None, False, None)),
        ("2", Axis(None, "2", False, None)),
        ("limbs+specials", Axis(None, "limbs+specials", False, None)),
        ("2|seeded", Axis(None, "2", False, "seeded")),
        ("k=2", Axis("k", "2", False, None)),
        ("k=2|seeded", Axis("k", "2", False, "seeded")),
        ("k>=2", Axis("k", "2", True, None)),
        ("k>=2|seeded", Axis("k", "2", True, "seeded")),
    ],
)
def test_axes_are_read_from_their_text(text, axis):
    assert parse_axis(text) == axis


def switch(batch, key_batch, limbs=3, special=1, digit_size=2, seeded=True):
    """Operands, results and attributes of a key switch, with a key of a higher level."""
    key = [array(*key_batch, 4, limbs + special + 2, 16), array(*key_batch, 8, dtype=np.uint32)]
    key = key if seeded else [array(*key_batch, 4, 2, limbs + special + 2, 16)]
    values = {"moduli": range(limbs), "special": range(special), "digit_size": digit_size}
    return [array(*batch, limbs, 16), *key], [array(*batch, 2, limbs, 16)], values


@pytest.mark.parametrize("seeded", [False, True])
def test_dimensions(seeded):
    sizes = HANDLERS["key_switch"].dimensions(*switch((5, 3), (1, 3), seeded=seeded))
    expected = {"limbs": 3, "specials": 1, "digits": 2, "N": 16, "batch": 15, "x_entries": 15, "seeds": 3 * seeded}
    assert expected.items() <= sizes.items()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda x, key, seed: [array(5, 3, 2, 16), key, seed], "x has shape"),
        (lambda x, key, seed: [x, array(1, 3, 4, 6, 8), seed], "key has shape"),
        (lambda x, key, seed: [x, array(1, 3, 1, 6, 16), seed], "key has shape"),
        (lambda x, key, seed: [x, key, seed, seed], "left over"),
        (lambda x, key, seed: [x], "missing"),
    ],
)
def test_what_does_not_fit(change, says):
    operands, results, values = switch((5, 3), (1, 3))
    with pytest.raises(ValueError, match=says):
        HANDLERS["key_switch"].dimensions(change(*operands), results, values)


def test_regions_follow_each_other_or_begin_where_another_does():
    """Coefficients and digits, or lifts, whichever are larger; masks; a product."""
    words = HANDLERS["key_switch"].workspace_words(*switch((2,), (1,)))
    raised, lifts = 2 * (3 + 2 * 4) * 16, 2 * 2 * 3 * 16
    assert words == max(raised, lifts) + 1 * 2 * 4 * 16 + 2 * 2 * 4 * 16


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_whatever_calls_a_handler_the_process_lives():
    done = fuzz_handlers.fuzz(1000)
    assert done["failures"] == [] and 50 < done["computed"] * 1000 / done["next"] < 700


def test_names_are_versions_of_primitives():
    assert len({handler.target for handler in HANDLERS.values()}) == len(HANDLERS)
    assert HANDLERS["ntt"].target == "fhejax_ntt_v1"


def primitives():
    """Whole operations are slow: XLA compiles their reference."""
    for definition in define.definitions.values():
        yield pytest.param(definition.name, marks=[pytest.mark.slow] if definition.composed else [])


@pytest.mark.parametrize("primitive", list(primitives()))
def test_kernels_on_the_table_of_calls(primitive):
    calls.check_implementation(primitive, "native")


def test_a_primitive_has_a_lowering_of_its_own():
    """Of one primitive, inside a composition too; the rest goes on as it was."""
    moduli = chain(16, (30, 50))
    x, traced = random_residues(0, moduli, 16), []

    def mine(x, *, moduli):
        traced.append(native.current_lowering())
        return ntt_module._reference_forward(x, moduli=moduli)

    fhe.register_implementation("ntt", "mine", mine)
    fhe.check_implementation("ntt", "mine")
    program = jax.jit(lambda x: basis.mod_raise(x, moduli[:1], moduli[1:]))
    expected = np.asarray(program(x[:1]))
    for choice, calls_made, uses_mine in [
        ({"ntt": "mine"}, {"mod_raise"}, False),
        ({"mod_raise": "composed", "ntt": "mine"}, {"inverse_ntt", "convert_basis"}, True),
        ({"mod_raise": "reference", "ntt": "mine"}, set(), False),
        ({"mod_raise": "composed"}, {"inverse_ntt", "convert_basis", "ntt"}, False),
    ]:
        traced.clear()
        with fhe.lowering(choice):
            assert set(re.findall(r"@fhejax_(\w+)_v1", program.lower(x[:1]).as_text())) == calls_made
            np.testing.assert_array_equal(program(x[:1]), expected)
        assert bool(traced) == uses_mine
    native.implementations["ntt"].clear()


def test_a_wrong_implementation_is_found():
    fhe.register_implementation("add", "wrong", lambda a, b, *, moduli: a + b)
    with pytest.raises(ValueError, match="add: 'wrong' differs from the reference"):
        fhe.check_implementation("add", "wrong")
    native.implementations["add"].clear()


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        ({"nt": "reference"}, "there is no primitive 'nt'; there is 'ntt'"),
        ({"ntt": "refernce"}, "ntt has no implementation 'refernce'; there is 'reference'"),
    ],
)
def test_unknown_names_are_refused(choice, says):
    with pytest.raises(ValueError, match=says), fhe.lowering(choice):
        pass
    with pytest.raises(ValueError, match="choose another name"):
        fhe.register_implementation("ntt", "native", lambda x, *, moduli: x)


def test_choices_nest():
    with fhe.lowering("reference"), fhe.lowering({"ntt": "native"}), fhe.lowering({"add": "composed"}):
        chosen = native.current_lowering()
        assert [native.kind_of(chosen, name) for name in ("ntt", "add", "negate")] == [
            "native",
            "composed",
            "reference",
        ]
        with fhe.lowering("composed"):
            assert native.current_lowering() == "composed"
