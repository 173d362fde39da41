"""Output about functions, triggers, events and executions, command by command."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_shell import Shell
from tests.support.patience import patient

pytest_plugins = ["tests.support.world"]

SOURCES = {
    "parse.py": "def parse(text: str) -> list[int]:\n    return [int(part) for part in text.split(',')]\n",
    "total.py": (
        "def total(text: str) -> dict:\n"
        "    print('adding', text)\n"
        "    numbers = parse(text)\n"
        "    return {'sum': sum(numbers), 'count': len(numbers)}\n"
    ),
    "report.py": "def report(total: dict) -> str:\n    return f'sum is {total[\"sum\"]}'\n",
    "slow.py": (
        "import time\n\n\ndef slow(seconds: float) -> str:\n    time.sleep(seconds)\n    return 'slept'\n"
    ),
}


def folder_with_sources(folder: Path) -> Path:
    for name, text in SOURCES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def shell(tmp_path: Path, migrated_file: Path) -> Shell:
    return Shell(folder_with_sources(tmp_path), database=migrated_file)


def store_chain(shell: Shell) -> None:
    """total needs parse; a small total starts report; report's success would start report again."""
    shell.run("function", "add", "parse.py")
    shell.run(
        "function", "add", "total.py", "--dep", "parse", "--pattern", 'small={"sum":[{"numeric":["<",10]}]}'
    )
    shell.run("function", "add", "report.py")
    on = '{"type":["output.matched"],"data":{"pattern":["small"]}}'
    template = '{"total":"{{ event.data.output }}"}'
    shell.run("trigger", "add", "on-small", "--on", on, "--function", "report", "--input", template)
    again = '{"type":["execution.succeeded"],"subject":["report"]}'
    shell.run(
        "trigger", "add", "again", "--on", again, "--function", "report", "--input", '{"total":{"sum":0}}'
    )


def test_the_console_script_runs_a_function_and_ends_with_the_status_of_an_error(shell: Shell) -> None:
    """One process for each: what the commands say is the same in this process, in which the other tests run them."""
    shell.run("function", "add", "parse.py")
    console = Shell(shell.folder, processes=True)
    assert console.out("run", "parse", "--input", "text=1,2") == "[1,2]"
    missing = console.run("run", "missing", status=3)
    assert missing.stdout == "" and "try: functory function list" in missing.stderr


@pytest.mark.timeout(180)
def test_one_run_its_reactions_and_everything_that_can_be_asked_about_them(shell: Shell) -> None:
    store_chain(shell)
    done = shell.run("run", "total", "--input", "text=1,2")
    assert json.loads(done.stdout) == {"sum": 3, "count": 2}
    assert "stdout: adding 1,2" in done.stderr and "it caused more" in done.stderr

    listed = shell.json("execution", "list")
    assert [row["function"] for row in listed] == ["report", "report", "total"]
    assert {row["state"] for row in listed} == {"succeeded"}
    top, first = listed[2]["id"], listed[1]["id"]
    assert shell.out("execution", "list", "-q").split() == [row["id"] for row in listed]

    drawn = shell.out("execution", "tree", first)
    for words in (
        "✓ total v1 succeeded",
        "call parse v1",
        "event output.matched small",
        "trigger on-small v1",
    ):
        assert words in drawn
    assert "⊘ trigger again v1 suppressed: own_event" in drawn and "execution.started" not in drawn
    below = shell.json("execution", "tree", first, "--below")
    assert [node["id"] for node in below["nodes"]] == [first] and below["budget"]["used"] == 2

    shown = shell.json("execution", "show", top)
    assert (shown["input"], shown["result"]) == ({"text": "1,2"}, {"sum": 3, "count": 2})
    assert shown["versions"] == ["parse@1", "total@1"] and shown["attempts"][0]["outcome"] == "succeeded"
    assert [line["text"] for line in json_lines(shell.out("execution", "logs", top, "--json"))] == [
        "adding 1,2"
    ]
    assert shell.json("execution", "spans", top)[0]["function"] == "parse"

    why = shell.out("execution", "why", first)
    assert "started by the trigger on-small v1" in why and f"caused by the execution {top}" in why
    assert "matched the trigger again v1" in shell.out("execution", "why", listed[0]["id"])

    happened = shell.out("event", "list", "--type", "output.matched", "-q")
    answers = {answer["trigger"]: answer for answer in shell.json("event", "why", happened)}
    assert answers["on-small"]["decision"] == "fired" and answers["again"]["decision"] == "no match"
    assert shell.json("trigger", "list")[0]["suppressed"] == 1
    assert shell.json("status")["open"]["pending events"] == 0

    replayed = shell.json("execution", "replay", top)
    assert replayed["replay_of"] == top and replayed["result"] == shown["result"]


@pytest.mark.timeout(120)
def test_a_function_lives_through_its_versions(shell: Shell) -> None:
    assert (
        shell.out("function", "add", "parse.py", "--metadata", "team=data", "--retries", "2", "-q")
        == "parse@1"
    )
    assert "is unchanged" in shell.out("function", "add", "parse.py")
    changed = SOURCES["parse.py"].replace("','", "';'")
    saved = shell.json("function", "add", "-", "--metadata", "stable=true", stdin=changed)
    assert (saved["number"], saved["metadata"]) == (2, {"team": "data", "stable": True})
    assert saved["limits"] == {"retries": 2}, "what is not named is kept"
    assert shell.out("function", "show", "parse@2", "--source") + "\n" == changed
    said = shell.out("function", "diff", "parse", "1")
    assert "-    return [int(part) for part in text.split(',')]" in said and '+  "stable": true' in said
    shell.run("function", "rollback", "parse")
    assert [row["number"] for row in shell.json("function", "versions", "parse")] == [2, 1]
    assert shell.json("function", "show", "parse")["active"] == 1
    shell.run("function", "add", "total.py", "--dep", "parse@2")
    assert "parse v2 pinned" in shell.out("function", "deps", "total")
    assert "needed by function total" in shell.run("function", "delete", "parse", "--yes", status=5).stderr
    shell.run("function", "disable", "total")
    assert "is disabled" in shell.run("run", "total", "-i", "text=1", status=5).stderr
    shell.run("function", "delete", "total", "--yes")
    assert shell.out("function", "list", "-q") == "parse"


def test_an_editor_makes_a_new_version_and_a_wrong_text_is_kept(shell: Shell) -> None:
    shell.run("function", "add", "report.py")
    shell.environment["EDITOR"] = "sed -i s/sum.is/total:/"
    assert shell.out("function", "edit", "report", "-q") == "report@2"
    assert "unchanged" in shell.run("function", "edit", "report").stderr
    shell.environment["EDITOR"] = "sed -i s/def/deff/"
    said = shell.run("function", "edit", "report", status=2).stderr
    kept = Path(said.split("your text is kept in ")[1].strip())
    assert kept.read_text().startswith("deff report")
    kept.unlink()


def test_a_failed_run_shows_the_lines_of_the_function_and_ends_with_1(shell: Shell) -> None:
    shell.run("function", "add", "parse.py")
    failed = shell.run("run", "parse", "-i", "text=one", status=1)
    assert failed.stdout == ""
    assert "error: parse v1 failed\n  ValueError: invalid literal" in failed.stderr
    assert 'File "<functory:parse@1>", line 2, in parse' in failed.stderr
    assert shell.json("run", "parse", "-i", "text=one", status=1)["state"] == "failed"
    id_ = shell.out("execution", "list", "--state", "failed", "-n", "1", "-q")
    assert "it has no retries" in shell.out("execution", "why", id_)
    assert "ValueError" in shell.out("execution", "show", id_)


def test_an_execution_without_a_waiter_stays_queued_and_is_waited_for_later(shell: Shell) -> None:
    shell.run("function", "add", "slow.py")
    queued = shell.run("run", "slow", "-i", "seconds=0", "--no-wait")
    id_ = queued.stdout.strip()
    assert "no worker is alive" in queued.stderr
    assert "queued, and no worker is alive" in shell.out("execution", "why", id_)
    assert shell.out("execution", "wait", id_) == '"slept"'
    assert "finished execution cannot be cancelled" in shell.run("execution", "cancel", id_, status=5).stderr
    assert "nothing to retry" in shell.run("execution", "retry", id_, status=5).stderr
    other = shell.out("execution", "replay", id_, "--no-wait")
    shell.run("execution", "cancel", other)
    assert "cancelled" in shell.run("execution", "wait", other, status=1).stderr


def test_a_wait_that_is_over_ends_with_124_and_ctrl_c_with_130(shell: Shell) -> None:
    shell.run("function", "add", "slow.py")
    assert (
        "still running" in shell.run("run", "slow", "-i", "seconds=30", "--timeout", "2", status=124).stderr
    )
    process = shell.start("event", "tail", "--follow")
    with process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(patient(20)) == 130
        assert process.stderr.read() == "error: interrupted\n"


def test_a_follower_prints_the_events_that_come_after_it(shell: Shell) -> None:
    shell.run("event", "emit", "first.event", "--data", '{"n": 1}')
    process = shell.start("event", "tail", "--follow", "--json", "--type", "first.event")
    with process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["data"] == {"n": 1}
        shell.run("event", "emit", "other.event")
        shell.run("event", "emit", "first.event", "--data", '{"n": 2}')
        assert json.loads(process.stdout.readline())["data"] == {"n": 2}
        process.terminate()


def test_an_event_waits_for_what_follows_and_prints_its_tree(shell: Shell) -> None:
    shell.run("function", "add", "report.py")
    (shell.folder / "trigger.toml").write_text(
        'name = "on-order"\nfunction = "report"\nwhen = "data.sum > 1"\n'
        '[on]\ntype = ["order.created"]\n[input]\ntotal = "{{ event.data }}"\n'
    )
    shell.run("trigger", "add", "--file", "trigger.toml")
    drawn = shell.out("event", "emit", "order.created", "--data", '{"sum": 2}', "--subject", "A1", "--wait")
    assert drawn.startswith("event order.created A1") and "└─ ✓ report v1 succeeded" in drawn
    emitted = shell.out("event", "emit", "order.created", "--data", '{"sum": 1}')
    tried = shell.json("trigger", "test", "on-order", "--event", emitted, status=1)
    assert tried["fires"] is False and tried["condition"]["holds"] is False
    hypothetical = json.dumps({"type": "order.created", "data": {"sum": 5}})
    tried = shell.json("trigger", "test", "on-order", "--event", "-", stdin=hypothetical)
    assert tried["fires"] is True and tried["input"] == {"total": {"sum": 5}}
    once = [shell.out("event", "emit", "order.created", "--dedup-key", "k") for _ in range(2)]
    assert once[0] == once[1]


def test_the_trigger_spelling_of_babyagi_works(shell: Shell) -> None:
    shell.run("function", "add", "report.py")
    shell.run("function", "add", "parse.py")
    saved = shell.json(
        "trigger", "add", "--event-type", "function_updated", "--target-function", "parse",
        "--trigger-function", "report", "--condition", "checked=true",
    )  # fmt: skip
    assert saved["definition"]["on"]["type"] == ["function.updated"]
    assert saved["name"] == "report-on-function_updated-parse"
    shell.run("trigger", "pause", saved["name"], "--note", "later")
    assert shell.json("trigger", "show", saved["name"])["state"] == "paused"
    shell.run("trigger", "resume", saved["name"])
    shell.run("trigger", "delete", saved["name"], "--yes")
    assert shell.json("trigger", "list") == []


def test_a_secret_is_read_from_stdin_and_never_printed(shell: Shell) -> None:
    value = "s3cret-value-never-printed"
    said = [shell.run("secret", "set", "API_KEY", stdin=f"{value}\n") for _ in range(2)]
    said += [
        shell.run("secret", "list"),
        shell.run("secret", "list", "--json"),
        shell.run("config"),
        shell.run("doctor"),
    ]
    assert "version 2" in said[1].stdout
    assert not any(value in done.stdout + done.stderr for done in said)
    stored = b"".join(file.read_bytes() for file in (shell.folder / "home").iterdir())
    assert value.encode() not in stored
    shell.run("secret", "delete", "API_KEY", "--yes")
    assert shell.json("secret", "list") == []
    assert "not removed from logs" not in said[0].stderr
    assert "not removed from logs" in shell.run("secret", "set", "SHORT", stdin="on\n").stderr


def test_state_is_kept_for_a_function(shell: Shell) -> None:
    shell.run("function", "add", "parse.py")
    shell.run("state", "set", "parse", "seen", "[1, 2]")
    assert shell.json("state", "get", "parse", "seen") == {
        "function": "parse", "key": "seen", "value": [1, 2], "version": 1,
    }  # fmt: skip
    assert "not" not in shell.out("state", "delete", "parse", "seen")
    assert "has no value under the key 'seen'" in shell.run("state", "get", "parse", "seen", status=3).stderr


def test_vectors_are_counted_on_one_line(shell: Shell) -> None:
    case = {"id": "1", "pattern": '{"a": [1]}', "event": '{"a": 1}', "match": True}
    (shell.folder / "v.json").write_text(json.dumps({"cases": [case], "invalid": []}))
    assert json.loads(shell.out("trigger", "vectors", "v.json"))["right"] == 1
    (shell.folder / "v.json").write_text(json.dumps({"cases": [case | {"match": False}], "invalid": []}))
    assert json.loads(shell.out("trigger", "vectors", "v.json", status=1))["wrong_ids"] == ["1"]


def test_doctor_status_and_config_tell_the_truth(shell: Shell) -> None:
    findings = {found["check"]: found for found in shell.json("doctor")}
    assert {found["verdict"] for found in findings.values()} <= {"ok", "warn"}
    assert findings["sandbox"]["verdict"] == "ok" and "stopped all 12 attacks" in findings["sandbox"]["found"]
    assert shell.json("status")["workers"] == []
    shell.environment["FUNCTORY_MAX_DEPTH"] = "5"
    (shell.folder / "functory.toml").write_text("worker_slots = 2\n")
    settings = {row["name"]: row for row in shell.json("config")}
    assert (settings["max_depth"]["value"], settings["max_depth"]["source"]) == (5, "environment")
    assert (settings["worker_slots"]["value"], settings["worker_slots"]["source"]) == (2, "functory.toml")
    assert settings["port"]["source"] == "default"
    assert shell.json("db", "status")["current"] is True


def json_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]
