"""Commands say the same whether they open the database or speak to a server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from functory.client.functory import Functory
from tests.support import waiting
from tests.support.cli_shell import Shell
from tests.support.patience import patient

READS = [
    "execution list",
    "execution list --json",
    "execution list --state failed --unresolved",
    "execution list --function add -n 2 --json --full",
    "execution list -q",
    "execution list --before {replayed} -n 2",
    "execution show {ok}",
    "execution show {ok} --json",
    "execution show {failed} --json",
    "execution show {failed}",
    "execution show {spans} --json",
    "execution show {caused} --json",
    "execution show {caused}",
    "execution logs {ok}",
    "execution logs {ok} --json",
    "execution spans {spans}",
    "execution spans {spans} --json",
    "execution tree {event}",
    "execution tree {event} --json",
    "execution tree {spans} --all",
    "execution tree {caused} --below -q",
    "execution why {ok}",
    "execution why {caused} --json",
    "execution why {failed}",
    "execution wait {ok}",
    "execution wait {ok} --json",
    "execution wait {failed}",
    "execution show 0123456789",
    "event list",
    "event list --json -n 5",
    "event list --type order.created --json --full",
    "event list --source /functory/worker -n 5",
    "event list --source /no/such",
    "event show {event}",
    "event show {event} --json",
    "event why {event}",
    "event why {event} --json",
    "event tail -n 3",
    "event tail -n 3 --json",
    "function list",
    "function list --json",
    "function list -q",
    "function show report",
    "function show report --json",
    "function show report@1 --source",
    "function versions report",
    "function versions report --json",
    "function history report --json",
    "function diff report 1 2",
    "function deps report@1",
    "function deps report@1 --json",
    "function show missing",
    "function stats missing",
    "function stats -q",
    "trigger list",
    "trigger list --json",
    "trigger show on-order",
    "trigger show on-order --json",
    "trigger versions on-order --json",
    "trigger suppressed",
    "trigger suppressed --events",
    "trigger suppressed --events --json",
    "trigger suppressed --events --trigger shut --reason trigger_paused --json",
    "trigger suppressed --events --trigger missing",
    "trigger test on-order --event {event}",
    "trigger test on-order --event {event} --json",
    "trigger test never --event {event} --json",
    "trigger test missing --event {event}",
    "trigger debug on-order",
    "trigger debug shut",
    "trigger debug missing",
    "trigger graph",
    "trigger graph --json",
    "trigger graph --dot",
    "event why {event} --times",
    "event why {event} --times --json",
    "schedule backfill nightly --from 2026-01-01 --to 2026-01-03 --dry-run",
    "schedule backfill nightly --from 2026-01-01 --to 2026-01-03 --dry-run --json",
    "watch list",
    "watch list --json",
    "watch show inbox",
    "watch show inbox --json",
    "watch show missing",
    "watch files inbox --json",
    "watch files missing",
    "webhook list",
    "webhook list --json",
    "webhook show github",
    "webhook show github --json",
    "webhook test github",
    "webhook test missing",
    "trigger show missing",
    "state list add",
    "state list report",
    "state list missing",
    "state get add total",
    "state get add total --json",
    "state get add missing",
    "secret list",
    "secret list --json",
    "grant list --json",
    "schedule list",
    "schedule list --json",
    "schedule show nightly --json",
    "schedule show nightly",
    "schedule next nightly -n 3 --json",
    "schedule ticks nightly",
    "source list",
    "source list --json",
    "source show schedule nightly --json",
    "user list --json",
    "user show ada --json",
    "token list",
    "login list --json",
]


@pytest.mark.parametrize("line", READS)
def test_a_reading_command_prints_the_same_over_a_server(
    line: str, history: dict[str, str], shells: tuple[Shell, Shell]
) -> None:
    local, far = (shell.run(*line.format(**history).split(), status=None) for shell in shells)
    if far.stdout != local.stdout:
        # A watch may have been scanned between the two, which changes a time.
        local, far = (shell.run(*line.format(**history).split(), status=None) for shell in shells)
    assert "defect" not in local.stderr + far.stderr
    assert far.stdout == local.stdout
    assert far.returncode == local.returncode
    if local.returncode:
        assert far.stderr == local.stderr


def test_the_status_of_a_server_is_that_of_its_engine(
    history: dict[str, str], shells: tuple[Shell, Shell]
) -> None:
    local, far = (shell.json("status") for shell in shells)
    for found in (local, far):
        assert found["database"].pop("round_trip_seconds") > 0
    assert far == local
    assert far["functions"] >= 3
    assert "in memory (embedded)" in shells[1].out("status")


def test_what_runs_on_a_server_is_shown(history: dict[str, str], shells: tuple[Shell, Shell]) -> None:
    local, far = (shell.json("top", "--minutes", "60") for shell in shells)
    for found in (local, far):
        del found["at"]
    assert far == local
    assert "add" in {row["name"] for row in far["functions"]}
    assert "1 worker, " in shells[1].out("top")


def test_the_numbers_of_functions_are_the_same_over_a_server(
    history: dict[str, str], shells: tuple[Shell, Shell]
) -> None:
    local, far = (shell.json("function", "stats", "add", "--since", "2h") for shell in shells)
    for found in (local, far):
        # It is two hours before each of the two commands.
        assert found.pop("since")
        found["series"] = [row for row in found["series"] if row["runs"]]
    assert far == local
    assert far["recent"]["executions"] == far["total"]["runs"] >= 3
    every, there = (shell.json("function", "stats") for shell in shells)
    assert there == every
    assert {row["name"] for row in there} >= {"add", "fail", "report"}
    assert "executions" in shells[1].out("function", "stats", "add")


def test_what_waits_for_a_trigger_is_the_same_over_a_server(
    history: dict[str, str], shells: tuple[Shell, Shell]
) -> None:
    local, far = (shell.json("trigger", "debug", "together") for shell in shells)
    for found in (local, far):
        assert found.pop("now")
        # It counts down.
        assert "the next decision is in" in found.pop("advice")
    assert far == local
    assert far["buffers"]["count"] == 2
    one = shells[1].json("trigger", "debug", "together", "--key", "ada")
    assert [row["key"] for row in one["buffers"]["rows"]] == ["ada"]
    assert "2 matches waiting, for 2 keys" in shells[1].out("trigger", "debug", "together")


def test_a_backtest_over_a_server_has_the_result_of_a_local_one(
    history: dict[str, str], shells: tuple[Shell, Shell], tmp_path: Path
) -> None:
    draft = tmp_path / "draft.json"
    draft.write_text(
        json.dumps({"name": "on-order", "on": {"type": ["no.such"]}, "function": "add", "input": {"a": 1}})
    )
    for what in ("on-order", str(draft)):
        local, far = (shell.json("trigger", "backtest", what, "--since", "1d") for shell in shells)
        for found in (local, far):
            assert found.pop("seconds") >= 0
            found.pop("events_per_minute")
        assert far == local
    assert far["difference"]["only_stored"] == [history["event"]]
    assert "only the stored one" in shells[1].out("trigger", "backtest", str(draft), "--since", "1d")
    missing = [shell.run("trigger", "backtest", "missing", status=3).stderr for shell in shells]
    assert missing[0] == missing[1]


def test_an_event_of_a_file_is_tested_over_a_server(
    history: dict[str, str], shells: tuple[Shell, Shell], tmp_path: Path
) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"type": "order.created", "data": {"n": 7}}))
    local, far = (shell.json("trigger", "test", "on-order", "--event", str(event)) for shell in shells)
    assert far == local
    assert far["input"] == {"a": 7}


def test_operators_change_budgets_schedules_and_watches_over_a_server(
    history: dict[str, str], served: tuple[Functory, str, str], shells: tuple[Shell, Shell]
) -> None:
    engine, far = served[0], shells[1]
    assert "may cause 77 executions" in far.out("trigger", "budget", history["caused"], "77")
    root = engine.events.get(history["event"])["root_id"]
    assert engine.lineage.tree(root).budget == (1, 77)
    engine.schedules.save("ticks", every="1s", function="add", input={"a": 1})
    engine.schedules.pause("ticks")
    paused = engine.database.clock.now()
    waiting.wait_for(lambda: (engine.database.clock.now() - paused).total_seconds() > 2.1)
    assert "times passed while it was paused" in far.out("schedule", "resume", "ticks")
    engine.schedules.pause("ticks")
    done = far.json("schedule", "backfill", "nightly", "--from", "2026-02-01", "--to", "2026-02-03")
    assert [row["status"] for row in done] == ["fired", "fired"]
    assert engine.events.get(done[0]["event_id"])["subject"] == "nightly"
    fence = engine.sources.get("file", "inbox")["fence"]
    assert far.out("watch", "rescan", "inbox", "--content") == "watch inbox compares all files again"
    assert engine.sources.get("file", "inbox")["fence"] > fence


def test_no_key_and_no_value_of_a_secret_leaves_the_server(
    history: dict[str, str], served: tuple[Functory, str, str], shells: tuple[Shell, Shell]
) -> None:
    served[0].secrets.set("HOOK", "a secret of senders", author="ada")
    for line in (
        ["secret", "rotate-key"],
        ["secret", "retire-keys", "--yes"],
        ["webhook", "test", "github", "--send"],
    ):
        done = shells[1].run(*line, status=4)
        assert "FUNCTORY_URL= functory" in done.stderr
        assert "a secret of senders" not in done.stdout + done.stderr
    served[0].secrets.delete("HOOK", author="ada")


def test_commands_change_the_server(shells: tuple[Shell, Shell], served, tmp_path: Path) -> None:
    local, far = shells
    (far.folder / "far.py").write_text("def far(text: str) -> str:\n    return text + '!'\n")
    assert far.json("function", "add", "far.py", "--timeout", "7")["limits"]["timeout"] == 7
    assert far.out("run", "far", "--input", "text=hi") == '"hi!"'
    assert local.json("function", "show", "far")["number"] == 1
    assert far.json("function", "rename", "far", "away", "--dry-run") == local.json(
        "function", "rename", "far", "away", "--dry-run"
    )
    assert "away is the new name of far" in far.out("function", "rename", "far", "away", "--alias")
    assert far.out("run", "far", "--input", "text=hi") == '"hi!"'
    far.run("function", "disable", "far")
    assert local.json("function", "show", "far")["state"] == "disabled"
    far.run("function", "activate", "far@1")
    far.run(
        "trigger",
        "add",
        "far-off",
        "--on",
        '{"type":["far.off"]}',
        "--function",
        "far",
        "--input",
        '{"text":"x"}',
    )
    far.run("trigger", "pause", "far-off", "--note", "later")
    assert local.json("trigger", "show", "far-off")["state"] == "paused"
    far.run("trigger", "resume", "far-off")
    far.run("trigger", "delete", "far-off", "--yes")
    assert (
        far.run("trigger", "show", "far-off", status=3).stderr
        == local.run("trigger", "show", "far-off", status=3).stderr
    )
    id_ = far.out("event", "emit", "far.seen", "--data", '{"n": 1}', "--subject", "s")
    assert local.json("event", "show", id_)["subject"] == "s"
    far.run("state", "set", "far", "total", "12")
    assert local.out("state", "get", "far", "total") == "12"
    far.run("secret", "set", "FAR_KEY", stdin="a long secret value\n")
    assert "FAR_KEY" in local.out("secret", "list")
    far.run("secret", "delete", "FAR_KEY", "--yes")
    far.run("grant", "allow", "far", "host", "example.com", "--reason", "asked")
    assert far.json("grant", "list", "far") == local.json("grant", "list", "far") != []
    assert far.json("grant", "revoke", "far", "host", "example.com", "--reason", "no")["removed"] is True
    assert far.out("function", "label", "far", "+team:far") == "far has the labels team:far"
    far.run("user", "create", "grace", "--role", "viewer", "--password-stdin", stdin="a long pass phrase\n")
    token = far.json("token", "create", "ci", "--user", "grace")["token"]
    far.environment |= {"XDG_CONFIG_HOME": str(tmp_path), "FUNCTORY_TOKEN": ""}
    assert "grace, viewer" in far.out("token", "store", served[1], stdin=f"{token}\n")
    assert far.run("function", "delete", "far", "--yes", status=4).stderr.startswith(
        "error: this needs the right author"
    )
    far.environment["FUNCTORY_TOKEN"] = served[2]
    far.run("user", "delete", "grace", "--yes")
    far.run("function", "delete", "far", "--yes")
    assert local.run("function", "show", "far", status=3)


@pytest.mark.parametrize("line", ["environment list", "db status", "worker", "dev", "verify", "doctor"])
def test_what_needs_the_machine_of_the_server_says_so(line: str, shells: tuple[Shell, Shell]) -> None:
    done = shells[1].run(*line.split(), status=None)
    assert done.returncode == 4
    assert "on the machine" in done.stderr
    assert "FUNCTORY_URL" in done.stderr


def test_a_pack_is_imported_on_the_machine_of_the_server(shells: tuple[Shell, Shell]) -> None:
    pack = Path(__file__).parents[2] / "data" / "packs" / "sums"
    done = shells[1].run("pack", "import", "stackstorm", str(pack), status=4)
    assert "does not offer the import of packs" in done.stderr


def test_a_wrong_token_is_an_error_that_says_what_to_do(shells: tuple[Shell, Shell]) -> None:
    far = shells[1]
    far.environment["FUNCTORY_TOKEN"] = "fnc_wrong"
    done = far.run("execution", "list", status=4)
    assert "token is not valid" in done.stderr
    assert "fnc_wrong" not in done.stderr


def test_a_command_over_a_server_loads_no_database(served, tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from functory.cli.main import main\n"
        "status = main(['execution', 'list', '--json'])\n"
        "unwanted = ('sqlalchemy', 'pydantic_settings', 'alembic', 'celery', 'httpx', 'rich')\n"
        "heavy = [name for name in unwanted if name in sys.modules]\n"
        "print(status, heavy, time.process_time(), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"FUNCTORY_URL": served[1], "FUNCTORY_TOKEN": served[2], "PATH": "", "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=True,
    )
    assert done.stderr.startswith("0 [] ")
    assert isinstance(json.loads(done.stdout), list)


def test_who_may_not_read_payloads_is_told_so_by_each_explanation(
    engine: Functory, far_as: Callable[[str], Shell], history: dict[str, str]
) -> None:
    far = far_as("viewer")
    event = engine.emit("explained.seen", {"n": 1})
    failed = engine.start_execution("fail", {"text": "a secret word"})
    engine.executions.wait([failed["id"]], patient(60))
    waiting.wait_for(lambda: engine.events.get(event)["state"] == "routed")
    said = far.out("event", "why", event)
    assert "no match\t(hidden: it needs the right payload:read)" in said
    why = far.out("execution", "why", failed["id"])
    assert "ValueError: (hidden: it needs the right payload:read)" in why and "secret" not in why
