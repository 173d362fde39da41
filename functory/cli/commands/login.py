"""``functory login``: who is logged in to the dashboard."""

from __future__ import annotations

from typing import Annotated

import typer

from functory.cli import session
from functory.cli.command_group import command_group, option
from functory.cli.input import ids
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet

app = command_group("Open logins of users.")


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
