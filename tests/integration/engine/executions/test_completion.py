"""The state machine of executions, arrow by arrow, on both databases with a clock that tests advance."""

import threading
from typing import TYPE_CHECKING, Any

import pytest

from functory.engine.database import schema
from functory.engine.errors import Conflict, ExecutionFailed, Stale
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.executions.leases import MAX_RELEASES
from functory.engine.executions.outcomes import result_or_raise
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.engine.maintenance import lost_workers

if TYPE_CHECKING:
    pass
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


def test_one_of_two_workers_gets_an_execution(ready):
    row = ready.start()
    workers = [ready.attempts(name) for name in ("one", "two")]
    assert [len(worker.claim([row["id"]])) for worker in workers] == [1, 0]


def test_of_many_workers_at_the_same_moment_one_gets_each_execution(ready):
    rows = [ready.start()["id"] for _ in range(20)]
    barrier, got = threading.Barrier(4), []

    def race(name: str) -> None:
        worker = ready.attempts(name)
        barrier.wait()
        for id_ in rows:
            got.extend((claim.id, name) for claim in worker.claim([id_]))

    threads = [threading.Thread(target=race, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(id_ for id_, _ in got) == sorted(rows)
    check(ready)


def test_a_message_with_anything_but_ids_of_queued_executions_claims_nothing(ready):
    early = ready.start(delay=60)["id"]
    done = ready.start()
    ready.finish(ready.claim(done))
    strange: list[Any] = ["nonsense", "", None, 7, "0" * 32, "\x00", early, done["id"]]
    assert ready.worker.claim(strange) == []
    assert ready.worker.claim([]) == []


def test_ids_in_any_spelling_claim_in_the_order_of_the_message(ready):
    rows = [ready.start()["id"] for _ in range(3)]
    spelled = [rows[2].upper(), rows[0].replace("-", ""), rows[1]]
    assert [claim.id for claim in ready.worker.claim(spelled)] == [rows[2], rows[0], rows[1]]


@pytest.mark.parametrize("takeover", ["lost", "cancelled", "finished"])
def test_a_zombie_can_write_nothing(ready, takeover):
    row = ready.start()
    zombie = ready.claim(row)
    if takeover == "lost":
        ready.advance(LEASE + 1)
        assert lost_workers.reap(ready.database, cancel_grace=LEASE)["lost"] == 1
        ready.claim(row, ready.attempts("other"))
    elif takeover == "cancelled":
        ready.executions.cancel(row["id"])
        ready.advance(LEASE + 1)
        assert lost_workers.reap(ready.database, cancel_grace=LEASE)["cancelled"] == 1
    else:
        ready.finish(zombie, result="first")
    before = ready.executions.get(row["id"]), ready.types(), ready.rows(schema.state), ready.executions.list()
    assert ready.worker.heartbeat([(zombie.id, zombie.fence)]).lost == {(zombie.id, zombie.fence)}
    assert ready.worker.lease_status([(zombie.id, zombie.fence)]).lost == {(zombie.id, zombie.fence)}
    assert ready.worker.release([(zombie.id, zombie.fence)]) == 0
    writes = [
        lambda: ready.finish(zombie, result="zombie"),
        lambda: ready.events.emit("order.created", cause=zombie.cause),
        lambda: ready.state.set("work", "key", 1, cause=zombie.cause),
        lambda: ready.state.delete("work", "key", cause=zombie.cause),
        lambda: ready.executions.start("work", {}, parent=zombie.cause),
        lambda: ready.functions.update("work", metadata={"by": "zombie"}, cause=zombie.cause),
        lambda: ready.functions.activate("work", 1, cause=zombie.cause),
        lambda: ready.triggers.save("t", {"function": "work"}, cause=zombie.cause),
    ]
    for write in writes:
        with pytest.raises(Stale):
            write()
    assert (
        ready.executions.get(row["id"]),
        ready.types(),
        ready.rows(schema.state),
        ready.executions.list(),
    ) == before
    check(ready)


def test_a_worker_that_claims_its_own_lost_execution_again_keeps_the_new_attempt_alone(ready):
    row = ready.start()
    zombie = ready.claim(row)
    ready.advance(LEASE + 1)
    lost_workers.reap(ready.database, cancel_grace=LEASE)
    again = ready.claim(row)
    old, new = (zombie.id, zombie.fence), (again.id, again.fence)
    # Whichever of the two is named last: one is to be killed, and the other is not.
    for held in ([old, new], [new, old]):
        for pulse in (ready.worker.heartbeat(held), ready.worker.lease_status(held)):
            assert pulse.lost == {old}
    ready.executions.cancel(row["id"])
    assert ready.worker.heartbeat([old, new]).cancel_requested == {new}


def test_a_heartbeat_extends_the_lease(ready):
    claim = ready.claim(ready.start())
    for _ in range(5):
        ready.advance(LEASE - 1)
        pulse = ready.worker.heartbeat([(claim.id, claim.fence)])
        assert (pulse.lost, pulse.cancel_requested) == (set(), set())
        assert lost_workers.reap(ready.database, cancel_grace=LEASE)["lost"] == 0
    ready.finish(claim)
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


def test_a_released_attempt_does_not_count_but_only_so_often(ready):
    row = ready.start()
    for _ in range(MAX_RELEASES):
        claim = ready.claim(row)
        assert ready.worker.release([(claim.id, claim.fence)]) == 1
    assert ready.executions.get(row["id"])["attempt"] == 0
    claim = ready.claim(row)
    assert ready.worker.release([(claim.id, claim.fence)]) == 0
    assert ready.executions.get(row["id"])["state"] == "running"
    check(ready)


def test_what_never_began_may_be_released_without_end(ready):
    row = ready.start()
    for _ in range(MAX_RELEASES + 5):
        claim = ready.claim(row)
        assert ready.worker.release([(claim.id, claim.fence)], started=False) == 1
    assert ready.executions.get(row["id"])["released"] == 0
    check(ready)


def test_a_queued_execution_is_cancelled_at_once(ready):
    row = ready.start()
    assert ready.executions.cancel(row["id"], author="ada")["state"] == "cancelled"
    assert ready.worker.claim([row["id"]]) == []
    with pytest.raises(Conflict, match="is cancelled"):
        ready.executions.cancel(row["id"])
    check(ready)


def test_a_running_execution_is_cancelled_by_its_worker(ready):
    row = ready.start()
    claim = ready.claim(row)
    assert ready.executions.cancel(row["id"])["state"] == "running"
    assert ready.worker.lease_status([(claim.id, claim.fence)]).cancel_requested == {(claim.id, claim.fence)}
    assert ready.worker.heartbeat([(claim.id, claim.fence)]).cancel_requested == {(claim.id, claim.fence)}
    assert ready.finish(claim, "cancelled").state == "cancelled"
    check(ready)


def test_a_cancel_that_comes_before_a_retry_ends_the_execution(ready):
    row = ready.start()
    claim = ready.claim(row)
    ready.executions.cancel(row["id"])
    assert ready.finish(claim, "failed").state == "cancelled"
    check(ready)


def test_a_cancel_that_comes_too_late_leaves_the_result(ready):
    row = ready.start()
    claim = ready.claim(row)
    ready.executions.cancel(row["id"])
    assert ready.finish(claim, result=1).state == "succeeded"
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
