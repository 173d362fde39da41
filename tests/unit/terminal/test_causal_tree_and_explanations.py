"""Trees and reasons as people read them: what caused what, what was stopped, and what to do."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functory.engine.executions.lineage import Tree, build_tree
from functory.explanations import executions as execution_explanation
from functory.terminal import causal_tree, console

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def explain(found: dict[str, Any], **options: Any) -> list[str]:
    return execution_explanation.explain(found, format_time=console.format_time, **options)


def execution(id_: str, **fields: Any) -> dict[str, Any]:
    row = {
        "id": id_,
        "function": id_,
        "version": 1,
        "state": "succeeded",
        "cause": "manual",
        "trigger_id": None,
        "event_id": None,
        "parent_id": None,
        "replay_of": None,
        "root_id": "root",
        "depth": 0,
        "chain": [],
        "attempt": 1,
        "max_attempts": 3,
        "retries": 0,
        "error": None,
        "created_at": NOW,
        "started_at": NOW,
        "finished_at": NOW + timedelta(milliseconds=12),
        "run_at": NOW,
        "worker_id": "w1",
        "cancel_requested_at": None,
    }
    return row | fields


def event(id_: str, type_: str, **fields: Any) -> dict[str, Any]:
    row = {
        "id": id_,
        "type": type_,
        "subject": None,
        "state": "routed",
        "pattern": None,
        "time": NOW,
        "cause_execution_id": None,
    }
    return row | fields


def firing(event_id: str, decision: str, **fields: Any) -> dict[str, Any]:
    row = {
        "trigger_id": "t1",
        "event_id": event_id,
        "trigger": "on-order",
        "trigger_version": 2,
        "decision": decision,
        "reason": None,
        "limit_value": None,
        "actual_value": None,
        "detail": None,
        "execution_id": None,
        "root_id": "r1",
    }
    return row | fields


def drawn(everything: bool, *rows: Any) -> list[str]:
    return [line for node in build_tree(*rows) for line in causal_tree._text_lines(node, everything, "", "")]


EVENTS = [
    event("e1", "order.created", subject="A1"),
    event("e2", "execution.started", cause_execution_id="handle"),
    event("e3", "execution.failed", cause_execution_id="handle"),
]
EXECUTIONS = [
    execution(
        "handle",
        cause="trigger",
        trigger_id="t1",
        event_id="e1",
        state="failed",
        attempt=2,
        error={"type": "ValueError", "message": "no stock\nmore"},
    ),
]
FIRINGS = [
    firing("e1", "fired"),
    firing("e3", "suppressed", reason="cycle", limit_value=1, actual_value=2, detail="on-order → on-order"),
]
SPANS = [
    {
        "execution_id": "handle",
        "fence": 1,
        "seq": 1,
        "parent_seq": None,
        "function": "parse",
        "version": 3,
        "offset_seconds": 0.001,
        "duration_seconds": 0.002,
        "error": None,
    },
]


def test_a_tree_shows_events_triggers_executions_calls_and_what_was_stopped() -> None:
    assert drawn(False, EVENTS, EXECUTIONS, FIRINGS, SPANS) == [
        "event order.created A1  e1",
        "└─ ✗ handle v1 failed in 12 ms, attempt 2  trigger on-order v2  ValueError: no stock  handle",
        "   ├─ call parse v3  2 ms at +1 ms",
        "   └─ event execution.failed  e3",
        "      └─ ⊘ trigger on-order v2 suppressed: cycle (limit 1, value 2)  on-order → on-order",
    ]


def test_the_engines_own_events_that_started_nothing_are_shown_only_on_request() -> None:
    assert not any("execution.started" in line for line in drawn(False, EVENTS, EXECUTIONS, FIRINGS, SPANS))
    assert any("execution.started" in line for line in drawn(True, EVENTS, EXECUTIONS, FIRINGS, SPANS))


def test_names_and_messages_in_a_tree_cannot_command_the_terminal() -> None:
    lines = drawn(False, [event("e1", "order.created", subject="\x1b[2J")], [], [], [])
    assert lines == ["event order.created \\x1b[2J  e1"]


def test_a_tree_as_json_is_nested() -> None:
    found = causal_tree.as_json(
        Tree("root", build_tree(EVENTS, EXECUTIONS, FIRINGS, SPANS), False, (1, 1000))
    )
    assert found["budget"] == {"used": 1, "maximum": 1000}
    assert found["nodes"][0]["children"][0]["function"] == "handle"


def asked(row: dict[str, Any], **found: Any) -> dict[str, Any]:
    return {"execution": row, "event": None, "firing": None, "parent": None, "stopped": []} | found


def test_a_triggered_execution_names_trigger_version_event_and_way() -> None:
    chain = [{"name": "first"}, {"name": "on-order"}]
    row = execution("handle", cause="trigger", trigger_id="t1", event_id="e1", chain=chain, depth=2)
    happened = event("e1", "order.created", subject="A1", cause_execution_id="shop")
    said = explain(asked(row, event=happened, firing=firing("e1", "fired")))
    assert said[0] == "handle v1 was started by the trigger on-order v2."
    assert said[1].startswith("It fired on the event order.created about A1 (e1)")
    assert said[2] == "That event was caused by the execution shop."
    assert "first → on-order (depth 2" in said[3]
    assert said[4] == "It succeeded."


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (execution("f"), "from the command line"),
        (execution("f", cause="api"), "through the API"),
        (execution("f", cause="replay", replay_of="old"), "a replay of the execution old"),
    ],
)
def test_other_origins_are_named(row: dict[str, Any], words: str) -> None:
    assert words in explain(asked(row))[0]


def test_a_child_names_its_caller() -> None:
    said = explain(
        asked(execution("f", cause="parent", parent_id="p"), parent=execution("load", state="running"))
    )
    assert said[0] == "f v1 was called by load v1 (execution load, running)."


def test_a_failure_says_the_error_the_retries_and_what_to_do() -> None:
    row = execution("f", state="failed", retries=2, attempt=3, error={"type": "ValueError", "message": "no"})
    said = explain(asked(row))
    assert said[1] == "It failed: ValueError: no; its 2 retries are used up."
    assert said[-1].endswith("functory execution retry f --latest")


def test_a_queued_one_says_what_it_waits_for() -> None:
    row = execution("f", state="queued", attempt=0)
    assert explain(asked(row), workers=2)[-1] == "It is queued and waits for one of 2 living workers."
    assert explain(asked(row))[-1].endswith("To start one: functory dev")
    assert explain(asked(row), embedded=False)[-1].endswith("To start one: functory worker")
    again = execution("f", state="queued", attempt=1, error={"type": "ValueError", "message": "no"})
    assert "Attempt 1 ended with ValueError: no; the next is due at" in explain(asked(again))[1]
    link = {"trigger": "t", "name": "on-order", "subject": None, "event": "e"}
    held = row | {"waiting_for_slot": True, "chain": [link], "run_at": NOW + timedelta(seconds=5)}
    *_, later, line = explain(asked(held), workers=2)
    assert later.startswith("It does not start before ")
    assert line.endswith("for its concurrency limit: functory trigger debug on-order")


def test_a_running_one_names_the_children_that_it_waits_for() -> None:
    child = execution("child", state="queued")
    said = explain(asked(execution("f", state="running")), children=[child])
    assert said[-1] == "It waits for child v1 (queued, child)."


@pytest.mark.parametrize("reason", sorted(execution_explanation.REMEDIES))
def test_every_reason_of_a_stop_has_a_remedy_that_names_the_trigger_or_a_setting(reason: str) -> None:
    stopped = firing("e3", "suppressed", reason=reason, limit_value=1, actual_value=2) | {
        "type": "execution.failed"
    }
    said = explain(asked(execution("f"), stopped=[stopped]))[-1]
    assert f"suppressed by {reason} (limit 1, value 2)" in said
    assert "What to do: " in said and ("on-order" in said.split("What to do: ")[1] or "FUNCTORY_" in said)
    # A replay makes the same input again: it needs another function first.
    when = "Then" if reason == "input_error" else "Once only"
    assert said.endswith(f"{when}: functory trigger replay on-order e3.")
