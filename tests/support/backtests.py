"""Backtests of a world's triggers, and the decisions of a real run in the same words."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from functory.engine.database import schema
from functory.engine.executions import root_budget
from functory.engine.flow_control import trigger_row
from functory.engine.functions import dependencies, versions
from functory.triggers import definition
from functory.triggers.analysis import backtest
from functory.triggers.analysis.backtest import Comparison
from tests.support.world import World


def backtested(
    world: World, name: str, draft: dict[str, Any] | None = None, *, since: datetime | None = None
) -> Comparison:
    """The backtest of a stored trigger, or of a draft beside it, as `Functory.backtest` runs it."""
    row = world.triggers.get(name)
    stored = definition.compile_definition(trigger_row.from_mapping(row))
    tried = (
        stored
        if draft is None
        else definition.compile_definition(trigger_row.from_mapping(row | {"definition": draft}))
    )
    other = None if draft is None else stored
    begin = since or row["created_at"] - timedelta(minutes=1)
    with world.database.read() as tx:
        targets = versions.load_starts(
            tx, [dependencies.parse_reference(one.function) for one in (tried, stored)]
        )

    def budget_use(least: int, trigger_id: str) -> dict[str, int]:
        with world.database.read() as tx:
            return root_budget.used_by_others(tx, least, trigger_id)

    return backtest.run(
        tried,
        other,
        world.events.scan(begin, backtest.possible_event_types(tried, other)),
        world.settings,
        targets=targets,
        since=row["created_at"] if since is None else since,
        until=world.clock.now(),
        budget_use=budget_use,
    )


def decided(comparison: Comparison) -> dict[str, int]:
    """A backtest's decisions: executions, and the events by what became of them."""
    found = comparison.draft.decisions
    return _counted(found.executions, found.fired, found.waiting, found.suppressed)


def really_decided(world: World, name: str) -> dict[str, int]:
    """The decisions of the real run, in the words of :func:`decided`."""
    id_ = world.triggers.get(name)["id"]
    rows = world.rows(schema.firing, schema.firing.c.trigger_id == id_)
    return _counted(
        len(world.rows(schema.execution, schema.execution.c.trigger_id == id_)),
        sum(row["decision"] == "fired" for row in rows),
        len(world.rows(schema.buffered_match, schema.buffered_match.c.trigger_id == id_)),
        Counter(row["reason"] for row in rows if row["decision"] == "suppressed"),
    )


def _counted(executions: int, fired: int, waiting: int, suppressed: Counter[str]) -> dict[str, int]:
    found = {"executions": executions, "fired": fired, "waiting": waiting} | dict(suppressed)
    return {what: count for what, count in found.items() if count}
