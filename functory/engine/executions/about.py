"""One line that says what an execution is about, for lists: the subject of its event, or the start of its input; and
the search for a text in an input.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice

import sqlalchemy as sa

MAX_LENGTH = 120
# An input may have a megabyte; its first fields are in its first characters.
_START = 600
_FIELDS = 3
_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_CUT_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?$")


def start_of(column: sa.Column[object]) -> sa.ColumnElement[str]:
    """Return the start of a JSON value that a column stores as text."""
    return sa.func.substr(sa.type_coerce(column, sa.Text), 1, _START, type_=sa.Text)


def holds(column: sa.Column[object], text: str) -> sa.ColumnElement[bool]:
    """Return the condition that the JSON text of a column holds ``text``, or a string with it, in any case."""
    # Inside of a string quotes and line ends are escaped.
    spellings = dict.fromkeys((text, json.dumps(text, ensure_ascii=False)[1:-1]))
    stored = sa.type_coerce(column, sa.Text)
    return sa.or_(*(stored.icontains(one, autoescape=True) for one in spellings))


def about(subject: str | None, start: str | None) -> str | None:
    """Return the line; None when there is nothing to say. ``start`` is the start of the input's text: it may end
    anywhere.
    """
    line = " ".join((subject or " ".join(islice(_scalars(start or ""), _FIELDS))).split())
    return (line if len(line) <= MAX_LENGTH else line[: MAX_LENGTH - 1] + "…") or None


def _scalars(start: str) -> Iterator[str]:
    """Yield ``path=value`` for each text, number and boolean of an object, in their order."""
    path: list[str] = []
    # For each open bracket: whether it is an object's.
    objects: list[bool] = []
    name: str | None = None
    for part in _parts(start):
        if part in "{[":
            objects.append(part == "{")
            path.append(name or "")
            name = None
        elif part in "}]":
            if not objects:
                return
            objects.pop()
            path.pop()
            name = None
        elif part == ",":
            name = None
        elif part != ":":
            if objects and objects[-1] and name is None:
                name = _text(part)
            elif part != "null":
                where = ".".join(one for one in (*path, name or "") if one)
                yield f"{where}={_text(part)}" if where else _text(part)


def _parts(start: str) -> Iterator[str]:
    """Yield the lexical parts of the text, without one that may go on behind its end; of a string what is there."""
    at = 0
    while (found := _PART.match(start, at)) is not None:
        at = found.end()
        if at == len(start) == _START and found[0][0] not in '"{}[],:':
            return
        yield found[0]
    if start.startswith('"', at):
        yield _CUT_ESCAPE.sub(r"\1", start[at:]) + '"'


def _text(part: str) -> str:
    if not part.startswith('"'):
        return part
    return json.loads(part, strict=False).encode("utf-8", "backslashreplace").decode()
