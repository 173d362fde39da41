"""Flow control and composites typed at the command line: saved, shown, refused, and looked at while they wait."""

from pathlib import Path

import pytest

from tests.support.cli_shell import Shell

ON = '{"type": ["stock.low"]}'


def with_work(folder: Path) -> Shell:
    """A shell in a folder with a function `work` that takes anything."""
    (folder / "work.py").write_text("def work(*given, **named):\n    return len(given)\n")
    shell = Shell(folder)
    shell.run("function", "add", "work.py")
    return shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return with_work(tmp_path)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """One for all that is refused: nothing is ever saved in it."""
    return with_work(tmp_path_factory.mktemp("refused"))


def add(shell: Shell, *options: str, status: int = 0) -> str:
    done = shell.run("trigger", "add", "reorder", "--on", ON, "--function", "work", *options, status=status)
    return done.stdout + done.stderr


def test_what_is_given_as_options_is_shown_again_in_words(shell: Shell) -> None:
    add(shell, "--debounce", "1s/1m", "--concurrency", "2", "--key", "data.sku", "--expires", "1h")
    shown = shell.out("trigger", "show", "reorder")
    assert "after 1s of quiet, at most 1m, for each data.sku" in shown
    assert "2 at a time, for each data.sku" in shown
    assert "expires" in shown
    assert shell.json("trigger", "show", "reorder")["definition"]["flow"] == {
        "debounce": {"period": "1s", "timeout": "1m", "key": "data.sku"},
        "concurrency": {"limit": 2, "key": "data.sku"},
        "expires": "1h",
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--debounce", "10s", "--batch", "10/60s"], "both decide how long a match waits"),
        (["--singleton", "skip", "--overlap", "skip"], "cannot be combined"),
        (["--debounce", "8d"], "wrong period of debounce '8d'"),
        (["--throttle", "0/1m"], "wrong limit of throttle 0"),
        (["--rate-limit", "three"], "--rate-limit 3/1m"),
        (["--overlap", "sometimes"], "wrong overlap policy 'sometimes'"),
        (["--singleton", "wait"], "wrong mode of singleton 'wait'"),
        (["--concurrency", "1", "--key", "data.("], "the key of concurrency"),
        (["--key", "data.sku"], "--key needs another option"),
        (["--flow", '{"debounced": {}}'], "unknown fields of flow: debounced"),
        (["--composite", '{"all": []}'], "has both 'on' and 'composite'"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_saved(
    untouched: Shell, options: list[str], said: str
) -> None:
    assert said in add(untouched, *options, status=2)
    assert untouched.json("trigger", "list") == []


def test_a_yaml_file_with_a_composite_is_saved_and_shown(shell: Shell) -> None:
    (shell.folder / "t.yaml").write_text(
        "name: both\n"
        "composite:\n"
        "  all:\n"
        "    - {name: paid, on: {type: [order.paid]}}\n"
        "    - {name: packed, on: {type: [order.packed]}, when: data.ok}\n"
        "  within: 1h\n"
        "  key: data.order\n"
        "function: work\n"
    )
    assert shell.out("trigger", "add", "--file", "t.yaml") == "saved trigger both v1"
    shown = shell.out("trigger", "show", "both")
    assert "all of the parts, in any order, within 1h, for each data.order" in shown
    assert '{"type":["order.packed"]}  when data.ok' in shown
    assert "order.paid" in shell.out("trigger", "list")


def test_debug_says_what_waits_and_what_to_do(shell: Shell) -> None:
    add(shell, "--debounce", "1h", "--key", "data.sku")
    shell.run("event", "emit", "stock.low", "--data", '{"sku": "A-1"}')
    # It starts all roles until its own execution is done, and routes the event on the way.
    shell.run("run", "work")
    found = shell.json("trigger", "debug", "reorder")
    assert (found["trigger"], found["state"], found["matches"]) == ("reorder", "enabled", 1)
    assert [row["key"] for row in found["buffers"]["rows"]] == ["A-1"]
    said = shell.out("trigger", "debug", "reorder", "--key", "A-1")
    assert "1 match waiting, for 1 key\nA-1\t1\t" in said
    assert said.splitlines()[1].startswith("nothing is stuck; the next decision is in ")
    assert "0 matches waiting, for 0 keys" in shell.out("trigger", "debug", "reorder", "--key", "B-2")
    shell.run("trigger", "pause", "reorder", "--note", "stocktaking")
    said = shell.out("trigger", "debug", "reorder")
    assert "stocktaking" in said
    assert said.splitlines()[1] == ("it is paused, with 1 match waiting: functory trigger resume reorder")
    assert shell.run("trigger", "debug", "missing", status=3).stderr.startswith("error: trigger 'missing'")
