"""What uses the name of a function: other functions, triggers, agents and their runs, and executions that are open.

:mod:`functory.engine.functions.dependents` has what declares the function. Here is in addition what only writes its
name: code with ``call("parse")``, a pattern of a trigger on its events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database.schema import (
    agent,
    agent_version,
    backlog,
    function,
    function_version,
    in_flight,
    module,
    run,
    trigger,
    version_module,
)
from functory.engine.database.schema.agents import RUN_OPEN
from functory.engine.database.transaction import Tx
from functory.engine.functions import dependents
from functory.engine.functions.source import renaming


@dataclass(frozen=True)
class NameUse:
    """A use. ``name`` is that of the user, or the number of executions; ``how`` says where the name is written."""

    kind: str
    name: str
    how: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" ({self.how})" if self.how else "")


def find(tx: Tx, name: str, scope: Scope = None) -> list[NameUse]:
    """Return the uses of a function's name. Those outside of ``scope`` are one entry, with their number."""
    found = [NameUse(*text.split(" ", 1)) for text in dependents.dependents(tx, name)]
    known = {(one.kind, one.name) for one in found}
    found += [one for one in (*_texts(tx, name), *_patterns(tx, name)) if (one.kind, one.name) not in known]
    found += [*_agents(tx, name), *_runs(tx, name)]
    if scope is not None:
        found = _within(tx, found, scope)
    return [*found, *_open_executions(tx, name)]


def _texts(tx: Tx, name: str) -> Iterator[NameUse]:
    """The functions whose active version writes the name as a string, in its source or a module of its own."""
    active = sa.and_(
        function_version.c.function_id == function.c.id, function_version.c.number == function.c.active
    )
    sources = (
        sa.select(function.c.name, function_version.c.source)
        .join(function_version, active)
        .where(function.c.state != "deleted", function_version.c.source.contains(name, autoescape=True))
    )
    modules = (
        sa.select(function.c.name, module.c.source)
        .join(function_version, active)
        .join(version_module, version_module.c.version_id == function_version.c.id)
        .join(module, module.c.sha256 == version_module.c.sha256)
        .where(function.c.state != "deleted", module.c.source.contains(name, autoescape=True))
    )
    rows = [*tx.rows(sources), *tx.rows(modules)]
    for user in sorted({row["name"] for row in rows if renaming.names_function(row["source"], name)}):
        yield NameUse("function", user, "in its text")


def _patterns(tx: Tx, name: str) -> Iterator[NameUse]:
    """The triggers that write the name anywhere in their definition: in a pattern or an expression."""
    for user, definition in dependents.trigger_definitions(tx):
        if any(_is_or_holds(text, name) for text in _strings(definition)):
            yield NameUse("trigger", user, "in its definition")


def _agents(tx: Tx, name: str) -> Iterator[NameUse]:
    rows = tx.rows(
        sa.select(agent.c.name, agent_version.c.definition)
        .join(
            agent_version,
            sa.and_(agent_version.c.agent == agent.c.name, agent_version.c.number == agent.c.version),
        )
        .where(agent.c.state != "removed")
        .order_by(agent.c.name)
    )
    for row in rows:
        if name in _named(row["definition"]):
            yield NameUse("agent", row["name"])


def _runs(tx: Tx, name: str) -> Iterator[NameUse]:
    rows = tx.rows(
        sa.select(run.c.id, run.c.function, run.c.definition)
        .where(run.c.state.in_(RUN_OPEN))
        .order_by(run.c.id)
    )
    for row in rows:
        if name in {row["function"], *_named(row["definition"])}:
            yield NameUse("run", row["id"])


def _open_executions(tx: Tx, name: str) -> Iterator[NameUse]:
    number = sum(
        tx.scalar(sa.select(sa.func.count()).select_from(table).where(table.c.function == name))
        for table in (backlog, in_flight)
    )
    if number:
        yield NameUse("execution", str(number), "open")


def _within(tx: Tx, found: list[NameUse], scope: Scope) -> list[NameUse]:
    """Return the uses that a caller with this scope sees, and how many others there are."""
    seen = {
        "function": set(tx.execute(sa.select(function.c.name).where(*scopes.functions(scope))).scalars()),
        "trigger": set(tx.execute(sa.select(trigger.c.name).where(*scopes.triggers(scope))).scalars()),
        "run": set(tx.execute(sa.select(run.c.id).where(*scopes.runs(scope))).scalars()),
    }
    visible = [one for one in found if one.name in seen.get(one.kind, ())]
    hidden = len(found) - len(visible)
    return [*visible, *([NameUse("use", str(hidden), "outside of your labels")] if hidden else [])]


def _named(definition: Mapping[str, Any]) -> set[str]:
    """Return the functions that the definition of an agent names."""
    return {definition.get("function") or "", *definition.get("tools", ()), *definition.get("checks", ())}


def _is_or_holds(text: str, name: str) -> bool:
    return text in (name, f"/functory/functions/{name}") or renaming.names_function(text, name)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
