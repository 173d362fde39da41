"""Odd values and texts: stored as they are, made visible, or refused."""

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.errors import Invalid
from functory.engine.events import emit_many as many

if TYPE_CHECKING:
    pass

pytest_plugins = ["tests.support.world"]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


VALUES = [
    "naïve 漢字 🦆",
    "a\x00b",
    "\ud800 lone",
    {"\udfff": "\x00", "": None},
    2**63 - 1, 2**63, -(2**64), 10**40, 0.1, -0.0, 1e308, True, None,
    [], {}, "", [[[]]],
    nested(200),
    "'; DROP TABLE event; --", "%(x)s :y ?",
]  # fmt: skip


def test_any_json_value_survives_wherever_it_is_stored(world):
    world.function("work")
    for number, value in enumerate(VALUES, 1):
        row = world.executions.start("work", {"value": value})
        claim = world.claim(row)
        assert claim.row.input == {"value": value}
        world.finish(claim, result=value)
        assert world.executions.get(row["id"])["result"] == value
        assert (
            world.rows(schema.event, schema.event.c.type == "execution.succeeded")[-1]["data"]["output"]
            == value
        )
        assert world.events.get(world.events.emit("order.created", value))["data"] == value
        world.state.set("work", "key", value)
        assert world.state.get("work", "key") == (value, number)
        assert type(world.state.get("work", "key")[0]) is type(value)
        assert world.function("work", metadata={"value": value})["metadata"] == {"value": value}
    world.route()
    assert world.lineage.open_work()["pending events"] == 0


LINES = ["\\N", "\\.", "a\tb", "a\nb\r\n", "\\", "\\t", '"', "\\\\x41", "\t\n", " ", "NULL", "\x7f\x85\u2028"]


def emit_many(world, events):
    return many.write(world.database, many.check_all(events, world.settings.max_event_bytes))


def test_many_rows_are_stored_as_one_row_is(world):
    world.function("work")
    values = [*VALUES, *LINES, {text: [text] for text in LINES}]
    subjects = [text for text in (*LINES, "a\x00b", "\ud800") for _ in range(3)]
    several = emit_many(world, [{"type": "order.created", "data": value} for value in values])
    several += emit_many(world, [{"type": "order.created", "subject": subject} for subject in subjects])
    alone = [world.events.emit("order.created", value) for value in values]
    alone += [world.events.emit("order.created", subject=subject) for subject in subjects]
    stored = {row["id"]: (row["data"], row["subject"]) for row in world.rows(schema.event)}
    assert [stored[id_] for id_ in several] == [stored[id_] for id_ in alone]
    assert [stored[id_][0] for id_ in several[: len(values)]] == values
    assert [type(stored[id_][0]) for id_ in several[: len(values)]] == [type(value) for value in values]


@pytest.mark.parametrize("values", [[1, True, 1.0, 1], [0, False, -0.0, 0], [[1], [True], [1.0], [1]]])
def test_equal_values_of_different_types_stay_different_in_many_rows(world, values):
    ids = emit_many(world, [{"type": "order.created", "data": value} for value in values])
    stored = {row["id"]: row["data"] for row in world.rows(schema.event)}
    assert [repr(stored[id_]) for id_ in ids] == [repr(value) for value in values]


NOT_JSON = [
    float("nan"),
    float("inf"),
    {(1, 2): 3},
    object(),
    nested(300),
    nested(5000),
    10**5000,
]


def test_what_is_not_json_is_refused_wherever_it_is_given(world):
    world.function("work")
    for value in NOT_JSON:
        for give in (
            lambda v=value: world.events.emit("order.created", v),
            lambda v=value: world.executions.start("work", {"value": v}),
            lambda v=value: world.state.set("work", "key", v),
            lambda v=value: world.function("work", metadata={"value": v}),
        ):
            with pytest.raises(Invalid):
                give()
    assert (world.executions.list(), world.rows(schema.state), world.types()) == (
        [],
        [],
        ["function.created"],
    )


def test_texts_that_a_database_cannot_hold_are_made_visible_or_refused(world):
    event = world.events.emit("order.created", subject="a\x00\ud800b")
    assert world.events.get(event)["subject"] == "a\\x00\\ud800b"
    world.function("work")
    for key in ("a\x00b", "\ud800"):
        for refused in (
            lambda k=key: world.events.emit("order.created", dedup_key=k),
            lambda k=key: world.start(idempotency_key=k),
            lambda k=key: world.state.set("work", k, 1),
        ):
            with pytest.raises(Invalid):
                refused()
        for looked in (
            lambda k=key: world.events.list(type_=k),
            lambda k=key: world.executions.list(function=k),
            lambda k=key: world.state.get("work", k),
        ):
            try:
                assert not looked()
            except Invalid as error:
                assert "cannot hold that value" in str(error)
    log = {"seq": 1, "stream": "stdout", "level": "info", "text": "a\x00\ud800b", "offset_seconds": 0.0}
    claim = world.claim(world.start())
    world.finish(claim, "failed", logs=[log], error={"type": "E", "message": "\x00\ud800"}, retryable=False)
    assert world.executions.logs(claim.id)[0]["text"] == "a\\x00\\ud800b"
    assert world.executions.get(claim.id)["error"]["message"] == "\x00\ud800"


@pytest.mark.parametrize(("size", "fits"), [(1_048_576, True), (1_048_577, False)])
def test_data_beyond_a_mebibyte_is_refused_and_one_of_exactly_that_size_is_not(world, size, fits):
    world.function("work")
    text = "x" * (size - 2)
    given = {"v": "x" * (size - len('{"v":""}'))}
    if fits:
        assert world.events.get(world.events.emit("order.created", text))["data"] == text
        assert world.executions.start("work", given)["state"] == "queued"
        return
    for give in (
        lambda: world.events.emit("order.created", text),
        lambda: world.executions.start("work", given),
    ):
        with pytest.raises(
            Invalid, match=r"(?s)too large.*1,048,577 bytes; at most 1,048,576 are taken.*try: "
        ):
            give()
    assert world.types() == ["function.created"]


def test_a_wrong_or_reserved_event_type_is_refused(world):
    reserved = ["execution.succeeded", "function.mine", "trigger.x"]
    for type_ in ("", "a b", "a..b", ".a", "a\x00", *reserved, "x" * 256, None, 5):
        with pytest.raises(Invalid, match="event type"):
            world.events.emit(type_)
    assert world.types() == []


def test_a_wrong_subject_is_refused(world):
    for subject in ("", "x" * 1025, 5):
        with pytest.raises(Invalid, match="wrong event subject"):
            world.events.emit("order.created", subject=subject)


def test_a_statement_that_fails_does_not_show_its_parameters(world):
    world.function("work")
    with pytest.raises(sa.exc.IntegrityError) as caught, world.database.write() as tx:
        row = world.rows(schema.function)[0]
        tx.insert(schema.function, [row | {"id": tx.new_id(), "state": "hunter2"}])
    assert "hunter2" not in str(caught.value)
