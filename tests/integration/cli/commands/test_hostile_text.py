"""Text from outside on the terminal: no command prints what a terminal would obey, and no line of it can be forged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from functory.cli import application, command_index, session
from functory.client.functory import Functory
from functory.engine.serialization.control_characters import CONTINUATION
from functory.terminal import console
from tests.support.model_calls import answered
from tests.support.waiting import wait_for
from tests.support.world import embedded

pytest_plugins = ["tests.support.world"]

EVIL = "a\x1b[2Jb\x9bc\u202ed\u2066e\u200bf\ufeffg"
FORGED = "+0.001 stderr forged"
LINES = f"{EVIL}\n{FORGED}\n"
# A name of a file or a subject, which may not hold control characters, or holds no newline.
NAME = EVIL.replace("\x1b", "").replace("\x9b", "")
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")

# Run in this order on data in which every text is hostile; {…} are ids of it. The last ones change or delete it.
COMMANDS = """
event list | event show {event} | event show {event} --json | event why {event} | event tail -n 50
execution list | execution show {execution} | execution logs {execution} | execution spans {execution}
execution tree {execution} | execution why {execution} | execution wait {execution}
function list | function show hostile | function versions hostile | function diff hostile 1 2 | function deps hostile
function history hostile | function stats | function stats hostile
run echo --input-json {input} | function run hostile --input-json {input}
trigger list | trigger show on-hostile | trigger versions on-hostile | trigger graph | trigger debug on-hostile
trigger test on-hostile --event {event} | trigger backtest on-hostile --since 1h | trigger suppressed
trigger suppressed --events | trigger vectors {vectors}
schedule list | schedule show nightly | schedule next nightly | schedule ticks nightly
watch list | watch show inbox | watch files inbox | webhook list | webhook show hook
source list | source show file inbox | state get hostile {key} | state list hostile | grant list
pack import stackstorm {pack} --dry-run
status | top --once | verify --patience 1h | doctor | user list | user show ada | login list
event emit hostile --data {data} --subject {name} --wait
state set hostile {key} {value} | state delete hostile {key}
execution replay {execution} | execution retry {execution} | execution cancel {execution}
execution compensate {execution}
trigger pause on-hostile --note {value} | trigger resume on-hostile | trigger replay on-hostile {event}
canary start hostile@1 | canary hold hostile --reason {value} | canary list | canary show hostile
canary advance hostile --hours 1 | canary rollback hostile --reason {value}
function mark hostile@1 bad --reason {value} | function activate hostile@1 | function rollback hostile
grant allow hostile@2 host a.org --reason {value} | grant revoke hostile@2 host a.org --reason {value}
function add {source} | source pause file inbox --note {value}
model list | model show evil | model set evil --note {value} | model test evil | model disable evil
llm calls | llm show {call} | llm show {failed} | llm cost --by agent | llm cost --by user
memory list | memory show {memory} | memory search forged | memory add {value} --kind lesson
memory forget {memory} --yes
function describe hostile {value} | function search forged
agent list | agent show clerk | agent runs list | agent runs show {run} | agent runs steps {run} | agent runs cost {run}
agent run clerk {value} --no-wait | agent set clerk --description {value} | agent runs pause {run}
agent runs resume {run} | approval list | approval show {question} | approval reject {question} --feedback {value}
agent runs cancel {run}
agent runs replay {run} | agent runs fork {run} 1 --timeout 20 | agent runs eval {run} --recorded --timeout 20
proposal create {proposed} --description {value} | proposal list | proposal show @last | proposal diff @last
gate policy set all --approval none=auto | gate policy list | gate why hostile
budget show {root} | budget raise {root} --usd 5 | budget quotas | budget set-quota user {name} --usd 1
"""
# They print one value as JSON.
VALUES = ("event show {event} --json", "state get hostile {key}", "run echo --input-json {input}")
REASONS = {
    "names, versions and numbers, which are checked when they are stored": """
        proposal approve, proposal reject, proposal withdraw,
        canary promote, canary stop, dashboard link, function delete, function disable, function enable, function label,
        function log-policy, function rename,
        agent add, agent enable, agent disable, agent remove, approval answer, approval approve,
        login end, login server, logout, token create, token forget, model add, model enable, model remove,
        budget remove-quota,
        token list, token revoke, token store, trigger label, user create, user delete, user disable, user enable,
        user password, user update, trigger add, trigger budget, trigger delete, trigger halt, trigger
        promote, trigger resume-suppressed, trigger unhalt, event release, secret delete, secret list, secret
        set, secret retire-keys, secret rotate-key, schedule add, schedule backfill, schedule delete, schedule
        pause, schedule resume, schedule trigger, watch add, watch delete, watch pause, watch rescan, watch
        resume, watch table, webhook add, webhook delete, webhook pause, webhook resume, source add, source
        delete, source resume, db backup, db prune, db restore, db status, db upgrade""",
    "the same code as another command, in an editor of the user": "function edit",
    "its own texts, and the settings of the caller": "config, demo, init, source kinds",
    "the answer of the caller's own server": "webhook test",
    "what uv says, which is cleaned before it is stored": """
        environment build, environment list, environment prune, environment show""",
    "a log, which has tests of its own, and the feed of events": """
        server, router, worker, scheduler, watcher, gateway, dev""",
}  # fmt: skip


def leaf_commands() -> Iterator[str]:
    for entry in command_index.entries():
        command: Any = application.load_command(entry)
        verbs = getattr(command, "commands", None)
        yield from (f"{entry.name} {verb}" for verb in verbs) if verbs else (entry.name,)


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[tuple[Functory, dict[str, str]]]:
    """An engine with hostile texts wherever a text may be stored, and the values of the commands' arguments."""
    inbox, pack = tmp_path / "inbox", tmp_path / "pack"
    (inbox / "below").mkdir(parents=True)
    (inbox / (NAME + "\n" + FORGED)).write_text("x")
    (pack / "actions").mkdir(parents=True)
    (pack / "pack.yaml").write_text(json.dumps({"ref": "evil", "name": LINES, "version": LINES}))
    (pack / "actions" / "a.yaml").write_text(
        json.dumps({"name": LINES, "runner_type": LINES, "entry_point": LINES})
    )
    (pack / (NAME + "\n" + FORGED + ".yaml")).write_text("{")
    source = tmp_path / "wrong.py"
    # Not even Python.
    source.write_text(f"def wrong():\n    return missing({EVIL!r})\n    '''{EVIL}'''\nx y {EVIL}\n")
    vectors = tmp_path / "vectors.json"
    case = {"id": LINES, "pattern": {"a": [LINES]}, "event": {"a": 1}, "match": True}
    vectors.write_text(json.dumps({"cases": [case], "invalid": []}))
    with embedded(tmp_path / "home") as engine:
        engine.functions.save("def helper(x):\n    return x\n")
        engine.functions.save("def echo(x):\n    return [x, {x: x}]\n")
        body = (
            f"def hostile(x):\n    '''{EVIL}'''\n    import sys\n    from functory import log\n"
            f"    log({LINES!r})\n    print({EVIL!r})\n    helper({LINES!r})\n    raise ValueError({LINES!r})\n"
        )
        fields: dict[str, Any] = {
            "metadata": {"note": LINES, "description": LINES},
            "dependencies": ["helper"],
        }
        engine.functions.save(
            body.replace("import sys\n", f"import os  # {EVIL}\n"), name="hostile", author=LINES, **fields
        )
        engine.functions.save(body, name="hostile", author=LINES, **fields)
        engine.functions.mark("hostile", 1, "good", reason=LINES, author=LINES)
        engine.grant_approvals.allow("hostile", 2, "host", "b.org", reason=LINES, author=LINES)
        engine.start()
        engine.register_trigger(
            "on-hostile", on={"type": ["hostile"], "data": {"value": [{"anything-but": [LINES + "x"]}]}},
            function="hostile", input={"x": "{{ event.data.value }}"},
        )  # fmt: skip
        engine.register_trigger(
            "fails", on={"type": ["hostile"]}, function="hostile", input={"x": "{{ event.data.none }}"}
        )
        engine.sources.save("file", "inbox", {"path": str(inbox), "initial": "events"}, author=LINES)
        engine.schedules.save("nightly", cron="0 3 * * *", data={"x": LINES})
        engine.sources.save(
            "webhook", "hook", {"auth": {"type": "none", "allow_unauthenticated": True}}, author=LINES
        )
        for kind, name in (("file", "inbox"), ("schedule", "nightly"), ("webhook", "hook")):
            engine.sources.pause(kind, name, note=LINES, author=LINES)
            engine.sources.resume(kind, name, author=LINES)
        engine.state.set("hostile", NAME, {"x": LINES, LINES: 1})
        password = SecretStr("a long password of ada")
        engine.users.create("ada", password)
        engine.logins.log_in("ada", password, address=LINES, agent=LINES)
        event = engine.emit("hostile", {"value": LINES, LINES: LINES}, subject=NAME)
        engine.settle(60)
        (row,) = engine.executions.list(function="hostile")
        script = tmp_path / "script.json"
        tool = {"name": NAME, "arguments": {LINES: LINES}}
        rules = [{"contains": "wrong", "problem": LINES}, {"contains": "tool", "tool_calls": [tool]}]
        script.write_text(json.dumps([*rules, {"text": LINES}]))
        fields = {"adapter": "script", "provider_model": str(script), "price_in": 1, "price_out": 1}
        engine.models.add("evil", {**fields, "note": LINES}, author=LINES)
        engine.budgets.set_quota("agent", NAME, {"usd": 1}, author=LINES)
        whose = {"model": "evil", "function": "hostile", "agent": NAME, "user": NAME}
        call = answered(engine, LINES, **whose)
        failed = answered(engine, f"wrong {LINES}", **whose)
        engine.functions.save(
            "from functory import step\n\n"
            "def clerk(memo, given=None):\n    return step.ask(memo['goal'], choices=[memo['goal'][:200]])\n"
        )
        remembered = engine.memory.add(LINES, author=LINES)
        engine.agents.add("clerk", {"function": "clerk", "description": LINES}, author=LINES)
        run = engine.runs.start("clerk", LINES, author=LINES, user=NAME)
        question = wait_for(engine.runs.questions)[0]
        proposed = tmp_path / "proposed.py"
        proposed.write_text(f"def proposed(x):\n    '''{EVIL}'''\n    return x\n")
        yield engine, {
            "event": event, "run": run["id"], "question": question["id"], "memory": remembered["id"],
            "execution": row["id"], "input": json.dumps({"x": LINES}),
            "data": json.dumps({"value": LINES}), "key": NAME,
            "call": call["id"], "failed": failed["id"], "root": call["root_id"],
            "value": LINES, "name": NAME, "pack": str(pack), "source": str(source),
            "proposed": str(proposed), "vectors": str(vectors),
        }  # fmt: skip


@pytest.mark.parametrize("terminal", [False, True])
def test_no_command_prints_what_a_terminal_obeys(
    hostile: tuple[Functory, dict[str, str]],
    terminal: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine, values = hostile
    plain = console.CommandOutput.__init__

    def made(out: console.CommandOutput, **given: bool) -> None:
        plain(out, **given)
        out.is_terminal = terminal

    monkeypatch.setattr(console.CommandOutput, "__init__", made)
    wrong, said, silent = [], {}, []
    for spelled in filter(None, map(str.strip, re.split(r"[|\n]", COMMANDS))):
        command = [part.format_map(values) if part.startswith("{") else part for part in spelled.split()]
        with session.sharing(engine):
            application.run(command)
        captured = capsys.readouterr()
        said[spelled] = captured.out
        silent += [] if captured.out or captured.err else [spelled]
        for part, text in (("stdout", captured.out), ("stderr", captured.err)):
            if "Traceback (most" in text and "this is a defect" in text:
                wrong.append((spelled, part, text[-500:]))
            if part == "stdout" and not terminal and spelled in VALUES:
                # A program gets the value as it is stored.
                assert json.dumps(LINES)[1:-1] in json.dumps(json.loads(text))
                continue
            shown = COLOURS.sub("", text)
            wrong += [(spelled, part, found) for found in HARMFUL.findall(shown)]
            wrong += [(spelled, part, line) for line in shown.split("\n") if line.startswith(FORGED)]
    assert wrong == []
    # In a pipe an empty table is no line.
    assert silent == ([] if terminal else ["schedule ticks nightly"])
    assert CONTINUATION + FORGED in COLOURS.sub("", said["execution logs {execution}"])
    # The texts were there to be printed.
    assert all(
        "forged" in said[one]
        for one in (
            "event show {event}",
            "execution show {execution}",
            "function show hostile",
            "llm show {call}",
            "llm show {failed}",
            "model show evil",
        )
    )


def test_every_command_is_tried_or_has_a_reason() -> None:
    tried = {" ".join(words.split()[:2]) for words in re.split(r"[|\n]", COMMANDS) if words.strip()}
    reasons = [" ".join(name.split()) for names in REASONS.values() for name in names.split(",")]
    commands = set(leaf_commands())
    tried = {name if name in commands else name.split()[0] for name in tried}
    assert len(reasons) == len(set(reasons)) and not tried & set(reasons)
    assert tried | set(reasons) == commands
