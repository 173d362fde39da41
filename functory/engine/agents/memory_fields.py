"""What a memory is, checked: its place, its origin, its text and its importance. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from functory.engine.database.schema.memory import MEMORY_KINDS, MEMORY_SCOPES
from functory.engine.errors import Invalid

# Of UTF-8. A memory is a sentence or a page: what is longer is found by no word of it, and fills prompts.
MAX_TEXT_BYTES = 16_384
# Of one run, one agent, or shared. A search looks at all of them.
MAX_OWNED = 10_000
MAX_DAYS = 36_500
MAX_RESULTS = 100
USUAL_IMPORTANCE = 0.5
# What is learnt again becomes more important: by this share of what is left to 1.
RAISE = 0.1


@dataclass(frozen=True)
class Place:
    """Whose memories: of a run (its id), of an agent (its name), or of all (``shared``, without an owner)."""

    scope: str
    owner: str = ""

    def __post_init__(self) -> None:
        if self.scope not in MEMORY_SCOPES:
            raise Invalid(f"wrong scope {str(self.scope)[:80]!r}", f"it is one of {', '.join(MEMORY_SCOPES)}")
        if (self.scope == "shared") == bool(self.owner):
            raise Invalid(
                f"wrong owner {str(self.owner)[:80]!r} of the scope {self.scope}",
                "memories of a run or an agent have one as their owner, shared ones have none",
            )


SHARED = Place("shared")


@dataclass(frozen=True)
class Origin:
    """Where a memory comes from. ``untrusted``: from code that may read what others have written outside."""

    author: str = ""
    execution_id: str | None = None
    run_id: str | None = None
    untrusted: bool = False


def check(text: Any, kind: Any, importance: Any, days: Any) -> None:
    """Raise :class:`Invalid` for a memory that cannot be stored."""
    if not isinstance(text, str) or not text.strip():
        raise Invalid("wrong text of a memory", "it must be a text that is not empty")
    if (size := len(text.encode("utf-8", "backslashreplace"))) > MAX_TEXT_BYTES:
        raise Invalid(
            f"the memory is too long: {size:,} bytes",
            f"a memory has at most {MAX_TEXT_BYTES:,}",
            "store what matters in it, or several memories",
        )
    if kind not in MEMORY_KINDS:
        raise Invalid(f"wrong kind {str(kind)[:80]!r} of a memory", f"it is one of {', '.join(MEMORY_KINDS)}")
    if not _is_number(importance) or not 0 <= importance <= 1:
        raise Invalid(f"wrong importance {str(importance)[:40]}", "it takes a number from 0 to 1")
    if days is not None and (not _is_number(days) or not 0 < days <= MAX_DAYS):
        raise Invalid(f"wrong days {str(days)[:40]}", f"it takes a number above 0 and up to {MAX_DAYS:,}")


def checked_query(query: Any, k: Any) -> tuple[str, int]:
    """Return what is searched for, and how many results. Raises :class:`Invalid`."""
    if not isinstance(query, str) or not query.strip():
        raise Invalid("wrong query", "it must be a text that is not empty")
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_RESULTS:
        raise Invalid(f"wrong k {str(k)[:40]}", f"it takes a whole number from 1 to {MAX_RESULTS}")
    return query[:MAX_TEXT_BYTES], k


def sha256(text: str) -> str:
    """Return the hash by which the same text is known."""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def expiry(now: datetime, days: float | None) -> datetime | None:
    """Return when a memory that is kept for ``days`` ends."""
    return None if days is None else now + timedelta(days=days)


def learnt_again(known: Mapping[str, Any], importance: float, expires_at: datetime | None) -> dict[str, Any]:
    """Return what changes in a memory whose text is added again: it is more important, and kept for longer."""
    highest = max(known["importance"], importance)
    ends = None if expires_at is None or known["expires_at"] is None else max(expires_at, known["expires_at"])
    return {"importance": round(highest + (1 - highest) * RAISE, 6), "expires_at": ends}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
