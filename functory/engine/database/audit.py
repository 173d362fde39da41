"""The audit log: actions of operators, written in the same transaction as the action.

An entry names who did what to what, from where (the origin, :func:`acting`), and the hash of the subject's content
before and after. Refused attempts have entries of their own: one a minute for the same attempt, with a count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from functory.engine.database.clock import lowest_id
from functory.engine.database.connection import Database
from functory.engine.database.schema import audit
from functory.engine.database.transaction import Tx
from functory.engine.serialization import json_codec

_origin: ContextVar[str | None] = ContextVar("audit_origin", default=None)

# These entries go when what they name is pruned: programs start and send at any rate
# (:mod:`functory.engine.maintenance.audit_deletion`). All others stay.
PRUNED_ACTIONS = (
    "event.emit",
    "execution.cancel",
    "execution.cancel_tree",
    "execution.replay",
    "execution.start",
)

# A refused attempt names what was tried, which a stranger chose.
MAX_REFUSED_CHARACTERS = 200


@contextmanager
def acting(origin: str) -> Iterator[None]:
    """Let the entries that are written inside the block carry this origin: where the action comes from."""
    before = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(before)


def origin() -> str | None:
    """Return where the actions of now come from; None when it is not known."""
    return _origin.get()


def append(
    tx: Tx,
    author: str,
    action: str,
    subject: str,
    data: Mapping[str, Any] | None = None,
    *,
    before: str | None = None,
    after: str | None = None,
) -> None:
    """Append one audit entry. ``before`` and ``after`` are the hashes of the subject's content (:func:`digest`): None
    where there is none.
    """
    tx.insert(
        audit,
        [
            {
                "id": tx.new_id(),
                "time": tx.now,
                "author": author,
                "action": action,
                "subject": subject,
                "data": dict(data or {}),
                "origin": _origin.get(),
                "before_sha256": before,
                "after_sha256": after,
                "refused": False,
                "count": 1,
            }
        ],
    )


def from_here(author: str, action: str) -> Callable[[Tx, str, Mapping[str, Any]], None]:
    """Return what appends an entry with the origin of now. With no author it appends none.

    A transaction that several threads share may run on another thread than the one that acts
    (:meth:`Database.group_commit`).
    """
    origin = _origin.get()

    def write(tx: Tx, subject: str, data: Mapping[str, Any]) -> None:
        if author:
            before = _origin.set(origin)
            try:
                append(tx, author, action, subject, data)
            finally:
                _origin.reset(before)

    return write


def digest(content: Any) -> str | None:
    """Return the hash of a subject's content, which is a JSON value; None of None."""
    return None if content is None else json_codec.digest(content)


def append_refused(
    tx: Tx, author: str, action: str, subject: str, data: Mapping[str, Any] | None = None, *, count: int = 1
) -> None:
    """Count refused attempts: the same ``action`` of the same author has one entry a minute, with the last origin."""
    minute = tx.now.replace(second=0, microsecond=0)
    row = {
        "id": _id_of_attempt(lowest_id(minute), author, action),
        "time": tx.now,
        "author": author,
        "action": action,
        "subject": subject[:MAX_REFUSED_CHARACTERS],
        "data": dict(data or {}),
        "origin": _origin.get(),
        "before_sha256": None,
        "after_sha256": None,
        "refused": True,
        "count": count,
    }
    tx.upsert(audit, [row], _count_in)


def _count_in(new: Any) -> dict[str, Any]:
    return {"count": audit.c.count + new.count, "time": new.time, "origin": new.origin}


def record_refused(database: Database, author: str, action: str, subject: str) -> None:
    """Count a refused attempt (:func:`append_refused`) in a transaction of its own."""
    with database.write() as tx:
        append_refused(tx, author, action, subject)


def _id_of_attempt(lowest: str, *parts: str) -> str:
    """Return an id of the minute, the same for the same attempt."""
    bits = int.from_bytes(hashlib.sha256("\x00".join(parts).encode("utf-8", "surrogatepass")).digest()[:16])
    # The time, version and variant of a UUIDv7 stay; all else is the attempt's.
    return str(UUID(int=UUID(lowest).int | (bits & ((0xFFF << 64) | ((1 << 62) - 1)))))
