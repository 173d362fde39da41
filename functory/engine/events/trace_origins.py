"""The trace contexts that roots of causal trees brought from outside.

They are the attribute ``traceparent`` of an event (CloudEvents, Distributed Tracing extension), which is stored with
it. A tree whose root is an execution, or an event without that attribute, has a trace of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.id_lists import one_of
from functory.engine.database.schema import event
from functory.engine.telemetry import trace_context
from functory.engine.telemetry.trace_context import TraceContext

# Built once, because it runs for new trees while traces are on.
_EXTENSIONS = sa.select(event.c.id, event.c.extensions).where(
    one_of(event.c.id), event.c.extensions.is_not(None)
)


def of_event(extensions: Mapping[str, Any] | None) -> TraceContext | None:
    """Return the trace context that an event brought along in its extension attributes."""
    return trace_context.parse((extensions or {}).get(trace_context.HEADER))


def find(database: Database, root_ids: Sequence[str]) -> dict[str, TraceContext]:
    """Return the trace contexts that these roots brought along, by root. Raises :class:`Unavailable`."""
    with database.read() as tx:
        rows = tx.rows(_EXTENSIONS, {"ids": list(root_ids)})
    found = {row["id"]: of_event(row["extensions"]) for row in rows}
    return {root_id: context for root_id, context in found.items() if context is not None}


def with_header(
    extensions: Mapping[str, Any] | None, headers: Sequence[tuple[str, str]]
) -> Mapping[str, Any] | None:
    """Return the attributes of a new event with the trace context of the request that brought it.

    A context that the event itself has stays: it is the one in which the event was made.
    """
    given = None if trace_context.HEADER in (extensions or {}) else trace_context.header_of(headers)
    return extensions if given is None else {**(extensions or {}), trace_context.HEADER: given}
