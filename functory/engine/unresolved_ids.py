"""What is said about the beginning of an id that belongs to nothing, or to several things: here and over a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from functory.engine.database import short_ids
from functory.engine.errors import AmbiguousId, NotFound

Kind = Literal[
    "execution",
    "event",
    "trigger",
    "version",
    "call",
    "approval",
    "proposal",
    "memory",
    "token",
    "login",
]
# A longer list of candidates would not be read.
MAX_CANDIDATES = 5
_LISTS: dict[str, str] = {
    "execution": "functory execution list",
    "event": "functory event list",
    "trigger": "functory trigger list",
    "version": "functory function list",
    "call": "functory llm calls",
    "approval": "functory approval list",
    "proposal": "functory proposal list",
    "memory": "functory memory list",
    "token": "functory token list",
    "login": "functory login list",
}


@dataclass(frozen=True)
class Candidate:
    """A row whose id begins as asked. ``name`` is the function, the type, the trigger, or function@version."""

    kind: str
    id: str
    name: str
    time: datetime


def no_such(
    text: str, kinds: Sequence[str], why: str = "", pruned_before: datetime | None = None
) -> NotFound:
    """Return the error for an id that nothing has. ``why`` says what may have become of it: it may have been pruned,
    as all that ended before ``pruned_before``.
    """
    if not short_ids.ranges(text) and not short_ids.is_full(text):
        why = (
            f"an id has {short_ids.LENGTH} letters and digits, or 36 characters; "
            f"its first {short_ids.LEAST} are enough when no other id begins so"
        )
    elif not why and not short_ids.is_full(text):
        why = (
            f"none begins so; a short id has {short_ids.LENGTH} characters, of which the first {short_ids.LEAST} "
            "or more are given; of a whole id the first 9 or more, with its dash"
        )
    return NotFound(
        f"no {' or '.join(kinds)} {text[:40]!r}", why, _LISTS[kinds[0]], pruned_before=pruned_before
    )


def several(text: str, found: Sequence[Candidate]) -> AmbiguousId:
    """Return the error for the beginning of several ids: it names some of them."""
    shown = found[:MAX_CANDIDATES]
    listed = "; ".join(f"{one.kind} {one.id} ({one.name}, {one.time:%Y-%m-%d %H:%M:%S} UTC)" for one in shown)
    return AmbiguousId(
        f"several ids begin with {text!r}",
        listed + (", and more" if len(found) > MAX_CANDIDATES else ""),
        "give more of it",
        candidates=[{"kind": one.kind, "id": one.id, "name": one.name} for one in shown],
    )


def pick(text: str, among: Sequence[Candidate], kind: Kind) -> str:
    """Return the whole id of the one row of ``among`` whose id begins with ``text``. Raises :class:`NotFound`, and
    :class:`AmbiguousId` when several begin so.
    """
    whole = [one for one in among if one.id.replace("-", "") == text.lower().replace("-", "")]
    ranges = short_ids.ranges(text)
    found = whole or [one for one in among if any(part.low <= one.id <= part.high for part in ranges)]
    if not found:
        raise no_such(text, [kind])
    if len(found) > 1:
        raise several(text, found)
    return found[0].id
