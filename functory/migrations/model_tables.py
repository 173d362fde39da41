"""The tables of language models in schema 0010: models, calls, meters and quotas."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Id, Instant, Json, Words


def create() -> None:
    """Create them."""
    _create_model()
    _create_model_health()
    _create_llm_call()
    _create_llm_try()
    _create_llm_content()
    _create_llm_partial()
    _create_gateway()
    _create_meter()
    _create_quota()
    _create_quota_day()


def drop() -> None:
    """Remove them."""
    op.drop_table("quota_day")
    op.drop_table("quota")
    op.drop_table("meter")
    op.drop_table("gateway")
    op.drop_table("llm_partial")
    op.drop_table("llm_content")
    op.drop_table("llm_try")
    op.drop_table("llm_call")
    op.drop_table("model_health")
    op.drop_table("model")


def _create_model() -> None:
    op.create_table(
        "model",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("adapter", sa.String(length=16), nullable=False),
        sa.Column("provider_model", Words(), nullable=False),
        sa.Column("api_base", Words(), nullable=True),
        sa.Column("secret", sa.String(length=200), nullable=True),
        sa.Column("capabilities", Json(), nullable=False),
        sa.Column("context", sa.Integer(), nullable=False),
        sa.Column("max_output", sa.Integer(), nullable=False),
        sa.Column("price_in", sa.BigInteger(), nullable=False),
        sa.Column("price_out", sa.BigInteger(), nullable=False),
        sa.Column("price_cached", sa.BigInteger(), nullable=False),
        sa.Column("calls_per_minute", sa.Integer(), nullable=True),
        sa.Column("tokens_per_minute", sa.Integer(), nullable=True),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("timeout", sa.Float(), nullable=False),
        sa.Column("fallbacks", Json(), nullable=False),
        sa.Column("note", Words(), nullable=False),
        sa.Column("author", Words(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_model")),
    )


def _create_model_health() -> None:
    op.create_table(
        "model_health",
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("opened", sa.Integer(), nullable=False),
        sa.Column("open_until", Instant(), nullable=True),
        sa.Column("trial_call_id", Id, nullable=True),
        sa.Column("problem", Words(), nullable=True),
        sa.Column("calls_allowed_at", Instant(), nullable=True),
        sa.Column("tokens_allowed_at", Instant(), nullable=True),
        sa.ForeignKeyConstraint(["model"], ["model.name"], name=op.f("fk_model_health_model_model")),
        sa.PrimaryKeyConstraint("model", name=op.f("pk_model_health")),
    )


def _create_llm_call() -> None:
    op.create_table(
        "llm_call",
        sa.Column("id", Id, nullable=False),
        sa.Column("root_id", Id, nullable=False),
        sa.Column("execution_id", Id, nullable=True),
        sa.Column("function", sa.String(length=200), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=True),
        sa.Column("agent", sa.String(length=200), nullable=True),
        sa.Column("user_name", sa.String(length=200), nullable=True),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("request_sha256", sa.String(length=64), nullable=False),
        sa.Column("nth", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("asked", sa.String(length=200), nullable=False),
        sa.Column("stream", sa.Boolean(), nullable=False),
        sa.Column("request", Json(), nullable=True),
        sa.Column("request_bytes", sa.Integer(), nullable=False),
        sa.Column("max_tokens", sa.Integer(), nullable=False),
        sa.Column("response", Json(), nullable=True),
        sa.Column("error", Json(), nullable=True),
        sa.Column("finish_reason", sa.String(length=32), nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("model_tries", sa.Integer(), nullable=False),
        sa.Column("repair", Json(), nullable=True),
        sa.Column("due_at", Instant(), nullable=False),
        sa.Column("reserved", sa.BigInteger(), nullable=False),
        sa.Column("reserved_tokens", sa.BigInteger(), nullable=False),
        sa.Column("quotas", Json(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.Column("tokens_in", sa.BigInteger(), nullable=False),
        sa.Column("tokens_out", sa.BigInteger(), nullable=False),
        sa.Column("tokens_cached", sa.BigInteger(), nullable=False),
        sa.Column("estimated", sa.Boolean(), nullable=False),
        sa.Column("gateway", sa.String(length=200), nullable=True),
        sa.Column("lease_until", Instant(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("sent_at", Instant(), nullable=True),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_llm_call")),
    )
    op.create_index(
        "ix_llm_call_execution_id",
        "llm_call",
        ["execution_id"],
        unique=False,
        postgresql_where=sa.text("execution_id IS NOT NULL"),
        sqlite_where=sa.text("execution_id IS NOT NULL"),
    )
    op.create_index("ix_llm_call_model", "llm_call", ["model", "id"], unique=False)
    op.create_index(
        "ix_llm_call_queued",
        "llm_call",
        ["asked", "due_at"],
        unique=False,
        postgresql_where=sa.text("state = 'queued'"),
        sqlite_where=sa.text("state = 'queued'"),
    )
    op.create_index("ix_llm_call_root_id", "llm_call", ["root_id"], unique=False)
    op.create_index(
        "ix_llm_call_sent",
        "llm_call",
        ["asked"],
        unique=False,
        postgresql_where=sa.text("state = 'sent'"),
        sqlite_where=sa.text("state = 'sent'"),
    )
    op.create_index(
        "uq_llm_call_answer",
        "llm_call",
        ["execution_id", "request_sha256", "nth"],
        unique=True,
        postgresql_where=sa.text("execution_id IS NOT NULL AND state IN ('queued', 'sent', 'succeeded')"),
        sqlite_where=sa.text("execution_id IS NOT NULL AND state IN ('queued', 'sent', 'succeeded')"),
    )


def _create_llm_try() -> None:
    op.create_table(
        "llm_try",
        sa.Column("call_id", Id, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("problem", Words(), nullable=True),
        sa.Column("retry_after", sa.Float(), nullable=True),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["call_id"], ["llm_call.id"], name=op.f("fk_llm_try_call_id_llm_call")),
        sa.PrimaryKeyConstraint("call_id", "number", name=op.f("pk_llm_try")),
    )


def _create_llm_content() -> None:
    op.create_table(
        "llm_content",
        sa.Column("root_id", Id, nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("content", Json(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("root_id", "sha256", name=op.f("pk_llm_content")),
    )


def _create_llm_partial() -> None:
    op.create_table(
        "llm_partial",
        sa.Column("call_id", Id, nullable=False),
        sa.Column("text", Words(), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["call_id"], ["llm_call.id"], name=op.f("fk_llm_partial_call_id_llm_call")),
        sa.PrimaryKeyConstraint("call_id", name=op.f("pk_llm_partial")),
    )


def _create_gateway() -> None:
    op.create_table(
        "gateway",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("started_at", Instant(), nullable=False),
        sa.Column("seen_at", Instant(), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_gateway")),
    )


def _create_meter() -> None:
    op.create_table(
        "meter",
        sa.Column("root_id", Id, nullable=False),
        sa.Column("usd_limit", sa.BigInteger(), nullable=False),
        sa.Column("usd_spent", sa.BigInteger(), nullable=False),
        sa.Column("usd_reserved", sa.BigInteger(), nullable=False),
        sa.Column("tokens_limit", sa.BigInteger(), nullable=False),
        sa.Column("tokens_spent", sa.BigInteger(), nullable=False),
        sa.Column("tokens_reserved", sa.BigInteger(), nullable=False),
        sa.Column("calls_limit", sa.BigInteger(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("tool_calls_limit", sa.BigInteger(), nullable=False),
        sa.Column("tool_calls", sa.BigInteger(), nullable=False),
        sa.Column("children_limit", sa.BigInteger(), nullable=False),
        sa.Column("children", sa.BigInteger(), nullable=False),
        sa.Column("proposals_limit", sa.BigInteger(), nullable=False),
        sa.Column("proposals", sa.BigInteger(), nullable=False),
        sa.Column("deadline_at", Instant(), nullable=False),
        sa.Column("warned_at", Instant(), nullable=True),
        sa.Column("exceeded_at", Instant(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("root_id", name=op.f("pk_meter")),
    )


def _create_quota() -> None:
    op.create_table(
        "quota",
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("usd", sa.BigInteger(), nullable=True),
        sa.Column("tokens", sa.BigInteger(), nullable=True),
        sa.Column("calls", sa.BigInteger(), nullable=True),
        sa.Column("author", Words(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "name", name=op.f("pk_quota")),
    )


def _create_quota_day() -> None:
    op.create_table(
        "quota_day",
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("usd_spent", sa.BigInteger(), nullable=False),
        sa.Column("usd_reserved", sa.BigInteger(), nullable=False),
        sa.Column("tokens_spent", sa.BigInteger(), nullable=False),
        sa.Column("tokens_reserved", sa.BigInteger(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("warned_at", Instant(), nullable=True),
        sa.Column("exceeded_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("scope", "name", "day", name=op.f("pk_quota_day")),
    )
