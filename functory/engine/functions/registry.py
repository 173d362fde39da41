"""The function registry: saves, reads, activates, disables and deletes functions and their immutable versions.

Each change makes one new version; a save of the same content makes none. Version numbers are given out under the
registry's lock: they are unique and have no gaps under any concurrency. Source text is parsed here and never executed.
The caller supplies ``inspect``, which evaluates type hints in a child process, and ``resolve``, which installs
packages. A version whose packages cannot be installed is saved with the reason, and not activated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.access.scopes import Scope
from functory.engine.database import counters
from functory.engine.database.connection import Database
from functory.engine.database.schema import function, function_version
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict
from functory.engine.events import causation
from functory.engine.events.causation import Cause
from functory.engine.functions import (
    activation,
    annotations,
    environments,
    function_events,
    version_marks,
    version_modules,
    versions,
)
from functory.engine.functions import dependents as dependent_rows
from functory.engine.functions import rollback as rollback_rules
from functory.engine.functions.activation import Change
from functory.engine.functions.declaration import Inspect
from functory.engine.functions.environments import NO_PACKAGES, PackageNeeds, Resolve
from functory.engine.functions.rename import RenameReport, Renames
from functory.engine.functions.save import Propose, SaveRequest, Saves
from functory.engine.functions.source import parser
from functory.engine.functions.version_row import VersionRow
from functory.engine.settings import Settings


class Functions:
    """The function registry: save, read, activate, disable, delete."""

    def __init__(
        self,
        database: Database,
        inspect: Inspect | None = None,
        settings: Settings | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        self._database = database
        self._resolve = resolve
        self._saves = Saves(database, inspect, settings, resolve)
        self._renames = Renames(database)

    def save(
        self,
        text: str,
        *,
        name: str | None = None,
        author: str = "",
        expected_version: int | None = None,
        activate: bool = True,
        force: bool = False,
        renew: bool = False,
        cause: Cause | None = None,
        labels: Sequence[str] = (),
        propose: Propose | None = None,
        **declared: Any,
    ) -> dict[str, Any]:
        """Save a function. A field that is not in ``declared`` is empty.

        ``declared`` takes imports, dependencies, secrets (or key_dependencies), permissions, hosts, files,
        subprocess, requirements, modules, reuse, compensate, metadata, output_patterns, limits, input_parameters,
        output_parameters, validate_output. ``modules`` are texts of the author's own modules by dotted name
        (``shop.money``, ``shop.__init__``): those that the source reaches by its imports are stored.
        ``labels`` are those of a function that is new.

        Returns the version row with ``created`` False when nothing had changed. Raises :class:`Invalid`,
        :class:`Conflict`, and :class:`Refused` for a protected path or for more rights than the execution that is the
        ``cause`` has itself.

        The version is not activated when its packages cannot be installed (``environment_error``), and, unless
        ``force``, when executing its source fails or when its content is that of a version marked bad;
        ``inactive_reason`` of the row holds the reason, else None. The same
        requirements get the same packages as before, unless ``renew``. A version that is saved for ``propose`` waits at
        the gate (:class:`functory.engine.functions.save.SaveRequest`).
        """
        activation.check_force(force, cause)
        parsed = parser.parse(text, name)
        return self._saves.save(
            SaveRequest(
                parsed,
                declared,
                None,
                author,
                expected_version,
                activate and propose is None,
                force,
                renew,
                cause,
                labels,
                propose,
            )
        )

    def check(self, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Check what :meth:`update` of an existing function or :meth:`save` of a new one would do. Nothing is saved.

        Returns the row of the version that it would make (:meth:`functory.engine.functions.save.Saves.check`). Raises
        as they do.
        """
        declared = dict(changes)
        text = declared.pop("source", None)
        with self._database.read() as tx:
            base = versions.load_active_or_latest(tx, name)
            if base is None and text is None:
                raise versions.missing_error(tx, name, None)
        source = parser.parse(text, name) if text is not None else name
        return self._saves.check(SaveRequest(source, declared, base, "", None, True, False, False, None))

    def update(
        self,
        name: str,
        *,
        author: str = "",
        expected_version: int | None = None,
        activate: bool = True,
        force: bool = False,
        renew: bool = False,
        cause: Cause | None = None,
        propose: Propose | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        """Change the fields in ``changes`` and keep the others of the active version.

        With ``renew`` and nothing else: the same function with the newest packages. Raises :class:`NotFound`
        for an unknown function, and as :meth:`save`.
        """
        activation.check_force(force, cause)
        text = changes.pop("source", None)
        base = self._load(name, None)
        source = parser.parse(text, name) if text is not None else name
        return self._saves.save(
            SaveRequest(
                source,
                changes,
                base,
                author,
                expected_version,
                activate and propose is None,
                force,
                renew,
                cause,
                (),
                propose,
            )
        )

    def get(self, name: str, number: int | None = None) -> dict[str, Any]:
        """Return a version with its function's ``name``, ``state``, ``active`` and ``latest``, and the sha256 of its
        ``modules`` by name; the active version without a ``number``. Raises :class:`NotFound`.
        """
        row = self._load(name, number)
        with self._database.read() as tx:
            return versions.as_dict(row, version_modules.load_hashes(tx, row))

    def modules(self, name: str, number: int | None = None) -> dict[str, str]:
        """Return the texts of a version's own modules by name. Raises :class:`NotFound`."""
        version = self._load(name, number)
        with self._database.read() as tx:
            return version_modules.load_texts(tx, [version]).get(version.id, {})

    def count(self) -> int:
        """The number of functions."""
        statement = sa.select(sa.func.count()).select_from(function).where(function.c.state != "deleted")
        with self._database.read() as tx:
            return tx.scalar(statement)

    def list(
        self, *, after: str | None = None, limit: int = 1000, payloads: bool = False
    ) -> list[dict[str, Any]]:
        """Return functions by name, each with its active (else latest) version's row; its source with ``payloads``.
        Ephemeral ones, which exist for one run, are left out.
        """
        statement = (
            versions.listed(payloads=payloads)
            .where(
                function.c.state != "deleted",
                function.c.run_id.is_(None),
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
        """Return all versions of a function, newest first, each with its ``mark`` (a row, or None), without its source.

        Raises :class:`NotFound`.
        """
        with self._database.read() as tx:
            rows = tx.rows(
                versions.listed(payloads=False)
                .where(function.c.name == name, function.c.state != "deleted")
                .order_by(function_version.c.number.desc())
            )
            if not rows:
                raise versions.missing_error(tx, name, None)
            marks = version_marks.load(tx, rows[0]["function_id"])
        return [row | {"mark": marks.get(row["number"])} for row in rows]

    def history(self, name: str) -> list[dict[str, Any]]:
        """Return the activations of a function, newest first, each with the ``mark`` of its version (a row, or None).

        The one that is current has no ``ended_at``. Raises :class:`NotFound`.
        """
        with self._database.read() as tx:
            row = self._existing(tx, name)
            marks = version_marks.load(tx, row["id"])
            return [one | {"mark": marks.get(one["version"])} for one in activation.history(tx, row["id"])]

    def activate(
        self,
        name: str,
        number: int,
        *,
        author: str = "",
        expected_version: int | None = None,
        force: bool = False,
        cause: Cause | None = None,
    ) -> dict[str, Any]:
        """Make version ``number`` the active one; also enables a disabled function.

        Raises :class:`NotFound` for a version that does not exist, :class:`Conflict` for one whose packages
        could not be installed, and, unless ``force``, for one that is marked bad or fails its import; nothing
        changes then.
        """
        activation.check_force(force, cause)
        self.build_environment(name, number, author=author, again=False)
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = self._existing(tx, name)
            activation.check_expected(row, expected_version)
            version = self._version(tx, name, number)
            activation.activate_version(tx, row, version, Change(author, cause, force=force))
        return self.get(name, number)

    def rollback(
        self,
        name: str,
        *,
        to: int | None = None,
        from_version: int | None = None,
        force: bool = False,
        keep_mark: bool = False,
        author: str = "",
        cause: Cause | None = None,
    ) -> dict[str, Any]:
        """Go back to version ``to``; without it, to the version before that was not rolled back itself
        (:mod:`functory.engine.functions.rollback`). Returns the row that is active then.

        The version that is left is marked bad, unless ``keep_mark``. When ``from_version`` is not active any more it is
        only marked. Raises :class:`Conflict` when there is no version to go back to, with the reason for each, and
        as :meth:`activate`.
        """
        activation.check_force(force, cause)
        self._build_target(name, to, from_version, author)
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = self._existing(tx, name)
            left = row["active"] if from_version is None else from_version
            replaced = left != row["active"]
            number = row["active"] if replaced else to or rollback_rules.find_target(tx, row)
            if left not in (None, number) and not keep_mark:
                reason = f"rolled back when v{number} was active" if replaced else f"rolled back to v{number}"
                version_marks.write(tx, self._version(tx, name, left), "bad", reason, author, cause)
            if not replaced:
                change = Change(author, cause, "rollback", force)
                activation.activate_version(tx, row, self._version(tx, name, number), change)
        return self.get(name)

    def mark(
        self,
        name: str,
        number: int,
        mark: version_marks.Mark,
        *,
        reason: str,
        author: str = "",
        cause: Cause | None = None,
    ) -> None:
        """Mark a version ``good`` or ``bad``; a bad one is activated only by force. Raises :class:`Conflict` for a
        bad mark on the active version, :class:`NotFound`.
        """
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = self._existing(tx, name)
            version = self._version(tx, name, number)
            if mark == "bad" and row["active"] == number:
                raise Conflict(
                    f"{name} v{number} is active",
                    "a version that is marked bad is not active",
                    f"functory function rollback {name}",
                )
            version_marks.write(tx, version, mark, reason, author, cause)

    def disable(self, name: str, *, author: str = "", cause: Cause | None = None) -> None:
        """Stop new executions of ``name``; its versions stay. Raises :class:`NotFound`."""
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = self._existing(tx, name)
            if row["state"] == "disabled":
                return
            tx.execute(
                sa.update(function)
                .where(function.c.id == row["id"])
                .values(state="disabled", updated_at=tx.now)
            )
            data = {"function": name, "version": row["active"], "author": author}
            function_events.append(tx, "function.disabled", name, data, cause)

    def enable(self, name: str, *, author: str = "", cause: Cause | None = None) -> None:
        """Let executions of a disabled function start again, with the version that was active.

        Raises :class:`NotFound`, and :class:`Conflict` for a function that has no active version.
        """
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = self._existing(tx, name)
            if row["active"] is None:
                raise Conflict(
                    f"{name} has no active version",
                    "none of its versions was activated",
                    f"functory function activate {name}@{row['latest']}",
                )
            if row["state"] == "disabled":
                version = self._version(tx, name, row["active"])
                activation.activate_version(tx, row, version, Change(author, cause))

    def delete(self, name: str, *, force: bool = False, author: str = "", cause: Cause | None = None) -> None:
        """Delete a function; its executions and versions stay readable.

        Raises :class:`Conflict` while others depend on it or triggers run it, unless ``force``.
        """
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = self._existing(tx, name)
            users = dependent_rows.dependents(tx, name)
            if users and not force:
                raise Conflict(
                    f"{name} is in use",
                    "it is needed by " + ", ".join(users),
                    f"change those first, or functory function delete {name} --force",
                )
            activation.clear(tx, row, author)
            annotations.delete_of(tx, row)
            tx.execute(
                sa.update(function)
                .where(function.c.id == row["id"])
                .values(state="deleted", updated_at=tx.now)
            )
            data = {"function": name, "version": row["active"], "author": author, "forced": bool(users)}
            function_events.append(tx, "function.deleted", name, data, cause)

    def rename(
        self,
        name: str,
        new: str,
        *,
        alias: bool = False,
        dry_run: bool = False,
        author: str = "",
        scope: Scope = None,
    ) -> RenameReport:
        """Give a function a new name: a function ``new`` has all versions, and ``name`` stays with what has happened,
        disabled (:mod:`functory.engine.functions.rename`). With ``alias`` it has a version that calls the new one.

        With ``dry_run`` nothing is written, and the report says what would be refused. ``scope`` is that of the caller:
        the report names no use outside of it. Raises :class:`NotFound`, :class:`Invalid` for a source that cannot have
        the new name, and :class:`Conflict` for a name that is taken, and while ``name`` is used.
        """
        return self._renames.rename(name, new, alias=alias, dry_run=dry_run, author=author, scope=scope)

    def build_environment(
        self, name: str, number: int | None = None, *, author: str = "", again: bool = True
    ) -> dict[str, Any]:
        """Resolve and install the packages of a stored version that has no environment. Returns the version.

        A version whose packages could not be installed is tried only with ``again``. Raises :class:`NotFound`.
        """
        version = self._load(name, number)
        if self._resolve is not None and not version.environment and (again or not version.environment_error):
            resolved = environments.resolve_packages(self._resolve, PackageNeeds.of_version(version), False)
            if resolved != NO_PACKAGES or version.environment_error:
                with self._database.write() as tx:
                    counters.bump(tx, counters.FUNCTIONS)
                    version = environments.set_environment(tx, version, resolved, author)
        with self._database.read() as tx:
            return versions.as_dict(version, version_modules.load_hashes(tx, version))

    def changes(self) -> int:
        """Return the number of changes of functions: while it is the same, no function has changed."""
        with self._database.read() as tx:
            return counters.read(tx, counters.FUNCTIONS)

    def dependents(self, name: str) -> list[str]:
        """Return the functions and triggers that use ``name``, as text."""
        with self._database.read() as tx:
            return dependent_rows.dependents(tx, name)

    def _build_target(self, name: str, to: int | None, from_version: int | None, author: str) -> None:
        """Install the packages of the version that a rollback goes to, before its transaction."""
        with self._database.read() as tx:
            row = self._existing(tx, name)
            if from_version is not None and from_version != row["active"]:
                return
            if to is None:
                to = rollback_rules.find_target(tx, row)
        self.build_environment(name, to, author=author, again=False)

    def _load(self, name: str, number: int | None) -> VersionRow:
        """Return a version; without a ``number`` the active one, or else the newest. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            row = (
                versions.load_active_or_latest(tx, name)
                if number is None
                else versions.load(tx, name, number)
            )
            if row is None:
                raise versions.missing_error(tx, name, number)
            return row

    @staticmethod
    def _version(tx: Tx, name: str, number: int | None) -> VersionRow:
        version = versions.load(tx, name, number)
        if version is None:
            raise versions.missing_error(tx, name, number)
        return version

    def _existing(self, tx: Tx, name: str) -> dict[str, Any]:
        row = tx.first(sa.select(function).where(function.c.name == name, function.c.state != "deleted"))
        if row is None:
            raise versions.missing_error(tx, name, None)
        return row
