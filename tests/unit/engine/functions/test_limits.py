"""Limits of a function: read with their bounds; the pause before the next try."""

import pytest

from functory.engine.errors import Invalid
from functory.engine.executions import retry_or_dead
from functory.engine.functions import limits
from functory.engine.functions.limits import Limits


def test_nothing_declared_gives_the_defaults():
    assert limits.parse(None) == limits.parse({}) == Limits()
    assert limits.parse({"timeout": 5}) == Limits(timeout=5)
    assert limits.parse(Limits().as_json()) == Limits()


@pytest.mark.parametrize(
    "given",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"timeout": "5"},
        {"timeout": None},
        {"timeout": True},
        {"retries": 1.5},
        {"retries": -1},
        {"retries": 101},
        {"max_attempts": 0},
        {"expires": 0},
        {"priority": 101},
        {"result_bytes": 0},
        {"result_bytes": 10**9},
        {"speed": 1},
        {"retry_on": "ConnectionError"},
        {"retry_on": [KeyError]},
        {"final_on": [""]},
        {"final_on": ["a b"]},
        {"final_on": ["a..b"]},
        {"final_on": ["a:b"]},
        {"final_on": ["*"]},
        {"final_on": ["x" * 200]},
        {"final_on": ["E"] * 51},
        {"final_on": None},
        {1: 2},
        [1],
        "timeout",
        5,
    ],
)
def test_a_wrong_limit_is_refused(given):
    with pytest.raises(Invalid, match="limit"):
        limits.parse(given)


def test_errors_are_named_by_their_classes():
    found = limits.parse({"retry_on": ["OSError", "requests.HTTPError"], "final_on": ("KeyError",)})
    assert (found.retry_on, found.final_on) == (("OSError", "requests.HTTPError"), ("KeyError",))
    assert limits.parse(found.as_json()) == found


def test_an_error_cannot_be_retried_and_final():
    with pytest.raises(Invalid, match="retry_on and final_on both name KeyError"):
        limits.parse({"retry_on": ["KeyError"], "final_on": ["KeyError"]})


def test_a_wrong_limit_tells_its_bounds():
    with pytest.raises(Invalid, match="wrong limit retries=101\nit takes a whole number from 0 to 100"):
        limits.parse({"retries": 101})


@pytest.mark.parametrize(
    ("given", "attempts"),
    [({}, 3), ({"retries": 1}, 3), ({"retries": 5}, 6), ({"retries": 5, "max_attempts": 2}, 2)],
)
def test_attempts_follow_from_retries_unless_they_are_declared(given, attempts):
    assert limits.parse(given).attempts() == attempts


def test_the_pause_doubles_up_to_its_cap_and_spreads_over_its_upper_half():
    limit = Limits(retry_delay=1, retry_max_delay=10)
    assert [retry_or_dead.backoff(limit, failures, 1.0) for failures in range(1, 7)] == [1, 2, 4, 8, 10, 10]
    assert [retry_or_dead.backoff(limit, failures, 0.0) for failures in range(1, 7)] == [0.5, 1, 2, 4, 5, 5]
    assert retry_or_dead.backoff(limit, 0, 1.0) == 1
    assert (
        retry_or_dead.backoff(
            Limits(retry_delay=86_400, retry_max_delay=86_400, max_attempts=1000), 1000, 1.0
        )
        == 86_400
    )
    assert retry_or_dead.backoff(Limits(retry_delay=0), 5, 1.0) == 0
