"""The clock of an engine under test: what waits for a time happens when the test moves it, each at its own time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from functory import engine_under_test
from functory.engine.errors import Invalid, NotFound, WaitTimeout
from functory.engine.settings import Settings
from functory.engine_under_test import EngineUnderTest
from tests.support.patience import patient
from tests.support.waiting import wait_for

KEEP_DAYS = 7.0
MINUTE = timedelta(minutes=1)

CODE = {
    "note": "def note(at: str = ''):\n    return at\n",
    "count": "def count(events):\n    return len(events)\n",
    "send": "def send(event):\n    return event['type']\n",
    "flaky": (
        "from functory import execution\n\n"
        "def flaky():\n    if execution.attempt < 3:\n        raise ValueError('no')\n    return 'done'\n"
    ),
    "patient_caller": "from functory import call\n\ndef patient_caller():\n    return call('flaky')\n",
    "limited": (
        "from functory import RetryAfter, execution\n\n"
        "def limited():\n    if execution.attempt == 1:\n        raise RetryAfter(3600)\n    return 'done'\n"
    ),
    "asker": (
        "from functory import step\n\n"
        "def asker(memo, given=None):\n"
        "    if 'waited' not in memo:\n        return step.wait(600, memo={**memo, 'waited': True})\n"
        "    if given is None:\n        return step.ask('Send it?', expires=3600)\n"
        "    return step.done(given['decision'])\n"
    ),
    "sleeper": (
        "import time\nfrom functory import state\n\n"
        "def sleeper():\n    while state.get('wake') is None:\n        time.sleep(0.05)\n    return 'woken'\n"
    ),
}


def new_engine(home: Path) -> EngineUnderTest:
    settings = Settings(home=home, broker_url="memory://", keep_days=KEEP_DAYS)
    return EngineUnderTest(settings, author="ada")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineUnderTest]:
    """One engine for the module: its time only goes forward, and each test leaves nothing behind that waits."""
    with new_engine(tmp_path_factory.mktemp("engine")) as made:
        made.clock.set("2026-06-01T10:00:00Z")
        for name, code in CODE.items():
            limits = {"retries": 2, "retry_delay": 600} if name in ("flaky", "limited") else None
            made.functions.save(code, author="ada", limits=limits)
        yield made


def state(engine: EngineUnderTest, id_: str) -> str:
    return engine.executions.get(id_)["state"]


def test_each_tick_of_a_schedule_happens_at_its_own_time(engine: EngineUnderTest) -> None:
    begin = engine.clock.now()
    engine.schedules.save("minutely", every="1m", function="note", input={"at": "{{ event.data.fire_time }}"})
    engine.clock.advance(minutes=5)
    engine.schedules.delete("minutely")
    rows = engine.executions.list(function="note", limit=5)
    created = sorted(row["created_at"] for row in rows)
    assert created[0] - begin <= MINUTE
    assert [later - earlier for earlier, later in itertools.pairwise(created)] == [MINUTE] * 4
    results = sorted(engine.executions.get(row["id"])["result"] for row in rows)
    assert [datetime.fromisoformat(one) for one in results] == created
    assert engine.clock.now() == begin + 5 * MINUTE


def test_a_clock_that_is_set_finds_the_misfire_policy(engine: EngineUnderTest) -> None:
    engine.schedules.save("hourly", every="1h", catch_up="latest")
    engine.clock.set(engine.clock.now() + timedelta(hours=5, minutes=10))
    (tick,) = engine.schedules.ticks("hourly")
    assert engine.schedules.get("hourly")["missed"] == 4
    assert engine.clock.now() - tick["fire_time"] < timedelta(hours=1)
    engine.schedules.delete("hourly")


def test_a_schedule_for_one_time_fires_then(engine: EngineUnderTest) -> None:
    at = engine.clock.now() + timedelta(days=1)
    engine.schedules.save("once", at=at.isoformat())
    engine.clock.advance(hours=23)
    assert engine.schedules.ticks("once") == []
    engine.clock.advance(hours=1)
    assert [tick["written_at"] for tick in engine.schedules.ticks("once")] == [at]
    engine.schedules.delete("once")


def test_a_debounce_fires_after_silence(engine: EngineUnderTest) -> None:
    flow = {"debounce": {"period": "10s", "keep": "all"}}
    engine.register_trigger("changes", on={"type": ["page.changed"]}, function="count", flow=flow)
    for _ in range(3):
        engine.emit("page.changed")
        engine.clock.advance(seconds=9)
    assert engine.executions.list(function="count") == []
    last = engine.clock.now() + timedelta(seconds=1)
    engine.clock.advance(seconds=1)
    (row,) = engine.executions.list(function="count")
    assert (row["created_at"], engine.executions.get(row["id"])["result"]) == (last, 3)


def test_a_throttle_spreads_the_starts(engine: EngineUnderTest) -> None:
    begin = engine.clock.now()
    flow = {"throttle": {"limit": 1, "period": "1m"}}
    engine.register_trigger("mail", on={"type": ["mail.due"]}, function="send", flow=flow)
    engine.emit_many([{"type": "mail.due"}] * 3)
    engine.settle()
    states = [row["state"] for row in engine.executions.list(function="send")]
    assert sorted(states) == ["queued", "queued", "succeeded"]
    engine.clock.advance(minutes=2)
    starts = sorted(row["started_at"] for row in engine.executions.list(function="send"))
    assert starts == [begin, begin + MINUTE, begin + 2 * MINUTE]


def test_a_delayed_execution_waits_for_the_clock(engine: EngineUnderTest) -> None:
    due = engine.clock.now() + timedelta(days=1)
    (handle,) = engine.submit_many("note", [{"at": "later"}], delay=86_400)
    engine.clock.advance(hours=23, minutes=59)
    assert state(engine, handle.id) == "queued"
    engine.clock.advance(minutes=2)
    row = engine.executions.get(handle.id)
    assert (row["state"], row["started_at"], row["finished_at"]) == ("succeeded", due, due)


@pytest.mark.parametrize("function", ["flaky", "patient_caller"])
def test_retries_wait_for_the_clock_also_below_a_caller_that_waits(
    engine: EngineUnderTest, function: str
) -> None:
    handle = engine.submit(function)
    engine.settle()
    assert state(engine, handle.id) == ("queued" if function == "flaky" else "running")
    engine.clock.advance(hours=2)
    row = engine.executions.get(handle.id)
    assert (row["state"], row["result"]) == ("succeeded", "done")
    # No lease was lost while the clock was moved.
    outcomes = [one["outcome"] for one in engine.executions.attempts(handle.id)]
    assert outcomes == (["failed", "failed", "succeeded"] if function == "flaky" else ["succeeded"])


def test_retry_after_names_the_time_of_the_next_attempt(engine: EngineUnderTest) -> None:
    begin = engine.clock.now()
    handle = engine.submit("limited")
    engine.clock.advance(minutes=59)
    assert state(engine, handle.id) == "queued"
    engine.clock.advance(minutes=1)
    assert [one["started_at"] for one in engine.executions.attempts(handle.id)] == [
        begin,
        begin + timedelta(hours=1),
    ]


def test_a_run_waits_and_its_question_expires(engine: EngineUnderTest) -> None:
    engine.agents.add("asker", {"function": "asker"}, author="ada")
    run = engine.runs.start("asker", "a goal", author="ada")["id"]
    engine.clock.advance(minutes=9)
    assert engine.runs.questions() == []
    engine.clock.advance(minutes=1)
    assert len(engine.runs.questions()) == 1
    engine.clock.advance(hours=1)
    assert engine.runs.get(run)["result"] == "expired"


def test_retention_deletes_what_has_become_old(engine: EngineUnderTest) -> None:
    handle = engine.submit("note", "old")
    engine.clock.advance(days=KEEP_DAYS - 1)
    assert state(engine, handle.id) == "succeeded"
    engine.clock.advance(days=2)
    with pytest.raises(NotFound):
        engine.executions.get(handle.id)


def test_a_running_attempt_keeps_its_lease_and_is_named_when_it_takes_too_long(
    engine: EngineUnderTest,
) -> None:
    handle = engine.submit("sleeper")
    wait_for(lambda: state(engine, handle.id) == "running", seconds=patient(20))
    for _ in range(3):
        with pytest.raises(WaitTimeout, match="1 running execution"):
            engine.clock.set(engine.clock.now() + timedelta(hours=1), timeout=1)
    engine.state.set("sleeper", "wake", True)
    engine.settle()
    assert state(engine, handle.id) == "succeeded"
    assert [one["outcome"] for one in engine.executions.attempts(handle.id)] == ["succeeded"]


def test_a_source_that_runs_keeps_its_lease(engine: EngineUnderTest, tmp_path: Path) -> None:
    engine.sources.save("file", "inbox", {"path": str(tmp_path)}, author="ada")
    engine.settle()
    claimed = wait_for(lambda: (row := engine.sources.store.get("file", "inbox"))["holder"] and row)
    engine.clock.advance(hours=1)
    after = engine.sources.store.get("file", "inbox")
    assert after["fence"] == claimed["fence"]
    assert after["lease_until"] > engine.clock.now()
    engine.sources.delete("file", "inbox", author="ada")


def test_a_nightly_schedule_over_the_change_to_summer_time(functory: EngineUnderTest) -> None:
    """With the fixture of the plug-in."""
    functory.clock.set("2026-03-27T12:00:00+01:00")
    functory.schedules.save("nightly", cron="30 2 * * *", timezone="Europe/Berlin")
    functory.clock.advance(days=3)
    ticks = [tick["local_time"] for tick in functory.schedules.ticks("nightly")]
    assert ticks == ["2026-03-30T02:30:00+02:00", "2026-03-29T03:00:00+02:00", "2026-03-28T02:30:00+01:00"]


def test_an_advance_with_too_many_stops_ends_and_says_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine_under_test.MAX_STOPS == 2000
    monkeypatch.setattr(engine_under_test, "MAX_STOPS", 3)
    with new_engine(tmp_path / ".functory") as engine:
        engine.clock.set("2026-06-01T10:00:30Z")
        engine.schedules.save("minutely", every="1m")
        with pytest.raises(WaitTimeout) as limit:
            engine.clock.advance(minutes=5)
        assert len(engine.schedules.ticks("minutely")) == 3
    assert (limit.value.what, limit.value.why) == (
        "the clock stands at 2026-06-01T10:03:00+00:00, and not yet at 2026-06-01T10:05:30+00:00",
        "something was due at 3 times on the way",
    )
    assert "advance again, or set() the clock" in limit.value.try_


def test_the_clock_goes_back_only_before_the_first_row(tmp_path: Path) -> None:
    with new_engine(tmp_path / ".functory") as engine:
        assert not engine.clock.stands
        engine.clock.set("2026-06-01")
        engine.clock.set(datetime(2026, 5, 1, tzinfo=UTC))
        engine.functions.save(CODE["note"], author="ada")
        for wrong in ("2026-04-30T23:59:59Z", "tomorrow", datetime(2027, 1, 1), "2600-01-01"):
            with pytest.raises(Invalid):
                engine.clock.set(wrong)
        with pytest.raises(Invalid):
            engine.clock.advance(minutes=-1)
        assert engine.clock.now() == datetime(2026, 5, 1, tzinfo=UTC)
