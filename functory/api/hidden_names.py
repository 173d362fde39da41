"""Names that the labels of a caller hide: a caller who sees an execution does not see all that is around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from functory.api.access.rights import Caller
from functory.api.redaction import hide
from functory.client.functory import Functory
from functory.engine.executions import listing as execution_listing
from functory.engine.functions import listing as function_listing

# Is shown instead of a name. No function or trigger can have it.
HIDDEN = "(hidden)"


def visible_triggers(engine: Functory, caller: Caller, names: Iterable[str | None]) -> set[str]:
    """Return those of the names of triggers that the caller sees."""
    return engine.triggers.visible_names({name for name in names if name}, caller.labels)


def chain(
    engine: Functory, caller: Caller, links: Sequence[Mapping[str, Any]] | None
) -> list[dict[str, Any]]:
    """Return the links of a chain of triggers, those of hidden triggers without what they are. The subject of an event
    is a payload.
    """
    given = [hide(caller, link, "subject") for link in links or ()]
    if caller.labels is None:
        return given
    seen = visible_triggers(engine, caller, (link["name"] for link in given))
    return [link if link["name"] in seen else {"name": HIDDEN} for link in given]


def names(engine: Functory, caller: Caller, triggers: Sequence[str]) -> list[str]:
    """Return the names of triggers, :data:`HIDDEN` in the place of those that the caller does not see."""
    if caller.labels is None or not triggers:
        return list(triggers)
    seen = visible_triggers(engine, caller, triggers)
    return [name if name in seen else HIDDEN for name in triggers]


def around_execution(engine: Functory, caller: Caller, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what :meth:`functory.engine.executions.lineage.Lineage.cause` has found, without names that the caller
    does not see. Matches of hidden triggers are left out.
    """
    if caller.labels is None:
        return dict(found)
    firing, parent, undoes = found["firing"], found["parent"], found["undoes"]
    triggers = visible_triggers(
        engine, caller, [firing and firing["trigger"], *(row["trigger"] for row in found["stopped"])]
    )
    steps = [row for row in (parent, undoes, *found["plan"]) if row]
    functions = function_listing.visible_names(
        engine.database, {row["function"] for row in steps}, caller.labels
    )

    def named(row: Mapping[str, Any] | None) -> Any:
        return row if row is None or row["function"] in functions else {**row, "function": HIDDEN}

    if firing is not None and firing["trigger"] not in triggers:
        firing = {**firing, "trigger": HIDDEN}
    return {
        **found,
        "execution": {
            **found["execution"],
            "chain": chain(engine, caller, found["execution"]["chain"]),
        },
        "firing": firing,
        "parent": named(parent),
        "undoes": named(undoes),
        "plan": [named(step) for step in found["plan"]],
        "stopped": [row for row in found["stopped"] if row["trigger"] in triggers],
    }


def visible_executions(
    engine: Functory, caller: Caller, rows: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return those of the rows of executions that the caller sees."""
    if caller.labels is None:
        return list(rows)
    seen = execution_listing.visible_ids(engine.database, [row["id"] for row in rows], caller.labels)
    return [row for row in rows if row["id"] in seen]


def definitions(
    engine: Functory, caller: Caller, given: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return definitions of agents with :data:`HIDDEN` in the place of functions and agents that the caller does not
    see.
    """
    if caller.labels is None:
        return list(given)
    named = {name for one in given for key in ("tools", "checks") for name in one[key]}
    functions = function_listing.visible_names(engine.database, named, caller.labels)
    agents = {row["name"] for row in engine.agents.list(caller.labels)}

    def shown(one: Mapping[str, Any]) -> dict[str, Any]:
        asked = [name for name in one["ask_before"] if name in functions or name not in one["tools"]]
        return {
            **one,
            "tools": [name if name in functions else HIDDEN for name in one["tools"]],
            "checks": [name if name in functions else HIDDEN for name in one["checks"]],
            "agents": [name if name in agents else HIDDEN for name in one["agents"]],
            "ask_before": asked,
        }

    return [shown(one) for one in given]


def rights(engine: Functory, caller: Caller, given: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rights of proposed versions; of their ``dependents`` those that the caller sees."""
    if caller.labels is None:
        return list(given)
    names = {name for one in given for name in one["dependents"]}
    seen = function_listing.visible_names(engine.database, names, caller.labels)
    return [{**one, "dependents": [name for name in one["dependents"] if name in seen]} for one in given]
