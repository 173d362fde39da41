"""One execution is started: the transaction of :meth:`functory.engine.executions.store.Executions.start`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import Id, execution
from functory.engine.database.transaction import Tx
from functory.engine.events import causation
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.executions import queue_rows, start
from functory.engine.executions.direct_dispatch import OpensRoom, Room
from functory.engine.executions.start import MakeInput
from functory.engine.functions import open_canaries, versions
from functory.engine.functions.open_canaries import Assigned
from functory.engine.functions.version_row import StartVersion
from functory.engine.serialization import json_codec, json_schema
from functory.engine.settings import Settings

# Built once, because it runs with every start that may be repeated.
_BY_ID = sa.select(execution).where(execution.c.id == sa.bindparam("id", type_=Id))


@dataclass(slots=True)
class OneStart:
    """What is asked for: see :meth:`functory.engine.executions.store.Executions.start`.

    ``direct`` sends it after the commit, ``record`` writes it into the audit log. With ``find_by_id`` an execution of
    this id may have been committed, and counts as the one that was asked for.
    """

    settings: Settings
    direct: OpensRoom | None
    record: Callable[[Tx, str, Mapping[str, Any]], None]
    function: str
    make_input: Mapping[str, Any] | MakeInput
    version: int | None
    cause: str
    parent: Cause | None
    idempotency_key: str | None
    step_key: str | None
    delay: float
    priority: int | None
    dispatched: bool
    abandon: bool
    id_: str | None
    find_by_id: bool

    def write(self, tx: Tx) -> dict[str, Any]:
        """Queue it. Returns its row, or the row of the first start with its key.

        Raises :class:`functory.engine.executions.start.KeyTaken`, and what ``Executions.start`` raises.
        """
        room = self.direct.room(tx) if self.direct is not None else None
        causation.check_fence(tx, self.parent)
        step = start.find_step(tx, self.parent, self.step_key)
        known = self._find(tx, step)
        if known is not None:
            return known
        id_ = self.id_ or tx.new_id()
        version, assigned = self._choose_version(tx, id_)
        new = self._make_row(tx, version, id_)
        self._insert(tx, new, step)
        if assigned is not None:
            open_canaries.record(tx, [(assigned, id_)])
        self.record(tx, id_, {"function": self.function})
        self._queue(tx, new, room)
        return new

    def _find(self, tx: Tx, step: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the execution that was started before with the same key, step or id. ``step`` is that of the step."""
        known = start.find_by_key(tx, self.idempotency_key, self.function)
        if known is None and step is not None and start.is_done_or_open(step):
            known = step
        if known is None and self.find_by_id:
            known = tx.first(_BY_ID, {"id": self.id_})
        return known

    def _choose_version(self, tx: Tx, id_: str) -> tuple[StartVersion, Assigned | None]:
        """Return the version that runs, and what an open canary has chosen."""
        found = versions.load_start(tx, self.function, self.version)
        if found is None:
            raise start.missing_version_error(tx, self.function, self.version)
        start.check_enabled(found.name, found.number, found.state)
        if self.version is not None:
            if self.parent is not None:
                start.check_passed_gate(tx, found)
            return found, None
        assigned = start.assign(tx, found, id_, self.parent)
        return (found, None) if assigned is None else (assigned.choose(found), assigned)

    def _make_row(self, tx: Tx, version: StartVersion, id_: str) -> dict[str, Any]:
        """Check the input, take a child from its root's budget, and return the new row."""
        parent, of_what = self.parent, f"input of {self.function}"
        input_ = (
            self.make_input(version.parameters, version.input_schema)
            if callable(self.make_input)
            else self.make_input
        )
        input_ = json_codec.from_python(input_, of_what)
        event_store.check_data(input_, self.settings.max_event_bytes, of_what)
        json_schema.check(version.input_schema, input_, f"{of_what} v{version.number}")
        if parent is not None:
            start.take_budget(tx, parent, self.function, self.settings)
        new = start.new_row(
            tx,
            version,
            input_,
            cause="parent" if parent else self.cause,
            root_id=parent.root_id if parent else None,
            depth=parent.depth + 1 if parent else 0,
            chain=parent.chain if parent else (),
            parent_id=parent.execution_id if parent else None,
            idempotency_key=self.idempotency_key,
            delay=self.delay,
            priority=self.priority,
            id_=id_,
        )
        if parent is not None:
            new["ends_with_parent"] = not self.abandon
        return new

    def _insert(self, tx: Tx, new: dict[str, Any], step: dict[str, Any] | None) -> None:
        if self.id_ is None and self.idempotency_key is None and self.step_key is None:
            # No other row can have its keys: it goes out with the commit, and takes no round trip of its own.
            tx.insert(execution, [new])
        elif not tx.insert_missing(execution, [new]) or not self._record_step(tx, new["id"], step):
            raise start.KeyTaken(start.RACED)

    def _record_step(self, tx: Tx, id_: str, step: dict[str, Any] | None) -> bool:
        """Record a durable call, in place of the ``step`` that failed. False when another transaction was first."""
        if self.parent is None or self.step_key is None:
            return True
        failed = step["id"] if step is not None else None
        return start.record_step(tx, self.parent.execution_id, self.step_key, id_, failed)

    def _queue(self, tx: Tx, new: dict[str, Any], room: Room | None) -> None:
        sent = self.dispatched or (room is not None and room.take([new]))
        (queue_rows.add_sent if sent else queue_rows.add)(tx, [new])
        if self.dispatched or not sent:
            tx.wake("executions")
