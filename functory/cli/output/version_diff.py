"""Differences between two versions of a function."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from functory.engine.functions import text_diff

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
    """A unified diff of the sources and modules, then of each other field as sorted JSON.

    ``modules`` of both are texts by name.
    """
    lines: list[str] = []
    for field in COMPARED_FIELDS:
        if before[field] == after[field]:
            continue
        if field == "modules":
            for module in sorted({*before[field], *after[field]}):
                texts = [row[field].get(module, "") for row in (before, after)]
                lines += text_diff.unified(
                    *texts, *[f"{row['name']} v{row['number']} {module}" for row in (before, after)]
                )
            continue
        texts = [
            row[field] if field == "source" else json.dumps(row[field], indent=2, sort_keys=True)
            for row in (before, after)
        ]
        lines += text_diff.unified(
            *texts, *[f"{row['name']} v{row['number']} {field}" for row in (before, after)]
        )
    return lines
