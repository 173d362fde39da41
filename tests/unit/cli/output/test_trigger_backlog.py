"""What `functory trigger debug` says about the rows that it finds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functory.cli.output import trigger_backlog
from functory.engine.firings.inspection import Page, TriggerInspection
from functory.explanations import trigger_flow

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
PAID = {"type": ["order.paid"]}


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def made(
    flow: dict[str, Any] | None = None, composite: dict[str, Any] | None = None, **fields: Any
) -> TriggerInspection:
    """An inspection of the trigger `reorder` with this flow control, and nothing waiting but what `fields` say."""
    definition: dict[str, Any] = {"on": PAID, "function": "work"}
    if flow is not None:
        definition["flow"] = flow
    if composite is not None:
        definition = {"function": "work", "composite": composite}
    trigger = {"name": "reorder", "version": 3, "state": "enabled", "note": None, "definition": definition}
    trigger |= fields.pop("trigger", {})
    return TriggerInspection(
        **({"now": NOW, "trigger": trigger, "halted": False, "pending": 0, "breaker": None} | fields)
    )


def a_buffer(key: str = "ada", **fields: Any) -> dict[str, Any]:
    return {
        "key": key,
        "opened_at": at(-7),
        "due_at": at(3),
        "memory": None,
        "matches": 2,
        "bytes": 400,
        "first_time": at(-7),
        "last_time": at(-2),
        "parts": {0: 2},
    } | fields


def queued(id_: str = "e1", **fields: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "function": "work",
        "state": "queued",
        "waiting_for_slot": False,
        "run_at": at(-1),
        "queue_at": at(-1),
        "expires_at": None,
        "started_at": None,
        "worker": None,
        "cancel_requested_at": None,
    } | fields


def concurrency_group(key: str = "ada", capacity: int = 1, **fields: Any) -> dict[str, Any]:
    holder = {
        "id": "e1",
        "function": "work",
        "trigger": "reorder",
        "state": "running",
        "worker": "w1",
        "started_at": at(-30),
        "run_at": at(-60),
        "position": "v1",
        "queue_at": at(-60),
        "taken_at": at(-30),
    }
    waiter = holder | {"id": "e2", "trigger": "other", "state": "queued", "worker": None, "taken_at": None}
    return {
        "key": key,
        "capacity": capacity,
        "taken": 1,
        "waiting": 1,
        "holders": [holder],
        "queue": [waiter],
    } | fields


def shown(one: TriggerInspection) -> str:
    """All sections as text, a space between two cells."""
    lines = []
    for section in trigger_backlog.sections(one):
        lines += [section.title, section.summary, *(" ".join(row) for row in section.rows[:1])]
        lines += [" ".join(" ".join(str(cell) for cell in row.values()).split()) for row in section.rows]
        lines += [f"and {section.remaining} more"] * bool(section.remaining)
    return "\n".join(lines)


def advice(one: TriggerInspection, workers: int = 1) -> str:
    return trigger_flow.advice(one, workers=workers, embedded=False)


DEBOUNCE = {"debounce": {"period": "10s", "timeout": "1m"}}


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (
            made(DEBOUNCE, buffers=Page([a_buffer()], 1), matches=2),
            [
                "2 matches waiting, for 1 key",
                "KEY MATCHES SINCE DUE PROGRESS\nada 2 ",
                " in 3 s 10s without an event",
            ],
        ),
        (
            made(DEBOUNCE, buffers=Page([a_buffer(opened_at=at(-57))], 1), matches=2),
            ["in 3 s 1m at most"],
        ),
        (
            made({"batch": {"max_size": 100, "timeout": "60s"}}, buffers=Page([a_buffer()], 21), matches=50),
            ["in 3 s 2 of 100 events, 400 bytes", "and 20 more"],
        ),
        (
            made(
                composite={"all": [{"name": "paid", "on": PAID}, {"on": PAID}], "within": "10m"},
                buffers=Page([a_buffer(parts={0: 2})], 1),
                matches=2,
            ),
            ["composite all", "in 3 s ✓ paid 2, · part 2 missing"],
        ),
        (
            made(
                composite={"threshold": {"count": 5, "on": PAID}, "within": "1m"},
                buffers=Page([a_buffer(due_at=None)], 1),
            ),
            ["with a further event 2 of 5"],
        ),
        (
            made(
                {"throttle": {"limit": 3, "period": "1m"}},
                throttle=Page([{"key": "", "next_at": at(20), "dropped": 0}], 1),
                states={"delayed": 4},
            ),
            ["4 executions delayed", "KEY NEXT START\n(no key) in 20 s"],
        ),
        (
            made(
                {"throttle": {"limit": 3, "period": "1m", "burst": 2}},
                throttle=Page([{"key": "a", "next_at": at(20), "dropped": 0}], 1),
            ),
            ["KEY NEXT START\na now"],
        ),
        (
            made(
                {"rate_limit": {"limit": 1, "period": "1m"}},
                rate_limit=Page([{"key": "ada", "next_at": at(50), "dropped": 1200}], 1),
                dropped=1200,
            ),
            ["1,200 dropped within a day", "KEY DROPPED FREE\nada 1,200 in 50 s"],
        ),
        (
            made(
                {"idempotency": {"key": "data.order"}},
                idempotency_keys=Page([{"key": "o1", "event_id": "v1", "expires_at": at(3600)}], 1),
            ),
            ["1 key stored", "KEY EVENT FREE\no1 v1 in 60 min"],
        ),
        (
            made({"concurrency": {"limit": 1}}, concurrency_groups=Page([concurrency_group()], 1)),
            [
                "concurrency ada",
                "1 of 1 slots taken, 1 waiting",
                "PLACE EXECUTION TRIGGER STATE WORKER SINCE NOT BEFORE",
                "slot e1 running w1 30 s ago",
                "1 e2 other queued 60 s ago",
            ],
        ),
        (
            made(
                {"cancel_on": [{"on": PAID}]},
                cancellations=Page(
                    [{"event_id": "v9", "rule": 0, "type": "order.gone", "subject": "o1", "time": NOW}], 1
                ),
            ),
            ["1 cancellation until earlier events are routed", "v9 order.gone o1 1"],
        ),
        (
            made(
                executions=Page([queued(waiting_for_slot=True, expires_at=at(30))], 1),
                states={"waiting_for_slot": 1},
                suppressed={"debounced": 7},
            ),
            ["1 waiting for a slot", "e1 waiting for a slot in 30 s", "7 debounced"],
        ),
        (made(), ["executions", "none open"]),
    ],
)
def test_each_control_tells_what_waits_in_it_and_until_when(one: TriggerInspection, words: list[str]) -> None:
    said = shown(one)
    for word in words:
        assert word in said


@pytest.mark.parametrize(
    ("one", "workers", "said"),
    [
        (made(halted=True), 1, "functory trigger unhalt"),
        (
            made(trigger={"state": "paused"}, matches=1),
            1,
            "it is paused, with 1 match waiting: functory trigger resume reorder",
        ),
        (made(trigger={"state": "shadow"}), 1, "functory trigger promote reorder"),
        (made(breaker={"open_until": at(60)}), 1, "its circuit breaker is open, it closes in 60 s"),
        (made(breaker={"open_until": at(-60)}), 1, "nothing waits"),
        (made(buffers=Page([a_buffer(due_at=at(-20))], 1)), 1, "key ada was due 20 s ago"),
        (
            made(concurrency_groups=Page([concurrency_group()], 1)),
            1,
            "key ada has no free slot; e1 holds one longest",
        ),
        (made(states={"ready": 2}), 0, "no worker is alive: functory worker"),
        (
            made(states={"delayed": 1}, executions=Page([queued(run_at=at(5))], 1)),
            1,
            "nothing is stuck; the next start is in 5 s",
        ),
        (made(buffers=Page([a_buffer()], 1)), 1, "the next decision is in 3 s"),
        (made(buffers=Page([a_buffer(due_at=None)], 1)), 1, "it waits for further events"),
        (made(pending=3), 1, "3 events are not routed yet"),
        (made(), 1, "functory trigger test reorder --event ID"),
    ],
)
def test_the_first_line_says_what_to_do_about_the_first_thing_in_the_way(
    one: TriggerInspection, workers: int, said: str
) -> None:
    assert said in advice(one, workers)


def test_an_absence_tells_what_it_has_heard_last() -> None:
    of, after = {"on": PAID}, {"on": {"type": ["order.placed"]}}
    silence = made(
        composite={"absence": {"of": of}, "within": "1h"},
        buffers=Page([a_buffer(matches=0, parts={}, first_time=None, memory={"id": "v7"}, due_at=None)], 1),
    )
    assert "last event v7, absence reported" in shown(silence)
    silent = made(
        composite={"absence": {"of": of}, "within": "1h"},
        buffers=Page([a_buffer(matches=0, parts={}, first_time=None)], 1),
    )
    assert "no event since it was saved" in shown(silent)
    unanswered = made(
        composite={"absence": {"of": of, "after": after}, "within": "1h"},
        buffers=Page([a_buffer(parts={1: 2})], 1),
    )
    assert "2 events not answered yet" in shown(unanswered)
