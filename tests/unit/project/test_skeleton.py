"""A new project: what is made, and what stays."""

from pathlib import Path

import pytest

from functory.engine.errors import FunctoryError, Invalid
from functory.project import folder, skeleton


def test_a_new_folder_is_a_project(tmp_path: Path) -> None:
    root = tmp_path / "new" / "shop"
    assert skeleton.make(root) == ["functory.toml", "functions/hello.py", ".gitignore"]
    project = folder.read(root)
    assert (list(project.functions), project.problems) == (["hello"], ())
    assert ".functory/" in (root / ".gitignore").read_text().splitlines()
    assert skeleton.make(root) == []


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "functions").mkdir()
    (tmp_path / "functory.toml").write_text("port = 9000\n")
    (tmp_path / ".gitignore").write_text(".functory\n")
    assert skeleton.make(tmp_path) == []
    assert (tmp_path / "functory.toml").read_text() == "port = 9000\n"
    assert list((tmp_path / "functions").iterdir()) == []


def test_data_that_would_come_into_git_is_said(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    with pytest.raises(Invalid, match=r"does not name \.functory/"):
        skeleton.make(tmp_path)
    assert (tmp_path / "functions" / "hello.py").is_file()


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "functory.toml").symlink_to(tmp_path / "elsewhere")
    skeleton.make(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_in_the_place_of_a_folder_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "functions").write_text("")
    with pytest.raises(FunctoryError, match="the project cannot be made"):
        skeleton.make(tmp_path)
