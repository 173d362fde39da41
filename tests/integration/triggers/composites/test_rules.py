"""Composite triggers over the rows: what fires, with which events, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.database.clock import ManualClock
from functory.engine.events import store as event_store
from functory.explanations import executions as execution_explanation
from functory.terminal import causal_tree
from functory.triggers import definition
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
A, B, C = ({"name": name, "on": {"type": [name]}} for name in "abc")


@pytest.fixture
def composite(world: World) -> Callable[..., dict[str, Any]]:
    world.function(parameters="events")

    def save(within: str = "10s", name: str = "t", flow: Any = None, **composite: Any) -> dict[str, Any]:
        given = {"within": within, **composite}
        return world.triggers.save(name, definition.define(function="work", composite=given, flow=flow))

    return save


def seconds(world: World) -> float:
    return (world.clock.now() - ZERO).total_seconds()


def write(world: World, emitted: list[tuple[float, str, str]], key: str = "k") -> None:
    """Write events of these times (seconds), types and names (``n`` in their data)."""
    with world.database.write() as tx:
        rows = []
        for at, type_, name in emitted:
            data, time = {"n": name, "key": key}, ZERO + timedelta(seconds=at)
            rows.append(event_store.record(tx, type_, None, data, source="/test", time=time))
        event_store.append(tx, rows)


def tell(world: World, *times: str, key: str = "k") -> None:
    """Write events: ``a1`` is one of type a at second 1 of its own time."""
    write(world, [(float(time_[1:]), time_[0], time_) for time_ in times], key)


def go(world: World, second: float) -> None:
    """Go on to that second, route, and take turns; past every due time in between."""
    assert isinstance(world.clock, ManualClock)
    world.route()
    for _ in range(1000):
        while world.turn.run_once():
            pass
        due = world.turn.next_due()
        left = second - seconds(world)
        if due is None or due > left:
            break
        world.advance(due + 0.0001)
    world.advance(max(0.0, second - seconds(world)))
    while world.turn.run_once():
        pass


def fired(world: World) -> list[str]:
    """The names of the events that each execution got, oldest first."""
    rows = sorted(world.rows(schema.execution), key=lambda row: row["id"])
    return [" ".join(one["data"].get("n") or one["type"] for one in row["input"]["events"]) for row in rows]


def others(world: World) -> dict[str, str]:
    """What became of the events that did not fire: reason by name."""
    names = {row["id"]: row["data"].get("n") for row in world.rows(schema.event)}
    rows = world.rows(schema.firing, schema.firing.c.decision == "suppressed")
    return {names[row["event_id"]]: row["reason"] for row in rows}


# The rule, the events with the seconds of their own time, what fires, and what is suppressed in the end.
CASES: dict[str, tuple[dict[str, Any], str, list[str], dict[str, str]]] = {
    "all fires when every part is there": ({"all": [A, B]}, "a1 b2", ["a1 b2"], {}),
    "all does not ask for an order": ({"all": [A, B]}, "b1 a2", ["b1 a2"], {}),
    "all passes over no event": ({"all": [A, B]}, "a1 a2 a3 b4", ["a1 a2 a3 b4"], {}),
    "after a firing all begins anew": ({"all": [A, B]}, "a1 b2 b3 a4", ["a1 b2", "b3 a4"], {}),
    "an event is in one firing": ({"all": [A, B]}, "a1 b2 b3", ["a1 b2"], {"b3": "unmatched"}),
    "the window slides": ({"all": [A, B]}, "a1 a8 b12", ["a8 b12"], {"a1": "unmatched"}),
    "the window's end is in it": ({"all": [A, B]}, "a1 b11", ["a1 b11"], {}),
    "beyond the window is not": ({"all": [A, B]}, "a1 b11.5", [], {"a1": "unmatched", "b11.5": "unmatched"}),
    "any fires with each": ({"any": [A, B]}, "a1 b2 a3", ["a1", "b2", "a3"], {}),
    "n of wants different parts": (
        {"n_of": {"n": 2, "parts": [A, B, C]}},
        "a1 a2 c3 b4",
        ["a1 a2 c3"],
        {"b4": "unmatched"},
    ),
    "a sequence keeps its order": (
        {"sequence": [A, B]},
        "b1 a2 b3",
        ["a2 b3"],
        {"b1": "unmatched"},
    ),
    "a sequence of three": ({"sequence": [A, B, C]}, "a1 c2 b3 c4", ["a1 b3 c4"], {"c2": "unmatched"}),
    "a sequence takes all that waits": ({"sequence": [A, B]}, "a1 a2 b3", ["a1 a2 b3"], {}),
    "a sequence lasts from the last first": (
        {"sequence": [A, B, C]},
        "a1 b2 a8 b9 c15",
        ["a8 b9 c15"],
        {"a1": "unmatched", "b2": "unmatched"},
    ),
    "the same part twice needs two events": (
        {"sequence": [A, {**A, "name": "again"}, B]},
        "a1 b2 a3 b4",
        ["a1 a3 b4"],
        {"b2": "unmatched"},
    ),
    "threshold fires at its count": (
        {"threshold": {"count": 3, **A}},
        "a1 a2 a3 a4",
        ["a1 a2 a3"],
        {"a4": "unmatched"},
    ),
    "threshold counts within the window": (
        {"threshold": {"count": 3, **A}},
        "a1 a9 a12 a13",
        ["a9 a12 a13"],
        {"a1": "unmatched"},
    ),
    "absence fires with what nothing followed": ({"absence": {"of": B, "after": A}}, "a1", ["a1"], {}),
    "absence does not fire when it came": (
        {"absence": {"of": B, "after": A}},
        "a1 b5",
        [],
        {"a1": "awaited", "b5": "awaited"},
    ),
    "one event answers all that wait": (
        {"absence": {"of": B, "after": A}},
        "a1 a2 b5 a6",
        ["a6"],
        {"a1": "awaited", "a2": "awaited", "b5": "awaited"},
    ),
    "each is decided by itself": (
        {"absence": {"of": B, "after": A}},
        "a1 a6 b13",
        ["a1"],
        {"a6": "awaited", "b13": "awaited"},
    ),
    "an event without a waiting one": (
        {"absence": {"of": B, "after": A}},
        "b1 a2",
        ["a2"],
        {"b1": "unmatched"},
    ),
    "an absence of the same answers itself": (
        {"absence": {"of": A, "after": {**A, "name": "beat"}}},
        "a1 a5 a9",
        ["a9"],
        {"a1": "awaited", "a5": "awaited"},
    ),
}


def cases(world: World, allowance: float) -> list[tuple[float, str, str]]:
    """A trigger of its own for each case, of its own event types. Returns all events: time, type, name."""
    world.function(parameters="events")
    emitted: list[tuple[float, str, str]] = []
    for number, (rule, times, _, _) in enumerate(CASES.values()):

        def named(part: Any, number: int = number) -> Any:
            if isinstance(part, list):
                return [named(one) for one in part]
            if not isinstance(part, dict):
                return part
            return {
                field: {"type": [f"{value['type'][0]}{number}"]} if field == "on" else named(value)
                for field, value in part.items()
            }

        given = {**named(rule), "within": "10s", "allowance": allowance}
        world.triggers.save(f"t{number}", definition.define(function="work", composite=given))
        emitted += [(float(one[1:]), f"{one[0]}{number}", one) for one in times.split()]
    return emitted


def outcomes(world: World) -> dict[str, tuple[list[str], dict[str, str]]]:
    """What each case fired, and what became of the others."""
    names = {row["id"]: row["data"].get("n") for row in world.rows(schema.event, schema.event.c.type != "x")}
    triggers = {row["id"]: list(CASES)[int(row["name"][1:])] for row in world.rows(schema.trigger)}
    found: dict[str, tuple[list[str], dict[str, str]]] = {case: ([], {}) for case in CASES}
    for row in sorted(world.rows(schema.execution), key=lambda row: row["event_id"]):
        given = " ".join(one["data"]["n"] for one in row["input"]["events"])
        found[triggers[row["trigger_id"]]][0].append(given)
    for row in world.rows(schema.firing, schema.firing.c.decision == "suppressed"):
        found[triggers[row["trigger_id"]]][1][names[row["event_id"]]] = row["reason"]
    return found


WANTED = {case: (expected, left) for case, (_, _, expected, left) in CASES.items()}


def test_what_each_composite_fires_and_what_becomes_of_the_others(world: World) -> None:
    emitted = sorted(cases(world, 0.5))
    for at in sorted({at for at, _, _ in emitted}):
        go(world, at)
        write(world, [one for one in emitted if one[0] == at])
    go(world, 100)
    assert outcomes(world) == WANTED
    assert not world.rows(schema.buffered_match) and not world.rows(schema.match_buffer)


def test_events_out_of_order_are_put_in_order(world: World) -> None:
    emitted = cases(world, 30)
    go(world, 20)
    write(world, sorted(emitted, reverse=True))
    go(world, 200)
    found = outcomes(world)
    assert {case: (sorted(fired), left) for case, (fired, left) in found.items()} == {
        case: (sorted(fired), left) for case, (fired, left) in WANTED.items()
    }


def test_it_fires_when_the_allowance_is_over_and_not_before(world: World, composite: Any) -> None:
    composite(all=[A, B])
    go(world, 2)
    tell(world, "a1", "b2")
    go(world, 6.9)
    assert fired(world) == []
    go(world, 7.1)
    assert fired(world) == ["a1 b2"], "five seconds by default"


def test_an_event_for_a_moment_that_was_decided_about_is_late(world: World, composite: Any) -> None:
    composite(all=[A, B], allowance=1)
    go(world, 2)
    tell(world, "a1", "b2")
    go(world, 4)
    tell(world, "a1.5")
    go(world, 5)
    assert fired(world) == ["a1 b2"]
    assert others(world) == {"a1.5": "late"}


def test_an_event_that_comes_late_but_before_any_decision_counts(world: World, composite: Any) -> None:
    composite(sequence=[A, B, C], allowance=0)
    go(world, 5)
    tell(world, "a1")
    go(world, 6)
    tell(world, "c6", "b3")
    go(world, 30)
    assert fired(world) == ["a1 b3 c6"]


def test_an_absence_waits_for_events_that_no_router_has_seen_yet(world: World, composite: Any) -> None:
    """The routers were away while B came: it is not taken for absent."""
    composite(absence={"of": B, "after": A}, allowance=0)
    tell(world, "a0")
    go(world, 1)
    tell(world, "b5")
    world.advance(60)
    assert not world.turn.run_once() and fired(world) == []
    go(world, 100)
    assert others(world) == {"a0": "awaited", "b5": "awaited"} and fired(world) == []


def test_keys_are_apart(world: World, composite: Any) -> None:
    composite(all=[A, B], key="data.key", allowance=0)
    tell(world, "a0", key="x")
    tell(world, "b0", key="y")
    go(world, 1)
    assert fired(world) == []
    tell(world, "b1", key="x")
    go(world, 1.1)
    assert fired(world) == ["a0 b1"]


def test_parts_may_have_keys_of_their_own(world: World, composite: Any) -> None:
    composite(all=[{**A, "key": "data.key"}, {**B, "key": "data.n"}], allowance=0)
    tell(world, "a0", key="b1")
    go(world, 1)
    tell(world, "b1")
    go(world, 1.1)
    assert fired(world) == ["a0 b1"]


def test_a_part_may_have_a_condition(world: World, composite: Any) -> None:
    composite(threshold={"count": 2, **A, "when": 'data.key == "yes"'}, allowance=0)
    tell(world, "a0", "a1", key="no")
    tell(world, "a2", "a3", key="yes")
    go(world, 4)
    assert fired(world) == ["a2 a3"] and others(world) == {}, "what matches no part leaves no trace"


def test_a_condition_that_cannot_be_answered_is_reported(world: World, composite: Any) -> None:
    composite(all=[{**A, "when": "data.missing > 1"}, B])
    tell(world, "a0")
    assert world.route() == [("t", "condition_error")]


def test_a_silence_fires_once_and_again_after_the_next_event(world: World, composite: Any) -> None:
    composite(absence={"of": A}, allowance=1)
    go(world, 10.9)
    assert fired(world) == []
    go(world, 11.1)
    assert fired(world) == ["trigger.silent"]
    go(world, 100)
    assert fired(world) == ["trigger.silent"], "once"
    tell(world, "a100")
    go(world, 110.9)
    assert others(world) == {"a100": "awaited"}
    go(world, 111.1)
    assert fired(world) == ["trigger.silent"] * 2
    row = world.rows(schema.event, schema.event.c.type == "trigger.silent")[-1]
    assert row["subject"] == "t" and row["state"] == "routed"
    assert row["data"]["since"] == (ZERO + timedelta(seconds=100)).isoformat()
    assert row["data"]["last_event_id"] is not None


def test_a_switch_whose_own_function_writes_the_awaited_event_stays_armed(
    world: World, composite: Any
) -> None:
    composite(absence={"of": A}, allowance=0)

    def restart(claim: Any) -> None:
        world.events.emit("a", {"n": "again", "key": "k"}, subject="t", cause=claim.cause)

    for silences in (1, 2, 3):
        go(world, 11 * silences)
        assert fired(world) == ["trigger.silent"] * silences
        assert world.work(restart) == 1
    go(world, 34)
    assert {row["reason"] for row in world.rows(schema.firing)} <= {None, "awaited"}


def test_a_silence_begins_anew_when_the_trigger_is_resumed(world: World, composite: Any) -> None:
    composite(absence={"of": A}, allowance=0)
    go(world, 5)
    world.triggers.pause("t")
    go(world, 50)
    assert fired(world) == []
    world.triggers.resume("t")
    go(world, 59)
    assert fired(world) == []
    go(world, 61)
    assert fired(world) == ["trigger.silent"]


def test_beats_keep_a_silence_away(world: World, composite: Any) -> None:
    composite(absence={"of": A}, allowance=0)
    for second in range(0, 90, 9):
        go(world, second)
        tell(world, f"a{second}")
    go(world, 90)
    assert fired(world) == []


def test_a_silence_is_reported_for_each_key_that_has_come(world: World, composite: Any) -> None:
    composite(absence={"of": A}, key="data.key", allowance=0)
    go(world, 20)
    assert fired(world) == [], "no key is known yet"
    tell(world, "a20", key="x")
    tell(world, "a20", key="y")
    go(world, 25)
    tell(world, "a25", key="x")
    go(world, 31)
    rows = world.rows(schema.event, schema.event.c.type == "trigger.silent")
    assert [row["data"]["key"] for row in rows] == ["y"]
    go(world, 100)
    assert len(fired(world)) == 2
    assert not world.rows(schema.match_buffer), "a key that stays silent is forgotten"


def test_a_deleted_silence_leaves_nothing(world: World, composite: Any) -> None:
    composite(absence={"of": A})
    go(world, 1)
    assert len(world.rows(schema.match_buffer)) == 1
    world.triggers.delete("t")
    go(world, 2)
    assert not world.rows(schema.match_buffer)


def test_the_firing_links_all_its_events(world: World, composite: Any) -> None:
    composite(all=[A, B], allowance=0)
    tell(world, "a0", "b0")
    go(world, 1)
    (row,) = world.rows(schema.execution)
    found = world.lineage.cause(row["id"])
    assert [event["data"]["n"] for event in found["events"]] == ["a0", "b0"]
    assert row["root_id"] == found["events"][1]["root_id"], "the deciding event's tree"
    mine = world.lineage.tree(row["id"])
    (top,) = [node for node in mine.nodes if node.kind == "event"]
    (execution,) = top.children
    assert execution.row["event_count"] == 2
    theirs = world.lineage.tree(found["events"][0]["id"])
    (node,) = theirs.nodes[0].children
    assert (node.kind, node.row["execution_id"]) == ("joined", row["id"]), "the other tree leads to it"
    assert row["id"] in "".join(text for text, _ in causal_tree.label(node))


def test_a_change_of_the_composite_judges_what_waits_anew(world: World, composite: Any) -> None:
    composite(all=[A, B], within="10m", allowance=0)
    tell(world, "a0", "a1")
    go(world, 2)
    composite(threshold={"count": 2, **A}, within="10m", allowance=0)
    go(world, 3)
    assert fired(world) == ["a0 a1"]


def test_what_a_plain_trigger_does_not_match_is_not_fired_by_a_change(world: World, composite: Any) -> None:
    composite(absence={"of": B, "after": A}, within="10m")
    tell(world, "a0")
    go(world, 1)
    world.trigger("t", "work", {"type": ["b"]})
    go(world, 2)
    assert fired(world) == [] and others(world) == {"a0": "trigger_changed"}


def test_a_paused_composite_keeps_what_waits(world: World, composite: Any) -> None:
    composite(all=[A, B], within="1h", allowance=0)
    tell(world, "a0")
    go(world, 1)
    world.triggers.pause("t")
    tell(world, "b1")
    go(world, 2)
    assert others(world) == {"b1": "trigger_paused"}
    world.triggers.resume("t")
    tell(world, "b2")
    go(world, 3)
    assert fired(world) == ["a0 b2"]


def test_a_time_to_come_counts_as_the_present(world: World, composite: Any) -> None:
    composite(all=[A, B], allowance=0)
    tell(world, "a999999", "b0")
    go(world, 1)
    assert fired(world) == ["a999999 b0"]


def test_a_process_that_begins_in_mid_window_goes_on(make_world: Callable[..., World]) -> None:
    one = make_world()
    one.function(parameters="events")
    given = {"all": [A, B], "within": "10s", "allowance": 0}
    one.triggers.save("t", definition.define(function="work", composite=given))
    tell(one, "a0")
    go(one, 5)
    two = make_world()
    two.advance(5)
    tell(two, "b5")
    go(two, 6)
    assert fired(two) == ["a0 b5"]


def test_the_command_line_describes_the_events_of_an_execution_in_sentences(
    world: World, composite: Any
) -> None:
    composite(all=[A, B], allowance=0)
    tell(world, "a0", "b0")
    go(world, 1)
    (row,) = world.rows(schema.execution)
    said = " ".join(execution_explanation.explain(world.lineage.cause(row["id"]), format_time=str))
    assert "It fired on 2 events" in said
    for event in world.rows(schema.event):
        if event["type"] in "ab":
            assert event["id"] in said


def test_the_template_knows_all_events_and_the_deciding_one(world: World) -> None:
    world.function(parameters="names, last")
    given = {"all": [A, B], "within": "10s", "allowance": 0}
    template = {"names": "{{ events }}", "last": "{{ event.type }}"}
    world.triggers.save("t", definition.define(function="work", composite=given, input=template))
    tell(world, "a0", "b0")
    go(world, 1)
    (row,) = world.rows(schema.execution)
    assert [one["type"] for one in row["input"]["names"]] == ["a", "b"]
    assert row["input"]["last"] == "b"
