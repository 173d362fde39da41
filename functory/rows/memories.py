"""Rows of memories: what agents, their runs and functions remember."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from functory.rows.base import Body, Instant, Row, Text


class Memory(Row):
    """A memory, and where it comes from."""

    id: str
    scope: Literal["run", "agent", "shared"]
    owner: str = Field(
        description="The id of the run, or the name of the agent; empty for what all code may read."
    )
    kind: Literal["fact", "episode", "lesson"]
    text: Text
    importance: float = Field(description="From 0 to 1.")
    source_execution_id: str | None = Field(description="The execution that wrote it; null for a person.")
    run_id: str | None = Field(description="The run that this execution worked for.")
    author: str
    untrusted: bool = Field(description="It was written by code that may read what others have written.")
    created_at: Instant
    expires_at: Instant | None


class FoundMemory(Memory):
    """A memory that fits a query."""

    score: float


class AddedMemory(Memory):
    """A memory that was stored; ``added`` is false for a text that was there, which became more important."""

    added: bool


class NewMemory(Body):
    """A text to remember: for an agent, for one run, or for all code."""

    text: str = Field(description="At most 16,384 bytes.")
    kind: Literal["fact", "episode", "lesson"] = "fact"
    agent: str | None = None
    run: str | None = Field(default=None, description="The id of a run, also a short one.")
    importance: float = Field(default=0.5, description="From 0 to 1.")
    days: float | None = Field(default=None, description="Days after which it is deleted; null for never.")


class MemorySource(Body):
    """Where the memories come from that shall be forgotten: one execution, or all executions of one run."""

    execution: str | None = Field(default=None, description="The id of an execution, also a short one.")
    run: str | None = Field(default=None, description="The id of a run, also a short one.")


class Forgotten(Row):
    """How many memories were deleted."""

    count: int
