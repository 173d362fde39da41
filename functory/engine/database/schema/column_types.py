"""Column types: ids, timestamps, JSON, states, text from outside."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator

from functory.engine.serialization import json_codec


class Key(sa.Uuid[str]):
    """A UUID as text; where the database has no type for it, without its dashes."""

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        usual = super().result_processor(dialect, coltype)
        if usual is None or (self.native_uuid and dialect.supports_native_uuid):
            return usual
        # The usual processor makes a UUID object and a text of it, which is ten times as slow.
        return _dashed


def _dashed(value: str | None) -> str | None:
    if value is None:
        return None
    return f"{value[:8]}-{value[8:12]}-{value[12:16]}-{value[16:20]}-{value[20:]}"


Id = Key(as_uuid=False)


class Instant(TypeDecorator[datetime]):
    """A timestamp in UTC, always aware in Python: ``timestamptz`` on PostgreSQL, text on SQLite."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        if value is None or dialect.name != "sqlite":
            return value
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        return (
            value
            if value is None
            else value.replace(tzinfo=UTC)
            if value.tzinfo is None
            else value.astimezone(UTC)
        )


class Json(TypeDecorator[Any]):
    """A JSON value as text: no query reads inside it, and text keeps it exact.

    None is stored as NULL, or with ``null`` as the JSON value ``null``.
    """

    impl = sa.Text
    cache_ok = True

    def __init__(self, null: bool = False) -> None:
        super().__init__()
        self.null = null

    def process_bind_param(self, value: Any, dialect: Any) -> str | None:
        return None if value is None and not self.null else json_codec.dumps(value)

    def process_result_value(self, value: str | None, dialect: Any) -> Any:
        return None if value is None else json_codec.loads(value)


class State(sa.String):
    """One of the ``words``. Comparisons put the word into the text of the statement instead of a parameter.

    Databases use a partial index only for conditions in the text. With a parameter SQLite prepares the statement again
    each time (a poll takes four times as long), and PostgreSQL plans it again. Any other word stays a parameter, like
    every value from outside.
    """

    class Comparator(sa.String.Comparator[str]):
        """Comparisons with words in the text of the statement."""

        def operate(self, op: Any, *other: Any, **kwargs: Any) -> Any:
            words: tuple[str, ...] = self.type.words  # type: ignore[attr-defined]
            return super().operate(op, *(_in_the_text(words, one) for one in other), **kwargs)

    comparator_factory = Comparator

    def __init__(self, words: tuple[str, ...] = ()) -> None:
        super().__init__(16)
        self.words = words


def _in_the_text(words: tuple[str, ...], given: Any) -> Any:
    if isinstance(given, str) and given in words:
        return sa.literal_column(f"'{given}'", sa.String)
    if isinstance(given, tuple | list | set | frozenset) and set(given) <= set(words):
        return [_in_the_text(words, one) for one in words if one in given]
    return given


class Words(TypeDecorator[str]):
    """Text from outside. PostgreSQL cannot store NUL or lone surrogates, so both are stored as escapes."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        if value is None:
            return None
        return value.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
