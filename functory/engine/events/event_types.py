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
_CANARY = _FUNCTION | {
    "canary_id", "base", "share", "unit", "state", "reason", "deadline", "proposal_id", "counts",
}  # fmt: skip
_PROPOSAL = frozenset({"proposal_id", "function", "version", "base_version", "run_id", "root_id"})
PROPOSAL_ENDS = (
    "proposal.activated", "proposal.rejected", "proposal.expired", "proposal.superseded", "proposal.withdrawn",
    "proposal.rolled_back",
)  # fmt: skip
_GRANT = _FUNCTION | {"sha256", "kind", "value", "reason"}
_EXECUTION = frozenset({
    "execution_id", "function", "version", "state", "attempt", "parent_id", "trigger_id", "event_id",
})  # fmt: skip
_ENDED = _EXECUTION | {"error", "duration_seconds", "metadata"}
_TRIGGER = frozenset({"trigger", "version", "author"})
_SOURCE = frozenset({"kind", "name", "version", "author", "note", "until"})
_FILE = frozenset({
    "watch", "path", "path_bytes", "relative", "name", "size", "mtime", "mtime_ns", "sha256", "problem",
})  # fmt: skip
_SAGA = frozenset({"execution_id", "function", "version", "parent_id"})
_BUDGET = frozenset({"root_id", "whose", "limit", "maximum", "used", "wanted"})
_MEMORY = frozenset({
    "memory_id", "scope", "owner", "kind", "importance", "source_execution_id", "run_id", "author", "untrusted",
})  # fmt: skip
_RUN = frozenset({"run_id", "root_id", "agent", "function", "step"})
_RUN_ENDED = _RUN | {"state", "reason", "detail", "checked"}

# A message that could not become an event of its own; changes of a source.
SOURCE_REJECTED = "source.rejected"
SOURCE_CHANGES = tuple(f"source.{verb}" for verb in ("created", "updated", "paused", "resumed", "deleted"))

# The fields of the data of each type; None: they depend on a configuration, a table or a message.
DATA_FIELDS: Mapping[str, frozenset[str] | None] = {
    "function.created": _SAVED,
    "function.updated": _SAVED,
    "function.activated": None,
    "version.marked": frozenset(
        {"function", "version", "sha256", "mark", "previous_mark", "reason", "author"}
    ),
    "canary.started": _CANARY,
    "canary.advanced": _CANARY,
    "canary.held": _CANARY,
    "canary.promoted": _CANARY,
    "canary.rolled_back": _CANARY | {"moved"},
    "canary.stopped": _CANARY,
    "function.disabled": _FUNCTION,
    "function.renamed": _FUNCTION | {"renamed_to", "alias_version"},
    "function.deleted": _FUNCTION | {"forced"},
    "function.described": frozenset({"function", "key", "author", "removed"}),
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
    SOURCE_REJECTED: None,
    **dict.fromkeys(SOURCE_CHANGES, _SOURCE),
    "saga.started": _SAGA | {"state"},
    "saga.compensated": _SAGA | {"done", "skipped"},
    "saga.stuck": _SAGA | {"position", "step_id", "step_function", "compensate", "problem"},
    "secret.rotated": frozenset({"secret", "version", "author"}),
    "worker.lost": frozenset({"worker", "slots", "seen_at"}),
    "budget.warning": _BUDGET,
    "budget.exceeded": _BUDGET,
    "run.started": _RUN | {"goal"},
    "run.waiting": _RUN | {"approval_id", "question", "choices"},
    "run.paused": _RUN,
    "run.resumed": _RUN,
    "run.succeeded": _RUN_ENDED | {"result"},
    "run.failed": _RUN_ENDED,
    "run.stopped": _RUN_ENDED,
    "run.cancelled": _RUN_ENDED,
    "run.needs_human": _RUN_ENDED,
    "proposal.created": _PROPOSAL | {"description"},
    "proposal.checked": _PROPOSAL | {"checks"},
    "proposal.waiting": _PROPOSAL | {"approval_id", "needed", "why"},
    **dict.fromkeys(PROPOSAL_ENDS, _PROPOSAL | {"reason", "author"}),
    "memory.added": _MEMORY,
    "memory.forgotten": _MEMORY | {"reason"},
    "model.opened": frozenset({"model", "problem", "until"}),
    "model.closed": frozenset({"model", "problem"}),
}
