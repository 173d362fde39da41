"""Manual firing: an operator starts the execution of a trigger for one event that it did not fire for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.schema import event, firing
from functory.engine.errors import Conflict, NotFound
from functory.engine.events.store import as_id
from functory.engine.firings.admission import InputTemplate
from functory.engine.firings.suppressions import count_resumed, start_once


def fire(
    database: Database, trigger: Mapping[str, Any], event_id: str, template: InputTemplate, *, author: str
) -> dict[str, Any]:
    """Start the execution of ``trigger`` (its row with the definition) for an event, once. Returns its row.

    Guards, flow control, a pause and shadow mode do not apply to it; guards apply to what it causes. A recorded
    decision stays, and a suppressed match counts as resumed. The caller has checked that the event matches. Raises
    :class:`NotFound`, :class:`Conflict` for an event that the trigger has fired for, :class:`Invalid`.
    """
    id_ = as_id(event_id, "event")
    with database.write() as tx:
        # The event must not be pruned before its new execution exists.
        row = tx.first(sa.select(event).where(event.c.id == id_).with_for_update(read=True, key_share=True))
        if row is None:
            raise NotFound(f"event {event_id} not found", try_="functory event list")
        decided = tx.first(
            sa.select(firing).where(firing.c.trigger_id == trigger["id"], firing.c.event_id == id_)
        )
        if decided is not None and decided["decision"] == "fired":
            raise Conflict(
                f"{trigger['name']} has fired for event {id_}",
                f"execution {decided['execution_id']}",
                f"functory execution replay {decided['execution_id']}",
            )
        if decided is None and row["state"] == "pending":
            raise Conflict(
                f"event {id_} is not routed yet",
                "the trigger has not decided about it",
                "wait for the router",
            )
        new = start_once(tx, row, trigger["id"], trigger["name"], trigger["definition"], template)
        if decided is not None:
            count_resumed(tx, decided, row["root_id"])
        audit.append(
            tx, author, "trigger.fire", trigger["name"], {"event_id": id_, "execution_id": new["id"]}
        )
    return new
