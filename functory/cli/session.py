"""Engine of one command: opened from the settings, always closed at the end."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator, MutableMapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from functory.engine.host_name import host_name
from functory.engine.serialization.control_characters import marked_lines
from functory.remote import address
from functory.terminal import console

if TYPE_CHECKING:
    from functory.client.functory import Functory
    from functory.read_models import ReadModels


_shared: ContextVar[Functory | None] = ContextVar("shared", default=None)


@contextlib.contextmanager
def sharing(opened: Functory) -> Iterator[None]:
    """Let the commands inside the block work on ``opened``, which stays open after them."""
    before = _shared.set(opened)
    try:
        yield
    finally:
        _shared.reset(before)


@contextlib.contextmanager
def engine(*, start: bool = False, create: bool = False) -> Iterator[Functory]:
    """Open the engine of the settings, or lend the shared one. Where the command speaks to a server (``FUNCTORY_URL``,
    ``functory login``), it is that server under the same names.

    With ``start`` the roles run in this process (embedded mode only). With ``create`` a missing database is made, which
    a note says; only commands that store something new do that.
    Raises :class:`Invalid` for wrong settings, :class:`Unavailable` for a database that cannot be used,
    :class:`NotFound` for one that is not there, and :class:`Conflict` for one of another schema.
    """
    if (shared := _shared.get()) is not None:
        yield shared.start() if start else shared
        return
    if (at := address.url_of_command()) is not None:
        from functory.cli.remote.engine import RemoteEngine
        from functory.remote.client import RemoteFunctory

        if sys.stderr.isatty() and address.url_of_process() is None:
            # The command line does not show where its command works: a login was typed some days ago.
            console.note(f"on {at} (functory login)")
        with RemoteEngine(RemoteFunctory(at)) as server:
            # It has the names that commands use, and refuses the others.
            yield cast("Functory", server)
        return
    from functory.client.functory import Functory
    from functory.engine.database import audit, migrations
    from functory.engine.settings import load_settings

    log_to_stderr()
    settings = load_settings()
    with Functory(settings, create=create) as opened:
        if opened.created:
            place = opened.database.name if settings.database_url else settings.home / "functory.db"
            console.note(f"made the database {place}")
        if start:
            if settings.embedded and not settings.database.startswith("sqlite"):
                console.note(
                    f"no broker is set: this command runs all that waits in {opened.database.name} itself "
                    "(FUNCTORY_BROKER_URL names one; none:// lets workers do it)"
                )
            opened.start()
        elif not settings.embedded:
            migrations.check(opened.database)
        with audit.acting(f"cli {opened.author}@{host_name()}"):
            yield opened


def read_models(opened: Functory) -> ReadModels:
    """What ``--json`` prints of this engine, or of the server: the rows of the API."""
    if is_remote():
        return cast("Any", opened).read_models
    from functory.read_models import ReadModels

    return ReadModels(opened)


def is_remote() -> bool:
    """Return True where commands speak to a server."""
    return _shared.get() is None and address.url_of_command() is not None


def log_to_stderr() -> None:
    """Send log messages to stderr, one line each: stdout is for results."""
    import structlog

    logging.basicConfig(stream=sys.stderr, level=logging.ERROR, format="%(name)s: %(message)s")
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.format_exc_info, _one_line],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _one_line(logger: Any, method: str, entry: MutableMapping[str, Any]) -> str:
    """Format a log entry as ``warning: what: name value, name value``."""
    level, what, trace = entry.pop("level"), entry.pop("event"), entry.pop("exception", None)
    rest = ", ".join(
        str(value) if name in ("why", "advice", "consequence") else f"{name} {value}"
        for name, value in entry.items()
    )
    return marked_lines(f"{level}: {what}" + (f": {rest}" if rest else "") + (f"\n{trace}" if trace else ""))
