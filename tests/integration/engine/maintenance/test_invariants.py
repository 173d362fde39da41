"""The invariants have teeth: each is broken by hand, and only it is counted; and nothing ordinary is ever counted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from functory.engine.database import schema
from functory.engine.database.clock import ManualClock, time_of_id
from functory.engine.errors import Invalid, Refused
from functory.engine.events import routing_queue
from functory.engine.executions import root_budget
from functory.engine.maintenance import state_gauges, verifier
from functory.engine.maintenance.invariants import CODES, InvariantResult, verify
from functory.engine.maintenance.verifier import Verifier
from functory.triggers.analysis.routing_audit import audit_routing
from tests.support import (  # noqa: F401  (they add to BREAKS)
    canary_violations,
    model_violations,
    proposal_violations,
    run_violations,
)
from tests.support.invariant_violations import BREAKS, Break, change, first, remove
from tests.support.ordinary_history import (
    NOTHING,
    broken,
    drained,
    ordinary,
    settle,
)
from tests.support.world import World, migrated_template

pytest_plugins = ["tests.support.world"]

t = schema


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world whose clock begins with the present: ids tell their time, and the queries believe them."""
    return make_world(clock=ManualClock(datetime.now(UTC)), verify_seconds=60)


def test_nothing_ordinary_is_counted(world: World) -> None:
    ordinary(world)
    reasons = {row["reason"] for row in world.rows(t.firing)}
    assert {None, "shadow", "trigger_paused", "function_unavailable", "rate_limited", "depth"} <= reasons
    assert any(row["joint"] for row in world.rows(t.firing))
    states = {row["state"] for row in world.rows(t.execution)}
    assert states == {"succeeded", "failed", "timed_out", "cancelled", "dead", "expired"}
    assert drained(world) == NOTHING
    assert broken(world) == NOTHING
    assert broken(world, since=world.clock.now() - timedelta(minutes=10)) == NOTHING


def test_what_is_open_is_counted_only_when_nothing_should_be(world: World) -> None:
    world.function()
    world.trigger("plain", "work", {"type": ["plain"]})
    settle(world)
    world.work()
    world.start()
    world.claim(world.start())
    world.events.emit("plain")
    assert broken(world) == NOTHING
    # The start of the one that runs is an event as well.
    assert drained(world) == {"I1": 2, "I5": 2}


def test_every_invariant_is_asked_in_its_order_and_tells_how_long_it_took(world: World) -> None:
    found = verify(world.database, world.settings)
    assert [one.code for one in found] == [f"I{n}" for n in range(1, 31) if n != 20] == list(CODES)
    assert all(one.seconds > 0 and one.title for one in found)
    (one,) = verify(world.database, world.settings, only=["I7"])
    assert one == InvariantResult("I7", one.title, 0, (), one.seconds)
    with pytest.raises(Invalid, match="no invariant I20"):
        verify(world.database, world.settings, only=["I20"])


def test_a_budget_that_is_lowered_below_what_was_spent_is_spent(world: World) -> None:
    world.function()
    world.trigger("plain", "work", {"type": ["plain"]})
    world.route()
    claim = world.claim(world.start())
    for _ in range(3):
        world.start(parent=claim.cause)
    with world.database.write() as tx:
        root_budget.set_maximum(tx, claim.row.root_id, 1)
    with pytest.raises(Refused, match="budget"):
        world.start(parent=claim.cause)
    assert broken(world) == NOTHING


def test_examples_are_as_many_as_are_asked_for_and_the_count_is_of_all(world: World) -> None:
    world.function()
    ids = [world.start()["id"] for _ in range(7)]
    (one,) = verify(world.database, world.settings, only=["I5"], patience=0, examples=2)
    assert (one.count, len(one.examples)) == (7, 2)
    assert one.examples[0] == f"execution {min(ids)} of work is still queued"
    (one,) = verify(world.database, world.settings, only=["I5"], patience=0, examples=0)
    assert (one.count, one.examples) == (7, ())


def test_braces_in_names_are_reported_as_they_are(world: World) -> None:
    world.function()
    world.events.emit("plain", subject="{id}")
    with world.database.write() as tx:
        tx.execute(sa.update(t.execution).values(function="{name} {x}"))
    world.start()
    with world.database.write() as tx:
        tx.execute(sa.update(t.execution).values(function="{name} {x}"))
    (one,) = verify(world.database, world.settings, only=["I5"], patience=0)
    assert "{name} {x}" in one.examples[0]


def test_each_invariant_is_broken_somewhere() -> None:
    assert {code for code, _, _ in BREAKS} == set(CODES)


@dataclass(frozen=True)
class Story:
    """An ordinary history that is made once; `again` gives a world of its own over a copy of it."""

    ids: Mapping[str, str]
    now: datetime
    again: Callable[[], AbstractContextManager[str]]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("story")
    if request.param == "sqlite":
        whole, one = folder / "whole.db", folder / "one.db"
        shutil.copy(request.getfixturevalue("migrated_file"), whole)

        @contextmanager
        def again() -> Iterator[str]:
            for suffix in ("-wal", "-shm"):
                Path(f"{one}{suffix}").unlink(missing_ok=True)
            shutil.copy(whole, one)
            yield f"sqlite:///{one}"

        yield _story(f"sqlite:///{whole}", folder, again)
        return
    server = request.getfixturevalue("postgres_server")
    with server.database(migrated_template(server, request.getfixturevalue("run_folder"))) as url:
        name = sa.make_url(url).database
        yield _story(url, folder, lambda: server.database(name))


def _story(url: str, home: Path, again: Callable[[], AbstractContextManager[str]]) -> Story:
    world = World(url, home, clock=ManualClock(datetime.now(UTC)))
    ids = ordinary(world)
    world.close()
    return Story(ids, world.clock.now(), again)


@pytest.mark.parametrize(
    ("code", "act"),
    [pytest.param(code, act, id=f"{code}-{name}".replace(" ", "-")) for code, name, act in BREAKS],
)
def test_what_is_broken_is_counted_and_nothing_else(
    story: Story, tmp_path: Path, code: str, act: Break
) -> None:
    with story.again() as url:
        world = World(url, tmp_path, clock=ManualClock(story.now))
        try:
            act(world, story.ids)
            found = {one.code: one for one in verify(world.database, world.settings) if one.count}
        finally:
            world.close()
    assert set(found) == {code}, {key: one.examples for key, one in found.items()}
    assert found[code].examples and all("{" not in words for words in found[code].examples)


def test_the_scheduler_looks_when_it_is_due_and_only_one_of_two_does(
    make_world: Callable[..., World],
) -> None:
    world = make_world(clock=ManualClock(datetime.now(UTC)), verify_seconds=60)
    one, two = Verifier(world.database, world.settings), Verifier(world.database, world.settings)
    assert one.verify_if_due() == []  # it has just started
    world.advance(60)
    assert [found.code for found in one.verify_if_due()] == list(CODES)
    assert two.verify_if_due() == []
    world.advance(60)
    assert sorted(found.code for found in two.verify_if_due()) == sorted(CODES)
    assert one.verify_if_due() == []


def test_no_scheduler_verifies_when_the_setting_is_off(make_world: Callable[..., World]) -> None:
    world = make_world(verify_seconds=0)
    watch = Verifier(world.database, world.settings)
    world.advance(10_000)
    with world.statements() as sent:
        assert watch.verify_if_due() == []
    assert sent == []


def test_a_look_that_nothing_is_due_for_is_not_even_a_statement(make_world: Callable[..., World]) -> None:
    world = make_world(clock=ManualClock(datetime.now(UTC)), verify_seconds=300)
    watch = Verifier(world.database, world.settings)
    world.advance(60)
    assert watch.verify_if_due()
    with world.statements() as sent:
        watch.verify_if_due()
    assert sent == []
    world.advance(30)
    with world.statements() as sent:
        assert watch.verify_if_due() == []
    assert len(sent) == 2


def gauge(name: str, world: World, **labels: str) -> float | None:
    gauges = {one.name: one for one in state_gauges.read(world.database, world.settings)}
    return next((one.value for one in gauges[name].samples if one.labels == labels), None)


def test_what_was_found_stays_in_the_metrics_until_everything_is_well_again(
    make_world: Callable[..., World],
) -> None:
    world = make_world(clock=ManualClock(datetime.now(UTC)), verify_seconds=60)
    assert gauge("functory_invariants_checked_timestamp_seconds", world) == 0
    world.function()
    row = world.start()
    world.finish(world.claim(row))
    settle(world)
    watch = Verifier(world.database, world.settings)
    world.advance(60)
    watch.verify_if_due()
    assert gauge("functory_invariant_violations", world, invariant="I6") == 0
    change(world, t.execution, t.execution.c.id == row["id"], max_attempts=0)
    world.advance(60)
    with capture_logs() as logs:
        found = {one.code: one for one in watch.verify_if_due()}
    assert found["I6"].count == 1
    (entry,) = [entry for entry in logs if entry["log_level"] == "error"]
    assert (entry["invariant"], entry["count"]) == ("I6", 1) and row["id"] in entry["examples"][0]
    assert gauge("functory_invariant_violations", world, invariant="I6") == 1
    # Hours later it is not among what was made lately; it is broken all the same.
    world.advance(3 * 3600)
    assert {one.code for one in watch.verify_if_due() if one.count} == set()
    assert gauge("functory_invariant_violations", world, invariant="I6") == 1
    change(world, t.execution, t.execution.c.id == row["id"], max_attempts=1)
    world.advance(86_400)
    watch.verify_if_due()
    assert gauge("functory_invariant_violations", world, invariant="I6") == 0
    assert gauge("functory_invariants_checked_timestamp_seconds", world) == pytest.approx(
        world.clock.now().timestamp(), abs=1
    )


def test_a_frequent_look_goes_back_an_hour_and_under_load_not_beyond_so_many_executions(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[datetime | None] = []

    def note(*given: Any, since: datetime | None, **named: Any) -> list[InvariantResult]:
        asked.append(since)
        return verify(*given, since=since, **named)

    monkeypatch.setattr(verifier, "MOST_RECENT", 2)
    monkeypatch.setattr(verifier, "verify", note)
    world = make_world(clock=ManualClock(datetime.now(UTC)), verify_seconds=60)
    world.function()
    watch = Verifier(world.database, world.settings)
    world.advance(60)
    watch.verify_if_due()
    ids = [world.start()["id"] for _ in range(2)]
    world.advance(60)
    watch.verify_if_due()
    assert asked[1:] == [None, world.clock.now() - timedelta(hours=1)]
    ids += [world.start()["id"] for _ in range(2)]
    world.advance(60)
    watch.verify_if_due()
    assert asked[3:] == [None, time_of_id(ids[1])]


def test_quarantined_events_are_in_the_metrics(world: World) -> None:
    assert gauge("functory_events_quarantined", world) == 0
    id_ = world.events.emit("strange")
    for _ in range(5):
        with world.database.write() as tx:
            routing_queue.mark_failed(tx, id_, "no")
    assert gauge("functory_events_quarantined", world) == 1


def test_deciding_again_finds_a_match_that_has_left_nothing(story: Story, tmp_path: Path) -> None:
    with story.again() as url:
        world = World(url, tmp_path, clock=ManualClock(story.now))
        try:
            since = story.now - timedelta(days=2)
            found = audit_routing(world.database, world.settings, since)
            assert (found.missing, found.examples) == (0, []) and found.matches > 20
            event = first(world, t.event, t.event.c.type == "b")
            remove(world, t.firing, t.firing.c.event_id == event["id"])
            # This trigger was changed after the event: its earlier definition is unknown.
            change(world, t.trigger, t.trigger.c.name == "plain", updated_at=story.now)
            remove(world, t.firing, t.firing.c.event_id == story.ids["plain"], t.firing.c.reason == "shadow")
            found = audit_routing(world.database, world.settings, since)
        finally:
            world.close()
    assert found.missing == 2 and found.skipped > 0
    assert any(f"event {event['id']} (b) matches trigger both" in words for words in found.examples)


def test_an_attempt_without_its_execution_is_found(world: World) -> None:
    world.function()
    world.finish(world.claim(world.start()))
    (attempt,) = world.rows(schema.attempt)
    with world.database.write() as tx:
        tx.insert(schema.attempt, [attempt | {"execution_id": tx.new_id()}])
    (found,) = verify(world.database, world.settings, only=["I18"])
    assert found.count == 1 and "has no execution" in found.examples[0]
