"""A commit that was carried out and reported as failed: tried again, nothing is lost, doubled or reported wrong."""

import pytest
from sqlalchemy import event as hooks

from functory.engine.database import schema
from functory.engine.errors import Stale, Unavailable
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.engine.maintenance import lost_workers
from tests.support.fault_injection import Faults
from tests.support.world import LEASE

pytest_plugins = ["tests.support.world"]

UPDATE = "UPDATE execution"


def ended(outcome="succeeded", **fields):
    if outcome != "succeeded":
        fields.setdefault("error", {"type": "ValueError", "message": "no"})
    return AttemptResult(outcome, duration_seconds=0.123456789, waited_seconds=0.1, **fields)


def finish_unknown(world, claim, ending):
    with Faults(world.database) as faults, pytest.raises(Unavailable):
        faults.once("committed", UPDATE)
        world.worker.finish(claim, ending)


def test_a_result_whose_commit_was_reported_as_failed_is_stored_once_and_is_no_zombies(world):
    world.function()
    claim = world.claim(world.start())
    finish_unknown(world, claim, ended(result=7))
    assert world.worker.finish(claim, ended(result=7)).state == "succeeded"
    assert world.executions.get(claim.id)["result"] == 7
    assert world.types("execution.") == ["execution.started", "execution.succeeded"]
    assert [row["outcome"] for row in world.rows(schema.attempt)] == ["succeeded"]


def test_so_is_a_failure_that_is_retried_even_when_the_next_attempt_runs_already(world):
    world.function(limits={"retries": 2, "retry_delay": 1})
    claim = world.claim(world.start())
    finish_unknown(world, claim, ended("failed"))
    world.advance(10)
    (second,) = world.worker.claim([claim.id])
    assert world.worker.finish(claim, ended("failed")).state == "queued"
    assert world.executions.get(claim.id)["fence"] == second.fence
    assert world.finish(second).state == "succeeded"
    assert [row["outcome"] for row in world.rows(schema.attempt)] == ["failed", "succeeded"]


def test_a_result_whose_commit_did_not_happen_is_stored_by_the_second_try(world):
    world.function()
    claim = world.claim(world.start())
    with Faults(world.database) as faults, pytest.raises(Unavailable):
        faults.once("uncommitted", UPDATE)
        world.worker.finish(claim, ended(result=7))
    assert world.executions.get(claim.id)["state"] == "running"
    assert world.worker.finish(claim, ended(result=7)).state == "succeeded"
    assert world.types("execution.") == ["execution.started", "execution.succeeded"]


def test_another_ending_of_the_same_attempt_is_refused(world):
    world.function()
    claim = world.claim(world.start())
    finish_unknown(world, claim, ended(result=7))
    with pytest.raises(Stale):
        world.worker.finish(claim, AttemptResult("crashed", error={"type": "Defect", "message": ""}))


def test_a_zombie_stays_one(world):
    world.function(limits={"max_attempts": 2})
    claim = world.claim(world.start())
    world.advance(LEASE + 1)
    assert lost_workers.reap(world.database, cancel_grace=LEASE)["lost"] == 1
    for _ in range(2):
        with pytest.raises(Stale):
            world.worker.finish(claim, ended(result=7))


def test_what_the_reaper_cancelled_is_not_the_workers_cancel(world):
    world.function()
    claim = world.claim(world.start())
    world.executions.cancel(claim.id)
    world.advance(LEASE + 1)
    assert lost_workers.reap(world.database, cancel_grace=LEASE)["cancelled"] == 1
    with pytest.raises(Stale):
        world.worker.finish(claim, ended("cancelled"))


def test_an_emit_with_a_key_is_one_event(world):
    with Faults(world.database) as faults, pytest.raises(Unavailable):
        faults.once("committed", "INSERT INTO event")
        world.events.emit("tick", dedup_key="one")
    id_ = world.events.emit("tick", dedup_key="one")
    assert [row["id"] for row in world.rows(schema.event)] == [id_]
    assert [row["event_id"] for row in world.rows(schema.routing_queue)] == [id_]


def test_a_start_with_a_key_is_one_execution(world):
    world.function()
    with Faults(world.database) as faults, pytest.raises(Unavailable):
        faults.once("committed", "INSERT INTO execution")
        world.start(idempotency_key="one")
    row = world.start(idempotency_key="one")
    assert [found["id"] for found in world.rows(schema.execution)] == [row["id"]]


def test_a_batch_that_was_routed_after_all_is_routed_once(world):
    world.function()
    world.trigger("t", "work", {"type": ["tick"]})
    world.route()
    for _ in range(3):
        world.events.emit("tick")
    with Faults(world.database) as faults, pytest.raises(Unavailable):
        faults.once("committed", "INSERT INTO firing")
        world.router.route_batch()
    assert world.route() == []
    assert len(world.rows(schema.execution)) == len(world.rows(schema.firing)) == 3


def test_a_claim_that_no_worker_knew_of_is_released_without_counting(world):
    world.function(limits={"max_attempts": 1})
    row = world.start()
    with Faults(world.database) as faults, pytest.raises(Unavailable):
        faults.once("committed", UPDATE)
        world.worker.claim([row["id"]])
    assert world.executions.get(row["id"])["state"] == "running"
    assert world.worker.reconcile() == 1
    assert world.worker.reconcile() == 0
    found = world.executions.get(row["id"])
    assert (found["state"], found["attempt"], found["released"]) == ("queued", 0, 0)
    assert world.finish(world.claim(row)).state == "succeeded"


def test_a_claim_that_was_not_carried_out_leaves_another_workers_alone(world):
    world.function()
    row = world.start()
    with Faults(world.database) as faults, pytest.raises(Unavailable):
        faults.once("uncommitted", UPDATE)
        world.worker.claim([row["id"]])
    other = world.attempts("other")
    claim = world.claim(row, other)
    assert world.worker.reconcile() == 0
    assert other.finish(claim, ended()).state == "succeeded"


def test_a_claim_is_given_back_once_the_database_is_there_again(world):
    world.function()
    row = world.start()
    with Faults(world.database) as faults:
        faults.once("committed", UPDATE)
        with pytest.raises(Unavailable):
            world.worker.claim([row["id"]])
        faults.once("before", "SELECT attempt")
        with pytest.raises(Unavailable):
            world.worker.reconcile()
    assert world.worker.reconcile() == 1
    assert world.executions.get(row["id"])["state"] == "queued"


def test_the_error_says_that_the_outcome_is_unknown_and_only_then(world):
    for kind, uncertain in (("committed", True), ("uncommitted", True), ("before", False), ("lost", False)):
        with Faults(world.database) as faults, pytest.raises(Unavailable) as caught:
            faults.once(kind, "INSERT INTO event")
            # With a key the INSERT has an answer, and so it is not sent together with the commit.
            world.events.emit("tick", dedup_key=kind)
        assert ("it is not known whether" in str(caught.value)) == uncertain


def test_a_commit_that_failed_leaves_no_open_transaction_in_the_pool(world):
    def fail(_connection):
        raise KeyboardInterrupt

    hooks.listen(world.database.engine, "commit", fail)
    with pytest.raises(KeyboardInterrupt), world.database.write() as tx:
        tx.insert(schema.counter, [{"name": "lost", "value": 1}])
    hooks.remove(world.database.engine, "commit", fail)
    for _ in range(20):
        world.events.emit("tick")
    assert world.rows(schema.counter, schema.counter.c.name == "lost") == []
