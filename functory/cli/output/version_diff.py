"""Differences between two versions of a function."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

# Fields that a diff compares in addition to the source.
COMPARED_FIELDS = (
    "source",
    "modules",
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
    "reuse",
    "compensate",
)


def unified(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A unified diff (difflib) of the sources and modules, then of each other field as sorted JSON.

    ``modules`` of both are texts by name.
    """
    lines: list[str] = []
    for field in COMPARED_FIELDS:
        if before[field] == after[field]:
            continue
        if field == "modules":
            for module in sorted({*before[field], *after[field]}):
                texts = [row[field].get(module, "") for row in (before, after)]
                lines += _diff(texts, [f"{row['name']} v{row['number']} {module}" for row in (before, after)])
            continue
        texts = [
            row[field] if field == "source" else json.dumps(row[field], indent=2, sort_keys=True)
            for row in (before, after)
        ]
        lines += _diff(texts, [f"{row['name']} v{row['number']} {field}" for row in (before, after)])
    return lines


def _diff(texts: Sequence[str], names: Sequence[str]) -> list[str]:
    made = difflib.unified_diff(texts[0].splitlines(), texts[1].splitlines(), names[0], names[1], lineterm="")
    return [line.rstrip("\n") for line in made]
