"""What is over goes, whole trees at a time; what is open, young or looked at stays, and the invariants hold."""

import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database import partitions, prune_watermarks, schema
from functory.engine.database.clock import ManualClock
from functory.engine.errors import NotFound
from functory.engine.executions.batches import Batches, BatchRequest
from functory.engine.executions.listing import ExecutionFilter
from functory.engine.firings.backtest_jobs import BacktestJobs
from functory.engine.maintenance import audit_deletion, job_deletion, tree_deletion
from functory.engine.maintenance.pruner import Pruner
from functory.engine.maintenance.tree_deletion import RetentionLimits
from tests.support.aging_world import DAY, MONTH, broken, ids_of, order, parts, prune, publish, roots
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

LINE = {"stream": "stdout", "level": "info", "offset_seconds": 0.0}


def test_a_tree_goes_whole_once_all_of_it_is_old(aging: World):
    root = order(aging)
    aging.advance(29 * DAY)
    young = order(aging)
    assert prune(aging) == Counter()
    aging.advance(2 * DAY)
    gone = prune(aging)
    assert root not in roots(aging)
    assert young in roots(aging)
    assert gone["event"] >= 3
    # The trees of saving the functions and the trigger are as old.
    assert gone["execution"] == gone["attempt"] == gone["firing"] == gone["budget"] == 1
    assert [row["root_id"] for row in aging.rows(schema.execution)] == [young]
    assert prune(aging) == Counter()


def test_the_functions_themselves_stay_and_what_was_saved_needs_no_event_any_more(aging: World):
    order(aging)
    aging.advance(31 * DAY)
    prune(aging)
    assert aging.rows(schema.event) == []
    assert broken(aging, patience=0) == {}
    assert aging.functions.get("work")["number"] == 1
    order(aging)
    assert len(aging.rows(schema.execution)) == 1
    # The invariant has kept its teeth for what came later.
    aging.function("third")
    publish(aging)
    with aging.database.write() as tx:
        tx.execute(sa.delete(schema.event).where(schema.event.c.type == "function.created"))
    assert "I4" in broken(aging)


def test_a_dry_run_says_what_would_go_and_deletes_nothing(aging: World):
    order(aging)
    aging.advance(31 * DAY)
    before = aging.rows(schema.event)
    going, kept = tree_deletion.preview(aging.database, MONTH)
    assert kept == Counter()
    assert aging.rows(schema.event) == before
    gone = prune(aging)
    assert {name: count for name, count in gone.items() if name != "partitions"} == dict(going)


def finish_with_lines(world: World, row: dict[str, Any], count: int) -> None:
    claim = world.claim(row)
    world.finish(claim, logs=[{"seq": number, "text": f"line {number}", **LINE} for number in range(count)])


def test_log_lines_go_before_their_tree_and_only_of_what_has_ended(make_world: Callable[..., World]):
    # In weeks that have partitions on PostgreSQL, whose first one was made by the real clock.
    aging = make_world(clock=ManualClock(datetime.now(UTC) + timedelta(days=100)))
    aging.database.new_id = ids_of(aging.database)
    partitions.create_missing(aging.database)
    aging.function()
    ended, running = aging.start(), aging.start()
    finish_with_lines(aging, ended, 5)
    claim = aging.claim(running)
    aging.finish(claim, "crashed", logs=[{"seq": 1, "text": "before the crash", **LINE}])
    assert aging.executions.get(running["id"])["state"] == "queued"
    week = RetentionLimits(logs=timedelta(days=7))
    aging.advance(6 * DAY)
    assert prune(aging, week) == Counter()
    # On PostgreSQL lines go by the week, once it is over.
    aging.advance(9 * DAY)
    going, _ = tree_deletion.preview(aging.database, week)
    assert going == Counter(log=5)
    assert prune(aging, week)["log"] == 5
    assert aging.executions.logs(ended["id"]) == []
    assert [line["text"] for line in aging.executions.logs(running["id"])] == ["before the crash"]
    assert aging.executions.get(ended["id"])["state"] == "succeeded"
    with aging.database.read() as tx:
        assert prune_watermarks.read(tx) is None
        assert prune_watermarks.read(tx, prune_watermarks.LOGS) is not None


def test_executions_with_very_many_lines_lose_them_in_steps(aging: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tree_deletion, "LINES", 10)
    for _ in range(3):
        finish_with_lines(aging, aging.start(), 8)
    aging.run_all()
    publish(aging)
    aging.advance(31 * DAY)
    steps = [step for step in tree_deletion.prune(aging.database, MONTH) if step["log"]]
    assert [step["log"] for step in steps] == [8, 8, 8]
    assert aging.rows(schema.execution) == []


def test_a_large_tree_goes_from_its_leaves_to_its_root(aging: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tree_deletion, "CHUNK", 12)
    aging.trigger("again", "other", {"type": ["execution.succeeded"], "data": {"function": ["work"]}})
    root = aging.events.emit("order", {})
    aging.trigger("wide", "work", {"type": ["wide"]})
    aging.run_all(
        lambda claim: (
            [aging.events.emit("wide", {"n": n}, cause=claim.cause) for n in range(8) if claim.row.depth == 1]
            and None
        )
    )
    publish(aging)
    assert len(aging.rows(schema.event, schema.event.c.root_id == root)) > 40
    aging.advance(31 * DAY)
    gone = prune(aging)
    assert roots(aging) == set()
    assert aging.rows(schema.budget) == []
    assert gone["trees"] > 1


def test_events_that_fired_together_are_kept_beside_what_is_young(aging: World):
    aging.trigger("both", "other", {"type": ["part"]}, flow={"batch": {"max_size": 2, "timeout": "10m"}})
    old = aging.events.emit("part", {"n": 1})
    aging.run_all()
    publish(aging)
    aging.advance(40 * DAY)
    young = aging.events.emit("part", {"n": 2})
    aging.route()
    aging.turn.run_once()
    aging.run_all()
    publish(aging)
    (execution,) = aging.rows(schema.execution, schema.execution.c.function == "other")
    assert execution["root_id"] == young
    prune(aging)
    assert {old, young} <= roots(aging)
    assert len(aging.lineage.cause(execution["id"])["events"]) == 2
    aging.advance(31 * DAY)
    prune(aging)
    assert roots(aging) == set()


def test_a_replay_outlives_what_it_repeats_and_says_that_it_was_pruned(aging: World):
    order(aging)
    (old,) = aging.rows(schema.execution)
    aging.advance(20 * DAY)
    new = aging.executions.replay(old["id"])
    aging.run_all()
    publish(aging)
    assert aging.lineage.cause(new["id"])["pruned"] == []
    aging.advance(15 * DAY)
    prune(aging)
    assert [row["id"] for row in aging.rows(schema.execution)] == [new["id"]]
    assert aging.lineage.cause(new["id"])["pruned"] == [old["id"]]
    assert aging.lineage.tree(new["id"]).nodes
    with pytest.raises(NotFound, match="pruned"):
        aging.lineage.tree(old["id"])
    with pytest.raises(NotFound, match="pruned"):
        aging.executions.get(old["id"])
    with pytest.raises(NotFound, match="pruned"):
        aging.events.get(old["event_id"])


def test_batches_and_backtests_go_when_they_ended_long_ago_and_open_ones_stay(
    aging: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(job_deletion, "CHUNK", 2)
    order(aging)
    batches, backtests = Batches(aging.database, aging.settings), BacktestJobs(aging.database)

    def made() -> tuple[str, str]:
        batch = batches.create(
            BatchRequest("replay", ExecutionFilter()), author="ada", idempotency_key=aging.database.new_id()
        )
        return batch["id"], backtests.create("first", None, aging.clock.now(), author="ada")["id"]

    old = [made() for _ in range(3)]
    late, waiting = made(), made()
    for batch, backtest in old:
        batches.cancel(batch, author="ada")
        backtests.cancel(backtest, author="ada")
    aging.advance(2 * DAY)
    batches.cancel(late[0], author="ada")
    backtests.cancel(late[1], author="ada")
    aging.advance(29 * DAY)
    going, _ = tree_deletion.preview(aging.database, MONTH)
    gone = prune(aging)
    for counted in (going, gone):
        assert (counted["batch"], counted["backtest"]) == (3, 3)
    assert {row["id"] for row in batches.list()} == {late[0], waiting[0]}
    assert {row["id"] for row in backtests.list()} == {late[1], waiting[1]}
    for missing in (lambda: batches.get(old[0][0]), lambda: backtests.get(old[0][1])):
        with pytest.raises(NotFound, match="pruned"):
            missing()
    assert prune(aging) == Counter()


def test_audit_entries_of_starts_and_events_go_with_what_they_name_and_others_stay(
    aging: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(audit_deletion, "CHUNK", 2)

    def act() -> list[str]:
        started = aging.executions.start("work", {}, author="ada")["id"]
        cancelled = aging.executions.start("work", {}, delay=9.0, author="ada")["id"]
        aging.executions.cancel(cancelled, author="ada")
        sent = aging.events.emit("order", {}, author="ada")
        aging.run_all()
        replayed = aging.executions.replay(started, author="ada")["id"]
        aging.run_all()
        publish(aging)
        return [started, cancelled, cancelled, sent, replayed]

    def subjects() -> list[str]:
        return [row["subject"] for row in aging.rows(schema.audit) if row["author"] == "ada"]

    old = act()
    aging.functions.disable("work", author="ada")
    aging.functions.enable("work", author="ada")
    waiting = aging.executions.start("work", {}, delay=90 * DAY, author="ada")["id"]
    aging.advance(31 * DAY)
    young = act()
    assert subjects() == [*old, "work", "work", waiting, *young]
    going, _ = tree_deletion.preview(aging.database, MONTH)
    gone = prune(aging)
    assert (going["audit"], gone["audit"]) == (len(old), len(old))
    assert subjects() == ["work", "work", waiting, *young]
    assert prune(aging) == Counter()


def test_the_pruner_goes_by_the_settings_and_rests_between_steps(make_world: Callable[..., World]):
    world = make_world(keep_days=30)
    world.database.new_id = ids_of(world.database)
    world.function()
    world.trigger("first", "work", {"type": ["order"]})
    order(world)
    world.advance(31 * DAY)
    pruner = Pruner(world.database, world.settings)
    assert pruner.prune()
    assert pruner.next_due() is not None
    while pruner.prune():
        pass
    assert pruner.next_due() is None
    assert world.rows(schema.event) == []
    supervisor = Pruner(world.database, make_world().settings)
    order(world)
    world.advance(3650 * DAY)
    while supervisor.prune():
        pass
    assert len(world.rows(schema.execution)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_nothing_open_is_lost_and_every_kept_tree_is_whole_for_any_open_rows(
    aging: World, seed: int, monkeypatch: pytest.MonkeyPatch
):
    rng = random.Random(seed)
    monkeypatch.setattr(tree_deletion, "CHUNK", rng.choice([3, 10, 500]))
    monkeypatch.setattr(tree_deletion, "PAGE", rng.choice([1, 4, 200]))
    aging.trigger("pair", "other", {"type": ["part"]}, flow={"batch": {"max_size": 2, "timeout": "10m"}})
    aging.trigger("chain", "other", {"type": ["execution.succeeded"], "data": {"function": ["work"]}})
    # An execution may try again for long, so that many are open in between.
    for _ in range(40):
        _act(aging, rng)
        aging.advance(rng.choice([0, 60, DAY, 5 * DAY]))
        if rng.random() < 0.2:
            cutoff = timedelta(days=rng.choice([1, 10, 30, 60]))
            before = _trees(aging)
            prune(aging, RetentionLimits(cutoff))
            after = _trees(aging)
            for root, rows in before.items():
                assert after.get(root, rows) == rows
            gone = [rows for root, rows in before.items() if root not in after]
            limit = aging.clock.now() - cutoff
            for rows in gone:
                assert all(row["state"] == "routed" and row["routed_at"] < limit for row in rows["event"])
                assert all(
                    row["finished_at"] is not None and row["finished_at"] < limit for row in rows["execution"]
                )
                assert rows["buffered_match"] == []
            assert any(gone) or len(after) == len(before)


def _act(world: World, rng: random.Random) -> None:
    what = rng.choice(
        ["order", "part", "route", "work", "work", "claim", "publish", "publish", "start", "turn"]
    )
    if what in ("order", "part"):
        world.events.emit(what, {})
    elif what == "route":
        world.router.route_batch()
    elif what == "work":
        for claim in world.worker.claim_any(rng.choice([1, 5])):
            world.finish(claim, rng.choice(["succeeded", "succeeded", "failed"]))
    elif what == "claim":
        world.worker.claim_any(1) if rng.random() < 0.3 else None
    elif what == "publish":
        publish(world)
    elif what == "start":
        world.start()
    else:
        world.turn.run_once()


def _trees(world: World) -> dict[str, dict[str, list[dict[str, Any]]]]:
    return {root: parts(world, root) for root in roots(world)}
