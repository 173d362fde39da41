"""The state machine of executions, arrow by arrow, on both databases with a clock that stands still."""

import threading
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from functory.engine.database import schema
from functory.engine.errors import Conflict, ExecutionFailed, Invalid, NotFound, Refused, Stale, WaitTimeout
from functory.engine.executions import dispatch
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.executions.leases import MAX_RELEASES
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.engine.executions.store import TERMINAL, result_or_raise
from functory.engine.maintenance import lease_recovery
from functory.engine.maintenance.reaper import Reaper

if TYPE_CHECKING:
    from tests.support.world import World

pytest_plugins = ["tests.support.world"]

LEASE = 30.0
ENDINGS = {f"execution.{state}" for state in TERMINAL}


@pytest.fixture
def ready(world: "World") -> "World":
    """A world with a function that may be retried twice."""
    world.function("work", limits={"retries": 2, "retry_delay": 10, "max_attempts": 4})
    return world


def check(world: "World") -> None:
    """What holds in every state: attempts are counted, and each finished execution has told its end once."""
    for row in world.rows(schema.execution):
        attempts = world.executions.attempts(row["id"])
        counted = [a for a in attempts if a["outcome"] != "released"]
        assert len(counted) == row["attempt"] <= row["max_attempts"]
        assert [a["fence"] for a in attempts if a["ended_at"] is None] == (
            [row["fence"]] if row["state"] == "running" else []
        )
        told = [e["type"] for e in world.rows(schema.event, schema.event.c.cause_execution_id == row["id"])]
        ends = [type_ for type_ in told if type_ in ENDINGS]
        assert ends == ([f"execution.{row['state']}"] if row["state"] in TERMINAL else [])
        assert (row["finished_at"] is not None) == (row["state"] in TERMINAL)


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
        assert lease_recovery.reap(ready.database, cancel_grace=LEASE)["lost"] == 1
        ready.claim(row, ready.attempts("other"))
    elif takeover == "cancelled":
        ready.executions.cancel(row["id"])
        ready.advance(LEASE + 1)
        assert lease_recovery.reap(ready.database, cancel_grace=LEASE)["cancelled"] == 1
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
    lease_recovery.reap(ready.database, cancel_grace=LEASE)
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
        assert lease_recovery.reap(ready.database, cancel_grace=LEASE)["lost"] == 0
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


def test_an_execution_whose_worker_dies_every_time_is_dead_after_its_last_attempt(ready):
    row = ready.start()
    done = []
    for _ in range(4):
        ready.claim(row)
        ready.advance(LEASE + 1)
        done.append(lease_recovery.reap(ready.database, cancel_grace=LEASE))
        check(ready)
    assert [d["lost"] for d in done] == [1, 1, 1, 0]
    assert done[-1]["dead"] == 1
    assert [a["outcome"] for a in ready.executions.attempts(row["id"])] == ["lost"] * 4
    assert "no heartbeat from worker" in ready.executions.get(row["id"])["error"]["message"]


def test_two_reapers_end_an_execution_once(ready):
    row = ready.start()
    ready.claim(row)
    ready.advance(LEASE + 1)
    barrier, done = threading.Barrier(2), []

    def reap() -> None:
        barrier.wait()
        done.append(lease_recovery.reap(ready.database, cancel_grace=LEASE)["lost"])

    threads = [threading.Thread(target=reap) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 1]
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


def test_a_queued_execution_expires_when_no_worker_starts_it_in_time(world):
    world.function("work", limits={"expires": 60})
    row = world.start()
    world.advance(59)
    assert lease_recovery.reap(world.database, cancel_grace=LEASE)["expired"] == 0
    world.advance(2)
    assert lease_recovery.reap(world.database, cancel_grace=LEASE)["expired"] == 1
    assert world.executions.get(row["id"])["state"] == "expired"
    check(world)


def test_a_replay_is_a_new_execution_with_the_same_input_and_version(world):
    world.function("work", metadata={"n": 1})
    old = world.executions.start("work", {"a": 1})
    with pytest.raises(Conflict, match="only a finished one"):
        world.executions.replay(old["id"])
    world.finish(world.claim(old), "failed")
    world.function("work", metadata={"n": 2})
    same, latest = world.executions.replay(old["id"]), world.executions.replay(old["id"], latest=True)
    assert [(r["version"], r["input"], r["replay_of"], r["cause"], r["depth"]) for r in (same, latest)] == [
        (1, {"a": 1}, old["id"], "replay", 0),
        (2, {"a": 1}, old["id"], "replay", 0),
    ]
    assert world.executions.get(old["id"])["state"] == "failed"
    check(world)


def test_the_same_idempotency_key_gives_the_first_execution(ready):
    first = ready.start(idempotency_key="order-1")
    assert ready.start(idempotency_key="order-1")["id"] == first["id"]
    assert ready.start(idempotency_key="order-2")["id"] != first["id"]
    ready.function("other")
    with pytest.raises(Conflict, match="used for another function"):
        ready.start("other", idempotency_key="order-1")
    for wrong in ("", "x" * 256, "a\x00b", "\ud800"):
        with pytest.raises(Invalid, match="idempotency_key"):
            ready.start(idempotency_key=wrong)


def test_the_same_idempotency_key_at_the_same_moment_gives_one_execution(make_world):
    worlds = [make_world() for _ in range(4)]
    worlds[0].function("work")
    barrier, ids = threading.Barrier(4), []

    def race(world: "World") -> None:
        barrier.wait()
        ids.extend(world.start(idempotency_key=f"order-{n}")["id"] for n in range(10))

    threads = [threading.Thread(target=race, args=(world,)) for world in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 40
    assert len(set(ids)) == 10 == len(worlds[0].executions.list())


def test_a_child_is_one_deeper_in_the_same_root(ready):
    root = ready.claim(ready.start())
    child = ready.claim(ready.executions.start("work", {}, parent=root.cause))
    grandchild = ready.executions.start("work", {}, parent=child.cause)
    assert (grandchild["root_id"], grandchild["parent_id"], grandchild["depth"], grandchild["cause"]) == (
        root.id,
        child.id,
        2,
        "parent",
    )
    tree = ready.lineage.tree(grandchild["id"])
    assert [node.id for top in tree.nodes for node in top.walk() if node.kind == "execution"] == [
        root.id,
        child.id,
        grandchild["id"],
    ]


def test_a_chain_of_calls_is_stopped_exactly_at_the_depth(make_world):
    world = make_world(max_depth=3)
    world.function("work")
    row = world.start()
    for _ in range(3):
        row = world.executions.start("work", {}, parent=world.claim(row).cause)
    assert row["depth"] == 3
    with pytest.raises(Refused, match=r"the call of work was stopped: depth\nlimit 3"):
        world.executions.start("work", {}, parent=world.claim(row).cause)
    assert len(world.executions.list()) == 4


def test_a_fan_out_of_calls_is_stopped_exactly_at_the_budget(make_world):
    world = make_world(root_budget=5)
    world.function("work")
    root = world.claim(world.start())
    for _ in range(5):
        world.executions.start("work", {}, parent=root.cause)
    with pytest.raises(Refused, match="has caused 5 executions; limit 5"):
        world.executions.start("work", {}, parent=root.cause)
    assert len(world.executions.list()) == 6
    assert world.lineage.tree(root.id).budget == (5, 5)


def test_a_budget_shared_by_many_threads_is_exact(make_world):
    worlds = [make_world(root_budget=20) for _ in range(3)]
    worlds[0].function("work")
    root = worlds[0].claim(worlds[0].start())
    refused: list[int] = []

    def race(world: "World") -> None:
        for n in range(15):
            try:
                world.executions.start("work", {}, parent=root.cause)
            except Refused:
                refused.append(n)

    threads = [threading.Thread(target=race, args=(world,)) for world in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 25
    assert len(worlds[0].executions.list(parent_id=root.id)) == 20


def test_a_function_that_does_not_exist_starts_nothing(ready):
    with pytest.raises(NotFound, match="function 'missing' not found"):
        ready.start("missing")
    with pytest.raises(NotFound, match="function 'work' has no version 7"):
        ready.start("work", version=7)
    with pytest.raises(NotFound):
        ready.executions.get("nonsense")
    with pytest.raises(NotFound):
        ready.executions.wait(["0" * 32], 0)


def test_a_wait_ends_with_the_last_execution_or_with_its_time(ready):
    rows = [ready.start()["id"] for _ in range(3)]
    for claim in ready.worker.claim(rows[:2]):
        ready.finish(claim, result=claim.id)
    with pytest.raises(WaitTimeout, match="is still queued"):
        ready.executions.wait(rows, 0)
    ready.finish(ready.worker.claim(rows[2:])[0], result=rows[2])
    assert [row["result"] for row in ready.executions.wait([*reversed(rows), rows[0].upper()])] == [
        *reversed(rows),
        rows[0],
    ]


def test_a_reaper_believes_no_lease_before_a_lease_has_passed_without_an_outage(ready, monkeypatch):
    reaper = Reaper(ready.database, ready.settings)
    row = ready.start()
    ready.claim(row)
    ready.advance(LEASE - 1)
    assert reaper.reap() == {}
    ready.advance(2)
    assert reaper.reap()["lost"] == 1

    ready.claim(row)
    ready.advance(LEASE - 1)
    reaper.reap()
    with monkeypatch.context() as away:
        away.setattr(lease_recovery, "reap", _raise)
        ready.advance(2)
        with pytest.raises(ConnectionError):
            reaper.reap()
    assert reaper.reap() == {}, "the worker could not send heartbeats either: it gets a lease's time"
    ready.advance(LEASE)
    assert reaper.reap()["lost"] == 1
    check(ready)


def _raise(*_: Any, **__: Any) -> None:
    raise ConnectionError


def test_a_reaper_believes_no_lease_when_the_database_stood_still_while_it_asked_the_time(ready, monkeypatch):
    reaper = Reaper(ready.database, ready.settings, trust_at_once=True)
    ready.claim(ready.start())
    now = ready.clock.now

    def stand_still() -> datetime:
        ready.advance(LEASE + 1)
        return now()

    with monkeypatch.context() as stopped:
        stopped.setattr(ready.clock, "now", stand_still)
        assert not any(reaper.reap().values())
    assert reaper.reap() == {}, "the worker could not send heartbeats either: it gets a lease's time"
    ready.advance(LEASE)
    assert reaper.reap()["lost"] == 1
    check(ready)


def test_a_reaper_believes_no_lease_when_the_clock_was_put_forward(ready, monkeypatch):
    reaper = Reaper(ready.database, ready.settings, trust_at_once=True)
    ready.claim(ready.start())
    assert not any(reaper.reap().values())
    monotonic = ready.clock.monotonic
    # Time has passed on the wall and nowhere else.
    ready.advance(LEASE * 10)
    monkeypatch.setattr(ready.clock, "monotonic", lambda: monotonic() - LEASE * 10)
    assert reaper.reap() == {}
    ready.advance(LEASE)
    assert reaper.reap()["lost"] == 1


def test_a_stopped_reaper_that_wakes_up_waits_for_a_lease(ready):
    reaper = Reaper(ready.database, ready.settings, trust_at_once=True)
    ready.claim(ready.start())
    ready.advance(LEASE * 10)
    assert reaper.reap() == {}
    ready.advance(LEASE)
    assert reaper.reap()["lost"] == 1


def test_every_due_execution_is_sent_once_and_again_when_no_worker_claims_it(ready):
    rows = [ready.start()["id"] for _ in range(3)]
    ready.start(delay=3600)
    sent: list[str] = []

    def send() -> int:
        sent.clear()
        return dispatch.dispatch(
            ready.database,
            sent.extend,
            redispatch=60,
            worker_ttl=LEASE,
            window=DispatchWindow(0.0),
        )

    assert (send(), sent) == (3, rows)
    assert send() == 0
    ready.claim({"id": rows[0]})
    ready.advance(61)
    assert (send(), sorted(sent)) == (2, sorted(rows[1:]))
    ready.advance(61)
    assert send() == 0, "the patience doubles"
    ready.advance(61)
    assert (send(), sorted(sent)) == (2, sorted(rows[1:]))


def test_a_sending_that_fails_is_repeated(ready):
    ready.start()
    with pytest.raises(ConnectionError):
        dispatch.dispatch(ready.database, _raise, redispatch=60, worker_ttl=LEASE, window=DispatchWindow())
    sent: list[str] = []
    dispatch.dispatch(ready.database, sent.extend, redispatch=60, worker_ttl=LEASE, window=DispatchWindow())
    assert len(sent) == 1


def test_higher_priorities_are_sent_first(ready):
    rows = [ready.start(priority=n)["id"] for n in (0, 5, -5)]
    sent: list[str] = []
    dispatch.dispatch(ready.database, sent.extend, redispatch=60, worker_ttl=LEASE, window=DispatchWindow())
    assert sent == [rows[1], rows[0], rows[2]]


def test_two_dispatchers_send_each_execution_once(make_world):
    worlds = [make_world() for _ in range(2)]
    worlds[0].function("work")
    rows = [worlds[0].start()["id"] for _ in range(50)]
    sent: list[str] = []

    def send(world: "World") -> None:
        for _ in range(5):
            dispatch.dispatch(
                world.database,
                sent.extend,
                redispatch=60,
                worker_ttl=LEASE,
                window=DispatchWindow(),
                limit=15,
            )

    threads = [threading.Thread(target=send, args=(world,)) for world in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sent) == sorted(rows)
