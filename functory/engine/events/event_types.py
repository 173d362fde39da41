"""The engine's own event types, and the fields of their data.

Only the engine writes events of these types. A trigger that names a field which none of its events has is refused when
it is saved (``functory.triggers.save_checks``). ``docs/reference/events.md`` describes the fields.
"""

from __future__ import annotations

from collections.abc import Mapping

_VERSION = frozenset({
    "function", "version", "sha256", "source_sha256", "metadata", "dependencies", "environment", "previous_version",
    "author",
})  # fmt: skip
_SAVED = _VERSION | {"changed", "active", "warnings", "findings", "environment_error", "inactive_reason"}
_FUNCTION = frozenset({"function", "version", "author"})
_GRANT = _FUNCTION | {"sha256", "kind", "value", "reason"}
_EXECUTION = frozenset({
    "execution_id", "function", "version", "state", "attempt", "parent_id", "trigger_id", "event_id",
})  # fmt: skip
_ENDED = _EXECUTION | {"error", "duration_seconds", "metadata"}
_TRIGGER = frozenset({"trigger", "version", "author"})
_SOURCE = frozenset({"kind", "name", "version", "author", "note"})
_FILE = frozenset({
    "watch", "path", "path_bytes", "relative", "name", "size", "mtime", "mtime_ns", "sha256", "problem",
})  # fmt: skip
_SAGA = frozenset({"execution_id", "function", "version", "parent_id"})

# The fields of the data of each type; None: they depend on a configuration, a table or a message.
DATA_FIELDS: Mapping[str, frozenset[str] | None] = {
    "function.created": _SAVED,
    "function.updated": _SAVED,
    "function.activated": None,
    "version.marked": frozenset(
        {"function", "version", "sha256", "mark", "previous_mark", "reason", "author"}
    ),
    "function.disabled": _FUNCTION,
    "function.deleted": _FUNCTION | {"forced"},
    "function.granted": _GRANT,
    "function.revoked": _GRANT,
    "execution.started": _EXECUTION,
    "execution.succeeded": _ENDED | {"output"},
    "execution.failed": _ENDED,
    "execution.timed_out": _ENDED,
    "execution.cancelled": _ENDED | {"author"},
    "execution.dead": _ENDED,
    "execution.expired": _ENDED,
    "execution.attempt_failed": _ENDED | {"next_attempt_in"},
    "output.matched": frozenset(
        {"pattern", "groups", "output", "function", "version", "execution_id", "metadata"}
    ),
    "trigger.created": _TRIGGER | {"function"},
    "trigger.updated": _TRIGGER | {"function"},
    "trigger.paused": _TRIGGER | {"note", "until"},
    "trigger.resumed": _TRIGGER | {"note"},
    "trigger.promoted": _TRIGGER | {"note"},
    "trigger.deleted": _TRIGGER | {"note"},
    "trigger.suppressed": frozenset(
        {"trigger", "version", "event_id", "reason", "limit", "value", "chain", "detail"}
    ),
    "trigger.failed": frozenset({"trigger", "version", "event_id", "event_type", "reason", "error", "count"}),
    "trigger.silent": frozenset({"key", "since", "last_event_id"}),
    "schedule.due": frozenset(
        {"schedule", "fire_time", "local_time", "late_seconds", "backfill", "manual", "overlap", "data"}
    ),
    "file.created": _FILE,
    "file.modified": _FILE | {"previous_sha256"},
    "file.deleted": _FILE,
    "file.moved": _FILE | {"previous_sha256", "previous_path", "previous_path_bytes"},
    "webhook.received": None,
    "row.inserted": None,
    "row.updated": None,
    "row.deleted": None,
    "queue.received": None,
    "source.rejected": None,
    "source.created": _SOURCE,
    "source.updated": _SOURCE,
    "source.paused": _SOURCE,
    "source.resumed": _SOURCE,
    "source.deleted": _SOURCE,
    "saga.started": _SAGA | {"state"},
    "saga.compensated": _SAGA | {"done", "skipped"},
    "saga.stuck": _SAGA | {"position", "step_id", "step_function", "compensate", "problem"},
    "secret.rotated": frozenset({"secret", "version", "author"}),
    "worker.lost": frozenset({"worker", "slots", "seen_at"}),
}
