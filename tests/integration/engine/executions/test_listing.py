"""Pages of executions and events: filters, cursors, bounded work, short ids and search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functory.engine.access.labels import Labels
from functory.engine.database import id_pages, short_ids
from functory.engine.database.clock import time_of_id
from functory.engine.database.connection import Tx
from functory.engine.errors import AmbiguousId, Invalid, NotFound
from functory.engine.events import store as event_store
from functory.engine.executions import event_listing, global_search, id_lookup, listing
from functory.engine.executions.event_listing import EventFilter
from functory.engine.executions.listing import ExecutionFilter
from functory.engine.maintenance import lost_workers
from tests.support.orders import ORDER
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def pages(world: World, limit: int = 50, scope: Any = None, **fields: Any) -> Iterator[list[dict[str, Any]]]:
    before: str | None = None
    while True:
        found = listing.page(
            world.database, ExecutionFilter(**fields), before=before, limit=limit, scope=scope
        )
        yield found.rows
        if (before := found.next) is None:
            return


def listed(world: World, limit: int = 50, **fields: Any) -> list[str]:
    return [row["id"] for page in pages(world, limit, **fields) for row in page]


def ended(world: World, outcome: str, function: str = "work", **input_: Any) -> str:
    row = world.executions.start(function, input_)
    world.finish(world.claim(row), outcome)
    return row["id"]


@pytest.fixture
def shop(world: World) -> World:
    world.function("work", limits={"retries": 0})
    world.function("bill", limits={"retries": 0})
    world.trigger("on-order", "bill", ORDER)
    return world


def test_each_filter_has_its_executions_and_no_others(shop: World) -> None:
    good, bad, late = ended(shop, "succeeded", n=1), ended(shop, "failed", n=2), ended(shop, "timed_out", n=3)
    event_id = shop.events.emit("order.created", {"n": 1}, subject="order 1")
    shop.route()
    (billed,) = shop.executions.list(function="bill")
    waiting = shop.start()["id"]
    again = shop.executions.replay(bad)["id"]
    everything = {good, bad, late, billed["id"], waiting, again}
    asked: dict[str, tuple[dict[str, Any], set[str]]] = {
        "none": ({}, everything),
        "function": ({"functions": ["bill"]}, {billed["id"]}),
        "functions": ({"functions": ["bill", "work"]}, everything),
        "state": ({"states": ["failed"]}, {bad}),
        "bad states": ({"states": ["failed", "timed_out", "dead"]}, {bad, late}),
        "mixed states": ({"states": ["failed", "succeeded"]}, {bad, good}),
        "open": ({"states": ["queued", "running"]}, {billed["id"], waiting, again}),
        "trigger": ({"triggers": ["on-order"]}, {billed["id"]}),
        "trigger and state": ({"triggers": ["on-order"], "states": ["failed"]}, set()),
        "cause": ({"causes": ["replay"]}, {again}),
        "event": ({"event": event_id}, {billed["id"]}),
        "root": ({"root": event_id}, {billed["id"]}),
        "replays": ({"replay_of": bad}, {again}),
        "roots": ({"roots": True}, everything),
        "version": ({"version": 1, "functions": ["work"]}, everything - {billed["id"]}),
        "text": ({"text": '"n":2'}, {bad, again}),
        "unresolved": ({"unresolved": True}, {bad, late}),
        "unresolved of a state": ({"unresolved": True, "states": ["succeeded"]}, set()),
        "since": ({"since": time_of_id(again) + timedelta(seconds=5)}, set()),
        "until": ({"until": time_of_id(good) - timedelta(seconds=5)}, set()),
        "time": (
            {
                "since": time_of_id(good) - timedelta(seconds=1),
                "until": time_of_id(again) + timedelta(seconds=1),
            },
            everything,
        ),
        "nothing of this name": ({"functions": ["none"]}, set()),
        "no trigger of this name": ({"triggers": ["none"]}, set()),
    }
    for name, (fields, expected) in asked.items():
        found = listed(shop, limit=2, **fields)
        assert (set(found), len(found)) == (expected, len(expected)), name


def test_a_row_says_what_it_is_about_and_what_started_it(shop: World) -> None:
    shop.events.emit("order.created", {"n": 1}, subject="order 1")
    shop.route()
    plain = shop.executions.start("work", {"sku": "A1", "more": {"n": 2}})["id"]
    rows = {row["function"]: row for page in pages(shop) for row in page}
    assert rows["bill"]["about"] == "order 1" and rows["bill"]["cause_name"] == "on-order"
    assert rows["work"]["about"] == "sku=A1 more.n=2" and rows["work"]["cause_name"] is None
    assert "input" not in rows["work"] and rows["work"]["queued_seconds"] is None
    claim = shop.claim({"id": plain})
    shop.advance(2)
    shop.finish(claim, "failed", error={"type": "KeyError", "message": "secret"})
    row = listing.row_of(shop.database, plain)
    assert (row["error_type"], row["run_seconds"], row["queued_seconds"]) == ("KeyError", 2.0, 0.0)
    assert "error" not in row


def test_the_executions_of_a_trigger_are_in_the_order_of_their_events(shop: World) -> None:
    events = [shop.events.emit("order.created", {"n": n}) for n in range(5)]
    shop.route()
    rows = [row for page in pages(shop, 2, triggers=["on-order"]) for row in page]
    assert [row["event_id"] for row in rows] == events[::-1]


def test_a_page_looks_at_no_more_rows_than_its_window_and_says_where_it_stopped(shop: World) -> None:
    wanted = ended(shop, "failed", n=0)
    others = [shop.start()["id"] for _ in range(7)]
    t = listing.execution
    seen: list[list[str]] = []
    before: str | None = None
    for _ in range(9):
        with shop.database.read() as tx:
            found = id_pages.find(
                tx, t.c.id, [id_pages.Way(t.c.id)], [t.c.state == "failed"], before=before, limit=5, window=3
            )
        seen.append(found.ids)
        before = found.next
        if before is None:
            break
    assert seen == [[], [], [wanted]] and len(others) == 7


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_pages_find_each_row_that_fits_once_whatever_their_window_is(
    shop: World, data: st.DataObject
) -> None:
    t = listing.execution
    with shop.database.read() as tx:
        ids = [row["id"] for row in tx.rows(sa.select(t.c.id).order_by(t.c.id.desc()))]
    if len(ids) < 60:
        ids = [*reversed([shop.start()["id"] for _ in range(60)]), *ids]
    fitting = data.draw(st.sets(st.sampled_from(ids)))
    window, limit = data.draw(st.integers(1, 70)), data.draw(st.integers(1, 9))
    found: list[str] = []
    before: str | None = None
    for _ in range(2 * len(ids)):
        with shop.database.read() as tx:
            page = id_pages.find(
                tx,
                t.c.id,
                [id_pages.Way(t.c.id)],
                [t.c.id.in_(fitting)],
                before=before,
                limit=limit,
                window=window,
            )
        assert len(page.ids) <= limit
        found += page.ids
        before = page.next
        if before is None:
            break
    assert before is None and found == sorted(fitting, reverse=True)


def test_a_bad_end_is_listed_from_its_end_until_it_is_pruned(shop: World) -> None:
    dead = shop.start()
    shop.claim(dead)
    for _ in range(10):
        shop.advance(shop.lease + 1)
        lost_workers.reap(shop.database, cancel_grace=10)
        if shop.executions.get(dead["id"])["state"] == "dead":
            break
        shop.advance(60)
        shop.claim(dead)
    assert listed(shop, states=["dead"]) == [dead["id"]]
    assert [row["id"] for row in shop.executions.list(state="dead")] == [dead["id"]]


@pytest.mark.parametrize(
    "fields",
    [
        {"states": ["lost"]},
        {"causes": ["luck"]},
        {"functions": ["f"] * 21},
        {"text": "x"},
        {"text": "x" * 201},
    ],
)
def test_a_filter_that_cannot_be_answered_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        ExecutionFilter(**fields)


INSERTS = st.lists(st.sampled_from(["succeeded", "failed", "queued"]), max_size=2)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_pages_are_a_partition_of_the_rows_that_were_there_whatever_is_inserted_meanwhile(
    shop: World, data: st.DataObject
) -> None:
    def insert() -> None:
        for outcome in data.draw(INSERTS):
            if outcome == "queued":
                shop.start()
            else:
                ended(shop, outcome)

    fields = data.draw(
        st.sampled_from(
            [{}, {"states": ["failed"]}, {"states": ["failed", "timed_out"]}, {"functions": ["work", "bill"]},
             {"states": ["succeeded", "failed"]}, {"causes": ["api"]}]
        )
    )  # fmt: skip
    # What earlier examples have made is beyond the pages.
    began = shop.start()["id"]
    for outcome in ("failed", "succeeded", "failed"):
        ended(shop, outcome)
    insert()
    there = [id_ for id_ in listed(shop, limit=1000, **fields) if id_ > began]
    found: list[str] = []
    for page in pages(shop, data.draw(st.integers(1, 3)), **fields):
        found += [row["id"] for row in page]
        if not page or page[-1]["id"] < began:
            break
        insert()
    assert [id_ for id_ in found if id_ in set(there)] == there
    assert len(found) == len(set(found))


def test_pages_do_not_show_what_the_labels_of_a_caller_hide(shop: World) -> None:
    mine, other = ended(shop, "failed", "bill"), ended(shop, "failed")
    Labels(shop.database).function("bill", add=["team:a"])
    for fields in ({}, {"states": ["failed"]}, {"functions": ["bill", "work"]}, {"unresolved": True}):
        found = [row["id"] for page in pages(shop, scope=["team:a"], **fields) for row in page]
        assert found == [mine]
    with pytest.raises(NotFound):
        listing.check_visible(shop.database, other, ["team:a"])
    with pytest.raises(NotFound):
        id_lookup.resolve(shop.database, short_ids.short(other), ["execution"], ["team:a"])
    assert {
        row["id"] for row in global_search.search(shop.database, short_ids.short(other)[:4], ["team:a"])
    } >= {mine}
    assert other not in {
        row["id"] for row in global_search.search(shop.database, short_ids.short(other), ["team:a"])
    }


def test_events_are_found_by_each_filter(shop: World) -> None:
    one = shop.events.emit("order.created", {"n": 1}, subject="order 1")
    two = shop.events.emit("order.paid", {"sum": "a lot"}, subject="order 2")
    before = {row["id"] for row in event_listing.page(shop.database, EventFilter(states=["pending"])).rows}
    assert before >= {one, two}
    shop.route()

    def found(**fields: Any) -> set[str]:
        ids: set[str] = set()
        key: str | None = None
        while True:
            got = event_listing.page(shop.database, EventFilter(**fields), before=key, limit=1)
            ids |= {row["id"] for row in got.rows}
            if (key := got.next) is None:
                return ids

    assert found(types=["order.created"]) == {one}
    assert found(types=["order.created", "order.paid"]) == {one, two}
    assert found(types=["order.created", "order.paid"], subject="order 2") == {two}
    assert found(root=one, types=["order.created"]) == {one}
    assert found(states=["pending"]) == found(states=["quarantined"]) == set()
    three = shop.events.emit("order.sent", source="/functory/webhook/orders")
    assert found(source="/functory/webhook/orders") == {three}
    assert found(source="/functory/webhook/orders", types=["order.sent"]) == {three}
    assert (
        found(source="/functory/webhook/orders", types=["order.paid"])
        == found(source="/functory/webhook")
        == set()
    )
    assert found(text="a lot") == {two} and found(text="ORDER 1") >= {one}
    (row,) = event_listing.page(shop.database, EventFilter(types=["order.created"])).rows
    assert (row["fired"], row["suppressed"]) == (1, 0) and "data" not in row
    with pytest.raises(Invalid, match="needs a type"):
        EventFilter(subject="order 1")


def test_a_short_id_leads_to_one_row_or_to_its_candidates(shop: World) -> None:
    made: list[str] = []
    with shop.database.write() as tx:
        made = _two_with_one_short_id(tx, shop)
    short = short_ids.short(made[0])
    with pytest.raises(AmbiguousId) as caught:
        id_lookup.resolve(shop.database, short, ["event"])
    assert {one["id"] for one in caught.value.candidates} == set(made)
    assert all(id_ in str(caught.value) for id_ in made) and caught.value.code == 3
    alone = shop.start()["id"]
    for text in (short_ids.short(alone), short_ids.short(alone).upper(), alone, alone[:24]):
        assert id_lookup.resolve(shop.database, text, ["execution"]) == alone
    for text in ("h0", "not an id", "zzzzzzzzzz"):
        with pytest.raises(NotFound):
            id_lookup.resolve(shop.database, text, ["execution", "event"])


def _two_with_one_short_id(tx: Tx, world: World) -> list[str]:
    first = world.database.new_id()
    other = first[:-2] + ("00" if first[-2:] != "00" else "11")
    rows = [
        event_store.record(tx, "order.paid", None, {}, source="/test") | {"id": id_, "root_id": id_}
        for id_ in (first, other)
    ]
    event_store.append(tx, rows)
    return [first, other]


def test_search_finds_names_by_a_part_and_ids_by_their_beginning(shop: World) -> None:
    id_ = ended(shop, "failed")

    def kinds(text: str) -> list[tuple[str, str]]:
        return [(row["kind"], row["name"]) for row in global_search.search(shop.database, text)]

    assert kinds("ORD") == [("trigger", "on-order")]
    assert kinds("wor")[0] == ("function", "work")
    assert ("execution", "work") in kinds(short_ids.short(id_))
    assert kinds(id_) == [("execution", "work")]
    assert kinds("%") == kinds("  ") == []
    version = shop.functions.get("work")
    assert global_search.search(shop.database, version["id"])[0]["name"] == "work@1"
    assert len(global_search.search(shop.database, short_ids.short(id_)[:4])) <= global_search.MAX_RESULTS


def test_the_last_log_lines_and_those_after_one_are_read_alone(shop: World) -> None:
    row = shop.start()
    lines = [
        {"seq": n, "stream": "stdout", "level": "info", "text": f"line {n}", "offset_seconds": n / 10}
        for n in range(1, 8)
    ]
    shop.finish(shop.claim(row), logs=lines)
    read: Callable[..., list[str]] = lambda **asked: [  # noqa: E731
        line["text"] for line in shop.executions.logs(row["id"], **asked)
    ]
    assert read() == [f"line {n}" for n in range(1, 8)]
    assert read(tail=2) == ["line 6", "line 7"]
    assert read(after=(1, 5)) == ["line 6", "line 7"]
    assert read(after=(1, 2), limit=2) == ["line 3", "line 4"]
    assert read(after=(2, 0)) == []
    assert read(fence=1, tail=1) == ["line 7"]
    assert read(fence=2) == []
