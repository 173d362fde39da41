"""The unified diff of two texts, within a bound of work.

difflib compares each line with all equal ones of the other text, again for each block that it finds: two texts of a
megabyte can take hours. So its steps are bounded before it begins. Beyond the bound the lines between the equal
beginning and the equal end are shown as one change.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

# Steps of a comparison: about two seconds.
MAX_STEPS = 20_000_000
# Lines around a change.
CONTEXT = 3
# difflib leaves out what more than a percent of the lines are, in texts of at least this number of lines.
_MANY_LINES = 200


def unified(before: str, after: str, before_name: str, after_name: str) -> list[str]:
    """Return the lines of a unified diff; none when the texts are equal."""
    a, b = before.splitlines(), after.splitlines()
    if a == b:
        return []
    head = _equal(a, b)
    tail = _equal(a[head:][::-1], b[head:][::-1])
    changed = a[head : len(a) - tail], b[head : len(b) - tail]
    if _most_steps(*changed) <= MAX_STEPS:
        return list(difflib.unified_diff(a, b, before_name, after_name, lineterm="", n=CONTEXT))
    first = max(0, head - CONTEXT)
    above, below = a[first:head], a[len(a) - tail :][:CONTEXT]
    sizes = [len(above) + len(one) + len(below) for one in changed]
    return [
        f"--- {before_name}",
        f"+++ {after_name}",
        f"@@ -{first + 1},{sizes[0]} +{first + 1},{sizes[1]} @@ too different to compare line by line",
        *(f" {line}" for line in above),
        *(f"-{line}" for line in changed[0]),
        *(f"+{line}" for line in changed[1]),
        *(f" {line}" for line in below),
    ]


def _equal(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the number of lines that are equal at the beginning."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(a), len(b)))


def _most_steps(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the steps that difflib may take: those of one search, for each block that it may find."""
    counts = Counter(b)
    popular = len(b) // 100 + 1 if len(b) >= _MANY_LINES else len(b)
    search = sum(1 + (counts[line] if counts[line] <= popular else 0) for line in a)
    return search * min(len(a), len(b))
