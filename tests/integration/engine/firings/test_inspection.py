"""What a trigger has waiting, read back from the rows that routing has written."""

from typing import Any

import pytest

from functory.cli.output import trigger_backlog
from functory.engine.errors import NotFound
from functory.engine.firings import inspection
from functory.engine.firings.inspection import TriggerInspection
from functory.explanations import trigger_flow
from functory.triggers import definition
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def saved(world: World, flow: dict[str, Any] | None = None, **fields: Any) -> None:
    """A function `work`, and the trigger `reorder` for it with this flow control."""
    world.function()
    world.trigger("reorder", "work", {"type": ["stock.low"]}, flow=flow, **fields)


def emitted(world: World, *customers: str) -> list[str]:
    """An event for each of these, routed. Returns their ids."""
    ids = [world.events.emit("stock.low", {"customer": name}, subject=name) for name in customers]
    world.route()
    return ids


def look(world: World, key: str | None = None) -> TriggerInspection:
    return inspection.inspect(world.database, "reorder", key=key)


def shown(found: TriggerInspection) -> str:
    lines = []
    for section in trigger_backlog.sections(found):
        lines += [section.title, section.summary, *(" ".join(row) for row in section.rows[:1])]
        lines += [" ".join(" ".join(str(cell) for cell in row.values()).split()) for row in section.rows]
        lines += [f"and {section.remaining} more"] * bool(section.remaining)
    return "\n".join(lines)


BY_CUSTOMER = {"key": "data.customer"}


def test_nothing_waits_for_a_trigger_without_flow_control(world: World) -> None:
    saved(world)
    emitted(world, "ada")
    found = look(world)
    assert (found.buffers.count, found.concurrency_groups.count, found.matches) == (0, 0, 0)
    assert found.states == {"ready": 1}
    assert [row["state"] for row in found.executions.rows] == ["queued"]
    world.work()
    assert look(world).states == {}


def test_a_trigger_that_does_not_exist_is_an_error(world: World) -> None:
    with pytest.raises(NotFound, match="reorder"):
        look(world)


def test_a_concurrency_group_names_its_holders_and_its_queue(world: World) -> None:
    saved(world, {"concurrency": {"limit": 1, **BY_CUSTOMER}})
    emitted(world, "ada", "ada", "ada", "bob")
    while world.turn.run_once():
        pass
    [first, *_] = world.worker.claim_any(1)
    found = look(world)
    assert found.concurrency_groups.count == 2
    [ada] = look(world, key="ada").concurrency_groups.rows
    assert (ada["capacity"], ada["taken"], ada["waiting"]) == (1, 1, 2)
    [holder] = ada["holders"]
    assert (holder["id"], holder["state"], holder["worker"]) == (first.row.id, "running", "worker")
    places = [one["position"] for one in ada["queue"]]
    assert places == sorted(places)
    assert found.states == {"running": 1, "ready": 1, "waiting_for_slot": 2}
    said = trigger_flow.advice(found, workers=1, embedded=True)
    assert first.row.id in said
    assert f"slot {first.row.id} running worker" in shown(found)


def test_a_throttle_tells_when_the_next_one_starts(world: World) -> None:
    saved(world, {"throttle": {"limit": 6, "period": "1m", **BY_CUSTOMER}})
    emitted(world, "ada", "ada", "ada")
    found = look(world)
    assert found.states == {"ready": 1, "delayed": 2}
    assert "ada in 30 s" in shown(found)
    assert "the next start is in 10 s" in trigger_flow.advice(found, workers=1, embedded=True)
    world.advance(31)
    assert look(world).throttle.count == 0


def test_a_rate_limit_tells_what_it_has_dropped_and_until_when(world: World) -> None:
    saved(world, {"rate_limit": {"limit": 1, "period": "1m", **BY_CUSTOMER}})
    emitted(world, "ada", "ada", "ada", "bob")
    found = look(world)
    assert (found.rate_limit.count, found.dropped) == (2, 2)
    assert found.suppressed == {"rate_limited": 2}
    assert "ada 2 in 60 s" in shown(found)
    assert (look(world, key="bob").dropped, look(world, key="bob").rate_limit.count) == (0, 1)


def test_idempotency_tells_its_keys_the_newest_first(world: World) -> None:
    saved(world, {"idempotency": {**BY_CUSTOMER, "window": "1h"}})
    first, _ = emitted(world, "ada", "ada")
    world.advance(60)
    emitted(world, "bob")
    found = look(world)
    assert [row["key"] for row in found.idempotency_keys.rows] == ["bob", "ada"]
    assert f"ada {first} in 59 min" in shown(found)
    world.advance(3600)
    assert look(world).idempotency_keys.count == 0


def test_an_overlap_tells_what_is_open(world: World) -> None:
    saved(world, {"overlap": {"policy": "buffer_one", **BY_CUSTOMER}})
    emitted(world, "ada", "ada", "ada")
    while world.turn.run_once():
        pass
    [group] = look(world).concurrency_groups.rows
    assert (group["taken"], group["waiting"]) == (1, 1)
    assert look(world).suppressed == {"overlap": 1}


def test_a_shared_concurrency_group_tells_of_the_other_triggers_in_it(world: World) -> None:
    shared = {"concurrency": {"limit": 1, "scope": "global", "key": "'printer'"}}
    saved(world, shared)
    world.trigger("other", "work", {"type": ["stock.gone"]}, flow=shared)
    world.events.emit("stock.gone")
    world.route()
    emitted(world, "ada")
    while world.turn.run_once():
        pass
    [group] = look(world).concurrency_groups.rows
    assert [one["trigger"] for one in group["holders"]] == ["other"]
    assert [one["trigger"] for one in group["queue"]] == ["reorder"]
    assert " other queued" in shown(look(world))


def test_many_keys_are_counted_and_the_first_are_listed(world: World) -> None:
    saved(world, {"idempotency": BY_CUSTOMER})
    emitted(world, *(f"c{number:02d}" for number in range(inspection.MAX_ROWS + 5)))
    found = look(world)
    assert (
        found.idempotency_keys.count,
        len(found.idempotency_keys.rows),
        found.idempotency_keys.remaining,
    ) == (
        inspection.MAX_ROWS + 5,
        inspection.MAX_ROWS,
        5,
    )
    assert "and 5 more" in shown(found)


def test_a_paused_trigger_an_open_breaker_and_the_kill_switch_come_first(world: World) -> None:
    saved(world, {"concurrency": {"limit": 1}})
    emitted(world, "ada")
    world.triggers.pause("reorder", note="stocktaking")
    assert "functory trigger resume reorder" in trigger_flow.advice(look(world), workers=1, embedded=True)
    assert look(world).trigger["note"] == "stocktaking"


def test_a_debounced_key_tells_until_when_it_waits(world: World) -> None:
    saved(world, {"debounce": {"period": "10s", "timeout": "15s", **BY_CUSTOMER}})
    emitted(world, "ada", "ada", "bob")
    found = look(world)
    assert (found.matches, found.buffers.count) == (3, 2)
    assert "ada 2 " in shown(found)
    assert "in 10 s 10s without an event" in shown(found)
    assert "the next decision is in 10 s" in trigger_flow.advice(found, workers=1, embedded=True)
    world.advance(9)
    emitted(world, "ada")
    assert "in 6 s 15s at most" in shown(look(world, key="ada"))
    assert look(world, key="bob").matches == 1
    world.advance(30)
    late = look(world)
    assert "was due" in trigger_flow.advice(late, workers=1, embedded=True)
    while world.turn.run_once():
        pass
    after = look(world)
    assert (after.matches, after.buffers.count, after.suppressed) == (0, 0, {"debounced": 2})


def test_a_batch_tells_how_full_it_is(world: World) -> None:
    saved(world, {"batch": {"max_size": 3, "timeout": "60s"}})
    emitted(world, "ada", "bob")
    said = shown(look(world))
    assert "in 60 s 2 of 3 events" in said
    assert "(no key) 2 " in said


def test_a_composite_tells_what_is_there_and_what_is_missing(world: World) -> None:
    world.function()
    parts = [{"name": name, "on": {"type": [f"order.{name}"]}} for name in ("paid", "packed", "signed")]
    composite = {"all": parts, "within": "1h", "key": "data.order", "allowance": "0s"}
    made = definition.define(function="work", composite=composite)
    world.triggers.save("reorder", made)
    for type_ in ("paid", "paid", "signed"):
        world.events.emit(f"order.{type_}", {"order": 17})
    world.route()
    while world.turn.run_once():
        pass
    found = look(world, key="17")
    assert (found.matches, found.buffers.count) == (3, 1)
    said = shown(found)
    assert "✓ paid 2" in said
    assert "· packed missing" in said
    assert "✓ signed 1" in said
    assert look(world, key="18").buffers.count == 0


def test_a_silence_tells_since_when_nothing_has_come(world: World) -> None:
    world.function()
    composite = {"absence": {"of": {"on": {"type": ["beat"]}}}, "within": "1h", "allowance": "0s"}
    world.triggers.save("reorder", definition.define(function="work", composite=composite))
    world.events.emit("beat")
    world.route()
    world.advance(1)
    while world.turn.run_once():
        pass
    assert "last event " in shown(look(world))
