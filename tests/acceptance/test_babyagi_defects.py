"""What went wrong in an ancestor of this project when it was run, sentence by sentence, and goes right here.

Functory took its idea from BabyAGI 0.1.4 ("functionz"). A study of that program listed its defects with a
reproducer for each; the numbers in the names of these tests are the ones of that list. Everything here is
used as a user would: an embedded engine, its Python API, functions run in child processes.
"""

import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import functory as api
from functory.client import Functory
from functory.engine.errors import Conflict, ExecutionFailed, Invalid, NotFound

pytest_plugins = ["tests.support.world"]


def add(engine: Functory, source: str, **declared: Any) -> dict[str, Any]:
    """Save a function from its source text."""
    return engine.functions.save(textwrap.dedent(source), **declared)


def states(engine: Functory, function: str) -> list[str]:
    """The states of a function's executions, oldest first."""
    return [row["state"] for row in reversed(engine.executions.list(function=function, limit=1000))]


@pytest.fixture
def module(tmp_path: Path, engine: Functory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports a file of a user, whose ``from functory import …`` means this test's engine."""
    monkeypatch.syspath_prepend(tmp_path)
    api.use(engine)
    imported: list[str] = []

    def load(name: str, text: str) -> Any:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        imported.append(name)
        return __import__(name)

    yield load
    api.use(None)
    for name in imported:
        sys.modules.pop(name, None)


def test_defect_1_a_registered_function_that_is_called_leaves_a_log(engine, module):
    file = module(
        "readme",
        """
        from functory import register_function

        @register_function(metadata={"description": "greets"})
        def hello_world(name: str = "world") -> str:
            print("greeting", name)
            return f"Hello {name}!"
    """,
    )
    assert api.call("hello_world", "Ada") == "Hello Ada!"
    assert api.hello_world() == "Hello world!"
    assert file.hello_world("here") == "Hello here!", "it stays an ordinary function for unit tests"
    assert states(engine, "hello_world") == ["succeeded"] * 2
    row = engine.executions.list()[-1]
    assert (row["input"], row["result"]) == ({"name": "Ada"}, "Hello Ada!")
    assert [line["text"] for line in engine.executions.logs(row["id"])] == ["greeting Ada"]


def test_defect_2_a_metadata_only_or_code_only_update_keeps_dependencies_imports_secrets_and_triggers(engine):
    add(engine, "def h(x): return x + 1\n")
    engine.secrets.set("KEY", "hunter2")
    add(engine, "def u(x): return math.floor(h(x))\n", dependencies=["h"], imports=["math"], secrets=["KEY"])
    engine.register_trigger(
        "after-u", on={"type": ["u.wanted"]}, function="u", input={"x": "{{ event.data }}"}
    )
    engine.functions.update("u", metadata={"description": "new"})
    engine.functions.update("u", source="def u(x): return math.floor(h(x)) * 10\n")
    kept = engine.functions.get("u")
    assert (kept["number"], kept["imports"], kept["secrets"], [d["name"] for d in kept["dependencies"]]) == (
        3,
        ["math"],
        ["KEY"],
        ["h"],
    )
    assert engine.call("u", 1.5) == 20
    engine.emit("u.wanted", 2)
    engine.settle()
    assert engine.executions.list(function="u")[0]["result"] == 30


OUTPUTS = {
    "a set": ("return {1, 2}", "set"),
    "bytes": ("return b'abc'", "bytes"),
    "a datetime": ("import datetime; return datetime.datetime(2026, 1, 2)", "datetime"),
    "an object": ("class Client: pass\n    return Client()", "Client"),
    "not a number": ("return float('nan')", "float"),
}


def test_defect_5_an_output_that_json_cannot_hold_does_not_turn_a_success_into_an_error(engine):
    add(engine, "def after(event): return event['data']['output_kind']\n")
    engine.register_trigger(
        "on-odd", on={"type": ["execution.succeeded"], "subject": [{"prefix": "odd"}]}, function="after"
    )
    for number, (kind, (body, type_)) in enumerate(OUTPUTS.items()):
        add(engine, f"def odd{number}():\n    print('the side effect')\n    {body}\n")
        row = engine.run(f"odd{number}", {})
        assert row["state"] == "succeeded", kind
        assert row["result_kind"] == "repr", kind
        assert type_ in str(row["result"])
        assert row["warnings"], kind
    engine.settle()
    assert states(engine, "after") == ["succeeded"] * len(OUTPUTS), "its triggers fire"


def test_defect_5_such_an_object_passes_between_a_function_and_its_dependency(engine):
    add(engine, "class Client:\n    def get(self): return {1, 2}\ndef make_client(): return Client()\n")
    add(engine, "def use(): return sorted(make_client().get())\n", dependencies=["make_client"])
    assert engine.call("use") == [1, 2]


def test_defect_7_declared_keys_are_stored_and_a_missing_one_is_told_before_the_code_runs(engine):
    saved = add(
        engine,
        "from functory import secret\ndef keyed():\n    print('ran')\n    return len(secret('API_KEY'))\n",
        key_dependencies=["API_KEY"],
    )
    assert saved["secrets"] == ["API_KEY"]
    row = engine.run("keyed", {})
    assert row["state"] == "failed"
    assert "keyed v1 needs the secret API_KEY" in row["error"]["message"]
    assert "functory secret set API_KEY" in row["error"]["message"]
    assert engine.executions.logs(row["id"]) == []
    engine.secrets.set("API_KEY", "hunter2")
    assert engine.call("keyed") == 7


def test_defect_12_lineage_cannot_be_forged_or_broken_by_the_caller(engine):
    add(engine, "def h(**given): return sorted(given)\n")
    add(engine, "def u(event): return None\n")
    engine.register_trigger("u-after-h", on={"type": ["execution.succeeded"], "subject": ["h"]}, function="u")
    forged = {
        "parent_log_id": 123456,
        "triggered_by_log_id": 7,
        "executed_functions": ["u"],
        "root_id": "x",
        "parent_id": "y",
        "depth": 9,
    }
    row = engine.run("h", forged)
    assert row["result"] == sorted(forged), "these are ordinary arguments"
    assert (row["parent_id"], row["event_id"], row["root_id"], row["depth"], row["chain"]) == (
        None,
        None,
        row["id"],
        0,
        [],
    )
    engine.settle()
    (triggered,) = engine.executions.list(function="u")
    assert (triggered["root_id"], triggered["depth"]) == (row["id"], 1)
    add(
        engine,
        "from functory import call, emit\n"
        "def outer():\n    emit('note.made')\n    return call('h', root_id='forged')\n",
    )
    outer = engine.run("outer", {})
    (child,) = engine.executions.list(parent_id=outer["id"])
    assert (child["root_id"], child["depth"]) == (outer["id"], 1)
    assert engine.events.list(type_="note.made")[0]["cause_execution_id"] == outer["id"]


def test_defect_13_no_parameter_name_is_reserved(engine):
    names = [
        "function_name",
        "parent_log_id",
        "self",
        "args",
        "input",
        "cause",
        "event",
        "version",
        "timeout",
        "name",
        "function",
    ]
    add(engine, f"def f({', '.join(names)}): return [{', '.join(names)}]\n")
    given = {name: n for n, name in enumerate(names)}
    assert engine.call("f", **given) == list(given.values())
    add(engine, "from functory import call\ndef g(given): return call('f', **given)\n")
    assert engine.call("g", given) == list(given.values())


def test_defect_14_activating_a_version_that_does_not_exist_changes_nothing(engine):
    add(engine, "def f(): return 1\n")
    add(engine, "def f(): return 2\n")
    with pytest.raises(NotFound, match="function 'f' has no version 99"):
        engine.functions.activate("f", 99)
    assert engine.call("f") == 2
    assert engine.functions.update("f", metadata={"a": 1})["number"] == 3


def test_defect_15_a_missing_dependency_is_marked_and_does_not_make_a_version_at_every_registration(engine):
    for _ in range(3):
        saved = add(engine, "def choose(x): return later(x)\n", dependencies=["later"])
    assert (saved["number"], saved["warnings"]) == (1, ["the dependency later does not exist yet"])
    row = engine.run("choose", {"x": 1})
    assert row["state"] == "failed"
    assert "function 'later' not found\nit is a dependency of choose v1" in row["error"]["message"]
    add(engine, "def later(x): return x * 2\n")
    assert engine.call("choose", 4) == 8
    assert add(engine, "def choose(x): return later(x)\n", dependencies=["later"])["number"] == 1


def test_defect_16_concurrent_updates_never_share_a_version_number(engine):
    add(engine, "def f(): return 0\n")
    numbers: list[int] = []

    def update(thread: int) -> None:
        for n in range(10):
            numbers.append(engine.functions.update("f", metadata={"by": f"{thread}.{n}"})["number"])

    threads = [threading.Thread(target=update, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(2, 62))
    assert len(engine.functions.versions("f")) == 61


def test_defect_18_a_function_that_is_a_dependency_still_runs_as_a_trigger(engine):
    add(engine, "def x(value=None): return 'x'\n")
    add(engine, "def a(): return x()\n", dependencies=["x"])
    engine.register_trigger(event_type="function_executed", target_function="a", trigger_function="x")
    row = engine.run("a", {})
    engine.settle()
    assert [span["function"] for span in engine.executions.spans(row["id"])] == ["x"]
    assert states(engine, "x") == ["succeeded"]


def test_defect_18_a_join_below_a_diamond_may_run_for_each_side_and_both_are_recorded(engine):
    for name in ("left", "right", "join"):
        add(engine, f"def {name}(value=None): return '{name}'\n")
    add(engine, "def top(): return 1\n")
    for target, function in (("top", "left"), ("top", "right"), ("left", "join"), ("right", "join")):
        engine.register_trigger(
            event_type="function_executed", target_function=target, trigger_function=function
        )
    row = engine.run("top", {})
    engine.settle()
    assert Counter(e["function"] for e in engine.executions.list(root_id=row["id"])) == {
        "top": 1,
        "left": 1,
        "right": 1,
        "join": 2,
    }
    joins = engine.executions.list(function="join")
    assert sorted(engine.lineage.cause(j["id"])["event"]["subject"] for j in joins) == ["left", "right"]


ENDS = {
    "SystemExit": ("raise SystemExit(3)", {"failed", "dead"}),
    "the end of the process": ("import os; os._exit(3)", {"dead"}),
    "a crash": ("import ctypes; ctypes.string_at(0)", {"dead"}),
}


def test_defect_19_an_end_of_the_process_is_an_end_of_the_execution(engine):
    for number, (end, (code, expected)) in enumerate(ENDS.items()):
        add(engine, f"def f{number}():\n    {code}\n", limits={"max_attempts": 1})
        row = engine.run(f"f{number}", {}, timeout=60)
        assert row["state"] in expected, end
        assert row["finished_at"] is not None
        assert [a["outcome"] for a in engine.executions.attempts(row["id"])] != [None]
    assert engine.executions.list(state="running") == []
    add(engine, "def g(): return 1\n")
    assert engine.call("g") == 1


def test_defect_20_annotations_and_globals_of_the_file_come_along(engine, module):
    module(
        "pack",
        """
        import json as encoder
        from dataclasses import dataclass
        from typing import Optional

        from functory import register_function

        FACTOR: int = 3
        UNUSED = 4

        @dataclass
        class Part:
            '''It mentions other() in its text.'''
            size: int

        def other():
            return 1

        @register_function()
        def ann(x: Optional[str] = None, later: "Optional[int]" = None) -> dict:
            '''See other for more.'''
            part = Part(FACTOR)
            return {"x": x, "text": encoder.dumps(part.size), "other": "the word other"}
    """,
    )
    assert api.call("ann", x="a") == {"x": "a", "text": "3", "other": "the word other"}
    stored = engine.functions.get("ann")
    assert "UNUSED" not in stored["source"]
    assert "def other" not in stored["source"]
    assert stored["input_schema"]["properties"]["x"]["anyOf"] == [{"type": "string"}, {"type": "null"}]


def test_defect_20_what_cannot_come_along_is_told_at_registration(engine, module):
    with pytest.raises(Invalid, match="broken uses the function helper of its file"):
        module(
            "pack_two",
            """
            from functory import register_function

            def helper():
                return 1

            @register_function()
            def broken():
                return helper()
        """,
        )
    with pytest.raises(Invalid, match="fallback uses toml"):
        module(
            "pack_three",
            """
            from functory import register_function

            try:
                import tomllib as toml
            except ImportError:
                toml = None

            @register_function()
            def fallback(text: str):
                return toml.loads(text)
        """,
        )
    assert engine.functions.list() == []


def test_defect_21_an_async_function_is_registered_and_awaited(engine, module):
    module(
        "aio",
        """
        import asyncio

        from functory import register_function

        @register_function()
        async def wait_for(n: int) -> int:
            await asyncio.sleep(0)
            return n + 1

        @register_function(dependencies=["wait_for"])
        async def both(n: int) -> list:
            return await asyncio.gather(wait_for(n), wait_for(n + 1))
    """,
    )
    assert api.call("wait_for", 1) == 2
    assert api.call("both", 1) == [2, 3]


@pytest.mark.parametrize(("source", "message"), [
    ("def bad(:\n    pass\n", r"(?s)syntax error.*line 1.*def bad\(:\n +\^"),
    ("def other(): ...\n", "defines other, not bad"),
    ("x = 1\n", "holds no function"),
    ("def bad(): ...\ndef worse(): ...\n", r"several functions\nfound bad \(line 1\), worse \(line 2\)"),
    ("import os\nos.remove('x')\ndef bad(): ...\n", "does something at its top level\nline 2"),
])  # fmt: skip
def test_defect_24_code_is_checked_when_it_is_saved(engine, source, message):
    with pytest.raises(Invalid, match=message):
        engine.functions.save(source, name="bad")
    assert engine.functions.list() == []


def test_defect_25_a_function_that_others_need_is_not_removed_silently(engine):
    add(engine, "def base(): return 1\n")
    add(engine, "def dep(): return base()\n", dependencies=["base"])
    with pytest.raises(Conflict, match="it is needed by function dep"):
        engine.functions.delete("base")
    assert engine.call("dep") == 1
    engine.functions.delete("base", force=True)
    row = engine.run("dep", {})
    assert row["state"] == "failed"
    assert "function 'base' not found" in row["error"]["message"]


def test_defect_29_a_secret_is_never_empty_neither_a_new_one_nor_a_known_one(engine):
    with pytest.raises(Invalid, match="wrong secret value"):
        engine.secrets.set("KEY", "")
    engine.secrets.set("KEY", "hunter2")
    with pytest.raises(Invalid, match="wrong secret value"):
        engine.secrets.set("KEY", "")
    assert engine.secrets.open("KEY").get_secret_value() == "hunter2"


def test_defect_30_an_update_of_an_unknown_function_is_refused_and_stores_nothing(engine):
    for changes in ({"source": "def missing(): ...\n"}, {"metadata": {"a": 1}}, {}):
        with pytest.raises(NotFound, match="function 'missing' not found"):
            engine.functions.update("missing", **changes)
    assert engine.functions.list() == []


def test_the_first_loop_a_trigger_on_itself_that_calls_itself_through_the_engine_stops_at_its_limits(engine):
    """There: 73 + 73 executions until the interpreter's recursion limit, all of them roots, all `success`."""
    add(engine, "from functory import call\ndef z(value=None): return call('zt')\n", limits={"timeout": 60})
    add(engine, "from functory import call\ndef zt(value=None): return call('z')\n", limits={"timeout": 60})
    row = engine.run("z", {}, timeout=100)
    assert row["state"] == "failed"
    assert "depth" in row["error"]["message"]
    tree = engine.executions.list(root_id=row["id"], limit=1000)
    assert sorted(e["depth"] for e in tree) == list(range(engine.settings.max_depth + 1)), (
        "exactly one a level, 16 deep"
    )
    assert [e["id"] for e in tree if e["parent_id"] is None] == [row["id"]]
    assert {e["state"] for e in tree} == {"failed"}, "no level pretends that it succeeded"

    add(engine, "def s(value=None): return 1\n")
    loop = {"event_type": "function_executed", "target_function": "s", "trigger_function": "s"}
    engine.register_trigger(**loop)
    first = engine.run("s", {})
    engine.settle()
    assert states(engine, "s") == ["succeeded"] * 2
    (stopped,) = [f for f in engine.lineage.suppressed() if f["root_id"] == first["id"]]
    assert (stopped["reason"], stopped["limit_value"], stopped["actual_value"]) == ("own_event", 0, 1)
    (node,) = [
        n for top in engine.lineage.tree(first["id"]).nodes for n in top.walk() if n.kind == "suppressed"
    ]
    assert node.row["trigger"] == "s-on-function_executed-s"


BUMP = """
    from functory import functions
    def bump(event):
        row = functions.get("bump")
        functions.update("bump", metadata={"n": row["metadata"].get("n", 0) + 1})
"""


@pytest.mark.parametrize(("guards", "reason", "versions", "limit"), [
    ({"acknowledge_cycle": 1}, "own_event", 1, 0),
    ({"acknowledge_cycle": 3, "allow_self": True}, "cycle", 3, 3),
    ({"acknowledge_cycle": 64, "allow_self": True, "max_depth": 5}, "depth", 5, 5),
])  # fmt: skip
def test_the_second_loop_a_function_that_updates_itself_stops_at_exactly_its_limit(
    engine, guards, reason, versions, limit
):
    """There: 160 versions in 27 seconds until a RecursionError that was swallowed."""
    add(engine, BUMP, permissions=["functions:read", "functions:write"])
    engine.register_trigger(
        "on-update", on={"type": ["function.updated"], "subject": ["bump"]}, function="bump", guards=guards
    )
    engine.functions.update("bump", metadata={"n": 100})
    engine.settle()
    assert states(engine, "bump") == ["succeeded"] * versions
    assert len(engine.functions.versions("bump")) == 2 + versions
    (stopped,) = engine.lineage.suppressed()
    assert (stopped["reason"], stopped["limit_value"], stopped["actual_value"]) == (reason, limit, limit + 1)
    (told,) = engine.events.list(type_="trigger.suppressed")
    assert told["data"]["chain"] == ["on-update"] * (versions + 1)
    assert told["root_id"] == stopped["root_id"]


def test_the_second_loop_stops_at_the_budget_of_its_root_when_nothing_else_stops_it(tmp_path):
    from tests.support.world import embedded

    with embedded(tmp_path, root_budget=4, max_depth=64) as engine:
        add(engine, BUMP, permissions=["functions:read", "functions:write"])
        engine.register_trigger(
            "on-update",
            on={"type": ["function.updated"], "subject": ["bump"]},
            function="bump",
            guards={"acknowledge_cycle": 64, "allow_self": True},
        )
        engine.functions.update("bump", metadata={"n": 100})
        engine.settle()
        assert states(engine, "bump") == ["succeeded"] * 4
        (stopped,) = engine.lineage.suppressed()
        assert (stopped["reason"], stopped["limit_value"], stopped["actual_value"]) == ("budget", 4, 5)


def test_a_function_without_the_right_to_change_functions_cannot(engine):
    add(engine, BUMP)
    row = engine.run("bump", {"event": None})
    assert row["state"] == "failed"
    assert "the permission functions:read is not declared" in row["error"]["message"]
    assert engine.functions.get("bump")["number"] == 1


@pytest.mark.parametrize("spelling", ["babyagi", "ours"])
def test_both_spellings_of_register_trigger_run_a_function_when_another_one_is_updated(
    engine, module, spelling
):
    fields = {
        "babyagi": 'event_type="function_updated", target_function="data_processor", '
        'trigger_function="validate_processor", '
                   'conditions={"auto_validate": True}',
        "ours": '"validate", on={"type": ["function.updated"], "subject": ["data_processor"], '
                '"data": {"metadata": {"auto_validate": [True]}}}, function="validate_processor"',
    }[spelling]  # fmt: skip
    module(
        f"pack_{spelling}",
        f"""
        from functory import register_function, register_trigger

        @register_function(metadata={{"auto_validate": True}})
        def data_processor(rows: list) -> int:
            return len(rows)

        @register_function()
        def validate_processor(event: dict) -> str:
            return event["type"] + " " + event["data"]["function"]

        register_trigger({fields})
    """,
    )
    engine.settle()
    assert states(engine, "validate_processor") == []
    engine.functions.update("data_processor", metadata={"auto_validate": True, "n": 1})
    engine.settle()
    (row,) = engine.executions.list(function="validate_processor")
    assert row["result"] == "function.updated data_processor"
    engine.functions.update("data_processor", metadata={"auto_validate": False})
    engine.settle()
    assert len(engine.executions.list(function="validate_processor")) == 1


def test_an_error_is_raised_to_the_caller_with_its_traceback_kept(engine):
    add(engine, "def deep(x):\n    return 1 / x\n")
    add(engine, "def top(x):\n    return deep(x)\n", dependencies=["deep"])
    with pytest.raises(ExecutionFailed, match="ZeroDivisionError") as caught:
        engine.call("top", 0)
    row = engine.executions.get(caught.value.execution_id)
    assert "return 1 / x" in row["error"]["traceback"]
    assert row["versions"] == ["deep@1", "top@1"]
