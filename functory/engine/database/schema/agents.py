"""Tables of agents and their runs.

A run is a row. Each of its steps is an execution; between two steps a run waits for rows: a call of a model, other
executions, a person. No process waits.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Table

from functory.engine.database.schema.column_types import Id, Instant, Json, State, Words
from functory.engine.database.schema.metadata import metadata, partial

# A step function with what it may use and spend. Runs keep the version with which they began.
agent = Table(
    "agent",
    metadata,
    Column("name", sa.String(200), primary_key=True),
    Column("state", State(("enabled", "disabled", "removed")), nullable=False),
    Column("version", sa.Integer, nullable=False),  # the newest
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)

agent_version = Table(
    "agent_version",
    metadata,
    Column("agent", sa.String(200), ForeignKey("agent.name"), primary_key=True),
    Column("number", sa.Integer, primary_key=True),
    Column("definition", Json, nullable=False),  # functory.engine.agents.agent_fields
    Column("sha256", sa.String(64), nullable=False),
    Column("author", Words, nullable=False),
    Column("created_at", Instant, nullable=False),
)

RUN_OPEN = ("running", "waiting_model", "waiting_children", "waiting_person", "waiting_proposal", "paused")
RUN_ENDED = ("succeeded", "failed", "stopped", "cancelled", "needs_human")

run = Table(
    "run",
    metadata,
    # That of its first execution.
    Column("id", Id, primary_key=True),
    Column("root_id", Id, nullable=False),
    # The run whose step waits for this one.
    Column("parent_run_id", Id),
    Column("agent", sa.String(200)),
    Column("agent_version", sa.Integer),
    Column("function", sa.String(200), nullable=False),
    # The definition of its agent's version: limits, tools, checks.
    Column("definition", Json, nullable=False),
    Column("goal", Words, nullable=False),
    # For whom: a quota of that user counts its spending.
    Column("user_name", sa.String(200)),
    Column("author", Words, nullable=False),
    Column("state", State((*RUN_OPEN, *RUN_ENDED)), nullable=False),
    # Why it was stopped: a limit, or a loop (functory.engine.agents.run_decisions.STOP_REASONS).
    Column("reason", sa.String(32)),
    Column("detail", Json),
    Column("step", sa.Integer, nullable=False),  # the number of the newest
    Column("errors", sa.Integer, nullable=False),  # in a row
    Column("memo", Json, nullable=False),
    # What the next step gets, as far as it is known: the calls that a run waits for, or what a paused run goes on with.
    Column("pending", Json),
    # Calls of tools that a person has allowed for the rest of the run (functory.engine.agents.tools).
    Column("allowed", Json, nullable=False),
    # A pause was asked for: no further step starts.
    Column("pause_requested_at", Instant),
    Column("waiting_since", Instant),
    Column("result", Json),
    # True when its checks have passed; NULL for an agent without checks.
    Column("checked", sa.Boolean),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("ended_at", Instant),
)
Index("ix_run_root_id", run.c.root_id)
Index("ix_run_agent", run.c.agent, run.c.id)
partial("ix_run_open", run, [run.c.id], "ended_at IS NULL")

run_step = Table(
    "run_step",
    metadata,
    Column("run_id", Id, ForeignKey("run.id"), primary_key=True),
    Column("number", sa.Integer, primary_key=True),
    # What it was given: start, again, model, tools, children, answer, checks, problem.
    Column("kind", sa.String(16), nullable=False),
    Column("execution_id", Id, nullable=False, unique=True),
    # What the progress detectors look at (functory.engine.agents.progress): hashes of what it was given, of its plan,
    # of the error in what it was given, and of what it asked for; True for a step that asked for a pause.
    Column("given_hash", sa.String(64)),
    Column("plan_hash", sa.String(64)),
    Column("error_hash", sa.String(64)),
    Column("asked_hash", sa.String(64)),
    Column("paused", sa.Boolean, nullable=False),
    Column("created_at", Instant, nullable=False),
)

# What a run waits for, one row each; deleted when it has ended.
run_wait = Table(
    "run_wait",
    metadata,
    Column("run_id", Id, ForeignKey("run.id"), primary_key=True),
    Column("target_id", Id, primary_key=True),
    Column("kind", sa.String(16), nullable=False),  # call, execution, run, approval, proposal
)
Index("ix_run_wait_target_id", run_wait.c.target_id)

APPROVAL_KINDS = ("ask", "tool", "proposal")

# What a person decides, once.
approval = Table(
    "approval",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kind", sa.String(16), nullable=False),  # one of APPROVAL_KINDS
    Column(
        "state",
        State(("pending", "approved", "edited", "rejected", "answered", "expired", "withdrawn")),
        nullable=False,
    ),
    Column("root_id", Id, nullable=False),
    Column("run_id", Id, ForeignKey("run.id")),
    Column("execution_id", Id),  # the step that asks
    Column("proposal_id", Id),  # what waits at the gate (functory.engine.database.schema.releases)
    Column("payload", Json, nullable=False),  # the question and its choices; the tool and its arguments
    Column("answer", Json),
    Column("feedback", Words),
    Column("decided_by", Words),
    Column("requested_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("decided_at", Instant),
)
partial("ix_approval_pending", approval, [approval.c.expires_at], "state = 'pending'")
Index("ix_approval_run_id", approval.c.run_id)
partial("ix_approval_proposal_id", approval, [approval.c.proposal_id], "proposal_id IS NOT NULL")
