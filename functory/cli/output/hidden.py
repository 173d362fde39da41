"""What commands show in the place of a payload that the caller of a server may not read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What the API answers (:mod:`functory.api.redaction`).
HIDDEN: Mapping[str, str] = {"redacted": "payload:read"}
HIDDEN_TEXT = "(hidden: it needs the right payload:read)"


def readable(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The row with words in these texts where the caller may not read them."""
    hidden = {name: HIDDEN_TEXT for name in names if row.get(name) == HIDDEN}
    return {**row, **hidden}
