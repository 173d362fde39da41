"""A followed folder: what is saved in an editor becomes the version that runs, and what cannot be saved changes
nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.client.functory import Functory
from functory.engine.errors import Invalid
from functory.project import follow
from functory.project.follow import Follower
from tests.support.waiting import wait_for
from tests.support.world import embedded

pytest_plugins = ["tests.support.world"]

PRICE = "def price(count: int) -> int:\n    return count * 2\n"


class Followed:
    """A folder that is followed, and the lines that were shown."""

    def __init__(self, engine: Functory, root: Path) -> None:
        self.engine = engine
        self.root = root
        self.lines: list[str] = []
        self.follower = Follower(engine, root, self.lines.append)

    def put(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def wait(self, *words: str) -> str:
        """Wait for a line that has these words, and forget what was shown until then."""

        def found() -> str | None:
            return next((line for line in self.lines if all(word in line for word in words)), None)

        line = wait_for(found, f"a line with {words}; shown: {self.lines}")
        del self.lines[: self.lines.index(line) + 1]
        return line

    def number(self, name: str) -> int:
        return self.engine.functions.get(name)["number"]


@pytest.fixture
def followed(tmp_path: Path, migrated_file: Path) -> Iterator[Followed]:
    (tmp_path / ".functory").mkdir()
    shutil.copy(migrated_file, tmp_path / ".functory" / "functory.db")
    root = tmp_path / "project"
    for name in ("functions", "lib"):
        (root / name).mkdir(parents=True)
    with embedded(tmp_path) as engine:
        engine.start()
        made = Followed(engine, root)
        made.put("functions/price.py", PRICE)
        made.follower.start()
        yield made
        made.follower.stop()


def test_a_change_is_saved_and_run_with_the_last_input(followed: Followed) -> None:
    followed.wait("follow: 1 saved, 0 as they were")
    assert followed.engine.call("price", 4) == 8
    followed.put("functions/price.py", PRICE.replace("* 2", "* 3"))
    followed.wait("price v2 saved")
    followed.wait("last input ✓")
    assert followed.engine.call("price", 4) == 12

    followed.put("functions/price.py", PRICE.replace("* 2", "// 0"))
    followed.wait("price v3 saved")
    followed.wait("last input ✗ ZeroDivisionError")
    followed.put("functions/price.py", PRICE)
    followed.wait("price v4 saved")
    followed.wait("last input ✓", "was failed")


def test_a_save_that_fails_changes_nothing_that_runs_and_is_said_once(followed: Followed) -> None:
    followed.put("functions/price.py", "def price(:\n")
    followed.wait("functions/price.py:1:11: error: syntax error")
    followed.put("functions/other.py", "def other():\n    return 1\n")
    followed.wait("other v1 saved")
    assert not [line for line in followed.lines if "syntax error" in line]
    assert followed.engine.call("price", 4) == 8
    followed.put("functions/price.py", PRICE.replace("* 2", "* 5"))
    followed.wait("price v2 saved")
    assert followed.engine.call("price", 4) == 20


def test_a_module_that_changes_makes_versions_of_what_reaches_it(followed: Followed) -> None:
    followed.put("lib/money.py", "def cents(n):\n    return n * 100\n")
    followed.put(
        "functions/paid.py", "import money\n\n\ndef paid(n: int) -> int:\n    return money.cents(n)\n"
    )
    followed.wait("paid v1 saved")
    assert followed.engine.call("paid", 2) == 200
    followed.put("lib/money.py", "def cents(n):\n    return n * 10\n")
    followed.wait("paid v2 saved")
    assert followed.engine.call("paid", 2) == 20
    assert followed.number("price") == 1


def test_functions_of_one_round_are_saved_behind_their_dependencies(followed: Followed) -> None:
    followed.put(
        "functions/order.py",
        "from functory import register_function\n\n\n"
        '@register_function(dependencies=["tax"])\ndef order(n: int) -> int:\n    return n + tax(n)\n\n\n'
        "@register_function()\ndef tax(n: int) -> int:\n    return n // 10\n",
    )
    followed.wait("tax v1 saved")
    followed.wait("order v1 saved")
    assert followed.engine.call("order", 100) == 110
    assert followed.engine.functions.get("order")["warnings"] == []


def test_a_deleted_file_disables_its_functions_until_it_is_back(followed: Followed) -> None:
    (followed.root / "functions/price.py").unlink()
    followed.wait("price is disabled", "functions/price.py")
    assert followed.engine.functions.get("price")["state"] == "disabled"
    followed.put("functions/price.py", PRICE)
    followed.wait("price is enabled")
    assert followed.engine.functions.get("price")["state"] == "enabled"
    assert followed.number("price") == 1


def test_a_function_with_rights_is_not_run_again(followed: Followed) -> None:
    followed.put(
        "functions/told.py", '# /// functory\n# secrets = ["KEY"]\n# ///\n' + PRICE.replace("price", "told")
    )
    followed.wait("told v1 saved")
    followed.engine.executions.start("told", {"count": 1})
    followed.put(
        "functions/told.py",
        '# /// functory\n# secrets = ["KEY"]\n# ///\n' + PRICE.replace("price", "told").replace("2", "3"),
    )
    followed.wait("told v2 saved")
    followed.wait("not run again: it has rights (secret)")


def test_a_folder_that_is_moved_away_and_back_is_followed_again(followed: Followed) -> None:
    shutil.move(followed.root / "functions", followed.root / "away")
    followed.wait("error:", "has no folder functions")
    assert followed.engine.functions.get("price")["state"] == "enabled"
    shutil.move(followed.root / "away", followed.root / "functions")
    followed.put("functions/price.py", PRICE.replace("* 2", "* 7"))
    followed.wait("price v2 saved")


def test_a_folder_that_is_made_anew_is_watched(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(followed.root / "functions")
    followed.wait("error:", "has no folder functions")
    (followed.root / "functions").mkdir()
    followed.put("functions/price.py", PRICE.replace("* 2", "* 7"))
    followed.wait("price v2 saved")
    # From here on only the kernel says that something has changed.
    monkeypatch.setattr(follow, "POLL_SECONDS", 3600.0)
    followed.put("functions/price.py", PRICE.replace("* 2", "* 8"))
    followed.wait("price v3 saved")
    followed.put("functions/price.py", PRICE.replace("* 2", "* 9"))
    followed.wait("price v4 saved")


def test_a_name_of_a_file_cannot_forge_a_line(followed: Followed) -> None:
    followed.put("functions/a\x1b[2J\n  ok v1 saved.py", "def (\n")
    line = followed.wait("error: syntax error")
    assert "\x1b" not in line
    assert "\n" not in line


def test_a_folder_without_functions_is_refused(followed: Followed, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="is no project"):
        Follower(followed.engine, tmp_path, print).start()
