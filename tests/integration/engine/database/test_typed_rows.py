"""Typed rows: a statement's columns are the fields of a class, in their order."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from functory.engine.database.schema import event
from functory.engine.database.typed_rows import TypedRow, columns
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


class Told(TypedRow, frozen=True):
    """Two columns, in another order than the table has them."""

    subject: str | None
    type: str


def test_rows_have_the_values_of_their_columns(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.events.emit("order.created", {}, subject="one")
    world.events.emit("order.paid", {})
    statement = sa.select(*columns(Told, event)).order_by(event.c.id)
    with world.database.read() as tx:
        assert tx.all(Told, statement) == [Told("one", "order.created"), Told(None, "order.paid")]
        assert tx.one(Told, statement) == Told("one", "order.created")
        assert tx.one(Told, statement.where(sa.false())) is None
        with pytest.raises(TypeError):
            tx.all(Told, sa.select(event.c.type))


def test_a_field_that_is_no_column_is_refused_where_the_statement_is_made() -> None:
    class Wrong(TypedRow, frozen=True):
        """A field that the table does not have."""

        nothing: str

    with pytest.raises(KeyError, match="nothing"):
        columns(Wrong, event)
