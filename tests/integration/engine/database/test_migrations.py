"""Migrations on both databases: up, down, at the same time, and no difference to what the code expects."""

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from functory.client.functory import Functory
from functory.engine.database import migrations, partitions, schema
from functory.engine.database.connection import Database
from functory.engine.errors import Conflict
from functory.engine.functions.registry import Functions
from functory.engine.settings import Settings
from tests.support.patience import patient

pytest_plugins = ["tests.support.world"]


def tables_of(database: Database) -> set[str]:
    with database.connection() as connection:
        names = set(sa.inspect(connection).get_table_names()) - {"alembic_version"}
    return names - parts_of(database)


def parts_of(database: Database) -> set[str]:
    """The partitions, which are tables of their own to an inspector."""
    with database.read() as tx:
        return {part.name for part in partitions.list_partitions(tx)}


def test_up_makes_every_table_and_down_leaves_none(empty_url):
    database = Database(empty_url)
    assert migrations.current(database) is None
    for _ in range(2):
        assert migrations.upgrade(database) == migrations.HEAD
        migrations.check(database)
        assert tables_of(database) == set(schema.metadata.tables)
        migrations.downgrade(database, "base")
        assert tables_of(database) == set()
        with pytest.raises(Conflict, match="functory db upgrade"):
            migrations.check(database)
    database.close()


def test_an_upgrade_of_an_up_to_date_database_changes_nothing(empty_url):
    database = Database(empty_url)
    migrations.upgrade(database)
    Functions(database).save("def work(): ...\n")
    assert migrations.upgrade(database) == migrations.HEAD
    assert Functions(database).get("work")["number"] == 1
    database.close()


def test_the_migrated_schema_is_the_one_in_the_code(empty_url):
    database = Database(empty_url)
    migrations.upgrade(database)
    parts = parts_of(database)
    with database.connection() as connection:
        options = {
            "compare_type": True,
            "compare_server_default": True,
            "include_name": lambda name, kind, _: kind != "table" or name not in parts,
        }
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, schema.metadata) == []
        inspector = sa.inspect(connection)
        for table in schema.metadata.tables.values():
            # Autogenerate does not look at the conditions of partial indexes.
            wanted = {
                index.name: index.dialect_options["sqlite"]["where"] is not None for index in table.indexes
            }
            found = {
                index["name"]: f"{database.dialect}_where" in index.get("dialect_options", {})
                for index in inspector.get_indexes(table.name)
                if not index.get("duplicates_constraint")
            }
            assert found == wanted
            # Nor at the names of keys.
            keys = [inspector.get_pk_constraint(table.name)]
            keys += inspector.get_unique_constraints(table.name) + inspector.get_foreign_keys(table.name)
            assert {key["name"] for key in keys} == {
                key.name for key in table.constraints if not isinstance(key, sa.CheckConstraint)
            }
    database.close()


PROCESS = """
import sys
from functory.engine.database import migrations
from functory.engine.database.connection import Database
database = Database(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
migrations.upgrade(database)
migrations.check(database)
"""


def test_processes_that_start_together_on_a_new_database_all_find_it_migrated(empty_url):
    command = [sys.executable, "-c", PROCESS, empty_url]
    root = Path(__file__).parents[4]
    processes = [
        subprocess.Popen(
            command,
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=patient(100))[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], said
    database = Database(empty_url)
    assert tables_of(database) == set(schema.metadata.tables)
    database.close()


def test_a_schema_of_a_newer_functory_is_refused(empty_url):
    database = Database(empty_url)
    migrations.upgrade(database)
    with database.write() as tx:
        tx.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Conflict, match="has schema 9999"):
        migrations.check(database)
    database.close()


def newer(database: Database, since: int | None) -> None:
    """As the release after next may leave the database: another schema, and who can work with it."""
    with database.write() as tx:
        tx.execute(sa.text("UPDATE alembic_version SET version_num = '9998'"))
        tx.execute(sa.text("DELETE FROM counter WHERE name LIKE 'oldest code%'"))
        if since is not None:
            tx.insert(schema.counter, [{"name": "oldest code for schema 9998", "value": since}])


def test_a_newer_schema_is_worked_with_when_it_says_that_this_version_can(empty_url):
    database = Database(empty_url)
    migrations.upgrade(database)
    newer(database, int(migrations.HEAD))
    migrations.check(database)
    assert migrations.is_compatible(database)
    # What starts with an upgrade leaves it as it is.
    assert migrations.upgrade(database) == "9998"
    Functions(database).save("def work(): ...\n")
    database.close()


@pytest.mark.parametrize("since", [None, int(migrations.HEAD) + 1])
def test_and_refused_when_it_says_that_it_cannot_or_says_nothing(empty_url, since):
    database = Database(empty_url)
    migrations.upgrade(database)
    newer(database, since)
    assert not migrations.is_compatible(database)
    for refused in (migrations.check, migrations.upgrade):
        with pytest.raises(Conflict, match=f"(?s)has schema 9998.*up to {migrations.HEAD}.*or a newer one"):
            refused(database)
    assert migrations.current(database) == "9998"
    database.close()


def test_an_older_schema_is_never_worked_with(empty_url, monkeypatch):
    database = Database(empty_url)
    migrations.upgrade(database)
    monkeypatch.setattr(migrations, "HEAD", "9998")
    found = f"has schema {migrations.FIRST}.*needs 9998.*functory db upgrade"
    with pytest.raises(Conflict, match=f"(?s){found}"):
        migrations.check(database)
    database.close()


@pytest.mark.parametrize(
    "open_it",
    [
        migrations.check,
        migrations.check_exists,
        migrations.upgrade,
        lambda database: migrations.upgrade(database, migrations.HEAD),
        lambda database: migrations.downgrade(database, "base"),
    ],
)
def test_a_database_of_a_snapshot_before_the_first_release_is_refused(empty_url, open_it):
    database = Database(empty_url)
    migrations.upgrade(database)
    with database.write() as tx:
        tx.execute(sa.text("UPDATE alembic_version SET version_num = '0013'"))
    with pytest.raises(Conflict, match=r"(?s)has schema 0013.*development snapshot.*a new database"):
        open_it(database)
    assert not migrations.is_compatible(database)
    assert migrations.current(database) == "0013"
    assert tables_of(database) == set(schema.metadata.tables)
    database.close()


def test_a_client_of_a_snapshot_s_database_gets_the_clear_error(empty_url, tmp_path):
    database = Database(empty_url)
    migrations.upgrade(database)
    with database.write() as tx:
        tx.execute(sa.text("UPDATE alembic_version SET version_num = '0013'"))
    database.close()
    for broker in ({}, {"broker_url": "redis://127.0.0.1:1/0"}):
        settings = Settings(home=tmp_path, database_url=empty_url, **broker)
        with pytest.raises(Conflict, match="development snapshot"), Functory(settings) as client:
            client.start()


def test_the_oldest_compatible_code_is_stored_again_when_it_got_lost(empty_url):
    database = Database(empty_url)
    migrations.upgrade(database)
    with database.write() as tx:
        tx.execute(sa.delete(schema.counter))
    migrations.upgrade(database)
    with database.read() as tx:
        assert tx.pairs(sa.select(schema.counter.c.name, schema.counter.c.value)) == {
            f"oldest code for schema {migrations.HEAD}": int(migrations.OLDEST_COMPATIBLE)
        }
    database.close()
