"""Progress detectors: loops are found, and work and polling are let alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from functory.engine.agents.progress import Finding, Step, burn, error_of, hash_of, look


def history(*parts: tuple[Any, ...]) -> list[Step]:
    """Steps of (asked, result) pairs, with ``plan`` and ``paused`` perhaps: each result is given to the next step."""
    found = []
    given: Any = None
    for number, (asked, result, *more) in enumerate(parts, 1):
        options = more[0] if more else {}
        found.append(
            Step(
                number,
                hash_of(given),
                hash_of(asked),
                hash_of(options.get("plan")),
                error_of(given),
                options.get("paused", False),
            )
        )
        given = result
    plan = parts[-1][2].get("plan") if parts and len(parts[-1]) > 2 else None
    found.append(Step(len(parts) + 1, hash_of(given), None, hash_of(plan), error_of(given)))
    return found


def seen(*parts: tuple[Any, ...]) -> tuple[str, bool] | None:
    found = look(history(*parts))
    return None if found is None else (found.detector, found.stops)


def until_stop(parts: Sequence[tuple[Any, ...]]) -> tuple[int, Finding] | None:
    """The number of steps after which a run of these is stopped, and why."""
    for count in range(1, len(parts) + 1):
        found = look(history(*parts[:count]))
        if found is not None and found.stops:
            return count, found
    return None


FAILED = {"kind": "tools", "results": [{"ok": False, "error": {"type": "E", "message": "no file 17"}}]}


def test_the_same_call_with_the_same_result_is_told_and_then_stopped() -> None:
    assert seen(("a", 1), ("a", 1)) is None
    assert seen(("a", 1), ("a", 1), ("a", 1)) == ("identical_call", False)
    assert seen(*[("a", 1)] * 4) == ("identical_call", True)
    assert seen(("a", 1), ("b", 2), ("a", 1), ("c", 3), ("a", 1)) == ("identical_call", False)


def test_two_calls_in_turn_are_a_loop() -> None:
    assert seen(*[("a", 1), ("b", 2)] * 2) is None
    found = until_stop([("a", 1), ("b", 2)] * 10)
    assert found is not None and found[0] <= 8


def test_the_same_error_is_a_loop_whatever_was_asked() -> None:
    parts = [(f"ask {number}", FAILED) for number in range(10)]
    assert seen(*parts[:2]) is None
    assert seen(*parts[:3]) == ("repeated_error", False)
    found = until_stop(parts)
    assert found is not None
    assert (found[0], found[1].reason, found[1].detector) == (5, "loop", "repeated_error")


def test_errors_are_told_apart_by_their_words_and_not_by_their_numbers() -> None:
    def with_message(text: str) -> Any:
        return {"kind": "problem", "error": {"type": "E", "message": text}}

    assert error_of(with_message("line 3 of 0xff")) == error_of(with_message("line 4 of 0xfe"))
    assert error_of(with_message("no file")) != error_of(with_message("no room"))
    assert error_of({"kind": "model", "text": "x"}) is None
    one_is_good = {"kind": "tools", "results": [*FAILED["results"], {"ok": True, "value": 1}]}
    assert error_of(one_is_good) is None


def test_steps_that_bring_nothing_new_are_no_progress() -> None:
    # Each request is another one, and the results are old ones.
    parts = [(f"ask {number}", number % 3) for number in range(20)]
    found = until_stop(parts)
    assert found is not None
    assert (found[1].detector, found[1].reason) == ("no_new_result", "no_progress")
    assert found[0] == 15


def test_a_plan_that_stays_is_no_progress_without_new_results() -> None:
    parts = [(f"ask {number}", number // 4, {"plan": ["a", "b"]}) for number in range(20)]
    found = look(history(*parts))
    assert found is not None
    moving = [(f"ask {number}", number // 4, {"plan": [number]}) for number in range(20)]
    assert until_stop(moving) is None


def test_ids_and_costs_are_no_difference() -> None:
    one = {"kind": "model", "text": "x", "call_id": "1", "cost_usd": 1.0, "usage": {"tokens_in": 1}}
    other = {"kind": "model", "text": "x", "call_id": "2", "cost_usd": 2.0, "usage": {"tokens_in": 9}}
    assert hash_of(one) == hash_of(other)
    assert hash_of(one) != hash_of({**other, "text": "y"})


@pytest.mark.parametrize("seed", range(50))
def test_fifty_pollers_are_let_alone(seed: int) -> None:
    draw = random.Random(seed)
    looks = draw.randint(20, 60)
    waits = seed % 2 == 0
    parts: list[tuple[Any, ...]] = []
    for number in range(looks):
        if waits:
            # The same answer each time, with a pause between two looks.
            parts += [("look", "not yet"), ("wait", None, {"paused": True})]
        else:
            # No pause, and an answer that changes: a percentage, a queue that shrinks, a clock.
            parts.append(("look", {"done": number, "of": looks}))
            parts += [("think", f"thought {number}")] * draw.randint(0, 1)
    assert until_stop(parts) is None


def test_ordinary_work_is_let_alone() -> None:
    parts = [(f"read {number}", f"page {number}", {"plan": ["read all"]}) for number in range(40)]
    assert until_stop(parts) is None


@pytest.mark.parametrize(
    ("used", "told"), [({"usd": 0.5}, False), ({"usd": 0.5, "steps": 0.9}, True), ({}, False)]
)
def test_a_limit_that_is_nearly_used_is_told(used: dict[str, float], told: bool) -> None:
    notice = burn(used)
    assert (notice is not None) == told
    assert notice is None or "steps" in notice
