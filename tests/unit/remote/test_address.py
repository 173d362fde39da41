"""The server of ``functory login``: where it is kept, and where it counts."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from functory.engine.errors import Invalid
from functory.remote import address
from functory.remote.connection import Connection
from tests.support.no_settings import forget_settings

URL, TOKEN = "https://one.example", "fnc_1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder of a user without settings."""
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return forget_settings(monkeypatch, tmp_path / "work")


def test_a_login_is_kept_in_files_that_only_their_user_reads(folder: Path) -> None:
    path = address.log_in(f"{URL}/", TOKEN)
    assert (address.logged_in(), address.token_for(URL)) == (URL, TOKEN)
    kept = [path.parent, *path.parent.iterdir()]
    assert [stat.S_IMODE(one.stat().st_mode) for one in kept] == [0o700, 0o600, 0o600]


@pytest.mark.parametrize("file", ["tokens_file", "login_file"])
def test_a_file_that_others_can_read_is_refused(folder: Path, file: str) -> None:
    address.log_in(URL, TOKEN)
    path: Path = getattr(address, file)()
    path.chmod(0o640)
    with pytest.raises(Invalid, match="is not private") as raised:
        address.token_for(address.url_of_command() or "")
    assert raised.value.try_ == f"chmod 600 {path}" and TOKEN not in str(raised.value)


def test_a_token_is_sent_to_the_address_that_it_was_stored_for_alone(folder: Path) -> None:
    address.log_in(URL, TOKEN)
    for other in ("http://one.example", f"{URL}:8443", f"{URL}.evil.example", f"{URL}/below"):
        assert address.token_for(other) is None
    assert TOKEN not in repr(Connection(URL, address.token_for(URL)))


def test_a_logout_forgets_the_server_and_its_token_and_leaves_the_others(folder: Path) -> None:
    address.store_token("https://two.example", "fnc_2")
    address.log_in(URL, TOKEN)
    address.log_out(URL)
    assert (address.logged_in(), address.token_for(URL)) == (None, None)
    assert address.token_for("https://two.example") == "fnc_2"


def test_only_commands_use_a_login(folder: Path) -> None:
    address.log_in(URL, TOKEN)
    assert (address.url_of_command(), address.url_of_process()) == (URL, None)


@pytest.mark.parametrize("name", ["FUNCTORY_HOME", "FUNCTORY_DATABASE_URL", "FUNCTORY_DATABASE_URL_FILE"])
def test_a_variable_that_names_a_database_wins_over_a_login(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    address.log_in(URL, TOKEN)
    monkeypatch.setenv(name, "somewhere")
    assert (address.url_of_command(), address.own_data()) == (None, name)


def test_data_of_the_folder_wins_over_a_login(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address.log_in(URL, TOKEN)
    (folder / ".functory").mkdir()
    assert address.url_of_command() is None
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    assert (address.url_of_command(), address.own_data()) == (None, str(folder / ".functory"))


def test_a_settings_file_wins_over_a_login_and_may_name_another_server(folder: Path) -> None:
    address.log_in(URL, TOKEN)
    file = folder / "functory.toml"
    file.write_text("worker_slots = 2\n")
    assert address.url_of_command() is None
    file.write_text('url = "https://two.example"\n')
    assert address.url_of_command() == "https://two.example"


def test_the_variables_win_over_a_login(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address.log_in(URL, TOKEN)
    monkeypatch.setenv("FUNCTORY_TOKEN", "fnc_environment")
    assert address.token_for(URL) == "fnc_environment"
    monkeypatch.setenv("FUNCTORY_URL", "https://two.example")
    assert address.url_of_command() == "https://two.example"
    monkeypatch.setenv("FUNCTORY_URL", "")
    assert address.url_of_command() is None


def test_a_user_without_a_home_folder_has_no_login(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr(Path, "expanduser", homeless)
    assert address.url_of_command() is None
