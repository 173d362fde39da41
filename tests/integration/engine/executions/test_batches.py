"""Batches: each execution that fits is handled once, whichever process dies, and nothing else is touched."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.errors import Conflict, Invalid, NotFound, Unavailable
from functory.engine.executions import batches as batches_module
from functory.engine.executions.batches import LEASE, Batches, BatchRequest, BatchRunner
from functory.engine.executions.listing import ExecutionFilter
from tests.support.aging_world import ids_of
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def aged(world: World) -> World:
    world.database.new_id = ids_of(world.database)
    world.function()
    world.function("other")
    return world


@pytest.fixture
def batches(aged: World) -> Batches:
    return Batches(aged.database, aged.settings)


def ended(world: World, number: int, outcome: str = "failed", function: str = "work") -> list[str]:
    """Executions that have ended, oldest first."""
    made = []
    for _ in range(number):
        world.advance(1)
        row = world.start(function)
        world.finish(world.claim(row), outcome)
        made.append(row["id"])
    world.advance(1)
    return made


def run(world: World) -> None:
    runner = BatchRunner(world.database, world.settings)
    while runner.run_once():
        pass


def replayed(world: World) -> list[str]:
    """The originals of the executions that were started again."""
    return sorted(row["replay_of"] for row in world.rows(schema.execution) if row["replay_of"])


def of(action: str, **more) -> BatchRequest:
    request = {name: more.pop(name) for name in ("limit", "latest", "reason", "ids") if name in more}
    return BatchRequest(
        action, **({} if "ids" in request else {"filter": ExecutionFilter(**more)}), **request
    )  # type: ignore[arg-type]


def test_a_retry_of_a_filter_starts_each_failed_execution_once_and_no_other(aged, batches, monkeypatch):
    monkeypatch.setattr(batches_module, "PAGE", 3)
    failed = ended(aged, 8)
    ended(aged, 2, "succeeded")
    ended(aged, 2, function="other")
    row = batches.create(of("retry", functions=["work"], reason="fixed"), author="ada")
    assert (row["state"], row["total"]) == ("waiting", 8)
    run(aged)
    after = batches.get(row["id"])
    assert (after["state"], after["seen"], after["done"], after["failed"]) == ("done", 8, 8, 0)
    assert replayed(aged) == failed
    # The new ones that fail are not tried again by the same batch.
    aged.work()
    run(aged)
    assert replayed(aged) == failed
    (entry,) = aged.rows(schema.audit, schema.audit.c.action == "batch.retry")
    assert (entry["author"], entry["subject"], entry["data"]["reason"]) == ("ada", row["id"], "fixed")
    assert not aged.rows(schema.audit, schema.audit.c.action == "execution.replay")


def test_a_dry_run_counts_what_the_batch_then_does_and_stores_nothing(aged, batches):
    ended(aged, 5)
    found = batches.count(of("retry", limit=3))
    assert (found.count, found.complete, len(found.examples)) == (3, True, 3)
    assert not aged.rows(schema.batch) and not replayed(aged)
    batches.create(of("retry", limit=3), author="ada")
    run(aged)
    assert len(replayed(aged)) == 3


def test_the_limit_takes_the_newest(aged, batches):
    failed = ended(aged, 6)
    batches.create(of("retry", limit=2), author="ada")
    run(aged)
    assert replayed(aged) == failed[-2:]


def test_a_page_that_a_dead_process_has_done_in_part_starts_nothing_twice(aged, batches, monkeypatch):
    failed = ended(aged, 6)
    row = batches.create(of("retry"), author="ada")
    dying = BatchRunner(aged.database, aged.settings)
    monkeypatch.setattr(dying, "_store", lambda *_: (_ for _ in ()).throw(Unavailable("the process died")))
    with pytest.raises(Unavailable):
        dying.run_once()
    assert replayed(aged) == failed
    # Its lease still holds.
    run(aged)
    assert batches.get(row["id"])["state"] == "running"
    aged.advance(LEASE.total_seconds() + 1)
    run(aged)
    after = batches.get(row["id"])
    assert (after["state"], after["done"], after["failed"]) == ("done", 6, 0)
    assert replayed(aged) == failed


def test_a_process_that_lost_its_lease_does_not_move_the_batch_on(aged, batches, monkeypatch):
    monkeypatch.setattr(batches_module, "PAGE", 2)
    failed = ended(aged, 4)
    row = batches.create(of("retry"), author="ada")
    slow = BatchRunner(aged.database, aged.settings)
    store = slow._store

    def late(*given):
        aged.advance(LEASE.total_seconds() + 1)
        BatchRunner(aged.database, aged.settings).run_once()
        store(*given)

    monkeypatch.setattr(slow, "_store", late)
    slow.run_once()
    assert batches.get(row["id"])["seen"] == 2
    run(aged)
    assert (batches.get(row["id"])["seen"], replayed(aged)) == (4, failed)


def test_a_cancel_ends_what_is_open_and_leaves_what_has_ended(aged, batches):
    ended(aged, 2, "succeeded")
    queued = [aged.start()["id"] for _ in range(3)]
    aged.advance(1)
    batches.create(of("cancel", functions=["work"]), author="ada")
    run(aged)
    assert {aged.executions.get(id_)["state"] for id_ in queued} == {"cancelled"}
    assert len(aged.rows(schema.execution, schema.execution.c.state == "succeeded")) == 2


def test_ids_that_cannot_be_handled_are_reported_with_their_reason(aged, batches):
    (failed,) = ended(aged, 1)
    (succeeded,) = ended(aged, 1, "succeeded")
    row = batches.create(of("retry", ids=[failed, succeeded, failed]), author="ada")
    run(aged)
    after = batches.get(row["id"])
    assert (after["seen"], after["done"], after["failed"]) == (2, 1, 1)
    assert after["problems"][0]["execution_id"] == succeeded
    assert "succeeded" in after["problems"][0]["error"]


def test_a_replay_with_latest_runs_the_active_version(aged, batches):
    ended(aged, 1)
    aged.function(parameters="**named")
    batches.create(of("replay", latest=True), author="ada")
    run(aged)
    assert [row["version"] for row in aged.rows(schema.execution) if row["replay_of"]] == [2]


def test_a_batch_that_was_cancelled_does_nothing_more(aged, batches, monkeypatch):
    monkeypatch.setattr(batches_module, "PAGE", 2)
    ended(aged, 6)
    row = batches.create(of("retry"), author="ada")
    BatchRunner(aged.database, aged.settings).run_once()
    batches.cancel(row["id"], author="bob")
    run(aged)
    after = batches.get(row["id"])
    assert (after["state"], after["done"], len(replayed(aged))) == ("cancelled", 2, 2)
    with pytest.raises(Conflict):
        batches.cancel(row["id"], author="bob")


def test_the_last_page_does_not_undo_a_cancel(aged, batches, monkeypatch):
    ended(aged, 2)
    row = batches.create(of("retry"), author="ada")
    runner = BatchRunner(aged.database, aged.settings)
    store = runner._store
    monkeypatch.setattr(
        runner, "_store", lambda *given: (batches.cancel(row["id"], author="bob"), store(*given))
    )
    runner.run_once()
    assert batches.get(row["id"])["state"] == "cancelled"


def test_a_scope_limits_filters_ids_and_the_list_of_batches(aged, batches):
    with aged.database.write() as tx:
        tx.execute(
            sa.update(schema.function).where(schema.function.c.name == "other").values(labels=["team:a"])
        )
    (mine,) = ended(aged, 1, function="other")
    (foreign,) = ended(aged, 1)
    assert batches.count(of("retry"), ("team:a",)).count == 1
    with pytest.raises(NotFound):
        batches.create(of("retry", ids=[foreign]), author="ada", scope=("team:a",))
    row = batches.create(of("retry"), author="ada", scope=("team:a",))
    run(aged)
    assert replayed(aged) == [mine]
    assert [one["id"] for one in batches.list(author="ada")] == [row["id"]]
    assert batches.list(author="bob") == []


def test_a_used_key_returns_the_first_batch(aged, batches):
    ended(aged, 1)
    first = batches.create(of("retry"), author="ada", idempotency_key="k")
    assert batches.create(of("retry"), author="ada", idempotency_key="k")["id"] == first["id"]
    assert len(aged.rows(schema.batch)) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"action": "delete", "filter": ExecutionFilter()},
        {"action": "retry"},
        {"action": "retry", "filter": ExecutionFilter(), "ids": ["a"]},
        {"action": "retry", "filter": ExecutionFilter(), "limit": 0},
        {"action": "cancel", "filter": ExecutionFilter(), "latest": True},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(Invalid):
        BatchRequest(**wrong)


def test_a_filter_of_states_that_the_action_is_not_for_is_refused(aged, batches):
    with pytest.raises(Invalid, match="succeeded"):
        batches.create(of("retry", states=["succeeded"]), author="ada")


def test_a_filter_with_a_time_and_all_else_is_the_same_after_it_was_stored(aged, batches):
    wanted = ExecutionFilter(
        functions=["work"],
        states=["failed"],
        version=1,
        since=aged.clock.now() - timedelta(hours=1),
        until=aged.clock.now(),
    )
    failed = ended(aged, 2)
    batches.create(BatchRequest("retry", wanted), author="ada")
    run(aged)
    # They were made after its end.
    assert replayed(aged) == []
    assert len(failed) == 2
