"""Gauges of language models: calls that are open, models that do not answer, and what is spent today."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from functory.engine.agents import call_queue, meters, model_admission, models
from functory.engine.agents.money import NANO
from functory.engine.database.schema import llm_call, model_health
from functory.engine.database.transaction import Tx
from functory.engine.settings import Settings

# Name, help, and label.
FAMILIES: tuple[tuple[str, str, str], ...] = (
    (
        "llm_open_calls",
        "Calls of language models that have not ended: queued, or sent by a gateway.",
        "state",
    ),
    ("llm_oldest_queued_seconds", "Age of the oldest call of a language model that may be sent.", ""),
    ("gateway_up", "Gateways that have renewed their row within a lease.", ""),
    (
        "llm_breaker_open",
        "1 for a language model that failed too often and is asked again later, 0 for the others.",
        "model",
    ),
    (
        "llm_day_dollars",
        "US dollars of all trees today (UTC): spent, reserved by calls that are sent, and the limit.",
        "part",
    ),
    (
        "llm_quota_used_ratio",
        "The most used quota of today, by scope: all, key, agent, user. What is reserved counts.",
        "scope",
    ),
)


def values(tx: Tx, settings: Settings) -> dict[str, Mapping[str, float]]:
    """Return the values of each family by its label, ``""`` where it has none."""
    open_calls = {
        state: tx.scalar(sa.select(sa.func.count()).where(llm_call.c.state == state)) or 0
        for state in ("queued", "sent")
    }
    due = tx.scalar(sa.select(sa.func.min(llm_call.c.due_at)).where(llm_call.c.state == "queued"))
    age = 0.0 if due is None else max(0.0, (tx.now - due).total_seconds())
    return {
        "llm_open_calls": open_calls,
        "llm_oldest_queued_seconds": {"": age},
        "gateway_up": {"": len(call_queue.gateways(tx))},
        "llm_breaker_open": _breakers(tx),
        **_spending(tx, settings),
    }


def _breakers(tx: Tx) -> dict[str, float]:
    healths = {row["model"]: model_admission.Health.of(row) for row in tx.rows(sa.select(model_health))}
    known = models.load_all(tx)
    return {
        name: float(name in healths and healths[name].open_until is not None)
        for name in sorted(known)
        if known[name]["state"] == "enabled"
    }


def _spending(tx: Tx, settings: Settings) -> dict[str, Mapping[str, float]]:
    found = meters.quotas_today(tx, settings)
    # The quota of all is never missing: without one of its own, a setting is its limit.
    (whole,) = (row for row in found if row["scope"] == "all")
    dollars = {
        "spent": whole["usd_spent"] / NANO,
        "reserved": whole["usd_reserved"] / NANO,
    }
    if whole["usd"] is not None:
        dollars["limit"] = whole["usd"] / NANO
    used: dict[str, float] = dict.fromkeys(meters.SCOPES, 0.0)
    for row in found:
        used[row["scope"]] = max(used[row["scope"]], *_shares(row))
    return {"llm_day_dollars": dollars, "llm_quota_used_ratio": used}


def _shares(row: Mapping[str, int | None]) -> list[float]:
    """Return the used share of each limit of a quota. One of zero was set to allow nothing: it counts as unused."""
    limits = {name: row[name] for name in ("usd", "tokens")} | {"calls": row["calls_limit"]}
    used = {name: (row[f"{name}_spent"] or 0) + (row[f"{name}_reserved"] or 0) for name in ("usd", "tokens")}
    used["calls"] = row["calls"] or 0
    return [0.0, *(used[name] / limit for name, limit in limits.items() if limit)]
