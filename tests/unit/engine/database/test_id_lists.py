"""A condition on a list of ids has one text, whatever the number of ids."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from functory.engine.database.id_lists import one_of
from functory.engine.database.schema import Id

TABLE = sa.Table("thing", sa.MetaData(), sa.Column("id", Id, primary_key=True))
IDS = [f"00000000-0000-0000-0000-{number:012}" for number in range(5)]


@pytest.mark.parametrize("wanted", [[], IDS[:1], IDS[1:4], ["00000000-0000-0000-0000-00000000ffff"]])
def test_it_finds_those_ids(wanted: list[str]) -> None:
    seen: list[str] = []
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        TABLE.create(connection)
        connection.execute(sa.insert(TABLE), [{"id": id_} for id_ in IDS])
        sa.event.listen(connection, "before_cursor_execute", lambda *given: seen.append(given[2]))
        found = connection.execute(sa.select(TABLE.c.id).where(one_of(TABLE.c.id)), {"ids": wanted})
        assert set(found.scalars()) == set(wanted) & set(IDS)
    assert seen == ["SELECT thing.id \nFROM thing \nWHERE thing.id IN (SELECT value FROM json_each(?))"]


def test_postgresql_gets_one_array() -> None:
    from sqlalchemy.dialects.postgresql import psycopg

    compiled = sa.select(TABLE.c.id).where(one_of(TABLE.c.id)).compile(dialect=psycopg.dialect())
    assert "thing.id = ANY(CAST(%(ids)s AS uuid[]))" in str(compiled)
    convert = compiled.binds["ids"].type.dialect_impl(psycopg.dialect()).bind_processor(psycopg.dialect())
    assert convert is not None
    assert convert(IDS[:2]) == "{00000000-0000-0000-0000-000000000000,00000000-0000-0000-0000-000000000001}"
