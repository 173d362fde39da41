"""The bases of all rows and of all request bodies, and the marker of what the caller may not read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import NoneType
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema, model_validator

from functory.engine.serialization.storable_text import is_storable


def _timestamp(time: datetime) -> str:
    # A list has hundreds of them, and strftime takes four times as long.
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


# RFC 3339 in UTC, always with six digits of a second: texts sort as their times do.
Instant = Annotated[
    datetime,
    PlainSerializer(_timestamp, when_used="json-unless-none"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


class Row(BaseModel):
    """A row of the API. Columns of the engine that it does not name are left out."""

    model_config = ConfigDict(extra="ignore", from_attributes=False)

    @classmethod
    def as_json(cls, found: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON values of the row that these columns make, as the API sends them."""
        return cls.model_validate(found).model_dump(mode="json", by_alias=True)

    @model_validator(mode="before")
    @classmethod
    def _whole_characters(cls, row: Any) -> Any:
        # A function may return half of a character, which JSON can store and UTF-8 cannot: one such row must not make
        # a whole list, or the stream of all clients, fail. The input and the result themselves are sent as they are.
        return _readable(row)


class Redacted(Row):
    """Replaces a value that needs a right which the caller has not."""

    redacted: str


# A text that is a payload.
Text = str | Redacted


def _readable(value: Any) -> Any:
    """The value with U+FFFD in the place of each half of a character."""
    if isinstance(value, str):
        return (
            value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )
    if isinstance(value, dict):
        return {
            _readable(key): one if isinstance(one, _PLAIN) else _readable(one) for key, one in value.items()
        }
    if isinstance(value, list):
        return [one if isinstance(one, _PLAIN) else _readable(one) for one in value]
    return value


_PLAIN = (int, float, datetime, NoneType)


# The number of a version, as far as the databases count.
Number = Annotated[int, Field(ge=1, le=2**31 - 1)]


class Body(BaseModel):
    """The base of request bodies. Unknown members are refused, and so are texts that no database can store; values that
    are stored as JSON (``Any``) may hold every text.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="after")
    def _storable(self) -> Body:
        for name, field in type(self).model_fields.items():
            if "typing.Any" not in repr(field.annotation) and not _holds_storable(getattr(self, name)):
                raise ValueError(f"{name} has a character that is no text: a NUL, or half of a character")
        return self


def _holds_storable(value: Any) -> bool:
    if isinstance(value, str):
        return is_storable(value)
    if isinstance(value, dict):
        return all(_holds_storable(one) for pair in value.items() for one in pair)
    return not isinstance(value, list) or all(map(_holds_storable, value))
