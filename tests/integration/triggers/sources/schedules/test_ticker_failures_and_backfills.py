"""Schedules that fail or cannot be read, and times that are written by hand."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from functory.client.schedules import Schedules
from functory.engine.database import schema
from functory.engine.errors import Invalid
from functory.engine.telemetry import metrics
from functory.engine.telemetry.metrics import registry
from functory.triggers.sources.registry import parse_config
from functory.triggers.sources.schedules import ScheduleConfig
from functory.triggers.sources.schedules import ticker as tickers
from functory.triggers.sources.schedules.ticker import Ticker
from tests.support.schedule_world import START, at, due_events, service, tick
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def failing(world: World, **config: Any) -> Schedules:
    """A schedule every ten minutes whose function is tried twice."""
    world.function("report", limits={"retries": 1, "retry_delay": 1})
    mine = service(world)
    mine.save("s", every="10m", function="report", pause_on_failure=True, **config)
    world.advance(600)
    tick(world)
    world.route()
    return mine


def test_a_failure_after_all_retries_pauses_a_schedule_that_asks_for_it(world: World) -> None:
    mine = failing(world, overlap="allow_all")
    (execution,) = world.rows(schema.execution)
    world.finish(world.claim(execution), "failed")
    world.advance(30)
    world.ticker.run_once()
    assert mine.get("s")["state"] == "enabled"  # it is tried again
    world.finish(world.claim(execution), "failed")
    world.advance(1)
    world.ticker.run_once()
    row = mine.get("s")
    assert (row["state"], row["note"]) == ("paused", f"execution {execution['id']} of report failed")
    world.advance(600)
    assert tick(world) == []
    # Resumed, it is not paused again by what has been.
    mine.resume("s")
    Ticker(world.database, world.settings).run_once()
    world.advance(600)
    assert tick(world) == [at("00:30")] and mine.get("s")["state"] == "enabled"


def test_no_tick_is_written_after_a_failure_that_pauses(world: World) -> None:
    mine = failing(world, overlap="allow_all")
    (execution,) = world.rows(schema.execution)
    world.finish(world.claim(execution), "timed_out")
    world.advance(599.5)
    claim = world.claim(execution)
    assert tick(world) == []
    # The ticker has looked for failures half a second ago; this one comes right before the next time.
    world.finish(claim, "timed_out")
    world.advance(0.5)
    assert tick(world) == []
    assert world.clock.now() == START + timedelta(minutes=20)
    assert mine.get("s")["note"].endswith("of report timed out")


def test_failures_of_others_and_of_what_a_tick_led_to_further_down_pause_nothing(world: World) -> None:
    mine = failing(world, overlap="allow_all")
    other = world.start("report")
    (ours,) = world.rows(schema.execution, schema.execution.c.cause == "trigger")
    world.function("after")
    world.trigger("after", "after", {"type": ["execution.succeeded"], "subject": ["report"]})
    world.finish(world.claim(ours))
    world.route()
    (below,) = world.rows(schema.execution, schema.execution.c.function == "after")
    for row in (other, below):
        while world.rows(schema.execution, schema.execution.c.id == row["id"])[0]["state"] == "queued":
            world.finish(world.claim(row), "failed")
            world.advance(30)
    world.ticker.run_once()
    assert mine.get("s")["state"] == "enabled"


def test_a_backfill_writes_the_times_of_a_range_that_have_no_tick(world: World) -> None:
    mine = service(world)
    world.advance(3000)
    mine.save("s", every="10m", overlap="skip", data=7)
    world.advance(600)
    assert tick(world) == [at("01:00")]
    planned = mine.backfill("s", "2026-01-01T00:30", "2026-01-01T01:00", dry_run=True)
    assert len(planned.new) == 3 and planned.existing == [START + timedelta(hours=1)] and not planned.events
    assert len(due_events(world)) == 1
    done = mine.backfill("s", "2026-01-01T00:30", "2026-01-01T01:00")
    assert (done.new, done.existing) == (planned.new, planned.existing) and len(done.events) == 3
    events = due_events(world)[1:]
    assert [event["data"]["fire_time"] for event in events] == [at("00:30"), at("00:40"), at("00:50")]
    assert all(event["data"]["backfill"] and event["data"]["data"] == 7 for event in events)
    assert {event["data"]["overlap"] for event in events} == {"buffer_all"}
    again = mine.backfill("s", "2026-01-01T00:20", "2026-01-01T01:00", overlap="allow-all")
    assert again.new == [START + timedelta(minutes=20)]
    assert due_events(world)[-1]["data"]["overlap"] == "allow_all"
    assert [tick["origin"] for tick in mine.ticks("s")] == ["calendar", *["backfill"] * 4]
    assert mine.ticks("s", 2)[1]["fire_time"] == START + timedelta(minutes=50)


def test_a_backfilled_time_is_not_fired_again_when_the_ticker_catches_up(world: World) -> None:
    mine = service(world)
    mine.save("s", every="10m", catch_up="all")
    world.advance(1800)
    mine.backfill("s", "2026-01-01T00:20", "2026-01-01T00:20")
    assert tick(world) == [at("00:10"), at("00:30")]
    assert mine.get("s")["missed"] == 0


@pytest.mark.parametrize(
    ("first", "last", "overlap", "said"),
    [
        ("2026-01-01T00:00", "2026-01-03T00:00", None, "reaches into the future"),
        ("2025-12-31T00:00", "2025-12-30T00:00", None, "wrong range"),
        ("2025-12-01T00:00", "2025-12-31T00:00", None, "too many times"),
        ("yesterday", "2025-12-31T00:00", None, "wrong from"),
        ("2025-12-31T00:00", "2025-12-31T01:00", "queue", "wrong overlap"),
        (datetime(2025, 12, 1), "2025-12-31T01:00", None, "no time zone"),
    ],
)
def test_a_range_that_cannot_be_meant_is_refused(
    world: World, first: Any, last: Any, overlap: str | None, said: str
) -> None:
    mine = service(world)
    mine.save("s", every="10m")
    with pytest.raises(Invalid, match=said):
        mine.backfill("s", first, last, overlap=overlap)
    assert due_events(world) == []


def test_a_schedule_can_be_triggered_by_hand_also_while_it_is_paused(world: World) -> None:
    mine = service(world)
    mine.save("s", every="10m")
    mine.pause("s")
    ids = [mine.trigger("s"), mine.trigger("s", overlap="terminate_other")]
    events = due_events(world)
    assert [event["id"] for event in events] == ids
    assert all(event["data"]["manual"] and not event["data"]["backfill"] for event in events)
    assert events[1]["data"]["overlap"] == "terminate_other"
    assert [tick["origin"] for tick in mine.ticks("s")] == ["manual", "manual"]


def test_the_next_times_are_shown_local_and_with_their_jitter(world: World) -> None:
    mine = service(world)
    mine.save("s", cron="0 7 * * *", timezone="America/New_York", jitter="10m")
    first, second = mine.next("s", 2)
    assert first["fire_time"] == START + timedelta(hours=12)
    assert second["local_time"] == "2026-01-02T07:00:00-05:00"
    assert timedelta() <= first["due"] - first["fire_time"] < timedelta(minutes=10)
    world.advance((first["due"] - START).total_seconds() - 0.001)
    assert tick(world) == []
    world.advance(0.001)
    assert tick(world) == [at("12:00")]
    assert due_events(world)[0]["data"]["late_seconds"] == 0
    for wrong in (0, 1001, True, "5"):
        with pytest.raises(Invalid, match="wrong count"):
            mine.next("s", wrong)  # type: ignore[arg-type]


def test_a_schedule_that_cannot_be_read_is_reported_and_stops_no_other_schedule(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = service(world)
    mine.save("bad", every="10m", catch_up="all")
    mine.save("good", every="10m")
    world.advance(600)

    def refuse(plugin: Any, config: Any) -> ScheduleConfig:
        made = parse_config(plugin, config)
        if made.catch_up == "all":
            raise Invalid("wrong schedule", "timezone: gone")
        return made

    with monkeypatch.context() as patch:
        patch.setattr(tickers, "parse_config", refuse)
        assert tick(world) == [at("00:10")]
        assert "timezone: gone" in mine.get("bad")["problem"]
        assert world.ticker.next_due() == 60
    world.advance(60)
    assert tick(world) == [at("00:10")]
    assert mine.get("bad")["problem"] is None


def test_a_schedule_that_cannot_be_read_any_more_can_be_paused_and_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service(world).save("bad", every="10m")

    def refuse(plugin: Any, config: Any) -> ScheduleConfig:
        raise Invalid("wrong schedule", "timezone: gone")

    monkeypatch.setattr("functory.triggers.sources.registry.parse_config", refuse)
    world.sources.pause("schedule", "bad")
    with pytest.raises(Invalid, match="timezone: gone"):
        world.sources.resume("schedule", "bad")
    assert world.sources.get("schedule", "bad")["state"] == "paused"
    world.sources.delete("schedule", "bad")
    world.advance(3600)
    assert tick(world) == []


def test_the_events_of_a_schedule_are_counted_by_how_they_came(world: World) -> None:
    def count(result: str) -> float:
        return registry.get_sample_value("functory_schedule_ticks_total", {"result": result}) or 0

    before = {result: count(result) for result in ("fired", "late", "backfill", "manual")}
    lags = registry.get_sample_value("functory_schedule_lag_seconds_count") or 0
    mine = service(world)
    mine.save("s", every="10m", catch_up="all")
    world.advance(1200)
    tick(world)
    mine.trigger("s")
    mine.backfill("s", "2025-12-31T23:40", "2026-01-01T00:20")
    assert {result: count(result) - before[result] for result in before} == {
        "fired": 1,
        "late": 1,
        "backfill": 3,
        "manual": 1,
    }
    assert registry.get_sample_value("functory_schedule_lag_seconds_count") == lags + 2
    assert metrics.schedule_lag is not None


def runs(world: World, overlap: str) -> Schedules:
    """A schedule whose first tick has started an execution that runs."""
    world.function("report")
    mine = service(world)
    mine.save("s", every="10m", function="report", overlap=overlap)
    world.advance(600)
    tick(world)
    world.route()
    (first,) = world.rows(schema.execution)
    world.claim(first)
    world.advance(600)
    tick(world)
    return mine


@pytest.mark.parametrize(("overlap", "reason"), [("skip", "overlap"), ("allow_all", None)])
def test_the_trigger_of_a_schedule_obeys_its_overlap_policy(
    world: World, overlap: str, reason: str | None
) -> None:
    runs(world, overlap)
    assert [found for name, found in world.route() if name == "schedule-s"] == [reason]
    assert len(world.rows(schema.execution)) == (1 if reason else 2)


def test_a_backfill_brings_its_own_overlap_policy(world: World) -> None:
    mine = runs(world, "skip")
    mine.backfill("s", "2025-12-31T23:40", "2026-01-01T00:00", overlap="allow_all")
    decided = [found for name, found in world.route() if name == "schedule-s"]
    assert decided == ["overlap", None, None, None]
