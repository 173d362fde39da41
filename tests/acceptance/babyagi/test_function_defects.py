"""Defects of functions: saving, calling, results, versions, dependencies, secrets."""

import pytest

import functory as api
from functory.engine.errors import Conflict, ExecutionFailed, Invalid, NotFound
from tests.support.babyagi_functions import add, states
from tests.support.patience import patient

pytest_plugins = ["tests.support.world"]


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
    row = engine.executions.list(payloads=True)[-1]
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
    assert engine.executions.list(function="u", payloads=True)[0]["result"] == 30


OUTPUTS = {
    "a set": ("return {1, 2}", [1, 2]),
    "bytes": ("return b'abc'", "YWJj"),
    "a datetime": ("import datetime; return datetime.datetime(2026, 1, 2)", "2026-01-02T00:00:00"),
}
OBJECTS = {
    "an object": ("class Client: pass\n    return [Client()]", "$[0]"),
    "not a number": ("return {'rate': float('nan')}", "$.rate"),
}


def test_defect_5_an_output_that_json_cannot_hold_does_not_turn_a_success_into_an_error(engine):
    add(engine, "def after(event): return event['data']['output']\n")
    engine.register_trigger(
        "on-odd", on={"type": ["execution.succeeded"], "subject": [{"prefix": "odd"}]}, function="after"
    )
    for number, (kind, (body, stored)) in enumerate(OUTPUTS.items()):
        add(engine, f"def odd{number}():\n    print('the side effect')\n    {body}\n")
        row = engine.run(f"odd{number}", {})
        assert (row["state"], row["result"]) == ("succeeded", stored), kind
    engine.settle()
    assert states(engine, "after") == ["succeeded"] * len(OUTPUTS), "its triggers fire"


@pytest.mark.parametrize("kind", OBJECTS)
def test_defect_5_an_output_without_any_form_is_an_error_that_names_its_place(engine, kind):
    body, place = OBJECTS[kind]
    add(engine, f"def odd():\n    print('the side effect')\n    {body}\n")
    row = engine.run("odd", {})
    assert (row["state"], row["attempt"], row["error"]["type"]) == ("failed", 1, "NotSerializable")
    assert f"at {place}: " in row["error"]["message"]
    assert [line["text"] for line in engine.executions.logs(row["id"])] == ["the side effect"]


def test_defect_5_such_an_object_passes_between_a_function_and_its_dependency(engine):
    add(engine, "class Client:\n    def get(self): return {1, 2}\ndef make_client(): return Client()\n")
    add(engine, "def use(): return sorted(make_client().get())\n", dependencies=["make_client"])
    assert engine.call("use") == [1, 2]


def test_defect_7_declared_keys_are_stored_and_a_missing_one_is_reported_before_the_code_runs(engine):
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


ENDS = {
    "SystemExit": ("raise SystemExit(3)", {"failed", "dead"}),
    "the end of the process": ("import os; os._exit(3)", {"dead"}),
    "a crash": ("import ctypes; ctypes.string_at(0)", {"dead"}),
}


def test_defect_19_an_end_of_the_process_is_an_end_of_the_execution(engine):
    for number, (end, (code, expected)) in enumerate(ENDS.items()):
        add(engine, f"def f{number}():\n    {code}\n", limits={"max_attempts": 1})
        row = engine.run(f"f{number}", {}, timeout=patient(60))
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


def test_defect_20_what_cannot_come_along_is_reported_at_registration(engine, module):
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


def test_an_error_is_raised_to_the_caller_with_its_traceback_kept(engine):
    add(engine, "def deep(x):\n    return 1 / x\n")
    add(engine, "def top(x):\n    return deep(x)\n", dependencies=["deep"])
    with pytest.raises(ExecutionFailed, match="ZeroDivisionError") as caught:
        engine.call("top", 0)
    row = engine.executions.get(caught.value.execution_id)
    assert "return 1 / x" in row["error"]["traceback"]
    assert row["versions"] == ["deep@1", "top@1"]
