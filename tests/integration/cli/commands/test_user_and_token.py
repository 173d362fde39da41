"""``functory user``, ``token``, ``login``, ``dashboard``, and the labels of functions and triggers."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from functory.client.functory import Functory
from functory.engine.access import credentials
from functory.engine.database import schema
from functory.engine.settings import Settings
from tests.support.cli_shell import Shell
from tests.support.patience import patient

GOOD = "correct horse battery\n"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_user_is_made_changed_and_deleted(shell: Shell) -> None:
    assert (
        shell.out("user", "create", "Ada", "--role", "admin", "--password-stdin", stdin=GOOD)
        == "user ada is created"
    )
    given = ["--role", "operator", "--right", "approve", "--label", "team:a", "--label", "team:b"]
    shell.run("user", "create", "bob", *given, "--password-stdin", stdin=GOOD)
    row = shell.json("user", "show", "bob")
    assert (row["role"], row["rights"], row["labels"]) == ("operator", ["approve"], ["team:a", "team:b"])
    shell.run("user", "update", "bob", "--right", "none", "--label", "all")
    row = shell.json("user", "show", "bob")
    assert (row["role"], row["rights"], row["labels"]) == ("operator", [], None)
    shell.run("user", "disable", "bob")
    assert [one["state"] for one in shell.json("user", "list")] == ["active", "disabled"]
    shell.run("user", "enable", "bob")
    shell.run("user", "delete", "bob", "--yes")
    assert shell.out("user", "list", "-q") == "ada"


@pytest.mark.parametrize("text", ["", "short\n", "aaaaaaaaaaaaaaa\n"])
def test_a_password_that_is_no_good_makes_no_user_and_no_database(
    shell: Shell, tmp_path: Path, text: str
) -> None:
    done = shell.run("user", "create", "ada", "--password-stdin", stdin=text, status=2)
    assert "password" in done.stderr
    assert not list(tmp_path.rglob("functory.db"))


def test_a_password_is_never_an_argument(shell: Shell) -> None:
    done = shell.run("user", "create", "ada", "--password", "correct horse battery", status=2)
    done = shell.run("user", "create", "ada", status=2)
    assert "--password-stdin" in done.stderr


def test_a_token_is_printed_once_alone_on_stdout(shell: Shell) -> None:
    shell.run("user", "create", "ada", "--role", "operator", "--password-stdin", stdin=GOOD)
    done = shell.run("token", "create", "ci", "--user", "ada", "--role", "viewer", "--days", "3")
    assert credentials.is_token(done.stdout.strip())
    (row,) = shell.json("token", "list")
    assert (row["name"], row["user"], row["role"]) == ("ci", "ada", "viewer")
    assert done.stdout.strip() not in json.dumps(row) and done.stdout.startswith(row["prefix"])
    shell.run("token", "create", "more", "--user", "ada", "--role", "admin", status=4)
    shell.run("token", "revoke", "ci", "--yes")
    assert shell.json("token", "list") == []


def test_labels_are_added_and_taken_away(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "parse.py").write_text("def parse(event: dict) -> dict:\n    return event\n")
    shell.run("function", "add", "parse.py")
    shell.run("trigger", "add", "go", "--on", '{"type": ["order.created"]}', "--function", "parse")
    assert shell.out("function", "label", "parse", "+team:a", "+hot") == "parse has the labels hot, team:a"
    assert shell.out("function", "label", "parse", "-hot", "-team:a") == "parse has no labels"
    assert shell.out("trigger", "label", "go", "+qa") == "go has the labels qa"
    for wrong in (["hot"], ["+Hot"], ["+"]):
        shell.run("function", "label", "parse", *wrong, status=2)
    shell.run("function", "label", "nothing", "+a", status=3)


def test_the_audit_has_who_typed_the_command_and_on_which_machine(shell: Shell, tmp_path: Path) -> None:
    shell.run("user", "create", "ada", "--password-stdin", stdin=GOOD)
    shell.run("dashboard", "link")
    with Functory(Settings(home=tmp_path / "home"), create=False) as functory, functory.database.read() as tx:
        (row,) = tx.rows(sa.select(schema.audit))
    assert row["origin"].startswith(f"cli {row['author']}@")


def test_a_link_of_the_command_logs_the_owner_in(shell: Shell, tmp_path: Path) -> None:
    shell.run("user", "create", "ada", "--password-stdin", stdin=GOOD)
    address, _, text = shell.out("dashboard", "link").strip().partition("/#login=")
    assert address == "http://127.0.0.1:7400"
    with Functory(Settings(home=tmp_path / "home"), create=False) as functory:
        assert functory.logins.find(functory.logins.log_in_by_link(text))


def test_no_link_is_printed_for_a_server_that_would_refuse_it(shell: Shell) -> None:
    process = shell.start("server", "--port", "0", "--migrate")
    try:
        assert process.stdout is not None and "ready" in process.stdout.readline()
        done = shell.run("dashboard", "link", status=5)
        assert "takes no link" in done.stderr and "/login" in done.stderr and "#login" not in done.stdout
    finally:
        process.terminate()
        _, said = process.communicate(timeout=patient(20))
    (line,) = [line for line in said.splitlines() if "no user can log in" in line]
    assert "functory user create NAME --role admin" in line


def test_a_server_that_others_reach_needs_an_admin_or_no_api(shell: Shell) -> None:
    shell.run("user", "create", "bob", "--role", "author", "--password-stdin", stdin=GOOD)
    server = Shell(shell.folder, processes=True)
    done = server.run("server", "--host", "0.0.0.0", "--port", "0", status=2)
    assert "there is no admin yet" in done.stderr and "functory user create NAME --role admin" in done.stderr


def test_functory_dev_prints_a_link_that_logs_its_owner_in_once(shell: Shell) -> None:
    process = shell.start("dev", "--port", "0", "--quiet")
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "/#login=" in line)
        url, _, text = line.split()[-1].partition("/#login=")
        headers = {"origin": url, "content-type": "application/json"}
        with httpx.Client(base_url=f"{url}/api/v1", headers=headers) as page:
            assert page.get("/me").json()["try"] == "functory dashboard link"
            assert page.post("/login", json={"link": text}).status_code == 204
            me = page.get("/me").json()
            assert (me["name"], me["kind"], me["role"]) == ("ada", "owner", "admin")
            assert page.post("/login", json={"link": text}).status_code == 403
    finally:
        process.terminate()
        process.communicate(timeout=patient(20))
