"""Rates of what comes in over HTTP without lineage: by source over all subjects, and by content. On both databases."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.events.cloudevents import Inbox, IncomingEvent
from functory.engine.firings import usual_rates
from functory.engine.settings import Settings
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

ON = {"type": ["thing.sent"]}


def send(world: World, count: int, *, first: int = 0, **fields: Any) -> None:
    """Events from another system, each with a subject and data of its own unless the fields say otherwise."""
    for number in range(first, first + count):
        given = {"subject": f"s{number}", "data": {"n": number}} | fields
        one = IncomingEvent("thing.sent", f"/sender/{number}", str(number), time=None, extensions={}, **given)
        Inbox(world.database, 10_000).ingest([one])


def decided(world: World) -> Counter[str]:
    """How often each decision was made: ``fired``, or why not."""
    return Counter(reason or "fired" for _, reason in world.route())


@pytest.fixture
def heard(world: World) -> Callable[..., World]:
    def listen(**guards: int) -> World:
        world.function("work")
        world.trigger("t", "work", ON, guards=guards)
        return world

    return listen


def test_all_subjects_of_a_source_count_together(heard: Callable[..., World]) -> None:
    world = heard(rate=2, source_rate=5)
    send(world, 9)
    assert decided(world) == {"fired": 5, "source_rate": 4}
    (first, *_) = [row for row in world.rows(schema.firing) if row["reason"] == "source_rate"]
    assert (first["limit_value"], first["actual_value"]) == (5, 6)
    assert first["detail"] == "more than 5 a minute from /events"
    world.advance(60)
    send(world, 5, first=100)
    assert decided(world) == {"fired": 5}


def test_a_refused_match_uses_none_of_its_rates(heard: Callable[..., World]) -> None:
    world = heard(rate=1, source_rate=2)
    send(world, 2)
    send(world, 1, first=50, subject="late")
    assert decided(world) == {"fired": 2, "source_rate": 1}
    world.advance(30)
    send(world, 1, first=60, subject="late")
    assert decided(world) == {"fired": 1}


def test_the_breaker_opens_after_the_source_has_exceeded_its_rate_five_times(
    heard: Callable[..., World],
) -> None:
    world = heard(source_rate=3)
    send(world, 10)
    assert decided(world) == {"fired": 3, "source_rate": 5, "breaker_open": 2}
    world.advance(301)
    send(world, 1, first=100)
    assert decided(world) == {"fired": 1}


def test_the_same_content_counts_by_itself_and_leaves_the_rest_alone(heard: Callable[..., World]) -> None:
    world = heard(repeat_rate=3)
    same = {"subject": "hook", "data": {"n": 0}}
    send(world, 20, **same)
    send(world, 5, first=50)
    assert decided(world) == {"fired": 3 + 5, "repeat_rate": 17}, "and the breaker stays closed"
    details = {row["detail"] for row in world.rows(schema.firing) if row["reason"] == "repeat_rate"}
    assert details == {"more than 3 a minute with the same content from /events"}
    world.advance(20)
    send(world, 3, first=100, **same)
    assert decided(world) == {"fired": 1, "repeat_rate": 2}


def test_copies_of_a_webhook_request_differ_only_in_their_headers(heard: Callable[..., World]) -> None:
    world = heard(repeat_rate=2)
    for number in range(4):
        data = {"webhook": "w", "headers": {"x-id": str(number)}, "query": {}, "body": {"a": 1}}
        send(world, 1, first=number, subject="w", data=data)
    assert decided(world) == {"fired": 2, "repeat_rate": 2}


def test_other_events_have_no_such_rates(heard: Callable[..., World]) -> None:
    world = heard(source_rate=1, repeat_rate=1)
    for _ in range(5):
        world.events.emit("thing.sent", {"n": 0}, subject="s")
    claim = world.claim(world.start())
    for number in range(5):
        world.events.emit("thing.sent", {"n": 0}, subject=f"{number}", cause=claim.cause)
    assert decided(world) == {"fired": 10}


@pytest.mark.parametrize(("guards", "fired"), [
    ({}, 60),  # the setting for the same content
    ({"rate": 70}, 70),
    ({"rate": 0}, 80),
    ({"repeat_rate": 0}, 80),
    ({"repeat_rate": 7, "rate": 70}, 7),
])  # fmt: skip
def test_a_raised_rate_raises_what_would_cut_it(
    heard: Callable[..., World], guards: dict[str, int], fired: int
) -> None:
    world = heard(**guards)
    send(world, 80, subject="s", data=None)
    assert decided(world)["fired"] == fired


def test_a_steady_source_of_fifty_a_second_is_not_stopped(make_world: Callable[..., World]) -> None:
    world = make_world(batch_size=1000)
    world.function("work")
    world.trigger("t", "work", ON)
    inbox = Inbox(world.database, 10_000)
    decisions: Counter[str] = Counter()
    for second in range(60):
        numbers = range(second * 50, second * 50 + 50)
        inbox.ingest([
            IncomingEvent("thing.sent", "/sensor", str(n), f"s{n % 7}", None, {"n": n}, {}) for n in numbers
        ])  # fmt: skip
        decisions += decided(world)
        world.advance(1)
    assert decisions == {"fired": 3000}
    assert Settings().trigger_source_rate >= 4 * 3000


def fired_before(world: World, minutes_ago: int, count: int) -> None:
    """Firings of the trigger, by events that came some minutes ago: the ids have their times."""
    (trigger,) = world.rows(schema.trigger)
    at = world.clock.now() - timedelta(minutes=minutes_ago)
    with world.database.write() as tx:
        for number in range(count):
            digits = f"{int(at.timestamp() * 1000) + number:012x}"
            row = {
                "trigger_id": trigger["id"],
                "event_id": f"{digits[:8]}-{digits[8:]}-7000-8000-000000000000",
            }
            row |= {"trigger_version": 1, "decision": "fired", "root_id": row["event_id"], "time": at}
            tx.insert(schema.firing, [row])


def test_a_source_that_is_usually_busy_has_a_wider_rate(heard: Callable[..., World]) -> None:
    world = heard(source_rate=10)
    for hour in range(24):
        # A day in which eleven hours are quiet.
        fired_before(world, 60 * hour + 1, 2 if hour < 13 else 0)
    (trigger,) = world.rows(schema.trigger)
    with world.database.read() as tx:
        assert usual_rates.median_per_minute(tx, trigger["id"]) == 2
    send(world, 135)
    assert decided(world) == {"fired": 120, "source_rate": 5, "breaker_open": 10}


def test_the_usual_rate_is_counted_once_an_hour_and_only_when_it_matters(heard: Callable[..., World]) -> None:
    world = heard(source_rate=3)
    with world.statements() as calm:
        send(world, 2)
        world.route()
    assert not [text for text in calm if "minute0" in text]
    with world.statements() as first:
        send(world, 3, first=10)
        world.route()
    assert len([text for text in first if "minute0" in text]) == 1
    with world.statements() as second:
        send(world, 2, first=20)
        world.route()
    assert not [text for text in second if "minute0" in text]
    (row,) = world.rows(schema.breaker)
    assert row["usual_rate"] == 0 and row["usual_until"] - world.database.clock.now() <= timedelta(hours=1)


def test_an_arrival_over_http_costs_no_statement_more(world: World) -> None:
    world.function("work")
    world.trigger("t", "work", ON)

    def routing(emit: Callable[[], Any]) -> int:
        emit()
        with world.statements() as found:
            world.router.route_batch()
        return len(found)

    routing(lambda: world.events.emit("thing.sent", {"n": 1}, subject="first"))
    plain = routing(lambda: world.events.emit("thing.sent", {"n": 1}, subject="s"))
    assert routing(lambda: send(world, 1)) == plain


def test_the_rate_of_a_source_is_exact_with_two_routers(make_world: Callable[..., World]) -> None:
    worlds = [make_world(batch_size=3) for _ in range(2)]
    worlds[0].function("work")
    worlds[0].trigger("t", "work", ON, guards={"source_rate": 20})
    send(worlds[0], 50)

    def route(one: World) -> None:
        while one.lineage.open_work()["pending events"]:
            one.router.route_batch()

    threads = [threading.Thread(target=route, args=(one,)) for one in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    firings = Counter(row["decision"] for row in worlds[0].rows(schema.firing))
    assert firings == {"fired": 20, "suppressed": 30}
