"""Debounce and batch over the rows: what waits, what fires and when, and that nothing is lost or doubled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.events import store as event_store
from functory.engine.firings.kill_switch import TRIGGERS, Switches
from tests.support.patience import patient
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

ON = {"type": ["tick"]}


def emit(world: World, *numbers: int, key: str = "k", **more: Any) -> list[str]:
    return [world.events.emit("tick", {"n": n, "key": key} | more) for n in numbers]


def turn(world: World) -> None:
    """Take turns until there is nothing more to decide now."""
    for _ in range(100):
        if not world.turn.run_once():
            return
    raise AssertionError("turns without an end")


def settle(world: World) -> None:
    world.route()
    turn(world)


def ran(world: World) -> list[Any]:
    """What each execution so far was given: the number of its event, or the list of them."""
    rows = sorted(world.rows(schema.execution), key=lambda row: row["id"])
    return [_numbers(next(iter(row["input"].values()))) for row in rows]


def _numbers(given: Any) -> Any:
    return [one["data"]["n"] for one in given] if isinstance(given, list) else given["data"]["n"]


def firings(world: World) -> dict[int, tuple[str, str | None]]:
    """The decision about each event, by its number, with the reason."""
    numbers = {row["id"]: row["data"]["n"] for row in world.rows(schema.event, schema.event.c.type == "tick")}
    rows = world.rows(schema.firing)
    assert len(rows) == len({row["event_id"] for row in rows})
    return {numbers[row["event_id"]]: (row["decision"], row["reason"]) for row in rows}


FIRED = ("fired", None)
PASSED = ("suppressed", "debounced")


@pytest.fixture
def flow(world: World) -> Callable[..., dict[str, Any]]:
    world.function(parameters="event")

    def save(**flow: Any) -> dict[str, Any]:
        return world.trigger("t", "work", ON, flow=flow)

    return save


def test_the_last_event_runs_after_the_period_of_silence(world: World, flow: Any) -> None:
    flow(debounce={"period": "10s"})
    ids = emit(world, 1, 2)
    settle(world)
    world.advance(9)
    ids += emit(world, 3)
    settle(world)
    world.advance(9.9)
    settle(world)
    assert ran(world) == [] and len(world.rows(schema.buffered_match)) == 3
    world.advance(0.2)
    settle(world)
    assert ran(world) == [3]
    assert firings(world) == {1: PASSED, 2: PASSED, 3: FIRED}
    details = {row["detail"] for row in world.rows(schema.firing, schema.firing.c.decision == "suppressed")}
    assert details == {f"the event {ids[2]} came after it"}, "the winner is named"
    assert not world.rows(schema.buffered_match) and not world.rows(schema.match_buffer)


def test_a_debounce_ends_at_its_timeout_however_many_come(world: World, flow: Any) -> None:
    flow(debounce={"period": "10s", "timeout": "25s"})
    for n in range(6):
        emit(world, n)
        settle(world)
        world.advance(5)
    assert ran(world) == [5], "25 s after the first, though the last had just come"
    emit(world, 6)
    settle(world)
    world.advance(9)
    settle(world)
    assert ran(world) == [5], "what came after it waits anew"
    world.advance(1)
    settle(world)
    assert ran(world) == [5, 6]


def test_each_key_is_debounced_by_itself(world: World, flow: Any) -> None:
    flow(debounce={"period": "10s", "key": "data.key"})
    emit(world, 1, 2, key="a")
    emit(world, 3, key="b")
    settle(world)
    assert [row["text"] for row in world.rows(schema.match_buffer)] in (["a", "b"], ["b", "a"])
    world.advance(10)
    settle(world)
    assert sorted(ran(world)) == [2, 3]


def test_keep_all_gives_one_execution_all_events_in_their_order(world: World, flow: Any) -> None:
    flow(debounce={"period": "10s", "keep": "all"})
    emit(world, 1, 2, 3)
    settle(world)
    world.advance(10)
    settle(world)
    assert ran(world) == [[1, 2, 3]]
    rows = world.rows(schema.firing)
    assert {row["decision"] for row in rows} == {"fired"} and len({row["execution_id"] for row in rows}) == 1
    assert all(row["joint"] for row in rows)


def test_a_batch_runs_at_its_size_with_exactly_that_many_and_the_rest_waits_anew(
    world: World, flow: Any
) -> None:
    flow(batch={"max_size": 3, "timeout": "60s"})
    emit(world, *range(7))
    settle(world)
    assert ran(world) == [[0, 1, 2], [3, 4, 5]]
    world.advance(59)
    settle(world)
    assert len(ran(world)) == 2
    world.advance(1)
    settle(world)
    assert ran(world) == [[0, 1, 2], [3, 4, 5], [6]], "a list, even of one"


def test_a_batch_ends_by_time_counted_from_its_first_event(world: World, flow: Any) -> None:
    flow(batch={"max_size": 3, "timeout": "10s"})
    emit(world, 1, 2)
    settle(world)
    world.advance(6)
    emit(world, 3, 4)
    settle(world)
    assert ran(world) == [[1, 2, 3]]
    world.advance(6)
    settle(world)
    assert len(ran(world)) == 1, "the fourth began to wait when it came"
    world.advance(4)
    settle(world)
    assert ran(world) == [[1, 2, 3], [4]]


def test_a_batch_ends_by_the_bytes_of_its_data(world: World, flow: Any) -> None:
    flow(batch={"max_size": 100, "timeout": "60s", "max_bytes": 1000})
    emit(world, 1, 2, pad="x" * 400)
    emit(world, 3, pad="x" * 2000)
    settle(world)
    assert ran(world) == [[1, 2], [3]], "one that is too large by itself runs by itself"


def test_events_for_which_if_is_false_run_alone_and_at_once(world: World, flow: Any) -> None:
    flow(batch={"max_size": 2, "timeout": "60s", "if": "data.n < 10"})
    emit(world, 1, 10, 2)
    settle(world)
    assert sorted(ran(world), key=len) == [[10], [1, 2]]


def test_each_key_has_its_own_batch(world: World, flow: Any) -> None:
    flow(batch={"max_size": 2, "timeout": "60s", "key": "data.key"})
    emit(world, 1, 2, key="a")
    emit(world, 3, key="b")
    settle(world)
    assert ran(world) == [[1, 2]]


def test_a_key_that_cannot_be_evaluated_is_reported_and_holds_nothing(world: World, flow: Any) -> None:
    flow(debounce={"period": "10s", "key": "data.missing"})
    emit(world, 1)
    assert world.route() == [("t", "condition_error")]
    assert not world.rows(schema.buffered_match)


@pytest.mark.parametrize("key", ["\x00", "ü" * 500, "", "a\nb", "'; DROP TABLE hold; --"])
def test_any_text_is_a_key(world: World, flow: Any, key: str) -> None:
    flow(debounce={"period": "1s", "key": "data.key"})
    emit(world, 1, key=key)
    settle(world)
    world.advance(1)
    settle(world)
    assert ran(world) == [1]


def test_a_paused_trigger_keeps_what_waits_until_it_is_resumed(world: World, flow: Any) -> None:
    flow(debounce={"period": "10s"})
    emit(world, 1)
    settle(world)
    world.triggers.pause("t")
    world.advance(100)
    settle(world)
    assert ran(world) == [] and len(world.rows(schema.buffered_match)) == 1
    assert world.turn.next_due() is None, "nothing is due while it is paused"
    world.triggers.resume("t")
    settle(world)
    assert ran(world) == [1]


def test_what_waits_for_a_deleted_trigger_is_recorded_as_suppressed(world: World, flow: Any) -> None:
    flow(debounce={"period": "7d"})
    emit(world, 1, 2)
    settle(world)
    world.triggers.delete("t")
    settle(world)
    assert firings(world) == dict.fromkeys((1, 2), ("suppressed", "trigger_deleted"))
    assert not world.rows(schema.buffered_match) and not world.rows(schema.match_buffer)


def test_what_waits_fires_alone_when_the_trigger_no_longer_lets_it_wait(world: World, flow: Any) -> None:
    flow(batch={"max_size": 100, "timeout": "10m"})
    emit(world, 1, 2)
    settle(world)
    world.trigger("t", "work", ON)
    settle(world)
    assert ran(world) == [1, 2], "each event by itself, and not as a list"
    assert {row["trigger_version"] for row in world.rows(schema.firing)} == {2}


def test_what_waits_is_judged_by_the_new_version(world: World, flow: Any) -> None:
    flow(debounce={"period": "7d", "key": "data.key"})
    emit(world, 1, key="a")
    emit(world, 2, 3, key="b")
    settle(world)
    world.trigger("t", "work", ON, when="data.n != 3", flow={"debounce": {"period": "10s"}})
    settle(world)
    assert firings(world) == {3: ("suppressed", "trigger_changed")}
    assert len(world.rows(schema.match_buffer)) == 1, "by the new key, which is none, they wait together"
    world.advance(10)
    settle(world)
    assert ran(world) == [2]
    assert firings(world)[1] == PASSED


def test_nothing_is_decided_while_triggers_are_switched_off(world: World, flow: Any) -> None:
    flow(debounce={"period": "1s"})
    emit(world, 1)
    settle(world)
    switches = Switches(world.database)
    switches.throw(TRIGGERS)
    world.advance(10)
    settle(world)
    assert ran(world) == []
    switches.release(TRIGGERS)
    settle(world)
    assert ran(world) == [1]


def test_a_function_that_is_gone_suppresses_every_event_of_the_batch(world: World, flow: Any) -> None:
    flow(batch={"max_size": 2, "timeout": "60s"})
    emit(world, 1, 2)
    world.route()
    world.functions.disable("work")
    turn(world)
    assert firings(world) == dict.fromkeys((1, 2), ("suppressed", "function_unavailable"))


def test_a_batch_is_as_deep_as_its_deepest_event(world: World, flow: Any) -> None:
    """A loop through a batch comes to the depth guard, though most of its events come from outside."""
    world.functions.save("def echo(event):\n    return None\n")
    world.trigger(
        "t",
        "work",
        {"type": ["tick", "execution.succeeded"]},
        guards={"max_revisits": 0, "allow_self": True},
        flow={"batch": {"max_size": 2, "timeout": "60s"}},
    )
    world.trigger("o", "echo", {"type": ["tick"]})
    emit(world, 1)
    world.run_all()
    turn(world)
    (batch,) = world.rows(schema.execution, schema.execution.c.function == "work")
    echo = world.rows(schema.execution, schema.execution.c.function == "echo")[0]
    assert (echo["depth"], batch["depth"]) == (1, 2)


def test_open_work_counts_what_waits(world: World, flow: Any) -> None:
    flow(debounce={"period": "1s"})
    emit(world, 1)
    settle(world)
    assert world.lineage.open_work()["waiting matches"] == 1
    world.advance(1)
    settle(world)
    assert world.lineage.open_work()["waiting matches"] == 0


def test_a_turn_that_is_killed_before_its_commit_has_done_nothing(
    world: World, flow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow(batch={"max_size": 2, "timeout": "60s"})
    emit(world, 1, 2)
    world.route()
    before = world.rows(schema.buffered_match)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("functory.engine.flow_control.buffers.write_decisions", killed)
        with pytest.raises(KeyboardInterrupt):
            world.turn.run_once()
    assert world.rows(schema.buffered_match) == before and not world.rows(schema.firing)
    turn(world)
    assert ran(world) == [[1, 2]]


def test_one_bucket_that_cannot_be_decided_does_not_stop_the_others(
    world: World, flow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from functory.triggers.routing.decision import TriggerEvaluator

    flow(debounce={"period": "1s", "key": "data.key"})
    emit(world, 1, key="bad")
    emit(world, 2, key="good")
    settle(world)
    world.advance(1)
    fire = TriggerEvaluator.fire

    def failing(self: TriggerEvaluator, compiled: Any, rows: Sequence[Any], by: Any) -> Any:
        if by.data["key"] == "bad":
            raise RuntimeError("no")
        return fire(self, compiled, rows, by)

    with monkeypatch.context() as patched:
        patched.setattr(TriggerEvaluator, "fire", failing)
        settle(world)
        assert ran(world) == [2]
        assert len(world.rows(schema.buffered_match)) == 1
    world.advance(61)
    settle(world)
    assert ran(world) == [2, 1], "it is tried again"


def test_a_crowded_key_gives_up_all_but_the_newest_before_it_is_quiet(
    world: World, flow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functory.triggers.flow_control.debounce_batch.MAX_DEBOUNCED", 20)
    flow(debounce={"period": "1h"})
    emit(world, *range(25))
    settle(world)
    assert len(world.rows(schema.buffered_match)) == 1
    assert ran(world) == []
    world.advance(3600)
    settle(world)
    assert ran(world) == [24]
    assert len(firings(world)) == 25


def test_two_processes_with_the_same_buckets_decide_each_match_once(
    make_world: Callable[..., World],
) -> None:
    one, two = make_world(), make_world()
    one.clock, two.clock = one.clock, one.clock
    two.database.clock = one.clock
    one.function(parameters="event")
    one.trigger("t", "work", ON, flow={"batch": {"max_size": 5, "timeout": "10s", "key": "data.key"}})
    for start in range(0, 60, 6):
        emit(one, *range(start, start + 6), key=str(start % 4))
        (one if start % 12 else two).route()
        (two if start % 12 else one).turn.run_once()
    one.advance(10)
    turn(two)
    turn(one)
    assert sorted(n for group in ran(one) for n in group) == list(range(60))
    assert not one.rows(schema.buffered_match) and not one.rows(schema.match_buffer)


def test_routers_and_turns_that_race_decide_each_match_once(make_world: Callable[..., World]) -> None:
    """Four processes at once over the same few buckets, which are emptied and filled all the time."""
    worlds = [make_world(batch_size=7) for _ in range(4)]
    first = worlds[0]
    for world in worlds:
        world.database.clock = first.clock
    first.function(parameters="event")
    first.trigger(
        "t",
        "work",
        ON,
        guards={"rate": 0},
        flow={"batch": {"max_size": 4, "timeout": "10m", "key": "data.key"}},
    )
    with first.database.write() as tx:
        rows = [
            event_store.record(tx, "tick", None, {"n": n, "key": str(n % 3)}, source="/test")
            for n in range(240)
        ]
        event_store.append(tx, rows)
    failed: list[BaseException] = []
    routed = threading.Event()

    def process(world: World, route: bool) -> None:
        try:
            while not routed.is_set() or world.turn.run_once():
                if route and not world.router.route_batch().events:
                    routed.set()
                elif not route:
                    world.turn.run_once()
        except BaseException as error:
            failed.append(error)
            routed.set()

    threads = [
        threading.Thread(target=process, args=(world, number < 2)) for number, world in enumerate(worlds)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patient(60))
    assert not failed
    settle(first)
    groups = ran(first)
    assert {len(group) for group in groups} == {4}
    assert sorted(n for group in groups for n in group) == list(range(240))
    assert not first.rows(schema.buffered_match) and not first.rows(schema.match_buffer)


def test_matches_are_due_when_the_loop_wakes(world: World, flow: Any) -> None:
    flow(debounce={"period": "10s"})
    assert world.turn.next_due() is None
    emit(world, 1)
    settle(world)
    assert world.turn.next_due() == pytest.approx(10)


def test_many_keys_are_decided_in_a_few_statements_a_round(world: World, flow: Any) -> None:
    flow(debounce={"period": "1s", "key": "data.key"})
    for n in range(150):
        emit(world, n, key=str(n))
    world.route()
    world.advance(1)
    with world.statements() as sent:
        world.turn.run_once()
    assert len(ran(world)) == 150
    assert len(sent) < 40, sent


def test_cancel_on_takes_a_match_out_of_its_bucket(world: World) -> None:
    world.function(parameters="event")
    world.trigger("t", "work", ON, flow={
        "debounce": {"period": "10s"}, "cancel_on": [{"on": {"type": ["stop"]}, "when": "data.n == started.data.n"}],
    })  # fmt: skip
    emit(world, 1, 2)
    settle(world)
    world.events.emit("stop", {"n": 2})
    settle(world)
    assert firings(world) == {2: ("suppressed", "cancelled")}
    world.advance(10)
    settle(world)
    assert ran(world) == [1]
    assert not world.rows(schema.match_buffer)


def test_flow_control_of_the_deciding_event_holds_for_the_execution(world: World, flow: Any) -> None:
    flow(debounce={"period": "1s", "key": "data.key"}, idempotency={"key": "string(data.n)"}, expires="10s")
    emit(world, 1, 1)
    settle(world)
    world.advance(1)
    settle(world)
    reasons = sorted(str(row["reason"]) for row in world.rows(schema.firing))
    assert reasons == ["None", "idempotent"], "the second was dropped before it could wait"
    (row,) = world.rows(schema.execution)
    assert row["expires_at"] == world.clock.now() + timedelta(seconds=10)
