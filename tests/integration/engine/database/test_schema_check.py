"""A client checks the schema once, and notices an upgrade that happens while it lives."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from functory.client.functory import Functory
from functory.engine.database import migrations
from functory.engine.database.connection import Database
from functory.engine.database.schema_check import CHECK_SECONDS, SchemaCheck
from functory.engine.errors import Conflict, Unavailable
from functory.engine.settings import Settings

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def database(empty_url):
    database = Database(empty_url)
    migrations.upgrade(database)
    yield database
    database.close()


@pytest.fixture
def client(database, empty_url, tmp_path):
    """A client of a deployment whose roles run elsewhere."""
    settings = Settings(home=Path(tmp_path), database_url=empty_url, broker_url="redis://127.0.0.1:1/0")
    with Functory(settings) as client:
        yield client


def upgrade_beyond(database: Database, statement: str = "") -> None:
    """Leave the schema of a later release: another revision, and a changed table."""
    with database.write() as tx:
        tx.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
        if statement:
            tx.execute(sa.text(statement))


def checks(monkeypatch) -> list[Database]:
    """The checks from now on."""
    seen: list[Database] = []
    check = migrations.check
    monkeypatch.setattr(migrations, "check", lambda database: (seen.append(database), check(database))[1])
    return seen


def test_many_operations_check_the_schema_once(client, monkeypatch):
    seen = checks(monkeypatch)
    for number in range(5):
        client.emit("order.created", {"number": number})
    assert len(seen) == 1


def test_the_schema_is_checked_again_after_a_minute(database):
    now = [100.0]
    check = SchemaCheck(database, monotonic=lambda: now[0])
    check.check()
    upgrade_beyond(database)
    now[0] += CHECK_SECONDS - 1
    check.check()
    now[0] += 2
    with pytest.raises(Conflict, match="has schema 9999"):
        check.check()


@pytest.mark.parametrize(
    "change",
    ["ALTER TABLE event RENAME COLUMN depth TO deepness", "ALTER TABLE event RENAME TO happening"],
    ids=["column", "table"],
)
def test_a_client_that_lives_through_an_upgrade_gets_the_clear_error(client, database, change):
    client.emit("order.created")
    upgrade_beyond(database, change)
    with pytest.raises(Conflict, match="has schema 9999"):
        client.emit("order.created")


def test_a_new_column_without_a_default_is_noticed_as_well(client, database):
    if database.dialect == "sqlite":
        pytest.skip("SQLite adds no such column")
    client.start()
    upgrade_beyond(database, "ALTER TABLE event ADD COLUMN region text NOT NULL")
    with pytest.raises(Conflict, match="has schema 9999"):
        client.emit("order.created")


def test_an_error_of_the_same_schema_stays_what_it_is(client, database):
    client.emit("order.created")
    with database.write() as tx:
        tx.execute(sa.text("ALTER TABLE event RENAME COLUMN depth TO deepness"))
    with pytest.raises(Unavailable, match="depth"):
        client.emit("order.created")
