"""Makes a Markdown table of many runs: one row for each fault and broker."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

SUMS = (
    "attempted",
    "executed",
    "lost",
    "doubled",
    "attempts_lost",
    "released",
    "zombies_rejected",
    "effects_repeated",
)

HEADS = (
    "fault",
    "broker",
    "runs",
    "attempted",
    "executed",
    "lost",
    "doubled",
    "attempts lost",
    "released",
    "zombies rejected",
    "effects repeated",
    "recovery p50, s",
    "recovery max, s",
    "failed runs",
)


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of results; empty without the file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def markdown(lines: Iterable[Mapping[str, Any]]) -> str:
    """The Markdown table. Recovery is the median of the runs' medians, and the worst time of all runs."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["fault"], line["broker"]), []).append(line)
    rows = [HEADS, tuple("---" if n < 2 else "---:" for n in range(len(HEADS)))]
    for (fault, broker), runs in sorted(groups.items()):
        recoveries = [run["recovery_seconds"] for run in runs if run["recovery_seconds"]]
        rows.append(
            (
                fault,
                broker,
                str(len(runs)),
                *(f"{sum(run[key] for run in runs):,}" for key in SUMS),
                f"{statistics.median(r['p50'] for r in recoveries):.1f}" if recoveries else "-",
                f"{max(r['max'] for r in recoveries):.1f}" if recoveries else "-",
                str(sum(1 for run in runs if run["violations"] or run["complaints"])),
            )
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"
