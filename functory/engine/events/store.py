"""Events: their rows, and their CloudEvents 1.0 envelope.

An event is written in the transaction of the change that it reports (:func:`record`). From then on it is *pending*
until the router has decided about it, and then in the *outbox* until it is on the exchange. Both are tables of open
work, so the cost of finding it does not grow with history.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from functory.engine import choices
from functory.engine.database import audit, prune_watermarks
from functory.engine.database.connection import Database, Tx
from functory.engine.database.payloads import columns, page_size
from functory.engine.database.schema import event
from functory.engine.database.schema import routing_queue as queue
from functory.engine.database.schema.events import EVENT_STATES
from functory.engine.errors import Invalid, NotFound
from functory.engine.events import causation, outbox, routing_queue
from functory.engine.events.causation import Cause
from functory.engine.events.envelope import envelope as envelope
from functory.engine.events.event_row import EVENT_COLUMNS, EventRow
from functory.engine.serialization import json_codec

if TYPE_CHECKING:
    from functory.engine.events.emit_many import NewEvent

TYPE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_][A-Za-z0-9_-]*)*")

# First words of the types that only the engine writes; emit() refuses them.
RESERVED = frozenset({
    "function", "execution", "output", "file", "schedule", "webhook", "trigger", "pack", "secret", "budget", "approval",
    "worker", "source", "row", "saga", "version", "run", "model", "proposal", "canary", "memory",
})  # fmt: skip

# Events that are always inert.
_INERT = frozenset({"trigger.suppressed", "trigger.silent"})

MAX_SUBJECT = 1024
# Quarantined events that one transaction releases.
RELEASED = 500


def record(
    tx: Tx,
    type_: str,
    subject: str | None,
    data: Any,
    *,
    source: str,
    cause: Cause | None = None,
    dedup_key: str | None = None,
    inert: bool = False,
    time: datetime | None = None,
    extensions: Mapping[str, Any] | None = None,
    depth: int = 0,
) -> dict[str, Any]:
    """Return a new event row of the engine, ready to insert; :func:`append` writes it.

    ``inert`` events are published and kept but fire nothing (they are routed from the start). ``time`` is when
    it happened, if that differs from now. ``extensions`` are attributes of the envelope beyond ours. ``depth`` is that
    of an event that came from another installation; one with a ``cause`` has the depth of its cause.
    """
    if cause is not None:
        tx.follow(cause.execution_id)
    id_ = tx.new_id()
    return {
        "id": id_,
        "type": type_,
        "source": source,
        "subject": subject,
        "time": time or tx.now,
        "data": data,
        "extensions": dict(extensions) if extensions else None,
        "root_id": cause.root_id if cause else id_,
        "cause_execution_id": cause.execution_id if cause else None,
        "depth": cause.depth if cause else depth,
        "chain": list(cause.chain) if cause else [],
        "dedup_key": dedup_key,
        "state": "routed" if inert else "pending",
        "route_attempts": 0,
        "routed_at": tx.now if inert else None,
    }


def is_inert(row: EventRow) -> bool:
    """Return True for an event row that no trigger ever meets (:func:`record`)."""
    # A breaker that opened says until when; a person's pause has no end.
    return row.type in _INERT or (row.type == "trigger.paused" and "until" in row.data)


def append(tx: Tx, rows: Sequence[dict[str, Any]]) -> None:
    """Write event rows: pending ones for the router, which also publishes them, and the others for the publisher."""
    if rows:
        tx.insert(event, rows)
        _queue(tx, rows)


def append_new(tx: Tx, rows: Sequence[dict[str, Any]]) -> set[str]:
    """Write those event rows whose ``dedup_key`` was not used before. Returns the ids of those that were written."""
    written = tx.insert_returning(event, rows, event.c.id)
    if written:
        _queue(tx, [row for row in rows if row["id"] in written])
    return written


def _queue(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    """Queue new events for the router, or for the publisher."""
    pending = [row["id"] for row in rows if row["state"] == "pending"]
    if pending:
        routing_queue.add(tx, pending)
        tx.wake("events")
    if len(pending) < len(rows):
        outbox.put(tx, [row["id"] for row in rows if row["state"] != "pending"])


class Events:
    """Emits, reads, lists and releases events for users."""

    def __init__(self, database: Database, max_bytes: int = 1_048_576) -> None:
        self._database = database
        self._max_bytes = max_bytes

    def emit(
        self,
        type_: str,
        data: Any = None,
        *,
        subject: str | None = None,
        source: str = "/functory/api",
        cause: Cause | None = None,
        dedup_key: str | None = None,
        author: str = "",
    ) -> str:
        """Write one event. Returns its id.

        With a ``cause`` it belongs to that execution's tree and is refused for a zombie. The same
        ``dedup_key`` (at most 255 characters) a second time writes nothing and returns the first id. With an
        ``author``, who sends it from outside, the audit log gets an entry.
        Raises :class:`Invalid` for a wrong or reserved type, data that is not JSON or too large.
        """
        check_type(type_)
        data = json_codec.from_python(data, "event")
        check_data(data, self._max_bytes)
        check_subject(subject)
        check_key(dedup_key, "dedup_key")
        audited = audit.from_here(author, "event.emit")

        def work(tx: Tx) -> str:
            causation.check_fence(tx, cause)
            row = record(tx, type_, subject, data, source=source, cause=cause, dedup_key=dedup_key)
            if dedup_key is None:
                append(tx, [row])
            elif not append_new(tx, [row]):
                return str(tx.scalar(sa.select(event.c.id).where(event.c.dedup_key == dedup_key)))
            audited(tx, row["id"], {"type": type_})
            return row["id"]

        return self._database.group_commit(work)

    def emit_many(
        self,
        events: Iterable[Mapping[str, Any]],
        *,
        source: str = "/functory/api",
        cause: Cause | None = None,
        author: str = "",
    ) -> list[str]:
        """Write many events, all of them or none (:mod:`functory.engine.events.emit_many`). Returns their ids."""
        from functory.engine.events import emit_many

        checked = emit_many.check_all(events, self._max_bytes)
        return emit_many.write(self._database, checked, source=source, cause=cause, author=author)

    def write(self, checked: Sequence[NewEvent], *, source: str, author: str = "") -> list[str]:
        """Write events that were checked before, all of them or none. Returns their ids."""
        from functory.engine.events import emit_many

        return emit_many.write(self._database, checked, source=source, author=author)

    def get(self, id_: str) -> dict[str, Any]:
        """Return one event row. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            row = tx.first(sa.select(event).where(event.c.id == as_id(id_, "event")))
            if row is None:
                raise prune_watermarks.missing(
                    tx, as_id(id_, "event"), f"event {id_} not found", "functory event list"
                )
        return row

    def list(
        self,
        *,
        type_: str | None = None,
        subject: str | None = None,
        root_id: str | None = None,
        state: str | None = None,
        source: str | None = None,
        before: str | None = None,
        after: str | None = None,
        limit: int = 50,
        payloads: bool = False,
    ) -> list[dict[str, Any]]:
        """Return events, newest first (oldest first with ``after``), at most ``limit`` (1 to 1000).

        ``before`` and ``after`` are event ids: the key of the next page. The rows have no ``data``, which may be large.
        With ``payloads`` they have it, and at most 100 rows are returned. :meth:`get` returns one whole row. Raises
        :class:`Invalid` for an unknown ``state``.
        """
        choices.check("state", [state], EVENT_STATES)
        statement = sa.select(*columns(event, payloads))
        wanted = (
            (event.c.type, type_),
            (event.c.subject, subject),
            (event.c.state, state),
            (event.c.source, source),
        )
        for column, value in wanted:
            if value is not None:
                statement = statement.where(column == value)
        if state in ("pending", "quarantined"):
            open_ = sa.select(queue.c.event_id).where(queue.c.quarantined.is_(state == "quarantined"))
            statement = statement.where(event.c.id.in_(open_))
        if root_id is not None:
            statement = statement.where(event.c.root_id == as_id(root_id, "root"))
        if before is not None:
            statement = statement.where(event.c.id < as_id(before, "event"))
        if after is not None:
            statement = statement.where(event.c.id > as_id(after, "event"))
        order = event.c.id.asc() if after is not None else event.c.id.desc()
        with self._database.read() as tx:
            return tx.rows(statement.order_by(order).limit(page_size(limit, payloads)))

    def has_type(self, type_: str) -> bool:
        """Return whether an event of this type is stored."""
        with self._database.read() as tx:
            return tx.scalar(sa.select(event.c.id).where(event.c.type == type_).limit(1)) is not None

    def types(self, limit: int = 500) -> list[str]:
        """Return the first ``limit`` types of stored events, in their order."""
        with self._database.read() as tx:
            return stored_types(tx, limit)

    def count(self, since: datetime, types: Collection[str] | None = None) -> int:
        """Return the number of events that :meth:`scan` yields."""
        with self._database.read() as tx:
            return int(
                tx.scalar(sa.select(sa.func.count()).select_from(event).where(*_since(since, types))) or 0
            )

    def scan(
        self, since: datetime, types: Collection[str] | None = None, *, batch: int = 5000
    ) -> Iterator[EventRow]:
        """Yield every event from ``since`` on, oldest first, of ``types`` only when given. Reads ``batch`` rows at a
        time.
        """
        last: str | None = None
        while True:
            statement = (
                sa.select(*EVENT_COLUMNS).where(*_since(since, types)).order_by(event.c.id).limit(batch)
            )
            if last is not None:
                statement = statement.where(event.c.id > last)
            with self._database.read() as tx:
                rows = tx.all(EventRow, statement)
            yield from rows
            if len(rows) < batch:
                return
            last = rows[-1].id

    def release(self, id_: str, *, author: str = "") -> None:
        """quarantined → pending: send an event to the router again. Raises :class:`NotFound`."""
        if not self._release([event.c.id == as_id(id_, "event")], author):
            raise NotFound(f"no quarantined event {id_}", try_="functory event list --state quarantined")

    def release_all(self, type_: str | None = None, *, author: str = "") -> int:
        """quarantined → pending for all events, of one type only when given. Returns the number released."""
        done = 0
        while count := self._release([] if type_ is None else [event.c.type == type_], author):
            done += count
        return done

    def _release(self, which: Sequence[Any], author: str) -> int:
        """Release up to ``RELEASED`` quarantined events of ``which``, each with an audit entry. Returns their
        number.
        """
        with self._database.write() as tx:
            some = sa.select(event.c.id).join(queue, queue.c.event_id == event.c.id)
            some = some.where(queue.c.quarantined.is_(True), *which).order_by(event.c.id).limit(RELEASED)
            rows = tx.rows(
                sa.update(event)
                .where(event.c.id.in_(some), event.c.state == "quarantined")
                .values(state="pending", route_attempts=0, problem=None)
                .returning(event.c.id, event.c.type)
            )
            for row in rows:
                audit.append(tx, author, "event.release", row["id"], {"type": row["type"]})
            if rows:
                routing_queue.release(tx, [row["id"] for row in rows])
                tx.wake("events")
        return len(rows)


def stored_ids(tx: Tx, ids: Collection[str]) -> set[str]:
    """Return those of ``ids`` (in their canonical form) that are events of this database."""
    return (
        set(tx.execute(sa.select(event.c.id).where(event.c.id.in_(sorted(ids)))).scalars()) if ids else set()
    )


def stored_types(tx: Tx, limit: int = 500) -> list[str]:
    """Return the first ``limit`` types of stored events, in their order. Each type is one look into an index."""
    found: list[str] = []
    while len(found) < limit:
        statement = sa.select(sa.func.min(event.c.type))
        following = tx.scalar(statement.where(event.c.type > found[-1]) if found else statement)
        if following is None:
            break
        found.append(following)
    return found


def _since(since: datetime, types: Collection[str] | None) -> list[Any]:
    # The primary key finds the start, the time filters the rest.
    conditions = [event.c.id >= lowest_id_since(since), event.c.time >= since]
    return conditions if types is None else [*conditions, event.c.type.in_(sorted(types))]


def lowest_id_since(since: datetime) -> str:
    """Return the lowest UUIDv7 of ``since``, less one second: every event made from then on has a higher id."""
    least = f"{max(0, int(since.timestamp() * 1000) - 1000):012x}"
    return f"{least[:8]}-{least[8:]}-7000-8000-000000000000"


def as_id(value: str, what: str) -> str:
    """Return an id in its canonical form. Raises :class:`NotFound` for anything else: nothing with it can exist."""
    if not isinstance(value, str) or not re.fullmatch(
        r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}", value
    ):
        raise NotFound(f"{what} {value!r} not found", "an id looks like 01998c5e-…-… (36 characters)")
    return str(uuid.UUID(value))


def check_key(key: str | None, what: str) -> None:
    """Refuse a key that a database cannot store: not 1 to 255 characters, a NUL or a lone surrogate."""
    if key is None:
        return
    if not isinstance(key, str) or not 0 < len(key) <= 255:
        raise Invalid(f"wrong {what}", "it must be a string of 1 to 255 characters")
    check_storable(key, what)


def check_storable(text: str, what: str) -> None:
    """Refuse a text that a database stores as another one: it holds a NUL or a lone surrogate."""
    if "\x00" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise Invalid(f"wrong {what}", "it holds a NUL or a lone surrogate, which databases cannot store")


def check_type(type_: str) -> None:
    """Refuse a malformed event type, and one that only the engine writes."""
    if not isinstance(type_, str) or len(type_) > 255 or not TYPE.fullmatch(type_):
        raise Invalid(
            f"wrong event type {type_!r}",
            "it must be words of letters, digits, _ and -, joined with dots",
            "for example order.created",
        )
    if type_.split(".")[0] in RESERVED:
        raise Invalid(
            f"the event type {type_} is reserved",
            f"types that begin with {type_.split('.')[0]}. are the engine's own",
            f"call it my_{type_}, say",
        )


def check_data(data: Any, max_bytes: int, what: str = "event") -> int:
    """Refuse data that is not JSON or larger than ``max_bytes``. Returns its size."""
    size = len(json_codec.encode(data))
    if size > max_bytes:
        raise Invalid(
            f"the {what} is too large",
            f"{size:,} bytes; at most {max_bytes:,} are taken",
            "store the data elsewhere and pass its address, or raise FUNCTORY_MAX_EVENT_BYTES",
        )
    return size


def check_subject(subject: str | None) -> None:
    """Refuse a subject that is not a string or is longer than 1024 characters."""
    if subject is not None and (not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT):
        raise Invalid("wrong event subject", f"it must be a string of 1 to {MAX_SUBJECT} characters")
