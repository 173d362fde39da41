"""The trigger store: stored triggers and their immutable versions.

The ``triggers`` package checks a definition before it is stored (the engine does not import that package). This module
keeps names, versions and states. A counter shows routers that a trigger has changed. Every change is an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database import audit, counters
from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import Id, trigger, trigger_version
from functory.engine.errors import Conflict, Invalid, NotFound, VersionChanged
from functory.engine.events import causation
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.firings import shadow_mode
from functory.engine.firings.trigger_listing import LAST_AT
from functory.engine.flow_control import circuit_breaker, trigger_row
from functory.engine.flow_control.trigger_row import TRIGGER_COLUMNS, TriggerRow
from functory.engine.names import NAME
from functory.engine.serialization import json_codec
from functory.engine.tallies import trigger_totals

# Triggers of one read.
PAGE = 500
_LEAST_ID = "00000000-0000-0000-0000-000000000000"


class Triggers:
    """Saves, lists and changes triggers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(
        self,
        name: str,
        definition: Mapping[str, Any],
        *,
        author: str = "",
        expected_version: int | None = None,
        shadow: bool = False,
        cause: Cause | None = None,
        labels: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Save a checked definition under ``name``. Equal content makes no new version.

        A new trigger with ``shadow`` records its decisions and runs nothing until :meth:`promote`. A trigger that a
        running function saves (``cause``) starts in shadow, under the limits for agents. ``labels`` are those of a new
        trigger.
        Returns the trigger's row with its definition and ``created``. Raises :class:`Conflict`.
        """
        if not isinstance(name, str) or not NAME.fullmatch(name.replace("-", "_").replace(".", "_")):
            raise Invalid(
                f"{name!r} is not a trigger name", "letters, digits, _ - and . only; it begins with a letter"
            )
        sha256 = json_codec.digest(definition)
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            changed = counters.bump(tx, counters.TRIGGERS)
            row = tx.first(_joined().where(trigger.c.name == name))
            alive = row is not None and row["state"] != "deleted"
            current = row["version"] if row and alive else 0
            if expected_version not in (None, current):
                raise VersionChanged(
                    "the trigger was changed meanwhile",
                    f"you expected version {expected_version}, it is {current or 'gone'}",
                    "look at the newer version, then save again on top of it",
                    base=expected_version or 0,
                    current=current,
                )
            if row is not None and alive and row["sha256"] == sha256:
                return row | {"created": False}
            number = row["version"] + 1 if row else 1
            if row is None:
                id_ = tx.new_id()
                state = "shadow" if shadow or cause is not None else "enabled"
                tx.insert(
                    trigger,
                    [
                        {
                            "id": id_,
                            "name": name,
                            "state": state,
                            "origin": _origin(cause),
                            "version": number,
                            "changed": changed,
                            "labels": scopes.check_labels(labels),
                            "created_at": tx.now,
                            "updated_at": tx.now,
                        }
                    ],
                )
            else:
                id_ = row["id"]
                begun = "shadow" if shadow or cause is not None else "enabled"
                # A running function that changes a person's trigger makes it an agent's trigger, so that it gains no
                # rights by the change.
                tx.execute(
                    sa.update(trigger)
                    .where(trigger.c.id == id_)
                    .values(
                        version=number,
                        state=row["state"] if alive and cause is None else begun,
                        origin=_origin(cause),
                        changed=changed,
                        updated_at=tx.now,
                        note=row["note"] if alive else None,
                        labels=row["labels"] if alive else scopes.check_labels(labels),
                    )
                )
            tx.insert(
                trigger_version,
                [
                    {
                        "trigger_id": id_,
                        "number": number,
                        "definition": dict(definition),
                        "sha256": sha256,
                        "author": author,
                        "created_at": tx.now,
                    }
                ],
            )
            data = {"trigger": name, "version": number, "function": definition["function"], "author": author}
            type_ = "trigger.updated" if alive else "trigger.created"
            event_store.append(
                tx,
                [event_store.record(tx, type_, name, data, source=f"/functory/triggers/{name}", cause=cause)],
            )
            entry: dict[str, Any] = {"version": number, "function": definition["function"]}
            if cause is not None:
                entry["execution"] = cause.execution_id
            before = row["sha256"] if row is not None and alive else None
            audit.append(tx, author, type_, name, entry, before=before, after=sha256)
        return self.get(name) | {"created": True}

    def get(self, name: str) -> dict[str, Any]:
        """Return a trigger's row with its current definition. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            row = tx.first(_joined().where(trigger.c.name == name, trigger.c.state != "deleted"))
        if row is None:
            raise NotFound(f"trigger {name!r} not found", try_="functory trigger list")
        return row

    def definitions(self) -> list[dict[str, Any]]:
        """Return all triggers by name with their definitions. It costs what there are triggers, whatever they fired."""
        with self._database.read() as tx:
            return tx.rows(_joined().where(trigger.c.state != "deleted").order_by(trigger.c.name))

    def count(self) -> int:
        """The number of triggers."""
        statement = sa.select(sa.func.count()).select_from(trigger).where(trigger.c.state != "deleted")
        with self._database.read() as tx:
            return tx.scalar(statement)

    def list(self) -> list[dict[str, Any]]:
        """Return all triggers by name, with the executions that each has started (``fired``), the matches that were
        suppressed, and the time of its last firing (``last_at``). It costs what there are triggers and hours.
        """
        statement = _joined(LAST_AT).where(trigger.c.state != "deleted").order_by(trigger.c.name)
        with self._database.read(snapshot=True) as tx:
            rows = tx.rows(statement)
            totals = trigger_totals.read(tx, [row["name"] for row in rows])
        return [row | asdict(totals[row["name"]]) for row in rows]

    def totals(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the numbers of these triggers by name, as in :meth:`list`."""
        statement = sa.select(trigger.c.name, LAST_AT).where(trigger.c.name.in_(names))
        with self._database.read(snapshot=True) as tx:
            last = {row["name"]: row["last_at"] for row in tx.rows(statement)}
            totals = trigger_totals.read(tx, names)
        return {name: asdict(totals[name]) | {"last_at": last.get(name)} for name in names}

    def changes(self) -> int:
        """Return the number of changes of triggers: while it is the same, no trigger has changed."""
        with self._database.read() as tx:
            return set_version(tx)

    def list_definitions(self) -> list[dict[str, Any]]:
        """Return all triggers by name with their definitions, without any count."""
        with self._database.read() as tx:
            return tx.rows(_joined().where(trigger.c.state != "deleted").order_by(trigger.c.name))

    def visible_names(self, names: Iterable[str], scope: Scope) -> set[str]:
        """Return those of the ``names`` that are triggers in the scope."""
        wanted = sorted(set(names))
        if scope is None:
            return set(wanted)
        found: set[str] = set()
        with self._database.read() as tx:
            for start in range(0, len(wanted), PAGE):
                part = wanted[start : start + PAGE]
                rows = tx.rows(
                    sa.select(trigger.c.name).where(trigger.c.name.in_(part), *scopes.triggers(scope))
                )
                found.update(row["name"] for row in rows)
        return found

    def versions(self, name: str) -> list[dict[str, Any]]:
        """Return all versions of a trigger, newest first."""
        row = self.get(name)
        with self._database.read() as tx:
            return tx.rows(
                sa.select(trigger_version)
                .where(trigger_version.c.trigger_id == row["id"])
                .order_by(trigger_version.c.number.desc())
            )

    def pause(self, name: str, *, note: str = "", author: str = "", cause: Cause | None = None) -> None:
        """enabled → paused: matching events that are routed from now on are recorded as suppressed."""
        self._change_state(name, "paused", "trigger.paused", note, author, cause)

    def resume(self, name: str, *, author: str = "", cause: Cause | None = None) -> None:
        """paused → enabled, and close its circuit breaker. Suppressed matches stay suppressed."""
        row = self.get(name)
        if row["state"] == "shadow":
            raise Conflict(f"the trigger {name} is in shadow mode", try_=f"functory trigger promote {name}")
        with self._database.write() as tx:
            circuit_breaker.close(tx, row["id"])
        self._change_state(name, "enabled", "trigger.resumed", "", author, cause)

    def promote(self, name: str, *, author: str = "") -> None:
        """shadow → enabled: it fires from the next event on. Raises :class:`Conflict`."""
        if self.get(name)["state"] != "shadow":
            raise Conflict(f"the trigger {name} is not in shadow mode", try_=f"functory trigger show {name}")
        self._change_state(name, "enabled", "trigger.promoted", "", author, None)

    def delete(self, name: str, *, author: str = "", cause: Cause | None = None) -> None:
        """Delete a trigger; its firings and versions stay readable."""
        self._change_state(name, "deleted", "trigger.deleted", "", author, cause)

    def _change_state(
        self, name: str, state: str, type_: str, note: str, author: str, cause: Cause | None
    ) -> None:
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            changed = counters.bump(tx, counters.TRIGGERS)
            row = tx.first(_joined().where(trigger.c.name == name, trigger.c.state != "deleted"))
            if row is None:
                raise NotFound(f"trigger {name!r} not found", try_="functory trigger list")
            if row["state"] == state:
                return
            if row["state"] == "shadow" and state != "deleted":
                shadow_mode.leave(tx, trigger_row.from_mapping(row))
            tx.execute(
                sa.update(trigger)
                .where(trigger.c.id == row["id"])
                .values(state=state, note=note or None, changed=changed, updated_at=tx.now)
            )
            data = {"trigger": name, "version": row["version"], "note": note, "author": author}
            event_store.append(
                tx,
                [event_store.record(tx, type_, name, data, source=f"/functory/triggers/{name}", cause=cause)],
            )
            entry = {"version": row["version"]} | ({"note": note} if note else {})
            after = None if state == "deleted" else row["sha256"]
            audit.append(tx, author, type_, name, entry, before=row["sha256"], after=after)


def _origin(cause: Cause | None) -> str:
    return "user" if cause is None else "agent"


def set_version(tx: Tx) -> int:
    """Return the version of the trigger set. An unchanged version means that no trigger has changed."""
    return counters.read(tx, counters.TRIGGERS)


def changed_since(tx: Tx, version: int) -> Iterator[TriggerRow]:
    """Yield the triggers that changed after ``version`` of the set (the counter's value), with their definitions.

    Deleted ones are among them, except for a ``version`` below 0: all triggers. A change locks the counter's row until
    its commit, so no change with a lower number becomes visible later. They are read in pages: all at once would leave
    a process larger for ever.
    """
    statement = _CHANGED if version >= 0 else _ALIVE
    after = _LEAST_ID
    while rows := tx.all(TriggerRow, statement, {"version": version, "after": after}):
        yield from rows
        after = rows[-1].id
        if len(rows) < PAGE:
            return


def _joined(*more: Any) -> sa.Select[Any]:
    return sa.select(
        trigger, trigger_version.c.definition, trigger_version.c.sha256, trigger_version.c.author, *more
    ).join(
        trigger_version,
        sa.and_(trigger_version.c.trigger_id == trigger.c.id, trigger_version.c.number == trigger.c.version),
    )


# Built once, because every router runs them in every round.
_CHANGED = (
    _joined()
    .with_only_columns(*TRIGGER_COLUMNS)
    .where(trigger.c.changed > sa.bindparam("version"), trigger.c.id > sa.bindparam("after", type_=Id))
    .order_by(trigger.c.id)
    .limit(PAGE)
)
_ALIVE = _CHANGED.where(trigger.c.state != "deleted")
