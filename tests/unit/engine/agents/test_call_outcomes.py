"""What follows the sending of a call."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functory.engine.agents import call_outcomes
from functory.engine.agents.call_outcomes import MAX_TRIES, Answer, Failure, Usage

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REPAIR = [{"role": "assistant", "content": "?"}, {"role": "user", "content": "again"}]


def call(**changes: Any) -> dict[str, Any]:
    return {"asked": "small", "model_tries": 1, "repair": None} | changes


def after(outcome: Any, fallbacks: tuple[str, ...] = (), **changes: Any) -> call_outcomes.Next:
    return call_outcomes.next_of(call(**changes), fallbacks, outcome, NOW, 1.0)


def test_an_answer_ends_it() -> None:
    assert after(Answer({"text": "ok"}, Usage(1, 1))).state == "succeeded"


def test_an_answer_that_does_not_fit_is_repaired_once() -> None:
    wrong = Answer({"text": "?"}, Usage(1, 1), repair=REPAIR, problem="it is not JSON")
    following = after(wrong)
    assert (following.state, following.due_at, following.repair) == ("queued", NOW, REPAIR)
    assert after(wrong, repair=REPAIR).state == "failed"


def test_what_may_have_been_answered_is_unknown_and_never_sent_again() -> None:
    assert after(Failure("lost", "timeout"), ("large",)).state == "unknown"


def test_a_wrong_request_is_not_sent_again_and_asks_no_fallback() -> None:
    assert after(Failure("final", "status 400", 400), ("large",)).state == "failed"


def test_a_provider_that_asks_for_patience_gets_it_up_to_a_minute() -> None:
    assert after(Failure("retry", "429", 429, 7.5)).due_at == NOW + timedelta(seconds=7.5)
    assert after(Failure("retry", "429", 429, 600)).state == "failed"
    assert after(Failure("retry", "429", 429, 600), ("large",)).model == "large"


def test_tries_are_spaced_and_bounded_and_then_the_fallback_is_asked() -> None:
    first = after(Failure("retry", "500", 500))
    second = after(Failure("retry", "500", 500), model_tries=2)
    assert first.due_at and second.due_at and NOW < first.due_at < second.due_at
    last = after(Failure("retry", "500", 500), ("large", "third"), model_tries=MAX_TRIES)
    assert (last.state, last.model, last.due_at, last.same_model) == ("queued", "large", NOW, False)
    assert after(Failure("retry", "500", 500), model_tries=MAX_TRIES).state == "failed"


@pytest.mark.parametrize(("asked", "left"), [("a", ["b", "c"]), ("b", ["c"]), ("c", []), ("removed", [])])
def test_fallbacks_are_those_after_the_model_that_was_asked(asked: str, left: list[str]) -> None:
    assert call_outcomes.following({"name": "a", "fallbacks": ["b", "c"]}, asked) == left
