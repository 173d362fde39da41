"""``functory dashboard``: the way into the dashboard of ``functory dev``."""

from __future__ import annotations

from functory.cli import session
from functory.cli.command_group import command_group
from functory.terminal import console
from functory.terminal.console import CommandOutput

app = command_group("The dashboard.")


@app.callback()
def _group() -> None:
    """The dashboard."""


@app.command(epilog="Example: functory dashboard link")
def link() -> None:
    """Print a link that logs you in to the dashboard of functory dev, once, within ten minutes."""
    from functory.engine.access.logins import login_address
    from functory.engine.errors import Conflict
    from functory.engine.serving_address import refuses_links, server_url

    with session.engine() as engine:
        settings = engine.settings
        if refuses_links(settings):
            raise Conflict(
                f"the server at {server_url(settings)} takes no link",
                "it is functory server, whose users log in with their names; links are for functory dev",
                f"functory user create NAME --role admin, then log in at {server_url(settings)}/login",
            )
        text = login_address(server_url(settings), engine.logins.new_link())
        has_admin = engine.users.has_admin()
    CommandOutput().styled((text, ""))
    if has_admin:
        console.note("users of a server log in with their names; the link is for functory dev")
