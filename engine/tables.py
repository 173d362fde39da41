"""The tables, for PostgreSQL and SQLite alike.

Column names are DESIGN's words; the migration scripts create what stands here. Hot queries
(pending events, unpublished events, queued and running executions) have partial indexes, so that
their cost follows the work that is open and not the history.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, MetaData, Table, UniqueConstraint, text
from sqlalchemy.types import TypeDecorator

from engine import codec


class Instant(TypeDecorator[datetime]):
    """A moment in UTC, always aware in Python; ``timestamptz`` on PostgreSQL, text on SQLite."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        if value is None or dialect.name != "sqlite":
            return value
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        return (
            value
            if value is None
            else value.replace(tzinfo=UTC)
            if value.tzinfo is None
            else value.astimezone(UTC)
        )


class Json(TypeDecorator[Any]):
    """A JSON value as text: the engine never looks inside it with SQL, and text keeps it exact.

    None is stored as NULL, or with ``null`` as the JSON value ``null``.
    """

    impl = sa.Text
    cache_ok = True

    def __init__(self, null: bool = False) -> None:
        super().__init__()
        self.null = null

    def process_bind_param(self, value: Any, dialect: Any) -> str | None:
        return None if value is None and not self.null else codec.dumps(value)

    def process_result_value(self, value: str | None, dialect: Any) -> Any:
        return None if value is None else codec.loads(value)


class Words(TypeDecorator[str]):
    """Text from outside. PostgreSQL cannot store NUL or lone surrogates, so both are made visible."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        if value is None:
            return None
        return value.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


Id = sa.Uuid(as_uuid=False)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _open(name: str, table: Table, columns: list[Any], where: str) -> Index:
    """A partial index over the rows that are still open."""
    return Index(name, *columns, postgresql_where=text(where), sqlite_where=text(where))


counter = Table(
    "counter",
    metadata,
    Column("name", sa.String(64), primary_key=True),
    Column("value", sa.BigInteger, nullable=False),
)

function = Table(
    "function",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", sa.String(200), nullable=False, unique=True),
    Column("state", sa.String(16), nullable=False),  # enabled, disabled, deleted
    Column("active", sa.Integer),  # number of the active version; none before the first activation
    Column("latest", sa.Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)

function_version = Table(
    "function_version",
    metadata,
    Column("id", Id, primary_key=True),
    Column("function_id", Id, ForeignKey("function.id"), nullable=False),
    Column("number", sa.Integer, nullable=False),
    Column("source", Words, nullable=False),
    Column("source_sha256", sa.String(64), nullable=False),
    Column(
        "sha256", sa.String(64), nullable=False
    ),  # of everything below and the source: equal content, equal hash
    Column("is_async", sa.Boolean, nullable=False),
    Column("parameters", Json, nullable=False),
    Column("input_schema", Json),
    Column("output_schema", Json),
    Column("declared", Json, nullable=False),  # which schemas the author declared himself
    Column("imports", Json, nullable=False),
    Column("dependencies", Json, nullable=False),
    Column("secrets", Json, nullable=False),
    Column("permissions", Json, nullable=False),
    Column("metadata", Json, nullable=False),
    Column("output_patterns", Json, nullable=False),
    Column("limits", Json, nullable=False),
    Column("warnings", Json, nullable=False),
    # Packages that it needs beyond its imports, what it asks to be granted, whether its runner stays warm.
    Column("requirements", Json, nullable=False, server_default=sa.text("'[]'")),
    Column("grants", Json, nullable=False, server_default=sa.text("'{}'")),
    Column("reuse", sa.Boolean, nullable=False, server_default=sa.false()),
    # The function (name or name@number) that undoes what a success of this one did.
    Column("compensate", sa.String(220)),
    # What the static checks found; advice, no content.
    Column("findings", Json, nullable=False, server_default=sa.text("'[]'")),
    # Of table environment; none for the standard library alone. Why there is none when one is needed.
    Column("environment", sa.String(64)),
    Column("environment_error", Words),
    Column("author", Words, nullable=False),
    Column("cause_execution_id", Id),
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("function_id", "number"),
)

# Packages, pinned with hashes. The key is the hash of the lock, the Python and the platform it was made for.
environment = Table(
    "environment",
    metadata,
    Column("key", sa.String(64), primary_key=True),
    Column("requirements", Json, nullable=False),  # as they were asked for
    Column("lock", Words, nullable=False),
    Column("python", sa.String(16), nullable=False),  # 3.11
    Column("platform", sa.String(64), nullable=False),  # linux-x86_64
    Column("created_at", Instant, nullable=False),
)

# Which environment a request (what was asked for, where, for which Python) was answered with: the same request
# gets the same packages again, until somebody asks for newer ones.
resolution = Table(
    "resolution",
    metadata,
    Column("request", sa.String(64), primary_key=True),
    Column("environment", sa.String(64), ForeignKey("environment.key"), nullable=False),
    Column("created_at", Instant, nullable=False),
)

# What an operator granted beyond the author's declaration, bound to the content of one version.
widening = Table(
    "widening",
    metadata,
    Column("id", Id, primary_key=True),
    Column("function", sa.String(200), nullable=False),
    Column("sha256", sa.String(64), nullable=False),
    Column("kind", sa.String(16), nullable=False),  # secret, host, read, write, permission, subprocess
    Column("value", Words, nullable=False),
    Column("author", Words, nullable=False),
    Column("reason", Words, nullable=False),
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("function", "sha256", "kind", "value"),
)

trigger = Table(
    "trigger",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", sa.String(200), nullable=False, unique=True),
    Column("state", sa.String(16), nullable=False),  # enabled, paused, shadow, deleted
    Column("origin", sa.String(16), nullable=False),  # user, agent
    Column("version", sa.Integer, nullable=False),
    Column("note", Words),
    # The counter's value at the last change: a router asks for what is above the value that it knows.
    Column("changed", sa.BigInteger, nullable=False, index=True),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)

trigger_version = Table(
    "trigger_version",
    metadata,
    Column("trigger_id", Id, ForeignKey("trigger.id"), primary_key=True),
    Column("number", sa.Integer, primary_key=True),
    Column("definition", Json, nullable=False),
    Column("sha256", sa.String(64), nullable=False),
    Column("author", Words, nullable=False),
    Column("created_at", Instant, nullable=False),
)

event = Table(
    "event",
    metadata,
    Column("id", Id, primary_key=True),
    Column("type", sa.String(255), nullable=False),
    Column("source", Words, nullable=False),
    Column("subject", Words),
    Column("time", Instant, nullable=False),
    Column("data", Json),
    # Attributes of its envelope beyond ours (CloudEvents 1.0.2, 1.5), of an event that came from outside.
    Column("extensions", Json),
    Column("root_id", Id, nullable=False),
    Column("cause_execution_id", Id),
    Column("depth", sa.Integer, nullable=False),
    Column("chain", Json, nullable=False),
    Column("dedup_key", sa.String(255), unique=True),
    Column("state", sa.String(16), nullable=False),  # pending, routed, quarantined
    Column("route_attempts", sa.Integer, nullable=False, default=0),
    Column("route_after", Instant),
    Column("problem", Words),
    Column("routed_at", Instant),
)
_open("ix_event_pending", event, [event.c.id], "state = 'pending'")
_open("ix_event_quarantined", event, [event.c.id], "state = 'quarantined'")
Index("ix_event_root_id", event.c.root_id)
Index("ix_event_cause_execution_id", event.c.cause_execution_id)
Index("ix_event_type", event.c.type, event.c.id)

# What is not on the broker yet. A table of its own, so that publisher and router never lock the same rows.
outbox = Table(
    "outbox",
    metadata,
    Column("event_id", Id, ForeignKey("event.id"), primary_key=True),
    Column("time", Instant, nullable=False),
)

firing = Table(
    "firing",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("event_id", Id, primary_key=True),
    Column("trigger_version", sa.Integer, nullable=False),
    Column("decision", sa.String(16), nullable=False),  # fired, suppressed
    Column("reason", sa.String(32)),
    Column("limit_value", sa.Integer),
    Column("actual_value", sa.Integer),
    Column("detail", Words),
    Column("chain", Json),
    Column("execution_id", Id),
    # One of several events that started the execution together.
    Column("joint", sa.Boolean, nullable=False, server_default=sa.false(), default=False),
    Column("root_id", Id, nullable=False),
    Column("time", Instant, nullable=False),
)
Index("ix_firing_event_id", firing.c.event_id)
Index("ix_firing_root_id", firing.c.root_id)
_open("ix_firing_suppressed", firing, [firing.c.time], "decision = 'suppressed'")
_open("ix_firing_joint", firing, [firing.c.execution_id], "joint")

execution = Table(
    "execution",
    metadata,
    Column("id", Id, primary_key=True),
    Column("function", sa.String(200), nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("version_id", Id, ForeignKey("function_version.id"), nullable=False),
    Column("cause", sa.String(16), nullable=False),  # manual, api, trigger, parent, replay, compensation
    Column("trigger_id", Id),
    Column("event_id", Id),
    Column("parent_id", Id),
    Column("replay_of", Id),
    Column("root_id", Id, nullable=False),
    Column("depth", sa.Integer, nullable=False),
    Column("chain", Json, nullable=False),
    Column("idempotency_key", sa.String(255), unique=True),
    # Which call of its parent a durable one is: another attempt of the parent finds it by this.
    Column("step_key", sa.String(64)),
    Column("input", Json, nullable=False),
    Column("state", sa.String(16), nullable=False),
    Column("attempt", sa.Integer, nullable=False, default=0),
    Column("failures", sa.Integer, nullable=False, default=0),
    Column("released", sa.Integer, nullable=False, default=0),
    Column("max_attempts", sa.Integer, nullable=False),
    Column("retries", sa.Integer, nullable=False),
    Column("fence", sa.Integer, nullable=False, default=0),
    Column("priority", sa.Integer, nullable=False, default=0),
    Column("run_at", Instant, nullable=False),
    # Its place among those of the same priority: run_at, moved by the seconds that its trigger's priority says.
    Column("queue_at", Instant),
    # Waits for a slot of its lanes (table slot): neither sent nor claimed before it has them all.
    Column("held", sa.Boolean, nullable=False, server_default=sa.false(), default=False),
    # Whether rows of table slot are to be given back when it ends.
    Column("laned", sa.Boolean, nullable=False, server_default=sa.false(), default=False),
    Column("expires_at", Instant),
    Column("dispatched_at", Instant),
    Column("dispatch_count", sa.Integer, nullable=False, default=0),
    Column("lease_until", Instant),
    Column("worker_id", Words),
    Column("cancel_requested_at", Instant),
    Column("versions", Json),
    Column("result", Json),
    Column("result_kind", sa.String(8)),
    Column("warnings", Json),
    Column("error", Json),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    UniqueConstraint("trigger_id", "event_id"),
)
_open("ix_execution_queued", execution, [execution.c.expires_at], "state = 'queued'")
# What nobody has sent: by when it is due, and in the order in which it goes (engine.backlog).
_UNSENT = "state = 'queued' AND NOT held AND dispatched_at IS NULL"
_open("ix_execution_due", execution, [execution.c.run_at], _UNSENT)
_open(
    "ix_execution_backlog",
    execution,
    [execution.c.priority.desc(), execution.c.function, execution.c.queue_at, execution.c.id],
    _UNSENT,
)
_open(
    "ix_execution_sent",
    execution,
    [execution.c.dispatched_at],
    "state = 'queued' AND dispatched_at IS NOT NULL",
)
_open("ix_execution_held", execution, [execution.c.run_at], "held AND state = 'queued'")
# What a trigger has open: singletons, overlap policies and cancel-on ask for it.
_open("ix_execution_open_trigger", execution, [execution.c.trigger_id], "state IN ('queued', 'running')")
_open("ix_execution_running", execution, [execution.c.lease_until], "state = 'running'")
# A durable call is made once; one that did not succeed may be made again.
Index(
    "uq_execution_step",
    execution.c.parent_id,
    execution.c.step_key,
    unique=True,
    postgresql_where=text("step_key IS NOT NULL AND state IN ('queued', 'running', 'succeeded')"),
    sqlite_where=text("step_key IS NOT NULL AND state IN ('queued', 'running', 'succeeded')"),
)
Index("ix_execution_root_id", execution.c.root_id)
Index("ix_execution_parent_id", execution.c.parent_id)
Index("ix_execution_function", execution.c.function, execution.c.id)

attempt = Table(
    "attempt",
    metadata,
    Column("execution_id", Id, ForeignKey("execution.id"), primary_key=True),
    Column("fence", sa.Integer, primary_key=True),
    Column("number", sa.Integer, nullable=False),
    Column("worker_id", Words, nullable=False),
    Column("isolation", sa.String(16)),
    # How it was confined: version's hash, environment, grants, limits.
    Column("sandbox", Json),
    Column("started_at", Instant, nullable=False),
    Column("ended_at", Instant),
    Column("outcome", sa.String(16)),  # succeeded, failed, timed_out, crashed, lost, released, cancelled
    Column("error", Json),
    Column("duration_seconds", sa.Float),
    Column("waited_seconds", sa.Float),
    # From its dispatch to its claim: what the dispatcher's patience is measured by.
    Column("queued_seconds", sa.Float),
)

span = Table(
    "span",
    metadata,
    Column("execution_id", Id, ForeignKey("execution.id"), primary_key=True),
    Column("fence", sa.Integer, primary_key=True),
    Column("seq", sa.Integer, primary_key=True),
    Column("parent_seq", sa.Integer),
    Column("function", sa.String(200), nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("input", Json),
    Column("output", Json),
    Column("error", Json),
    Column("offset_seconds", sa.Float, nullable=False),
    Column("duration_seconds", sa.Float),
)

log = Table(
    "log",
    metadata,
    Column("execution_id", Id, ForeignKey("execution.id"), primary_key=True),
    Column("fence", sa.Integer, primary_key=True),
    Column("seq", sa.Integer, primary_key=True),
    Column("stream", sa.String(8), nullable=False),  # stdout, stderr, log
    Column("level", sa.String(8), nullable=False),
    Column("text", Words, nullable=False),
    Column("offset_seconds", sa.Float, nullable=False),
)

# What is to be undone because an execution (the saga) failed for good: one row a step, the newest step first.
compensation = Table(
    "compensation",
    metadata,
    Column("saga_id", Id, ForeignKey("execution.id"), primary_key=True),
    Column("position", sa.Integer, primary_key=True),  # 1 is undone first
    # The step: an execution, or with fence and seq one of its spans.
    Column("step_id", Id, ForeignKey("execution.id"), nullable=False),
    Column("step_fence", sa.Integer, nullable=False, server_default="0", default=0),
    Column("step_seq", sa.Integer, nullable=False, server_default="0", default=0),
    Column("function", sa.String(200), nullable=False),  # the step's
    Column("compensate", sa.String(220), nullable=False),  # name or name@number of what undoes it
    Column("state", sa.String(16), nullable=False),  # waiting, pending, running, done, failed, skipped
    Column("execution_id", Id),  # the newest that undoes it
    Column("problem", Words),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    # Whatever fails around it: a step is undone once.
    UniqueConstraint("step_id", "step_fence", "step_seq"),
)
_open(
    "ix_compensation_open",
    compensation,
    [compensation.c.saga_id],
    "state IN ('waiting', 'pending', 'running')",
)

budget = Table(
    "budget",
    metadata,
    Column("root_id", Id, primary_key=True),
    Column("used", sa.Integer, nullable=False),
    Column("maximum", sa.Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
)

secret = Table(
    "secret",
    metadata,
    Column("name", sa.String(200), primary_key=True),
    Column("sealed", sa.LargeBinary, nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)

rate = Table(
    "rate",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("subject", sa.String(32), primary_key=True),  # a hash; empty without a subject
    Column("next_at", Instant, nullable=False),
)

breaker = Table(
    "breaker",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("trips", sa.Integer, nullable=False),
    Column("since", Instant, nullable=False),
    Column("open_until", Instant),
)

# What one root's suppressions come to, so that a bomb is one line with a count.
suppression = Table(
    "suppression",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("root_id", Id, primary_key=True),
    Column("reason", sa.String(32), primary_key=True),
    Column("count", sa.Integer, nullable=False),
    Column("first_event_id", Id, nullable=False),
    Column("first_at", Instant, nullable=False),
    Column("last_at", Instant, nullable=False),
)

# Switches that stop a part of the engine: a row that is there is a switch that is thrown.
switch = Table(
    "switch",
    metadata,
    Column("name", sa.String(64), primary_key=True),
    Column("note", Words),
    Column("author", Words, nullable=False),
    Column("time", Instant, nullable=False),
)

# What operators did, and what was allowed or widened: who, when, what, to which thing.
audit = Table(
    "audit",
    metadata,
    Column("id", Id, primary_key=True),
    Column("time", Instant, nullable=False),
    Column("author", Words, nullable=False),
    Column("action", sa.String(64), nullable=False),
    Column("subject", Words, nullable=False),
    Column("data", Json),
)

state = Table(
    "state",
    metadata,
    Column("function", sa.String(200), primary_key=True),
    Column("key", sa.String(255), primary_key=True),
    Column("value", Json(null=True), nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("updated_at", Instant, nullable=False),
)

worker = Table(
    "worker",
    metadata,
    Column("id", sa.String(200), primary_key=True),
    Column("slots", sa.Integer, nullable=False),
    Column("isolation", sa.String(16), nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
)

# Where events come from, of every kind: what is configured, who runs it now, and how far it has got.
source = Table(
    "source",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kind", sa.String(32), nullable=False),  # schedule, file, webhook, table, queue, or a plug-in's
    Column("name", sa.String(200), nullable=False),
    Column("state", sa.String(16), nullable=False),  # enabled, paused, deleted
    Column("version", sa.Integer, nullable=False),
    Column("config", Json, nullable=False),
    Column("note", Words),
    Column("author", Words, nullable=False),
    # The counter's value at the last change, as with triggers.
    Column("changed", sa.BigInteger, nullable=False, index=True),
    # One process runs a source at a time; it keeps the lease while it does.
    Column("holder", Words),
    Column("fence", sa.Integer, nullable=False, default=0),
    Column("lease_until", Instant),
    Column("cursor", Json(null=True), nullable=False),  # how far it has read; its kind knows the form
    Column("problem", Words),  # what is wrong at present
    Column("problem_at", Instant),
    Column("last_event_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("kind", "name"),
)

# What sources have taken in already, by the key that each arrival has by nature (a delivery id, an offset).
receipt = Table(
    "receipt",
    metadata,
    Column("source_id", Id, ForeignKey("source.id"), primary_key=True),
    Column("key", sa.String(255), primary_key=True),
    Column("event_id", Id, nullable=False),
    Column("time", Instant, nullable=False),
)
Index("ix_receipt_time", receipt.c.time)

# When a schedule is due next. A row of its own, so that a tick rewrites little.
schedule = Table(
    "schedule",
    metadata,
    Column("source_id", Id, ForeignKey("source.id"), primary_key=True),
    Column("version", sa.Integer, nullable=False),  # of the source, whose configuration this follows
    Column(
        "timing", sa.String(64), nullable=False
    ),  # hash of what says when: a change of anything else keeps next_at
    Column("next_at", Instant),  # with its jitter; none when it is paused or over
    Column("fire_at", Instant),  # the time in the calendar that next_at stands for
    Column("last_at", Instant),  # the time in the calendar that was decided about last
    Column("missed", sa.BigInteger, nullable=False, default=0),
    # Executions of its ticks that fail after this pause it; none when it is not to be paused.
    Column("watched_from", Instant),
)
_open("ix_schedule_due", schedule, [schedule.c.next_at], "next_at IS NOT NULL")
_open("ix_schedule_watched", schedule, [schedule.c.watched_from], "watched_from IS NOT NULL")

schedule_tick = Table(
    "schedule_tick",
    metadata,
    Column("schedule_id", Id, ForeignKey("source.id"), primary_key=True),
    Column("fire_time_utc", Instant, primary_key=True),
    Column("event_id", Id, nullable=False),
    Column("origin", sa.String(16), nullable=False),  # calendar, backfill, manual
    Column("time", Instant, nullable=False),
)
Index("ix_schedule_tick_event_id", schedule_tick.c.event_id)
Index("ix_schedule_tick_time", schedule_tick.c.time)

# The files that a watch knows, by their path below its root. Paths are keyed by a hash: they are longer than an
# index takes. They are bytes, as the file system has them, in any encoding or none.
file_seen = Table(
    "file_seen",
    metadata,
    Column("source_id", Id, ForeignKey("source.id"), primary_key=True),
    Column("path_sha256", sa.String(64), primary_key=True),
    Column("path", sa.LargeBinary, nullable=False),
    Column("size", sa.BigInteger, nullable=False),
    Column("mtime_ns", sa.BigInteger, nullable=False),
    Column("ctime_ns", sa.BigInteger, nullable=False),
    Column("inode", sa.String(48), nullable=False),  # device and inode: a rename keeps them
    Column("sha256", sa.String(64)),  # none for a file that is too large to be read or cannot be
    Column("problem", Words),  # why it could not be read
    Column("seen_at", Instant, nullable=False),
)
Index("ix_file_seen_inode", file_seen.c.source_id, file_seen.c.inode)

# What executions left in files that they may write, so that a watch knows whose work it sees.
file_written = Table(
    "file_written",
    metadata,
    Column("path_sha256", sa.String(64), primary_key=True),
    Column("content", sa.String(64), primary_key=True),  # its SHA-256; of a large file its size and time
    Column("execution_id", Id, primary_key=True),
    Column("time", Instant, nullable=False),
)
Index("ix_file_written_time", file_written.c.time)

# Matches that wait, per trigger and key, for more events or for time to pass: debounce, batch, composites.
bucket = Table(
    "bucket",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("key", sa.String(32), primary_key=True),  # a hash; empty without a key
    Column("text", Words, nullable=False),  # the key as people read it
    Column(
        "kind", sa.String(16), nullable=False, server_default="debounce", default="debounce"
    ),  # debounce, batch, composite
    Column("opened_at", Instant, nullable=False),
    Column("due_at", Instant),  # when it is looked at next; none when only an event can change it
    Column("memory", Json(null=True), nullable=False),  # what a composite keeps beyond its events
    # How many matches wait in it, and the bytes of their data where they count.
    Column("count", sa.Integer, nullable=False, server_default="0", default=0),
    Column("bytes", sa.BigInteger, nullable=False, server_default="0", default=0),
    # How often it was decided about: a match with the same number has not been looked at yet.
    Column("round", sa.Integer, nullable=False, server_default="0", default=0),
    # What the trigger's ``changed`` was when it was decided about last.
    Column("changed", sa.BigInteger, nullable=False, server_default="0", default=0),
)
_open("ix_bucket_due", bucket, [bucket.c.due_at], "due_at IS NOT NULL")

hold = Table(
    "hold",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("event_id", Id, primary_key=True),
    Column(
        "part", sa.Integer, nullable=False
    ),  # the first part of a composite that it matches; 0 for all others
    Column(
        "parts", sa.Integer, nullable=False, server_default="1", default=1
    ),  # a bit for each part that it matches
    Column("key", sa.String(32), nullable=False),
    Column("trigger_version", sa.Integer, nullable=False),
    Column("event_time", Instant, nullable=False),
    Column("bytes", sa.Integer, nullable=False),
    Column("round", sa.Integer, nullable=False, server_default="0", default=0),
    Column("root_id", Id, nullable=False),
    Column("time", Instant, nullable=False),
)
Index("ix_hold_bucket", hold.c.trigger_id, hold.c.key, hold.c.event_id)

# A lane lets so many executions of one key run at a time. Its row is what is locked to decide.
lane = Table(
    "lane",
    metadata,
    Column("key", sa.String(32), primary_key=True),  # a hash of scope, owner and value
    Column("text", Words, nullable=False),  # the same as people read it
    Column("capacity", sa.Integer, nullable=False),  # as the newest in it has it; each keeps its own
)

# An execution's place in a lane: it waits until taken_at is set, and gives the row back when it ends.
slot = Table(
    "slot",
    metadata,
    Column("lane", sa.String(32), primary_key=True),
    Column("execution_id", Id, ForeignKey("execution.id"), primary_key=True),
    Column("rule", sa.Integer, nullable=False),  # which limit of its trigger: engine.lanes
    Column("capacity", sa.Integer, nullable=False),  # it waits until so few others are in
    Column("position", Id, nullable=False),  # the event's id: the order of the line
    Column("queue_at", Instant, nullable=False),  # the event's time, moved by its priority
    Column("taken_at", Instant),
)
_open("ix_slot_waiting", slot, [slot.c.lane, slot.c.queue_at, slot.c.position], "taken_at IS NULL")
_open("ix_slot_taken", slot, [slot.c.lane], "taken_at IS NOT NULL")
Index("ix_slot_execution_id", slot.c.execution_id)

# GCRA's moment of a throttle or a rate limit (the rate guard has a table of its own).
pace = Table(
    "pace",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("control", sa.String(16), primary_key=True),  # throttle, rate_limit
    Column("key", sa.String(32), primary_key=True),
    Column("text", Words, nullable=False),
    Column("next_at", Instant, nullable=False),
    Column("dropped", sa.BigInteger, nullable=False),
)
Index("ix_pace_next_at", pace.c.next_at)

# Keys that a trigger has run for already, until they are forgotten.
once = Table(
    "once",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("key", sa.String(32), primary_key=True),
    Column("text", Words, nullable=False),
    Column("event_id", Id, nullable=False),
    Column("expires_at", Instant, nullable=False),
)
Index("ix_once_expires_at", once.c.expires_at)

# Events that cancel what a trigger has started before them, until that is done.
cancellation = Table(
    "cancellation",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("event_id", Id, primary_key=True),
    Column("rule", sa.Integer, primary_key=True),  # which of the trigger's cancel-on rules
    Column("time", Instant, nullable=False),
)

# What the invariants came to when they were asked last (engine.invariants.watch).
verification = Table(
    "verification",
    metadata,
    Column("code", sa.String(8), primary_key=True),  # I1 … I15
    Column("count", sa.BigInteger, nullable=False),
    Column("examples", Json, nullable=False),
    Column("time", Instant, nullable=False),
)
