"""Rows of what functions do in words, and of functions found by it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from functory.rows.base import Body, Instant, Row


class Description(Row):
    """What a function does in words, for people and for models that choose tools. It is no part of a version. All are
    null for a function that has only the descriptions of its versions.
    """

    value: str | None = None
    author: str | None = None
    source_execution_id: str | None = Field(
        default=None, description="The execution that wrote it; null for a person."
    )
    at: Instant | None = None


class DescriptionText(Body):
    """The text of a description, at most 1,024 characters; an empty one removes it."""

    text: str


class FoundFunction(Row):
    """A function that fits a goal, as a model sees it."""

    name: str
    description: str
    parameters: dict[str, Any] = Field(description="A JSON Schema.")
    effect: Literal["none", "reads", "acts"] | None = Field(description="What it may do at most.")
    score: float
