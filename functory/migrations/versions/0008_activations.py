"""Which version of a function was active when, and what else this schema adds to the one before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from alembic import op

from functory.engine.database.clock import new_id
from functory.engine.database.schema.column_types import Id, Instant, Json, Words
from functory.migrations import event_queues, execution_queues

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_modules()
    _create_activations()
    _fill_activations()
    _index_replays()
    # An execution carries its throttle, for claims to take its tokens. What is queued already starts as before.
    op.add_column("execution", sa.Column("throttle", Json(), nullable=True))
    event_queues.create()
    _create_trigger_failures()
    op.add_column("suppression", sa.Column("resumed", sa.Integer(), server_default="0", nullable=False))
    _add_usual_rates()
    _create_clock()
    execution_queues.create()


def downgrade() -> None:
    execution_queues.drop()
    op.drop_table("clock")
    op.drop_table("trigger_failure")
    op.drop_column("execution", "throttle")
    event_queues.drop()
    op.drop_column("suppression", "resumed")
    op.drop_column("breaker", "usual_until")
    op.drop_column("breaker", "usual_rate")
    op.drop_index("ix_execution_replay_of", table_name="execution")
    op.drop_table("version_mark")
    op.drop_table("activation")
    op.drop_table("version_module")
    op.drop_table("module")


def _add_usual_rates() -> None:
    op.add_column("breaker", sa.Column("usual_rate", sa.Integer(), nullable=True))
    op.add_column("breaker", sa.Column("usual_until", Instant(), nullable=True))


def _create_clock() -> None:
    op.create_table(
        "clock",
        sa.Column("name", sa.String(length=16), nullable=False),
        sa.Column("reached_at", Instant(), nullable=False),
        sa.Column("ahead", sa.BigInteger(), nullable=False),
        sa.Column("since", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_clock")),
    )


def _create_modules() -> None:
    op.create_table(
        "module",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("source", Words(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_module")),
    )
    op.create_table(
        "version_module",
        sa.Column("version_id", Id, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["version_id"],
            ["function_version.id"],
            name=op.f("fk_version_module_version_id_function_version"),
        ),
        sa.ForeignKeyConstraint(["sha256"], ["module.sha256"], name=op.f("fk_version_module_sha256_module")),
        sa.PrimaryKeyConstraint("version_id", "name", name=op.f("pk_version_module")),
    )


def _create_activations() -> None:
    op.create_table(
        "activation",
        sa.Column("id", Id, nullable=False),
        sa.Column("function_id", Id, nullable=False),
        sa.Column("function", sa.String(length=200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("previous", sa.Integer(), nullable=True),
        sa.Column("reason", sa.String(length=16), nullable=False),
        sa.Column("proposal_id", Id, nullable=True),
        sa.Column("author", Words(), nullable=False),
        sa.Column("cause_execution_id", Id, nullable=True),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.Column("ended_by", Words(), nullable=True),
        sa.ForeignKeyConstraint(
            ["function_id"], ["function.id"], name=op.f("fk_activation_function_id_function")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_activation")),
    )
    open_ = sa.text("ended_at IS NULL")
    op.create_index(
        "uq_activation_open",
        "activation",
        ["function_id"],
        unique=True,
        postgresql_where=open_,
        sqlite_where=open_,
    )
    op.create_index("ix_activation_function_id", "activation", ["function_id", "at"], unique=False)
    op.create_table(
        "version_mark",
        sa.Column("function_id", Id, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("mark", sa.String(length=16), nullable=False),
        sa.Column("reason", Words(), nullable=False),
        sa.Column("by", Words(), nullable=False),
        sa.Column("canary_id", Id, nullable=True),
        sa.Column("at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(
            ["function_id"], ["function.id"], name=op.f("fk_version_mark_function_id_function")
        ),
        sa.PrimaryKeyConstraint("function_id", "version", name=op.f("pk_version_mark")),
    )


def _fill_activations() -> None:
    """Write the history that the events of functions still know; what they do not know begins at the last change."""
    connection = op.get_bind()
    functions = sa.table(
        "function",
        sa.column("id", Id),
        sa.column("name", sa.String),
        sa.column("state", sa.String),
        sa.column("active", sa.Integer),
        sa.column("updated_at", Instant),
    )
    events = sa.table(
        "event",
        sa.column("id", Id),
        sa.column("type", sa.String),
        sa.column("subject", sa.String),
        sa.column("time", Instant),
        sa.column("data", Json),
        sa.column("cause_execution_id", Id),
    )
    activations = sa.table(
        "activation",
        sa.column("id", Id),
        *(sa.column(name, Id) for name in ("function_id", "proposal_id", "cause_execution_id")),
        *(sa.column(name, sa.Integer) for name in ("version", "previous")),
        *(sa.column(name, sa.String) for name in ("function", "reason", "author", "ended_by")),
        *(sa.column(name, Instant) for name in ("at", "ended_at")),
    )
    types = [f"function.{verb}" for verb in ("created", "updated", "activated", "deleted")]
    changes = connection.execute(
        sa.select(events).where(events.c.type.in_(types)).order_by(events.c.subject, events.c.id)
    ).mappings()
    by_name = {
        name: [dict(row) for row in rows] for name, rows in groupby(changes, key=lambda row: row["subject"])
    }
    for row in connection.execute(sa.select(functions)).mappings().all():
        history = _history(dict(row), by_name.get(row["name"], ()))
        if history:
            connection.execute(sa.insert(activations), history)


def _history(function: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the activations of a function, the oldest first; the last one is open while a version is active."""
    found: list[dict[str, Any]] = []

    def end(at: datetime, by: str) -> None:
        if found and found[-1]["ended_at"] is None:
            found[-1] |= {"ended_at": max(at, found[-1]["at"]), "ended_by": by}

    def begin(version: int, at: datetime, reason: str, author: str, cause: str | None = None) -> None:
        previous = found[-1]["version"] if found and found[-1]["ended_at"] is None else None
        if previous == version:
            return
        end(at, author)
        found.append(
            {
                "id": new_id(),
                "function_id": function["id"],
                "function": function["name"],
                "version": version,
                "previous": previous,
                "reason": reason,
                "proposal_id": None,
                "author": author,
                "cause_execution_id": cause,
                "at": at,
                "ended_at": None,
                "ended_by": None,
            }
        )

    for event in events:
        data = event["data"] if isinstance(event["data"], dict) else {}
        author, number = str(data.get("author", "")), data.get("version")
        if event["type"] == "function.deleted":
            end(event["time"], author)
        elif isinstance(number, int) and (event["type"] == "function.activated" or data.get("active")):
            begin(number, event["time"], _reason(event["type"], data), author, event["cause_execution_id"])
    if function["state"] == "deleted" or function["active"] is None:
        end(function["updated_at"], "")
    else:
        begin(function["active"], function["updated_at"], "restore", "")
    return found


def _reason(type_: str, data: Mapping[str, Any]) -> str:
    """Return the reason of an activation by its event. A rollback went to a lower number and did not say its name."""
    if type_ != "function.activated":
        return "save"
    return "rollback" if data["version"] < (data.get("previous_version") or 0) else "activate"


def _index_replays() -> None:
    """An execution shows the retry of it that succeeded."""
    again = sa.text("replay_of IS NOT NULL")
    op.create_index(
        "ix_execution_replay_of",
        "execution",
        ["replay_of"],
        unique=False,
        postgresql_where=again,
        sqlite_where=again,
    )


def _create_trigger_failures() -> None:
    """Failures of the time before are in the firings."""
    op.create_table(
        "trigger_failure",
        sa.Column("trigger_id", Id, nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("count", "unreported", "version")),
        sa.Column("event_id", Id, nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("error", Words(), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("reported_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("trigger_id", name=op.f("pk_trigger_failure")),
    )
