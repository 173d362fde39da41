"""``functory logout``: the end of ``functory login``."""

from __future__ import annotations

from typing import Annotated

import typer

from functory.terminal.console import CommandOutput


def logout(
    url: Annotated[
        str | None,
        typer.Argument(
            help="Another server than that of functory login.", metavar="[URL]", show_default=False
        ),
    ] = None,
) -> None:
    """Forget the server of functory login and its token, which the server accepts until it is revoked."""
    from functory.engine.errors import NotFound
    from functory.remote import address
    from functory.remote.connection import checked_url

    at = address.logged_in() if url is None else checked_url(url)
    if at is None:
        raise NotFound("no login is stored", "", "functory login https://…")
    address.log_out(at)
    CommandOutput().styled((f"logged out of {at}", ""))
