"""``functory token store`` and ``forget``: the token that this user's commands send to a server.

:mod:`functory.cli.commands.token` registers them. ``functory login`` reads and checks its token in the same way.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from functory.terminal.console import CommandOutput

if TYPE_CHECKING:
    from functory.remote import rows

Url = Annotated[str, typer.Argument(help="Address of the server.", metavar="URL", show_default=False)]


def store(url: Url) -> None:
    """Keep a token for a server in a file that only this user reads: typed at a hidden prompt, or from stdin."""
    from functory.remote import address
    from functory.remote.connection import checked_url

    at = checked_url(url)
    token = read_token(at, from_stdin=True, advice=f"functory token store {at} < token.txt")
    caller = caller_of(at, token)
    path = address.store_token(at, token)
    CommandOutput().styled((f"commands with FUNCTORY_URL={at} are {caller.name}, {caller.role} ({path})", ""))


def forget(url: Url) -> None:
    """Remove the token for a server from this user's file. The server still accepts it until it is revoked."""
    from functory.remote import address
    from functory.remote.connection import checked_url

    address.store_token(checked_url(url), None)
    CommandOutput().styled((f"the token for {checked_url(url)} is forgotten", ""))


def read_token(at: str, *, from_stdin: bool, advice: str) -> str:
    """Return the token for the server ``at``: typed at a hidden prompt, or the line that stdin has. Never an argument:
    others see those. Raises :class:`Invalid` where neither gives one.
    """
    from functory.engine.errors import Invalid

    if sys.stdin.isatty():
        token = typer.prompt(f"Token for {at}", hide_input=True, err=True)
    elif from_stdin:
        token = sys.stdin.readline()
    else:
        raise Invalid("no token", "there is no terminal to ask for it", advice)
    if not token.strip():
        raise Invalid("there is no token", "it is read from stdin", advice)
    return token.strip()


def caller_of(at: str, token: str) -> rows.Me:
    """Ask the server whose token it is: a wrong one is refused here, and not by every command after this one."""
    from functory.remote.client import RemoteFunctory

    with RemoteFunctory(at, token=token) as server:
        return server.me.get()


VERBS = (
    (store, "functory token store https://functory.example.com < token.txt"),
    (forget, "functory token forget https://functory.example.com"),
)
