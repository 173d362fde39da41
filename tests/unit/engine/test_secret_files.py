"""Settings whose values are in files: what is read, what wins, what is refused, and that it stays hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from functory.engine import secret_files
from functory.engine.access.path_grants import ProtectedPaths
from functory.engine.errors import Invalid, Refused
from functory.engine.setting_display import setting_rows
from functory.engine.settings import Settings, load_settings
from tests.support.no_settings import forget_settings

URL = "postgresql://ada:hunter2@host/shop"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and no setting from outside."""
    return forget_settings(monkeypatch, tmp_path)


@pytest.fixture
def url_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the URL of the database, which the environment names."""
    file = folder / "database_url"
    file.write_text(f"{URL}\n")
    monkeypatch.setenv("FUNCTORY_DATABASE_URL_FILE", str(file))
    return file


def test_the_value_is_read_from_the_file_without_its_line_break(url_file: Path) -> None:
    assert load_settings().database == URL.replace("postgresql", "postgresql+psycopg")


@pytest.mark.usefixtures("url_file")
def test_the_file_wins_over_the_settings_file_and_an_argument_over_both(folder: Path) -> None:
    (folder / "functory.toml").write_text('database_url = "postgresql://toml/shop"\n')
    assert "hunter2" in load_settings().database
    assert load_settings(database_url="postgresql://argument/shop").database.endswith("argument/shop")


@pytest.mark.usefixtures("url_file")
def test_a_value_and_a_file_for_the_same_setting_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUNCTORY_DATABASE_URL", URL)
    with pytest.raises(Invalid, match="both FUNCTORY_DATABASE_URL and FUNCTORY_DATABASE_URL_FILE are set"):
        load_settings()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "FUNCTORY_DATABASE_URL_FILE: .*database_url cannot be read: No such file"),
        (b"\n", "FUNCTORY_DATABASE_URL_FILE: .* is empty"),
        (b"a\nb\n", "FUNCTORY_DATABASE_URL_FILE: .* has more than one line"),
        (b"x" * (secret_files.MAX_BYTES + 1), "has more than one line"),
        (b"\xff\xfe", "FUNCTORY_DATABASE_URL_FILE: .* is not text in UTF-8"),
        (b"mysql://ada:hunter2@host/shop", "FUNCTORY_DATABASE_URL_FILE: unknown database 'mysql'"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(url_file: Path, content: bytes | None, message: str) -> None:
    if content is None:
        url_file.unlink()
    else:
        url_file.write_bytes(content)
    with pytest.raises(Invalid, match=f"(?s)wrong settings.*{message}") as caught:
        load_settings()
    assert "hunter2" not in str(caught.value)


def test_the_list_of_settings_shows_the_file_and_no_password(url_file: Path) -> None:
    (row,) = (row for row in setting_rows(load_settings()) if row["name"] == "database_url")
    assert (row["value"], row["source"]) == ("postgresql+psycopg://ada:***@host/shop", str(url_file))


def test_no_function_may_be_granted_the_file(url_file: Path) -> None:
    with pytest.raises(Refused, match="cannot be granted"):
        ProtectedPaths(Settings()).check("read", str(url_file))


def test_a_misspelt_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUNCTORY_DATBASE_URL_FILE", "/run/secrets/url")
    with pytest.raises(Invalid, match=r"did you mean FUNCTORY_DATABASE_URL_FILE\?"):
        load_settings()


def test_every_setting_that_may_hold_a_password_can_be_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = {name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}
    assert {*secret_files.NAMES, "secret_key"} == secret
    assert "secret_key_file" in Settings.model_fields, "the keys have a setting of their own"
