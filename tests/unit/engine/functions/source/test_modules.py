"""Which modules of one's own a source reaches, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from functory.engine.errors import Invalid
from functory.engine.functions.source import modules

LIB = {
    "shop.__init__": "",
    "shop.money": "from . import tax\nfrom .deep.more import x\nimport json, yaml",
    "shop.tax": "import other.leaf as leaf",
    "shop.deep.more": "from ... import beyond\nfrom ..unused_but_named import y",
    "other.leaf": "def f():\n    import late",
    "late": "",
    "beyond": "",
    "never": "",
}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import json", set()),
        ("from other import leaf", {"other.leaf", "late"}),
        ("import other.leaf", {"other.leaf", "late"}),
        ("def f():\n    import late", {"late"}),
        ("import importlib\nimportlib.import_module('late')", {"late"}),
        ("name = 'late'\n__import__(name)", set()),
        ("import shop.money", {*LIB} - {"never"}),
        ("import missing.part", set()),
    ],
)  # fmt: skip
def test_a_source_reaches_what_it_imports_and_what_that_imports(text: str, names: set[str]) -> None:
    assert set(modules.reachable(text, LIB.get)) == names


def test_a_package_comes_before_a_module_of_the_same_name() -> None:
    assert list(modules.reachable("import a", {"a": "1", "a.__init__": "2"}.get)) == ["a.__init__"]


@pytest.mark.parametrize(
    ("lib", "words"),
    [
        ({"json": ""}, r"(?s)module json has a name that Python has already.*standard library.*rename"),
        ({"json.tool": ""}, "module json.tool has a name"),
        ({"a": "def"}, r"(?s)the module a is not Python.*line 1"),
        ({"a": "#" * 1_048_577}, "larger than 1,048,576 bytes"),
        (
            {"a": "".join(f"import m{n}\n" for n in range(200)), **{f"m{n}": "" for n in range(200)}},
            "more than 200 modules",
        ),
    ],
)
def test_modules_that_cannot_be_stored_are_refused(lib: dict[str, str], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        modules.reachable("import a, json.tool", lib.get)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["a"], "modules must be an object"),
        ({"a b": ""}, "wrong module name"),
        ({"a.class": ""}, "wrong module name"),
        ({"a": 1}, "is not text"),
        ({"a": "", "a.__init__": ""}, "exclude each other"),
        ({"a": "", "a.b": ""}, "exclude each other"),
    ],
)
def test_wrong_modules_are_refused(given: object, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        modules.check_given(given)


def test_a_folder_gives_its_files_by_name(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("import shop.money")
    (tmp_path / "shop" / "money.py").write_text("RATE = 1")
    (tmp_path / "broken.py").write_bytes(b"\xff")
    folder = modules.ModuleFolder(tmp_path)
    assert set(modules.reachable("import shop", folder)) == {"shop.__init__", "shop.money"}
    with pytest.raises(Invalid, match="is not UTF-8"):
        modules.reachable("import broken", folder)
    with pytest.raises(Invalid, match="not a folder"):
        modules.ModuleFolder(tmp_path / "absent")
