"""A function in the child gets values of the types that its hints name, and returns them in their JSON form."""

from __future__ import annotations

import textwrap

import pytest

from functory.workers.sandbox.runner import Runner
from tests.support.runner_world import FakeHost, code, job, printed

STANDARD = """
    from __future__ import annotations
    import dataclasses, datetime, enum, typing
    from decimal import Decimal
    from pathlib import Path
    from uuid import UUID
    from functory import Naive
    class Colour(enum.Enum):
        RED = "red"
    class Options(typing.TypedDict, total=False):
        size: int
    class Point(typing.NamedTuple):
        x: int
        y: int = 2
    @dataclasses.dataclass
    class Line:
        price: Decimal
        options: list[Options] = dataclasses.field(default_factory=list)
        parent: Line | None = None
    def f(
        line: Line, colour: Colour, point: Point, when: datetime.datetime, local: Naive[datetime.datetime],
        day: datetime.date, clock: datetime.time, span: datetime.timedelta, key: UUID, path: Path, raw: bytes,
        tags: set[str], pair: tuple[int, str], kind: typing.Literal["a", "b"], counts: dict[str, int | None], plain,
    ):
        values = dict(locals())
        print(*(type(value).__name__ for value in values.values()))
        assert line.parent.price == Decimal("2") and line.options == [{"size": 1}]
        assert when.utcoffset() == datetime.timedelta(hours=2) and local.tzinfo is None
        return values
    """
GIVEN = {
    "line": {
        "price": "1.50",
        "options": [{"size": 1}],
        "parent": {"price": "2", "options": [], "parent": None},
    },
    "colour": "red",
    "point": [1, 2],
    "when": "2026-01-02T03:04:05+02:00",
    "local": "2026-01-02T03:04:05",
    "day": "2026-01-02",
    "clock": "03:04:05",
    "span": "P1DT30S",
    "key": "01998c5e-0000-7000-8000-000000000001",
    "path": "/a/b",
    "raw": "YWJj",
    "tags": ["a", "b"],
    "pair": [1, "x"],
    "kind": "a",
    "counts": {"a": 1, "b": None},
    "plain": "2026-01-02",
}
TYPES = "Line Colour Point datetime datetime date time timedelta UUID PosixPath bytes set tuple str dict str"

PYDANTIC = """
    import datetime, pydantic
    class Row(pydantic.BaseModel):
        number: int = pydantic.Field(alias="n")
        when: datetime.datetime
    def f(row: Row, rows: list[Row], size: pydantic.PositiveInt = 1):
        print(type(row).__name__, type(rows[0]).__name__)
        return [row, *rows]
    """
ATTRS = """
    import attrs, datetime
    @attrs.define
    class Row:
        when: datetime.date
    def f(row: Row, rows: list[Row]):
        print(type(row).__name__, type(rows[0]).__name__)
        return [row, *rows]
    """
MSGSPEC = """
    import msgspec, datetime
    from functory import Naive
    class Row(msgspec.Struct, rename="camel", tag="row"):
        the_day: datetime.date
        at: Naive[datetime.datetime]
    def f(row: Row, rows: list[Row]):
        print(type(row).__name__, type(rows[0]).__name__)
        return [row, *rows]
    """


@pytest.fixture(scope="module")
def runner():
    with Runner() as started:
        yield started


def run(runner, source, given, **fields):
    return runner.run(job(source, input=given, **fields), FakeHost())


def test_types_of_the_standard_library_arrive_and_leave(runner):
    outcome = run(runner, STANDARD, GIVEN)
    assert outcome.status == "succeeded", outcome.error
    assert printed(outcome) == [TYPES]
    assert outcome.result == GIVEN


@pytest.mark.parametrize(
    ("source", "row"),
    [
        (PYDANTIC, {"n": 1, "when": "2026-01-02T03:04:05Z"}),
        (ATTRS, {"when": "2026-01-02"}),
        (MSGSPEC, {"type": "row", "theDay": "2026-01-02", "at": "2026-01-02T03:04:05"}),
    ],
    ids=["pydantic", "attrs", "msgspec"],
)
@pytest.mark.parametrize("preload", [False, True], ids=["", "preloaded"])
def test_types_of_packages_of_the_functions_own_environment_arrive_and_leave(
    runner, typed_packages, source, row, preload
):
    name = source.split()[1].strip(",")
    fields = {"packages": typed_packages, "preload": (name,) if preload else ()}
    outcome = run(runner, source, {"row": row, "rows": [row]}, **fields)
    assert outcome.status == "succeeded", outcome.error
    assert printed(outcome) == ["Row Row"]
    assert outcome.result == [row, row]
    wrong = run(runner, source, {"row": row, "rows": [row, {}]}, **fields)
    assert (wrong.status, wrong.error["type"]) == ("invalid_input", "InvalidInput")
    assert "at `$.rows[1]" in wrong.error["message"]


def test_structs_of_the_msgspec_that_every_child_has_arrive_and_leave(runner):
    row = {"type": "row", "theDay": "2026-01-02", "at": "2026-01-02T03:04:05"}
    outcome = run(runner, MSGSPEC, {"row": row, "rows": [row]})
    assert (outcome.status, outcome.result) == ("succeeded", [row, row])


@pytest.mark.parametrize(
    ("source", "fields"),
    [(PYDANTIC, ["n", "when"]), (ATTRS, ["when"]), (MSGSPEC, ["type", "theDay", "at"])],
    ids=["pydantic", "attrs", "msgspec"],
)
def test_types_of_packages_have_schemas(runner, typed_packages, source, fields):
    signature = runner.inspect(textwrap.dedent(source), "f", packages=typed_packages)
    assert (signature.problems, signature.unconvertible) == ([], [])
    properties = signature.input_schema["properties"]
    assert properties["row"] == {"$ref": "#/$defs/Row"}
    assert properties["rows"] == {"type": "array", "items": {"$ref": "#/$defs/Row"}}
    assert list(signature.input_schema["$defs"]["Row"]["properties"]) == fields


def test_an_argument_that_does_not_fit_fails_before_the_code_runs_and_names_its_place(runner):
    source = """
        import dataclasses
        @dataclasses.dataclass
        class Line:
            a: int
        def f(lines: list[Line]):
            print("ran")
        """
    outcome = run(runner, source, {"lines": [{"a": "1"}]})
    assert (outcome.status, outcome.error["type"]) == ("invalid_input", "InvalidInput")
    assert outcome.error["message"] == (
        "the input does not fit the types of f: Expected `int`, got `str` - at `$.lines[0].a`"
    )
    assert (outcome.error["traceback"], printed(outcome)) == ("", [])


def test_a_dependency_gets_the_values_that_its_caller_passes(runner):
    inner = code("import datetime\ndef g(day: datetime.date):\n    return repr(day)", "g")
    entry = code("def f(x):\n    return g(x)", dependencies={"g": "g@1"})
    outcome = runner.run(job(entry, inner, input={"x": "2026-01-02"}), FakeHost())
    assert outcome.result == "'2026-01-02'"


def test_a_warm_child_converts_each_input(runner):
    source = "import datetime\ndef f(day: datetime.date):\n    return day.year"
    outcomes = [run(runner, source, {"day": f"202{n}-01-02"}, reuse=True) for n in range(3)]
    assert [outcome.result for outcome in outcomes] == [2020, 2021, 2022]
    assert len({outcome.pid for outcome in outcomes}) == 1


def test_a_decorated_function_is_converted_by_the_hints_of_the_inner_one(runner):
    source = """
        import datetime, functools
        def twice(g):
            @functools.wraps(g)
            def call(*args, **kwargs): return [g(*args, **kwargs), g(*args, **kwargs)]
            return call
        @twice
        def f(day: datetime.date):
            return day.year
        """
    assert run(runner, source, {"day": "2026-01-02"}).result == [2026, 2026]
