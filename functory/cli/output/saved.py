"""The answer to a save, in one form for every noun."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functory.terminal.console import CommandOutput


def print_saved(
    out: CommandOutput, noun: str, row: Mapping[str, Any], data: Mapping[str, Any], *more: str
) -> None:
    """Print the answer to a save: ``data`` as JSON, the name, or whether it has a new version, with ``more`` lines."""
    if out.json:
        out.value({**data, "created": row["created"]})
    elif out.quiet:
        out.lines([row["name"]])
    else:
        called = f"{noun} {row['name']} v{row['version']}"
        out.lines([f"saved {called}" if row["created"] else f"{called} is unchanged", *more])
