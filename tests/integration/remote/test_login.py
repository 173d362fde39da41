"""``functory login`` and ``logout`` against a server: what later commands speak to, and with which token."""

from __future__ import annotations

import os
import pty
import select
import subprocess
from pathlib import Path

import pytest

from functory.client.functory import Functory
from tests.support import waiting
from tests.support.cli_shell import Shell
from tests.support.console_script import PROGRAM


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """The command line in an empty folder, without a variable of Functory."""
    shell = Shell(tmp_path)
    del shell.environment["FUNCTORY_HOME"]
    return shell


def test_commands_after_a_login_speak_to_its_server_until_the_logout(
    shell: Shell, served: tuple[Functory, str, str]
) -> None:
    _, url, token = served
    done = shell.run("login", url, "--token-stdin", stdin=f"{token}\n")
    assert f"logged in to {url} as ada, admin" in done.stdout
    assert "add" in shell.out("function", "list", "-q").splitlines()
    assert shell.out("run", "add", "--input", "a=1") == "2"
    (row,) = [row for row in shell.json("config") if row["name"] == "url"]
    assert (row["value"], row["source"]) == (url, "functory login")
    assert f"logged out of {url}" in shell.out("logout")
    assert "there is no database yet" in shell.run("function", "list", status=3).stderr
    assert "no login is stored" in shell.run("logout", status=3).stderr
    assert token not in done.stdout + done.stderr


def test_a_token_that_the_server_refuses_is_not_stored(
    shell: Shell, served: tuple[Functory, str, str]
) -> None:
    done = shell.run("login", "--token-stdin", served[1], stdin="fnc_wrong\n", status=4)
    assert "the token is not valid" in done.stderr and "fnc_wrong" not in done.stderr
    assert "there is no token" in shell.run("login", served[1], "--token-stdin", status=2).stderr
    assert not (shell.folder / "config").exists()


def test_a_token_is_never_an_argument(shell: Shell, served: tuple[Functory, str, str]) -> None:
    shell.run("login", served[1], served[2], status=2)
    assert "--token-stdin < token.txt" in shell.run("login", served[1], status=2).stderr


def test_a_database_of_the_folder_stays_what_its_commands_use(
    shell: Shell, served: tuple[Functory, str, str]
) -> None:
    _, url, token = served
    (shell.folder / "here.py").write_text("def here() -> int:\n    return 1\n")
    shell.run("function", "add", "here.py")
    done = shell.run("login", url, "--token-stdin", stdin=token)
    assert (
        "work on this machine, because of .functory" in done.stderr and f"FUNCTORY_URL={url}" in done.stderr
    )
    assert shell.out("function", "list", "-q") == "here"
    shell.environment["FUNCTORY_URL"] = url
    assert "add" in shell.out("function", "list", "-q").splitlines()


def test_a_command_for_this_machine_says_that_it_ignores_the_login(
    shell: Shell, served: tuple[Functory, str, str]
) -> None:
    shell.run("login", served[1], "--token-stdin", stdin=served[2])
    assert f"works on this machine, and not on {served[1]}" in shell.run("db", "status", status=None).stderr


def test_a_token_is_typed_without_echo_and_a_terminal_shows_the_server_of_a_login(
    shell: Shell, served: tuple[Functory, str, str]
) -> None:
    _, url, token = served

    def in_terminal(*arguments: str, typed: str = "") -> str:
        """Run a command with a terminal as its streams. Returns what the terminal shows."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [PROGRAM, *arguments],
            cwd=shell.folder,
            env=shell.environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        shown = b""

        def has_ended() -> bool:
            nonlocal shown, typed
            # Looked at first: what it wrote before its end is read below.
            ended = process.poll() is not None
            while select.select([ours], [], [], 0)[0] and (read := _read(ours)):
                shown += read
            if typed and b"Token for" in shown:
                os.write(ours, f"{typed}\n".encode())
                typed = ""
            return ended

        try:
            waiting.wait_for(has_ended)
        finally:
            process.kill()
            process.wait()
            os.close(ours)
        assert process.returncode == 0, shown
        return shown.decode()

    said = in_terminal("login", url, typed=token)
    assert f"Token for {url}" in said and f"logged in to {url}" in said and token not in said
    assert f"on {url} (functory login)" in in_terminal("function", "list")
    assert "functory login" not in shell.run("function", "list").stderr


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # no process has it open any more
        return b""
