"""``functory function``: activations, rollbacks, marks, and versions that cannot be imported."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from functory.client.functory import Functory
from functory.dev.server import next_command_hint
from functory.engine.settings import Settings
from tests.support.cli_shell import Shell

pytest_plugins = ["tests.support.world"]

BROKEN = "import nosuchmodule\n\ndef work(n=1):\n    return n\n"


@pytest.fixture
def shell(tmp_path: Path, migrated_file: Path) -> Shell:
    """A command line with a database of its own."""
    return Shell(tmp_path, database=migrated_file)


def add(shell: Shell, text: str, *options: str, status: int = 0) -> Any:
    file = shell.folder / "work.py"
    file.write_text(text)
    return shell.run("function", "add", str(file), *options, status=status)


def source(number: int) -> str:
    return f"def work():\n    return {number}\n"


def test_a_rollback_never_goes_to_a_rejected_version_and_the_history_shows_why(shell: Shell) -> None:
    for number in (1, 2):
        add(shell, source(number))
    assert shell.out("function", "rollback", "work") == "work v1 is active again"
    add(shell, source(3))
    assert shell.out("function", "rollback", "work") == "work v1 is active again"
    versions = shell.json("function", "versions", "work")
    assert [(v["number"], (v["mark"] or {}).get("mark")) for v in versions] == [
        (3, "bad"),
        (2, "bad"),
        (1, None),
    ]
    history = shell.json("function", "history", "work")
    assert [(row["version"], row["reason"], row["mark"] is not None) for row in history] == [
        (1, "rollback", False),
        (3, "save", True),
        (1, "rollback", False),
        (2, "save", True),
        (1, "save", False),
    ]
    assert [row["ended_at"] is None for row in history] == [True, False, False, False, False]
    assert "bad: rolled back to v1" in shell.out("function", "show", "work")
    refused = shell.run("function", "rollback", "work", status=5).stderr
    assert "work has no earlier version to go back to" in refused


def test_a_bad_version_is_activated_by_force_or_after_a_good_mark(shell: Shell) -> None:
    for number in (1, 2, 3):
        add(shell, source(number))
    shell.run("function", "rollback", "work", "--to", "1", "--keep-mark")
    assert shell.out("function", "activate", "work@3") == "work v3 is active"
    shell.run("function", "mark", "work@2", "bad", "--reason", "loses rows")
    refused = shell.run("function", "activate", "work", "2", status=5).stderr
    assert "work v2 is marked bad" in refused
    assert "functory function activate work@2 --force" in refused
    assert "loses rows" in refused
    again = add(shell, source(2), status=1)
    assert "work v2 is unchanged (active is v3)" in again.stdout
    assert "is marked bad: loses rows" in again.stderr
    assert shell.out("function", "activate", "work@2", "--force") == "work v2 is active"
    assert shell.out("function", "mark", "work@3", "good", "--reason", "fine") == "work v3 is marked good"
    for wrong in (["work"], ["work@3", "3"]):
        assert "which version of work?" in shell.run("function", "activate", *wrong, status=2).stderr


def test_a_version_that_cannot_be_imported_is_saved_and_not_active(shell: Shell) -> None:
    add(shell, source(1))
    said = add(shell, BROKEN, status=1)
    assert said.stdout == "saved work v2 (active is v1)\n"
    assert "(failed_import)" in said.stderr
    assert "error: work v2 is saved, but not active" in said.stderr
    assert "ModuleNotFoundError: No module named 'nosuchmodule'" in said.stderr
    shown = shell.json("function", "show", "work")
    assert (shown["number"], shown["active"], shown["latest"]) == (1, 1, 2)
    assert add(shell, BROKEN, "--force").stdout == "work v2 is unchanged\n"
    assert shell.json("function", "history", "work")[0]["reason"] == "force"


def test_an_error_of_the_system_or_of_the_engine_at_import_is_no_failure(shell: Shell) -> None:
    for first in ("ROWS = open('/data/rows')", "from functory import state\nROWS = state.get('rows')"):
        said = add(shell, f"{first}\n{source(1)}")
        assert "executing its source failed" in said.stderr
        assert "failed_import" not in said.stderr
    assert add(shell, f"HALF = 1 / 0\n{source(2)}", status=1).stderr.count("ZeroDivisionError") >= 1


def test_the_decorator_shows_the_findings_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    (tmp_path / "nosuchmodule.py").write_text("N = 1\n")
    file.write_text(
        "import sys\nsys.path.insert(0, " + repr(str(tmp_path)) + ")\nimport nosuchmodule\n\n"
        "def work(n=1):\n    import subprocess\n    return subprocess.run(nosuchmodule.N)\n"
    )
    spec = importlib.util.spec_from_file_location("mine", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with Functory(Settings(home=tmp_path / ".functory"), author="ada") as engine:
        with pytest.warns(Warning) as found:
            engine.register_function(module.work)
        said = [str(one.message) for one in found]
        assert any("subprocess.run is used (subprocess)" in text for text in said)
        assert any("(failed_import)" in text for text in said)
        (inactive,) = [one for one in found if issubclass(one.category, RuntimeWarning)]
        assert "work v1 is saved, but not active" in str(inactive.message)
        assert "No module named 'nosuchmodule'" in str(inactive.message)
        with pytest.raises(Exception, match=r"(?s)has no active version.*nosuchmodule"):
            engine.submit("work")


def test_a_failure_that_a_retry_resolved_says_so(shell: Shell) -> None:
    add(shell, "def work():\n    raise ValueError('no')\n")
    shell.run("function", "run", "work", status=1)
    failed = shell.out("execution", "list", "--unresolved", "-q")
    add(shell, source(2))
    shell.run("execution", "retry", failed, "--latest")
    (retried,) = shell.json("execution", "list", "--state", "succeeded")
    assert shell.out("execution", "list", "--unresolved", "-q") == ""
    (row,) = shell.json("execution", "list", "--state", "failed")
    assert row["resolved_by"] == shell.json("execution", "show", failed)["resolved_by"] == retried["id"]
    assert f"resolved by  {retried['id']}" in " ".join(shell.out("execution", "show", failed).split("\n"))
    assert f"resolved by {retried['id']}" in shell.out("execution", "tree", failed)
    assert retried["id"] in shell.out("execution", "list", "--state", "failed")


def test_a_warning_about_what_is_missing_ends_when_it_is_there(shell: Shell) -> None:
    (shell.folder / "count.py").write_text("def count(t: str) -> int:\n    return words(t)\n")
    (shell.folder / "words.py").write_text("def words(t: str) -> int:\n    return 1\n")
    add = ("function", "add", "count.py", "--dep", "words")
    assert "the dependency words does not exist yet" in shell.run(*add).stderr
    shell.run("function", "add", "words.py")
    assert "does not exist yet" not in shell.run(*add).stderr
    assert shell.json("function", "show", "count")["warnings"] == []


def test_the_command_that_dev_suggests_works(shell: Shell) -> None:
    (shell.folder / "scale.py").write_text(
        "def scale(text: str, by: int, half: bool, all: list[int], ratio: float = 1.0) -> int:\n    return by\n"
    )
    shell.run("function", "add", "scale.py")
    with Functory(Settings(home=shell.folder / "home")) as engine:
        suggested = next_command_hint(engine).removeprefix("Try:  functory ")
    assert shell.out(*suggested.split(), "--no-wait")


def test_a_function_is_saved_with_the_modules_of_a_folder(shell: Shell) -> None:
    (shell.folder / "lib" / "shop").mkdir(parents=True)
    (shell.folder / "lib" / "shop" / "money.py").write_text("PRICE = 3\n")
    (shell.folder / "price.py").write_text("from shop.money import PRICE\ndef price():\n    return PRICE\n")
    assert "No module named 'shop'" in shell.run("function", "add", "price.py", status=1).stderr
    shell.run("function", "add", "price.py", "--lib", "lib")
    assert shell.out("run", "price").split()[0] == "3"
    assert shell.json("function", "show", "price")["modules"].keys() == {"shop.money"}
    assert shell.out("function", "show", "price", "--module", "shop.money") == "PRICE = 3"
    assert (
        "its modules are shop.money"
        in shell.run("function", "show", "price", "--module", "x", status=3).stderr
    )
    (shell.folder / "lib" / "shop" / "money.py").write_text("PRICE = 4\n")
    shell.run("function", "add", "price.py", "--lib", "lib")
    changed = shell.out("function", "diff", "price", "2", "3")
    assert "-PRICE = 3" in changed and "+PRICE = 4" in changed


def test_limits_are_set_by_name_and_each_of_them_once(shell: Shell) -> None:
    add(shell, source(1), "--timeout", "5", "--limit", "memory_bytes=1GiB", "--limit", "cpu=2m")
    limits = {"timeout": 5, "memory_bytes": 2**30, "cpu": 120}
    assert shell.json("function", "show", "work")["limits"] == limits
    add(shell, source(2), "--limit", "cpu=30")
    assert shell.json("function", "show", "work")["limits"] == limits | {"cpu": 30}
    refused = add(shell, source(3), "--retries", "2", "--limit", "retries=7", status=2)
    assert "the limit retries is given twice" in refused.stderr


def test_a_value_that_is_none_of_the_choices_is_said_in_plain_words(shell: Shell) -> None:
    refused = shell.run("pack", "import", "chef", str(shell.folder), status=2)
    assert refused.stderr.startswith("error: invalid value for 'system': 'chef' is not one of 'stackstorm'")


def test_stats_show_plots_calls_and_advice_whose_command_works(shell: Shell) -> None:
    (shell.folder / "part.py").write_text("def part(n):\n    return n\n")
    shell.run("function", "add", "part.py")
    text = "def work(n):\n    if n > 2:\n        raise KeyError(n)\n    return part(n)\n"
    add(shell, text, "--dep", "part", "--retries", "1", "--limit", "retry_delay=0")
    assert "0 executions, 0 failed" in shell.out("function", "stats", "work")
    with Functory(Settings(home=shell.folder / "home")) as engine:
        handles = [engine.submit("work", n) for n in range(8)]
        engine.settle()
        assert sum(engine.executions.get(handle.id)["state"] == "failed" for handle in handles) == 5
    shown = shell.out("function", "stats", "work", "--since", "1h")
    assert "8 executions, 5 failed (62 %)" in shown
    assert "by minute" in shown and "█" in shown
    assert "part" in shown and "3 calls" in shown
    assert "0 of 5 executions succeeded after a failure" in shown
    assert "- retries never helped: 0 of 5" in shown
    assert "- 10 of 10 failed attempts are KeyError" in shown
    # The command of an advice does what it says.
    advice = {one["code"]: one["try"] for one in shell.json("function", "stats", "work")["advice"]}
    first, second = advice["useless_retries"].split(" | ")
    source_text = shell.out(*first.split()[1:])
    shell.run(*second.split()[1:], stdin=source_text)
    assert shell.json("function", "show", "work")["limits"] == {"retries": 0, "retry_delay": 0}
    assert len(shell.run(*advice["one_error"].split()[1:]).stdout.splitlines()) == 5
    every = shell.run("function", "stats").stdout.splitlines()
    assert [line.split("\t")[:3] for line in every] == [["part", "0", ""], ["work", "8", "62 %"]]


def test_stats_of_all_functions_are_about_a_day(shell: Shell) -> None:
    refused = shell.run("function", "stats", "--since", "7d", status=2).stderr
    assert "needs the name of a function" in refused
    assert "ms, s, m, h, d, w" in shell.run("function", "stats", "work", "--since", "soon", status=2).stderr
    assert "not found" in shell.run("function", "stats", "work", status=3).stderr


def test_several_files_are_saved_in_their_order(shell: Shell) -> None:
    for name in ("b", "a"):
        (shell.folder / f"{name}.py").write_text(f"def {name}():\n    return 1\n")
    said = shell.out("function", "add", str(shell.folder / "b.py"), str(shell.folder / "a.py"))
    assert said.splitlines() == ["saved b v1", "saved a v1"]


def test_of_several_files_none_is_saved_when_one_is_no_function(shell: Shell) -> None:
    (shell.folder / "good.py").write_text("def good():\n    return 1\n")
    (shell.folder / "bad.py").write_text("def bad(:\n")
    shell.run("function", "add", str(shell.folder / "good.py"), str(shell.folder / "bad.py"), status=2)
    assert shell.json("function", "list") == []


def test_of_several_files_the_others_are_saved_when_one_cannot_be_imported(shell: Shell) -> None:
    (shell.folder / "bad.py").write_text("import nosuchmodule\n\ndef bad():\n    return nosuchmodule.x\n")
    (shell.folder / "good.py").write_text("def good():\n    return 1\n")
    said = shell.run("function", "add", str(shell.folder / "bad.py"), str(shell.folder / "good.py"), status=1)
    assert "saved good v1" in said.stdout
    assert "try: save it with --import nosuchmodule" in said.stderr


def test_a_path_that_a_function_may_read_begins_in_the_current_folder(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shell.folder)
    add(shell, source(1), "--read", "data", "--read", "./in", "--write", "/abs")
    files = shell.json("function", "show", "work")["grants"]["files"]
    assert files == {"read": [f"{shell.folder}/data", f"{shell.folder}/in"], "write": ["/abs"]}


@pytest.mark.parametrize(("given", "seconds"), [("90", 90), ("2.5", 2.5), ("2m", 120), ("1h30m", 5400)])
def test_a_timeout_is_in_seconds_or_has_a_unit(shell: Shell, given: str, seconds: float) -> None:
    add(shell, source(1), "--timeout", given)
    assert shell.json("function", "show", "work")["limits"]["timeout"] == seconds
    assert shell.out("run", "work", "--timeout", given) == "1"


@pytest.mark.parametrize("given", ["2x", "-1", "1.2.3", "m", "", "inf", "nan"])
def test_a_timeout_that_is_no_time_is_refused(shell: Shell, given: str) -> None:
    add(shell, source(1))
    assert "90s, 2m or 1h30m" in shell.run("run", "work", "--timeout", given, status=2).stderr


def test_a_disabled_function_is_enabled_with_the_version_that_was_active(shell: Shell) -> None:
    for number in (1, 2):
        add(shell, source(number))
    shell.run("function", "activate", "work@1")
    assert "functory function enable work" in shell.out("function", "disable", "work")
    assert shell.out("function", "enable", "work") == "work is enabled, v1 is active"
    assert shell.out("run", "work") == "1"


def test_a_rename_shows_what_uses_the_name_and_keeps_it_as_an_alias(shell: Shell) -> None:
    add(shell, source(1))
    assert shell.out("function", "rename", "work", "labour", "--dry-run") == (
        "work would be renamed to labour, with 1 version; nothing was written"
    )
    (shell.folder / "caller.py").write_text("def caller():\n    return work()\n")
    shell.run("function", "add", "caller.py", "--dep", "work")
    assert shell.out("function", "rename", "work", "labour", "--dry-run").splitlines() == [
        "work is used by function caller",
        "the rename to labour would be refused, without --alias; nothing was written",
    ]
    refused = shell.run("function", "rename", "work", "labour", status=5).stderr
    assert "work is in use" in refused
    assert "try: keep the name as an alias: functory function rename work labour --alias" in refused
    assert shell.json("function", "list")[1]["name"] == "work"
    done = shell.run("function", "rename", "work", "labour", "--alias")
    assert done.stdout.strip() == "labour is the new name of work, v1 is active"
    assert "work v2 is an alias: it calls labour" in done.stderr
    assert shell.out("run", "caller") == "1"
    report = shell.json("function", "rename", "labour", "effort", "--dry-run")
    assert report["uses"] == [{"kind": "function", "name": "work", "how": ""}]
    assert (report["is_refused"], report["dry_run"], report["alias_version"]) == (True, True, None)


def test_a_renamed_function_without_users_leaves_a_disabled_name(shell: Shell) -> None:
    add(shell, source(1))
    done = shell.run("function", "rename", "work", "labour")
    assert "work is disabled and keeps its executions" in done.stderr
    assert shell.out("run", "labour") == "1"
    assert "work is disabled" in shell.run("run", "work", status=5).stderr


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (0, "failed: a; not tried: b, c"),
        (1, "saved: a; failed: b; not tried: c"),
        (2, "saved: a, b; failed: c"),
    ],
)
def test_a_save_of_several_functions_says_how_far_it_came(shell: Shell, wrong: int, said: str) -> None:
    for number, name in enumerate("abc"):
        (shell.folder / f"{name}.py").write_text(f"def {name}():\n    return {number}\n")
    # A function cannot depend on itself.
    done = shell.run("function", "add", "a.py", "b.py", "c.py", "--dep", "abc"[wrong], status=5)
    assert done.stderr.splitlines()[-4:][0] == said and "error: " in done.stderr
    saved = said.split(";")[0].removeprefix("saved: ").split(", ") if "saved" in said else []
    assert sorted(row["name"] for row in shell.json("function", "list")) == saved


def test_a_save_of_one_function_that_fails_says_nothing_of_others(shell: Shell) -> None:
    assert "failed: " not in add(shell, source(1), "--dep", "work", status=5).stderr


def test_a_save_speaks_of_workers_only_where_a_trigger_takes_it(shell: Shell) -> None:
    assert "no worker" not in add(shell, source(1)).stderr
    trigger = ("--function", "work", "--input", "{}")
    shell.run("trigger", "add", "other", "--on", '{"type": ["order.created"]}', *trigger)
    shell.run(
        "trigger", "add", "its", "--on", '{"type": ["function.updated"], "subject": ["parse"]}', *trigger
    )
    assert "no worker" not in add(shell, source(2)).stderr
    shell.run(
        "trigger", "add", "mine", "--on", '{"type": ["function.updated"], "subject": ["work"]}', *trigger
    )
    assert "no worker is alive: no trigger fires on this" in add(shell, source(3)).stderr
    shell.run("trigger", "pause", "mine")
    assert "no worker" not in add(shell, source(4)).stderr


def test_a_run_of_a_name_that_there_is_not_names_a_near_one(shell: Shell) -> None:
    add(shell, source(1))
    assert "did you mean work?" in shell.run("run", "wrok", status=3).stderr
    assert "did you mean" not in shell.run("run", "unlike", status=3).stderr
    said = shell.run("run", "work@7", status=3).stderr
    assert "has no version 7" in said and "did you mean" not in said
