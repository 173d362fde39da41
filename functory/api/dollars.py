"""Amounts of money as the API has them: US dollars, where the engine counts whole nano-dollars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functory.engine.agents.money import NANO


def in_dollars(row: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    """The row with these amounts in dollars. A limit that is none stays None."""
    amounts = {name: None if row[name] is None else row[name] / NANO for name in fields}
    return {**row, **amounts}
