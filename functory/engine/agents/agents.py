"""The registry of agents: a name with a versioned definition. A change makes a new version; runs keep theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Conditions, Scope
from functory.engine.agents import agent_fields
from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.dialects import json_member
from functory.engine.database.schema import agent, agent_version, function, model
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, Invalid, NotFound
from functory.engine.names import check_name
from functory.engine.serialization import json_codec

_CURRENT = sa.select(agent, agent_version.c.definition, agent_version.c.author).join(
    agent_version,
    sa.and_(agent_version.c.agent == agent.c.name, agent_version.c.number == agent.c.version),
)


class Agents:
    """The agents of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self, name: str, fields: Mapping[str, Any], *, author: str, scope: Scope = None
    ) -> dict[str, Any]:
        """Store an agent. Returns its row. Raises :class:`Invalid`, also for a function or an agent outside of
        ``scope``, and :class:`Conflict` for a name that is taken.
        """
        check_name(name)
        definition = agent_fields.check(fields)
        with self._database.write() as tx:
            known = tx.first(sa.select(agent).where(agent.c.name == name).with_for_update())
            if known is not None and known["state"] != "removed":
                raise Conflict(
                    f"there is an agent {name} already", try_=f"functory agent set {name} --tool NAME"
                )
            _check_references(tx, name, definition, scope=scope)
            number = 1 if known is None else known["version"] + 1
            if known is None:
                row = {
                    "name": name,
                    "state": "enabled",
                    "version": 1,
                    "created_at": tx.now,
                    "updated_at": tx.now,
                }
                if not tx.insert_missing(agent, [row]):
                    raise Conflict(f"there is an agent {name} already")
            else:
                tx.execute(_set(name, state="enabled", version=number, updated_at=tx.now))
            _store_version(tx, name, number, definition, author)
            audit.append(tx, author, "agent.add", name, {"definition": definition})
        return self.get(name)

    def update(
        self, name: str, changes: Mapping[str, Any], *, author: str, scope: Scope = None
    ) -> dict[str, Any]:
        """Change fields of an agent: a new version of it. Its open runs keep theirs. Returns its row. Raises as
        :meth:`add`; what it names already may stay.
        """
        with self._database.write() as tx:
            known = _load(tx, name, scope, lock=True)
            given = dict(changes)
            if isinstance(given.get("limits"), Mapping):
                merged = {**known["definition"]["limits"], **given["limits"]}
                given["limits"] = {key: value for key, value in merged.items() if value is not None}
            definition = agent_fields.check({**known["definition"], **given})
            _check_references(tx, name, definition, known["definition"], scope)
            if definition != known["definition"]:
                number = known["version"] + 1
                tx.execute(_set(name, version=number, updated_at=tx.now))
                _store_version(tx, name, number, definition, author)
                audit.append(
                    tx,
                    author,
                    "agent.set",
                    name,
                    {"definition": definition},
                    before=audit.digest(known["definition"]),
                    after=audit.digest(definition),
                )
        return self.get(name)

    def set_state(self, name: str, state: str, *, author: str, scope: Scope = None) -> dict[str, Any]:
        """Enable, disable or remove an agent. No run of one that is not enabled starts; open ones go on."""
        if state not in ("enabled", "disabled", "removed"):
            raise Invalid(f"wrong state {state!r}", "it is enabled, disabled or removed")
        with self._database.write() as tx:
            known = _load(tx, name, scope, lock=True)
            tx.execute(_set(name, state=state, updated_at=tx.now))
            audit.append(tx, author, f"agent.{state.removesuffix('d')}", name)
        return {**known, "state": state}

    def list(self, scope: Scope = None) -> list[dict[str, Any]]:
        """Return the agents with their definitions, by name."""
        with self._database.read() as tx:
            visible = agent.c.state != "removed", *_visible(tx, scope)
            return tx.rows(_CURRENT.where(*visible).order_by(agent.c.name))

    def get(self, name: str, scope: Scope = None) -> dict[str, Any]:
        """Return an agent with its definition. Raises :class:`NotFound`, also for one outside of ``scope``."""
        with self._database.read() as tx:
            return _load(tx, name, scope)

    def versions(
        self, name: str, *, before: int | None = None, limit: int | None = None, scope: Scope = None
    ) -> list[dict[str, Any]]:
        """Return versions of an agent, the newest first, of those before the number ``before``."""
        with self._database.read() as tx:
            _load(tx, name, scope)
            # A name that was removed may have belonged to a function that the reader does not see.
            conditions = [agent_version.c.agent == name, *_visible(tx, scope)]
            if before is not None:
                conditions.append(agent_version.c.number < before)
            newest_first = agent_version.c.number.desc()
            return tx.rows(sa.select(agent_version).where(*conditions).order_by(newest_first).limit(limit))


def load_for_run(tx: Tx, name: str) -> dict[str, Any]:
    """Return an agent that may start a run. Raises :class:`NotFound`, and :class:`Conflict` for one that may not."""
    found = _load(tx, name)
    if found["state"] != "enabled":
        raise Conflict(f"the agent {name} is {found['state']}", try_=f"functory agent enable {name}")
    return found


def _visible(tx: Tx, scope: Scope) -> Conditions:
    """Return the conditions on table ``agent_version``: an agent belongs to the function of its steps."""
    return scopes.function_names(json_member(tx, agent_version.c.definition, "function"), scope)


def _load(tx: Tx, name: str, scope: Scope = None, *, lock: bool = False) -> dict[str, Any]:
    statement = _CURRENT.where(agent.c.name == name, *_visible(tx, scope))
    found = tx.first(statement.with_for_update(of=agent) if lock else statement)
    if found is None or found["state"] == "removed":
        raise NotFound(f"agent {str(name)[:80]!r} not found", try_="functory agent list")
    return found


def _set(name: str, **values: Any) -> Any:
    return sa.update(agent).where(agent.c.name == name).values(**values)


def _store_version(tx: Tx, name: str, number: int, definition: Mapping[str, Any], author: str) -> None:
    row = {
        "agent": name,
        "number": number,
        "definition": dict(definition),
        "sha256": json_codec.digest(definition),
        "author": author,
        "created_at": tx.now,
    }
    tx.insert(agent_version, [row])


def _check_references(
    tx: Tx,
    name: str,
    definition: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
    scope: Scope = None,
) -> None:
    """What an agent names must be there: a run that finds out in its tenth step has wasted nine. What is outside of
    ``scope`` is not there, unless the definition ``before`` has named it.
    """
    wanted = {definition["function"], *_others(definition)}
    stored = sa.select(function.c.name).where(function.c.name.in_(wanted), *scopes.functions(scope))
    known = set(tx.execute(stored).scalars())
    kept = {} if scope is None or before is None else before
    if missing := sorted(wanted - known - (_others(kept) - {definition["function"]})):
        raise Invalid(
            f"the agent {name} names functions that are not stored",
            ", ".join(missing)[:400],
            "functory function list",
        )
    if definition["model"] is not None:
        found = tx.scalar(sa.select(model.c.name).where(model.c.name == definition["model"]))
        if found is None:
            raise Invalid(f"there is no model {definition['model'][:80]!r}", try_="functory model list")
    others = {one for one in definition["agents"] if one != name}
    stored = _CURRENT.with_only_columns(agent.c.name).where(agent.c.name.in_(others), *_visible(tx, scope))
    known = set(tx.execute(stored).scalars())
    if missing := sorted(others - known - set(kept.get("agents", ()))):
        raise Invalid(f"the agent {name} names agents that are not stored", ", ".join(missing)[:400])


def _others(definition: Mapping[str, Any]) -> set[str]:
    """Return the functions that a definition names beside that of its steps."""
    return {*definition.get("tools", ()), *definition.get("checks", ())}
