"""Stored sources of events, of every kind: their configuration and their leases.

Plug-ins of :mod:`functory.triggers.sources` interpret the configuration of a kind; this module keeps names, versions,
states and leases. One process at a time runs a source. It claims the source, renews its lease, and writes only under
the fence of its claim, so that a holder that lost its lease ingests nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import sqlalchemy as sa

from functory.engine.database import audit, counters
from functory.engine.database.connection import Database
from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.schema import source
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid, NotFound, Stale, VersionChanged
from functory.engine.events import receipts
from functory.engine.events import store as event_store
from functory.engine.events.event_types import SOURCE_REJECTED
from functory.engine.events.receipts import IncomingEvent
from functory.engine.names import NAME
from functory.engine.serialization import json_codec
from functory.engine.sources import refusals
from functory.engine.telemetry import metrics

# A callback of a kind in the transaction that saves, pauses, resumes or deletes one of its sources.
Hook = Callable[[Tx, Mapping[str, Any]], None]

KEEP_CURSOR: Any = object()

T = TypeVar("T")


@dataclass(frozen=True)
class ClaimedSource:
    """A source that this process runs: its row, and the fence under which it may write."""

    row: Mapping[str, Any]
    fence: int

    @property
    def id(self) -> str:
        return self.row["id"]


class Sources:
    """The registry of sources, and their leases."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(
        self,
        kind: str,
        name: str,
        config: Mapping[str, Any],
        *,
        keep: Collection[str] = (),
        author: str = "",
        expected_version: int | None = None,
        hook: Hook | None = None,
    ) -> dict[str, Any]:
        """Save a checked configuration under ``name``. An equal one changes nothing. Returns the row and ``created``.
        The fields ``keep`` of the stored configuration stay.

        Raises :class:`Invalid` for a wrong name, :class:`Conflict` when ``expected_version`` is not the current one.
        """
        if not isinstance(name, str) or not NAME.fullmatch(name.replace("-", "_").replace(".", "_")):
            raise Invalid(
                f"{name!r} is not a name for a source (kind {kind})",
                "letters, digits, _ - and . only; it begins with a letter",
            )
        config = json_codec.loads(json_codec.encode(dict(config)))
        with self._database.write() as tx:
            changed = counters.bump(tx, counters.SOURCES)
            row = tx.first(sa.select(source).where(source.c.kind == kind, source.c.name == name))
            alive = row is not None and row["state"] != "deleted"
            current = row["version"] if row is not None and alive else 0
            if expected_version is not None and current != expected_version:
                raise VersionChanged(
                    f"the {kind} {name} was changed meanwhile",
                    f"you expected version {expected_version}, it is {current or 'gone'}",
                    base=expected_version,
                    current=current,
                )
            if row is not None and alive:
                config = {
                    **config,
                    **{field: row["config"][field] for field in keep if field in row["config"]},
                }
            if row is not None and alive and row["config"] == config:
                return row | {"created": False}
            values = {
                "version": (row["version"] if row else 0) + 1,
                "config": config,
                "author": author,
                "changed": changed,
                "updated_at": tx.now,
                "problem": None,
                "problem_at": None,
            }
            if row is None:
                id_ = tx.new_id()
                values |= {
                    "id": id_,
                    "kind": kind,
                    "name": name,
                    "state": "enabled",
                    "note": None,
                    "paused_until": None,
                    "fence": 0,
                    "cursor": None,
                    "created_at": tx.now,
                }
                tx.insert(source, [values])
            else:
                id_ = row["id"]
                if not alive:
                    values |= {"state": "enabled", "note": None, "paused_until": None, "cursor": None}
                tx.execute(sa.update(source).where(source.c.id == id_).values(**values))
            saved = tx.first(sa.select(source).where(source.c.id == id_)) or {}
            if hook is not None:
                hook(tx, saved)
            before = audit.digest(row["config"]) if row is not None and alive else None
            self._record_change(tx, saved, "source.updated" if alive else "source.created", author, before)
            tx.wake("sources")
        return saved | {"created": True}

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """Return a source's row. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            row = tx.first(self._one(kind, name))
        if row is None:
            raise NotFound(f"{kind} {name!r} not found", try_=f"functory source list --kind {kind}")
        return row

    def list(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return all sources that are not deleted, by kind and name."""
        statement = (
            sa.select(source).where(source.c.state != "deleted").order_by(source.c.kind, source.c.name)
        )
        with self._database.read() as tx:
            return tx.rows(statement if kind is None else statement.where(source.c.kind == kind))

    def pause(
        self, kind: str, name: str, *, note: str = "", author: str = "", hook: Hook | None = None
    ) -> None:
        """enabled → paused; the process that runs it stops it. A pause by the breaker becomes one without an end."""
        self._change_state(kind, name, "paused", "source.paused", note, author, hook)

    def resume(self, kind: str, name: str, *, author: str = "", hook: Hook | None = None) -> None:
        """paused → enabled."""
        self._change_state(kind, name, "enabled", "source.resumed", "", author, hook)

    def delete(self, kind: str, name: str, *, author: str = "", hook: Hook | None = None) -> None:
        """Delete a source; its events stay."""
        self._change_state(kind, name, "deleted", "source.deleted", "", author, hook)

    def unclaimed_kinds(self, kinds: Collection[str]) -> set[str]:
        """Return those of ``kinds`` with an enabled source that no process runs."""
        with self._database.read() as tx:
            return set(
                tx.execute(
                    sa.select(source.c.kind).distinct().where(source.c.kind.in_(sorted(kinds)), _free(tx.now))
                ).scalars()
            )

    def claim(
        self, kinds: Collection[str], holder: str, lease: float, limit: int = 100
    ) -> list[ClaimedSource]:
        """Claim the enabled sources of ``kinds`` that no process runs, for ``lease`` seconds."""
        free = _free(self._database.clock.now())
        wanted = sa.select(source.c.id).where(source.c.kind.in_(sorted(kinds)), free)
        with self._database.read() as tx:
            # Most rounds find nothing and must not wait for the one writer of SQLite.
            if tx.scalar(wanted.limit(1)) is None:
                return []
        with self._database.write() as tx:
            ids = [
                row["id"]
                for row in tx.rows(
                    wanted.order_by(source.c.id).limit(limit).with_for_update(skip_locked=True)
                )
            ]
            rows = tx.rows(
                sa.update(source)
                .where(source.c.id.in_(ids), free)
                .values(
                    holder=holder,
                    fence=source.c.fence + 1,
                    lease_until=tx.now + timedelta(seconds=lease),
                )
                .returning(source)
            )
        return [ClaimedSource(row, row["fence"]) for row in rows]

    def still_claimed(self, held: Sequence[ClaimedSource]) -> list[ClaimedSource]:
        """Return those of ``held`` that are still claimed here and unchanged. Renews nothing."""
        if not held:
            return []
        with self._database.read() as tx:
            ids = set(tx.execute(sa.select(source.c.id).where(_is_claimed(held))).scalars())
        return [one for one in held if one.id in ids]

    def renew(self, held: Sequence[ClaimedSource], lease: float) -> list[ClaimedSource]:
        """Renew the leases. Returns the sources still claimed here and unchanged; the caller stops the others."""
        if not held:
            return []
        mine = {one.id: one for one in held}
        with self._database.write() as tx:
            ids = tx.execute(
                sa.update(source)
                .where(_is_claimed(held))
                .values(lease_until=tx.now + timedelta(seconds=lease))
                .returning(source.c.id)
            ).scalars()
            return [mine[id_] for id_ in ids]

    def release(self, held: ClaimedSource) -> None:
        """End the claim, so that another process can take the source at once."""
        with self._database.write() as tx:
            tx.execute(
                sa.update(source)
                .where(source.c.id == held.id, source.c.fence == held.fence)
                .values(holder=None, lease_until=None)
            )
            tx.wake("sources")

    def ingest(
        self,
        held: ClaimedSource,
        arrivals: Sequence[IncomingEvent],
        *,
        cursor: Any = KEEP_CURSOR,
        also: Hook | None = None,
    ) -> Sequence[str | None]:
        """Write the events of ``arrivals`` and the source's new cursor in one transaction.

        Returns an event id for each; None for one that was ingested before. ``also`` writes further rows of the kind.
        Raises :class:`Stale` when another process runs the source, or it was changed, paused or deleted.
        """
        with metrics.transaction("ingest"), self._database.write() as tx:
            ensure_claimed(tx, held)
            taken = receipts.ingest(tx, held.id, event_source(held.row), arrivals)
            values: dict[str, Any] = {} if cursor is KEEP_CURSOR else {"cursor": cursor}
            if any(taken):
                values["last_event_at"] = tx.now
            refused = Counter(
                one.refusal
                for one, id_ in zip(arrivals, taken, strict=True)
                if one.type == SOURCE_REJECTED and id_ is not None
            )
            if refused:
                values |= refusals.counted(tx, held.id, refused)
            if values:
                tx.execute(sa.update(source).where(source.c.id == held.id).values(**values))
            if also is not None:
                also(tx, held.row)
        metrics.source_events.labels(metrics.kind_label(held.row["kind"])).inc(
            sum(id_ is not None for id_ in taken)
        )
        return taken

    def read(self, held: ClaimedSource, look: Callable[[Tx, Mapping[str, Any]], T]) -> T:
        """Return the result of ``look``, called with a reading transaction and the source's row."""
        with self._database.read() as tx:
            return look(tx, held.row)

    def set_progress(self, held: ClaimedSource, waiting: int | None) -> None:
        """Store that the source was looked at just now, and how many messages it has not taken yet."""
        with self._database.write() as tx:
            tx.execute(
                sa.update(source)
                .where(source.c.id == held.id, source.c.fence == held.fence)
                .values(waiting=waiting, looked_at=tx.now)
            )

    def set_problem(self, held: ClaimedSource, problem: str | None) -> None:
        """Store the problem that stops a source; None clears it."""
        with self._database.write() as tx:
            tx.execute(
                sa.update(source)
                .where(source.c.id == held.id, source.c.fence == held.fence)
                .values(problem=problem[:2000] if problem else None, problem_at=tx.now if problem else None)
            )

    def _one(self, kind: str, name: str) -> sa.Select[Any]:
        return sa.select(source).where(
            source.c.kind == kind, source.c.name == name, source.c.state != "deleted"
        )

    def _change_state(
        self, kind: str, name: str, state: str, type_: str, note: str, author: str, hook: Hook | None
    ) -> None:
        with self._database.write() as tx:
            row = tx.first(self._one(kind, name))
            if row is None:
                raise NotFound(f"{kind} {name!r} not found", try_=f"functory source list --kind {kind}")
            change_state(tx, row, state, type_, note, author, hook)

    @staticmethod
    def _record_change(
        tx: Tx, row: Mapping[str, Any], type_: str, author: str, before: str | None, note: str = ""
    ) -> None:
        data = {"kind": row["kind"], "name": row["name"], "version": row["version"], "author": author}
        if note:
            data["note"] = note
        if row["paused_until"] is not None:
            data["until"] = row["paused_until"].isoformat()
        event_store.append(tx, [event_store.record(tx, type_, row["name"], data, source=event_source(row))])
        audit.append(
            tx,
            author,
            type_,
            f"{row['kind']}/{row['name']}",
            {"version": row["version"]} | ({"note": note} if note else {}),
            before=before,
            after=None if row["state"] == "deleted" else audit.digest(row["config"]),
        )


def change_state(
    tx: Tx,
    row: Mapping[str, Any],
    state: str,
    type_: str,
    note: str = "",
    author: str = "",
    hook: Hook | None = None,
    until: datetime | None = None,
) -> None:
    """Change the state of a source, with its event and audit entry. The same state changes nothing, but for a source
    that its breaker has paused: it stays paused then.

    ``until`` is when a pause by the breaker ends.
    """
    if row["state"] == state and row["paused_until"] == until:
        return
    changed = counters.bump(tx, counters.SOURCES)
    values = {"state": state, "note": note or None, "paused_until": until}
    tx.execute(
        sa.update(source).where(source.c.id == row["id"]).values(**values, changed=changed, updated_at=tx.now)
    )
    moved = dict(row) | values
    if hook is not None:
        hook(tx, moved)
    Sources._record_change(tx, moved, type_, author, audit.digest(row["config"]), note)
    tx.wake("sources")


def count_refused(tx: Tx, source_id: str, numbers: Mapping[str, int]) -> None:
    """Count arrivals of a source that became no event, by reason
    (:data:`functory.engine.sources.refusals.REASONS`).
    """
    changes = refusals.counted(tx, source_id, numbers)
    tx.execute(sa.update(source).where(source.c.id == source_id).values(**changes))


def ensure_claimed(tx: Tx, held: ClaimedSource) -> None:
    """Check inside the writing transaction that this process still holds its claim.

    Raises :class:`Stale`: after the commit of a pause or a change, nothing is written under the old row.
    """
    if tx.scalar(sa.select(source.c.id).where(_is_claimed([held])).with_for_update()) is None:
        raise Stale(
            f"this process no longer runs the {held.row['kind']} {held.row['name']}",
            f"it was changed, paused or deleted, or another process runs it; the fence {held.fence} is no longer valid",
            "nothing was written; this process releases it",
        )


def _is_claimed(held: Sequence[ClaimedSource]) -> Any:
    return sa.and_(
        one_of_keys(
            (source.c.id, source.c.fence, source.c.version),
            [(one.id, one.fence, one.row["version"]) for one in held],
        ),
        source.c.state == "enabled",
    )


def _free(now: datetime) -> Any:
    return sa.and_(
        source.c.state == "enabled", sa.or_(source.c.lease_until.is_(None), source.c.lease_until < now)
    )


def event_source(row: Mapping[str, Any]) -> str:
    """Return the ``source`` attribute of events of this source."""
    return f"/functory/{row['kind']}/{row['name']}"
