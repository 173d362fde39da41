"""Composite triggers: several events within a window, or the absence of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import Invalid


@dataclass(frozen=True)
class Composite:
    """A composite, ready to be asked. ``types`` are the only event types that its parts can match, if they say."""

    types: frozenset[str] | None = None


def compile_composite(given: Mapping[str, Any]) -> Composite:
    """Read the ``composite`` of a definition. Raises :class:`Invalid`."""
    raise Invalid("composites are not there yet")
