"""Pages of the dashboard that commands link to and open (``--open``).

A link names a page and nothing else: a browser without a login is sent to the login page. One that logs in by itself
would be in the arguments of the browser's process, which other users of the machine see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast
from urllib.parse import quote, urlencode

import typer

from functory.cli import session
from functory.terminal import console

if TYPE_CHECKING:
    from functory.cli.remote.engine import RemoteEngine
    from functory.client.functory import Functory

Open = Annotated[
    bool,
    typer.Option("--open", help="Print the link of its page in the dashboard, and open it in a browser."),
]

# The pages of sources by their kind (dashboard/src/pages/sources.tsx). Those of plug-ins are among the watches.
_SOURCES = {"schedule": "schedules", "file": "watches", "webhook": "webhooks", "queue": "queues"}


def address(engine: Functory) -> str:
    """Return the address of the dashboard that shows this engine: that of the server that the command speaks to, of
    ``FUNCTORY_PUBLIC_URL``, or of the server that serves this project now. Raises :class:`Unavailable` without one.
    """
    from functory.engine.errors import Unavailable

    if session.is_remote():
        return cast("RemoteEngine", engine).url
    from functory.engine.serving_address import running_url

    settings = engine.settings
    at = settings.public_url or running_url(settings)
    if at is None:
        raise Unavailable(
            "there is no dashboard to open",
            f"no server of {settings.home} serves now, and FUNCTORY_PUBLIC_URL names none",
            "functory dev, in another terminal; or set FUNCTORY_PUBLIC_URL, or FUNCTORY_URL for a server elsewhere",
        )
    return at.rstrip("/")


def open_page(engine: Functory, *words: str | int, **query: str) -> None:
    """Print the link of a page on stderr and open it in a browser. Raises as :func:`address`."""
    import webbrowser

    path = "/".join(quote(str(word), safe="") for word in words)
    link = f"{address(engine)}/{path}" + (f"?{urlencode(query)}" if query else "")
    console.quote(link)
    if not webbrowser.open(link):
        console.warn("no browser could be started here")


def open_source(engine: Functory, kind: str, name: str) -> None:
    """Open the page of a source, as :func:`open_page` does."""
    if kind in _SOURCES:
        open_page(engine, _SOURCES[kind], name)
    else:
        open_page(engine, _SOURCES["file"], name, kind=kind)
