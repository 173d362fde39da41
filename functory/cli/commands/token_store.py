"""``functory token store`` and ``forget``: the token that this user's commands send to a server.

:mod:`functory.cli.commands.token` registers them.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from functory.terminal.console import CommandOutput

Url = Annotated[str, typer.Argument(help="Address of the server.", metavar="URL", show_default=False)]


def store(url: Url) -> None:
    """Keep a token for a server in a file that only this user reads: typed at a hidden prompt, or from stdin."""
    from functory.engine.errors import Invalid
    from functory.remote import address
    from functory.remote.client import RemoteFunctory
    from functory.remote.connection import checked_url

    at = checked_url(url)
    if sys.stdin.isatty():
        token = typer.prompt(f"Token for {at}", hide_input=True, err=True).strip()
    else:
        token = sys.stdin.readline().strip()
    if not token:
        raise Invalid("there is no token", "it is read from stdin", f"functory token store {at} < token.txt")
    with RemoteFunctory(at, token=token) as server:
        # A wrong one is refused here, and not by every command after this one.
        caller = server.me.get()
    path = address.store_token(at, token)
    CommandOutput().styled((f"commands with FUNCTORY_URL={at} are {caller.name}, {caller.role} ({path})", ""))


def forget(url: Url) -> None:
    """Remove the token for a server from this user's file. The server still accepts it until it is revoked."""
    from functory.remote import address
    from functory.remote.connection import checked_url

    address.store_token(checked_url(url), None)
    CommandOutput().styled((f"the token for {checked_url(url)} is forgotten", ""))


VERBS = (
    (store, "functory token store https://functory.example.com < token.txt"),
    (forget, "functory token forget https://functory.example.com"),
)
