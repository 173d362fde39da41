"""Functions that write where they are triggered: lineage goes through the file, and the guards see the loop."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from functory.client.functory import Functory
from functory.engine.database import schema
from tests.support.waiting import wait_for
from tests.support.world import lines

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[Path]:
    """A folder that every user may write to: functions run as unprivileged users where the tests run as root."""
    before = os.umask(0)
    folder = tmp_path / "inbox"
    folder.mkdir()
    yield folder
    os.umask(before)


@pytest.fixture
def watch(engine: Functory, inbox: Path) -> Callable[..., None]:
    """Watches the folder with the engine, and waits until it does."""

    def begin(**config: object) -> None:
        engine.sources.save("file", "inbox", {"path": str(inbox), "settle": 0.1} | config)
        engine.start()
        wait_for(lambda: (engine.sources.get("file", "inbox")["cursor"] or {}).get("look"), "the first scan")

    return begin


def appending(inbox: Path, seconds: float = 0.0) -> str:
    return lines(
        "import time",
        "def append(path):",
        "    with open(path, 'a') as file:",
        "        file.write('x')",
        "        file.flush()",
        f"        time.sleep({seconds})",
        "    return path",
    )


def firings(engine: Functory) -> list[tuple[str, str]]:
    """Every decision so far, as (trigger, why not)."""
    with engine.database.read() as tx:
        statement = sa.select(schema.firing, schema.trigger.c.name).join(
            schema.trigger, schema.trigger.c.id == schema.firing.c.trigger_id
        )
        return sorted((row["name"], row["reason"] or "") for row in tx.rows(statement))


@pytest.mark.parametrize("seconds", [0.0, 1.0], ids=["short", "longer than the settle time"])
def test_a_function_that_writes_the_file_that_it_is_triggered_by_runs_once(engine, inbox, watch, seconds):
    engine.functions.save(appending(inbox, seconds), name="append", files={"write": [str(inbox)]})
    engine.functions.save("def note(path): return path\n")
    engine.register_trigger(
        "grow", on={"type": [{"prefix": "file."}]}, function="append", input={"path": "{{ event.data.path }}"}
    )
    engine.register_trigger(
        "also", on={"type": ["file.modified"]}, function="note", input={"path": "{{ event.data.path }}"}
    )
    watch()
    (inbox / "a.txt").write_text("begin")
    wait_for(lambda: ("grow", "own_event") in firings(engine), "the guard")
    engine.settle(30)
    # Others hear of what was written; the writer does not hear of itself.
    assert firings(engine) == [("also", ""), ("grow", ""), ("grow", "own_event")]
    assert (inbox / "a.txt").read_text() == "beginx"
    modified = engine.events.list(type_="file.modified")
    (written,) = [row for row in engine.executions.list() if row["function"] == "append"]
    assert [row["cause_execution_id"] for row in modified] == [written["id"]]
    created = engine.events.list(type_="file.created")
    assert modified[0]["root_id"] == created[0]["id"] == written["root_id"]


def test_two_functions_that_write_for_each_other_are_stopped_by_the_guard_of_cycles(engine, inbox, watch):
    for name, other in (("ping", "pong"), ("pong", "ping")):
        source = lines(
            f"def {name}(path, size):",
            f"    with open({str(inbox)!r} + '/{other}', 'w') as file:",
            "        file.write('x' * (size + 1))",
        )
        engine.functions.save(source, files={"write": [str(inbox)]})
        engine.register_trigger(
            f"on_{name}",
            on={"type": ["file.created", "file.modified"], "data": {"name": [name]}},
            function=name,
            input={"path": "{{ event.data.path }}", "size": "{{ event.data.size }}"},
        )
    watch()
    (inbox / "ping").write_text("begin")
    wait_for(lambda: [reason for _, reason in firings(engine) if reason], "a guard")
    engine.settle(30)
    assert {reason for _, reason in firings(engine)} == {"", "cycle"}
    roots = {row["root_id"] for row in engine.events.list(type_="file.modified", limit=100)}
    assert len(roots) == 1, "lineage goes through every file"


def test_what_others_drop_while_a_function_writes_is_not_taken_for_its_work(engine, inbox, watch):
    engine.functions.save(appending(inbox, 1.5), name="append", files={"write": [str(inbox)]})
    engine.register_trigger(
        "grow", on={"type": ["file.created"]}, function="append", input={"path": "{{ event.data.path }}"}
    )
    watch()
    (inbox / "first").write_text("1")
    wait_for(lambda: engine.executions.list(state="running"), "the execution")
    (inbox / "second").write_text("2")
    wait_for(lambda: (inbox / "second").read_text() == "2x", "the trigger for what was dropped meanwhile")
    engine.settle(30)
    assert firings(engine) == [("grow", ""), ("grow", "")]
    assert {row["cause_execution_id"] for row in engine.events.list(type_="file.created")} == {None}


def test_a_function_reads_the_folder_that_it_is_granted_and_cannot_write_there(engine, inbox, watch):
    source = lines("def load(path):", "    with open(path) as file:", "        return file.read()")
    engine.functions.save(source, files={"read": [str(inbox)]})
    spoil = lines("def spoil(path):", "    with open(path, 'w') as file:", "        file.write('no')")
    engine.functions.save(spoil, files={"read": [str(inbox)]})
    for name in ("load", "spoil"):
        engine.register_trigger(
            name, on={"type": ["file.created"]}, function=name, input={"path": "{{ event.data.path }}"}
        )
    watch()
    (inbox / "order.txt").write_text("7 apples")
    wait_for(lambda: len(engine.executions.list()) == 2, "both executions")
    engine.settle(30)
    rows = {row["function"]: row for row in engine.executions.list(payloads=True)}
    assert (rows["load"]["state"], rows["load"]["result"]) == ("succeeded", "7 apples")
    assert rows["spoil"]["state"] == "failed"
    assert (inbox / "order.txt").read_text() == "7 apples"
