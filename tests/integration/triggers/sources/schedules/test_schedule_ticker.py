"""Schedules over a database and a clock that the test moves: each time is one event, whatever happens in between."""

import itertools
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functory.engine.database import schema
from functory.engine.errors import Conflict, Invalid, NotFound
from functory.engine.sources import schedules
from functory.engine.telemetry import metrics
from functory.engine.telemetry.metrics import registry
from functory.schedules import Schedules
from functory.triggers import definition
from functory.triggers.sources.registry import find_plugin, parse_config
from functory.triggers.sources.schedules import ScheduleConfig
from functory.triggers.sources.schedules import ticker as tickers
from functory.triggers.sources.schedules.ticker import Ticker
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

START = datetime(2026, 1, 1, tzinfo=UTC)


def service(world: World) -> Schedules:
    """The service over the world's registries; a trigger is saved as the engine saves it, without cycle analysis."""

    def register(name: str, **fields: Any) -> dict[str, Any]:
        return world.triggers.save(name, definition.parse(fields))

    return Schedules(
        SimpleNamespace(  # type: ignore[arg-type]
            database=world.database,
            sources=world.sources,
            triggers=world.triggers,
            register_trigger=register,
            author="ada",
        )
    )


def tick(world: World, ticker: Ticker | None = None) -> list[str]:
    """Run a ticker until it has nothing more to do. Returns the times that it wrote, in the order of the events."""
    before = {row["id"] for row in world.rows(schema.event)}
    while (ticker or world.ticker).run_once():
        pass
    return [row["data"]["fire_time"] for row in due_events(world) if row["id"] not in before]


def due_events(world: World) -> list[dict[str, Any]]:
    rows = world.rows(schema.event, schema.event.c.type == "schedule.due")
    return sorted(rows, key=lambda row: row["id"])


def at(text: str) -> str:
    """A time of the first of January 2026, as events have it."""
    return f"2026-01-01T{text}Z" if len(text) == 8 else f"2026-01-01T{text}:00Z"


def row_of(world: World, name: str) -> dict[str, Any]:
    return service(world).get(name)


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


def test_what_another_ticker_has_locked_is_left_to_it(make_world: Callable[..., World]) -> None:
    one, other = make_world(), make_world()
    if one.dialect == "sqlite":
        pytest.skip("one writer at a time")
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


def test_a_change_of_anything_but_the_times_keeps_what_is_due(world: World) -> None:
    mine = service(world)
    mine.save("s", every="10m", catch_up="all")
    world.advance(1250)
    assert mine.save("s", every="600s", catch_up="all", data=1)["created"] is True
    assert mine.save("s", every="600s", catch_up="all", data=1)["created"] is False
    assert tick(world) == [at("00:10"), at("00:20")]
    assert {event["data"]["data"] for event in due_events(world)} == {1}


def test_a_change_of_the_times_begins_with_the_present(world: World) -> None:
    mine = service(world)
    mine.save("s", every="10m", catch_up="all")
    world.advance(1250)
    mine.save("s", every="1m", catch_up="all")
    assert tick(world) == []
    world.advance(60)
    assert tick(world) == [at("00:21")]


def test_moments_fire_once_each_and_then_the_schedule_is_over(world: World) -> None:
    mine = service(world)
    mine.save("s", at=["2026-01-01T01:00", "2025-12-31T00:00", "2026-01-01T02:00"])
    world.advance(3600)
    assert tick(world) == [at("01:00")]
    world.advance(3600)
    assert tick(world) == [at("02:00")]
    row = mine.get("s")
    assert (row["state"], row["next_at"]) == ("enabled", None)
    assert world.ticker.run_once() is False and world.ticker.next_due() is None
    with pytest.raises(Invalid, match="is past"):
        mine.save("s", at="2026-01-01T01:00")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"at": "2025-12-31T23:59"}, "2025-12-31T23:59:00\\+00:00 is past"),
        ({"cron": "@daily", "end": "2025-12-01"}, "no time from now to its end"),
    ],
)
def test_a_schedule_that_would_never_fire_is_not_saved(
    world: World, config: dict[str, Any], said: str
) -> None:
    world.function("report")
    with pytest.raises(Invalid, match=said):
        service(world).save("s", function="report", **config)
    with pytest.raises(Invalid, match=said):
        world.sources.save("schedule", "s", config)
    assert world.sources.list() == [] and world.triggers.list() == []


@pytest.mark.parametrize("name", ["", "9am", "a b", "x" * 191, "é", "a\x00", None, 5])
def test_a_wrong_name_is_refused_before_anything_is_saved(world: World, name: Any) -> None:
    with pytest.raises(Invalid, match="is not a schedule name"):
        service(world).save(name, every="1h", function="report")
    assert world.triggers.list() == []


def test_a_changed_schedule_that_is_paused_stays_paused(world: World) -> None:
    mine = service(world)
    mine.save("s", every="10m")
    mine.pause("s")
    mine.save("s", every="5m")
    with pytest.raises(Invalid, match="is past"):
        mine.save("s", at="2025-01-01")
    world.advance(600)
    assert tick(world) == []
    mine.resume("s")
    world.advance(300)
    assert tick(world) == [at("00:15")]


def test_a_deleted_schedule_can_be_made_again_and_begins_anew(world: World) -> None:
    mine = service(world)
    mine.save("s", every="10m", catch_up="all")
    world.advance(600)
    tick(world)
    mine.delete("s")
    world.advance(600)
    assert tick(world) == []
    with pytest.raises(NotFound):
        mine.get("s")
    mine.save("s", every="10m", catch_up="all")
    world.advance(600)
    assert tick(world) == [at("00:30")]


def test_a_function_gets_a_trigger_that_comes_and_goes_with_the_schedule(world: World) -> None:
    world.function("report", "day")
    mine = service(world)
    saved = mine.save(
        "nightly", every="10m", function="report", input={"day": "{{ event.data.local_time }}"}, data={"n": 1}
    )
    assert saved["function"] == "report" and saved["trigger"]["name"] == "schedule-nightly"
    assert saved["trigger"]["definition"]["flow"] == {"overlap": "schedule"}
    assert "function" not in saved["config"] and mine.list()[0]["function"] == "report"
    world.advance(600)
    tick(world)
    assert ("schedule-nightly", None) in world.route()
    (execution,) = world.rows(schema.execution)
    assert execution["input"] == {"day": "2026-01-01T00:10:00+00:00"}
    assert mine.ticks("nightly")[0]["execution_id"] == execution["id"]
    # The same once more is nothing new; another input is, though the times are the same.
    same = {"every": "10m", "function": "report", "data": {"n": 1}}
    again = [mine.save("nightly", input={"day": day}, **same)["created"] for day in ("today", "today")]
    assert again == [True, False]
    # Saved without a function the trigger stays: only the times were changed.
    assert mine.save("nightly", every="20m")["function"] == "report"
    mine.delete("nightly")
    assert world.triggers.list() == []


def test_a_trigger_of_the_same_name_that_is_somebody_elses_is_left_alone(world: World) -> None:
    world.function("report")
    world.trigger("schedule-nightly", "report", {"type": ["order.created"]})
    mine = service(world)
    with pytest.raises(Conflict, match="is there already"):
        mine.save("nightly", every="1h", function="report")
    assert mine.list() == []
    assert mine.save("nightly", every="1h")["function"] is None
    mine.delete("nightly")
    assert len(world.triggers.list()) == 1


def test_who_expects_another_version_changes_nothing(world: World) -> None:
    world.function("report")
    mine = service(world)
    mine.save("s", every="1h", expected_version=0)
    with pytest.raises(Conflict, match="you expected version 0, it is 1"):
        mine.save("s", every="2h", function="report", expected_version=0)
    assert world.triggers.list() == [] and mine.get("s")["version"] == 1
    with pytest.raises(Invalid, match="an input and no function"):
        mine.save("s", every="2h", input={})


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


def test_a_schedule_that_cannot_be_read_is_told_of_and_stops_nobody_else(
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
