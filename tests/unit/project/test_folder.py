"""The folder of a project: which files count, what comes along with a function, and how a problem names its place."""

from pathlib import Path

import pytest

from functory.engine.errors import Invalid
from functory.project import folder

PRICE = "import money\n\n\ndef price(text):\n    return money.cents(text)\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "functions").mkdir()
    (tmp_path / "lib").mkdir()
    return tmp_path


def put(root: Path, **texts: str) -> None:
    for name, text in texts.items():
        (root / name.replace("__", "/")).with_suffix(".py").write_text(text)


def test_a_function_has_the_modules_that_it_reaches(root: Path) -> None:
    put(
        root,
        functions__price=PRICE,
        lib__money="import rounding\n\ndef cents(text):\n    return rounding.up(text)\n",
        lib__rounding="def up(text):\n    return int(text)\n",
        lib__unused="VALUE = 1\n",
    )
    project = folder.read(root)
    assert project.problems == ()
    assert sorted(project.functions["price"].modules) == ["money", "rounding"]
    assert project.functions["price"].file == "functions/price.py"


def test_only_what_a_function_reaches_changes_it(root: Path) -> None:
    put(
        root, functions__price=PRICE, lib__money="def cents(text):\n    return 1\n", lib__unused="VALUE = 1\n"
    )
    before = folder.read(root).functions["price"].sha256
    put(root, lib__unused="VALUE = 2\n")
    assert folder.read(root).functions["price"].sha256 == before
    put(root, lib__money="def cents(text):\n    return 2\n")
    assert folder.read(root).functions["price"].sha256 != before


def test_a_problem_of_one_file_says_its_place_and_leaves_the_others(root: Path) -> None:
    put(
        root, functions__good="def good():\n    return 1\n", functions__bad="x = (\n", functions___own="def ("
    )
    project = folder.read(root)
    assert list(project.functions) == ["good"]
    (problem,) = map(str, project.problems)
    assert problem == "functions/bad.py:1:5: error: syntax error: '(' was never closed"


def test_two_files_with_one_function_are_a_problem_of_the_second(root: Path) -> None:
    put(root, functions__a="def same():\n    return 1\n", functions__b="def same():\n    return 2\n")
    (problem,) = map(str, folder.read(root).problems)
    assert problem.startswith("functions/b.py:1:1: error: the function same is there twice (functions/a.py:1")


@pytest.mark.parametrize(
    ("raw", "what"),
    [(b"\xff\xfe", "the file is not UTF-8 text"), (b"#" * 1_048_577, "the file is too large")],
    ids=["encoding", "size"],
)
def test_a_file_that_is_no_text_of_a_function_is_a_problem(root: Path, raw: bytes, what: str) -> None:
    (root / "functions" / "a.py").write_bytes(raw)
    (problem,) = map(str, folder.read(root).problems)
    assert what in problem


def test_ends_of_lines_of_another_system_change_nothing(root: Path) -> None:
    text = "# /// functory\n# timeout = 3\n# ///\ndef a():\n    return 1\n"
    (root / "functions" / "a.py").write_bytes(text.encode())
    here = folder.read(root).functions["a"].sha256
    (root / "functions" / "a.py").write_bytes(text.replace("\n", "\r\n").encode())
    assert folder.read(root).functions["a"].sha256 == here


def test_a_folder_without_functions_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="is no project"):
        folder.read(tmp_path)
