"""The URL of a SQLite file, and the path in a URL: both ways, for every name that a folder may have."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine import sqlite_urls
from functory.engine.database.connection import Database
from functory.engine.errors import Invalid
from functory.engine.settings import load_settings

PRINTABLE = [chr(code) for code in range(0x20, 0x7F) if chr(code) != "/"]
MEANING_MORE = [
    "%41",
    "%2F",
    "%00",
    "%",
    "?a=1",
    "a?mode=ro&uri=true",
    "file:x",
    ":memory:",
    "..x",
    "é",
    "\udcff\udcfe",
]

# A file's name is bytes without NUL and slash; the two that name a folder are none.
names = st.binary(min_size=1, max_size=40).map(os.fsdecode).filter(
    lambda name: not {"\0", "/"} & set(name) and name not in (".", "..")
)  # fmt: skip


@given(st.lists(names, min_size=1, max_size=4))
def test_a_path_becomes_a_url_and_the_same_path_again(parts: list[str]):
    path = Path("/", *parts)
    assert sqlite_urls.path_of(sqlite_urls.url_of(path)) == path


@pytest.mark.parametrize("name", [*PRINTABLE, *MEANING_MORE])
def test_a_database_is_the_file_of_its_path_and_no_other(name: str, tmp_path: Path):
    file = tmp_path / f"a{name}1" / f"{name}2"
    file.parent.mkdir()
    database = Database(sqlite_urls.url_of(file))
    try:
        with database.write() as tx:
            tx.connection.exec_driver_sql("CREATE TABLE t (x)")
    finally:
        database.close()
    assert database.file == file and file.stat().st_size
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == [file]


@pytest.mark.parametrize("name", [*PRINTABLE, *MEANING_MORE])
def test_a_project_finds_its_own_database_whatever_its_folder_is_called(name, tmp_path, monkeypatch):
    project = tmp_path / f"p{name}1"
    project.mkdir()
    monkeypatch.chdir(project)
    assert sqlite_urls.path_of(load_settings().database) == project / ".functory" / "functory.db"
    below = project / "below"
    below.mkdir()
    (project / "functory.toml").write_text('database_url = "sqlite:///own.db"\n')
    monkeypatch.chdir(below)
    assert sqlite_urls.path_of(load_settings().database) == project / "own.db"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///own.db", "own.db"),
        ("sqlite:////a/b.db", "/a/b.db"),
        ("sqlite:////a/b%3F%41#c.db", "/a/b?A#c.db"),
        ("sqlite:///:memory:", None),
        ("sqlite://", None),
        ("sqlite:///file:x.db?mode=ro&uri=true", None),
        ("postgresql+psycopg://host/name", None),
    ],
)
def test_the_path_of_a_written_url_is_decoded_once(url: str, path: str | None):
    assert sqlite_urls.path_of(url) == (None if path is None else Path(path))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqlite:////tmp/p?1/x.db", "a SQLite URL has no options; write the ? of a name as %3F"),
        ("sqlite:///x.db?timeout=5", "a SQLite URL has no options"),
        ("sqlite://x.db", "a SQLite URL has no host; write sqlite:///file"),
        ("sqlite+pysqlite://x/x.db", "a SQLite URL has no host"),
        ("sqlite:///x%00.db", "the name of a file cannot contain %00"),
    ],
)
def test_a_url_that_would_be_another_database_is_refused(url: str, why: str):
    with pytest.raises(Invalid, match=re.escape(f"wrong settings\ndatabase_url: {why}")):
        load_settings(database_url=url)
