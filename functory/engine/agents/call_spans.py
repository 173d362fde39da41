"""Spans of calls of language models, for traces. Pure.

A span has names, states and numbers, and never a prompt or an answer. Its attributes are those of OpenTelemetry for
generative AI (https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/) where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.engine.telemetry.trace_context import attempt_span, execution_span, span_id
from functory.engine.telemetry.traces import Span

Row = Mapping[str, Any]


def of_calls(rows: Sequence[Row]) -> list[Span]:
    """Return the span of each call that has ended (its row), from when it was asked for."""
    return [_of_call(row) for row in rows]


def _of_call(row: Row) -> Span:
    return Span(
        row["root_id"],
        span_id("model call", row["id"]),
        _parent(row),
        f"model {row['asked']}",
        row["created_at"],
        max(row["ended_at"], row["created_at"]),
        {
            "functory.call.id": row["id"],
            "functory.state": row["state"],
            "functory.tries": row["tries"],
            "gen_ai.operation.name": "embeddings" if row["kind"] == "embed" else row["kind"],
            "gen_ai.request.model": row["asked"],
            "gen_ai.usage.input_tokens": row["tokens_in"],
            "gen_ai.usage.output_tokens": row["tokens_out"],
        },
        "client",
        error=None if row["state"] == "succeeded" else row["state"],
    )


def _parent(row: Row) -> str | None:
    """The attempt whose code asked; the execution of a step, which has ended when its call is sent."""
    if row["execution_id"] is None:
        return None
    if row["fence"] is None:
        return execution_span(row["execution_id"])
    return attempt_span(row["execution_id"], row["fence"])
