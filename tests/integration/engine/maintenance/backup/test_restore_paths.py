"""Backups and restores between paths with every character that a file's name may have."""

import shutil
from pathlib import Path

import pytest

from functory.client.functory import Functory
from functory.engine.database.connection import Database
from functory.engine.maintenance.backup import create
from functory.engine.maintenance.backup.restore import restore
from functory.engine.settings import load_settings
from functory.engine.sqlite_urls import url_of

pytest_plugins = ["tests.support.world"]

PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "/")
# Each begins with another character: what follows the first ? or # of a URL is read in another way.
NAMES = [PRINTABLE[at:] + PRINTABLE[:at] for at in range(0, len(PRINTABLE), 10)]
NAMES += ["?a=1", "#%41", "%41", "%2f..", "file:x?mode=ro", ":memory:", "é\udcff"]


@pytest.mark.parametrize("name", NAMES, ids=map(str, range(len(NAMES))))
def test_what_is_stored_is_in_the_backup_and_in_the_restored_database(
    name: str, migrated_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    project, backups, other = (tmp_path / f"{kind}{name}" for kind in ("p", "b", "r"))
    for folder in (project / ".functory", backups, other):
        folder.mkdir(parents=True)
    shutil.copy(migrated_file, project / ".functory" / "functory.db")
    monkeypatch.chdir(project)
    settings = load_settings()
    with Functory(settings) as engine:
        event = engine.events.emit("order.paid", {"id": 7})
        made = create.backup(engine.database, backups / name, version="0.1.0")
    assert made.rows["event"] == 1
    assert [path.name for path in backups.iterdir()] == [name]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        path.name for path in (project, backups, other)
    )
    database = Database(url_of(other / name))
    try:
        restore(database, settings, backups / name, author="test")
    finally:
        database.close()
    assert {path.name.removesuffix("-wal").removesuffix("-shm") for path in other.iterdir()} == {name}
    with Functory(load_settings(database_url=url_of(other / name))) as engine:
        assert engine.events.get(event)["data"] == {"id": 7}
