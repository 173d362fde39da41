"""What waits for facts in the tests."""

import pytest

from tests.support.waiting import stays, wait_for


def test_a_fact_that_comes_true_is_returned() -> None:
    values = iter([0, None, [], 7])
    assert wait_for(lambda: next(values), "a number") == 7


def test_a_fact_that_never_comes_true_fails_with_what_it_is() -> None:
    with pytest.raises(AssertionError, match=r"not within [0-9.]+ s: the number"):
        wait_for(lambda: 0, "the number", seconds=0.02)
    with pytest.raises(AssertionError, match="1 > 2"):
        wait_for(lambda: 1 > 2, seconds=0.0)


def test_an_absence_is_seen_to_end() -> None:
    stays(lambda: True, 0.02)
    values = iter([True, True, False])
    with pytest.raises(AssertionError, match="next"):
        stays(lambda: next(values), 5)
