"""The tables, for PostgreSQL and SQLite alike.

Column names are the words of the docs. The migration scripts create these tables. Hot queries (pending events,
unpublished events, queued and running executions) read small tables or partial indexes, so that their cost depends on
open work and not on history.
"""

from __future__ import annotations

from functory.engine.database.schema.access import login, login_link, token, user_account
from functory.engine.database.schema.agents import agent, agent_version, approval, run, run_step, run_wait
from functory.engine.database.schema.canaries import canary, canary_execution
from functory.engine.database.schema.column_types import Id, Instant, Json, Words
from functory.engine.database.schema.events import event, firing, outbox, routing_queue
from functory.engine.database.schema.executions import (
    attempt,
    bad_end,
    compensation,
    execution,
    log,
    open_cancel,
    span,
)
from functory.engine.database.schema.flow_control import (
    buffered_match,
    cancellation,
    concurrency_group,
    idempotency_key,
    match_buffer,
    rate_limit,
    slot,
)
from functory.engine.database.schema.functions import (
    activation,
    environment,
    function,
    function_version,
    grant_approval,
    module,
    resolution,
    secret,
    state,
    version_mark,
    version_module,
)
from functory.engine.database.schema.jobs import backtest, batch
from functory.engine.database.schema.memory import annotation, embedding, memory
from functory.engine.database.schema.metadata import metadata
from functory.engine.database.schema.models import (
    gateway,
    llm_call,
    llm_content,
    llm_partial,
    llm_try,
    meter,
    model,
    model_health,
    quota,
    quota_day,
)
from functory.engine.database.schema.operations import audit, clock, counter, switch, verification, worker
from functory.engine.database.schema.queues import backlog, durable_call, in_flight
from functory.engine.database.schema.releases import gate_check, gate_policy, proposal
from functory.engine.database.schema.sources import (
    delivery_receipt,
    file_seen,
    file_write,
    schedule,
    schedule_tick,
    source,
)
from functory.engine.database.schema.tallies import tally
from functory.engine.database.schema.triggers import (
    breaker,
    budget,
    decided_by_version,
    suppression,
    trigger,
    trigger_failure,
    trigger_version,
)

__all__ = [
    "Id",
    "Instant",
    "Json",
    "Words",
    "metadata",
    "function",
    "function_version",
    "module",
    "version_module",
    "activation",
    "version_mark",
    "environment",
    "resolution",
    "grant_approval",
    "state",
    "secret",
    "trigger",
    "trigger_failure",
    "trigger_version",
    "decided_by_version",
    "budget",
    "breaker",
    "suppression",
    "event",
    "routing_queue",
    "outbox",
    "firing",
    "execution",
    "bad_end",
    "open_cancel",
    "backlog",
    "in_flight",
    "durable_call",
    "attempt",
    "span",
    "log",
    "compensation",
    "source",
    "delivery_receipt",
    "schedule",
    "schedule_tick",
    "file_seen",
    "file_write",
    "match_buffer",
    "buffered_match",
    "concurrency_group",
    "slot",
    "rate_limit",
    "idempotency_key",
    "cancellation",
    "counter",
    "switch",
    "audit",
    "worker",
    "verification",
    "clock",
    "user_account",
    "token",
    "login",
    "login_link",
    "backtest",
    "batch",
    "tally",
    "model",
    "model_health",
    "gateway",
    "llm_call",
    "llm_try",
    "llm_content",
    "llm_partial",
    "meter",
    "quota",
    "quota_day",
    "agent",
    "agent_version",
    "run",
    "run_step",
    "run_wait",
    "approval",
    "gate_policy",
    "proposal",
    "gate_check",
    "canary",
    "canary_execution",
    "memory",
    "embedding",
    "annotation",
]
