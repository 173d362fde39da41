"""The save of a function: writes the next version, or returns the stored one that has the same content.

Packages are installed, type hints inspected and the source analyzed before the transaction, so that no lock waits for
them. The transaction reads the function again, and decides with what it holds then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.access.path_grants import ProtectedPaths
from functory.engine.database import counters
from functory.engine.database.connection import Database
from functory.engine.database.schema import function, function_version
from functory.engine.database.transaction import Tx
from functory.engine.events import causation
from functory.engine.events.causation import Cause
from functory.engine.functions import (
    activation,
    declaration,
    dependents,
    environments,
    function_events,
    privilege_escalation,
    versions,
)
from functory.engine.functions.analysis import findings
from functory.engine.functions.analysis.findings import Review
from functory.engine.functions.declaration import Inspect, Signature
from functory.engine.functions.environments import PackageNeeds, Resolve, Resolved
from functory.engine.functions.source import parser
from functory.engine.settings import Settings


@dataclass(frozen=True)
class SaveRequest:
    """A request to save a function. ``source`` is only its name when the source of ``base`` stays; ``base`` is the
    version that a partial change starts from.
    """

    source: parser.Source | str
    declared: Mapping[str, Any]
    base: Mapping[str, Any] | None
    author: str
    expected_version: int | None
    activate: bool
    renew: bool
    cause: Cause | None

    @property
    def name(self) -> str:
        """The function's name."""
        return self.source if isinstance(self.source, str) else self.source.name


@dataclass(frozen=True)
class _Prepared:
    """The results that a save has before its transaction."""

    declared: dict[str, Any]
    needs: PackageNeeds
    resolved: Resolved
    signature: Signature | None
    review: Review


@dataclass(frozen=True)
class _Stored:
    """The rows that the transaction found: the function (also a deleted one), and the version that a change starts
    from.
    """

    row: Mapping[str, Any] | None
    base: dict[str, Any] | None

    @property
    def alive(self) -> bool:
        return self.row is not None and self.row["state"] != "deleted"


@dataclass(frozen=True)
class _Content:
    """The content of the next version, its hash, and warnings about it."""

    fields: dict[str, Any]
    sha256: str
    warnings: list[str]


class Saves:
    """Saves functions with the inspector, the resolver and the rules of one process."""

    def __init__(
        self, database: Database, inspect: Inspect | None, settings: Settings | None, resolve: Resolve | None
    ) -> None:
        self._database = database
        self._inspect = inspect
        self._resolve = resolve
        self._protected_paths = ProtectedPaths(settings) if settings is not None else None
        self._refused = findings.check_kinds(settings.refuse_findings if settings is not None else ())

    def save(self, request: SaveRequest) -> dict[str, Any]:
        """Store the next version and return its row; ``created`` is False for a stored one with the same content."""
        prepared = self._prepare(request)
        with self._database.write() as tx:
            stored = self._read(tx, request)
            content = self._content(tx, request, prepared, stored)
            twin = _find_twin(tx, request, prepared, stored, content)
            if (
                stored.row is not None
                and twin is not None
                and not environments.packages_changed(twin, prepared.resolved, request.renew)
            ):
                return self._reuse(tx, request, prepared.resolved, stored.row, twin) | {"created": False}
            number = self._insert(tx, request, prepared, stored, content)
        with self._database.read() as tx:
            made = versions.load(tx, request.name, number)
            if made is None:
                raise versions.missing_error(tx, request.name, number)
        return made | {"created": True}

    def _prepare(self, request: SaveRequest) -> _Prepared:
        """Do everything that takes long or needs no lock."""
        declared = declaration.parse(request.declared)
        if self._protected_paths is not None:
            for mode, paths in declared.get("grants.files", {}).items():
                for path in paths:
                    self._protected_paths.check(mode, path)
        needs = PackageNeeds.from_declaration(declared, request.base)
        resolved = environments.resolve_packages(self._resolve, needs, request.renew)
        base = dict(request.base) if request.base else None
        return _Prepared(
            declared,
            needs,
            resolved,
            self._signature(request.source, resolved),
            findings.review(declaration.version_content(request.source, declared, base, None, None)),
        )

    def _signature(self, source: parser.Source | str, resolved: Resolved) -> Signature | None:
        """Return the inspected signature; None for a source that is stored already with the same packages."""
        if isinstance(source, str) or self._inspect is None:
            return None
        with self._database.read() as tx:
            same = versions.same_source(tx, source)
        if same is not None and same["environment"] == resolved.environment:
            return None
        return self._inspect(source.text, source.name, packages=resolved.packages)

    @staticmethod
    def _read(tx: Tx, request: SaveRequest) -> _Stored:
        """Lock the registry and read the function. Raises :class:`Conflict`, :class:`NotFound`."""
        causation.check_fence(tx, request.cause)
        counters.bump(tx, counters.FUNCTIONS)
        row = tx.first(sa.select(function).where(function.c.name == request.name))
        alive = row is not None and row["state"] != "deleted"
        activation.check_expected(row if alive else None, request.expected_version)
        name = request.name
        base = (versions.load(tx, name, None) or versions.load_latest(tx, name)) if alive else None
        if request.base is not None and base is None:
            raise versions.missing_error(tx, name, None)
        return _Stored(row, base)

    def _content(self, tx: Tx, request: SaveRequest, prepared: _Prepared, stored: _Stored) -> _Content:
        """Return the content as of this transaction. Raises :class:`Conflict` when its packages have changed
        meanwhile.
        """
        content = declaration.version_content(
            request.source,
            prepared.declared,
            stored.base if request.base is not None else None,
            versions.same_source(tx, request.source),
            prepared.signature,
        )
        if self._resolve is not None and prepared.needs != PackageNeeds.from_declaration({}, content):
            raise activation.changed_meanwhile("its packages changed")
        warnings = content.pop("warnings")
        content["dependencies"] = dependents.resolve_dependencies(tx, request.name, content["dependencies"])
        unresolved = [d["name"] for d in content["dependencies"] if not d["resolved"]]
        warnings = [*warnings, *(f"the dependency {d} does not exist yet" for d in unresolved)]
        warnings += dependents.compensation_problems(tx, request.name, content["compensate"])
        return _Content(content, declaration.digest(content), warnings)

    def _reuse(
        self,
        tx: Tx,
        request: SaveRequest,
        resolved: Resolved,
        row: Mapping[str, Any],
        twin: dict[str, Any],
    ) -> dict[str, Any]:
        """Complete a stored version: its environment, and its activation. Returns its row."""
        if self._resolve is not None and not twin["environment"]:
            twin = environments.set_environment(tx, twin, resolved, request.author)
        if request.activate and resolved.error is None and twin["active"] != twin["number"]:
            twin = activation.activate_version(tx, row, twin, request.author, request.cause)
        return twin

    def _insert(
        self, tx: Tx, request: SaveRequest, prepared: _Prepared, stored: _Stored, content: _Content
    ) -> int:
        """Write the next version and its event. Returns its number. Raises :class:`Refused`, :class:`Invalid`."""
        row, resolved, name = stored.row, prepared.resolved, request.name
        number = (row["latest"] if row else 0) + 1
        made = content.fields | {"name": name, "number": number, "sha256": content.sha256}
        privilege_escalation.check(tx, request.cause, made, active=request.activate)
        review = findings.review(content.fields, prepared.review)
        findings.check_allowed(name, review.findings, self._refused)
        activate = request.activate and resolved.error is None
        function_id = _write_function(tx, name, stored, number, activate)
        version = content.fields | {
            "id": tx.new_id(),
            "function_id": function_id,
            "number": number,
            "sha256": content.sha256,
            "warnings": content.warnings,
            "findings": review.as_json(),
            "environment": resolved.environment,
            "environment_error": resolved.error,
            "author": request.author,
            "created_at": tx.now,
            "cause_execution_id": request.cause.execution_id if request.cause else None,
        }
        tx.insert(function_version, [version])
        watched = (*declaration.CONTENT, "environment")
        base = stored.base
        changed = [key for key in watched if base is None or base[key] != version[key]]
        data = function_events.version_data(version | {"name": name}) | {
            "previous_version": base["number"] if base else None,
            "changed": changed,
            "author": request.author,
            "active": activate,
            "warnings": content.warnings,
            "findings": findings.count_by_kind(version["findings"]),
            "environment_error": resolved.error,
        }
        type_ = "function.updated" if stored.alive else "function.created"
        function_events.append(tx, type_, name, data, request.cause)
        return number


def _find_twin(
    tx: Tx, request: SaveRequest, prepared: _Prepared, stored: _Stored, content: _Content
) -> dict[str, Any] | None:
    """Return the stored version with this content, if the save makes no new one."""
    base = stored.base
    if base and (base["sha256"], base["active"]) == (content.sha256, base["number"]):
        return base
    if stored.alive and (prepared.needs or not request.activate):
        latest = versions.load_latest(tx, request.name)
        # A version whose packages failed to install is retried in place: its content is not new.
        if (
            latest
            and latest["sha256"] == content.sha256
            and (latest["environment_error"] or not request.activate)
        ):
            return latest
    return None


def _write_function(tx: Tx, name: str, stored: _Stored, number: int, activate: bool) -> str:
    """Insert or update the function's row for its version ``number``. Returns its id."""
    row = stored.row
    values = {
        "state": "enabled" if activate or row is None or not stored.alive else row["state"],
        "active": number if activate else row["active"] if row else None,
        "latest": number,
        "updated_at": tx.now,
    }
    if row is None:
        function_id = tx.new_id()
        tx.insert(function, [{"id": function_id, "name": name, "created_at": tx.now, **values}])
        return function_id
    tx.execute(sa.update(function).where(function.c.id == row["id"]).values(**values))
    return row["id"]
