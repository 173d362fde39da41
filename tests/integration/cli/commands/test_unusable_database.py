"""A database that cannot be used, a URL that cannot be read, a client that is not installed: an error, no traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from functory.engine import database, extras
from tests.support.cli_shell import Shell

pytest_plugins = ["tests.support.world"]

COMMANDS = ("status", "function list", "db status", "db upgrade", "event emit a.b", "doctor")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """The command line in an empty folder."""
    return Shell(tmp_path)


def failed(shell: Shell, command: str) -> str:
    """What a failing command says."""
    done = shell.run(*command.split(), status=None)
    assert done.returncode in (1, 2, 6), done
    said = done.stdout + done.stderr
    assert "Traceback" not in said and "defect of functory" not in said and "sqlalche.me" not in said, said
    return said


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("damage", ["other", "pages"])
def test_a_damaged_file_is_reported(shell: Shell, migrated_file: Path, command: str, damage: str) -> None:
    content = migrated_file.read_bytes()
    (shell.folder / "home").mkdir()
    (shell.folder / "home" / "functory.db").write_bytes(
        b"this is no database" * 100
        if damage == "other"
        else content[:4096] + b"\xa5" * (len(content) - 4096)
    )
    said = failed(shell, command)
    assert "damaged" in said and "functory db restore FILE" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_client_that_is_not_installed_is_named_with_its_extra(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "functory.engine.database.postgres_connections", raising=False)
    monkeypatch.delattr(database, "postgres_connections", raising=False)
    shell.environment["FUNCTORY_DATABASE_URL"] = "postgresql://ada@127.0.0.1:1/shop"
    said = failed(shell, command)
    assert "the client of PostgreSQL is not installed" in said and extras.install_command("postgres") in said


def test_a_server_without_the_database_says_how_to_create_it(shell: Shell, postgres_url: str) -> None:
    url = make_url(postgres_url)
    missing = url.set(database=f"{url.database}_missing")
    shell.environment["FUNCTORY_DATABASE_URL"] = missing.render_as_string(hide_password=False)
    for command in ("status", "db upgrade", "doctor"):
        said = failed(shell, command)
        assert "createdb" in said, said


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "it is empty"),
        ("shop.db", "it is not a URL"),
        ("postgresql://ada:s3cret@host:port/shop", "the port of the URL is not a number"),
        ("postgresql://ada:s3/cret@host/shop", "the port of the URL is not a number"),
        ("postgresql://[::1/shop", "write an IPv6 address as [::1]"),
        ("postgresql://127.0.0.1:1/shop?bogus=1", "bogus"),
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_its_password(shell: Shell, url: str, said: str) -> None:
    shell.environment["FUNCTORY_DATABASE_URL"] = url
    for command in ("status", "doctor"):
        error = failed(shell, command)
        assert said in error and "s3" not in error and "cret" not in error.replace("secret", "")


@pytest.mark.parametrize("url", ["", "redis://h:bad/0", "amqp://a:s3/cret@h//"])
def test_a_broker_that_cannot_be_read_is_refused_too(shell: Shell, url: str) -> None:
    shell.environment["FUNCTORY_BROKER_URL"] = url
    assert "BROKER_URL" in failed(shell, "doctor")
