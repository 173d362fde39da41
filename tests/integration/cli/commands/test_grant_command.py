"""``functory grant``, and how ``functory function`` shows and saves grants."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from functory.cli.main import main

SOURCE = "def fetch(name: str) -> str:\n    return name\n"


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """Runs a command line in a folder of its own: its status, its answer (JSON read), what it said beside."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fetch.py").write_text(SOURCE)
    monkeypatch.setenv("FUNCTORY_AUTHOR_GRANTS", '["secret", "host", "permission"]')

    def run(*arguments: str) -> tuple[int, Any, str]:
        status = main(list(arguments))
        said = capsys.readouterr()
        answer = json.loads(said.out) if "--json" in arguments and said.out else said.out
        return status, answer, said.err

    return run


def test_a_saved_function_says_what_it_waits_for_and_how_to_allow_it(cli) -> None:
    given = ["--host", "api.example.com", "--read", "/data/in", "--write", "/data/out", "--subprocess"]
    status, row, warned = cli("function", "add", "fetch.py", *given, "--json")
    assert status == 0
    assert row["grants"] == {
        "hosts": ["api.example.com"],
        "files": {"read": ["/data/in"], "write": ["/data/out"]},
        "subprocess": True,
    }
    lines = [line for line in warned.splitlines() if "waits for an operator" in line]
    assert len(lines) == 3
    assert (
        "warning: read /data/in waits for an operator: functory grant allow fetch@1 read /data/in" in lines[0]
    )
    _, shown, _ = cli("function", "show", "fetch", "--json")
    assert shown["granted"] == {"hosts": ["api.example.com"]}
    assert shown["pending"] == {"read": ["/data/in"], "write": ["/data/out"], "subprocess": True}
    _, text, _ = cli("function", "show", "fetch")
    assert "waits for approval  read /data/in" in text
    assert "may use             host api.example.com" in text


def test_an_existing_function_keeps_the_grants_that_are_not_named(cli) -> None:
    cli("function", "add", "fetch.py", "--host", "a.example.com", "--read", "/data/in", "--subprocess")
    _, row, _ = cli("function", "add", "fetch.py", "--write", "/data/out", "--json")
    assert row["grants"]["files"] == {"read": ["/data/in"], "write": ["/data/out"]}
    _, row, _ = cli(
        "function", "add", "fetch.py", "--read", "none", "--host", "none", "--no-subprocess", "--json"
    )
    assert row["grants"] == {"files": {"write": ["/data/out"]}}


def test_allow_list_and_revoke(cli) -> None:
    cli("function", "add", "fetch.py", "--subprocess")
    status, entry, _ = cli("grant", "allow", "fetch", "subprocess", "--reason", "runs git", "--json")
    assert (status, entry["created"], entry["version"], entry["value"]) == (0, True, 1, "")
    assert cli("grant", "allow", "fetch@1", "subprocess", "--reason", "again")[1] == (
        "fetch v1 may use subprocess already; nothing was changed\n"
    )
    _, rows, _ = cli("grant", "list", "fetch", "--json")
    assert [(row["kind"], row["status"], row["reason"]) for row in rows] == [
        ("subprocess", "operator", "runs git")
    ]
    assert cli("grant", "list", "-q")[1] == "fetch@1 subprocess\n"
    assert cli("grant", "revoke", "fetch", "subprocess")[:2] == (0, "fetch v1 may no longer use subprocess\n")
    assert cli("grant", "revoke", "fetch", "subprocess")[:2] == (
        0,
        "fetch v1 was not allowed to use subprocess; nothing was changed\n",
    )
    _, rows, _ = cli("grant", "list", "--json")
    assert [(row["kind"], row["status"]) for row in rows] == [("subprocess", "pending")]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["allow", "fetch", "subprocess"], 2, "the grant has no reason"),
        (["allow", "gone", "subprocess", "--reason", "x"], 3, "function 'gone' not found"),
        (["allow", "fetch@7", "subprocess", "--reason", "x"], 3, "function 'fetch@7' not found"),
        (["allow", "fetch", "hosts", "a.b", "--reason", "x"], 2, "there is no kind of grant called 'hosts'"),
        (["allow", "fetch", "host", "https://a.b/c", "--reason", "x"], 2, "wrong host"),
        (["allow", "fetch", "read", ".", "--reason", "x"], 2, "is not absolute"),
        (["allow", "fetch", "write", "/etc/passwd", "--reason", "x"], 2, "cannot be granted"),
        (["revoke", "fetch", "host", "a.example.com"], 5, "by its author's declaration"),
        (["list", "gone"], 3, "function 'gone' not found"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_said_with_its_status(cli, arguments, status, said) -> None:
    cli("function", "add", "fetch.py", "--host", "a.example.com")
    code, answer, errors = cli("grant", *arguments)
    assert (code, answer) == (status, "")
    assert said in errors


def test_the_home_folder_cannot_be_allowed(cli, tmp_path: Path) -> None:
    cli("function", "add", "fetch.py")
    code, _, errors = cli("grant", "allow", "fetch", "read", str(tmp_path), "--reason", "x")
    assert code == 4
    assert "Functory's own" in errors


def test_a_decorated_function_warns_of_what_it_waits_for(tmp_path: Path) -> None:
    import importlib.util

    from functory.client.functory import Functory
    from functory.engine.settings import Settings

    (tmp_path / "mine.py").write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("mine", tmp_path / "mine.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    settings = Settings(home=tmp_path / ".functory", author_grants=["host"])
    with Functory(settings, author="ada") as engine:
        with pytest.warns(UserWarning, match="fetch v1: subprocess waits for an operator"):
            engine.register_function(subprocess=True, hosts=["a.example.com"], reuse=True, timeout=5)(
                module.fetch
            )
        row = engine.functions.get("fetch")
        assert (row["grants"], row["reuse"]) == ({"hosts": ["a.example.com"], "subprocess": True}, True)
