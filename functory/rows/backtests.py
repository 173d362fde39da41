"""Rows of backtests."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from functory.rows.base import Body, Instant, Row, Text


class BacktestRow(Row):
    """A backtest in a list. ``done`` of ``total`` events are decided about."""

    id: str
    trigger: str
    since: Instant
    author: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    total: int | None
    done: int
    problem: Text | None
    created_at: Instant
    finished_at: Instant | None


class Backtest(BacktestRow):
    """A backtest with its result. ``partial`` has that of the newest part of the time, while the whole runs."""

    draft: dict[str, Any] | None
    partial: dict[str, Any] | None
    result: dict[str, Any] | None


class BacktestCreate(Body):
    """A stored trigger, or a draft of one, and the time to begin with."""

    trigger: str = Field(default="draft", max_length=200)
    draft: dict[str, Any] | None = None
    since: str = Field(default="24h", description="RFC 3339, or a duration ago such as 24h.")
