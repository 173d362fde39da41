"""Grant approvals: what operators granted beyond the author's declaration, to one content of one function.

A version with another content has another hash, and none of the approvals. Each change is one transaction with an
audit row and an event, and increments a counter. A worker that finds the counter changed at a claim reads the
approvals again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.access import grants
from functory.engine.access.grants import NOTHING, Grants
from functory.engine.access.path_grants import ProtectedPaths
from functory.engine.database import audit, counters
from functory.engine.database.connection import Database
from functory.engine.database.schema import audit as audit_table
from functory.engine.database.schema import counter, function, function_version, grant_approval
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, Invalid, NotFound
from functory.engine.functions import function_events, versions
from functory.engine.functions.version_row import VersionRow
from functory.engine.settings import Settings

MAX_APPROVALS = 200
MAX_REASON = 2000
MAX_REFUSALS = 5000
_REFUSED = "grant.refuse"

VersionKey = tuple[str, str]
"""A function's name, and the hash of a version's content."""

# A claim selects it too. It rises whenever a grant approval is added or removed, and is NULL before the first one.
CHANGE_COUNTER = (
    sa.select(counter.c.value)
    .where(counter.c.name == counters.GRANTS)
    .scalar_subquery()
    .label("grants_changed")
)


class GrantApprovals:
    """Allow, revoke and list grants; ``author`` is the operator in the audit."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._kinds = grants.author_grant_kinds(settings)
        self._protected_paths = ProtectedPaths(settings)

    def allow(
        self, name: str, number: int | None, kind: str, value: str = "", *, reason: str, author: str = ""
    ) -> dict[str, Any]:
        """Grant ``value`` to the content of one version (the active one without a ``number``).

        Returns the entry, with ``created`` False when it was granted already. Raises :class:`NotFound`,
        :class:`Invalid` for a wrong kind, value or reason, and :class:`Refused` for a protected path.
        """
        value = self._checked(kind, value)
        reason = _text(reason, "reason", MAX_REASON)
        with self._database.write() as tx:
            counters.bump(tx, counters.GRANTS)
            version = _version(tx, name, number)
            key = {"function": name, "sha256": version.sha256, "kind": kind, "value": value}
            count = sa.select(sa.func.count()).select_from(grant_approval).where(*_of(version))
            if int(tx.scalar(count)) >= MAX_APPROVALS:
                raise Invalid(
                    f"{name} v{version.number} has {MAX_APPROVALS} grants already",
                    "no version takes more",
                    f"functory grant list {name}",
                )
            row = key | {"id": tx.new_id(), "author": author, "reason": reason, "created_at": tx.now}
            created = tx.insert_missing(grant_approval, [row]) == 1
            if created:
                _record_change(tx, "allow", version, kind, value, author, reason)
        return key | {"version": version.number, "created": created}

    def revoke(
        self, name: str, number: int | None, kind: str, value: str = "", *, reason: str = "", author: str = ""
    ) -> dict[str, Any]:
        """Remove an approval; running executions keep the grants that they started with.

        Returns the entry, with ``removed`` False when there was no approval, and ``declared`` True when the grant stays
        in effect by the author's declaration. Raises as :meth:`allow`, and :class:`Conflict` for a grant that only the
        declaration gives.
        """
        value = _stored_value(kind, value)
        reason = _text(reason, "reason", MAX_REASON) if reason else ""
        with self._database.write() as tx:
            counters.bump(tx, counters.GRANTS)
            version = _version(tx, name, number)
            removed = tx.execute(
                sa.delete(grant_approval).where(
                    *_of(version), grant_approval.c.kind == kind, grant_approval.c.value == value
                )
            ).rowcount
            declared = (kind, value) in version.declared_grants.only(self._kinds).items()
            if removed:
                _record_change(tx, "revoke", version, kind, value, author, reason)
            elif declared:
                raise Conflict(
                    f"{name} v{version.number} has {f'{kind} {value}'.rstrip()} by its author's declaration",
                    f"grants of the kind {kind} take effect as they are declared",
                    "save a version that does not declare it, or leave the kind out of FUNCTORY_AUTHOR_GRANTS",
                )
        key = {"function": name, "sha256": version.sha256, "kind": kind, "value": value}
        return key | {"version": version.number, "removed": bool(removed), "declared": declared}

    def refuse(
        self, name: str, number: int | None, kind: str, value: str = "", *, reason: str, author: str = ""
    ) -> None:
        """Record that a grant that waits was refused: it is no longer among those to decide about. It can be allowed
        later. Raises :class:`NotFound`, :class:`Invalid`, :class:`Conflict` for a grant that does not wait.
        """
        value = _stored_value(kind, value)
        reason = _text(reason, "reason", MAX_REASON)
        with self._database.write() as tx:
            counters.bump(tx, counters.GRANTS)
            version = _version(tx, name, number)
            widened = load(tx, [(name, version.sha256)])[name, version.sha256]
            waiting = grants.pending(version.declared_grants, self._kinds, widened)
            if (kind, value) not in waiting.items():
                raise Conflict(
                    f"{name} v{version.number} does not wait for {f'{kind} {value}'.rstrip()}",
                    "only a grant that waits can be refused",
                    f"functory grant list {name}",
                )
            _record_refusal(tx, version, kind, value, author, reason)

    def refused(self) -> set[tuple[str, str, str, str]]:
        """Return the refused grants: function, hash of its content, kind and value. Of the newest refusals only."""
        with self._database.read() as tx:
            rows = tx.rows(
                sa.select(audit_table.c.subject, audit_table.c.data)
                .where(audit_table.c.action == _REFUSED)
                .order_by(audit_table.c.id.desc())
                .limit(MAX_REFUSALS)
            )
        return {(row["subject"], *(row["data"][key] for key in ("sha256", "kind", "value"))) for row in rows}

    def effective_and_pending(self, version: Mapping[str, Any]) -> tuple[Grants, Grants]:
        """Return the grants of a version that are in effect, and those that wait for an operator."""
        with self._database.read() as tx:
            widened = load(tx, [(version["name"], version["sha256"])])[version["name"], version["sha256"]]
        declared = _declared_by(version)
        return (
            grants.effective(declared, self._kinds, widened),
            grants.pending(declared, self._kinds, widened),
        )

    def pending(self, versions_: Sequence[Mapping[str, Any]]) -> dict[VersionKey, Grants]:
        """Return the grants of these versions that wait for an operator, with one statement."""
        keys = [(row["name"], row["sha256"]) for row in versions_]
        with self._database.read() as tx:
            widened = load(tx, keys) if keys else {}
        return {
            key: grants.pending(_declared_by(row), self._kinds, widened[key])
            for key, row in zip(keys, versions_, strict=True)
        }

    def list(self, name: str | None = None, number: int | None = None) -> list[dict[str, Any]]:
        """Every grant of one version, of one function, or of all functions without a ``name``: the declarations of the
        active version, and the approvals of all versions.

        ``status`` is ``author`` (in effect as declared), ``operator`` (in effect by an approval, with ``author``,
        ``reason`` and ``created_at`` of that) or ``pending``. Raises :class:`NotFound`.
        """
        with self._database.read() as tx:
            rows = versions.load_shown(tx) if name is None else [_version(tx, name, number)]
            allowed = _allowed(tx, rows[0] if number is not None else None, name)
        found: list[dict[str, Any]] = []
        for row in rows:
            own = [
                entry for entry in allowed if (entry["function"], entry["sha256"]) == (row.name, row.sha256)
            ]
            stored = {(entry["kind"], entry["value"]) for entry in own}
            waiting = set(grants.pending(row.declared_grants, self._kinds, Grants.from_items(stored)).items())
            for kind, value in row.declared_grants.items():
                if (kind, value) not in stored:
                    found.append(
                        {
                            "function": row.name,
                            "version": row.number,
                            "sha256": row.sha256,
                            "kind": kind,
                            "value": value,
                            "status": "pending" if (kind, value) in waiting else "author",
                            "author": row.author,
                            "reason": None,
                            "created_at": row.created_at,
                        }
                    )
        found += [entry | {"status": "operator"} for entry in allowed]
        return sorted(found, key=lambda e: (e["function"], -(e["version"] or 0), e["kind"], e["value"]))

    def _checked(self, kind: str, value: str) -> str:
        checked = grants.normalize_value(kind, value)
        if kind in ("read", "write"):
            self._protected_paths.check(kind, checked)
        return checked


class GrantApprovalCache:
    """The approvals of the versions that a worker has claimed, read again when the counter has changed."""

    def __init__(self, max_size: int = 2000) -> None:
        self._max_size = max_size
        # Replaced as a whole: threads that claim at the same time must not mix a counter with rows of another read.
        self._kept: tuple[int | None, dict[VersionKey, Grants]] = (None, {})

    def get(self, tx: Tx, change_count: int | None, keys: Iterable[VersionKey]) -> dict[VersionKey, Grants]:
        """Return the approvals of ``keys``. ``change_count`` is the counter (:data:`CHANGE_COUNTER`) that ``tx`` has
        read.

        Runs at most one statement; none without any approval or when all keys are cached.
        """
        wanted = set(keys)
        if change_count is None:
            return dict.fromkeys(wanted, NOTHING)
        kept, known = self._kept
        if change_count != kept or len(known) > self._max_size:
            known = {}
        unknown = [key for key in wanted if key not in known]
        if unknown:
            known = known | load(tx, unknown)
            self._kept = (change_count, known)
        return {key: known[key] for key in wanted}


def load(tx: Tx, keys: Iterable[VersionKey]) -> dict[VersionKey, Grants]:
    """Return the approvals of these (function, hash)."""
    found: dict[VersionKey, list[tuple[str, str]]] = {key: [] for key in keys}
    names = sorted({name for name, _ in found})
    for row in tx.rows(sa.select(grant_approval).where(grant_approval.c.function.in_(names))):
        key = (row["function"], row["sha256"])
        if key in found:
            found[key].append((row["kind"], row["value"]))
    return {key: Grants.from_items(items) for key, items in found.items()}


def _allowed(tx: Tx, version: VersionRow | None, name: str | None) -> list[dict[str, Any]]:
    """Return the approvals, each with the newest version of its content (None when no version has it)."""
    newest = (
        sa.select(sa.func.max(function_version.c.number))
        .join(function, function.c.id == function_version.c.function_id)
        .where(
            function.c.name == grant_approval.c.function, function_version.c.sha256 == grant_approval.c.sha256
        )
        .scalar_subquery()
    )
    statement = sa.select(grant_approval, newest.label("version"))
    if version is not None:
        statement = statement.where(*_of(version))
    elif name is not None:
        statement = statement.where(grant_approval.c.function == name)
    return [
        {key: value for key, value in row.items() if key != "id"}
        for row in tx.rows(statement.order_by(grant_approval.c.id))
    ]


def _of(version: VersionRow) -> Sequence[Any]:
    return grant_approval.c.function == version.name, grant_approval.c.sha256 == version.sha256


def _declared_by(version: Mapping[str, Any]) -> Grants:
    """Return the grants that a version declares whose row was given out
    (:attr:`functory.engine.functions.version_row.Version.declared_grants`).
    """
    own = version["declared"].get("imports") and version.get("cause_execution_id") is None
    return Grants.declared(
        version["grants"], version["secrets"], version["permissions"], version["imports"] if own else ()
    )


def _version(tx: Tx, name: str, number: int | None) -> VersionRow:
    row = versions.load_active_or_latest(tx, name) if number is None else versions.load(tx, name, number)
    if row is None:
        missing = name if number is None else f"{name}@{number}"
        raise NotFound(f"function {missing!r} not found", try_=f"functory function versions {name}")
    return row


def _record_change(
    tx: Tx, action: str, version: VersionRow, kind: str, value: str, author: str, reason: str
) -> None:
    data = {
        "version": version.number,
        "sha256": version.sha256,
        "kind": kind,
        "value": value,
        "reason": reason,
    }
    name = version.name
    audit.append(tx, author, f"grant.{action}", name, data)
    type_ = "function.granted" if action == "allow" else "function.revoked"
    function_events.append_event(tx, type_, name, {"function": name, "author": author} | data, None)


def _record_refusal(tx: Tx, version: VersionRow, kind: str, value: str, author: str, reason: str) -> None:
    data = {
        "version": version.number,
        "sha256": version.sha256,
        "kind": kind,
        "value": value,
        "reason": reason,
    }
    audit.append(tx, author, _REFUSED, version.name, data)


def _stored_value(kind: str, value: str) -> str:
    """Return the stored form of a value, also of a path that can no longer be granted."""
    try:
        return grants.normalize_value(kind, value)
    except Invalid:
        if kind in ("read", "write") and isinstance(value, str):
            return value
        raise


def _text(text: str, what: str, most: int) -> str:
    if not isinstance(text, str) or not text.strip():
        raise Invalid(f"the grant has no {what}", "it is kept in the audit", f'--{what} "why it is needed"')
    if len(text) > most:
        raise Invalid(f"the {what} is too long", f"at most {most:,} characters are stored")
    return text.strip()
