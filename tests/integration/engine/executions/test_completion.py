"""The ends of attempts: what they store, and what follows, on both databases with a clock that tests advance."""

import pytest

from functory.engine.database import schema
from functory.engine.errors import ExecutionFailed
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.executions.outcomes import result_or_raise
from functory.engine.executions.retry_or_dead import AttemptResult
from tests.support.sending import send_due
from tests.support.state_rules import LEASE, check

pytest_plugins = ["tests.support.world"]


def test_a_success_stores_everything_in_one_step(ready):
    row = ready.start()
    claim = ready.claim(row)
    span = {
        "seq": 1,
        "parent_seq": None,
        "function": "parse",
        "version": 1,
        "input": {},
        "output": 1,
        "error": None,
        "offset_seconds": 0.0,
        "duration_seconds": 0.1,
    }
    log = {"seq": 1, "stream": "stdout", "level": "info", "text": "hi", "offset_seconds": 0.0}
    assert (
        ready.finish(claim, result={"a": 1}, spans=[span], logs=[log], duration_seconds=0.25).state
        == "succeeded"
    )
    after = ready.executions.get(row["id"])
    assert (after["state"], after["result"], after["attempt"], after["error"]) == (
        "succeeded",
        {"a": 1},
        1,
        None,
    )
    assert result_or_raise(after) == {"a": 1}
    assert ready.executions.attempts(row["id"])[0]["outcome"] == "succeeded"
    assert ready.executions.spans(row["id"])[0]["function"] == "parse"
    assert ready.executions.logs(row["id"])[0]["text"] == "hi"
    (event,) = ready.rows(schema.event, schema.event.c.type == "execution.succeeded")
    assert event["data"]["output"] == {"a": 1}
    assert (event["root_id"], event["cause_execution_id"], event["depth"]) == (row["id"], row["id"], 0)
    check(ready)


@pytest.mark.parametrize("outcome", ["failed", "timed_out"])
def test_a_failure_is_tried_again_after_a_growing_pause_and_ends_as_it_failed(ready, outcome):
    row, pauses = ready.start(), []
    for attempt in (1, 2, 3):
        claim = ready.claim(row)
        following = ready.finish(claim, outcome)
        if attempt < 3:
            assert following.state == "queued"
            pauses.append(following.delay)
            assert ready.worker.claim([row["id"]]) == []
            ready.advance(following.delay - 0.001)
            assert ready.worker.claim([row["id"]]) == []
            ready.advance(0.001)
    assert following.state == outcome
    # Half of the nominal pause is fixed, the other half is spread by the jitter.
    assert 5 <= pauses[0] <= 10 <= pauses[1] <= 20
    assert ready.types("execution.")[-1] == f"execution.{outcome}"
    assert ready.types("execution.attempt_failed") == ["execution.attempt_failed"] * 2
    with pytest.raises(ExecutionFailed, match="ValueError: no"):
        result_or_raise(ready.executions.get(row["id"]))
    check(ready)


def test_the_pause_is_the_same_for_the_same_seed_and_another_for_another(ready):
    def pauses(seed: int) -> list[float]:
        worker = ready.attempts("w", seed)
        (claim,) = worker.claim([ready.start()["id"]])
        return [worker.finish(claim, AttemptResult("failed", error={})).delay]

    assert pauses(1) == pauses(1) != pauses(2)


def test_what_cannot_get_better_is_not_tried_again(ready):
    row = ready.start()
    assert ready.finish(ready.claim(row), "failed", retryable=False).state == "failed"
    check(ready)


def test_an_execution_that_crashes_every_time_is_dead_after_its_last_attempt(ready):
    row = ready.start()
    states = []
    for _ in range(4):
        following = ready.finish(ready.claim(row), "crashed")
        states.append(following.state)
        ready.advance(following.delay)
    assert states == ["queued"] * 3 + ["dead"]
    check(ready)


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_no_execution_starts_before_it_was_created_or_ends_before_it_has_started(ready, outcome):
    """The clock of the worker is some milliseconds behind that of the process that started the execution."""
    ready.function("once", limits={"retries": 0})
    row = ready.start("once")
    sent: list[str] = []
    window = DispatchWindow()
    send_due(ready.database, sent.extend, redispatch=5, worker_ttl=LEASE, window=window)
    assert sent == [row["id"]]
    ready.advance(-0.003)
    ready.finish(ready.claim(row), outcome)
    after = ready.executions.get(row["id"])
    assert after["state"] == outcome
    assert after["created_at"] == after["started_at"] == after["finished_at"]
