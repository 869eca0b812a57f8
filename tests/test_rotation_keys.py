"""The choice of rotation keys within a limit: every rotation is composed of them, of as few as can be."""

import itertools

import pytest
from hypothesis import given, settings, strategies as st

import fhejax as fhe
from fhejax.operations.rotations import find_path
from fhejax.planning.rotation_keys import Rotation, choose_steps, paths, smallest_steps

SLOTS = 32

ROTATIONS = st.builds(
    Rotation,
    st.integers(1, SLOTS - 1),
    st.integers(1, 3),
    st.just(SLOTS),
    st.integers(1, 5),
)


@settings(deadline=None, max_examples=30)
@given(st.lists(ROTATIONS, min_size=1, max_size=12, unique_by=lambda each: each[:2]), st.integers(1, 6))
def test_any_choice_composes_all_rotations_within_the_limit(rotations, number):
    size = lambda level: level + 2
    limit = number * size(2)
    least = smallest_steps(rotations, {}, SLOTS)
    if sum(map(size, least.values())) > limit:
        return
    chosen = choose_steps(rotations, {}, size, limit, SLOTS)
    assert sum(map(size, chosen.values())) <= limit
    cost = lambda steps: sum(each.count * len(path) for each, path in paths(rotations, steps))
    assert cost(chosen) <= cost(least)
    for each, path in paths(rotations, chosen):
        assert sum(path) % SLOTS == each.step and all(chosen[step] >= each.level for step in path)
        assert len(path) == len(find_path(each.step, tuple(s for s in chosen if chosen[s] >= each.level), SLOTS))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("steps", [range(1, 16), range(2, 16, 2), (1, 4, 5, 9, 13)], ids=str)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_choice_is_the_best_where_it_can_be_tried(steps, number):
    rotations = [Rotation(step, 0, SLOTS, 1) for step in steps]
    cost = lambda steps: sum(len(path) for _, path in paths(rotations, dict.fromkeys(steps, 0)))
    costs = []
    for some in itertools.combinations(range(1, SLOTS), number):
        try:
            costs.append(cost(some))
        except fhe.MissingKeyError:
            pass
    assert cost(choose_steps(rotations, {}, lambda level: 1, number, SLOTS)) == min(costs)


def test_fewer_key_switches_than_by_powers_of_two():
    rotations = [Rotation(step, 0, 4096, 1) for step in range(1, 64)]
    cost = lambda steps: sum(len(path) for _, path in paths(rotations, steps))
    by_powers = cost(dict.fromkeys((1, 2, 4, 8, 16, 32), 0))
    assert by_powers == 192 and cost(choose_steps(rotations, {}, lambda level: 1, 6, 4096)) < 0.9 * by_powers
