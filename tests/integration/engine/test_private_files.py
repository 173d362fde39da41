"""What a deployment stores on a disk is for its own user only, whatever the umask is."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.client.functory import Functory
from functory.engine import private_files
from functory.engine.maintenance.backup.create import backup
from functory.engine.settings import Settings
from tests.support.cli_shell import Shell

OPEN_UMASK = 0o000


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(OPEN_UMASK)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: mode(path) for path in folder.iterdir()}


def test_a_new_home_and_all_its_files_are_private(tmp_path: Path) -> None:
    home = tmp_path / "deep" / ".functory"
    with Functory(Settings(home=home)) as engine:
        engine.secrets.set("KEY", "a value of some length")
        engine.emit("it.happened")
        assert mode(home) == 0o700
        found = modes(home)
        assert set(found) >= {"functory.db", "functory.db-wal", "functory.db-shm", "secret.key"}
        assert set(found.values()) == {0o600}, found


def test_what_an_earlier_version_made_is_mended_at_start(tmp_path: Path) -> None:
    home = tmp_path / "data"
    Functory(Settings(home=home)).close()
    home.chmod(0o755)
    for path in home.iterdir():
        path.chmod(0o644)
    with Functory(Settings(home=home)) as engine:
        engine.emit("it.happened")
        assert mode(home) == 0o700
        assert set(modes(home).values()) == {0o600}


def test_a_database_in_another_folder_is_private_and_its_folder_is_left_alone(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    file = shared / "work.db"
    settings = Settings(home=tmp_path / ".functory", database_url=f"sqlite:///{file}")
    Functory(settings).close()
    assert mode(file) == 0o600
    file.chmod(0o644)
    with Functory(settings) as engine:
        engine.emit("it.happened")
        assert set(modes(shared).values()) == {0o600}
    assert mode(shared) == 0o755


def test_a_home_that_holds_other_things_keeps_its_mode_but_its_files_are_private(tmp_path: Path) -> None:
    home = tmp_path / "project"
    home.mkdir(mode=0o755)
    (home / "index.html").write_text("for all")
    settings = Settings(home=home)
    Functory(settings).close()
    assert mode(home) == 0o755
    assert mode(home / "functory.db") == 0o600
    assert mode(home / "index.html") == 0o666
    ((path, advice),) = private_files.find_open(settings)
    assert path == home
    assert "FUNCTORY_HOME" in advice


def test_packages_stay_reachable_for_functions_under_other_user_ids(tmp_path: Path) -> None:
    home = tmp_path / "data"
    settings = Settings(home=home)
    Functory(settings).close()
    (home / private_files.ENVIRONMENTS).mkdir()
    private_files.mend(settings)
    assert mode(home) == (0o711 if os.geteuid() == 0 else 0o700)
    assert private_files.find_open(settings) == []


def test_a_backup_is_private(tmp_path: Path) -> None:
    path = tmp_path / "backup.tar"
    with Functory(Settings(home=tmp_path / ".functory")) as engine:
        backup(engine.database, path, version="1")
    assert mode(path) == 0o600


def test_doctor_names_what_others_can_read(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    home = tmp_path / "home"
    Functory(Settings(home=home)).close()

    def findings() -> list[dict[str, str]]:
        return [found for found in shell.json("doctor") if found["check"] == "files"]

    assert [found["verdict"] for found in findings()] == ["ok"]
    home.chmod(0o755)
    (home / "functory.db").chmod(0o644)
    found = findings()
    assert [one["verdict"] for one in found] == ["warn", "warn"]
    assert [one["advice"].split()[:2] for one in found] == [["chmod", "700"], ["chmod", "600"]]


def test_a_role_makes_private_files_and_its_functions_keep_the_umask_of_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(private_files, "_callers_umask", None)
    os.umask(0o027)
    assert private_files.umask_of_functions() == -1
    private_files.restrict_umask()
    private_files.restrict_umask()
    assert os.umask(0o077) == 0o077
    assert private_files.umask_of_functions() == 0o027
