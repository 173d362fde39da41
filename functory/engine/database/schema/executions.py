"""Tables of executions, their attempts, spans and logs, and their compensations.

No index of ``execution``, and no condition of one, has a column that changes after the insert: PostgreSQL then updates
a row in place (HOT) and touches none of its indexes. What is found by its state is found through the tables of
:mod:`functory.engine.database.schema.queues`.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Table, UniqueConstraint

from functory.engine.database.schema.column_types import Id, Instant, Json, State, Words
from functory.engine.database.schema.metadata import metadata, partial

# An execution has three versions: queued, running, ended. All executions of a page are often claimed in one transaction
# and ended in another one. The second finds the space of the first versions free again, unless a transaction is open
# that began before the claim was committed; so a page has some room for third versions, too.
EXECUTION_FILLFACTOR = 40
# An attempt has two versions, and many of a page end in one transaction.
ATTEMPT_FILLFACTOR = 50

# Ends after which work is left to do. A cancelled execution was not wanted, and an expired one came too late.
BAD_ENDS = ("failed", "timed_out", "dead")
STATES = ("queued", "running", "succeeded", "failed", "timed_out", "cancelled", "dead", "expired")

execution = Table(
    "execution",
    metadata,
    Column("id", Id, primary_key=True),
    Column("function", sa.String(200), nullable=False),
    Column("version", sa.Integer, nullable=False),
    # Of this table and of attempts, invariants check the references: a key of the database locks the row that it refers
    # to with every insert.
    Column("version_id", Id, nullable=False),
    Column("cause", sa.String(16), nullable=False),  # manual, api, trigger, parent, replay, compensation
    Column("trigger_id", Id),
    Column("event_id", Id),
    Column("parent_id", Id),
    Column("replay_of", Id),
    Column("root_id", Id, nullable=False),
    Column("depth", sa.Integer, nullable=False),
    Column("chain", Json, nullable=False),
    Column("idempotency_key", sa.String(255)),
    Column("input", Json, nullable=False),
    Column("state", State(STATES), nullable=False),
    Column("attempt", sa.Integer, nullable=False, default=0),
    Column("failures", sa.Integer, nullable=False, default=0),
    Column("released", sa.Integer, nullable=False, default=0),
    Column("max_attempts", sa.Integer, nullable=False),
    Column("retries", sa.Integer, nullable=False),
    Column("fence", sa.Integer, nullable=False, default=0),
    Column("priority", sa.Integer, nullable=False, default=0),
    Column("run_at", Instant, nullable=False),
    # It has rows of table slot, which are deleted when it ends.
    Column("has_concurrency", sa.Boolean, nullable=False, server_default=sa.false(), default=False),
    # Of a throttled one: its throttle.
    Column("throttle", Json),
    Column("expires_at", Instant),
    Column("lease_until", Instant),
    Column("worker_id", Words),
    Column("cancel_requested_at", Instant),
    # Who cancelled it, or asked its worker to stop it.
    Column("cancelled_by", Words),
    # A child that is cancelled when its parent ends without success. NULL: it is left alone, or is no child.
    Column("ends_with_parent", sa.Boolean),
    Column("versions", Json),
    Column("result", Json),
    Column("result_kind", sa.String(8)),
    Column("warnings", Json),
    Column("error", Json),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    postgresql_with={"fillfactor": EXECUTION_FILLFACTOR},
)
# Most executions have no key, no parent and no original: they need no entry in these indexes.
partial(
    "uq_execution_idempotency_key",
    execution,
    [execution.c.idempotency_key],
    "idempotency_key IS NOT NULL",
    unique=True,
)
partial(
    "uq_execution_trigger_id_event_id",
    execution,
    [execution.c.trigger_id, execution.c.event_id],
    "trigger_id IS NOT NULL",
    unique=True,
)
Index("ix_execution_root_id", execution.c.root_id)
partial("ix_execution_parent_id", execution, [execution.c.parent_id], "parent_id IS NOT NULL")
partial("ix_execution_replay_of", execution, [execution.c.replay_of], "replay_of IS NOT NULL")
Index("ix_execution_function", execution.c.function, execution.c.id)

# Executions that ended badly, by their state: see functory.engine.executions.bad_ends.
bad_end = Table(
    "bad_end",
    metadata,
    Column("state", State(BAD_ENDS), primary_key=True),
    Column("execution_id", Id, primary_key=True),
)

# Cancels that have not reached everything below an execution yet: its children, or with ``whole_tree`` all that it
# caused.
open_cancel = Table(
    "open_cancel",
    metadata,
    Column("execution_id", Id, primary_key=True),
    Column("whole_tree", sa.Boolean, primary_key=True),
    Column("author", Words, nullable=False),
    Column("requested_at", Instant, nullable=False),
    # Of a whole tree: the pass over its open executions. The last one that was looked at, whether the pass has found
    # any, and an id that was new when it began: events from before are routed, or wait.
    Column("after_id", Id),
    Column("found", sa.Boolean, nullable=False, server_default=sa.false(), default=False),
    Column("pass_id", Id),
)

attempt = Table(
    "attempt",
    metadata,
    Column("execution_id", Id, primary_key=True),
    Column("fence", sa.Integer, primary_key=True),
    Column("number", sa.Integer, nullable=False),
    Column("worker_id", Words, nullable=False),
    Column("isolation", sa.String(16)),
    # Confinement of the attempt: version's hash, environment, grants, limits.
    Column("sandbox", Json),
    Column("started_at", Instant, nullable=False),
    Column("ended_at", Instant),
    Column(
        "outcome",
        State(("succeeded", "failed", "timed_out", "crashed", "lost", "released", "cancelled")),
    ),
    Column("error", Json),
    Column("duration_seconds", sa.Float),
    Column("waited_seconds", sa.Float),
    # Seconds from dispatch to claim; the redispatch delay is derived from it.
    Column("queued_seconds", sa.Float),
    postgresql_with={"fillfactor": ATTEMPT_FILLFACTOR},
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
    Column("state", State(("waiting", "pending", "running", "done", "failed", "skipped")), nullable=False),
    Column("execution_id", Id),  # the newest that undoes it
    Column("problem", Words),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    # Whatever fails around it: a step is undone once.
    UniqueConstraint("step_id", "step_fence", "step_seq"),
)
partial(
    "ix_compensation_open",
    compensation,
    [compensation.c.saga_id],
    "state IN ('waiting', 'pending', 'running')",
)
partial("ix_compensation_failed", compensation, [compensation.c.saga_id], "state = 'failed'")
