"""Idempotency, rate limit, throttle, concurrency, priority, expiry: what Inngest's documentation says of each."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from functory.cli.main import main
from functory.engine.database import migrations, schema
from functory.engine.maintenance import lost_workers
from functory.triggers.definition import define
from functory.triggers.routing.release import Release
from functory.triggers.routing.router import Router
from tests.support.flow import TICK, claim, emit, number, numbers, settle, states, trigger, turn, waves
from tests.support.queue_places import with_places
from tests.support.world import LEASE, World, embedded

pytest_plugins = ["tests.support.world"]


def reasons(world: World) -> list[str | None]:
    """Route; the reasons of the new firings in the order of their events."""
    before = {row["event_id"] for row in world.rows(schema.firing)}
    settle(world)
    return [
        r["reason"]
        for r in sorted(world.rows(schema.firing), key=lambda r: r["event_id"])
        if r["event_id"] not in before
    ]


# Idempotency


def test_the_first_event_of_a_key_runs_and_the_others_of_the_window_do_not(world: World) -> None:
    world.function()
    trigger(world, idempotency={"key": "data.order", "window": "1h"})
    emit(world, 1, 2, order="a")
    emit(world, 3, order="b")
    assert reasons(world) == [None, "idempotent", None]
    world.advance(3599)
    emit(world, 4, order="a")
    assert reasons(world) == ["idempotent"]
    world.advance(1)
    emit(world, 5, 6, order="a")
    assert reasons(world) == [None, "idempotent"], "the window begins with what was let through"
    (firing,) = world.rows(schema.firing, schema.firing.c.event_id == world.events.list(limit=1)[0]["id"])
    assert firing["detail"].startswith("key 'a': event ")


def test_the_key_of_one_trigger_is_not_that_of_another(world: World) -> None:
    world.function()
    for name in ("one", "two"):
        trigger(world, name=name, idempotency={"key": "'same'"})
    emit(world, 1)
    assert reasons(world) == [None, None]


def test_what_the_rate_limit_drops_has_not_used_its_idempotency_key(world: World) -> None:
    world.function()
    trigger(
        world, idempotency={"key": "data.order"}, rate_limit={"limit": 1, "period": "1m", "key": "data.shop"}
    )
    emit(world, 1, order="a", shop="x")
    emit(world, 2, order="b", shop="x")
    assert reasons(world) == [None, "rate_limited"]
    world.advance(60)
    emit(world, 3, order="b", shop="x")
    assert reasons(world) == [None]


# Rate limit and throttle


def test_a_rate_limit_drops_the_excess_and_the_first_wins(world: World) -> None:
    world.function()
    trigger(world, rate_limit={"limit": 2, "period": "1m", "key": "data.k"})
    emit(world, 1, 2, k="a")
    emit(world, 3, k="b")
    assert reasons(world) == [None, "rate_limited", None]
    world.advance(30)
    emit(world, 4, 5, k="a")
    assert reasons(world) == [None, "rate_limited"], "two a minute are one each 30 s"
    dropped = {
        row["text"]: row["dropped"] for row in world.rows(schema.rate_limit) if row["control"] == "rate_limit"
    }
    assert dropped == {"a": 2, "b": 0}
    assert sorted(states(world)) == [1, 3, 4]


def test_a_burst_lets_several_through_at_once(world: World) -> None:
    world.function()
    trigger(world, rate_limit={"limit": 2, "period": "1m", "burst": 3})
    emit(world, 1, 2, 3, 4)
    assert reasons(world) == [None, None, None, "rate_limited"]


def test_a_throttle_lets_the_excess_wait_and_loses_nothing(world: World) -> None:
    world.function()
    trigger(world, throttle={"limit": 3, "period": "1m", "key": "data.k"})
    emit(world, 1, 2, 3, 4, k="a")
    emit(world, 5, k="b")
    assert reasons(world) == [None] * 5
    found = []
    for _ in range(4):
        found.append(sorted(n for wave in waves(world) for n in wave))
        world.advance(19.9)
        assert waves(world) == []
        world.advance(0.1)
    assert found == [[1, 5], [2], [3], [4]]


def test_two_batches_of_a_throttle_share_its_moments(world: World) -> None:
    world.function()
    trigger(world, throttle={"limit": 1, "period": "10s"})
    for n in range(3):
        emit(world, n)
        world.route()
    at = [row["run_at"] for row in world.rows(schema.execution)]
    assert [moment - at[0] for moment in at] == [timedelta(seconds=10 * n) for n in range(3)]


# Concurrency


def test_of_a_key_only_the_limit_runs_at_a_time_and_the_others_wait_in_the_order_of_their_events(
    world: World,
) -> None:
    world.function()
    trigger(world, concurrency={"limit": 2, "key": "data.k"})
    emit(world, 1, 2, 3, 4, 5, k="a")
    emit(world, 6, k="b")
    settle(world)
    rows = with_places(world.database, world.rows(schema.execution))
    assert {number(row): row["waiting_for_slot"] for row in rows} == {
        1: False, 2: False, 3: True, 4: True, 5: True, 6: False
    }  # fmt: skip
    assert waves(world) == [[1, 2, 6], [3, 4], [5]]
    assert world.rows(schema.slot) == []


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "timed_out", "crashed", "cancelled"])
def test_every_ending_frees_the_place(world: World, outcome: str) -> None:
    world.function("work", limits={"retries": 0, "max_attempts": 1})
    trigger(world, concurrency={"limit": 1})
    emit(world, 1, 2)
    settle(world)
    (first,) = claim(world)
    world.finish(first, outcome)
    turn(world)
    assert numbers(claim(world)) == [2]


def test_what_waits_for_its_next_try_holds_no_slot_and_is_first_when_it_is_due(world: World) -> None:
    world.function("work", limits={"retries": 1, "retry_delay": 10})
    trigger(world, concurrency={"limit": 1})
    emit(world, 1, 2, 3)
    settle(world)
    (first,) = claim(world)
    assert world.finish(first, "failed").state == "queued"
    turn(world)
    (second,) = claim(world)
    assert number(second.row) == 2
    world.advance(60)
    turn(world)
    assert claim(world) == []
    world.finish(second)
    turn(world)
    assert numbers(claim(world)) == [1]


def test_a_dead_holder_frees_its_own_place(world: World) -> None:
    world.function("work", limits={"max_attempts": 1})
    trigger(world, concurrency={"limit": 1})
    emit(world, 1, 2)
    settle(world)
    assert numbers(claim(world)) == [1]
    world.advance(LEASE + 1)
    assert lost_workers.reap(world.database, cancel_grace=LEASE)["dead"] == 1
    turn(world)
    assert numbers(claim(world)) == [2]


def test_a_lost_attempt_keeps_its_place_because_it_runs_again_at_once(world: World) -> None:
    world.function("work", limits={"retries": 3})
    trigger(world, concurrency={"limit": 1})
    emit(world, 1, 2)
    settle(world)
    assert numbers(claim(world)) == [1]
    world.advance(LEASE + 1)
    assert lost_workers.reap(world.database, cancel_grace=LEASE)["lost"] == 1
    turn(world)
    (again,) = claim(world)
    assert number(again.row) == 1
    assert world.worker.release([(again.id, again.fence)]) == 1
    turn(world)
    assert numbers(claim(world)) == [1]


def test_a_cancelled_waiter_leaves_the_line(world: World) -> None:
    world.function()
    trigger(world, concurrency={"limit": 1})
    emit(world, 1, 2, 3)
    settle(world)
    rows = {number(row): row["id"] for row in world.rows(schema.execution)}
    world.executions.cancel(rows[2])
    assert waves(world) == [[1], [3]]


@pytest.mark.parametrize(
    ("scope", "together"), [("trigger", [1, 2, 3]), ("function", [1, 3]), ("global", [1])]
)
def test_whose_executions_count_together(world: World, scope: str, together: list[int]) -> None:
    for function in ("work", "other"):
        world.function(function)
    limit = {"limit": 1, "scope": scope, "key": "'k'"}
    for number_, function in ((1, "work"), (2, "work"), (3, "other")):
        world.trigger(
            f"t{number_}",
            function,
            {"type": ["tick"], "data": {"n": [number_]}},
            flow={"concurrency": limit},
        )
    emit(world, 1, 2, 3)
    settle(world)
    assert sorted(numbers(claim(world))) == together


def test_two_triggers_on_one_concurrency_group_each_stop_at_their_own_number(world: World) -> None:
    world.function()
    for name, limit, data in (("wide", 3, "w"), ("narrow", 1, "n")):
        flow = {"concurrency": {"limit": limit, "scope": "global", "key": "'mail'"}}
        world.trigger(name, "work", {"type": ["tick"], "data": {"k": [data]}}, flow=flow)
    emit(world, 1, k="w")
    emit(world, 2, k="n")
    emit(world, 3, 4, 5, k="w")
    settle(world)
    assert sorted(numbers(claim(world))) == [1, 3, 4]


def test_two_limits_hold_together_and_a_wait_for_one_takes_nothing_of_the_other(world: World) -> None:
    world.function()
    trigger(world, concurrency=[{"limit": 1, "key": "data.k"}, {"limit": 2}])
    emit(world, 1, 2, 3, k="a")
    emit(world, 4, 5, k="b")
    settle(world)
    assert waves(world) == [[1, 4], [2, 5], [3]]


def test_a_changed_limit_holds_at_once_for_what_waits(world: World) -> None:
    world.function()
    trigger(world, concurrency={"limit": 1})
    emit(world, *range(6))
    settle(world)
    assert numbers(claim(world)) == [0]
    trigger(world, concurrency={"limit": 3})
    turn(world)
    assert numbers(claim(world)) == [1, 2]
    trigger(world, priority={"run": "0"})
    turn(world)
    assert numbers(claim(world)) == [3, 4, 5]


def test_what_waits_goes_on_when_its_trigger_is_paused_or_deleted(world: World) -> None:
    world.function()
    trigger(world, concurrency={"limit": 1})
    emit(world, 1, 2, 3)
    settle(world)
    world.triggers.pause("t")
    (first,) = claim(world)
    world.finish(first)
    turn(world)
    world.triggers.delete("t")
    assert waves(world) == [[2], [3]]


def test_a_throttled_execution_takes_no_place_before_its_time(world: World) -> None:
    world.function()
    trigger(world, throttle={"limit": 1, "period": "10s", "key": "data.k"}, concurrency={"limit": 1})
    emit(world, 1, 2, k="a")
    emit(world, 3, k="b")
    settle(world)
    assert waves(world) == [[1], [3]]
    assert world.turn.next_due() == pytest.approx(10, abs=0.01)
    world.advance(10)
    turn(world)
    assert waves(world) == [[2]]


def test_a_swept_concurrency_group_is_made_again(world: World) -> None:
    world.function()
    trigger(world, concurrency={"limit": 1})
    for n in range(3):
        emit(world, n)
        settle(world)
        assert waves(world) == [[n]]
        world.advance(31)
        turn(world)
        assert world.rows(schema.concurrency_group) == []


def test_places_of_what_has_ended_are_swept_whatever_went_wrong(world: World) -> None:
    world.function()
    trigger(world, concurrency={"limit": 1})
    emit(world, 1, 2)
    settle(world)
    (first,) = claim(world)
    with world.database.write() as tx:
        tx.execute(
            schema.execution.update().where(schema.execution.c.id == first.id).values(state="succeeded")
        )
    turn(world)
    assert claim(world) == []
    world.advance(31)
    turn(world)
    assert numbers(claim(world)) == [2]


# Priority and expiry


def test_a_higher_priority_goes_first_by_as_many_seconds_as_it_says(world: World) -> None:
    world.function()
    trigger(world, priority={"run": "data.p"}, concurrency={"limit": 1})
    for n, seconds in enumerate([0, 0, 300, -300, 600]):
        emit(world, n, p=seconds)
    settle(world)
    assert [n for wave in waves(world) for n in wave] == [4, 2, 0, 1, 3]


def test_without_a_concurrency_group_priority_is_the_order_in_which_workers_are_given_work(
    world: World,
) -> None:
    world.function()
    trigger(world, priority={"run": "data.p"})
    for n, seconds in enumerate([0, 100, -100]):
        emit(world, n, p=seconds)
    settle(world)
    assert [numbers(claim(world, 1)) for _ in range(3)] == [[1], [0], [2]]


def test_what_is_not_started_in_time_expires_and_leaves_the_line(world: World) -> None:
    world.function()
    trigger(world, expires="10m", concurrency={"limit": 1})
    emit(world, 1, 2)
    settle(world)
    (first,) = claim(world)
    world.advance(600)
    world.finish(first)
    turn(world)
    assert claim(world) == [], "too late, although it is not marked expired yet"
    assert lost_workers.reap(world.database, cancel_grace=LEASE)["expired"] == 1
    assert states(world) == {1: "succeeded", 2: "expired"}
    assert world.rows(schema.slot) == []


def test_what_has_been_started_in_time_may_be_tried_again_later(world: World) -> None:
    world.function("work", limits={"retries": 1, "retry_delay": 60})
    trigger(world, expires="10s")
    emit(world, 1)
    settle(world)
    (first,) = claim(world)
    world.finish(first, "failed")
    world.advance(120)
    assert lost_workers.reap(world.database, cancel_grace=LEASE)["expired"] == 0
    assert numbers(claim(world)) == [1]


def test_a_key_without_a_value_is_recorded_as_a_condition_error(world: World) -> None:
    world.function()
    trigger(world, concurrency={"limit": 1, "key": "data.missing"})
    emit(world, 1)
    assert reasons(world) == ["condition_error"]


def test_a_trigger_without_flow_control_costs_no_statement_more(world: World) -> None:
    world.function()
    world.trigger("t", "work", TICK)
    emit(world, 1)
    world.route()
    emit(world, 2)
    with world.statements() as sent:
        world.router.route_batch()
    # PostgreSQL inserts the row of the rate guard before it locks it.
    assert len(sent) <= (14 if world.dialect == "sqlite" else 15)
    (first, _) = claim(world)
    with world.statements() as sent:
        world.finish(first)
    assert len(sent) <= 5
    with world.statements() as sent:
        world.start()
    # The version is read; the execution and its place in the backlog are written.
    assert len(sent) <= 3


def test_a_turn_asks_one_question_while_nothing_waits(world: World) -> None:
    world.function()
    world.trigger("t", "work", TICK, flow={"concurrency": {"limit": 1}})
    while world.turn.run_once():
        pass
    with world.statements() as sent:
        assert (world.turn.run_once(), world.turn.next_due()) == (False, None)
    assert len(sent) == 1
    emit(world, 1)
    world.route()
    assert world.turn.run_once()


def test_an_execution_that_is_held_names_the_concurrency_group_and_those_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with embedded(tmp_path) as engine:
        migrations.upgrade(engine.database)
        engine.functions.save("def work(event=None):\n    return None\n")
        engine.triggers.save(
            "t", define(on=TICK, function="work", flow={"concurrency": {"limit": 1, "key": "data.k"}})
        )
        for _ in range(3):
            engine.events.emit("tick", {"k": "ada"})
        router, turn_ = Router(engine.database, engine.settings), Release(engine.database, engine.settings)
        while router.route_batch().events or turn_.run_once():
            pass
        first, _, last = sorted(engine.executions.list(), key=lambda row: row["event_id"])
    assert main(["execution", "show", last["id"]]) == 0
    assert "a slot of trigger t ada (1 of 1 in use, 1 ahead of it)" in " ".join(
        capsys.readouterr().out.split()
    )
    assert main(["execution", "show", last["id"], "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["waiting_for_slot"] and [place["ahead"] for place in shown["slots"]] == [1]
    assert main(["execution", "show", first["id"]]) == 0
    assert "waits for" not in capsys.readouterr().out
