"""A storm beyond the default guards shows in the log, in status and in doctor, and all of it can be brought back."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog

from functory.cli.main import main
from functory.engine.database import schema
from functory.engine.database.clock import SystemClock
from functory.engine.events import store as event_store
from functory.triggers.routing import firing_metrics
from functory.triggers.routing.drop_report import EVERY, MAX_NAMED, DropReport
from tests.support.world import World, embedded, on_sqlite

pytest_plugins = ["tests.support.world"]


@on_sqlite
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("events", "rate"), [(300, 60), (10_000, 6000)])
def test_a_storm_is_seen_everywhere_and_brought_back(
    make_world: Callable[..., World],
    events: int,
    rate: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # The commands have the clock of the machine, which stands still: the storm takes no time, however slow the machine.
    now = datetime.now(UTC)
    monkeypatch.setattr(SystemClock, "now", lambda _: now)
    world = make_world(clock=SystemClock(), trigger_rate=rate)
    monkeypatch.setattr(firing_metrics, "_report", DropReport(lambda: 0.0))
    monkeypatch.setenv("FUNCTORY_DATABASE_URL", world.url)
    monkeypatch.setenv("FUNCTORY_BROKER_URL", "none://")
    monkeypatch.setenv("FUNCTORY_HOME", str(world.home))
    world.function()
    world.trigger("stormy", "work", {"type": ["tick"]})
    with world.database.write() as tx:
        event_store.append(
            tx, [event_store.record(tx, "tick", "one", {"n": n}, source="/test") for n in range(events)]
        )
    with structlog.testing.capture_logs() as lines:
        while world.router.route_batch().events:
            pass
    fired = len(world.rows(schema.execution))
    assert fired == rate
    said = [line for line in lines if line["event"] == "guards dropped matches"]
    assert 1 <= len(said) <= 2 and {line["trigger"] for line in said} == {"stormy"}
    assert {"trigger.paused", "trigger.suppressed"} <= set(world.types())
    dropped = events - fired

    assert main(["status", "--json"]) in (0, None)
    rows = json.loads(capsys.readouterr().out)["dropped_by_guards"]
    assert sum(row["count"] for row in rows) == dropped and rows[0]["paused_until"] is not None
    main(["status"])
    text = " ".join(capsys.readouterr().out.split())
    assert f"trigger stormy: {dropped:,} matches dropped" in text and "circuit breaker is open until" in text
    main(["doctor", "--json"])
    (warned,) = [one for one in json.loads(capsys.readouterr().out) if one["check"] == "guards"]
    assert warned["verdict"] == "warn" and f"{dropped:,} matches" in warned["found"]

    assert main(["trigger", "resume-suppressed", "--trigger", "stormy", "--dry-run", "--json"]) in (0, None)
    assert json.loads(capsys.readouterr().out)["would_resume"] == dropped
    assert main(["trigger", "resume-suppressed", "--trigger", "stormy", "--json"]) in (0, None)
    assert json.loads(capsys.readouterr().out)["resumed"] == dropped
    assert len(world.rows(schema.execution)) == events
    main(["status", "--json"])
    assert json.loads(capsys.readouterr().out)["dropped_by_guards"] == []


def test_the_log_gets_the_first_match_at_once_and_then_sums() -> None:
    now = [0.0]
    report = DropReport(lambda: now[0])
    with structlog.testing.capture_logs() as lines:
        report.add([("t", "rate")])
        for _ in range(1000):
            report.add([("t", "rate"), ("t", "breaker_open")])
        assert len(lines) == 1 and lines[0]["matches"] == 1
        report.add([])
        now[0] = EVERY
        report.add([])
        assert [(line["reason"], line["matches"]) for line in lines[1:]] == [
            ("rate", 1000),
            ("breaker_open", 1000),
        ]
        now[0] = 2 * EVERY
        report.add([(f"t{n}", "rate") for n in range(100)])
        assert len(lines) == 3 + MAX_NAMED + 1 and lines[-1]["matches"] == 100 - MAX_NAMED


@on_sqlite
def test_what_a_deleted_trigger_dropped_says_that_it_is_deleted(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = make_world(clock=SystemClock(), trigger_rate=1)
    for name, value in (("DATABASE_URL", world.url), ("BROKER_URL", "none://"), ("HOME", str(world.home))):
        monkeypatch.setenv(f"FUNCTORY_{name}", value)
    world.function()
    world.trigger("stormy", "work", {"type": ["tick"]})
    for n in range(3):
        world.events.emit("tick", {"n": n}, subject="one")
    world.route()
    resume = ["trigger", "resume-suppressed", "--trigger", "stormy"]

    def said(*command: str) -> str:
        main([*command])
        seen = capsys.readouterr()
        return " ".join((seen.out + seen.err).split())

    asked = (["doctor", "guards"], ["status"], [*resume, "--dry-run"])
    assert not any("deleted" in said(*command) for command in asked)
    world.triggers.delete("stormy")
    assert "; the trigger is deleted" in said("doctor", "guards")
    assert "; the trigger is deleted" in said("status")
    assert "warning: the trigger stormy is deleted: matches from before that would run" in said(
        *resume, "--dry-run"
    )
    assert "warning: the trigger stormy is deleted: matches from before that run" in said(*resume)


def test_resume_needs_to_be_told_what(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    with embedded(tmp_path):
        assert main(["trigger", "resume-suppressed"]) != 0
    assert "--dry-run, or --all" in capsys.readouterr().err
