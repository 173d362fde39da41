"""``fields=``: a list answers only these fields of its rows, for clients that need few of them.

The names are those of the row, which the description of the route has. An unknown one is refused.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pydantic import BaseModel
from starlette.responses import Response

from functory.engine.errors import Invalid

NAME = "fields"
_DESCRIBED = {
    "name": NAME,
    "in": "query",
    "required": False,
    "description": "Only these fields of each row: their names, with commas between them. All without it.",
    "schema": {"type": "string"},
}


def of_rows(answer: Any) -> tuple[str, ...] | None:
    """Return the fields of the rows of a list, as they are sent; None for what is no list."""
    model = answer
    if isinstance(model, type) and issubclass(model, BaseModel) and "items" in model.model_fields:
        model = model.model_fields["items"].annotation
    if typing.get_origin(model) is not list:
        return None
    (row,) = typing.get_args(model)
    if not (isinstance(row, type) and issubclass(row, BaseModel)):
        return None
    return tuple(field.serialization_alias or name for name, field in row.model_fields.items())


def described(extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a route adds to its description, with this parameter, once."""
    given = dict(extra or {})
    others = [one for one in given.get("parameters", ()) if one["name"] != NAME]
    return given | {"parameters": [*others, _DESCRIBED]}


def chosen(text: str, known: Sequence[str]) -> frozenset[str]:
    """Return the names in the parameter. Raises :class:`Invalid` for one that the rows do not have."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise Invalid(f"unknown field {name[:40]!r}", f"known are: {', '.join(known)}")
    return frozenset(names)


def only(answer: Response, names: frozenset[str]) -> Response:
    """Return the answer with these fields of its rows."""
    value = orjson.loads(bytes(answer.body))
    rows = value["items"] if isinstance(value, dict) else value
    rows[:] = [{name: field for name, field in row.items() if name in names} for row in rows]
    headers = {name: text for name, text in answer.headers.items() if name != "content-length"}
    return Response(orjson.dumps(value), answer.status_code, headers, background=answer.background)
