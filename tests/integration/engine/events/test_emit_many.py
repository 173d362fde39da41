"""Many events in one transaction, and many executions: all of them, or none."""

import itertools
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.errors import Conflict, Invalid, NotFound
from functory.engine.events import emit_many
from functory.engine.executions.start_many import start_many
from tests.integration.engine.database.test_stored_values import VALUES
from tests.support.patience import patient
from tests.support.world import World, on_postgresql

pytest_plugins = ["tests.support.world"]

MAX_BYTES = 10_000


def emit(world: World, events: list[Any]) -> list[str]:
    return emit_many.write(world.database, emit_many.check_all(events, MAX_BYTES))


def test_events_are_written_in_order_with_their_data_and_subjects(world: World) -> None:
    given = [{"type": "order.created", "data": value, "subject": f"s{n}"} for n, value in enumerate(VALUES)]
    ids = emit(world, given)
    assert ids == sorted(ids)
    rows = [world.events.get(id_) for id_ in ids]
    assert [(row["type"], row["data"], row["subject"]) for row in rows] == [
        (one["type"], one["data"], one["subject"]) for one in given
    ]
    assert {row["state"] for row in rows} == {"pending"}
    assert {row["event_id"] for row in world.rows(schema.routing_queue)} == set(ids)


def test_a_trigger_fires_once_for_each_of_many_events(world: World) -> None:
    world.function("work", parameters="event=None")
    world.trigger("on-order", "work", {"type": ["order.created"]})
    ids = emit(world, [{"type": "order.created", "subject": str(n)} for n in range(50)])
    assert world.run_all() == 50
    fired = world.rows(schema.firing, schema.firing.c.decision == "fired")
    assert sorted(row["event_id"] for row in fired) == ids


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"data": 1}, "event 3: the event has no type"),
        ("order.created", "event 3: this is no event"),
        ({"type": "order created"}, "event 3: wrong event type"),
        ({"type": "function.updated"}, "event 3: the event type function.updated is reserved"),
        ({"type": "a", "data": "x" * MAX_BYTES}, "event 3: the event is too large"),
        ({"type": "a", "data": object()}, "event 3: the event is not JSON"),
        ({"type": "a", "subject": ""}, "event 3: wrong event subject"),
        ({"type": "a", "dedup_key": ""}, "event 3: wrong dedup_key"),
        ({"type": "a", "subjekt": "s"}, "event 3: an event has no field 'subjekt'"),
    ],
)
def test_one_wrong_event_is_named_and_nothing_is_written(world: World, wrong: Any, error: str) -> None:
    with pytest.raises(Invalid) as refused:
        emit(world, [{"type": "a"}, {"type": "b"}, wrong, {"type": "c"}])
    assert str(refused.value).startswith(error)
    assert world.rows(schema.event) == []


def test_a_key_is_written_once_within_a_call_and_over_calls(world: World) -> None:
    first = world.events.emit("order.created", dedup_key="k0")
    ids = emit(world, [{"type": "order.created", "dedup_key": key} for key in ("k1", "k0", "k1")])
    assert ids[1] == first and ids[0] == ids[2] and len({*ids}) == 2
    assert emit(world, [{"type": "order.created", "dedup_key": "k1"}, {"type": "order.created"}])[0] == ids[0]
    assert len(world.rows(schema.event)) == 3


def test_a_call_takes_a_bounded_number_of_events_and_bytes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert emit(world, []) == []
    with pytest.raises(Invalid, match=r"too many events\n.* at most 10,000"):
        emit_many.check_all(itertools.repeat({"type": "a"}), MAX_BYTES)
    monkeypatch.setattr(emit_many, "MAX_TOTAL_BYTES", 100)
    with pytest.raises(Invalid, match="the first 3 have 126 bytes"):
        emit(world, [{"type": "a", "data": "x" * 40}] * 4)


@on_postgresql
def test_many_rows_cost_one_statement_for_events_and_one_for_the_routing_queue(world: World) -> None:
    def copied() -> dict[str, int]:
        rows = sa.text("SELECT relname, n_tup_ins FROM pg_stat_xact_user_tables WHERE n_tup_ins > 0")
        return {row.relname: row.n_tup_ins for row in tx.connection.execute(rows)}

    checked = emit_many.check_all([{"type": "a"}] * 500, MAX_BYTES)
    with world.database.write() as tx, world.statements() as statements:
        emit_many.append(tx, checked, source="/functory/api", cause=None)
        assert statements == ["COPY event", "COPY routing_queue"]
        assert copied() == {"event": 500, "routing_queue": 500}


@on_postgresql
def test_a_conflict_in_copied_rows_is_an_error_that_names_no_values(world: World) -> None:
    row = {"quarantined": False, "event_id": world.events.emit("order.created"), "published": False}
    with pytest.raises(sa.exc.IntegrityError) as error, world.database.write() as tx:
        tx.insert(schema.routing_queue, [row] * 5)
    assert row["event_id"] not in str(error.value)
    assert len(world.rows(schema.routing_queue)) == 1


def test_many_executions_are_queued_in_order_or_none(world: World) -> None:
    world.functions.save("def add(a: int, b: int = 1) -> int:\n    return a + b\n")
    ids = start_many(world.database, world.settings, "add", [{"a": n} for n in range(20)], delay=5)
    rows = [world.executions.get(id_) for id_ in ids]
    assert [row["input"] for row in rows] == [{"a": n} for n in range(20)]
    assert {(row["state"], row["cause"], row["depth"]) for row in rows} == {("queued", "api", 0)}
    assert all(row["root_id"] == row["id"] for row in rows)
    assert world.work() == 0
    world.advance(5)
    assert world.run_all() == 20
    with pytest.raises(Invalid, match="input 3 of add v1"):
        start_many(world.database, world.settings, "add", [{"a": 1}, {"a": 2}, {"c": 3}])
    with pytest.raises(NotFound):
        start_many(world.database, world.settings, "gone", [{}])
    world.functions.disable("add")
    with pytest.raises(Conflict, match="disabled"):
        start_many(world.database, world.settings, "add", [{"a": 1}])
    assert len(world.rows(schema.execution)) == 20


def test_a_call_that_is_sent_again_with_its_key_starts_nothing(world: World) -> None:
    world.functions.save("def add(a: int, b: int = 1) -> int:\n    return a + b\n")
    world.functions.save("def other(a: int) -> int:\n    return a\n")
    inputs = [{"a": n} for n in range(700)]

    def start(function: str = "add", given: Sequence[Any] = inputs) -> list[str]:
        return start_many(world.database, world.settings, function, given, idempotency_key="import 7")

    ids = start()
    assert start() == ids
    assert [world.executions.get(id_)["input"] for id_ in ids[:3]] == inputs[:3]
    assert len(world.rows(schema.execution)) == len(world.rows(schema.backlog)) == 700
    for function, given in (("add", inputs[:-1]), ("add", [*inputs, {"a": 1}]), ("other", inputs)):
        with pytest.raises(Conflict, match="idempotency_key"):
            start(function, given)
    with pytest.raises(Invalid, match="idempotency_key"):
        start_many(world.database, world.settings, "add", inputs, idempotency_key="k" * 255)
    assert len(world.rows(schema.execution)) == 700


def test_two_calls_with_one_key_at_the_same_time_start_the_executions_once(world: World) -> None:
    world.functions.save("def add(a: int, b: int = 1) -> int:\n    return a + b\n")
    together = threading.Barrier(4)

    def start(_: int) -> list[str]:
        together.wait(patient(30))
        inputs = [{"a": n} for n in range(50)]
        return start_many(world.database, world.settings, "add", inputs, idempotency_key="one")

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(start, range(4)))
    assert len({tuple(ids) for ids in found}) == 1
    assert sorted(found[0]) == sorted(row["id"] for row in world.rows(schema.execution))
