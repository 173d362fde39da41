"""Differences between two versions of a function."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

# Fields that a diff compares in addition to the source.
COMPARED_FIELDS = (
    "source",
    "input_schema",
    "output_schema",
    "imports",
    "requirements",
    "dependencies",
    "secrets",
    "permissions",
    "grants",
    "metadata",
    "output_patterns",
    "limits",
    "compensate",
)


def unified(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A unified diff (difflib) of the sources, then of each other field as sorted JSON."""
    lines: list[str] = []
    for field in COMPARED_FIELDS:
        if before[field] == after[field]:
            continue
        texts = [
            row[field] if field == "source" else json.dumps(row[field], indent=2, sort_keys=True)
            for row in (before, after)
        ]
        names = [f"{row['name']} v{row['number']} {field}" for row in (before, after)]
        lines += [
            line.rstrip("\n")
            for line in difflib.unified_diff(
                texts[0].splitlines(), texts[1].splitlines(), names[0], names[1], lineterm=""
            )
        ]
    return lines
