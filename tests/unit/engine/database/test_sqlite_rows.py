"""Rows on SQLite are what SQLAlchemy's own insert makes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database.schema import Id, Instant, Json, Words
from functory.engine.database.sqlite_rows import insert_rows

TABLE = sa.Table(
    "order",
    sa.MetaData(),
    sa.Column("id", Id, primary_key=True),
    sa.Column("at", Instant),
    sa.Column("data", Json),
    sa.Column("result", Json(null=True)),
    sa.Column("text", Words),
    sa.Column("bytes", sa.LargeBinary),
    sa.Column("flag", sa.Boolean),
    sa.Column("ratio", sa.Float),
    sa.Column("count", sa.Integer, default=7),
)
NOW = datetime(2030, 1, 2, 3, 4, 5, 678, UTC)
EARLIER = datetime(2030, 1, 2, tzinfo=timezone(timedelta(hours=5)))


def row(number: int, **given: Any) -> dict[str, Any]:
    plain = {
        "id": f"00000000-0000-0000-0000-{number:012}",
        "at": NOW,
        "data": {"a": [1]},
        "result": None,
        "text": "text",
        "bytes": b"\x00\xff",
        "flag": True,
        "ratio": 1.5,
    }
    return plain | given


def stored(insert: Any, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        TABLE.create(connection)
        insert(connection, rows)
        return [tuple(found) for found in connection.exec_driver_sql('SELECT * FROM "order" ORDER BY id')]


@pytest.mark.parametrize(
    "rows",
    [
        [row(1)],
        [row(1), row(2)],
        [row(1, data=1), row(2, data=True), row(3, data=1.0)],
        [
            row(1, at=None, data=None, text=None, bytes=None, flag=None, ratio=None),
            row(2, at=EARLIER, result={}),
        ],
        [row(1, text="\x00\ud800'\"?%"), row(2, flag=False, data="?")],
        [row(1) | {"count": 1}, row(2) | {"count": None}],
    ],
    ids=["one", "equal", "equal but not the same", "nothing", "hostile text", "default given"],
)
def test_rows_are_as_the_usual_insert_writes_them(rows: list[dict[str, Any]]) -> None:
    usual = stored(lambda connection, given: connection.execute(sa.insert(TABLE), given), rows)
    assert stored(lambda connection, given: insert_rows(connection, TABLE, given), rows) == usual


def test_a_key_that_is_there_is_the_usual_error() -> None:
    with pytest.raises(sa.exc.IntegrityError):
        stored(lambda connection, given: insert_rows(connection, TABLE, given), [row(1), row(1)])
