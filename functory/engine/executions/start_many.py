"""Many executions of one function, started in one transaction: all of them, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.schema import execution
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, Invalid
from functory.engine.events import store as event_store
from functory.engine.executions import queue_rows, start
from functory.engine.executions.direct_dispatch import OpensRoom
from functory.engine.executions.start import MakeInput
from functory.engine.functions import open_canaries, versions
from functory.engine.functions.version_row import StartVersion
from functory.engine.serialization import json_codec, json_schema
from functory.engine.settings import Settings

# One call holds its inputs in memory, and one transaction writes them.
MAX_EXECUTIONS = 10_000
MAX_TOTAL_BYTES = 64 * 1024 * 1024
# Parameters of one statement.
_KEYS = 500

_RACED = "another request with this idempotency_key was started at the same time"


def start_many(
    database: Database,
    settings: Settings,
    function: str,
    inputs: Iterable[Mapping[str, Any] | MakeInput],
    *,
    version: int | None = None,
    cause: str = "api",
    delay: float = 0.0,
    priority: int | None = None,
    direct: OpensRoom | None = None,
    idempotency_key: str | None = None,
    author: str = "",
) -> list[str]:
    """Queue one execution for each of ``inputs``. Returns their ids, in order.

    An input is an object, or makes it from the version's parameters (to bind positional arguments). ``delay`` is in
    seconds. With ``direct`` they are sent at once if there is room for all of them. A used ``idempotency_key`` starts
    nothing and returns the ids that it has started. With an ``author`` the audit log gets one entry for all of them.
    Raises :class:`NotFound`, :class:`Conflict` (disabled, or a key that was used for something else), and
    :class:`Invalid` with the number of the first wrong input, counted from 1.
    """
    wanted: list[Mapping[str, Any] | MakeInput] = []
    for one in inputs:
        if len(wanted) == MAX_EXECUTIONS:
            raise Invalid(
                "too many executions", f"one call takes at most {MAX_EXECUTIONS:,}", "submit them in parts"
            )
        wanted.append(one)
    if idempotency_key is not None:
        # With the number of an input it still has to fit.
        event_store.check_key(f"{idempotency_key}:{MAX_EXECUTIONS}", "idempotency_key")
    keys = [
        None if idempotency_key is None else f"{idempotency_key}:{number}" for number in range(len(wanted))
    ]

    record = audit.from_here(author, "execution.start")

    def work(tx: Tx) -> list[str]:
        if idempotency_key is not None and (known := _started(tx, function, idempotency_key, len(keys))):
            return known
        room = direct.room(tx) if direct is not None else None
        found = versions.load_start(tx, function, version)
        if found is None:
            raise start.missing_version_error(tx, function, version)
        start.check_enabled(found.name, found.number, found.state)
        canary = open_canaries.find(tx, found) if version is None else None
        ids = [tx.new_id() for _ in wanted]
        record(tx, ids[0], {"function": function, "count": len(ids)})
        assigned = [] if canary is None else [canary.assign(id_, None) for id_ in ids]
        chosen = [one.choose(found) for one in assigned] if assigned else [found] * len(ids)
        inputs = _check_all(chosen, wanted, settings.max_event_bytes)
        rows = [
            start.new_row(
                tx,
                own,
                input_,
                cause=cause,
                root_id=None,
                depth=0,
                chain=(),
                delay=delay,
                priority=priority,
                idempotency_key=key,
                id_=id_,
            )
            for key, id_, own, input_ in zip(keys, ids, chosen, inputs, strict=True)
        ]
        if idempotency_key is not None:
            if len(tx.insert_returning(execution, rows, execution.c.id)) < len(rows):
                # Another transaction inserted the same keys after our read.
                raise start.KeyTaken(_RACED)
            queue_rows.add(tx, rows)
            open_canaries.record(tx, list(zip(assigned, ids, strict=False)))
            tx.wake("executions")
            return [row["id"] for row in rows]
        sent = room is not None and room.take(rows)
        start.write(tx, rows, sent=sent)
        open_canaries.record(tx, list(zip(assigned, ids, strict=False)))
        if not sent:
            tx.wake("executions")
        return [row["id"] for row in rows]

    if not wanted:
        return []
    return start.commit(database, work)


def _started(tx: Tx, function: str, key: str, count: int) -> list[str]:
    """Return the ids that a call with this key has started; none for a new key. Raises :class:`Conflict` for a call of
    another function, or with another number of inputs.
    """
    first = start.find_by_key(tx, f"{key}:0", function)
    if first is None:
        return []
    # They were made in one transaction, in the order of their inputs. Of a longer call one more would be there.
    wanted = [f"{key}:{number}" for number in range(count + 1)]
    found: dict[str, str] = {}
    for place in range(0, len(wanted), _KEYS):
        part = execution.c.idempotency_key.in_(wanted[place : place + _KEYS])
        found |= tx.pairs(sa.select(execution.c.idempotency_key, execution.c.id).where(part))
    if sorted(found) != sorted(wanted[:count]):
        raise Conflict(
            "the idempotency_key was used for another number of inputs",
            f"it started {function}, execution {first['id']} and others",
            "take another key",
        )
    return [found[name] for name in wanted[:count]]


def _check_all(
    versions_: Sequence[StartVersion],
    wanted: Sequence[Mapping[str, Any] | MakeInput],
    max_bytes: int,
) -> list[Mapping[str, Any]]:
    """Return the inputs, each checked against the version that it is for."""
    checked: list[Mapping[str, Any]] = []
    total = 0
    for number, (version, one) in enumerate(zip(versions_, wanted, strict=True), 1):
        what = f"input {number} of {version.name}"
        input_ = json_codec.from_python(
            one(version.parameters, version.input_schema) if callable(one) else one, what
        )
        total += event_store.check_data(input_, max_bytes, what)
        if total > MAX_TOTAL_BYTES:
            raise Invalid(
                "the inputs are too large",
                f"the first {number:,} have {total:,} bytes; one call takes at most {MAX_TOTAL_BYTES:,}",
                "submit them in parts",
            )
        json_schema.check(version.input_schema, input_, f"{what} v{version.number}")
        checked.append(input_)
    return checked
