"""Keys of several columns in one condition: each type of column, any number of keys, and hostile texts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.schema import Id, Instant

if TYPE_CHECKING:
    from tests.support.world import World

pytest_plugins = ["tests.support.world"]

TEXTS = [
    "",
    "a",
    "naïve 漢字 🦆",
    "'; DROP TABLE keys; --",
    '"], ["',
    "\\",
    "%(x)s :y ?",
    "12",
    " 12",
    "null",
]
KEYS = [
    (f"01a21bf1-536f-7666-a46e-{number:012x}", text, datetime(2026, 1, 1, tzinfo=UTC) + number * step, sign * number)
    for number, text in enumerate(TEXTS, 1)
    for step in (timedelta(microseconds=1), timedelta(days=1))
    for sign in (-1, 1)
]  # fmt: skip
ROWS = sa.Table(
    "keys_of_a_test",
    sa.MetaData(),
    *(
        sa.Column(name, type_)
        for name, type_ in (("id", Id), ("text", sa.Text), ("time", Instant), ("number", sa.Integer))
    ),
    prefixes=["TEMPORARY"],
)
NAMED = sa.select(ROWS).where(one_of_keys([*ROWS.c]))


@pytest.mark.parametrize("number", [0, 1, 2, 7, len(KEYS)])
def test_rows_of_exactly_the_given_keys_are_found_and_deleted(world: World, number: int) -> None:
    def found(tx: Any, statement: Any, given: Any = None) -> set[tuple[Any, ...]]:
        return {tuple(row.values()) for row in tx.rows(statement, given)}

    given = KEYS[::-1][:number]
    with world.database.write() as tx:
        ROWS.create(tx.connection)
        for key in KEYS:
            tx.execute(sa.insert(ROWS).values(dict(zip(ROWS.c.keys(), key, strict=True))))
        assert found(tx, NAMED, {"keys": given}) == set(given)
        assert found(tx, sa.select(ROWS).where(one_of_keys([*ROWS.c], given))) == set(given)
        # One part of the key is another.
        crossed = [(a[0], *b[1:]) for a, b in zip(KEYS[:4], KEYS[4:8], strict=True)]
        assert found(tx, NAMED, {"keys": crossed}) == set()
        deleted = tx.execute(sa.delete(ROWS).where(one_of_keys([*ROWS.c], given))).rowcount
        assert deleted == len(given)
        assert found(tx, sa.select(ROWS)) == set(KEYS) - set(given)
        ROWS.drop(tx.connection)
