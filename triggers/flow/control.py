"""A trigger's ``flow``: read, checked, and evaluated for one match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.controls import NONE, Controls
from engine.errors import Invalid


@dataclass(frozen=True)
class Flow:
    """Flow control, ready to be asked."""

    def controls(self, event: Mapping[str, Any]) -> Controls:
        """What it says of a match. Raises :class:`Invalid` when a key cannot be worked out."""
        return NONE


NOTHING = Flow()


def compile_flow(given: Mapping[str, Any] | None, *, composite: bool) -> Flow:
    """Read the ``flow`` of a definition. Raises :class:`Invalid`."""
    if given:
        raise Invalid("flow control is not there yet")
    return NOTHING
