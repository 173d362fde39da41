"""The lines of a COPY: https://www.postgresql.org/docs/15/sql-copy.html, text format.

They are written column by column: rows of one batch have most values in common, and the text of a common value is made
once. The driver's own way takes four times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import repeat
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from functory.engine.database.schema.column_types import Json, Key
from functory.engine.serialization import json_codec

# Makes the text of a value.
Write = Callable[[Any], str]


def lines(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[tuple[str, Write]], defaults: Sequence[str]
) -> str:
    """Return rows in COPY's text format, one a line."""
    cells: list[Iterable[str]] = []
    for name, write in columns:
        values = [row[name] for row in rows]
        # The same object, and not an equal one: 1 and True are equal, and their texts differ.
        same = len(set(map(id, values))) == 1
        cells.append(repeat(write(values[0]), len(rows)) if same else map(write, values))
    cells += [repeat(text, len(rows)) for text in defaults]
    return "".join(["\t".join(line) + "\n" for line in zip(*cells, strict=True)])


def writer(column: sa.Column[Any], dialect: Dialect) -> Write:
    """Return what writes the values of a column: SQLAlchemy's conversion, and the driver's text of the result."""
    if isinstance(column.type, Key):
        return _write_id
    if isinstance(column.type, Json):
        return _write_json_null if column.type.null else _write_json
    if isinstance(column.type, sa.LargeBinary):
        # SQLAlchemy wraps bytes in an object of the driver, which has another text.
        return write_value
    convert = column.type.dialect_impl(dialect).bind_processor(dialect)
    return write_value if convert is None else lambda value: write_value(convert(value))


def _write_id(value: str | None) -> str:
    return "\\N" if value is None else value


def _write_json(value: Any) -> str:
    return "\\N" if value is None else _write_json_null(value)


def _write_json_null(value: Any) -> str:
    # Compact JSON has no line ends and no tabs: inside a text they are escapes.
    return json_codec.dumps(value).replace("\\", "\\\\")


def write_value(value: Any) -> str:
    """Return the text of a value as the driver takes it."""
    if type(value) is str:
        return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    if value is None:
        return "\\N"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"\\\\x{bytes(value).hex()}"
    if isinstance(value, int | float | datetime):
        return str(value)
    raise TypeError(f"no COPY text for a value of type {type(value).__name__}")
