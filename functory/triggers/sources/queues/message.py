"""A message of a broker, as its consumer delivers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Message:
    """A delivery: its body, headers and properties. ``offset`` is its position in a stream."""

    body: bytes
    content_type: str | None = None
    encoding: str | None = None
    headers: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    offset: int | None = None
