"""``functory schedule``, as people and programs use it."""

from pathlib import Path

import pytest

from tests.support.cli_shell import Shell

REPORT = "def report(day: str) -> str:\n    return f'report of {day}'\n"


pytest_plugins = ["tests.support.world"]


@pytest.fixture
def shell(tmp_path: Path, migrated_file: Path) -> Shell:
    return Shell(tmp_path, database=migrated_file)


def nightly(shell: Shell, *more: str) -> str:
    return shell.out(
        "schedule",
        "add",
        "nightly",
        "--cron",
        "30 2 * * *",
        "--timezone",
        "Europe/Berlin",
        "--function",
        "report",
        "--input",
        '{"day": "{{ event.data.local_time }}"}',
        *more,
    )


def test_a_schedule_from_its_first_save_to_its_end(shell: Shell) -> None:
    (shell.folder / "report.py").write_text(REPORT)
    shell.run("function", "add", "report.py")
    said = nightly(shell, "--data", '{"to": "ada"}')
    assert said.startswith("saved schedule nightly v1\nnext: 20") and "T02:30:00+0" in said
    assert nightly(shell, "--data", '{"to": "ada"}').startswith("schedule nightly v1 is unchanged")
    assert shell.out("schedule", "list", "-q") == "nightly"
    (row,) = shell.json("schedule", "list")
    assert (row["state"], row["function"], row["missed"]) == ("enabled", "report", 0)
    assert row["config"]["cron"] == "30 2 * * *" and row["config"]["data"] == {"to": "ada"}
    shown = shell.out("schedule", "show", "nightly")
    for words in ("30 2 * * *", "Europe/Berlin", "report", "skip", "latest, within 365d"):
        assert words in shown
    times = shell.json("schedule", "next", "nightly", "-n", "3")
    assert (
        len(times) == 3
        and times[0]["fire_time"] == row["next_at"] == shell.json("schedule", "show", "nightly")["next"][0]
    )
    assert len(shell.out("schedule", "next", "nightly").splitlines()) == 10
    assert shell.out("schedule", "delete", "nightly", "--yes") == "schedule nightly is deleted"
    assert shell.json("schedule", "list") == [] and shell.json("trigger", "list") == []


def test_ticks_by_hand_and_of_the_past(shell: Shell) -> None:
    shell.run("schedule", "add", "nightly", "--cron", "30 2 * * *", "--timezone", "Europe/Berlin")
    id_ = shell.out("schedule", "trigger", "nightly", "-q")
    assert shell.json("event", "show", id_)["data"]["manual"] is True
    span = ("--from", "2026-03-28", "--to", "2026-03-30T12:00")
    planned = shell.json("schedule", "backfill", "nightly", *span, "--dry-run")
    assert [row["local_time"] for row in planned] == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]
    assert {row["status"] for row in planned} == {"to be fired"} and planned[0]["event_id"] is None
    done = shell.json("schedule", "backfill", "nightly", *span, "--overlap", "allow-all")
    assert {row["status"] for row in done} == {"fired"}
    event = shell.json("event", "show", done[0]["event_id"])
    assert event["data"]["backfill"] is True and event["data"]["overlap"] == "allow_all"
    again = shell.json("schedule", "backfill", "nightly", *span)
    assert {row["status"] for row in again} == {"fired before"}
    assert [row["origin"] for row in shell.json("schedule", "ticks", "nightly")] == [
        "manual",
        *["backfill"] * 3,
    ]
    assert shell.out("schedule", "ticks", "nightly", "-n", "1", "-q") == id_


def test_a_pause_has_a_note_and_its_end_says_what_has_passed(shell: Shell) -> None:
    shell.run("schedule", "add", "often", "--every", "1s")
    assert "to resume it: functory schedule resume often" in shell.out(
        "schedule", "pause", "often", "--note", "stocktaking"
    )
    assert "stocktaking" in shell.out("schedule", "list")
    assert "it is paused" in shell.out("schedule", "add", "often", "--every", "2s")
    said = shell.out("schedule", "resume", "often")
    assert said.startswith("schedule often is enabled; next: 20")
    assert shell.json("schedule", "show", "often")["state"] == "enabled"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--cron", "0 0 31 2 *"], 2, "never happens: no such day is in these months"),
        (["--cron", "@reboot"], 2, "a schedule does not know when a machine starts"),
        (["--cron", "H * * * *"], 2, "spread the load with jitter"),
        (["--at", "2020-01-01"], 2, "the schedule would never fire"),
        (["--cron", "@daily", "--timezone", "berlin"], 2, "did you mean Europe/Berlin?"),
        (["--cron", "@daily", "--every", "1h"], 2, "exactly one of cron, every and at"),
        ([], 2, "exactly one of cron, every and at"),
        (["--every", "1h", "--overlap", "queue"], 2, "overlap: "),
        (["--every", "1h", "--data", "{"], 2, "--data is not JSON"),
        (["--every", "1h", "--input", "{}"], 2, "an input and no function"),
        (["--every", "1h", "--expected-version", "3"], 5, "you expected version 3, it is gone"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_reason(
    shell: Shell, arguments: list[str], status: int, said: str
) -> None:
    done = shell.run("schedule", "add", "s", *arguments, status=status)
    assert said in done.stderr and done.stdout == ""
    assert shell.json("schedule", "list") == []


def test_what_is_not_there_is_not_found(shell: Shell) -> None:
    for verb in ("show", "next", "ticks", "trigger", "pause", "resume"):
        assert "schedule 'missing' not found" in shell.run("schedule", verb, "missing", status=3).stderr
    assert (
        "does not exist yet"
        in shell.run("schedule", "add", "s", "--every", "1h", "--function", "missing").stderr
    )
    future = shell.run("schedule", "backfill", "s", "--from", "2026-01-01", "--to", "2400-01-01", status=2)
    assert "reaches into the future" in future.stderr
