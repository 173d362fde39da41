"""``--open``: the link of a page, and the browser that opens it."""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path

import pytest

from functory.client.functory import Functory
from tests.support.cli_shell import Shell
from tests.support.patience import patient

PAGES = [
    ("execution show {ok}", "/executions/{ok}"),
    ("execution why {failed}", "/executions/{failed}"),
    ("execution tree {caused}", "/trees/{event}?at={caused}"),
    ("function show report", "/functions/report"),
    ("function show report@1 --source", "/functions/report/v/1"),
    ("event show {event}", "/events/{event}"),
    ("event why {event}", "/events/{event}"),
    ("event why {event} --times", "/events/{event}"),
    ("trigger show on-order", "/triggers/on-order"),
    ("schedule show nightly", "/schedules/nightly"),
    ("watch show inbox", "/watches/inbox"),
    ("webhook show github", "/webhooks/github"),
    ("source show file inbox", "/watches/inbox"),
    ("user show ada", "/people/ada"),
]


@pytest.mark.parametrize(("line", "path"), PAGES, ids=[line for line, _ in PAGES])
def test_a_command_opens_the_page_of_what_it_shows(
    line: str,
    path: str,
    history: dict[str, str],
    served: tuple[Functory, str, str],
    shells: tuple[Shell, Shell],
    opened: list[str],
) -> None:
    words = line.format(**history).split()
    done = shells[1].run(*words, "--open")
    assert opened == [served[1] + path.format(**history)]
    assert done.stderr.startswith(f"{opened[0]}\n") or done.stderr.endswith(f"{opened[0]}\n")
    assert done.stdout == shells[1].run(*words).stdout
    # It is a page, and not only an address.
    asked = urllib.request.Request(opened[0], headers={"accept": "text/html"})
    with urllib.request.urlopen(asked, timeout=patient(10)) as answer:
        assert "<html" in answer.read().decode()


def test_a_run_opens_the_page_of_its_execution(
    history: dict[str, str], served: tuple[Functory, str, str], shells: tuple[Shell, Shell], opened: list[str]
) -> None:
    row = shells[1].json("run", "add", "--input", "a=1", "--open")
    assert row["result"] == 2 and opened == [f"{served[1]}/executions/{row['id']}"]


def test_the_browser_gets_the_link_as_one_argument_and_no_shell_reads_it(
    tmp_path: Path, served: tuple[Functory, str, str]
) -> None:
    """``BROWSER`` names a program that writes its arguments down."""
    browser, seen = tmp_path / "browser", tmp_path / "seen.json"
    browser.write_text(
        f"#!{sys.executable}\nimport json, sys\njson.dump(sys.argv[1:], open({str(seen)!r}, 'w'))\n"
    )
    browser.chmod(0o755)
    shell = Shell(tmp_path, processes=True)
    shell.environment |= {
        "FUNCTORY_URL": served[1], "FUNCTORY_TOKEN": served[2], "BROWSER": str(browser), "DISPLAY": "",
    }  # fmt: skip
    shell.run("function", "show", "add", "--open")
    assert json.loads(seen.read_text()) == [f"{served[1]}/functions/add"]


def test_without_a_browser_the_link_is_printed(
    history: dict[str, str],
    served: tuple[Functory, str, str],
    shells: tuple[Shell, Shell],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("webbrowser.open", lambda link: False)
    done = shells[1].run("function", "show", "add", "--open")
    assert f"{served[1]}/functions/add\n" in done.stderr and "no browser could be started" in done.stderr


def test_a_local_database_opens_the_page_of_the_server_that_serves_it(
    tmp_path: Path, opened: list[str]
) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "add.py").write_text("def add(a: int) -> int:\n    return a + 1\n")
    shell.run("function", "add", "add.py")
    done = shell.run("run", "add", "--input", "a=1", "--open", status=6)
    assert "there is no dashboard to open" in done.stderr and "functory dev" in done.stderr
    assert not opened and shell.json("execution", "list") == []
    process = shell.start("dev", "--port", "0", "--quiet")
    try:
        assert process.stdout is not None
        url = next(line for line in process.stdout if "/#login=" in line).split()[-1].partition("/#login=")[0]
        done = shell.run("function", "show", "add", "--open")
    finally:
        process.terminate()
        process.communicate(timeout=patient(20))
    assert opened == [f"{url}/functions/add"] and "login=" not in done.stderr
    shell.environment["FUNCTORY_PUBLIC_URL"] = "https://functory.example.com/"
    shell.run("function", "show", "add", "--open")
    assert opened[1:] == ["https://functory.example.com/functions/add"]
