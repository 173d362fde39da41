"""Each text that a user writes is read and applied within a bound: the table "What a text may cost" of isolation.md.

A case makes the nastiest text of a size that is known for its kind. The work runs in a child process with limits of the
kernel, and its CPU time and memory are counted.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from functory.engine.access import preload_grants
from functory.engine.errors import FunctoryError, Invalid
from functory.engine.functions import text_diff
from functory.engine.functions.analysis import findings
from functory.engine.functions.source import parser
from functory.engine.serialization import durations, json_codec, json_schema
from functory.triggers.criteria import compile_criteria
from functory.triggers.expressions.cel import MAX_TEXT
from functory.triggers.expressions.conditions import compile_condition
from functory.triggers.input_templates import compile_template
from functory.triggers.patterns import compile_pattern
from functory.triggers.patterns.output_patterns import matcher
from functory.triggers.patterns.pattern import MAX_TESTS
from functory.triggers.sources.files.config import FileWatchConfig
from functory.triggers.sources.files.glob_patterns import MAX_PATTERN_LENGTH, MAX_PATTERNS, GlobFilter
from functory.triggers.sources.schedules import cron
from tests.support.bounded_process import Used, run_bounded

SIZES = (100, 2_000, 60_000, 1_000_000)
# The table says less; the machine of a test may be three times slower.
CPU_SECONDS, MEGABYTES = 20, 1_500
PAGE = Path(__file__).parents[3] / "docs/explanation/isolation.md"
# Without a period: an automaton would soon know one.
LONG = "".join(random.Random(0).choices("ab", k=1_000_000))
BIG_EVENT: dict[str, Any] = {
    "type": "t",
    "data": {"a": LONG, "items": [{"n": i, "m": "x" * 20} for i in range(20_000)], "q": '"\\' * 100_000},
}

Case = Callable[[int], Any]
CASES: dict[str, dict[str, Case]] = {}
# The sizes of each case.
MADE: dict[str, tuple[int, ...]] = {}


def case(kind: str, *, grows_to: int = SIZES[-1]) -> Callable[[Case], Case]:
    """Add a case. Its text is the same for all sizes from ``grows_to`` on: one of them is enough."""

    def add(made: Case) -> Case:
        CASES.setdefault(kind, {})[made.__name__] = made
        MADE[made.__name__] = SIZES[: 1 + sum(size < grows_to for size in SIZES)]
        return made

    return add


def twice(depth: int) -> dict[str, Any]:
    below = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(depth)}
    return {"$defs": {**below, f"a{depth}": {"type": "integer"}}, "$ref": "#/$defs/a0"}


@case("JSON")
def nested(size: int) -> Any:
    json_codec.encode(json_codec.loads("[" * (size // 2) + "]" * (size // 2)))


@case("JSON")
def digits(size: int) -> Any:
    json_codec.loads("9" * size)


@case("JSON Schema")
def two_references(size: int) -> Any:
    return [fault.keyword for fault in json_schema.faults(twice(size // 50), "no", "input")]


@case("JSON Schema")
def as_many_as_are_saved(size: int) -> Any:
    # 14 levels are about the most that are saved; the value has many parts.
    schema = {**twice(14), "items": {"$ref": "#/$defs/a0"}}
    del schema["$ref"]
    return [one.keyword for one in json_schema.faults(schema, ["no"] * (size // 5), "input")]


@case("JSON Schema")
def many_patterns(size: int) -> Any:
    schema = {"allOf": [{"pattern": f"[ab]*a[ab]{{300}}[^{i}ab]"} for i in range(size // 30)]}
    return [fault.keyword for fault in json_schema.faults(schema, LONG, "input")]


@case("JSON Schema")
def objects_to_compare(size: int) -> Any:
    schema = {"items": {"enum": [{"a": i} for i in range(size // 10)]}}
    return [one.keyword for one in json_schema.faults(schema, [{"a": -1}] * 100_000, "input")]


@case("event pattern")
def alternatives(size: int) -> Any:
    pattern = {"data": {"$or": [{"a": [i]} if i % 2 else {"b": [i]} for i in range(size // 20)]}}
    return compile_pattern(pattern).matches(BIG_EVENT)


@case("event pattern")
def wildcards(size: int) -> Any:
    return compile_pattern({"data": {"a": [{"wildcard": "*a" * (size // 2) + "c"}]}}).matches(BIG_EVENT)


@case("event pattern")
def many_wildcards(size: int) -> Any:
    refused = [f"*b{i}c*" for i in range(size // 10)]
    return compile_pattern({"data": {"a": [{"anything-but": {"wildcard": refused}}]}}).matches(BIG_EVENT)


@case("event pattern", grows_to=20 * 200)
def members_of_many_elements(size: int) -> Any:
    names = {f"m{i}": [{"exists": False}] for i in range(min(200, size // 20))}
    return compile_pattern({"data": {"items": {"n": [-1], **names}}}).matches(BIG_EVENT)


@case("event pattern")
def many_tests_of_many_elements(size: int) -> Any:
    tests = [
        {kind: f"y{i}"} for i in range(size // 60) for kind in ("prefix", "suffix", "equals-ignore-case")
    ]
    return compile_pattern({"data": {"items": {"m": tests}}}).matches(BIG_EVENT)


@case("event pattern")
def refused_forms_of_many_elements(size: int) -> Any:
    refused = [f"y{i}" for i in range(size // 10)]
    return compile_pattern({"data": {"items": {"m": [{"anything-but": {"suffix": refused}}]}}}).matches(
        BIG_EVENT
    )


@case("event pattern")
def as_many_tests_as_are_made(_size: int) -> Any:
    ranges = [{"numeric": ["<", -1 - i]} for i in range(MAX_TESTS // 20_000)]
    return compile_pattern({"data": {"items": {"n": ranges}}}).matches(BIG_EVENT)


@case("condition")
def a_regular_expression_of_the_event(size: int) -> Any:
    regex = ("([ab]{9}){9}" * (size // 12))[:MAX_TEXT]
    event = {"type": "t", "data": {"t": LONG, "regex": regex}}
    made = compile_condition("data.t.matches(data.regex)")
    return str(made.evaluate(event, datetime(2026, 1, 1, tzinfo=UTC), {}))


@case("condition")
def as_many_states_as_are_searched_for_the_event(size: int) -> Any:
    event = {"type": "t", "data": {"t": LONG, "regex": f"[ab]*a[ab]{{{min(8, size)}}}[^ab]"}}
    made = compile_condition("data.t.matches(data.regex)")
    return str(made.evaluate(event, datetime(2026, 1, 1, tzinfo=UTC), {}))


@case("condition")
def nested_macros(size: int) -> Any:
    text = "true"
    while len(text) < size:
        text = f"data.items.exists(x{len(text)}, {text})"
    return str(compile_condition(text).evaluate(BIG_EVENT, datetime(2026, 1, 1, tzinfo=UTC), {}))


@case("condition")
def nested_brackets(size: int) -> Any:
    return str(compile_condition("(" * (size // 2) + "true" + ")" * (size // 2)))


@case("condition")
def regular_expressions(size: int) -> Any:
    text = " || ".join(["data.a.matches('[ab]*a[ab]{900}[^ab]')"] * max(1, size // 50))
    return str(compile_condition(text).evaluate(BIG_EVENT, datetime(2026, 1, 1, tzinfo=UTC), {}))


@case("condition")
def sums_of_texts(size: int) -> Any:
    text = "(" + " + ".join(["data.a"] * (size // 10)) + ") == 'x'"
    return str(compile_condition(text).evaluate(BIG_EVENT, datetime(2026, 1, 1, tzinfo=UTC), {}))


@case("input template")
def one_value_again_and_again(size: int) -> Any:
    return len(compile_template("." + "{{data.a}}" * (size // 10)).render({"data": BIG_EVENT["data"]}))


@case("input template")
def members_with_one_value(size: int) -> Any:
    template = compile_template({f"k{i}": "{{data}}" for i in range(size // 20)})
    return len(json_codec.encode(template.render({"data": BIG_EVENT["data"]})))


@case("input template")
def filters_on_filters(size: int) -> Any:
    text = "{{data.q" + "|json" * (size // 5) + "}}"
    return len(compile_template(text).render({"data": BIG_EVENT["data"]}))


@case("output pattern", grows_to=900)
def states_for_each_character(size: int) -> Any:
    return matcher.match(matcher.check({"p": f"[ab]*a[ab]{{{min(900, size)}}}[^ab]"}), LONG)


@case("output pattern", grows_to=470)
def as_many_states_as_are_searched(size: int) -> Any:
    return matcher.match(matcher.check({"p": f"[ab]*a[ab]{{{min(470, size)}}}[^ab]"}), LONG)


@case("output pattern", grows_to=30 * 50)
def many_expressions(size: int) -> Any:
    patterns = {f"p{i}": f"[ab]*a[ab]{{500}}[^ab{i}]" for i in range(min(50, size // 30))}
    return len(matcher.match(matcher.check(patterns), LONG))


@case("output pattern")
def alternatives_of_an_expression(size: int) -> Any:
    return len(matcher.match(matcher.check({"p": "|".join(["(a*)*b"] * (size // 7))}), LONG))


@case("file pattern")
def stars(size: int) -> Any:
    return GlobFilter(_globs("*a" * (size // 2)), []).includes("a" * 255 + "c")


@case("file pattern")
def folders(size: int) -> Any:
    return GlobFilter(_globs("**/a/" * (size // 5)), []).includes("a/" * 2000 + "c")


def _globs(text: str) -> tuple[str, ...]:
    """The patterns of a watch that together have this text, as its configuration takes them."""
    pieces = [text[at : at + MAX_PATTERN_LENGTH] for at in range(0, len(text), MAX_PATTERN_LENGTH)][
        :MAX_PATTERNS
    ]
    return FileWatchConfig.model_validate({"path": "/srv/in", "patterns": pieces}).patterns


@case("schedule")
def a_day_that_never_comes(size: int) -> Any:
    cron.normalize("0 0 " + ",".join(["30", "31"] * (size // 6)) + " 2 *")


@case("schedule", grows_to=6 * 20)
def a_rare_day(size: int) -> Any:
    text = "0 0 29 2 " + ",".join(["MON#5"] * min(20, size // 6))
    return [str(one) for one in islice(cron.times(text, datetime(2026, 1, 1, tzinfo=UTC), UTC), 3)]


@case("duration")
def long_number(size: int) -> Any:
    durations.parse("9" * size + "s", "the period")


@case("source")
def statements(size: int) -> Any:
    text = "def f():\n    " + "a;" * ((size - 20) // 2) + "\n"
    parser.parse(text)
    return len(findings.analyze(text))


@case("source")
def as_many_statements_as_are_taken(size: int) -> Any:
    text = "def f():\n    " + "a;" * min(size // 2, 149_000) + "\n    # " + "a" * size
    parser.parse(text[:1_000_000])
    return len(findings.analyze(text[:1_000_000]))


@case("source")
def brackets(size: int) -> Any:
    text = "def f():\n    return " + "(" * (size // 2) + ")" * (size // 2) + "\n"
    parser.parse(text)


@case("source")
def signs(size: int) -> Any:
    text = "def f():\n    return " + "-" * (size - 30) + "1\n"
    parser.parse(text)
    return len(findings.analyze(text))


@case("source")
def a_sum(size: int) -> Any:
    text = "def f():\n    return " + "1+" * ((size - 30) // 2) + "1\n"
    parser.parse(text)
    return len(findings.analyze(text))


@case("two versions")
def lines_that_alternate(size: int) -> Any:
    lines = size // 12
    before, after = ("\n".join(f"{n}{c if n % 2 else ''}" for n in range(lines)) for c in "ab")
    return len(text_diff.unified(before, after, "v1", "v2"))


@case("two versions")
def lines_that_repeat(size: int) -> Any:
    before, after = ("\n".join(f"{c}\n{n % 101}" for n in range(size // 5)) for c in "ab")
    return len(text_diff.unified(before, after, "v1", "v2"))


@case("two versions")
def as_many_lines_as_are_compared(size: int) -> Any:
    lines = min(size // 8, 3_100)
    before, after = ("\n".join(f"{n}{c if n % 2 else ''}" for n in range(lines)) for c in "ab")
    return len(text_diff.unified(before, after, "v1", "v2"))


@case("import")
def an_import_with_signs(size: int) -> Any:
    return preload_grants.modules("import a;" + "-" * size + "1")


@case("criteria of a pack")
def jinja(size: int) -> Any:
    made = "{{ " + " ~ ".join(["trigger.a"] * (size // 12)) + " }}"
    criteria = compile_criteria({"trigger.a": {"type": "equals", "pattern": made}})
    return str(criteria)[:100]


@case("criteria of a pack", grows_to=900)
def an_expression(size: int) -> Any:
    text = f"[ab]*a[ab]{{{min(900, size)}}}[^ab]"
    return str(compile_criteria({"trigger.a": {"type": "regex", "pattern": text}}))[:100]


def use(kind: str, name: str, size: int) -> Used:
    def work() -> Any:
        try:
            return CASES[kind][name](size)
        except ValueError as error:
            return [type(error).__name__, str(error)]
        except FunctoryError as error:
            assert error.what
            return [Invalid.__name__, str(error)]

    return run_bounded(work, cpu_seconds=CPU_SECONDS, megabytes=MEGABYTES)


@pytest.mark.parametrize(
    ("kind", "name", "size"),
    [(kind, name, size) for kind, names in CASES.items() for name in names for size in MADE[name]],
)
def test_the_nastiest_text_of_a_size_is_refused_or_applied_within_a_bound(kind, name, size):
    answer = use(kind, name, size).answer
    bare = isinstance(answer, list) and answer[:1] in (["RecursionError"], ["MemoryError"], ["TypeError"])
    assert not bare, f"the refusal does not say what is wrong: {answer}"


def test_the_page_has_a_line_for_each_kind():
    table = PAGE.read_text().partition("## What a text may cost")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| ([^|]+?) \|", table, re.MULTILINE)
    assert set(CASES) <= set(lines)


def main() -> None:
    """Print the largest time and memory of each kind, for the page."""
    for kind, names in CASES.items():
        used = {(name, size): use(kind, name, size) for name in names for size in MADE[name]}
        slowest = max(used, key=lambda one: used[one].cpu_seconds)
        largest = max(used, key=lambda one: used[one].megabytes)
        print(
            f"{kind}: {used[slowest].cpu_seconds:.2f} s ({slowest[0]}, {slowest[1]}), "
            f"{used[largest].megabytes:.0f} MB ({largest[0]}, {largest[1]})"
        )


if __name__ == "__main__":
    main()
