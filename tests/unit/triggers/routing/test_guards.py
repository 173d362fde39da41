"""The guards against loops, as the table that they are."""

from typing import Any

import pytest

from functory.engine.events.event_row import EventRow
from functory.engine.settings import Settings
from functory.triggers.definition import Guards
from functory.triggers.routing import guards
from tests.support.event_rows import event_row


def event(*chain: tuple[str, str | None], subject: str | None = "s", depth: int | None = None) -> EventRow:
    """An event that these (trigger, subject) led to."""
    links = [
        {"trigger": trigger, "name": trigger.upper(), "subject": about, "event": "e"}
        for trigger, about in chain
    ]
    return event_row(chain=links, subject=subject, depth=len(chain) if depth is None else depth)


def trip(given: EventRow, own: dict[str, Any]) -> tuple[str, int, int] | None:
    found = guards.check_guards("t", "T", Guards(**own), given, 16)
    return None if found is None else (found.guard, found.limit, found.value)


@pytest.mark.parametrize(("given", "own", "expected"), [
    (event(), {}, None),
    (event(("a", "s")), {}, None),
    (event(("t", "s")), {}, ("own_event", 0, 1)),
    (event(("t", "other")), {}, ("own_event", 0, 1)),
    (event(("t", "other")), {"allow_self": True}, None),
    (event(("t", "s")), {"allow_self": True}, ("cycle", 1, 2)),
    (event(("t", "s")), {"allow_self": True, "max_revisits": 2}, None),
    (event(("t", "s"), ("t", "s")), {"allow_self": True, "max_revisits": 2}, ("cycle", 2, 3)),
    (event(("t", "s"), ("a", "s")), {}, ("cycle", 1, 2)),
    (event(("t", "other"), ("a", "s")), {}, None),
    (event(("t", None), ("a", "s"), subject=None), {}, ("cycle", 1, 2)),
    (event(("t", "s"), ("a", "s")), {"max_revisits": 0}, None),
    (event(("a", "s"), ("b", "s"), ("a", "s")), {}, None),
    (event(depth=15), {}, None),
    (event(depth=16), {}, ("depth", 16, 17)),
    (event(depth=3), {"max_depth": 4}, None),
    (event(depth=4), {"max_depth": 4}, ("depth", 4, 5)),
    (event(depth=16), {"max_depth": 64}, ("depth", 16, 17)),
    (event(("t", "s"), depth=16), {"max_revisits": 0, "allow_self": True}, ("depth", 16, 17)),
])  # fmt: skip
def test_the_first_guard_that_trips_decides(given, own, expected):
    assert trip(given, own) == expected


def test_a_trip_shows_the_path():
    found = guards.check_guards("t", "T", Guards(), event(("t", "s"), ("a", "s")), 16)
    assert found is not None
    assert found.detail == "T → A → T"


def test_the_trigger_of_an_agent_cannot_raise_its_own_limits():
    wide = Guards(max_depth=64, budget=1000, rate=0, max_revisits=9, allow_self=True, acknowledge_cycle=9)
    held = guards.effective_guards(wide, by_agent=True, settings=Settings())
    assert (held.max_depth, held.budget, held.rate, held.max_revisits, held.allow_self) == (
        guards.AGENT_DEPTH, guards.AGENT_BUDGET, guards.AGENT_RATE, 1, False)  # fmt: skip
    tight = guards.effective_guards(Guards(max_depth=2, budget=3, rate=4), by_agent=True, settings=Settings())
    assert (tight.max_depth, tight.budget, tight.rate) == (2, 3, 4)


def test_a_person_s_trigger_takes_its_own_limits_or_the_settings():
    settings = Settings(trigger_rate=7)
    assert guards.effective_guards(Guards(), by_agent=False, settings=settings).rate == 7
    own = guards.effective_guards(Guards(rate=0, acknowledge_cycle=3), by_agent=False, settings=settings)
    assert (own.rate, own.max_revisits) == (0, 3)
