"""Conditions in CEL: yes, no, or a problem; never an exception, never without an end."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.errors import Invalid
from functory.triggers.expressions.conditions import ConditionResult, compile_condition

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=()), max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


def holds(
    text: str, data: object = None, now: datetime = NOW, variables: dict | None = None
) -> ConditionResult:
    event = {"id": "1", "type": "t", "time": "2026-01-01T00:00:00Z", "data": data}
    return compile_condition(text).evaluate(event, now, variables or {})


@pytest.mark.parametrize(
    ("text", "data", "expected"),
    [
        ("data.output.stock < 3", {"output": {"stock": 2}}, True),
        ("data.output.stock < 3", {"output": {"stock": 3}}, False),
        ("data.output.stock < 3", {"output": {"stock": 2.5}}, True),
        ("data.output.stock < 3.0", {"output": {"stock": 2}}, True),
        ("data.output.stock < 3", {"output": {"stock": 3.0}}, False),
        ("data.n == 3", {"n": 3.0}, True),
        ("data.n in [1, 2, 3]", {"n": 2.0}, True),
        ("data.n > 3", {"n": 2**63}, True),
        ("data.n == 18446744073709551614u", {"n": 2**64 - 1}, False),
        (
            "data.n == 3 && data.l[0].x == 1",
            {"n": 3, "l": [{"x": 1}], "other": [10**400, "\0", "\ud800"]},
            True,
        ),
        (".data.n == 3 && data.l.all(data, .data.n > data)", {"n": 3, "l": [1, 2]}, True),
        ("data.n > 3", {"n": float("nan")}, False),
        ("data.flag", {"flag": True}, True),
        ("data == null", None, True),
        ("event.data.x == data.x && event.type == 't'", {"x": 1}, True),
        ("has(data.x) && data.x < 3", {}, False),
        ("data.x == 1 || data.y == 2", {"y": 2}, True),
        ("data['a-b'] == 1", {"a-b": 1}, True),
        ("size(data.s) == 2", {"s": "äö"}, True),
        (
            "data.l.exists(i, i.s in ['a', 'b'] && i.n + 1 > data.n)",
            {"l": [{"s": "b", "n": 4}], "n": 3},
            True,
        ),
        ("data.l[0].all(i, i > 0)", {"l": [[1, 2]]}, True),
        ("data.l.filter(i, i > 1).all(i, i == 2)", {"l": [1, 2]}, True),
        ("data.l.map(i, i.s) == ['a']", {"l": [{"s": "a"}]}, True),
        ("data.m.all(k, data.m[k] > 0)", {"m": {"a": 1}}, True),
        ("timestamp(event.time) < now", None, True),
        ("now == timestamp('2026-05-01T12:00:00Z')", None, True),
    ],
)
def test_the_answer(text, data, expected):
    assert holds(text, data) == ConditionResult(expected)


def test_vars_and_zones():
    assert holds("data.n < vars.limit", {"n": 2}, variables={"limit": 3}).matched
    east = datetime(2026, 5, 1, 14, 0, tzinfo=timezone(timedelta(hours=2)))
    assert holds("now == timestamp('2026-05-01T12:00:00Z')", now=east).matched
    assert holds("now == timestamp('2026-05-01T12:00:00Z')", now=NOW.replace(tzinfo=None)).matched


@pytest.mark.parametrize(
    ("text", "data", "kind", "problem"),
    [
        ("data.stock < 3", {}, "error", 'Key not found in map : "stock"; test with has(...) first'),
        ("data.stock < 3", {"stock": "x"}, "error", "No matching overloads"),
        ("data.stock < 3", None, "error", ""),
        ("data.a / 0 == 1", {"a": 1}, "error", "divide by zero"),
        ("data.a + 9223372036854775807 > 0", {"a": 5}, "error", "overflow"),
        ("data.s.matches(data.r)", {"s": "x", "r": "["}, "error", "invalid regular expression"),
        ("data.s", {"s": "true"}, "non_bool", "the value is of type string, not true or false"),
        ("data.s", {"s": None}, "non_bool", "null"),
        ("data.s", {"s": 1}, "non_bool", "int"),
        ("data.s == 1", {"s": object()}, "error", "the event holds a object, which is not JSON"),
        ("size(data) == 1", {5: 1}, "error", "member name that is a int"),
        ("data.s == 'x'", {"s": "x\0y"}, "error", "the text 'x\\x00y' holds a NUL"),
        ("data.s == 'x'", {"s": "x\ud83d"}, "error", "holds half a surrogate pair"),
        ("size(data) == 1", {"x\0y": 1}, "error", "holds a NUL"),
        ("data.s.size() == 1", {"s": [{"a": ["x\ud83d"]}]}, "error", "holds half a surrogate pair"),
        ("data.n > 3", {"n": 2**64}, "error", "18446744073709551616 is an integer beyond 64 bits"),
        ("data.n > 3", {"n": 10**5000}, "error", "is an integer beyond 64 bits"),
        ("data.n < 3", {"n": -(2**63) - 1}, "error", "is an integer beyond 64 bits"),
        (
            "data.l.all(x, data.l.all(y, data.l.all(z, x + y + z >= 0)))",
            {"l": list(range(200))},
            "budget",
            "more than 10,000 steps",
        ),
        ("data.l.all(x, data == event.data)", {"l": list(range(9000))}, "budget", "might look at"),
        ("data.l.filter(x, x >= 0).size() > 0", {"l": list(range(9000))}, "budget", "might look at"),
        (
            "data.l.all(x, data.s + data.s != 'a')",
            {"l": list(range(5000)), "s": "x" * 500_000},
            "budget",
            "might",
        ),
    ],
)
def test_a_problem_is_no_match_and_says_what_it_is(text, data, kind, problem):
    verdict = holds(text, data)
    assert verdict.matched is False
    assert verdict.kind == kind
    assert verdict.problem is not None
    assert problem in verdict.problem


def test_an_event_of_ten_thousand_levels_is_a_problem_and_not_a_crash():
    data: dict = {}
    for _ in range(10_000):
        data = {"a": data}
    assert holds("has(data.a)", data) == ConditionResult(
        False, "the event is nested more than 200 deep", "error"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("data.x <", "Syntax error"),
        ("", "Syntax error"),
        ("stock < 3", "undeclared reference to 'stock'"),
        ("1 + 1", "its value is of type int"),
        ("'yes'", "its value is of type string"),
        ("[true]", "its value is of type list"),
        ("(" * 900 + "true" + ")" * 900, "recursion"),
        ("data.x == '" + "x" * 2048 + "'", "at most 2048"),
        ("data.x == 'ä" + "ä" * 1024 + "'", "at most 2048"),
        ("data.x == '\ud800'", "surrogates not allowed"),
        (True, "got a bool"),
        ({"a": 1}, "got a dict"),
    ],
)
def test_what_is_not_a_condition_is_refused_when_it_is_saved(text, why):
    with pytest.raises(Invalid) as refused:
        compile_condition(text)
    assert why in refused.value.why
    assert refused.value.try_


@pytest.mark.parametrize(
    "text",
    [
        "[data.s].map(a, a + a).map(a, a + a).map(a, a + a).size() > 0",
        "[[data.s, data.s]].exists(a, [[a, a]].exists(b, b == b))",
        "data.l.map(x, [x, x]).all(y, y == y)",
        "{'l': [data, data]}.l.exists(x, x == x)",
        "(data.l + data.l).all(x, x > 0)",
        "(data.b ? data.l : [data]).all(x, x == x)",
        "[[data]][0].all(x, x == x)",
        "data.l.all(x, [x].exists(y, y == y))",
        "[1].exists(x, true) == (data.x == 1)",
    ],
)
def test_a_macro_over_a_list_that_the_condition_makes_is_refused(text):
    with pytest.raises(Invalid, match="walks a list that it makes itself"):
        compile_condition(text)


@given(json_values)
def test_any_event_gets_a_verdict(value):
    for text in ("data.a < 3", "data.exists(x, x == 1)", "size(data) > 0 && event.data == data", "data"):
        verdict = holds(text, value)
        assert (verdict.problem is None) == (verdict.kind is None)
        assert not (verdict.matched and verdict.problem)


def test_the_same_text_is_compiled_once():
    assert compile_condition("data.a == 1") is compile_condition("data.a == 1")


def test_many_threads_share_a_condition():
    def answers(number: int) -> bool:
        condition = compile_condition("data.n == vars.n && data.l.all(x, x <= data.n)")
        other = compile_condition(f"data.n == {number % 7}")
        return all(
            condition.evaluate({"data": {"n": n, "l": [n]}}, NOW, {"n": number}).matched == (n == number)
            and other.evaluate({"data": {"n": n}}, NOW, {}).matched == (n == number % 7)
            for n in range(200)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(answers, range(40)))


def test_the_library_is_loaded_with_the_first_condition_only():
    script = (
        "import sys; import functory.triggers.expressions.conditions as c; assert 'cel_expr_python' not in sys.modules;"
        "c.compile_condition('true'); assert 'cel_expr_python' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
