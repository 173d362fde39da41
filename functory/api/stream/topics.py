"""Topics of the stream: which changes a client wants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functory.engine.errors import Invalid, NotFound
from functory.engine.events.store import as_id

# More topics than ten tabs have.
MAX_TOPICS = 60

# The topics with rows of any event and of any execution: of these a client may miss some, and gets the number.
LISTS = ("events", "executions")
# The topics of one execution: they end when it is gone, or when the client does not see it any more.
OF_AN_EXECUTION = ("execution", "logs")
_OF_ONE = ("tree", *OF_AN_EXECUTION)
_POSITION = re.compile(r"(\d{1,9})\.(\d{1,9})")


@dataclass(frozen=True)
class Topic:
    """A topic. ``text`` is how frames name it, ``id_`` is set for a topic of one tree or execution.

    ``after`` is where the lines of ``logs`` begin: behind that fence and number; None for the last lines.
    """

    kind: str
    text: str
    id_: str = ""
    after: tuple[int, int] | None = None


def parse(text: str) -> tuple[Topic, ...]:
    """Return the topics of a request, each once: ``bar,executions,tree:<id>,logs:<id>@<fence>.<seq>``.

    Raises :class:`Invalid`.
    """
    names = [name for name in dict.fromkeys(part.strip() for part in text.split(",")) if name]
    if not names:
        raise Invalid("no topic is asked for", _known(), "send ?topics=bar,executions")
    if len(names) > MAX_TOPICS:
        raise Invalid("too many topics", f"at most {MAX_TOPICS} are sent in one stream")
    topics = {topic.text: topic for topic in map(_topic, names)}
    return tuple(topics.values())


def _topic(name: str) -> Topic:
    kind, colon, given = name.partition(":")
    if not colon and kind in ("bar", *LISTS):
        return Topic(kind, kind)
    if not colon or kind not in _OF_ONE:
        raise Invalid(f"unknown topic {name[:60]!r}", _known())
    position = None
    if kind == "logs" and "@" in given:
        given, _, after = given.partition("@")
        found = _POSITION.fullmatch(after)
        if found is None:
            raise Invalid(f"wrong topic {name[:60]!r}", "the place of a line is <fence>.<seq>, such as 1.20")
        position = int(found[1]), int(found[2])
    try:
        id_ = as_id(given, kind)
    except NotFound as error:
        raise Invalid(f"wrong topic {name[:60]!r}", error.why) from None
    return Topic(kind, f"{kind}:{id_}", id_, position)


def _known() -> str:
    return "known are: bar, executions, events, tree:<id>, execution:<id>, logs:<id>"


def rows_for(
    topic: Topic, events: Sequence[Mapping[str, Any]], executions: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return those of the changed rows that a topic has. The rows of a tree are of both kinds."""
    match topic.kind:
        case "events":
            return [*events]
        case "executions":
            return [*executions]
        case "tree":
            return [row for row in (*events, *executions) if row["root_id"] == topic.id_]
        case "execution":
            return [row for row in executions if row["id"] == topic.id_]
        case _:
            return []
