"""Rows that come from PostgreSQL's driver past SQLAlchemy have the values that SQLAlchemy gives them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.errors import Unavailable
from tests.support.ordinary_history import ordinary
from tests.support.world import World, on_postgresql

pytest_plugins = ["tests.support.world"]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
@pytest.mark.parametrize("name", ["event", "execution", "attempt"])
def test_values_are_those_of_sqlalchemy(make_world: Callable[..., World], name: str, zone: str) -> None:
    world = make_world()
    ordinary(world)
    table = getattr(schema, name)
    statement = sa.select(table)
    with world.database.read() as tx:
        if world.dialect == "postgresql":
            tx.execute(sa.text(f"SET TIME ZONE '{zone}'"))
        usual = [tuple(row) for row in tx.execute(statement)]
        found = tx.values(statement, {}, [*table.c])
        if world.dialect == "postgresql":
            tx.execute(sa.text("RESET TIME ZONE"))
    assert found == usual and len(found) > 3
    assert [[type(value) for value in row] for row in found] == [
        [type(value) for value in row] for row in usual
    ]
    assert repr(found) == repr(usual), "the same times in the same zone"


@on_postgresql
def test_a_lost_connection_is_unavailable_and_not_used_again(make_world: Callable[..., World]) -> None:
    world = make_world()
    statement = sa.select(schema.counter.c.name)
    with pytest.raises(Unavailable), world.database.write() as tx:
        (own,) = tx.values(sa.select(sa.func.pg_backend_pid()), {}, [sa.literal_column("1", sa.Integer)])[0]
        world.database.run_alone(f"SELECT pg_terminate_backend({own}, 5000)")
        tx.values(statement, {}, [schema.counter.c.name])
    with world.database.read() as tx:
        assert isinstance(tx.values(statement, {}, [schema.counter.c.name]), list)
