"""What stops a cycle: the guards of the router, played through one round after the other, say the same."""

from __future__ import annotations

from typing import Any

import pytest

from functory.engine.flow_control import trigger_row
from functory.engine.settings import Settings
from functory.triggers.analysis.cycle_guards import CycleStop, find_stop
from functory.triggers.definition import CompiledTrigger, compile_definition, parse
from functory.triggers.routing.guards import check_guards, effective_guards
from tests.support.event_rows import event_row

SETTINGS = Settings()


def trigger(name: str, *, state: str = "enabled", origin: str = "operator", **guards: Any) -> CompiledTrigger:
    definition = parse({"on": {"type": ["a"]}, "function": "work", "input": {}, "guards": guards})
    row = {"id": f"id of {name}", "name": name, "state": state, "origin": origin, "note": "", "version": 1}
    return compile_definition(trigger_row.from_mapping(row | {"definition": definition}))


def played(ring: list[CompiledTrigger], same_subject: bool) -> CycleStop:
    """The same by the guards of the router themselves."""
    chain: list[dict[str, Any]] = []
    while True:
        one = ring[len(chain) % len(ring)]
        event = event_row(chain=chain, depth=len(chain), subject="s" if same_subject else str(len(chain)))
        guards = effective_guards(one.guards, by_agent=one.row.origin == "agent", settings=SETTINGS)
        found = check_guards(one.id, one.name, guards, event, SETTINGS.max_depth)
        if found is not None:
            return CycleStop(found.guard, one.name, found.limit, len(chain))
        chain = [*chain, {"trigger": one.id, "name": one.name, "subject": event.subject}]


@pytest.mark.parametrize("same_subject", [True, False])
@pytest.mark.parametrize("ring", [
    [trigger("a"), trigger("b")],
    [trigger("a"), trigger("b", acknowledge_cycle=3), trigger("c", acknowledge_cycle=2)],
    [trigger("a", max_revisits=0), trigger("b", max_revisits=0)],
    [trigger("a", max_revisits=0), trigger("b", max_revisits=0, max_depth=5)],
    [trigger("a")],
    [trigger("a", allow_self=True)],
    [trigger("a", allow_self=True, max_revisits=4)],
    [trigger("a", acknowledge_cycle=3), trigger("b", acknowledge_cycle=3, origin="agent")],
], ids=lambda ring: "-".join(f"{one.name}" for one in ring))  # fmt: skip
def test_it_is_what_the_router_does(ring: list[CompiledTrigger], same_subject: bool) -> None:
    assert find_stop(ring, SETTINGS, same_subject=same_subject) == played(ring, same_subject)


def test_a_paused_trigger_and_a_small_budget_stop_it_too() -> None:
    ring = [trigger("a", max_revisits=0), trigger("b", max_revisits=0, budget=3)]
    assert find_stop(ring, SETTINGS, same_subject=True) == CycleStop("budget", "b", 3, 3)
    ring = [trigger("a"), trigger("b", state="paused")]
    assert find_stop(ring, SETTINGS, same_subject=True) == CycleStop("trigger_paused", "b", 0, 1)
