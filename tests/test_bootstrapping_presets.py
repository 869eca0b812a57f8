"""Presets of bootstrapping: their primes and scales, their security, their fits; cards, counts and profiles."""

import dataclasses
import math
import pathlib
import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from bootstrapping_cases import run
from making import made_once
from operations import seed

import fhejax as fhe
from fhejax.bootstrapping import dft, plan, profile as profile_of
from fhejax.bootstrapping.failure import log2_failure, probabilities
from fhejax.bootstrapping.preset import PRESETS, Preset
from fhejax.bootstrapping.profile import key_switches
from fhejax.bootstrapping.report import MACHINE, MEASURED, Bits, Measured, name_of
from fhejax.parameters.security import InsecureParametersError

SECURE = [name for name, preset in PRESETS.items() if preset.security is not None]
TINY = dataclasses.replace(PRESETS["T"], log_degree=7, key_cost=5000.0)
# Of a sine left as it is, the messages are a small part: then it is nearly straight.
CURVED = dataclasses.replace(TINY, scale_bits=34, arcsine_degree=1)


@made_once
def made(name="T", slots=None, slots_first=True):
    """A bootstrapping, its secret key and its keys."""
    boot = fhe.Bootstrapping((PRESETS | {"tiny": TINY, "curved": CURVED})[name], slots, slots_first)
    secret = fhe.secret_key(seed(1), boot.params)
    return boot, secret, boot.keys(seed(2), secret)


# --- presets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRESETS)
def test_scales_are_what_the_preset_says(name):
    preset, params = PRESETS[name], fhe.Bootstrapping(name).params
    assert (params.log_degree, params.fresh_level, params.max_level) == (
        preset.log_degree,
        preset.level,
        preset.top_level,
    )
    programs = range(preset.slot_levels, preset.level)
    low = preset.scale_bits if preset.low_bits is None else preset.low_bits
    expected = (
        {level: preset.scale_bits for level in programs}
        | {level: low for level in range(preset.slot_levels)}
        | {preset.level: preset.scale_bits + preset.exit_bits}
        | {preset.sine_level - i: bits for i, bits in enumerate(preset.first_bits)}
        | {level: preset.sine_bits for level in range(preset.sine_level + 1, preset.top_level + 1)}
    )
    for level, bits in expected.items():
        assert math.log2(params.scale_at(level)) == pytest.approx(bits, abs=1e-3), level
    # A message of 1 is a fraction of q_0 that the fit covers.
    assert fhe.Bootstrapping(name).ratio in (pytest.approx(32, rel=1e-3), pytest.approx(64, rel=1e-3))
    assert len({*params.moduli, *params.special_moduli}) == len(params.moduli) + len(params.special_moduli)


@pytest.mark.parametrize("slots", [None, 2**12, 8])
@pytest.mark.parametrize("name", SECURE)
def test_presets_are_secure(name, slots):
    boot = fhe.Bootstrapping(name, slots)
    assert boot.params.security_bits == 128
    assert boot.params.log_qp <= {15: 868, 16: 1747}[boot.params.log_degree]
    assert sum(map(math.log2, plan.exposed(boot.params))) <= 121 and boot.preset.secret_weight == 32
    assert log2_failure(boot.preset.secret_weight, boot.preset.bound, 2 * boot.params.slots) <= -128


def test_primes_of_the_default_fit_the_fast_kernels():
    """All but the two between the enlarged scales of the sine's first levels, which precision wants."""
    params = fhe.Bootstrapping().params
    assert sum(q >= 1 << 50 for q in (*params.moduli, *params.special_moduli)) <= 2


@pytest.mark.parametrize(
    "change, says",
    [
        ({"secret_weight": 31}, "weight 31"),
        ({"log_degree": 15, "depth": 1}, "the limit is 868"),
        ({"depth": 12}, "log2(QP) is 1783 bits"),
    ],
)
def test_insecure_presets_are_refused(change, says):
    with pytest.raises(InsecureParametersError) as caught:
        dataclasses.replace(PRESETS["C"], **change).parameters()
    assert says in str(caught.value)
    assert fhe.Bootstrapping(dataclasses.replace(PRESETS["C"], **change, security=None)).params.security_bits == 0


def test_an_exposure_beyond_the_limit_is_refused():
    with pytest.raises(InsecureParametersError, match=r"modulo 2\^122.0 for N = 2\^16"):
        dataclasses.replace(PRESETS["C"], base_bits=61, special_bits=(61,) * 7).parameters()


def test_q_0_is_not_beyond_the_scale_of_the_sine():
    with pytest.raises(ValueError, match="base_bits = 52 and sine_bits = 50; q_0 may not be beyond"):
        dataclasses.replace(TINY, base_bits=52).parameters()


def test_an_exposure_without_an_estimate_is_refused():
    small = Preset(14, 35, 30, 1, 2, 35, (), 2, (40,), 1, arcsine_degree=1, doublings=2, bound=2, cosine_degree=6)
    with pytest.raises(InsecureParametersError, match=r"N from 2\^15 on.*security=None"):
        small.parameters()


@pytest.mark.parametrize(
    "name, mean, worst", [("C", 32, 19), ("A", 40, 28), ("B2", 21, 18), ("M", 32, 19), ("T", 32, 19)]
)
def test_fits_leave_so_many_bits(name, mean, worst):
    sine = fhe.Bootstrapping(name).sine
    assert mean < -math.log2(sine.mean_error) < mean + 2 and worst < -math.log2(sine.error) < worst + 2


def test_the_fit_follows_how_likely_multiples_are():
    """Against a draw of sums of uniform numbers: frequencies, and the error in the mean."""
    boot, rng = fhe.Bootstrapping("C"), np.random.default_rng(0)
    x = rng.uniform(-0.5, 0.5, (33, 200_000)).sum(axis=0)
    shares = np.array(probabilities(32, 16))
    assert shares.sum() == pytest.approx(1, abs=1e-9) and (shares == shares[::-1]).all()
    found = np.histogram(x, np.arange(-17, 17) + 0.5)[0] / x.size
    np.testing.assert_allclose(found, shares, atol=4 * np.sqrt(0.25 / x.size))
    sine, reach = boot.sine, 1 / boot.ratio
    e = rng.uniform(-reach, reach, x.size)
    y = np.polynomial.chebyshev.chebval((np.round(x) + e - 0.25) / sine.width, np.asarray(sine.cosine.coefficients))
    for c in sine.constants:
        y = 2 * y * y - c
    y = np.polynomial.chebyshev.chebval(y, np.asarray(sine.arcsine.coefficients))
    assert np.sqrt(np.mean((y - e / reach) ** 2)) == pytest.approx(sine.mean_error, rel=0.1)


@pytest.mark.parametrize("slots, levels", [(2**15, (3, 4)), (2**12, (3, 3)), (2**7, (2, 2)), (8, (1, 1)), (2, (1, 1))])
def test_fewer_slots_take_fewer_levels(slots, levels):
    packed = PRESETS["C"].packed(slots)
    assert (packed.slot_levels, packed.coefficient_levels) == levels and packed.slots == slots
    assert packed.packed(slots) == packed and packed.depth == PRESETS["C"].depth
    assert name_of(packed) == "C" and name_of(packed.with_depth(4)) == "C, depth 4"
    assert name_of(dataclasses.replace(packed, key_cost=9.0)) == "a preset of its own"


def test_maps_in_one_direction_are_the_same_maps():
    x = np.random.default_rng(0).normal(size=64) + 1j
    for levels in (1, 2, 3, 4):
        maps = dft.coefficients_to_slots_factors(64, levels)
        turned, turn = dft.one_way(maps, 5)
        assert all(0 in each and max(each) < 64 for each in turned)
        expected = run(maps, np.roll(x, -5))
        np.testing.assert_allclose(np.roll(run(turned, x), -turn), expected, atol=1e-12)
        np.testing.assert_allclose(run([dft.after_rotation(maps[0], 5), *maps[1:]], x), expected, atol=1e-12)


# --- counts, bytes and cards --------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("slots_first", [True, False])
@pytest.mark.parametrize("slots", [None, 8])
def test_bytes_are_those_of_the_keys(slots, slots_first):
    boot, secret, keys = made("tiny", slots, slots_first)
    total = lambda tree: sum(leaf.nbytes for leaf in jax.tree.leaves(tree))
    sizes = plan.sizes(boot)
    assert sizes.keys == total((keys.evaluation, keys.to_sparse, keys.to_dense))
    assert sizes.transforms == total((keys.coeff_to_slot, keys.halves, keys.slot_to_coeff))
    full = boot.keys(seed(2), secret, seeded=False)
    assert sizes.full_keys == total((full.evaluation, full.to_sparse, full.to_dense)) > sizes.keys


def test_what_is_used_often_is_kept_in_full():
    boot, _, keys = made("tiny")
    chains = [each for each in (*keys.coeff_to_slot, *keys.slot_to_coeff) if each.plan.repeated]
    assert len(chains) >= 3
    assert keys.evaluation.relinearization.mask_seed is None
    often = {pow(5, each.plan.stride, 2 * boot.params.degree) for each in chains if each.plan.switched > 2}
    assert often == {element for element, key in keys.evaluation.galois.items() if key.mask_seed is None}
    for transform in (*keys.coeff_to_slot, *keys.slot_to_coeff):
        for step in transform.rotations:
            key = keys.evaluation.galois[pow(5, step, 2 * boot.params.degree)]
            assert key.level >= transform.level


@pytest.mark.sampled(1)
@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize("slots_first", [True, False])
@pytest.mark.parametrize("name, slots", [("tiny", None), ("tiny", 8), ("curved", 8)])
def test_counts_are_those_of_the_jaxpr(name, slots, slots_first, real):
    boot, secret, keys = made(name, slots, slots_first)
    values = np.ones(boot.params.slots) * (1 if real else 1j)
    x = fhe.drop_to_level(fhe.encrypt(seed(3), secret, values), boot.input_level)
    counted = key_switches(fhe.bootstrap, x, keys)
    stages = plan.stages(boot, real)
    assert tuple(sum(getattr(stage, kind) for stage in stages) for kind in ("hoisted", "switched")) == counted
    assert sum(stage.levels for stage in stages) == boot.params.max_level - boot.output_level + boot.input_level


@pytest.mark.sampled(1)
@pytest.mark.parametrize("slots_first", [True, False])
@pytest.mark.parametrize("slots", [None, 8])
def test_a_sine_left_as_it_is(slots, slots_first):
    boot, secret, keys = made("curved", slots, slots_first)
    values = np.linspace(-1, 1, boot.params.slots) * (1 + 0.5j)
    y = fhe.bootstrap(fhe.encrypt(seed(3), secret, values), keys)
    assert fhe.precision(values, fhe.decrypt(secret, y)) > 17


@pytest.mark.slow
def test_the_default_keeps_its_promises():
    """At most half of OpenFHE's 4.7 GB of keys, eleven levels; and fewer keys cost little work."""
    boot = fhe.Bootstrapping()
    sizes = plan.sizes(boot)
    assert sizes.keys < 2.35e9 and sizes.transforms < 0.6e9
    assert boot.output_level - boot.input_level == 11
    without = fhe.Bootstrapping(dataclasses.replace(PRESETS["C"], key_cost=0.0))
    assert plan.sizes(without).keys > 1.4 * sizes.keys and plan.work(boot) < 1.25 * plan.work(without)
    assert [name_of(each.preset) for each in (boot, without)] == ["C", "a preset of its own"]


@pytest.mark.slow
def test_sparse_packing_is_less_work():
    work = {slots: plan.work(fhe.Bootstrapping("C", slots)) for slots in (None, 2**12, 8)}
    assert work[8] < 0.7 * work[None] and work[2**12] < work[None]


def test_the_card_says_it_all():
    text = str(fhe.Bootstrapping("C"))
    assert text == repr(fhe.Bootstrapping("C").card())
    for part in (
        "C: N=2^16, 32768 slots, slots to coefficients first",
        "128 bits (classical, MATZOV, ePrint 2024/463 table 5.2): log2(QP) = 1742.0 of 1747",
        "weight 32, modulo 2^96 (limit 2^121, 163 bits there)",
        "11 for programs: refreshed from level 3 to 14",
        "impossible; customary bound P(|t/q_0| > 16) = 2^-138.7",
        "32.3 bits in the mean",
        "GB with seeded=False",
    ):
        assert part in text
    assert repr(fhe.Bootstrapping("C")).startswith("Bootstrapping(C, levels=11, Parameters(N=2^16")
    assert "slots to coefficients last" in repr(fhe.Bootstrapping("T", slots_first=False))
    assert "none asked for" in repr(fhe.Bootstrapping("T").card())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", SECURE)
def test_presets_state_what_was_measured(name):
    found = fhe.Bootstrapping(name).card().measured
    assert found is MEASURED[name, PRESETS[name].slots]
    for bits in (found.random, found.constant, found.complex):
        assert bits.mean > bits.worst > 17
    text = repr(fhe.Bootstrapping(name).card())
    assert f"{found.random.mean:.1f} mean, {found.random.worst:.1f} worst" in text and MACHINE in text


@pytest.mark.slow
def test_the_page_shows_cards_as_they_are():
    page = (pathlib.Path(__file__).parents[1] / "docs" / "bootstrapping.md").read_text()
    assert str(fhe.Bootstrapping("C")) in page
    for (name, slots), found in MEASURED.items():
        how = fhe.Bootstrapping(name, slots)
        bits = [f"{each.mean}, {each.worst}" for each in (found.random, found.constant, found.complex)]
        sizes = [f"{size / 1e9:.2f} GB" for size in (plan.sizes(how).keys, found.peak)]
        cells = f'`"{name}"`', f"2^{how.params.log_degree}, {slots}", how.output_level - how.input_level, *bits
        assert f"| {' | '.join(map(str, (*cells, found.seconds, *sizes)))} |" in page


def test_a_card_without_measurements_says_how_to_get_them():
    text = repr(dataclasses.replace(fhe.Bootstrapping("C", 16).card(), measured=None))
    assert "not measured; type python -m fhejax.bootstrapping C --slots 16" in text
    measured = Measured(
        Bits(27.5, 24.0), Bits(27.0, 23.0), Bits(26.0, 23.0), seconds=2.2, key_seconds=9.0, peak=4_000_000_000
    )
    shown = repr(dataclasses.replace(fhe.Bootstrapping("C").card(), measured=measured, machine="here"))
    for part in (
        "27.5 mean, 24.0 worst",
        "2.20 s of processor time, 0.200 s a level",
        "6.10 us a slot",
        "4.00 GB",
        "here",
    ):
        assert part in shown


@pytest.mark.slow
def test_for_program_takes_the_cheapest():
    cheap, full, fine = (
        fhe.Bootstrapping.for_program(*asked) for asked in ((2,), (11, 25.0), (5, MEASURED["A", 2**15].random.mean))
    )
    assert name_of(cheap.preset).startswith("B2") and cheap.output_level - cheap.input_level == 2
    assert full.preset == PRESETS["C"]
    assert name_of(fine.preset) == "A, depth 5" and fine.params.security_bits == 128
    six = fhe.Bootstrapping.for_program(6, 25.0, slots=8)
    assert name_of(six.preset) == "C, depth 6" and six.params.slots == 8 and plan.work(six) < plan.work(full)


@pytest.mark.parametrize(
    "arguments, says",
    [
        ((12,), "no preset has 12 levels; there are 'C' 11 levels at"),
        ((3, 40.0), "no preset has 3 levels and 40 bits"),
        ((0,), "levels = 0; need at least 1"),
    ],
)
def test_for_program_says_what_there_is(arguments, says):
    with pytest.raises(ValueError) as caught:
        fhe.Bootstrapping.for_program(*arguments)
    assert says in str(caught.value)


@pytest.mark.usefixtures("unchecked")
def test_for_program_wants_integers():
    with pytest.raises(TypeError, match="not a Python integer"):
        fhe.Bootstrapping.for_program(np.float64(2))


# --- profiles -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_profile_tells_stages_and_bits():
    boot, secret, keys = made("tiny")
    values = np.random.default_rng(0).uniform(-1, 1, boot.params.slots)
    x = fhe.encrypt(seed(3), secret, values)
    found = profile_of(keys, x, secret, repeats=1)
    check_stages(found, plan.stages(boot))
    last, y = found.stages[-1].precision, fhe.bootstrap(x, keys)
    before, after = (
        np.asarray(fhe.decrypt(secret, each, dtype="float64")) for each in (fhe.drop_to_level(x, boot.input_level), y)
    )
    assert last.mean == pytest.approx(fhe.precision(before, after).mean, abs=0.1)
    text = repr(found)
    assert re.search(r"coefficients to slots +2 +\d+ \+ \d+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +-?[\d.]+\n", text)
    assert text.splitlines()[-1].startswith("all ")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("slots, slots_first", [(8, True), (8, False)])
def test_profile_without_the_secret_tells_no_bits(slots, slots_first):
    boot, secret, keys = made("tiny", slots, slots_first)
    x = fhe.encrypt(seed(3), secret, 1j * np.ones(slots))
    found = profile_of(keys, x, repeats=1)
    check_stages(found, plan.stages(boot, real=False))
    assert all(stage.precision is None for stage in found.stages) and "lost" in repr(found)


def check_stages(found, expected):
    assert [stage.name for stage in found.stages] == [stage.name for stage in expected]
    for got, planned in zip(found.stages, expected, strict=True):
        assert (got.levels, got.hoisted, got.switched) == (planned.levels, planned.hoisted, planned.switched)
        assert 0 < got.cpu and 0 < got.wall


@pytest.mark.slow
def test_the_command_prints_a_card_with_measurements():
    command = [sys.executable, "-m", "fhejax.bootstrapping", "T", "--profile", "--repeats", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "T: N=2^11" in done.stdout and "this machine, now" in done.stdout and "doublings" in done.stdout
    assert float(re.search(r"bits, random +([\d.]+) mean", done.stdout)[1]) > 25
    assert "evaluation keys: 100%" in done.stderr and "bootstrapping: 100%" in done.stderr
