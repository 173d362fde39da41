"""``functory login``: the server that this user's commands speak to, and who is logged in to a dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from functory.cli import session
from functory.cli.command_group import command_group, option
from functory.cli.commands.token_store import Url, caller_of, read_token
from functory.cli.input import ids
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet


class LoginGroup(TyperGroup):
    """Verbs, and an address without a verb, which stands for ``server``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, with the verb that an address stands for."""
        return super().parse_args(ctx, self.with_verb(args))

    def with_verb(self, args: Sequence[str]) -> list[str]:
        """Return the arguments with the verb before those that have an address instead of one."""
        has_address = any(mark in one for one in args for mark in "./:")
        return [*(["server"] if has_address and args[0] not in self.commands else []), *args]


app = command_group("Log in to a server (functory login https://…), and open logins of users.", LoginGroup)


@app.command(epilog="Example: functory login https://functory.example.com")
def server(
    url: Url,
    token_stdin: Annotated[bool, typer.Option("--token-stdin", help="Read the token from stdin.")] = False,
) -> None:
    """Log in to a server: commands speak to it from now on. The token is typed at a hidden prompt.

    The word server may be left out. A variable, a settings file and a data folder of this machine win
    over the login.
    """
    from functory.remote import address
    from functory.remote.connection import checked_url

    at = checked_url(url)
    token = read_token(
        at, from_stdin=token_stdin, advice=f"functory login server {at} --token-stdin < token.txt"
    )
    caller = caller_of(at, token)
    path = address.log_in(at, token)
    CommandOutput().styled((f"logged in to {at} as {caller.name}, {caller.role} ({path})", ""))
    if (why := _why_not(at)) is not None:
        console.note(f"{why}: FUNCTORY_URL={at} names the server for one command")


def _why_not(at: str) -> str | None:
    """Why commands in this folder do not speak to the server of the login; None where they do."""
    from functory.remote import address

    if (named := address.url_of_process()) is not None:
        return None if named.rstrip("/") == at else f"commands in this folder speak to {named}"
    if address.url_of_login() is None:
        return f"commands in this folder work on this machine, because of {address.own_data() or address.URL}"
    return None


@app.command("list", epilog="Example: functory login list")
def list_(
    user: Annotated[str | None, option("Only those of this user.")] = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List open logins: since when, from where, and the last request."""
    from functory.rows.access import Login

    with session.engine() as engine:
        rows = engine.logins.list(user)
    CommandOutput(json=json, quiet=quiet).table(
        rows,
        {
            "user": "USER",
            "created_at": "SINCE",
            "seen_at": "SEEN",
            "address": "ADDRESS",
            "agent": "AGENT",
            "id": "ID",
        },
        # No command has a login of its own, where pages do.
        data=lambda: [Login.as_json(row | {"current": False}) for row in rows],
        empty="no user is logged in",
    )


@app.command(epilog="Example: functory login end --user ada")
def end(
    id: Annotated[str | None, typer.Argument(help="Id of the login.", show_default=False)] = None,  # noqa: A002
    user: Annotated[str | None, option("End all logins of this user.")] = None,
) -> None:
    """End a login, or all of a user. Its open pages are closed within seconds."""
    from functory.engine.errors import Invalid

    if (id is None) == (user is None):
        raise Invalid("which login?", "name one id, or a user", "functory login end --user NAME")
    with session.engine() as engine:
        if id is not None:
            engine.logins.end(ids.login_id(engine, id), author=engine.author)
            ended = 1
        else:
            assert user is not None
            ended = engine.logins.end_all(user, author=engine.author)
    CommandOutput().styled((f"{console.count_of(ended, 'login')} ended", ""))
