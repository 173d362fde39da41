"""Rows of canaries: versions of functions that get a share of the executions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from functory.rows.base import Body, Instant, Number, Row


class CanaryCounts(Row):
    """Units of one version. A unit is a causal tree, or a subject of events."""

    units: int
    failed: int = Field(description="Units of which an execution failed.")
    attempt_failed: int = Field(description="Units of which an attempt failed.")
    left_out: int = Field(description="Units that were cancelled or expired. They say nothing.")


class CanaryArms(Row):
    """Units of both versions."""

    base: CanaryCounts
    canary: CanaryCounts


class Canary(Row):
    """A canary. Its ``version`` gets a share of the executions of the function, and ``base`` the others."""

    id: str
    function: str
    version: int
    base: int
    state: Literal["open", "held", "promoted", "rolled_back", "stopped"]
    reason: str | None = Field(description="Why it is in this state.")
    share: float = Field(description="From 0.01 to 0.5.")
    unit: Literal["root", "subject"] = Field(
        description="What keeps one version: a causal tree, or the subject of the event."
    )
    counts: CanaryArms
    evidence: float = Field(description="How much likelier the results are if the version is worse.")
    unmet: list[str] = Field(description="What is missing for a promotion.")
    proposal_id: str | None
    author: str
    started_at: Instant
    deadline: Instant = Field(description="Then it waits for a person.")
    decided_at: Instant | None
    decided_by: str | None


class NewCanary(Body):
    """A version that shall get a share of the executions of its function."""

    function: str
    version: Number
    share: float = Field(default=0.1, description="From 0.01 to 0.5.")
    unit: Literal["root", "subject"] = "root"
    hours: float = Field(default=72.0, description="Hours until it waits for a person: at most 720.")


class CanaryAdvance(Body):
    """A larger share, more time, or neither for a canary that is held."""

    share: float | None = None
    hours: float | None = Field(default=None, description="Hours from now, at most 720.")


class CanaryReason(Body):
    """Why a person decides this."""

    reason: str = Field(default="", max_length=4000)
