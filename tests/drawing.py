"""How many examples hypothesis draws where XLA compiles something for each: all of them with the slow tests."""

from hypothesis import settings

everything = False  # conftest sets it before tests are imported


def some(count: int) -> settings:
    """Of so many a quarter, for the tests that come with every change."""
    return settings(deadline=None, max_examples=count if everything else count // 4)
