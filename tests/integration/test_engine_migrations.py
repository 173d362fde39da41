"""Migrations on both databases: up, down, at the same time, and no difference to what the code expects."""

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from engine import migrate, partitions, tables
from engine.database import Database
from engine.errors import Conflict
from engine.functions import Functions

pytest_plugins = ["tests.engine"]


def tables_of(database: Database) -> set[str]:
    with database.connection() as connection:
        names = set(sa.inspect(connection).get_table_names()) - {"alembic_version"}
    return names - parts_of(database)


def parts_of(database: Database) -> set[str]:
    """The partitions, which are tables of their own to an inspector."""
    with database.read() as tx:
        return {part.name for part in partitions.found(tx)}


def test_up_makes_every_table_and_down_leaves_none(empty_url):
    database = Database(empty_url)
    assert migrate.current(database) is None
    for _ in range(2):
        assert migrate.upgrade(database) == migrate.HEAD
        migrate.check(database)
        assert tables_of(database) == set(tables.metadata.tables)
        migrate.downgrade(database, "base")
        assert tables_of(database) == set()
        with pytest.raises(Conflict, match="functory db upgrade"):
            migrate.check(database)
    database.close()


def test_an_upgrade_of_an_up_to_date_database_changes_nothing(empty_url):
    database = Database(empty_url)
    migrate.upgrade(database)
    Functions(database).save("def work(): ...\n")
    assert migrate.upgrade(database) == migrate.HEAD
    assert Functions(database).get("work")["number"] == 1
    database.close()


def test_the_migrated_schema_is_the_one_in_the_code(empty_url):
    database = Database(empty_url)
    migrate.upgrade(database)
    parts = parts_of(database)
    with database.connection() as connection:
        options = {
            "compare_type": True,
            "compare_server_default": True,
            "include_name": lambda name, kind, _: kind != "table" or name not in parts,
        }
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, tables.metadata) == []
        inspector = sa.inspect(connection)
        for table in tables.metadata.tables.values():
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
    database.close()


PROCESS = """
import sys
from engine import migrate
from engine.database import Database
database = Database(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
migrate.upgrade(database)
migrate.check(database)
"""


def test_processes_that_start_together_on_a_new_database_all_find_it_migrated(empty_url):
    command = [sys.executable, "-c", PROCESS, empty_url]
    root = Path(migrate.__file__).parents[1]
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
    said = [process.communicate(timeout=100)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], said
    database = Database(empty_url)
    assert tables_of(database) == set(tables.metadata.tables)
    database.close()


def test_a_schema_of_a_newer_functory_is_refused(empty_url):
    database = Database(empty_url)
    migrate.upgrade(database)
    with database.write() as tx:
        tx.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Conflict, match="has schema 9999"):
        migrate.check(database)
    database.close()


def newer(database: Database, since: int | None) -> None:
    """As the release after next may leave the database: another schema, and who can work with it."""
    with database.write() as tx:
        tx.execute(sa.text("UPDATE alembic_version SET version_num = '9998'"))
        tx.execute(sa.text("DELETE FROM counter WHERE name LIKE 'oldest code%'"))
        if since is not None:
            tx.insert(tables.counter, [{"name": "oldest code for schema 9998", "value": since}])


def test_a_newer_schema_is_worked_with_when_it_says_that_this_version_can(empty_url):
    database = Database(empty_url)
    migrate.upgrade(database)
    newer(database, int(migrate.HEAD))
    migrate.check(database)
    assert migrate.works(database)
    # What starts with an upgrade leaves it as it is.
    assert migrate.upgrade(database) == "9998"
    Functions(database).save("def work(): ...\n")
    database.close()


@pytest.mark.parametrize("since", [None, int(migrate.HEAD) + 1])
def test_and_refused_when_it_says_that_it_cannot_or_says_nothing(empty_url, since):
    database = Database(empty_url)
    migrate.upgrade(database)
    newer(database, since)
    assert not migrate.works(database)
    for refused in (migrate.check, migrate.upgrade):
        with pytest.raises(Conflict, match=f"(?s)has schema 9998.*up to {migrate.HEAD}.*or a newer one"):
            refused(database)
    assert migrate.current(database) == "9998"
    database.close()


def test_an_older_schema_is_never_worked_with(empty_url):
    database = Database(empty_url)
    migrate.upgrade(database)
    migrate.downgrade(database, migrate.SINCE)
    with pytest.raises(
        Conflict, match=f"(?s)has schema {migrate.SINCE}.*needs {migrate.HEAD}.*functory db upgrade"
    ):
        migrate.check(database)
    assert migrate.upgrade(database) == migrate.HEAD
    migrate.check(database)
    database.close()


def test_who_can_work_with_it_is_written_down_again_when_that_got_lost(empty_url):
    database = Database(empty_url)
    migrate.upgrade(database)
    with database.write() as tx:
        tx.execute(sa.delete(tables.counter))
    migrate.upgrade(database)
    with database.read() as tx:
        assert tx.pairs(sa.select(tables.counter.c.name, tables.counter.c.value)) == {
            f"oldest code for schema {migrate.HEAD}": int(migrate.SINCE)
        }
    database.close()
