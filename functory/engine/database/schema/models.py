"""Tables of language models: what is configured, each request to one, and what may be spent.

Money is whole nano-dollars (a billionth of a US dollar), so that sums are exact. Prices are nano-dollars for a million
tokens.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Table

from functory.engine.database.schema.column_types import Id, Instant, Json, State, Words
from functory.engine.database.schema.metadata import metadata, partial

# A model that functions may ask, under a name of our own.
model = Table(
    "model",
    metadata,
    Column("name", sa.String(200), primary_key=True),
    Column("state", State(("enabled", "disabled")), nullable=False),
    Column("adapter", sa.String(16), nullable=False),  # openai, litellm, script
    Column("provider_model", Words, nullable=False),  # the provider's name for it
    Column("api_base", Words),
    # The name of the secret that holds its key; NULL for one that needs none.
    Column("secret", sa.String(200)),
    # How it takes tools and schemas, and whether it streams (functory.engine.agents.model_fields).
    Column("capabilities", Json, nullable=False),
    # Tokens: of request and answer together, and of an answer.
    Column("context", sa.Integer, nullable=False),
    Column("max_output", sa.Integer, nullable=False),
    Column("price_in", sa.BigInteger, nullable=False),
    Column("price_out", sa.BigInteger, nullable=False),
    Column("price_cached", sa.BigInteger, nullable=False),
    # Calls and tokens of a minute; NULL where the provider has no such limit.
    Column("calls_per_minute", sa.Integer),
    Column("tokens_per_minute", sa.Integer),
    # Calls at the same time, of all gateways.
    Column("slots", sa.Integer, nullable=False),
    Column("timeout", sa.Float, nullable=False),  # seconds
    # Names of the models that are asked, in this order, when this one gives no answer.
    Column("fallbacks", Json, nullable=False),
    Column("note", Words, nullable=False),
    Column("author", Words, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)

# What gateways know about a model together: its circuit breaker and its rates. Apart from ``model``, because each call
# changes it.
model_health = Table(
    "model_health",
    metadata,
    Column("model", sa.String(200), ForeignKey("model.name"), primary_key=True),
    # Failures in a row, and how often in a row the breaker has opened.
    Column("failures", sa.Integer, nullable=False),
    Column("opened", sa.Integer, nullable=False),
    # The breaker is open until then; after that one call tries the model.
    Column("open_until", Instant),
    Column("trial_call_id", Id),
    Column("problem", Words),
    # Timelines of the rates (functory.engine.flow_control.rate_limits).
    Column("calls_allowed_at", Instant),
    Column("tokens_allowed_at", Instant),
)

# One request to a model, with its answer. State: queued, sent; succeeded, failed, unknown, refused, cancelled.
llm_call = Table(
    "llm_call",
    metadata,
    Column("id", Id, primary_key=True),
    Column("root_id", Id, nullable=False),
    Column("execution_id", Id),
    Column("function", sa.String(200), nullable=False),
    Column("fence", sa.Integer),
    # Who pays beside the root: the agent and the user, if there is one.
    Column("agent", sa.String(200)),
    Column("user_name", sa.String(200)),
    # The number of the request in its attempt, for people; ``nth`` of those of its attempt with the same content.
    Column("number", sa.Integer, nullable=False),
    Column("request_sha256", sa.String(64), nullable=False),
    Column("nth", sa.Integer, nullable=False),
    Column("kind", sa.String(8), nullable=False),  # chat, embed
    Column(
        "state",
        State(("queued", "sent", "succeeded", "failed", "unknown", "refused", "cancelled")),
        nullable=False,
    ),
    # The model that was asked for, and the one that was asked: a fallback may answer.
    Column("model", sa.String(200), nullable=False),
    Column("asked", sa.String(200), nullable=False),
    Column("stream", sa.Boolean, nullable=False),
    # Its messages and tools are in ``llm_content``; here are their hashes. NULL after the archive's time.
    Column("request", Json),
    Column("request_bytes", sa.Integer, nullable=False),
    Column("max_tokens", sa.Integer, nullable=False),
    Column("response", Json),
    Column("error", Json),
    Column("finish_reason", sa.String(32)),
    Column("tries", sa.Integer, nullable=False),
    # Tries of the model that is asked now.
    Column("model_tries", sa.Integer, nullable=False),
    # What waits for the next try: messages that ask for a better answer.
    Column("repair", Json),
    # Not sent before this time.
    Column("due_at", Instant, nullable=False),
    Column("reserved", sa.BigInteger, nullable=False),
    Column("reserved_tokens", sa.BigInteger, nullable=False),
    # The days and owners whose quotas hold the reservation.
    Column("quotas", Json, nullable=False),
    Column("cost", sa.BigInteger, nullable=False),
    Column("tokens_in", sa.BigInteger, nullable=False),
    Column("tokens_out", sa.BigInteger, nullable=False),
    Column("tokens_cached", sa.BigInteger, nullable=False),
    # True when the provider told no usage, so that the tokens are counted by us.
    Column("estimated", sa.Boolean, nullable=False),
    # The gateway that has sent it, and until when it is believed to be alive.
    Column("gateway", sa.String(200)),
    Column("lease_until", Instant),
    Column("created_at", Instant, nullable=False),
    Column("sent_at", Instant),
    Column("ended_at", Instant),
)
partial("ix_llm_call_queued", llm_call, [llm_call.c.asked, llm_call.c.due_at], "state = 'queued'")
partial("ix_llm_call_sent", llm_call, [llm_call.c.asked], "state = 'sent'")
Index("ix_llm_call_root_id", llm_call.c.root_id)
Index("ix_llm_call_model", llm_call.c.model, llm_call.c.id)
# A request of an execution is answered once, whatever its attempts.
partial(
    "uq_llm_call_answer",
    llm_call,
    [llm_call.c.execution_id, llm_call.c.request_sha256, llm_call.c.nth],
    "execution_id IS NOT NULL AND state IN ('queued', 'sent', 'succeeded')",
    unique=True,
)
partial("ix_llm_call_execution_id", llm_call, [llm_call.c.execution_id], "execution_id IS NOT NULL")

# Each time that a call was sent.
llm_try = Table(
    "llm_try",
    metadata,
    Column("call_id", Id, ForeignKey("llm_call.id"), primary_key=True),
    Column("number", sa.Integer, primary_key=True),
    Column("model", sa.String(200), nullable=False),
    Column("at", Instant, nullable=False),
    Column("status", sa.Integer),  # of HTTP
    Column("problem", Words),
    Column("retry_after", sa.Float),  # seconds
    Column("seconds", sa.Float, nullable=False),
    # What it has counted for: of an answer that was lost, what was reserved for it.
    Column("cost", sa.BigInteger, nullable=False),
    Column("tokens", sa.BigInteger, nullable=False),
)

# Messages and lists of tools of one tree, each once: a conversation of n steps would hold the first message n times.
llm_content = Table(
    "llm_content",
    metadata,
    Column("root_id", Id, primary_key=True),
    Column("sha256", sa.String(64), primary_key=True),
    Column("content", Json, nullable=False),
    Column("created_at", Instant, nullable=False),
)

# The text so far of an answer that streams; deleted when the call ends.
llm_partial = Table(
    "llm_partial",
    metadata,
    Column("call_id", Id, ForeignKey("llm_call.id"), primary_key=True),
    Column("text", Words, nullable=False),
    Column("at", Instant, nullable=False),
)

# The gateways that run: each renews its row.
gateway = Table(
    "gateway",
    metadata,
    Column("name", sa.String(200), primary_key=True),
    Column("started_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
    Column("calls", sa.Integer, nullable=False),  # that it waits for
)

# What a tree may spend, and has. Reserved: by calls that are sent.
meter = Table(
    "meter",
    metadata,
    Column("root_id", Id, primary_key=True),
    Column("usd_limit", sa.BigInteger, nullable=False),
    Column("usd_spent", sa.BigInteger, nullable=False),
    Column("usd_reserved", sa.BigInteger, nullable=False),
    Column("tokens_limit", sa.BigInteger, nullable=False),
    Column("tokens_spent", sa.BigInteger, nullable=False),
    Column("tokens_reserved", sa.BigInteger, nullable=False),
    Column("calls_limit", sa.BigInteger, nullable=False),
    Column("calls", sa.BigInteger, nullable=False),
    Column("tool_calls_limit", sa.BigInteger, nullable=False),
    Column("tool_calls", sa.BigInteger, nullable=False),
    Column("children_limit", sa.BigInteger, nullable=False),
    Column("children", sa.BigInteger, nullable=False),
    Column("proposals_limit", sa.BigInteger, nullable=False),
    Column("proposals", sa.BigInteger, nullable=False),
    Column("deadline_at", Instant, nullable=False),
    # When the events about a limit that comes near, and about one that was reached, were written.
    Column("warned_at", Instant),
    Column("exceeded_at", Instant),
    Column("created_at", Instant, nullable=False),
)

# What may be spent in a day (UTC): by all, with one key, by one agent, for one user.
quota = Table(
    "quota",
    metadata,
    Column("scope", State(("all", "key", "agent", "user")), primary_key=True),
    Column("name", sa.String(200), primary_key=True),
    # NULL: not limited by this quota.
    Column("usd", sa.BigInteger),
    Column("tokens", sa.BigInteger),
    Column("calls", sa.BigInteger),
    Column("author", Words, nullable=False),
    Column("updated_at", Instant, nullable=False),
)

quota_day = Table(
    "quota_day",
    metadata,
    Column("scope", State(("all", "key", "agent", "user")), primary_key=True),
    Column("name", sa.String(200), primary_key=True),
    Column("day", sa.Date, primary_key=True),
    Column("usd_spent", sa.BigInteger, nullable=False),
    Column("usd_reserved", sa.BigInteger, nullable=False),
    Column("tokens_spent", sa.BigInteger, nullable=False),
    Column("tokens_reserved", sa.BigInteger, nullable=False),
    Column("calls", sa.BigInteger, nullable=False),
    # When the events about a limit that comes near, and about one that was reached, were written.
    Column("warned_at", Instant),
    Column("exceeded_at", Instant),
)
