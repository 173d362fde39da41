"""Keys of several columns in one condition: each type of column, any number of keys, and hostile texts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
    "\x01a",
    "\x01b",
    "\ufeff",
    "a\nb\x7f\u2028",
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


def test_any_text_that_can_be_stored_is_found_and_no_other(world: World) -> None:
    statement = sa.select(ROWS.c.text).where(one_of_keys([ROWS.c.text, ROWS.c.number]))
    characters = st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x00\x01ab")

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100)
    @given(
        stored=st.sets(st.text(characters, max_size=8), min_size=1, max_size=6),
        asked=st.sets(st.text(characters)),
    )
    def check(stored: set[str], asked: set[str]) -> None:
        if tx.dialect == "postgresql":
            # It stores no NUL and refuses the whole statement.
            stored, asked = ({text.replace("\x00", "") for text in some} for some in (stored, asked))
        # A part of a text is another text, also the part before a NUL.
        wanted = {*list(stored)[::2], *asked, *(text[:-1] for text in stored)}
        tx.execute(sa.delete(ROWS))
        tx.execute(sa.insert(ROWS), [{"text": text, "number": 1} for text in stored])
        assert {
            row["text"] for row in tx.rows(statement, {"keys": [(text, 1) for text in wanted]})
        } == stored & wanted

    with world.database.write() as tx:
        ROWS.create(tx.connection)
        check()
        ROWS.drop(tx.connection)
