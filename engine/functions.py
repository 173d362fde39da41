"""Functions and their immutable versions.

A change of anything makes one new version; saving the same content makes none. Numbers are given
out under the registry's lock, so they are unique and without gaps under any concurrency. Source
text is parsed here and never executed: type hints are evaluated by ``inspect``, which the caller
supplies and which runs in a child process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from engine import causes, counters, declaration, dependencies, events, source, versions
from engine.causes import Cause
from engine.database import Database
from engine.declaration import Inspect
from engine.errors import Conflict, NotFound
from engine.tables import function, function_version, trigger, trigger_version
from engine.tx import Tx


class Functions:
    """The registry: save, read, activate, disable, delete."""

    def __init__(self, database: Database, inspect: Inspect | None = None) -> None:
        self._database = database
        self._inspect = inspect

    def save(
        self,
        text: str,
        *,
        name: str | None = None,
        author: str = "",
        expected_version: int | None = None,
        activate: bool = True,
        cause: Cause | None = None,
        **declared: Any,
    ) -> dict[str, Any]:
        """Save a function as fully described: what is not in ``declared`` is empty.

        ``declared`` takes imports, dependencies, secrets (or key_dependencies), permissions, metadata,
        output_patterns, limits, input_parameters, output_parameters, validate_output. Returns the
        version row with ``created`` False when nothing had changed. Raises :class:`Invalid` or
        :class:`Conflict`.
        """
        return self._write(
            source.parse(text, name), declared, False, author, expected_version, activate, cause
        )

    def update(
        self,
        name: str,
        *,
        author: str = "",
        expected_version: int | None = None,
        activate: bool = True,
        cause: Cause | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        """Change what ``changes`` names and keep the rest of the active version.

        Raises :class:`NotFound` for an unknown function, and as :meth:`save`.
        """
        text = changes.pop("source", None)
        self.get(name)
        parsed = source.parse(text, name) if text is not None else None
        return self._write(parsed or name, changes, True, author, expected_version, activate, cause)

    def get(self, name: str, number: int | None = None) -> dict[str, Any]:
        """A version with its function's ``name``, ``state``, ``active`` and ``latest``; the active one
        without a ``number``. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            row = versions.load(tx, name, number) or (
                versions.load_latest(tx, name) if number is None else None
            )
            if row is None or row["state"] == "deleted":
                raise self._missing(tx, name, number)
        return row

    def list(self, *, after: str | None = None, limit: int = 1000) -> list[dict[str, Any]]:
        """Functions by name, each with its active (else latest) version's row."""
        statement = (
            versions.joined()
            .where(
                function.c.state != "deleted",
                function_version.c.number == sa.func.coalesce(function.c.active, function.c.latest),
            )
            .order_by(function.c.name)
            .limit(limit)
        )
        if after is not None:
            statement = statement.where(function.c.name > after)
        with self._database.read() as tx:
            return tx.rows(statement)

    def versions(self, name: str) -> list[dict[str, Any]]:
        """All versions of a function, newest first. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            rows = tx.rows(
                versions.joined()
                .where(function.c.name == name, function.c.state != "deleted")
                .order_by(function_version.c.number.desc())
            )
            if not rows:
                raise self._missing(tx, name, None)
        return rows

    def activate(
        self,
        name: str,
        number: int,
        *,
        author: str = "",
        expected_version: int | None = None,
        cause: Cause | None = None,
    ) -> dict[str, Any]:
        """Make version ``number`` the active one; also enables a disabled function.

        Raises :class:`NotFound` for a version that does not exist: nothing changes then.
        """
        with self._database.write() as tx:
            causes.hold(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = self._existing(tx, name)
            _check_expected(row, expected_version)
            version = versions.load(tx, name, number)
            if version is None:
                raise self._missing(tx, name, number)
            # What this version needs may need it by now: a version that slept was not asked.
            _resolve(tx, name, version["dependencies"])
            if row["active"] != number or row["state"] != "enabled":
                tx.execute(
                    sa.update(function)
                    .where(function.c.id == row["id"])
                    .values(active=number, state="enabled", updated_at=tx.now)
                )
                data = _data(version) | {"previous_version": row["active"], "author": author}
                events.add(
                    tx,
                    [events.record(tx, "function.activated", name, data, source=_source(name), cause=cause)],
                )
        return self.get(name, number)

    def rollback(self, name: str, *, author: str = "", cause: Cause | None = None) -> dict[str, Any]:
        """Activate the newest version older than the active one. Raises :class:`Conflict` when there is none."""
        row = self.get(name)
        older = [
            v["number"] for v in self.versions(name) if row["active"] is None or v["number"] < row["active"]
        ]
        if not older:
            raise Conflict(
                f"{name} has no older version",
                f"version {row['active']} is its first",
                f"functory function list, or save a new version of {name}",
            )
        return self.activate(name, older[0], author=author, expected_version=row["active"], cause=cause)

    def disable(self, name: str, *, author: str = "", cause: Cause | None = None) -> None:
        """Start no more executions of ``name``; its versions stay. Raises :class:`NotFound`."""
        self._set_state(name, "disabled", "function.disabled", author, cause)

    def delete(self, name: str, *, force: bool = False, author: str = "", cause: Cause | None = None) -> None:
        """Delete a function; its executions and versions stay readable.

        Raises :class:`Conflict` while others depend on it or triggers run it, unless ``force``.
        """
        with self._database.write() as tx:
            causes.hold(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = self._existing(tx, name)
            users = _dependents(tx, name) + _triggers_of(tx, name)
            if users and not force:
                raise Conflict(
                    f"{name} is in use",
                    "it is needed by " + ", ".join(users),
                    f"change those first, or functory function delete {name} --force",
                )
            tx.execute(
                sa.update(function)
                .where(function.c.id == row["id"])
                .values(state="deleted", active=None, updated_at=tx.now)
            )
            data = {"function": name, "version": row["active"], "author": author, "forced": bool(users)}
            events.add(
                tx, [events.record(tx, "function.deleted", name, data, source=_source(name), cause=cause)]
            )

    def dependents(self, name: str) -> list[str]:
        """Who needs ``name``: functions and triggers, as text."""
        with self._database.read() as tx:
            return _dependents(tx, name) + _triggers_of(tx, name)

    def _write(
        self,
        parsed: source.Source | str,
        declared: Mapping[str, Any],
        partial: bool,
        author: str,
        expected_version: int | None,
        activate: bool,
        cause: Cause | None,
    ) -> dict[str, Any]:
        declared = declaration.read(declared)
        name = parsed if isinstance(parsed, str) else parsed.name
        # The child process is asked before the transaction, so that no lock waits for it; and not
        # at all when the source is the one that is stored already.
        signature = None
        if isinstance(parsed, source.Source) and self._inspect is not None and not self._known(parsed):
            signature = self._inspect(parsed.text, parsed.name)
        with self._database.write() as tx:
            causes.hold(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = tx.one(sa.select(function).where(function.c.name == name))
            alive = row is not None and row["state"] != "deleted"
            _check_expected(row if alive else None, expected_version)
            base = (versions.load(tx, name, None) or versions.load_latest(tx, name)) if alive else None
            if partial and base is None:
                raise self._missing(tx, name, None)
            content = declaration.content(
                parsed, declared, base if partial else None, versions.same_source(tx, parsed), signature
            )
            warnings = content.pop("warnings")
            content["dependencies"] = _resolve(tx, name, content["dependencies"])
            unresolved = [d["name"] for d in content["dependencies"] if not d["resolved"]]
            warnings = [*warnings, *(f"the dependency {d} does not exist yet" for d in unresolved)]
            sha256 = declaration.digest(content)
            if alive and base is not None and base["sha256"] == sha256 and base["active"] == base["number"]:
                return base | {"created": False}
            latest = versions.load_latest(tx, name) if alive and not activate else None
            if latest is not None and latest["sha256"] == sha256:
                return latest | {"created": False}
            number = (row["latest"] if row else 0) + 1
            active = number if activate else row["active"] if row else None
            values = {
                "state": "enabled" if activate or not alive else row["state"] if row else "enabled",
                "active": active,
                "latest": number,
                "updated_at": tx.now,
            }
            if row is None:
                function_id = tx.new_id()
                tx.insert(function, [{"id": function_id, "name": name, "created_at": tx.now, **values}])
            else:
                function_id = row["id"]
                tx.execute(sa.update(function).where(function.c.id == function_id).values(**values))
            version = content | {
                "id": tx.new_id(),
                "function_id": function_id,
                "number": number,
                "sha256": sha256,
                "warnings": warnings,
                "author": author,
                "created_at": tx.now,
                "cause_execution_id": cause.execution_id if cause else None,
            }
            tx.insert(function_version, [version])
            changed = [key for key in declaration.CONTENT if base is None or base[key] != content[key]]
            data = _data(version | {"name": name}) | {
                "previous_version": base["number"] if base else None,
                "changed": changed,
                "author": author,
                "active": active == number,
                "warnings": warnings,
            }
            type_ = "function.updated" if alive else "function.created"
            events.add(tx, [events.record(tx, type_, name, data, source=_source(name), cause=cause)])
        return self.get(name, number) | {"created": True}

    def _known(self, parsed: source.Source) -> bool:
        with self._database.read() as tx:
            return versions.same_source(tx, parsed) is not None

    def _set_state(self, name: str, state: str, type_: str, author: str, cause: Cause | None) -> None:
        with self._database.write() as tx:
            causes.hold(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = self._existing(tx, name)
            if row["state"] == state:
                return
            tx.execute(
                sa.update(function).where(function.c.id == row["id"]).values(state=state, updated_at=tx.now)
            )
            data = {"function": name, "version": row["active"], "author": author}
            events.add(tx, [events.record(tx, type_, name, data, source=_source(name), cause=cause)])

    def _existing(self, tx: Tx, name: str) -> dict[str, Any]:
        row = tx.one(sa.select(function).where(function.c.name == name, function.c.state != "deleted"))
        if row is None:
            raise self._missing(tx, name, None)
        return row

    @staticmethod
    def _missing(tx: Tx, name: str, number: int | None) -> NotFound:
        numbers = [
            row["number"]
            for row in tx.rows(
                sa.select(function_version.c.number)
                .join(function, function.c.id == function_version.c.function_id)
                .where(function.c.name == name, function.c.state != "deleted")
                .order_by(function_version.c.number)
            )
        ]
        if numbers and number is not None:
            return NotFound(
                f"function {name!r} has no version {number}",
                f"it has {_ranges(numbers)}",
                f"functory function show {name}",
            )
        return NotFound(f"function {name!r} not found", try_="functory function list")


def _resolve(tx: Tx, name: str, declared: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mark each dependency as existing or not, and refuse a cycle with its path."""
    graph: dict[str, list[str]] = {name: []}
    waiting = list(dependencies.read(declared))
    known: dict[str, bool] = {}
    graph[name] = [str(d) for d in waiting]
    while waiting:
        wanted = [d for d in waiting if str(d) not in known and not (d.name == name and d.pin is None)]
        rows = versions.load_many(tx, [(d.name, d.pin) for d in wanted])
        waiting = []
        for dependency in wanted:
            row = rows.get((dependency.name, dependency.pin))
            known[str(dependency)] = row is not None
            below = dependencies.read(row["dependencies"]) if row else ()
            graph[str(dependency)] = [str(d) for d in below]
            waiting.extend(below)
    dependencies.check_acyclic(name, graph)
    return [d.as_json() | {"resolved": known.get(str(d), False)} for d in dependencies.read(declared)]


def _dependents(tx: Tx, name: str) -> list[str]:
    rows = tx.rows(
        sa.select(function.c.name, function_version.c.number, function_version.c.dependencies)
        .join(
            function_version,
            sa.and_(
                function_version.c.function_id == function.c.id,
                function_version.c.number == function.c.active,
            ),
        )
        .where(function.c.state != "deleted", function.c.name != name)
        .order_by(function.c.name)
    )
    return [f"function {row['name']}" for row in rows if any(d["name"] == name for d in row["dependencies"])]


def _triggers_of(tx: Tx, name: str) -> list[str]:
    rows = tx.rows(
        sa.select(trigger.c.name, trigger_version.c.definition)
        .join(
            trigger_version,
            sa.and_(
                trigger_version.c.trigger_id == trigger.c.id, trigger_version.c.number == trigger.c.version
            ),
        )
        .where(trigger.c.state != "deleted")
        .order_by(trigger.c.name)
    )
    return [
        f"trigger {row['name']}"
        for row in rows
        if dependencies.reference(row["definition"]["function"])[0] == name
    ]


def _check_expected(row: Mapping[str, Any] | None, expected: int | None) -> None:
    if expected is None:
        return
    active = row["active"] if row else None
    if (active or 0) != expected:
        raise Conflict(
            "somebody else changed the function meanwhile",
            f"you expected version {expected}, active is {active if active is not None else 'none'}",
            "look at the newer version, then save again on top of it",
        )


def _data(version: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "function": version["name"],
        "version": version["number"],
        "sha256": version["sha256"],
        "source_sha256": version["source_sha256"],
        "metadata": version["metadata"],
        "dependencies": [d["name"] for d in version["dependencies"]],
    }


def _source(name: str) -> str:
    return f"/functory/functions/{name}"


def _ranges(numbers: list[int]) -> str:
    if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"versions {numbers[0]} to {numbers[-1]}"
    return "version" + ("s " if len(numbers) > 1 else " ") + ", ".join(map(str, numbers))
