"""Functions and their immutable versions.

Each change makes one new version; a save of the same content makes none. Version numbers are given out under the
registry's lock: they are unique and have no gaps under any concurrency. Source text is parsed here and never executed.
The caller supplies ``inspect``, which evaluates type hints in a child process, and ``resolve``, which installs
packages. A version whose packages cannot be installed is saved with the reason, and not activated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.access.path_grants import ProtectedPaths
from functory.engine.database import counters
from functory.engine.database.connection import Database
from functory.engine.database.schema import function, function_version
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict
from functory.engine.events import causation
from functory.engine.events.causation import Cause
from functory.engine.functions import dependents as dependent_rows
from functory.engine.functions import environments, function_events, privilege_escalation, versions
from functory.engine.functions.analysis import findings
from functory.engine.functions.environments import NO_PACKAGES, PackageNeeds, Resolve, Resolved
from functory.engine.functions.source import declaration, parser
from functory.engine.functions.source.declaration import Inspect
from functory.engine.settings import Settings


class Functions:
    """The registry: save, read, activate, disable, delete."""

    def __init__(
        self,
        database: Database,
        inspect: Inspect | None = None,
        settings: Settings | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        self._database = database
        self._inspect = inspect
        self._resolve = resolve
        self._protected_paths = ProtectedPaths(settings) if settings is not None else None
        self._refused = findings.check_kinds(settings.refuse_findings if settings is not None else ())

    def save(
        self,
        text: str,
        *,
        name: str | None = None,
        author: str = "",
        expected_version: int | None = None,
        activate: bool = True,
        renew: bool = False,
        cause: Cause | None = None,
        **declared: Any,
    ) -> dict[str, Any]:
        """Save a function. A field that is not in ``declared`` is empty.

        ``declared`` takes imports, dependencies, secrets (or key_dependencies), permissions, hosts, files,
        subprocess, requirements, reuse, compensate, metadata, output_patterns, limits, input_parameters,
        output_parameters, validate_output. Returns the version row with ``created`` False when nothing had
        changed. Raises :class:`Invalid`, :class:`Conflict`, and :class:`Refused` for a protected path or for more
        rights than the execution that is the ``cause`` has itself.

        When packages cannot be installed, ``environment_error`` holds the reason and the version is not activated.
        The same requirements get the same packages as before, unless ``renew``.
        """
        parsed = parser.parse(text, name)
        return self._write(parsed, declared, None, author, expected_version, activate, cause, renew)

    def update(
        self,
        name: str,
        *,
        author: str = "",
        expected_version: int | None = None,
        activate: bool = True,
        renew: bool = False,
        cause: Cause | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        """Change the fields in ``changes`` and keep the others of the active version.

        With ``renew`` and nothing else: the same function with the newest packages. Raises :class:`NotFound`
        for an unknown function, and as :meth:`save`.
        """
        text = changes.pop("source", None)
        base = self.get(name)
        parsed = parser.parse(text, name) if text is not None else None
        return self._write(parsed or name, changes, base, author, expected_version, activate, cause, renew)

    def get(self, name: str, number: int | None = None) -> dict[str, Any]:
        """A version with its function's ``name``, ``state``, ``active`` and ``latest``; the active one
        without a ``number``. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            row = versions.load(tx, name, number) or (
                versions.load_latest(tx, name) if number is None else None
            )
            if row is None or row["state"] == "deleted":
                raise versions.missing_error(tx, name, number)
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
                raise versions.missing_error(tx, name, None)
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

        Raises :class:`NotFound` for a version that does not exist, :class:`Conflict` for one whose packages
        could not be installed; nothing changes then.
        """
        self.build_environment(name, number, author=author, again=False)
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = self._existing(tx, name)
            _check_expected(row, expected_version)
            version = versions.load(tx, name, number)
            if version is None:
                raise versions.missing_error(tx, name, number)
            self._activate_version(tx, row, version, author, cause)
        return self.get(name, number)

    def rollback(self, name: str, *, author: str = "", cause: Cause | None = None) -> dict[str, Any]:
        """Activate the newest version older than the active one. Raises :class:`Conflict` when there is none."""
        row = self.get(name)
        older = [
            v["number"]
            for v in self.versions(name)
            if (row["active"] is None or v["number"] < row["active"]) and not v["environment_error"]
        ]
        if not older:
            raise Conflict(
                f"{name} has no older version",
                f"version {row['active']} is its first",
                f"functory function list, or save a new version of {name}",
            )
        return self.activate(name, older[0], author=author, expected_version=row["active"], cause=cause)

    def disable(self, name: str, *, author: str = "", cause: Cause | None = None) -> None:
        """Stop new executions of ``name``; its versions stay. Raises :class:`NotFound`."""
        self._set_state(name, "disabled", "function.disabled", author, cause)

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
            tx.execute(
                sa.update(function)
                .where(function.c.id == row["id"])
                .values(state="deleted", active=None, updated_at=tx.now)
            )
            data = {"function": name, "version": row["active"], "author": author, "forced": bool(users)}
            function_events.append(tx, "function.deleted", name, data, cause)

    def build_environment(
        self, name: str, number: int | None = None, *, author: str = "", again: bool = True
    ) -> dict[str, Any]:
        """Resolve and install the packages of a stored version that has no environment. Returns the version.

        A version whose packages could not be installed is tried only with ``again``. Raises :class:`NotFound`.
        """
        version = self.get(name, number)
        if self._resolve is None or version["environment"] or (version["environment_error"] and not again):
            return version
        resolved = self._resolve_packages(PackageNeeds.from_declaration({}, version), False)
        if resolved == NO_PACKAGES and not version["environment_error"]:
            return version
        with self._database.write() as tx:
            counters.bump(tx, counters.FUNCTIONS)
            return environments.set_environment(tx, version, resolved, author)

    def dependents(self, name: str) -> list[str]:
        """The functions and triggers that use ``name``, as text."""
        with self._database.read() as tx:
            return dependent_rows.dependents(tx, name)

    def _write(
        self,
        parsed: parser.Source | str,
        declared: Mapping[str, Any],
        known: Mapping[str, Any] | None,
        author: str,
        expected_version: int | None,
        activate: bool,
        cause: Cause | None,
        renew: bool,
    ) -> dict[str, Any]:
        """Store the next version; ``known`` is the base of a partial change."""
        declared = declaration.parse(declared)
        if self._protected_paths is not None:
            for mode, paths in declared.get("grants.files", {}).items():
                for path in paths:
                    self._protected_paths.check(mode, path)
        name = parsed if isinstance(parsed, str) else parsed.name
        partial = known is not None
        # Packages are installed and type hints inspected before the transaction, so that no lock waits for them. A
        # source that is stored already is not inspected again.
        needs = PackageNeeds.from_declaration(declared, known)
        resolved = self._resolve_packages(needs, renew)
        signature = None
        if (
            isinstance(parsed, parser.Source)
            and self._inspect is not None
            and not self._already_inspected(parsed, resolved)
        ):
            signature = self._inspect(parsed.text, parsed.name, packages=resolved.packages)
        review = findings.review(
            declaration.version_content(parsed, declared, dict(known) if known else None, None, None)
        )
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = tx.first(sa.select(function).where(function.c.name == name))
            alive = row is not None and row["state"] != "deleted"
            _check_expected(row if alive else None, expected_version)
            base = (versions.load(tx, name, None) or versions.load_latest(tx, name)) if alive else None
            if partial and base is None:
                raise versions.missing_error(tx, name, None)
            content = declaration.version_content(
                parsed, declared, base if partial else None, versions.same_source(tx, parsed), signature
            )
            if self._resolve is not None and needs != PackageNeeds.from_declaration({}, content):
                raise _changed_meanwhile("its packages changed")
            warnings = content.pop("warnings")
            content["dependencies"] = dependent_rows.resolve_dependencies(tx, name, content["dependencies"])
            unresolved = [d["name"] for d in content["dependencies"] if not d["resolved"]]
            warnings = [*warnings, *(f"the dependency {d} does not exist yet" for d in unresolved)]
            warnings += dependent_rows.compensation_problems(tx, name, content["compensate"])
            sha256 = declaration.digest(content)
            twin = base if base and (base["sha256"], base["active"]) == (sha256, base["number"]) else None
            if twin is None and alive and (needs or not activate):
                latest = versions.load_latest(tx, name)
                # A version whose packages failed to install is retried in place: its content is not new.
                if latest and latest["sha256"] == sha256 and (latest["environment_error"] or not activate):
                    twin = latest
            if (
                row is not None
                and twin is not None
                and not environments.packages_changed(twin, resolved, renew)
            ):
                if self._resolve is not None and not twin["environment"]:
                    twin = environments.set_environment(tx, twin, resolved, author)
                if activate and resolved.error is None and twin["active"] != twin["number"]:
                    twin = self._activate_version(tx, row, twin, author, cause)
                return twin | {"created": False}
            number = (row["latest"] if row else 0) + 1
            made = content | {"name": name, "number": number, "sha256": sha256}
            privilege_escalation.check(tx, cause, made, active=activate)
            review = findings.review(content, review)
            findings.check_allowed(name, review.findings, self._refused)
            activate = activate and resolved.error is None
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
                "findings": review.as_json(),
                "environment": resolved.environment,
                "environment_error": resolved.error,
                "author": author,
                "created_at": tx.now,
                "cause_execution_id": cause.execution_id if cause else None,
            }
            tx.insert(function_version, [version])
            content["environment"] = resolved.environment
            watched = (*declaration.CONTENT, "environment")
            changed = [key for key in watched if base is None or base[key] != content[key]]
            data = function_events.version_data(version | {"name": name}) | {
                "previous_version": base["number"] if base else None,
                "changed": changed,
                "author": author,
                "active": active == number,
                "warnings": warnings,
                "findings": findings.count_by_kind(version["findings"]),
                "environment_error": resolved.error,
            }
            type_ = "function.updated" if alive else "function.created"
            function_events.append(tx, type_, name, data, cause)
        return self.get(name, number) | {"created": True}

    def _resolve_packages(self, needs: PackageNeeds, renew: bool) -> Resolved:
        return self._resolve(needs, renew=renew) if self._resolve is not None and needs else NO_PACKAGES

    def _already_inspected(self, parsed: parser.Source, resolved: Resolved) -> bool:
        """True when this source was inspected before with the same packages."""
        with self._database.read() as tx:
            same = versions.same_source(tx, parsed)
        return same is not None and same["environment"] == resolved.environment

    @staticmethod
    def _activate_version(
        tx: Tx, row: Mapping[str, Any], version: dict[str, Any], author: str, cause: Cause | None
    ) -> dict[str, Any]:
        """Make ``version`` the active one of function ``row``. Returns its new row."""
        name, number = version["name"], version["number"]
        if row["active"] == number and row["state"] == "enabled":
            return version
        # The dependencies of an inactive version may have changed: check for cycles again.
        dependent_rows.resolve_dependencies(tx, name, version["dependencies"])
        privilege_escalation.check(tx, cause, version)
        environments.check_ready(version)
        tx.execute(
            sa.update(function)
            .where(function.c.id == row["id"])
            .values(active=number, state="enabled", updated_at=tx.now)
        )
        data = function_events.version_data(version) | {"previous_version": row["active"], "author": author}
        function_events.append(tx, "function.activated", name, data, cause)
        return version | {"active": number, "state": "enabled"}

    def _set_state(self, name: str, state: str, type_: str, author: str, cause: Cause | None) -> None:
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            counters.bump(tx, counters.FUNCTIONS)
            row = self._existing(tx, name)
            if row["state"] == state:
                return
            tx.execute(
                sa.update(function).where(function.c.id == row["id"]).values(state=state, updated_at=tx.now)
            )
            data = {"function": name, "version": row["active"], "author": author}
            function_events.append(tx, type_, name, data, cause)

    def _existing(self, tx: Tx, name: str) -> dict[str, Any]:
        row = tx.first(sa.select(function).where(function.c.name == name, function.c.state != "deleted"))
        if row is None:
            raise versions.missing_error(tx, name, None)
        return row


def _check_expected(row: Mapping[str, Any] | None, expected: int | None) -> None:
    if expected is None:
        return
    active = row["active"] if row else None
    if (active or 0) != expected:
        raise _changed_meanwhile(
            f"you expected version {expected}, active is {active if active is not None else 'none'}"
        )


def _changed_meanwhile(why: str) -> Conflict:
    return Conflict(
        "the function was changed meanwhile",
        why,
        "look at the newer version, then save again on top of it",
    )
