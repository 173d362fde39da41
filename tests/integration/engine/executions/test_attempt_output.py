"""Output that is stored while an attempt runs: under its fence, once, and before its end."""

from __future__ import annotations

from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.executions.attempt_output import AttemptOutput
from functory.engine.executions.claims import Claim
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def line(seq: int, text: str = "hello") -> dict[str, Any]:
    return {"seq": seq, "stream": "stdout", "level": "info", "text": text, "offset_seconds": 0.1 * seq}


def span(seq: int) -> dict[str, Any]:
    return {
        "seq": seq, "parent_seq": None, "function": "part", "version": 1, "input": {}, "output": 1, "error": None,
        "offset_seconds": 0.0, "duration_seconds": 0.1,
    }  # fmt: skip


def key(claim: Claim) -> tuple[str, int]:
    return claim.id, claim.fence


def running(world: World) -> Claim:
    world.function("work")
    return world.claim(world.start())


def stored(world: World, claim: Claim) -> list[int]:
    return [row["seq"] for row in world.rows(schema.log, schema.log.c.execution_id == claim.id)]


def test_output_of_a_running_attempt_is_readable_before_its_end(world: World) -> None:
    claim = running(world)
    owned = world.worker.store_output([AttemptOutput(key(claim), [line(1), line(2)], [span(3)])])
    assert owned == {key(claim)}
    assert [row["text"] for row in world.executions.logs(claim.id)] == ["hello", "hello"]
    assert [row["seq"] for row in world.executions.spans(claim.id)] == [3]


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_the_end_stores_the_rest_behind_it(world: World, outcome: str) -> None:
    claim = running(world)
    world.worker.store_output([AttemptOutput(key(claim), [line(1), line(2)], [span(1)])])
    world.finish(claim, outcome, logs=[line(3)], spans=[span(2)])
    assert stored(world, claim) == [1, 2, 3]
    assert len(world.executions.spans(claim.id)) == 2


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_a_commit_whose_outcome_was_unknown_gives_no_line_twice_and_loses_none(
    world: World, outcome: str
) -> None:
    claim = running(world)
    world.worker.store_output([AttemptOutput(key(claim), [line(1), line(2)], [span(1)])])
    # The worker does not know that they are stored, and sends them again: meanwhile, and with the end.
    again = AttemptOutput(key(claim), [line(1), line(2), line(3)], [span(1)], repeated=True)
    assert world.worker.store_output([again]) == {key(claim)}
    world.finish(claim, outcome, logs=[line(2), line(3), line(4)], spans=[span(1)], output_repeated=True)
    assert stored(world, claim) == [1, 2, 3, 4]


def test_an_attempt_that_lost_its_execution_stores_nothing_and_the_others_do(world: World) -> None:
    world.function("work")
    lost, kept = world.claim(world.start()), world.claim(world.start())
    world.worker.release([key(lost)])
    again = world.claim({"id": lost.id}, world.attempts("another"))
    owned = world.worker.store_output(
        [AttemptOutput(key(lost), [line(1)]), AttemptOutput(key(kept), [line(1)])]
    )
    assert owned == {key(kept)}
    assert (stored(world, lost), stored(world, kept)) == ([], [1])
    world.worker.store_output([AttemptOutput(key(again), [line(1)])])
    assert [row["fence"] for row in world.executions.logs(lost.id)] == [again.fence]


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_an_attempt_that_has_ended_stores_nothing_more(world: World, outcome: str) -> None:
    claim = running(world)
    world.finish(claim, outcome, retryable=False)
    assert world.worker.store_output([AttemptOutput(key(claim), [line(1)])]) == set()
    assert stored(world, claim) == []


def test_readers_are_woken_by_the_topic_of_lines_alone(world: World) -> None:
    claim = running(world)
    wakeup = world.database.wakeup
    logs, finished = wakeup.generation("logs"), wakeup.generation("finished", "executions", "events")
    world.worker.store_output([AttemptOutput(key(claim), [line(1)])])
    assert wakeup.generation("logs") > logs
    assert wakeup.generation("finished", "executions", "events") == finished


def test_a_result_without_live_output_takes_as_many_statements_as_before(world: World) -> None:
    claim = running(world)
    with world.statements() as sent:
        world.finish(claim, logs=[line(1)])
    assert sum("log" in one and "INSERT" in one.upper() for one in sent) == 1
    assert not any("span" in one for one in sent)
