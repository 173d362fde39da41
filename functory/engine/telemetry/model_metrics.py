"""Metric families of language models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from functory.engine.telemetry.registry import counter, gauge, histogram

_ON = ("gateway",)
# The scheduler ends calls whose gateway is gone.
_ENDED_ON = ("gateway", "scheduler")
_NANO = 1_000_000_000

llm_calls = counter(
    "functory_llm_calls_total",
    "Ended calls of language models, by the model that was asked last and by state: succeeded, failed, refused (by a "
    "limit), unknown (the answer was lost).",
    "model",
    "state",
    on=_ENDED_ON,
)
llm_tries = counter(
    "functory_llm_tries_total",
    "Requests that were sent to language models, by what came of them: answered, retry (nothing, and later there may "
    "be), final (the request is wrong), lost (the answer is unknown).",
    "model",
    "outcome",
    on=_ON,
)
llm_tokens = counter(
    "functory_llm_tokens_total", "Tokens of language models: in and out.", "model", "direction", on=_ON
)
llm_cost = counter(
    "functory_llm_cost_dollars_total",
    "US dollars that ended calls of language models have cost; an unknown one costs what it could at most.",
    "model",
    on=_ENDED_ON,
)
llm_seconds = histogram(
    "functory_llm_try_seconds",
    "Time of one request to a language model.",
    "model",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600),
    on=_ON,
)
gateway_open_calls = gauge("functory_gateway_open_calls", "Calls that this gateway has sent.", on=_ON)
llm_refused = counter(
    "functory_llm_refused_total",
    "Calls of language models that a limit did not allow, by limit and by whose limit it is.",
    "limit",
    "whose",
    on=_ON,
)


def count_ended(rows: Iterable[Mapping[str, Any]]) -> None:
    """Count calls that have ended, by their rows or changes, after the commit."""
    for row in rows:
        llm_calls.labels(row["asked"], row["state"]).inc()
        llm_cost.labels(row["asked"]).inc(row["cost"] / _NANO)
        limit = (row["error"] or {}).get("limit")
        if limit is not None:
            # The quota of an agent is "agent NAME": names are no labels.
            llm_refused.labels(limit["limit"], limit["whose"].split(" ")[0]).inc()
