"""When a model may be asked: breaker, rates, slots."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from functory.engine.agents import model_admission
from functory.engine.agents.model_admission import FAILURES_TO_OPEN, OPEN_SECONDS, Admission, Health

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def model(**changes: Any) -> dict[str, Any]:
    return {
        "name": "m",
        "state": "enabled",
        "slots": 8,
        "calls_per_minute": None,
        "tokens_per_minute": None,
    } | changes


def failing(health: Health, times: int, now: datetime = NOW) -> Health:
    for number in range(times):
        health = model_admission.failed(health, f"c{number}", "status 500", now)
    return health


def test_slots_are_counted_over_all_gateways() -> None:
    admission = Admission(model(slots=3), Health(), 2, NOW)
    assert admission.free() == 1
    admission.take("a", 10)
    assert admission.free() == 0
    assert admission.until_free() is None, "only the end of another call helps"


def test_a_rate_lets_a_minutes_worth_go_at_once_and_then_one_each_interval() -> None:
    admission = Admission(model(slots=100, calls_per_minute=6), Health(), 0, NOW)
    gone = 0
    while admission.wait(0) == timedelta():
        admission.take(f"c{gone}", 0)
        gone += 1
    assert gone == 6
    assert admission.wait(0) == timedelta(seconds=10)
    later = Admission(admission.model, admission.health, 0, NOW + timedelta(seconds=10))
    assert later.wait(0) == timedelta()


def test_tokens_of_a_minute_are_a_rate_too_and_one_large_call_is_let_through() -> None:
    admission = Admission(model(tokens_per_minute=1000), Health(), 0, NOW)
    assert admission.wait(5000) == timedelta()
    admission.take("a", 5000)
    assert admission.wait(1) > timedelta(minutes=4) - timedelta(seconds=1)


def test_failures_in_a_row_open_the_breaker_for_a_time() -> None:
    health = failing(Health(), FAILURES_TO_OPEN - 1)
    assert not model_admission.is_open(health, NOW)
    health = failing(health, 1)
    assert model_admission.is_open(health, NOW)
    assert Admission(model(), health, 0, NOW).free() == 0
    assert Admission(model(), health, 0, NOW).until_free() == timedelta(seconds=OPEN_SECONDS)


def test_an_answer_between_failures_starts_the_count_again() -> None:
    health = failing(Health(), FAILURES_TO_OPEN - 1)
    health = failing(model_admission.answered(health, "x"), FAILURES_TO_OPEN - 1)
    assert not model_admission.is_open(health, NOW)


def test_after_the_time_one_call_tries_and_no_second() -> None:
    health = failing(Health(), FAILURES_TO_OPEN)
    later = NOW + timedelta(seconds=OPEN_SECONDS)
    admission = Admission(model(), health, 0, later)
    assert admission.free() == 1
    admission.take("trial", 0)
    assert admission.free() == 0
    assert model_admission.answered(admission.health, "trial") == Health()


def test_a_trial_that_fails_opens_the_breaker_for_twice_the_time() -> None:
    health = failing(Health(), FAILURES_TO_OPEN)
    later = NOW + timedelta(seconds=OPEN_SECONDS)
    admission = Admission(model(), health, 0, later)
    admission.take("trial", 0)
    health = model_admission.failed(admission.health, "trial", "status 500", later)
    assert health.open_until == later + timedelta(seconds=2 * OPEN_SECONDS)
    assert health.trial_call_id is None


def test_late_answers_and_failures_of_before_do_not_move_an_open_breaker() -> None:
    health = failing(Health(), FAILURES_TO_OPEN)
    assert model_admission.answered(health, "early") == health
    assert failing(health, 1).open_until == health.open_until


def test_a_trial_that_ends_without_a_word_lets_another_one_try() -> None:
    health = failing(Health(), FAILURES_TO_OPEN)
    later = NOW + timedelta(seconds=OPEN_SECONDS)
    admission = Admission(model(), health, 0, later)
    admission.take("trial", 0)
    assert Admission(model(), model_admission.without_trial(admission.health, "trial"), 0, later).free() == 1
