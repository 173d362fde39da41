"""Runs a file of pattern test vectors, such as ``tests/data/pattern_vectors.json``.

The file is a JSON object with ``cases`` (id, pattern, event, match) and ``invalid`` (id, pattern that must be
refused); ``pattern`` and ``event`` are JSON texts, so that spellings of numbers survive. A case marked
``lossy`` (a standard JSON parser loses what the answer depends on) or ``quirk`` (an oddity of the engine that
gave the answer) is skipped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from functory.engine.errors import Invalid
from functory.triggers.patterns import compile_pattern


def run_vectors(path: str | Path) -> dict[str, Any]:
    """Return the counts ``right``, ``wrong``, ``invalid_refused``, ``invalid_accepted`` and ``skipped``.

    Beside them ``wrong_ids`` names the wrong cases and the accepted invalid patterns. Raises Invalid when the
    file is not a file of vectors, OSError when it cannot be read.
    """
    try:
        vectors = json.loads(Path(path).read_text(encoding="utf-8"))
        cases, invalid = vectors["cases"], vectors["invalid"]
        counts: dict[str, Any] = dict.fromkeys(
            ("right", "wrong", "invalid_refused", "invalid_accepted", "skipped"), 0
        )
        counts["wrong_ids"] = []
        for case in cases:
            if case.get("lossy") or case.get("quirk"):
                counts["skipped"] += 1
            elif _answer(case["pattern"], case["event"]) is case["match"]:
                counts["right"] += 1
            else:
                counts["wrong"] += 1
                counts["wrong_ids"].append(case["id"])
        for case in invalid:
            if _refused(case["pattern"]):
                counts["invalid_refused"] += 1
            else:
                counts["invalid_accepted"] += 1
                counts["wrong_ids"].append(case["id"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Invalid(
            "the file holds no pattern vectors",
            f"{type(error).__name__}: {error}",
            'write {"cases": [{"id", "pattern", "event", "match"}], "invalid": [{"id", "pattern"}]}',
        ) from error
    return counts


def _answer(pattern: str, event: str) -> bool | None:
    """Return the match, or None when the pattern or the event is refused."""
    try:
        return compile_pattern(json.loads(pattern)).matches(json.loads(event))
    except Invalid:
        return None


def _refused(pattern: str) -> bool:
    try:
        compile_pattern(json.loads(pattern))
    except (ValueError, Invalid):
        return True
    return False
