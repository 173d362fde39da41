"""The results of many attempts are stored in one transaction, and none takes another one with it."""

import pytest

from functory.engine.database import schema
from functory.engine.errors import Invalid, Stale, Unavailable
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.engine.maintenance import lost_workers
from tests.support.fault_injection import Faults
from tests.support.world import LEASE

pytest_plugins = ["tests.support.world"]


def claims_of(world, count, **declared):
    world.function(**declared)
    return world.worker.claim([world.start()["id"] for _ in range(count)])


def success(n=0, **fields):
    return AttemptResult("succeeded", result=n, duration_seconds=0.1 + n / 7, waited_seconds=0.2, **fields)


def failure(**fields):
    error = {"type": "ValueError", "message": "no"}
    return AttemptResult("failed", error=error, duration_seconds=0.5, **fields)


def states(world, claims):
    return [world.executions.get(claim.id)["state"] for claim in claims]


def test_each_success_gets_its_own_result_its_attempt_and_its_event(world):
    claims = claims_of(world, 70)
    done = world.worker.finish_many([(claim, success(n)) for n, claim in enumerate(claims)])
    assert [ending.state for ending in done] == ["succeeded"] * 70
    rows = [world.executions.get(claim.id) for claim in claims]
    assert [row["result"] for row in rows] == list(range(70))
    assert {(row["state"], row["result_kind"], row["lease_until"], row["error"]) for row in rows} == {
        ("succeeded", "json", None, None)
    }
    attempts = {row["execution_id"]: row for row in world.rows(schema.attempt)}
    assert [attempts[claim.id]["duration_seconds"] for claim in claims] == [0.1 + n / 7 for n in range(70)]
    assert {(row["outcome"], row["waited_seconds"]) for row in attempts.values()} == {("succeeded", 0.2)}
    ends = [row for row in world.rows(schema.event) if row["type"] == "execution.succeeded"]
    assert {row["cause_execution_id"]: row["data"]["output"] for row in ends} == {
        claim.id: n for n, claim in enumerate(claims)
    }


def test_no_results_cost_nothing(world):
    assert world.worker.finish_many([]) == []


def test_one_result_and_all_the_results_of_a_group_write_the_same_rows(world):
    def written(claim):
        changing = ("id", "execution_id", "time", "cause_execution_id", "root_id", "source", "created_at")
        tables = (schema.execution, schema.attempt, schema.span, schema.log, schema.event)
        rows = {
            table.name: [
                row
                for row in world.rows(table)
                if claim.id
                in (
                    row.get("execution_id"),
                    row.get("id"),
                    row.get("cause_execution_id"),
                )
            ]
            for table in tables
        }
        return {
            name: [
                {
                    key: value
                    for key, value in row.items()
                    if key not in changing and not (key == "data" and value.pop("execution_id"))
                }
                for row in found
            ]
            for name, found in rows.items()
        }

    line = {"seq": 0, "stream": "stdout", "level": "info", "text": "hello", "offset_seconds": 0.5}
    call = {"seq": 0, "function": "work", "version": 1, "offset_seconds": 0.0, "input": {}, "output": 1}
    told = {"warnings": ["careful"], "logs": [line], "spans": [call]}
    alone, first, second = claims_of(world, 3, output_patterns={"any": {"ok": [True]}})
    result = AttemptResult("succeeded", result={"ok": True}, duration_seconds=0.25, **told)
    world.worker.finish(alone, result)
    world.worker.finish_many([(first, result), (second, result)])
    assert written(alone) == written(first) == written(second)
    assert [row["text"] for row in world.rows(schema.log)] == ["hello"] * 3
    assert world.types("output.") == ["output.matched"] * 3


def test_a_zombie_among_them_is_refused_and_the_others_are_stored(world):
    first, zombie, last = claims_of(world, 3)
    world.advance(LEASE - 1)
    world.worker.heartbeat([(first.id, first.fence), (last.id, last.fence)])
    world.advance(2)
    assert lost_workers.reap(world.database, cancel_grace=LEASE)["lost"] == 1
    world.advance(60)
    (second,) = world.attempts("other").claim([zombie.id])
    done = world.worker.finish_many([(first, success(1)), (zombie, success(2)), (last, success(3))])
    assert isinstance(done[1], Stale)
    assert states(world, [first, zombie, last]) == ["succeeded", "running", "succeeded"]
    assert world.executions.get(zombie.id)["fence"] == second.fence
    assert [row["outcome"] for row in world.rows(schema.attempt)].count("succeeded") == 2
    assert world.types("execution.succeeded") == ["execution.succeeded"] * 2


def test_only_the_attempt_that_owns_the_execution_finishes_it(world):
    (old,) = claims_of(world, 1)
    world.worker.release([(old.id, old.fence)])
    (new,) = world.worker.claim([old.id])
    done = world.worker.finish_many([(old, success(1)), (new, success(2))])
    assert isinstance(done[0], Stale)
    assert world.executions.get(old.id)["result"] == 2
    outcomes = {row["fence"]: row["outcome"] for row in world.rows(schema.attempt)}
    assert outcomes == {old.fence: "released", new.fence: "succeeded"}


def test_every_kind_of_ending_has_its_place_in_a_group(world):
    claims = claims_of(world, 4, limits={"retries": 1, "max_attempts": 2})
    done = world.worker.finish_many(
        [
            (claims[0], success(1)),
            (claims[1], failure()),
            (claims[2], failure(retryable=False)),
            (claims[3], AttemptResult("cancelled", error={"type": "Cancelled", "message": "stop"})),
        ]
    )
    assert [ending.state for ending in done] == ["succeeded", "queued", "failed", "cancelled"]
    assert states(world, claims) == ["succeeded", "queued", "failed", "cancelled"]


@pytest.mark.parametrize("bad", ["success", "failure"])
def test_a_result_that_cannot_be_stored_does_not_take_the_others_with_it(world, bad):
    claims = claims_of(world, 3)
    # A number beyond 64 bits.
    line = {"seq": 2**70, "stream": "stdout", "level": "info", "text": "", "offset_seconds": 0.5}
    wrong = success(2, logs=[line]) if bad == "success" else failure(logs=[line])
    done = world.worker.finish_many([(claims[0], success(1)), (claims[1], wrong), (claims[2], failure())])
    assert isinstance(done[1], Invalid)
    assert states(world, claims) == ["succeeded", "running", "failed"]
    assert world.types("execution.succeeded") == ["execution.succeeded"]
    assert world.rows(schema.log) == []


@pytest.mark.parametrize("kind", ["committed", "uncommitted"])
def test_a_group_whose_commit_outcome_is_unknown_is_stored_once(world, kind):
    claims = claims_of(world, 5, limits={"retries": 1, "retry_delay": 1})
    results = [(claim, failure() if n == 2 else success(n)) for n, claim in enumerate(claims)]
    with Faults(world.database) as faults:
        faults.once(kind, "UPDATE execution")
        with pytest.raises(Unavailable):
            world.worker.finish_many(results)
        done = world.worker.finish_many(results)
    assert [ending.state for ending in done] == ["succeeded"] * 2 + ["queued"] + ["succeeded"] * 2
    assert [world.executions.get(claim.id)["result"] for claim in claims] == [0, 1, None, 3, 4]
    assert world.types("execution.succeeded") == ["execution.succeeded"] * 4
    assert world.types("execution.attempt_failed") == ["execution.attempt_failed"]
    assert len(world.rows(schema.attempt)) == 5


def test_a_zombie_of_a_group_with_an_unknown_outcome_stays_one(world):
    mine, zombie = claims_of(world, 2)
    world.worker.release([(zombie.id, zombie.fence)])
    results = [(mine, success(1)), (zombie, success(2))]
    with Faults(world.database) as faults, pytest.raises(Unavailable):
        faults.once("committed", "UPDATE execution")
        world.worker.finish_many(results)
    done = world.worker.finish_many(results)
    assert not isinstance(done[0], Exception) and done[0].state == "succeeded"
    assert isinstance(done[1], Stale)
