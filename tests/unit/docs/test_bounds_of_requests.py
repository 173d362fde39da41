"""What requests, events and answers bring costs no more than its size: further lines of "What a text may cost".

As in :mod:`tests.unit.docs.test_bounds_of_texts`, the work runs in a child process with limits of the kernel.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.requests import Request as HttpRequest

from functory.api import paging
from functory.engine.access import passwords, scopes
from functory.engine.agents import ranking
from functory.engine.errors import FunctoryError
from functory.engine.executions import lineage, outline
from functory.engine.executions.outline import Outlines, TreeNode
from functory.engine.flow_control import trigger_row
from functory.engine.functions.source import parser
from functory.engine.names import check_name
from functory.engine.serialization import durations, written_quantities
from functory.packs.stackstorm.report import LeftOut
from functory.packs.stackstorm.template import translate_text
from functory.remote.retries import pause_after
from functory.triggers.analysis.cycles import Graph
from functory.triggers.criteria import compile_criteria
from functory.triggers.definition import compile_definition, parse
from functory.triggers.patterns.pattern import MAX_TESTS_OF_ALL
from functory.triggers.routing.trigger_set import TriggerSet
from functory.triggers.sources.schedules import backfill
from functory.triggers.sources.schedules.config import ScheduleConfig
from functory.triggers.sources.webhooks import receiver
from functory.workers.gateway import json_protocol, openai_wire
from functory.workers.gateway.adapter import MAX_ANSWER_BYTES, Ask
from functory.workers.sandbox.guest import retries
from tests.support.bounded_process import Used, run_bounded

CPU_SECONDS, MEGABYTES = 20, 1_500
PAGE = Path(__file__).parents[3] / "docs/explanation/isolation.md"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SIZE = 1_000_000

CASES: dict[str, dict[str, Callable[[], Any]]] = {}
MARKS = "\u0301\u0316"


def case(kind: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def add(made: Callable[[], Any]) -> Callable[[], Any]:
        CASES.setdefault(kind, {})[made.__name__] = made
        return made

    return add


def judge(criteria: dict[str, Any], data: dict[str, Any]) -> str | None:
    return compile_criteria(criteria).evaluate({"type": "t", "data": data}, NOW).kind


def loop(body: str) -> str | None:
    data = {"items": list(range(300)), "big": [[i] for i in range(30_000)], "text": "x" * 60_000}
    operand = f"{{% for x in trigger.items %}}{body}{{% endfor %}}"
    return judge({"trigger.text": {"type": "equals", "pattern": operand}}, data)


def search(inner: dict[str, Any], data: dict[str, Any]) -> str | None:
    return judge({"trigger.items": {"type": "search", "condition": "any", "pattern": inner}}, data)


@case("criteria of a pack")
def a_large_value_in_each_step_of_a_loop() -> Any:
    return loop("{% if trigger.big|string == 'x' %}{% endif %}")


@case("criteria of a pack")
def comparisons_in_each_step_of_a_loop() -> Any:
    return loop("{% if x in trigger.big %}{% endif %}")


@case("criteria of a pack")
def many_filters() -> Any:
    data = {"big": [[i] for i in range(30_000)]}
    operand = "{{ trigger.big|string|length }}" * 130
    return judge({"trigger.a": {"type": "equals", "pattern": operand}}, data)


@case("criteria of a pack")
def a_walk_for_each_item_of_a_search() -> Any:
    inner = {"trigger.items[*].missing": {"type": "equals", "pattern": 1}}
    return search(inner, {"items": [{"n": i} for i in range(20_000)]})


@case("criteria of a pack")
def a_long_comparison_for_each_item_of_a_search() -> Any:
    operand = [[[i] for i in range(9_000)]]
    inner = {f"trigger.big#{i}": {"type": "equals", "pattern": operand} for i in range(1)}
    return search(inner, {"items": list(range(20_000)), "big": [[*operand[0][:-1], [-1]]]})


@case("criteria of a pack")
def an_expression_of_each_item() -> Any:
    inner = {"item.m": {"type": "regex", "pattern": "{{ item.r }}"}}
    items = [{"m": "x", "r": f"[ab]*a[ab]{{{300 + i % 600}}}[^{i}ab]"} for i in range(20_000)]
    return search(inner, {"items": items})


@case("action of a pack")
def braces_that_are_not_closed() -> Any:
    return _translated("{{" * (SIZE // 2))


@case("action of a pack")
def blanks_in_braces() -> Any:
    return _translated("{{ trigger.a" + " " * SIZE + "x }}")


@case("action of a pack")
def braces_and_blanks_that_are_not_closed() -> Any:
    return _translated("{{" + " " * SIZE)


def _translated(text: str) -> str:
    try:
        return translate_text(text, lambda steps: steps, "p")[:100]
    except LeftOut as error:
        return str(error)[:100]


def _pattern(number: int) -> dict[str, Any]:
    on = {"type": ["t"], "data": {"items": {"m": [{"prefix": f"y{number}-{j}"} for j in range(40)]}}}
    return _row(f"t{number}", on)


def _row(name: str, on: dict[str, Any]) -> dict[str, Any]:
    definition = parse({"on": on, "function": "f", "input": {}})
    row = {"id": name, "name": name, "state": "enabled", "origin": "operator", "note": "", "version": 1}
    return row | {"definition": definition}


def _graph(on: Callable[[int], dict[str, Any]], functions: int, types: int) -> Graph:
    """1,000 triggers, and functions that emit as many types each."""

    def source(number: int) -> str:
        return "def f():\n" + "".join(f"    emit('a{number}.b{one}', {{}})\n" for one in range(types))

    known = {
        f"f{number}": {"name": f"f{number}", "source": source(number), "metadata": {}, "output_patterns": {},
                       "dependencies": []}
        for number in range(functions)
    }  # fmt: skip
    rows = [
        {"id": f"t{number}", "name": f"t{number}", "state": "enabled", "origin": "operator", "note": "", "version": 1,
         "definition": parse({"on": on(number), "function": f"f{number % functions}", "input": {}})}
        for number in range(1000)
    ]  # fmt: skip
    return Graph([compile_definition(trigger_row.from_mapping(row)) for row in rows], known, {})


@case("trigger graph")
def one_function_of_many_types_for_all() -> Any:
    graph = _graph(lambda number: {"type": [{"wildcard": f"a*b*{number}"}]}, 1, 5000)
    return len(graph.cycle("t1") or []), graph.complete


@case("trigger graph")
def functions_of_many_types_whose_cycles_are_all_looked_for() -> Any:
    graph = _graph(lambda number: {"type": [{"prefix": f"a{number + 1}."}]}, 1000, 60)
    return len(graph.cycles()), graph.complete


@case("trigger graph")
def more_edges_than_are_shown() -> Any:
    return len(_graph(lambda number: {"data": {"n": [number]}}, 10, 1000).edges)


@case("all event patterns")
def many_costly_patterns_and_a_long_list() -> Any:
    found = _costly(100, 20_000)
    return sum("all triggers" in (match.problem or "") for match in found)


def _costly(patterns: int, elements: int) -> list[Any]:
    return _loaded(patterns).matching(_long_list(elements))


def _loaded(patterns: int) -> TriggerSet:
    triggers = TriggerSet()
    for number in range(patterns):
        triggers.add(compile_definition(trigger_row.from_mapping(_pattern(number))))
    return triggers


def _long_list(elements: int) -> dict[str, Any]:
    return {"type": "t", "data": {"items": [{"m": "x" * 20} for _ in range(elements)]}}


@case("duration")
def a_duration_of_many_digits() -> Any:
    durations.parse("9" * SIZE + "s", "the period")


@case("duration")
def a_number_that_no_float_holds() -> Any:
    durations.parse(10**4_000, "the period")


@case("size")
def a_size_of_many_digits() -> Any:
    written_quantities.size("9" * SIZE, "the size")


@case("size")
def a_number_that_python_does_not_write() -> Any:
    written_quantities.size(10**5_000, "the size")


@case("name")
def a_long_name() -> Any:
    check_name("a" + MARKS * (SIZE // 2))


@case("source")
def marks_in_a_name() -> Any:
    parser.parse("def f():\n    a" + MARKS * (SIZE // 10) + " = 1\n")


@case("password")
def marks_in_a_password() -> Any:
    passwords.check(SecretStr(MARKS * (SIZE // 2)), "user")


@case("label")
def many_labels() -> Any:
    scopes.check_labels([f"l{i}" for i in range(100_000)])


@case("search")
def words_of_a_query() -> Any:
    query = " ".join(map(str, range(SIZE // 6)))
    return len(ranking.by_words(query, [("a", "aA" * (SIZE // 2)), ("b", "中" * SIZE)]))


@case("Retry-After")
def waits_that_are_none() -> Any:
    texts = (
        "9" * SIZE,
        "-" * SIZE,
        "()" * (SIZE // 2),
        "inf",
        "nan",
        "1e999",
        f"Mon, 01 Jan {'9' * SIZE} 00:00:00",
    )

    def waits(text: str) -> list[Any]:
        error = type("TooMany", (Exception,), {"status": 429, "headers": {"Retry-After": text}})()
        told = openai_wire.failure(429, "", {"retry-after": text}).retry_after  # type: ignore[union-attr]
        return [retries.request_of(error, 0.0).after, told, pause_after(429, text, 1, 0.5)]

    return [waits(text) for text in texts]


@case("cursor")
def cursors_that_no_page_gave() -> Any:
    request = HttpRequest({"type": "http", "path": "/x", "query_string": b"", "headers": []})
    texts = ("A" * SIZE, "=" * SIZE, "é" * SIZE, base64.urlsafe_b64encode(b"[" * SIZE).decode())
    for text in texts:
        with pytest.raises(FunctoryError):
            paging.key_of(text, request)


@case("schedule")
def a_backfill_over_centuries() -> Any:
    config = ScheduleConfig.model_validate({"cron": "0 0 29 2 MON", "timezone": "America/New_York"})
    return len(backfill.times_between(config, datetime(1, 1, 2, tzinfo=UTC), NOW, NOW))


@case("webhook")
def headers_and_fields() -> Any:
    row = {"name": "w", "config": {"auth": {"type": "none", "allow_unauthenticated": True}}}
    headers = [("content-type", "application/x-www-form-urlencoded"), *[("a", "b")] * 20_000]
    return str(receiver.dry_run(row, b"a=b&" * 250_000, headers, "a=b&" * 250_000))[:200]


@dataclass(frozen=True)
class _Text:
    tools: tuple[Any, ...] = ()
    schema: Mapping[str, Any] | None = field(default_factory=lambda: {"type": "string"})
    messages: tuple[Any, ...] = ()


def _ask() -> Ask:
    request: Any = _Text()
    model = {"capabilities": {"tools": "native", "schema": "native"}}
    return Ask(request, model, 100)


@case("answer of a model")
def nesting_and_fences() -> Any:
    texts = ("[" * SIZE, "```\n" * (SIZE // 4) + "```", '"' + "\\ud800" * (SIZE // 6) + '"', "9" * SIZE)
    return [json_protocol.read(_Text(), text, "c").problem for text in texts]  # type: ignore[arg-type]


@case("answer of a model")
def a_stream_of_small_parts() -> Any:
    answer = openai_wire.StreamedAnswer(_ask())
    line = 'data: {"choices":[{"delta":{"content":"' + "x" * 60 + '"}}]}'
    for _ in range(MAX_ANSWER_BYTES // len(line)):
        assert answer.feed(line) is None
    return len(answer.text)


@case("tree")
def a_chain_of_hidden_nodes() -> Any:
    chain = [_node(f"{i:08}", f"{i - 1:08}" if i else None) for i in range(50_000)]
    leaves = [_node(f"e{i:08}", chain[-1].id) for i in range(50_000)]
    return len(outline.without([*chain, *leaves], {node.id for node in chain}))


@case("tree")
def an_outline_of_100_000() -> Any:
    chain = [_node(f"{i:08}", f"{i - 1:08}" if i else None) for i in range(50_000)]
    wide = [_node(f"e{i:08}", chain[0].id, name=f"t{i}") for i in range(50_000)]
    return len(Outlines([*chain, *wide]).outline(None, 1000))


@case("tree")
def spans_in_spans() -> Any:
    execution = {"id": "x", "trigger_id": None, "event_id": None, "parent_id": None, "function": "f"}
    spans = [
        {"execution_id": "x", "fence": 1, "seq": seq, "parent_seq": seq - 1 if seq else None}
        for seq in range(lineage.MAX_ROWS)
    ]
    [top] = lineage.build_tree([], [execution], [], spans)
    assert sum(1 for _ in top.walk()) == 1 + lineage.MAX_ROWS
    return len(str(top.as_json()))


def _node(id_: str, parent: str | None, name: str = "t") -> TreeNode:
    return TreeNode("event", id_, name, "routed", parent)


def use(kind: str, name: str) -> Used:
    def work() -> Any:
        try:
            return CASES[kind][name]()
        except FunctoryError as error:
            assert error.what
            return ["Invalid", str(error)]

    return run_bounded(work, cpu_seconds=CPU_SECONDS, megabytes=MEGABYTES)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in CASES.items() for name in names])
def test_the_nastiest_of_its_kind_is_refused_or_done_within_a_bound(kind, name):
    answer = use(kind, name).answer
    refused = isinstance(answer, list) and answer[:1] == ["Invalid"]
    bare = isinstance(answer, list) and str(answer[:1]).endswith("Error']")
    assert not bare, f"the refusal does not say what is wrong: {answer}"
    assert not refused or len(answer[1]) < 1_000, "the refusal repeats what was given"


@pytest.mark.parametrize(
    "part",
    [
        "[" * 100_000,
        '{"choices": "ab"}',
        '{"choices": 5}',
        '{"choices": [{"delta": "x"}]}',
        '{"choices": [{"delta": {"tool_calls": 5}}]}',
        '{"choices": [{"delta": {"tool_calls": [{"index": [1]}]}}]}',
        '{"choices": [{"delta": {"tool_calls": [{"index": 1, "function": 5}]}}]}',
        '{"choices": [{"delta": {"tool_calls": [{"function": {"name": 5}}]}}]}',
    ],
)
def test_a_part_of_a_stream_of_another_form_is_no_defect_of_the_gateway(part):
    answer = openai_wire.StreamedAnswer(_ask())
    assert answer.feed(f"data: {part}") in (
        None,
        "a part of the stream is not JSON",
        "a part of the stream has another form than an answer",
    )


def test_costly_patterns_with_few_tests_are_decided_although_others_use_up_the_bound():
    triggers = TriggerSet()
    for number in range(60):
        triggers.add(compile_definition(trigger_row.from_mapping(_pattern(number))))
    few = [f"n{i}" for i in range(16)] + ["x"]
    cheap = {"type": ["t"], "data": {"m": [{"suffix": one} for one in few]}}
    triggers.add(compile_definition(trigger_row.from_mapping(_row("zz", cheap))))
    elements = MAX_TESTS_OF_ALL // (40 * 50)
    event = {"type": "t", "data": {"m": "ax", "items": [{"m": "x"} for _ in range(elements)]}}
    found = {match.compiled.name: match for match in triggers.matching(event)}
    assert found["zz"].fires and not found["zz"].problem
    refused = [match for match in found.values() if match.problem]
    assert 10 <= len(refused) <= 11, "those beyond the bound are refused, with the reason"


def test_the_page_has_a_line_for_each_kind():
    table = PAGE.read_text().partition("## What a text may cost")[2].partition("\n## ")[0]
    assert set(CASES) <= set(re.findall(r"^\| ([^|]+?) \|", table, re.MULTILINE))


def main() -> None:
    """Print the largest time and memory of each kind, for the page, and what costly patterns cost an installation."""
    for kind, names in CASES.items():
        used = {name: use(kind, name) for name in names}
        slowest = max(used, key=lambda one: used[one].cpu_seconds)
        largest = max(used, key=lambda one: used[one].megabytes)
        print(
            f"{kind}: {used[slowest].cpu_seconds:.2f} s ({slowest}), "
            f"{used[largest].megabytes:.0f} MB ({largest})"
        )
    for patterns in (0, 10, 100, 1_000):
        triggers = _loaded(patterns)
        for elements in (20, 2_000):
            event, began = _long_list(elements), time.process_time()
            triggers.matching(event)
            rate = 1 / (time.process_time() - began)
            print(f"{patterns} patterns of 40 tests, a list of {elements}: {rate:,.2f} events a second")


if __name__ == "__main__":
    main()
