"""Ids on the command line: whole, short, or a word for the newest: ``@last``, ``@failed``, ``@running``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from functory.engine import unresolved_ids
from functory.engine.errors import Invalid, NotFound
from functory.engine.unresolved_ids import Candidate

if TYPE_CHECKING:
    from functory.client.functory import Functory

# The states that a word stands for; None is any.
_WORDS: dict[str, tuple[str | None, ...]] = {
    "@last": (None,),
    "@failed": ("failed", "timed_out", "dead"),
    "@running": ("running",),
}


def execution_id(engine: Functory, text: str) -> str:
    """Return the whole id of an execution. Raises :class:`NotFound`, also when several ids begin so."""
    return _newest(engine, text) if text.startswith("@") else engine.find_id(text, "execution")


def event_id(engine: Functory, text: str) -> str:
    """Return the whole id of an event, like :func:`execution_id`."""
    if text.startswith("@"):
        raise Invalid(f"{text} stands for an execution", "this takes an event", "functory event list")
    return engine.find_id(text, "event")


def any_id(engine: Functory, text: str) -> str:
    """Return the whole id of an execution or event, like :func:`execution_id`."""
    return _newest(engine, text) if text.startswith("@") else engine.find_id(text, "execution", "event")


def token_id(row: Mapping[str, Any]) -> Candidate:
    """A token among which a short id is looked for."""
    return Candidate("token", row["id"], f"{row['user']}/{row['name']}", row["created_at"])


def login_id(engine: Functory, text: str) -> str:
    """Return the whole id of an open login, like :func:`execution_id`."""
    rows = engine.logins.list(None)
    open_ = [Candidate("login", row["id"], row["user"], row["created_at"]) for row in rows]
    return unresolved_ids.pick(text, open_, "login")


def _newest(engine: Functory, word: str) -> str:
    if word not in _WORDS:
        raise Invalid(f"unknown word {word[:40]!r}", f"known are: {', '.join(_WORDS)}")
    found = [row["id"] for state in _WORDS[word] for row in engine.executions.list(state=state, limit=1)]
    if not found:
        raise NotFound(f"there is no execution for {word}", try_="functory execution list")
    return max(found)
