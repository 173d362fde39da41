"""Which commands create a database: those that store something new, and they say so. The others create nothing."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.cli_shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """The command line in an empty folder, without any setting."""
    shell = Shell(tmp_path)
    del shell.environment["FUNCTORY_HOME"]
    (tmp_path / "greet.py").write_text("def greet():\n    return 1\n")
    return shell


@pytest.mark.parametrize(
    "command",
    [
        "status",
        "function list",
        "trigger list",
        "trigger show t",
        "event list",
        "event tail",
        "execution list",
        "execution list --json",
        "schedule list",
        "watch list",
        "source list",
        "webhook list",
        "secret list",
        "environment list",
        "grant list",
        "state get parse key",
        "verify",
        "run greet",
        "function delete greet --yes",
        "trigger pause t",
        "db backup file.backup",
    ],
)
def test_a_command_that_stores_nothing_new_creates_nothing(shell: Shell, command: str) -> None:
    done = shell.run(*command.split(), status=3)
    assert "error: there is no database yet" in done.stderr and "functory function add" in done.stderr
    assert [file.name for file in shell.folder.iterdir()] == ["greet.py"]


@pytest.mark.parametrize("command", ["db status", "db prune --older 30d"])
def test_commands_about_the_schema_create_nothing_either(shell: Shell, command: str) -> None:
    done = shell.run(*command.split(), status=5)
    assert "functory db upgrade" in done.stdout + done.stderr
    assert [file.name for file in shell.folder.iterdir()] == ["greet.py"]


def test_commands_about_a_snapshot_s_schema_name_the_way_out(shell: Shell) -> None:
    shell.run("db", "upgrade")
    with closing(sqlite3.connect(shell.folder / ".functory" / "functory.db")) as database:
        database.execute("UPDATE alembic_version SET version_num = '0013'")
        database.commit()
    commands = ("db status", "db upgrade", "db prune --older 30d", "function list", "run greet")
    said = [shell.run(*command.split(), status=5) for command in commands]
    assert all("make a new database" in one.stdout + one.stderr for one in said)


def test_config_and_doctor_create_nothing(shell: Shell) -> None:
    shell.run("config")
    shell.run("doctor", status=None)
    assert [file.name for file in shell.folder.iterdir()] == ["greet.py"]


def test_a_command_that_stores_something_creates_the_database_and_says_so(shell: Shell) -> None:
    assert "made the database .functory/functory.db" in shell.run("function", "add", "greet.py").stderr
    assert "made" not in shell.run("function", "add", "greet.py").stderr


def test_commands_below_the_folder_use_its_database(shell: Shell) -> None:
    shell.run("function", "add", "greet.py")
    below = shell.folder / "a" / "b"
    below.mkdir(parents=True)
    shell.folder = below
    assert shell.out("function", "list", "--quiet") == "greet"
    assert not (below / ".functory").exists()


def test_a_server_without_a_schema_stays_empty(shell: Shell, postgres_url: str) -> None:
    shell.environment["FUNCTORY_DATABASE_URL"] = postgres_url
    done = shell.run("function", "list", status=5)
    assert "has no schema" in done.stderr and "functory db upgrade" in done.stderr
    url = postgres_url
    engine = sa.create_engine(url)
    try:
        assert sa.inspect(engine).get_table_names() == []
        assert "made the database" in shell.run("function", "add", "greet.py").stderr
        assert sa.inspect(engine).has_table("function")
    finally:
        engine.dispose()


def python(folder: Path, program: str) -> str:
    outside = {key: value for key, value in os.environ.items() if not key.startswith("FUNCTORY_")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=outside, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_an_attribute_that_does_not_exist_creates_nothing_and_names_the_nearest(tmp_path: Path) -> None:
    program = "import functory\ntry: functory.emitt\nexcept AttributeError as error: print(error)"
    assert "did you mean emit?" in python(tmp_path, program)
    assert list(tmp_path.iterdir()) == []


def test_the_nearest_stored_function_is_named_as_well(shell: Shell) -> None:
    shell.run("function", "add", "greet.py")
    program = "import functory\ntry: functory.great\nexcept AttributeError as error: print(error)"
    assert "did you mean greet?" in python(shell.folder, program)
