"""The save of a function: writes the next version, or returns the stored one that has the same content.

Packages are installed, type hints inspected and the source analyzed before the transaction, so that no lock waits for
them. The transaction reads the function again, and decides with what it holds then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from msgspec.structs import asdict, replace

from functory.engine.access import scopes
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
    version_modules,
    versions,
)
from functory.engine.functions.activation import Change
from functory.engine.functions.analysis import findings, inspection
from functory.engine.functions.analysis.findings import Finding, Review
from functory.engine.functions.declaration import Inspect, Signature
from functory.engine.functions.environments import PackageNeeds, Resolve, Resolved
from functory.engine.functions.privilege_escalation import VersionRights
from functory.engine.functions.source import modules, parser
from functory.engine.functions.version_row import VersionRow
from functory.engine.settings import Settings

Propose = Callable[[Tx, int, bool], None]
"""Called in the transaction of a save with the version's number, and True for a version that is new."""


@dataclass(frozen=True)
class SaveRequest:
    """A request to save a function. ``source`` is only its name when the source of ``base`` stays; ``base`` is the
    version that a partial change starts from.
    """

    source: parser.Source | str
    declared: Mapping[str, Any]
    base: VersionRow | None
    author: str
    expected_version: int | None
    activate: bool
    force: bool
    renew: bool
    cause: Cause | None
    # Of a function that is new.
    labels: Sequence[str] = ()
    # Of a proposal. The gate decides about its rights: it may ask for more than the execution that proposes it has.
    propose: Propose | None = None

    @property
    def name(self) -> str:
        """The function's name."""
        return self.source if isinstance(self.source, str) else self.source.name

    @property
    def text(self) -> str:
        """The source text of the next version."""
        if isinstance(self.source, str):
            return self.base.source if self.base else ""
        return self.source.text


@dataclass(frozen=True)
class _Prepared:
    """The results that a save has before its transaction; ``modules`` are texts by name."""

    declared: dict[str, Any]
    needs: PackageNeeds
    resolved: Resolved
    modules: dict[str, str]
    signature: Signature | None
    packages_known: bool
    review: Review


@dataclass(frozen=True)
class _Stored:
    """The rows that the transaction found: the function (also a deleted one), and the version that a change starts
    from.
    """

    row: Mapping[str, Any] | None
    base: VersionRow | None

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
                twin = _store_warnings(tx, twin, content)
                reused, inactive_reason = self._reuse(tx, request, prepared, stored.row, twin)
                if request.propose is not None:
                    request.propose(tx, reused.number, False)
                row = versions.as_dict(reused, prepared.declared["modules"])
                return row | {"inactive_reason": inactive_reason, "created": False}
            number, inactive_reason = self._insert(tx, request, prepared, stored, content)
            if request.propose is not None:
                request.propose(tx, number, True)
        with self._database.read() as tx:
            made = versions.load(tx, request.name, number)
            if made is None:
                raise versions.missing_error(tx, request.name, number)
        row = versions.as_dict(made, prepared.declared["modules"])
        return row | {"created": True, "inactive_reason": inactive_reason}

    def check(self, request: SaveRequest) -> dict[str, Any]:
        """Return the version that :meth:`save` would make, as a row that is not stored, with ``changed`` (the fields
        that differ from the version before), and ``inactive_reason``: why it would not be activated.

        New packages are not installed, so ``packages_known`` is False then, and a failing import says nothing. Raises
        as :meth:`save`.
        """
        prepared = self._prepare(request, install=False)
        with self._database.read() as tx:
            stored = self._load(tx, request)
            content = self._content(tx, request, prepared, stored)
            base = _content_of(tx, stored.base)
        inspected = _inspected(prepared, content.fields)
        review = findings.review(content.fields, prepared.review, modules=prepared.modules)
        found = [*inspected, *review.findings]
        findings.check_allowed(request.name, found, self._refused)
        same = base is not None and base["sha256"] == content.sha256
        changed = [key for key in declaration.CONTENT if base is None or base[key] != content.fields[key]]
        return content.fields | {
            "name": request.name,
            "number": base["number"] if base and same else (stored.row["latest"] if stored.row else 0) + 1,
            "sha256": content.sha256,
            "changed": [] if same else changed,
            "warnings": content.warnings,
            "findings": [finding.as_json() for finding in found],
            "packages_known": prepared.packages_known,
            "inactive_reason": inspected[0].message.split("\n")[0] if inspected else None,
        }

    def _prepare(self, request: SaveRequest, *, install: bool = True) -> _Prepared:
        """Do everything that takes long or needs no lock. New packages are installed only with ``install``."""
        declared = declaration.parse(request.declared)
        if self._protected_paths is not None:
            for mode, paths in declared.get("grants.files", {}).items():
                for path in paths:
                    self._protected_paths.check(mode, path)
        needs = PackageNeeds.from_declaration(declared, request.base)
        known = install or (request.base is not None and needs == PackageNeeds.of_version(request.base))
        resolve = self._resolve if known else None
        resolved = environments.resolve_packages(resolve, needs, request.renew)
        texts = self._modules(request, declared)
        declared["modules"] = version_modules.hashes(texts)
        base = asdict(request.base) | {"modules": {}} if request.base else None
        content = declaration.version_content(request.source, declared, base, None, None)
        return _Prepared(
            declared,
            needs,
            resolved,
            texts,
            self._signature(request, resolved, texts),
            not needs or (resolve is not None and resolved.error is None),
            findings.review(content, modules=texts),
        )

    def _modules(self, request: SaveRequest, declared: Mapping[str, Any]) -> dict[str, str]:
        """Return the modules that the source reaches, of those that are declared or that the base has."""
        given: Mapping[str, str] = declared.get("modules", {})
        if "modules" not in declared and request.base is not None:
            with self._database.read() as tx:
                given = version_modules.load_texts(tx, [request.base]).get(request.base.id, {})
        return modules.reachable(request.text, given.get) if given else {}

    def _signature(
        self, request: SaveRequest, resolved: Resolved, texts: Mapping[str, str]
    ) -> Signature | None:
        """Return the inspected signature; None for a source that is stored already with the same packages and modules,
        and whose execution did not fail then.
        """
        if self._inspect is None:
            return None
        with self._database.read() as tx:
            same = (
                request.base if isinstance(request.source, str) else versions.same_source(tx, request.source)
            )
            known = version_modules.load_hashes(tx, same) if same is not None else {}
        unchanged = same is not None and (
            isinstance(request.source, str) or same.environment == resolved.environment
        )
        if (
            same is not None
            and unchanged
            and known == version_modules.hashes(texts)
            and not inspection.is_reported(same.warnings)
        ):
            return None
        return self._inspect(request.text, request.name, packages=resolved.packages, modules=texts)

    @staticmethod
    def _read(tx: Tx, request: SaveRequest) -> _Stored:
        """Lock the registry and read the function. Raises :class:`Conflict`, :class:`NotFound`."""
        causation.check_fence(tx, request.cause)
        counters.bump(tx, counters.FUNCTIONS)
        return Saves._load(tx, request)

    @staticmethod
    def _load(tx: Tx, request: SaveRequest) -> _Stored:
        """Read the function. Raises :class:`Conflict`, :class:`NotFound`."""
        row = tx.first(sa.select(function).where(function.c.name == request.name))
        alive = row is not None and row["state"] != "deleted"
        activation.check_expected(row if alive else None, request.expected_version)
        name = request.name
        base = versions.load_active_or_latest(tx, name) if alive else None
        if request.base is not None and base is None:
            raise versions.missing_error(tx, name, None)
        return _Stored(row, base)

    def _content(self, tx: Tx, request: SaveRequest, prepared: _Prepared, stored: _Stored) -> _Content:
        """Return the content as of this transaction. Raises :class:`Conflict` when its packages have changed
        meanwhile.
        """
        base = _content_of(tx, stored.base) if request.base is not None else None
        if request.base is not None and base is not None:
            kept = "modules" not in request.declared
            if kept and base["modules"] != version_modules.load_hashes(tx, request.base):
                raise activation.changed_meanwhile("its modules changed")
        content = declaration.version_content(
            request.source,
            prepared.declared,
            base,
            versions.same_source(tx, request.source),
            prepared.signature,
        )
        if self._resolve is not None and prepared.needs != PackageNeeds.of_content(content):
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
        prepared: _Prepared,
        row: Mapping[str, Any],
        twin: VersionRow,
    ) -> tuple[VersionRow, str | None]:
        """Complete a stored version: its environment, what is known of its import, and its activation. Returns it, and
        why it could not be activated.
        """
        resolved = prepared.resolved
        if self._resolve is not None and not twin.environment:
            twin = environments.set_environment(tx, twin, resolved, request.author)
        twin = _store_inspection(tx, twin, prepared)
        if not request.activate or twin.active == twin.number:
            return twin, None
        problem = activation.version_problem(tx, twin)
        if resolved.error is not None or (problem is not None and not request.force):
            return twin, resolved.error or (problem and problem.reason)
        change = Change(request.author, request.cause, "save", request.force)
        return activation.activate_version(tx, row, twin, change), None

    def _insert(
        self, tx: Tx, request: SaveRequest, prepared: _Prepared, stored: _Stored, content: _Content
    ) -> tuple[int, str | None]:
        """Write the next version and its event. Returns its number, and why it could not be activated.

        Raises :class:`Refused`, :class:`Invalid`.
        """
        row, resolved, name = stored.row, prepared.resolved, request.name
        number = (row["latest"] if row else 0) + 1
        if request.propose is None:
            rights = [content.fields[key] for key in ("secrets", "permissions", "grants")]
            privilege_escalation.check(
                tx,
                request.cause,
                VersionRights(name, number, content.sha256, *rights),
                content.fields["dependencies"],
                active=request.activate,
            )
        inspected = _inspected(prepared, content.fields)
        review = findings.review(content.fields, prepared.review, modules=prepared.modules)
        found = [*inspected, *review.findings]
        findings.check_allowed(name, found, self._refused)
        refused = None
        if inspected and not request.force:
            text = inspected[0].message.split("\n")[0]
            refused = activation.inspection_error(name, number, inspected[0].kind, text).reason
        inactive_reason = (resolved.error or refused) if request.activate else None
        activate = request.activate and inactive_reason is None
        function_id = _write_function(tx, name, stored, number, request.labels)
        fields = {key: value for key, value in content.fields.items() if key != "modules"}
        version = fields | {
            "id": tx.new_id(),
            "function_id": function_id,
            "number": number,
            "sha256": content.sha256,
            "warnings": content.warnings,
            "findings": [finding.as_json() for finding in found],
            "environment": resolved.environment,
            "environment_error": resolved.error,
            "author": request.author,
            "created_at": tx.now,
            "cause_execution_id": request.cause.execution_id if request.cause else None,
        }
        tx.insert(function_version, [version])
        version_modules.store(tx, version["id"], prepared.modules)
        if activate:
            changed_row = {"id": function_id, "name": name, "active": row["active"] if row else None}
            change = Change(request.author, request.cause, "save", request.force)
            activation.switch(tx, changed_row, number, change, "force" if inspected else "save")
        watched = (*declaration.CONTENT, "environment")
        base = _content_of(tx, stored.base)
        version |= {"modules": content.fields["modules"]}
        changed = [key for key in watched if base is None or base[key] != version[key]]
        data = function_events.version_data(version | {"name": name}) | {
            "previous_version": base["number"] if base else None,
            "changed": changed,
            "author": request.author,
            "active": activate,
            "warnings": content.warnings,
            "findings": findings.count_by_kind(version["findings"]),
            "environment_error": resolved.error,
            "inactive_reason": inactive_reason,
        }
        type_ = "function.updated" if stored.alive else "function.created"
        function_events.append(tx, type_, name, data, request.cause)
        return number, inactive_reason


def _content_of(tx: Tx, version: VersionRow | None) -> dict[str, Any] | None:
    """Return the content of a stored version, with the hashes of its modules by name, to make the next one of it."""
    return (
        None if version is None else asdict(version) | {"modules": version_modules.load_hashes(tx, version)}
    )


def _find_twin(
    tx: Tx, request: SaveRequest, prepared: _Prepared, stored: _Stored, content: _Content
) -> VersionRow | None:
    """Return the stored version with this content, if the save makes no new one."""
    base = stored.base
    if base and (base.sha256, base.active) == (content.sha256, base.number):
        return base
    if stored.row is None or not stored.alive:
        return None
    newest = versions.newest_of_content(tx, stored.row["id"], content.sha256)
    if newest is None:
        return None
    # What failed to install or to be imported is tried again in place, and what is marked bad stays so: the content is
    # not new.
    if activation.version_problem(tx, newest) is not None:
        return newest
    latest = newest.number == newest.latest
    retried = newest.environment_error or not request.activate
    return newest if latest and retried and (prepared.needs or not request.activate) else None


def _inspected(prepared: _Prepared, content: Mapping[str, Any]) -> list[Finding]:
    """Return the findings of the inspection about this content."""
    return inspection.findings(prepared.signature, content, prepared.packages_known)


def _store_inspection(tx: Tx, version: VersionRow, prepared: _Prepared) -> VersionRow:
    """Remove the findings of an inspection from a stored version of which there is none any more."""
    if prepared.signature is None or inspection.find(version.findings) is None:
        return version
    if _inspected(prepared, asdict(version)):
        return version
    kept = [finding for finding in version.findings if finding["kind"] not in inspection.PROBLEMS]
    tx.execute(sa.update(function_version).where(function_version.c.id == version.id).values(findings=kept))
    return replace(version, findings=kept)


def _store_warnings(tx: Tx, version: VersionRow, content: _Content) -> VersionRow:
    """Replace the warnings of a stored version by those of now: what it refers to may exist meanwhile."""
    if version.warnings == content.warnings:
        return version
    tx.execute(
        sa.update(function_version)
        .where(function_version.c.id == version.id)
        .values(warnings=content.warnings)
    )
    return replace(version, warnings=content.warnings)


def _write_function(tx: Tx, name: str, stored: _Stored, number: int, labels: Sequence[str]) -> str:
    """Insert or update the function's row for its version ``number``. Returns its id."""
    row = stored.row
    values = {
        "state": "enabled" if row is None or not stored.alive else row["state"],
        "latest": number,
        "updated_at": tx.now,
    }
    if row is None:
        function_id = tx.new_id()
        new = {"id": function_id, "name": name, "created_at": tx.now, "labels": scopes.check_labels(labels)}
        tx.insert(function, [new | values])
        return function_id
    if not stored.alive:
        # A name that is used again belongs to no run.
        values |= {"labels": scopes.check_labels(labels), "run_id": None}
    tx.execute(sa.update(function).where(function.c.id == row["id"]).values(**values))
    return row["id"]
