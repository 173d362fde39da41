"""Schedules over a database and a clock that the test moves: each time is one event, whatever happens in between."""

import itertools
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functory.engine.database import schema
from functory.engine.sources import schedules
from functory.engine.telemetry.metrics import registry
from functory.triggers.sources.registry import find_plugin, parse_config
from functory.triggers.sources.schedules import ticker as tickers
from functory.triggers.sources.schedules.ticker import Ticker
from tests.support.schedule_world import (
    START,
    at,
    due_events,
    row_of,
    service,
    tick,
)
from tests.support.world import World, on_postgresql

pytest_plugins = ["tests.support.world"]


def test_a_time_becomes_one_event_that_says_everything_about_it(world: World) -> None:
    service(world).save("report", cron="0 7 * * *", timezone="Europe/Berlin", data={"to": "ada"})
    assert tick(world) == []
    world.advance(6 * 3600 + 1.5)
    assert tick(world) == [at("06:00")] and tick(world) == []
    (event,) = due_events(world)
    assert (event["source"], event["subject"], event["time"]) == (
        "/functory/schedule/report",
        "report",
        world.clock.now(),
    )
    assert event["data"] == {
        "schedule": "report",
        "fire_time": "2026-01-01T06:00:00Z",
        "local_time": "2026-01-01T07:00:00+01:00",
        "late_seconds": 1.5,
        "backfill": False,
        "manual": False,
        "overlap": "skip",
        "data": {"to": "ada"},
    }
    row = row_of(world, "report")
    assert row["next_at"] == START + timedelta(hours=30) and row["last_at"] == START + timedelta(hours=6)


def test_a_new_schedule_begins_with_the_present(world: World) -> None:
    world.advance(3600 * 5 + 60)
    service(world).save("hourly", every="1h")
    assert tick(world) == []
    world.advance(3540)
    assert tick(world) == [at("06:00")]


def test_the_ticker_says_when_it_is_needed_next_and_asks_once_while_idle(world: World) -> None:
    assert world.ticker.run_once() is False and world.ticker.next_due() is None
    service(world).save("hourly", every="1h")
    world.ticker.run_once()
    assert world.ticker.next_due() == 3600
    with world.statements() as sent:
        world.ticker.run_once()
    assert len(sent) == 1 and "min(schedule.next_at)" in sent[0]
    world.advance(3600)
    assert world.ticker.next_due() == 0
    world.ticker.run_once()
    assert world.ticker.next_due() == 3600


@pytest.mark.parametrize(
    ("policy", "window", "fired", "missed"),
    [("all", "16m", ["00:20", "00:30"], 1), ("latest", "365d", ["00:30"], 2), ("none", "365d", [], 3)],
)
def test_what_is_caught_up_after_a_downtime_and_what_is_counted_as_missed(
    world: World, policy: str, window: str, fired: list[str], missed: int
) -> None:
    before = _missed()
    service(world).save("s", every="10m", catch_up=policy, catch_up_window=window)
    world.advance(35 * 60)
    assert tick(world) == [at(time) for time in fired]
    assert row_of(world, "s")["missed"] == missed == _missed() - before
    world.advance(300)
    assert tick(world) == [at("00:40")]


def _missed() -> float:
    return sum(
        registry.get_sample_value("functory_schedule_missed_catchup_window_total", {"reason": reason}) or 0
        for reason in ("window", "policy")
    )


@pytest.mark.parametrize(("policy", "fired"), [("all", 240), ("latest", 1), ("none", 0)])
def test_a_long_downtime_is_worked_off_in_pieces_with_the_same_result(
    world: World, monkeypatch: pytest.MonkeyPatch, policy: str, fired: int
) -> None:
    monkeypatch.setattr(tickers, "MAX_TICKS", 7)
    service(world).save("s", cron="* * * * *", catch_up=policy)
    world.advance(4 * 3600 + 30)
    found = tick(world)
    assert len(found) == fired and len(set(found)) == fired
    assert row_of(world, "s")["missed"] == 240 - fired
    if fired:
        assert found[-1] == at("04:00")


def test_a_clock_that_is_put_back_brings_no_tick_twice_and_loses_none(world: World) -> None:
    service(world).save("hourly", every="1h", catch_up="all")
    world.advance(2 * 3600)
    assert tick(world) == [at("01:00"), at("02:00")]
    world.advance(-3000)
    assert tick(world) == []
    world.advance(3000)
    assert tick(world) == []
    world.advance(3600)
    assert tick(world) == [at("03:00")]


def test_any_number_of_tickers_write_each_time_once(make_world: Callable[..., World]) -> None:
    one, other = make_world(), make_world()
    for number in range(20):
        service(one).save(f"s{number}", every="1m")
    for world in (one, other):
        world.advance(60)
    assert len(tick(one)) == 20 and tick(other) == []
    # Both have read that something is due; the second finds it done.
    with one.database.write() as tx:
        rows = schedules.lock_due(tx, 10)
    assert rows == []


# SQLite has one writer at a time: no ticker can find rows that another one has locked.
@on_postgresql
def test_what_another_ticker_has_locked_is_left_to_it(make_world: Callable[..., World]) -> None:
    one, other = make_world(), make_world()
    service(one).save("a", every="1m")
    service(one).save("b", every="1m")
    for world in (one, other):
        world.advance(60)
    with one.database.write() as tx:
        assert len(schedules.lock_due(tx, 1)) == 1
        assert len(tick(other)) == 1
        # What is locked is not asked for without a pause.
        assert other.ticker.run_once() is False and (other.ticker.next_due() or 0) > 0
    assert len(tick(one)) == 1 and len(due_events(one)) == 2


class Killed(BaseException):
    """A process that ends at once."""


def killed_before_the_commit(ticker: Ticker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it do its work and die with the transaction open."""
    write = schedules.write_decisions

    def dying(*arguments: Any) -> Any:
        write(*arguments)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(schedules, "write_decisions", dying)
        try:
            ticker.run_once()
        except Killed:
            pass


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["one", "other", "killed"]),
        st.sampled_from([1.0, 20.0, 61.0, 400.0, 3700.0, -50.0, -900.0, -4000.0]),
    ),
    min_size=1,
    max_size=12,
)


CONFIGS = st.sampled_from(
    [
        {"every": "90s"},
        {"cron": "*/5 * * * *", "timezone": "Asia/Kolkata"},
        {"cron": "*/10 * * * * *", "jitter": "8s"},
        {"cron": "7,30 * * * *", "jitter": "2h"},
        {"every": "10m", "end": "2026-01-01T03:00"},
        {"at": ["2026-01-01T00:00:30", "2026-01-01T01:00", "2026-01-01T04:00"]},
    ]
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CONFIGS, STEPS, st.sampled_from(["all", "latest", "none"]), st.sampled_from(["365d", "5m"]))
def test_whatever_happens_the_ticks_are_those_of_the_calendar(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    given_config: dict[str, Any],
    steps: Any,
    policy: str,
    window: str,
) -> None:
    world.clock._now = START  # type: ignore[attr-defined]
    name = f"s{uuid.uuid4().hex}"
    config = given_config | {"catch_up": policy, "catch_up_window": window}
    row = world.sources.save("schedule", name, config)
    two = {"one": Ticker(world.database, world.settings), "other": Ticker(world.database, world.settings)}
    latest = START
    for who, step in steps:
        world.advance(step)
        if who == "killed":
            killed_before_the_commit(two["one"], monkeypatch)
        else:
            latest = max(latest, world.clock.now())
            while two[who].run_once():
                pass
    fired = [
        tick["fire_time_utc"]
        for tick in world.rows(schema.schedule_tick, schema.schedule_tick.c.schedule_id == row["id"])
    ]
    calendar = parse_config(find_plugin("schedule"), config).calendar
    due = [
        time
        for time, due in itertools.takewhile(
            lambda pair: pair[0] <= latest, calendar.due_times(row["id"], START)
        )
        if due <= latest
    ]
    missed = row_of(world, name)["missed"]
    service(world).delete(name)
    events = [event for event in due_events(world) if event["subject"] == name]
    assert [event["data"]["fire_time"] for event in events] == [
        time.isoformat().replace("+00:00", "Z") for time in sorted(fired)
    ]
    assert set(fired) <= set(due) and len(fired) + missed == len(due)
    if policy == "all" and window == "365d":
        assert sorted(fired) == due


def test_paused_times_pass_and_are_not_caught_up(world: World) -> None:
    mine = service(world)
    mine.save("s", every="10m", catch_up="all")
    world.advance(600)
    assert tick(world) == [at("00:10")]
    mine.pause("s", note="stocktaking")
    row = mine.get("s")
    assert (row["state"], row["note"], row["next_at"]) == ("paused", "stocktaking", None)
    world.advance(1500)
    assert tick(world) == [] and world.ticker.next_due() is None
    assert mine.next("s", 1)[0]["fire_time"] == START + timedelta(minutes=40)
    assert mine.resume("s") == (START + timedelta(minutes=10), 2)
    assert mine.resume("s") == (None, 0)
    assert tick(world) == []
    world.advance(600)
    assert tick(world) == [at("00:40")] and mine.get("s")["missed"] == 0
    assert world.types("source.") == ["source.created", "source.paused", "source.resumed"]
