"""StackStorm's criteria: the facts of its own tests, and that the translation to patterns loses no event."""

import fnmatch
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from functory.engine.errors import Invalid
from functory.packs.stackstorm.criteria import compile_criteria
from functory.packs.stackstorm.criteria.operators import compile_test
from functory.packs.stackstorm.criteria.pattern_translation import narrow
from functory.packs.stackstorm.criteria.regexes import compile_expression, wildcard_expression
from functory.triggers.patterns import compile_pattern

FACTS = json.loads((Path(__file__).parents[4] / "data" / "st2_operator_cases.json").read_text())
NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def decoded(value):
    """A value of the facts file: bytes and the present time have a form of their own there."""
    if isinstance(value, dict) and "$bytes" in value:
        return value["$bytes"].encode()
    return NOW.isoformat() if isinstance(value, dict) and "$now_iso8601" in value else value


def holds(criteria, payload, variables=None, root="data") -> bool:
    """The answer of the evaluation, which the pattern must allow."""
    compiled = compile_criteria(criteria, root=root)
    event = {"type": "t", "data": payload}
    verdict = compiled.evaluate(event, NOW, variables or {})
    if verdict.matched and compiled.pattern and not isinstance(payload, bytes):
        assert compile_pattern(compiled.pattern).matches(event)
    return verdict.matched


def one(operator, operand, **more):
    return {"trigger.value": {"type": operator, "pattern": operand, **more}}


def ids(cases):
    return [pytest.param(case, id=case["id"]) for case in cases]


@pytest.mark.parametrize("case", ids(FACTS["operator_cases"]))
def test_an_operator_answers_as_in_stackstorm(case):
    written = case.get("operator_as_written", case["operator"])
    names = [written, *(alias for alias, name in FACTS["aliases"].items() if name == case["operator"])]
    value = decoded(case["value"])
    for name in names:
        compiled = compile_criteria(one(name, decoded(case["pattern"])))
        event = {"data": {"value": value, "more": 1}}
        assert compiled.evaluate(event, NOW).matched is case["expected"]
        if case["expected"] and compiled.pattern and not isinstance(value, bytes):
            assert compile_pattern(compiled.pattern).matches(event)


@pytest.mark.parametrize("case", ids(FACTS["search_cases"]))
def test_search_counts_items_as_in_stackstorm(case):
    criteria = one("search", case["pattern"], condition=case["condition"])
    assert holds(criteria, {"value": case["value"]}) is case["expected"]


@pytest.mark.parametrize("case", ids(FACTS["filter_cases"]))
def test_whole_criteria_answer_as_in_stackstorm(case):
    payload = FACTS["standard_payload"] if case["payload"] == "$standard" else case["payload"]
    variables = {"st2kv": {"system": case["kv_system"]}} if "kv_system" in case else {}
    assert holds(case["criteria"], payload, variables) is case["expected"]


def test_there_are_24_operators_under_33_names():
    with pytest.raises(Invalid) as refused:
        compile_criteria(one("weird", 1))
    names = refused.value.try_.removeprefix("use one of ").split(", ")
    assert len(set(names)) == 33
    assert set(FACTS["aliases"]) < set(names)
    for name in {case["operator"] for case in FACTS["operator_cases"]}:
        assert name in names


@pytest.mark.parametrize(
    ("criteria", "said"),
    [
        (one("weird", 1), "there is no type"),
        (one(None, 1), "there is no type"),
        ({"trigger.a": {"pattern": 1}}, "no type"),
        ({"trigger.a": "x"}, "no type"),
        ({"trigger.a": {"type": "eq", "patern": 1}}, "patern"),
        (one("search", {}, condition="weird"), "weird"),
        (one("search", [], condition="all"), "not an object"),
        (one("search", {"item.a": {"type": "weird"}}, condition="all"), 'criterion "item.a"'),
        ({"trigger..a": {"type": "exists"}}, "trigger..a"),
        ({"trigger.a[": {"type": "exists"}}, "trigger.a["),
        ({"trigger.a[1:2]": {"type": "exists"}}, "trigger.a[1:2]"),
        (one("startswith", 5), "5"),
        (one("inside", 5), "inside"),
        (one("td_lt", "soon"), "soon"),
        (one("regex", "(?=a)b"), "linear"),
        (one("regex", r"(a)\1"), "linear"),
        (one("iregex", "("), "regular expression"),
        (one("regex", "a" * 3000), "too long"),
        (one("equals", "{{ trigger.a"), "end of print statement"),
        (one("equals", "{{ trigger.a.__class__() }}"), "call is not allowed"),
        (one("equals", "{{ [x for x in trigger.a] }}"), "is not understood"),
        (one("equals", "{{ trigger.a | shell }}"), "shell"),
        (one("equals", "{% include 'x' %}"), "include"),
        (one("equals", "{% import 'x' as y %}"), "import"),
        (one("equals", "{% extends 'x' %}"), "extends"),
        (one("equals", "{% macro m() %}{% endmacro %}"), "macro"),
        (one("equals", "{% set x = 1 %}"), "assign"),
        (one("equals", "{% for x in trigger.a recursive %}{% endfor %}"), "for is not allowed"),
        (one("equals", "{% for x in range(9) %}{% endfor %}"), "call is not allowed"),
        (one("equals", "{{ 'x' * 999999999 }}"), "mul is not allowed"),
        (one("equals", "{{ 9 ** 99999 }}"), "pow is not allowed"),
        (one("equals", "{{ 'a' ~ 'b' }}"), "concat is not allowed"),
        (one("equals", "{{ trigger.a[1:] }}"), "slice is not allowed"),
        (one("equals", "{{ trigger | attr('x') }}"), "attr"),
        (one("equals", "{{ trigger is callable }}"), "callable"),
        (one("equals", "{{ " + "(" * 1500 + "1" + ")" * 1500 + " }}"), "is not understood"),
        (one("equals", "{{ " + "not " * 100 + "1 }}"), "nested too deeply"),
        (one("equals", "{% for x in trigger.a %}" * 30 + "{% endfor %}" * 30), "is not understood"),
        (one("equals", "{% for x in trigger.a %}"), "endfor"),
        ({1: {"type": "exists"}}, "quote it"),
        ({f"trigger.a{n}": {"type": "exists"} for n in range(101)}, "too many"),
        (one("equals", "x" * 70_000), "too large"),
        ([], "object"),
    ],
)  # fmt: skip
def test_wrong_criteria_are_refused_with_what_is_wrong(criteria, said):
    with pytest.raises(Invalid) as refused:
        compile_criteria(criteria)
    assert said in str(refused.value)


def test_a_refusal_names_the_key():
    with pytest.raises(Invalid, match=r'criterion "trigger\.body\.x#2"'):
        compile_criteria({"trigger.body.x#2": {"type": "regex", "pattern": "("}})


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("trigger.a", {"b": [1, {"c": "x"}], "d-e": 2, "f.g": 3}),
        ("trigger.a.b[1].c", "x"),
        ("trigger.a.b[*].c", "x"),
        ("trigger['a'].b[0]", 1),
        ("trigger.a['d-e']", 2),
        ('trigger.a["f.g"]', 3),
        ("trigger.a.'f.g'", 3),
        ("trigger.a.d-e # the second", 2),
        ("trigger.a.b[2]", None),
        ("trigger.a.b.c", None),
        ("trigger.*.b[0]", 1),
        ("trigger.none", None),
    ],
)
def test_keys_are_paths_with_the_first_match(key, found):
    payload = {"a": {"b": [1, {"c": "x"}], "d-e": 2, "f.g": 3}, "none": None}
    assert holds({key: {"type": "exists"}}, payload) is (found is not None)
    assert holds({key: {"type": "equals", "pattern": found}}, payload) is (found is not None)


@pytest.mark.parametrize("key", ["trigger.n", "data.n", "event.data.n", "event.type"])
def test_the_names_of_conditions_are_read_too(key):
    found = "t" if key == "event.type" else 5
    compiled = compile_criteria({key: {"type": "equals", "pattern": found}})
    event = {"type": "t", "data": {"n": 5}}
    assert compiled.evaluate(event, NOW).matched
    assert not compiled.evaluate({"type": "u", "data": {"n": 6}}, NOW).matched
    assert (compiled.required_names, compiled.warnings) == (set(), ())
    assert compiled.pattern is not None
    assert compile_pattern(compiled.pattern).matches(event)


def test_an_operand_reads_the_names_of_conditions_too():
    criteria = {"data.n": {"type": "equals", "pattern": "{{ event.data.m }}"}}
    assert compile_criteria(criteria).evaluate({"data": {"n": 5, "m": 5}}, NOW).matched


def test_the_payload_may_lie_anywhere_in_the_event():
    compiled = compile_criteria(one("eq", 5), root="data.output")
    assert compiled.pattern == {"data": {"output": {"value": [5]}}}
    assert compiled.evaluate({"data": {"output": {"value": 5}}}, NOW).matched
    assert not compiled.evaluate({"data": {"value": 5}}, NOW).matched


@pytest.mark.parametrize(
    ("operator", "operand", "accepted"),
    [
        ("equals", "v", ["v"]),
        ("eq", 1, [1, True]),
        ("equals", "10.0.0.1", [{"exactly": "10.0.0.1"}]),
        ("iequals", "Ab", [{"equals-ignore-case": "Ab"}]),
        ("startswith", "a", [{"prefix": "a"}]),
        ("iendswith", "a", [{"suffix": {"equals-ignore-case": "a"}}]),
        ("contains", "a*b\\", [{"wildcard": "*a\\*b\\\\*"}]),
        ("inside", ["a", 2], ["a", 2]),
        ("lt", 5, [{"numeric": ["<", 5]}, False, True]),
        ("matchwildcard", "a**b", [{"wildcard": "a*b"}]),
        ("matchwildcard", "a?b*", [{"prefix": "a"}]),
    ],
)
def test_what_a_pattern_can_say_is_said_as_one(operator, operand, accepted):
    compiled = compile_criteria(one(operator, operand))
    assert compiled.pattern == {"data": {"value": accepted}}
    compile_pattern(compiled.pattern)


@pytest.mark.parametrize(
    ("operator", "operand"),
    [
        ("nequals", "v"),
        ("exists", None),
        ("nexists", None),
        ("icontains", "a"),
        ("iequals", "ä"),
        ("ninside", ["a"]),
        ("lt", "a"),
        ("regex", "a"),
        ("td_lt", 5),
        ("equals", {"a": 1}),
        ("equals", "{{ trigger.x }}"),
    ],
)
def test_what_it_cannot_say_is_evaluated(operator, operand):
    compiled = compile_criteria(one(operator, operand))
    assert compiled.pattern is None
    assert [criterion.key.written for criterion in compiled.all] == ["trigger.value"]


def test_two_bounds_become_a_range():
    compiled = compile_criteria(
        {"trigger.n": {"type": "gt", "pattern": 1}, "trigger.n#2": {"type": "lt", "pattern": 9}}
    )
    assert compiled.pattern == {"data": {"n": [{"numeric": [">", 1, "<", 9]}]}}


def test_a_pattern_is_narrowed_only_where_it_does_not_ask_itself():
    on = {"type": ["t"], "data": {"a": ["x"]}, "$or": [{"data.b": [1]}, {"data": {"c": [2]}}]}
    more = {"data": {"a": ["y"], "b": [3], "c": [4], "d": [5]}}
    assert narrow(on, more) == {**on, "data": {"a": ["x"], "d": [5]}}
    assert narrow(on, None) == on
    assert on["data"] == {"a": ["x"]}


# Values that meet each other often, and those that comparing trips over.
letters = st.text(
    st.sampled_from("aAbBkKsS\u212a\u0130\u0131\u00df\u1e9e\u03a3\u03c3\u03c2*?[]!\\.1 \n"), max_size=4
)
numbers = st.sampled_from([0, 1, -1, 2, 5, 0.0, 1.0, 0.8, 2**53, 2**53 + 1, -(2**70), 1e16, 10**16, 1e300])
scalars = (
    st.none() | st.booleans() | numbers | letters | st.sampled_from(["10.0.0.1", "::1", "0:0:0:0:0:0:0:1"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(letters, inner, max_size=2),
    max_leaves=5,
)
operators = st.sampled_from(
    sorted({case["operator"] for case in FACTS["operator_cases"]} - {"regex", "iregex", "matchregex"})
)


def answers(operator, operand, value, wrap):
    try:
        compiled = compile_criteria(one(operator, operand))
    except Invalid:
        assume(False)
        raise
    event = {"data": wrap({"value": value, "more": 1})}
    allowed = compiled.pattern is None or compile_pattern(compiled.pattern).matches(event)
    return compiled, compiled.evaluate(event, NOW).matched, allowed


@given(operators, scalars | st.lists(scalars, max_size=3), values)
@example("iequals", "k", "\u212a")
@example("istartswith", "i", "\u0130x")
@example("equals", 1, True)
@example("contains", "a", ["ba"])
@example("inside", [None], None)
def test_the_pattern_takes_every_event_that_the_evaluation_takes(operator, operand, value):
    _, matched, allowed = answers(operator, operand, value, lambda payload: payload)
    assert allowed or not matched


@given(operators, scalars | st.lists(scalars, max_size=3), scalars)
def test_pattern_and_evaluation_agree_on_payloads_without_lists(operator, operand, value):
    compiled, matched, allowed = answers(operator, operand, value, lambda payload: payload)
    # A wildcard with ? or [ only hands its literal begin to the pattern.
    assume(not (operator == "matchwildcard" and isinstance(operand, str) and set(operand) & set("?[")))
    # Only a list can contain what is no text.
    assume(operator != "contains" or isinstance(operand, str))
    # Both kinds of letter, one by one: the pattern knows an upper case that Python's lower() never meets.
    assume(not operator.startswith("i") or not isinstance(value, str) or value.isascii())
    if compiled.pattern is not None:
        assert matched == allowed


@given(st.lists(st.tuples(operators, scalars), min_size=1, max_size=4), values)
def test_several_criteria_at_one_place_lose_no_event(asked, value):
    criteria = {
        f"trigger.value#{n}": {"type": operator, "pattern": operand}
        for n, (operator, operand) in enumerate(asked)
    }
    try:
        compiled = compile_criteria(criteria)
    except Invalid:
        assume(False)
    event = {"data": {"value": value}}
    if compiled.evaluate(event, NOW).matched and compiled.pattern:
        assert compile_pattern(compiled.pattern).matches(event)


class TestWildcards:
    @given(
        st.text(st.sampled_from("ab*?[]!-^\\.\n\u00e4"), max_size=8),
        st.text(st.sampled_from("ab-]!^\\.\n\u00e4["), max_size=6),
    )
    @example("[--a]", "-")
    @example("[]a]", "]")
    @example("[!]]", "a")
    @example("[b-a]", "a")
    def test_are_those_of_a_shell(self, pattern, text):
        found = compile_expression(wildcard_expression(pattern), dot_all=True).match(text)
        assert (found is not None) == fnmatch.fnmatchcase(text, pattern)


class TestExpressions:
    @pytest.mark.parametrize(
        "text",
        ["v1", "v1\n", "v1\n\n", "\nv1", "ä_1 \u00a0", "\u0663", "ab]", "a{,2}", "aaa", "-", "\x1f", ""],
    )
    @pytest.mark.parametrize(
        "expression",
        [
            *("v1$", "^v1", r"v1\Z", r"\w+$", r"^\W+$", r"\d", r"\D", r"\s", r"^\S+$", r"[\w-]$", r"[\W]"),
            *(r"[\s\S]", r"[^\d]", r"^[]a]+b?", "^a{,2}$", "a{,x", r"\u00e4", r"[\b]", "(?i)V1$", "(?m)^v1$"),
            *(".$", "a|-", "[$]", r"\$|^$"),
        ],
    )
    def test_mean_what_they_mean_in_python(self, expression, text):
        assert (compile_expression(expression).search(text) is None) == (re.search(expression, text) is None)

    def test_a_greedy_one_ends_in_time_linear_in_the_text(self):
        assert not compile_test("regex", "(a+)+$")("a" * 200_000 + "b", NOW)
        assert not compile_test("matchwildcard", "*a" * 50 + "b")("a" * 20_000, NOW)

    @pytest.mark.parametrize("expression", [r"\pL", r"\Qa\E", r"\C", r"\z"])
    def test_what_only_re2_knows_is_refused(self, expression):
        with pytest.raises(Invalid):
            compile_expression(expression)


class TestTimes:
    @pytest.mark.parametrize(
        "text", ["2026-05-01T11:59:50Z", "2026-05-01T11:59:50", "2026-05-01 13:59:50+02:00"]
    )
    def test_are_compared_with_the_given_now(self, text):
        assert compile_test("timediff_lt", "11")(text, NOW)
        assert not compile_test("timediff_lt", 10)(text, NOW)
        assert compile_test("timediff_gt", 9)(text, NOW)
        assert compile_test("timediff_gt", 9)(text, NOW + timedelta(days=1))
        assert not compile_test("timediff_lt", 11)(text, NOW + timedelta(days=1))

    def test_a_text_that_is_no_time_is_no_match_with_a_reason(self):
        verdict = compile_criteria(one("td_lt", 5)).evaluate({"data": {"value": "yesterday"}}, NOW)
        assert (verdict.matched, verdict.kind) == (False, "error")
        assert "ISO 8601" in (verdict.problem or "")


class TestOperands:
    @pytest.mark.parametrize(
        ("operand", "value"),
        [
            ("{{ trigger.n }}", 5),
            ("{{ trigger.n + 1 }}", 6),
            ("{{ trigger['s'] | upper }}", "AB"),
            ("{{ trigger.none | default('x') }}", None),
            ("{{ trigger.missing | default('x') }}", "x"),
            ("{{ trigger.list[-1] }}", "c"),
            ("{{ trigger.list }}", ["a", "c"]),
            ("{{ trigger }}-", None),
            ("n{{ trigger.n }}", "n5"),
            ("{% if trigger.n > 4 %}big{% elif trigger.n %}small{% else %}none{% endif %}", "big"),
            ("{% for x in trigger.list -%} {{ loop.index }}{{ x }} {%- endfor %}", "1a2c"),
            ("{{ 'yes' if trigger.missing is defined else 'no' }}", "no"),
            ("{{ trigger.list | join('+') }}", "a+c"),
            ("{{ '%s-%d' % [trigger.s, trigger.n] }}", "ab-5"),
            ("{# a note #}{{ not trigger.n }}", False),
            ("{{ trigger.s == 'ab' and 'a' in trigger.list }}", True),
        ],
    )
    def test_take_values_from_the_event(self, operand, value):
        payload = {"n": 5, "s": "ab", "list": ["a", "c"], "none": None, "value": value}
        if value is None:
            assert not holds(one("equals", operand), payload)
        else:
            assert holds(one("equals", operand), payload)

    @pytest.mark.parametrize(
        "operand",
        [
            "{{ trigger.missing }}",
            "{{ trigger.s.upper }}",
            "{{ trigger.s - 1 }}",
            "{{ trigger.n % 0 }}",
            "{{ '%9999999999d' % trigger.n }}",
            "{{ trigger.n < trigger.s }}",
            "{% for a in trigger.l %}" * 3 + "x" + "{% endfor %}" * 3,
            "{% for a in trigger.l %}{{ trigger.big }}{% endfor %}",
            "{{ [" + "trigger.big," * 200 + "] }}",
            "{{ '" + "%s" * 200 + "' % [" + "trigger.big," * 200 + "] }}",
            "{{ " + "trigger.big + " * 20 + "'' }}",
            "{{ trigger.__class__ }}",
            "{{ trigger.s.__class__.__mro__ }}",
            "{{ trigger['__class__'] }}",
            "{{ trigger.l.append }}",
            "{% for x in trigger.l %}{{ loop.__class__ }}{% endfor %}",
            "{% for x in trigger.l %}{{ loop['_iterator'] }}{% endfor %}",
            "{% for x in trigger.s %}{{ x }}{% endfor %}",
            "{% for a, b in trigger.l %}{{ a }}{% endfor %}",
            "{% for a in trigger.l %}{% for b in trigger.l %}{% if a < 0 %}x{% endif %}{% endfor %}{% endfor %}",
            "{{ ([trigger.big, trigger.big] + '') | length }}",
            "{{ [trigger.big, trigger.big, trigger.big, trigger.big, trigger.big, trigger.big, trigger.big] | join }}",
            "{{ '%s' % [1, 2] }}",
            "{{ '%(a)s' % trigger }}",
            "{{ trigger.none | length }}",
        ],
    )
    def test_that_cannot_be_rendered_are_no_match_with_a_reason(self, operand):
        payload = {"n": 5, "s": "ab", "l": list(range(100)), "big": "x" * 10_000, "value": 1}
        verdict = compile_criteria(one("equals", operand)).evaluate({"data": payload}, NOW)
        assert (verdict.matched, verdict.kind) == (False, "error")

    def test_names_that_are_not_in_the_event_are_reported(self):
        assert compile_criteria(one("eq", "{{ st2kv.system.x }}")).required_names == {"st2kv"}
        assert (
            compile_criteria(
                one("eq", "{% for x in trigger.l %}{{ x }}{{ loop.index }}{% endfor %}")
            ).required_names
            == set()
        )


class TestBudget:
    def test_a_large_expression_is_not_run_over_a_long_text(self):
        compiled = compile_criteria(one("regex", r"^(\w+\s?){1,50}$"))
        assert compiled.evaluate({"data": {"value": "ab c"}}, NOW).matched
        assert compiled.evaluate({"data": {"value": "ab3" * 300_000}}, NOW).kind == "budget"

    def test_a_search_over_a_large_list_ends(self):
        many = {f"item.a#{n}": {"type": "regex", "pattern": "x" * 200} for n in range(90)}
        criteria = one("search", many, condition="any2any")
        verdict = compile_criteria(criteria).evaluate({"data": {"value": [{"a": "y" * 20}] * 50_000}}, NOW)
        assert (verdict.matched, verdict.kind) == (False, "budget")


@given(operators | st.sampled_from(["regex", "iregex", "matchregex"]), letters | numbers, values)
def test_evaluation_never_raises(operator, operand, value):
    try:
        compiled = compile_criteria({**one(operator, operand), "trigger.value#2": {"type": "exists"}})
    except Invalid:
        return
    for event in ({"data": {"value": value}}, {"data": value}, {}):
        verdict = compiled.evaluate(event, NOW)
        assert verdict.matched in (True, False)
        assert len(compiled.explain(event, NOW)) == 2


def test_each_criterion_is_explained():
    compiled = compile_criteria(
        {"trigger.a": {"type": "eq", "pattern": 1}, "trigger.b": {"type": "startswith", "pattern": "x"}}
    )
    first, second = compiled.explain({"data": {"a": 1, "b": 5}}, NOW)
    assert (first.path, first.expected, first.found, first.matched) == ("trigger.a", "1", "1", True)
    assert second.matched is False
    assert "takes a text" in second.found


@pytest.mark.parametrize(
    ("type_", "operand", "expected"),
    [
        ("nequals", "x", 'any value but "x"'),
        ("iequals", "x", '"x" in any case'),
        ("contains", 5, "a value that contains 5"),
        ("ncontains", 5, "a value that does not contain 5"),
        ("icontains", "x", 'text that contains "x" in any case'),
        ("incontains", "x", 'text that does not contain "x" in any case'),
        ("startswith", "x", 'text that starts with "x"'),
        ("istartswith", "x", 'text that starts with "x" in any case'),
        ("endswith", "x", 'text that ends with "x"'),
        ("iendswith", "x", 'text that ends with "x" in any case'),
        ("lt", 500, "a value below 500"),
        ("gt", 500, "a value above 500"),
        ("matchregex", "a+", 'text that matches "a+" from its beginning'),
        ("regex", "a+", 'text that holds a match of "a+"'),
        ("iregex", "a+", 'text that holds a match of "a+" in any case'),
        ("matchwildcard", "a*", 'text like "a*"'),
        ("td_lt", 60, "a time less than 60 seconds ago"),
        ("td_gt", 60, "a time more than 60 seconds ago"),
        ("exists", None, "any value"),
        ("nexists", None, "no value"),
        ("in", ["a", "b"], 'a value in "a", "b"'),
        ("nin", ["a", "b"], 'a value that is not in "a", "b"'),
    ],
)
def test_a_criterion_says_what_it_expects_as_people_say_it(type_: str, operand: object, expected: str):
    compiled = compile_criteria({"trigger.a": {"type": type_, "pattern": operand}})
    assert [clause.expected for clause in compiled.explain({"data": {"a": 1}}, NOW)] == [expected]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("any", "a list with an element that meets all criteria"),
        ("all", "a list whose elements all meet all criteria"),
        ("any2any", "a list with an element that meets one of the criteria"),
        ("all2any", "a list whose elements all meet one of the criteria"),
    ],
)
def test_a_search_says_how_many_elements_have_to_meet_how_many_criteria(condition: str, expected: str):
    inner = {"item.n": {"type": "equals", "pattern": 1}}
    compiled = compile_criteria({"trigger.a": {"type": "search", "condition": condition, "pattern": inner}})
    assert [clause.expected for clause in compiled.explain({"data": {"a": []}}, NOW)] == [expected]


def test_a_key_that_cannot_have_a_value_is_warned_of():
    compiled = compile_criteria({"k1": {"type": "equals", "pattern": 1}, "trigger.a": {"type": "equals"}})
    assert "trigger.k1" in compiled.warnings[0]
    assert "no pattern" in compiled.warnings[1]
