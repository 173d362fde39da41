"""``Runner.inspect`` makes JSON Schema of hints in a child, and reports errors as problems."""

# ruff: noqa: E501 - sources of functions stand in the tests as their authors would write them

from __future__ import annotations

import textwrap

import pytest

from functory.workers.sandbox.runner import Runner
from tests.support.runner_world import FakeHost, job

ANY = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


@pytest.fixture(scope="module")
def runner():
    with Runner() as started:
        yield started


def inspect(runner, source, name="f", **options):
    return runner.inspect(textwrap.dedent(source), name, **options)


def test_hints_defaults_and_kinds_of_parameters_become_a_schema(runner):
    signature = inspect(
        runner,
        """
        import datetime
        from typing import Optional
        def f(a: int, /, b: Optional[str] = None, *rows: list[dict], when: datetime.datetime, c=2.5, d, **more: bool) -> dict:
            raise RuntimeError("never runs")
        """,
    )
    assert signature.problems == []
    assert signature.input_schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "rows": {
                "type": "array",
                "items": {"type": "array", "items": {"type": "object", "additionalProperties": True}},
            },
            "when": {"type": "string", "format": "date-time"},
            "c": {"default": 2.5},
            "d": {},
        },
        "required": ["a", "when", "d"],
        "additionalProperties": {"type": "boolean"},
    }
    assert signature.output_schema == {"type": "object", "additionalProperties": True}


def test_a_function_without_hints_has_open_properties_and_no_output_schema(runner):
    signature = inspect(runner, "def f(self, input, args=(), *, kwargs={}): pass")
    assert signature.input_schema["properties"] == {
        "self": {},
        "input": {},
        "args": {"default": []},
        "kwargs": {"default": {}},
    }
    assert signature.input_schema["required"] == ["self", "input"]
    assert (signature.output_schema, signature.problems) == (None, [])
    assert inspect(runner, "def f() -> None: pass").output_schema == {"type": "null"}
    assert inspect(runner, "async def f(**kwargs) -> int: pass").input_schema["additionalProperties"] is True


def test_models_of_the_source_are_shared_definitions(runner, typed_packages):
    signature = inspect(
        runner,
        """
        from __future__ import annotations
        import dataclasses, pydantic
        from typing import Annotated, Literal
        from typing_extensions import TypedDict
        class Row(pydantic.BaseModel):
            n: int = pydantic.Field(ge=1)
            parent: Row | None = None
        @dataclasses.dataclass
        class Point:
            x: float
        class Options(TypedDict, total=False):
            mode: Literal["a", "b"]
        def f(rows: list[Row], at: Point, options: "Options", size: Annotated[int, pydantic.Field(lt=9)]) -> Row: ...
        """,
        packages=typed_packages,
    )
    assert signature.problems == []
    properties = signature.input_schema["properties"]
    assert properties["rows"] == {"type": "array", "items": {"$ref": "#/$defs/Row"}}
    assert properties["size"] == {"type": "integer", "exclusiveMaximum": 9}
    assert set(signature.input_schema["$defs"]) == {"Row", "Point", "Options"}
    assert signature.input_schema["$defs"]["Row"]["properties"]["n"]["minimum"] == 1
    assert signature.output_schema["$ref"] == "#/$defs/Row"
    assert "Row" in signature.output_schema["$defs"]


def test_a_hint_that_means_nothing_costs_only_its_own_schema(runner):
    signature = inspect(
        runner,
        "import threading\ndef f(a: Missing, b: int, c: threading.Lock, d: List[Optional[int]]) -> pandas.DataFrame: ...",
    )
    assert signature.input_schema["properties"] == {
        "a": {},
        "b": {"type": "integer"},
        "c": {},
        "d": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
    }
    assert signature.output_schema is None
    assert [problem.split(":")[0] for problem in signature.problems] == [
        "parameter 'a'",
        "parameter 'c'",
        "what it returns",
    ]
    assert "name 'Missing' is not defined" in signature.problems[0]


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        ("threading.Event", "a threading.Event has no JSON form"),
        ("Thing | int", "a Thing has no JSON form"),
        ("Literal[b'x']", "Literal may only contain"),
        ("Thing", "a Thing has no JSON form"),
        ("list[Thing]", "a Thing has no JSON form"),
        ("Holder", "a Thing has no JSON form"),
        ("complex", "a complex has no JSON form"),
        ("Callable[[int], int]", "has no JSON form"),
        ("type", "a type has no JSON form"),
    ],
)
def test_a_hint_without_a_json_form_is_reported(runner, hint, reason):
    source = f"""
        import dataclasses, threading
        class Thing: ...
        @dataclasses.dataclass
        class Holder:
            thing: Thing
        def f(a: {hint}, b: {hint} = None, *c: {hint}) -> {hint}: ...
        """
    signature = inspect(runner, source)
    assert [text.partition(":")[0] for text in signature.unconvertible] == [
        "parameter 'a'",
        "what it returns",
    ]
    assert all(reason in text for text in signature.unconvertible)
    properties = signature.input_schema["properties"]
    assert properties["a"] == {}
    assert (properties["b"]["enum"], properties["b"]["default"]) == ([None], None)
    assert properties["c"]["items"]["not"] == {}
    assert signature.output_schema is None


@pytest.mark.parametrize(
    "hint", ["Iterator[int]", "Generator[int, None, None]", "AsyncIterator[int]", "NoReturn"]
)
def test_what_a_generator_yields_needs_no_schema(runner, hint):
    signature = inspect(runner, f"def f() -> {hint}: ...")
    assert (signature.output_schema, signature.problems, signature.unconvertible) == (None, [], [])


@pytest.mark.parametrize(
    "first", ["import nothing_here", "1 / 0", "raise SystemExit(0)", "dependency('at import')"]
)
def test_source_that_cannot_be_executed_keeps_the_names_and_simple_hints(runner, first):
    signature = inspect(runner, f"class Before: pass\n{first}\ndef f(a: int, b: Before, c: Later = 1): ...")
    assert signature.input_schema["required"] == ["a", "b"]
    assert signature.input_schema["properties"]["a"] == {"type": "integer"}
    assert "executing its source failed" in signature.problems[0]
    assert signature.import_error is not None
    assert signature.import_error in signature.problems[0]


@pytest.mark.parametrize(
    "first",
    ["x = 1", "open('/data/rows')", "raise MemoryError", "from functory import state; state.get('x')"],
)
def test_an_error_that_a_real_run_need_not_have_is_no_error_of_the_import(runner, first):
    assert inspect(runner, f"{first}\ndef f(): ...").import_error is None


@pytest.mark.parametrize(
    ("first", "reported"),
    [
        ("while True: pass", "longer than 0.5 s"),
        ("import os; os._exit(0)", "exited with code 0"),
        ("import ctypes; ctypes.string_at(0)", "signal 11"),
        ("import os, time; os.write(3, b'\\xff' * 8); time.sleep(60)", "not a message"),
        ("import time\nwhile True: print('x' * 100000)", "it printed more"),
    ],
)
def test_source_that_hangs_crashes_or_lies_keeps_the_names(runner, first, reported):
    signature = inspect(
        runner, f"{first}\ndef f(a: int, *b, c=1): ...", timeout=0.5 if "0.5" in reported else 10
    )
    assert signature.input_schema == {
        "type": "object",
        "properties": {"a": {}, "b": {"type": "array", "items": {}}, "c": {}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert reported in signature.problems[0]


@pytest.mark.parametrize("source", ["def f(:", "def g(): pass", "(" * 5000, "\0"])
def test_source_without_such_a_function_is_a_problem(runner, source):
    signature = inspect(runner, source)
    assert signature.input_schema == {"type": "object"}
    assert len(signature.problems) == 1


def test_decorators_and_imports_of_the_function_are_seen(runner):
    source = """
        from functory import register_function
        import functools
        def twice(g):
            @functools.wraps(g)
            def call(*args, **kwargs): return g(*args, **kwargs)
            return call
        @register_function(imports=["decimal"])
        @twice
        def f(n: decimal.Decimal = 1) -> int: ...
        """
    signature = inspect(runner, source, imports=["decimal"])
    assert signature.problems == []
    assert signature.input_schema["properties"]["n"] == {"type": "string", "format": "decimal", "default": 1}


def test_a_schema_that_is_not_json_or_far_too_large_is_not_taken(runner, typed_packages):
    source = """
        import pydantic
        class Odd:
            @classmethod
            def __get_pydantic_core_schema__(cls, source, handler): return handler(int)
            @classmethod
            def __get_pydantic_json_schema__(cls, core, handler): return {"x": CONTENT}
        def f(a: Odd): ...
        """
    for content in ("object()", "'x' * 2_000_000"):
        signature = inspect(runner, source.replace("CONTENT", content), packages=typed_packages)
        assert signature.input_schema["properties"] == {"a": {}}
        assert "not JSON or too large" in signature.problems[-1]


def test_runs_go_on_beside_inspections(runner):
    assert inspect(runner, "def f(a: int): ...").problems == []
    outcome = runner.run(job("import sys\ndef f():\n    return 'engine' in sys.modules"), FakeHost())
    assert outcome.status == "succeeded"
