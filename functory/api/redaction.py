"""What a caller without the right to read payloads gets instead of them: a marker, never an empty value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functory.api.access.rights import Caller

REDACTED = {"redacted": "payload:read"}


def hide(caller: Caller, row: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    """The row with a marker in these fields, unless the caller may read payloads. A field without a value stays."""
    if caller.reads_payloads:
        return dict(row)
    return {name: REDACTED if name in fields and value is not None else value for name, value in row.items()}
