"""``functory db``: the database's schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from functory.cli import session
from functory.cli.noun import noun
from functory.cli.screen import AsJson, Screen

if TYPE_CHECKING:
    from engine.database import Database

app = noun("The database's schema.")


@app.command(epilog="Example: functory db upgrade")
def upgrade() -> None:
    """Bring the schema to this version's. Safe to run from many places at once."""
    from engine import migrate

    with _database() as database:
        before = migrate.current(database)
        after = migrate.upgrade(database)
        name = database.name
    done = (
        f"has schema {after} already"
        if before == after
        else f"is upgraded from {before or 'nothing'} to schema {after}"
    )
    Screen().styled((f"{name} {done}", ""))


@app.command(epilog="Example: functory db status")
def status(json: AsJson = False) -> int:
    """The schema it has, and the one it needs. Exit status 5 when they differ."""
    from engine import migrate

    with _database() as database:
        found, name = migrate.current(database), database.name
    current = found == migrate.HEAD
    out = Screen(json=json)
    if json:
        out.value({"database": name, "schema": found, "needed": migrate.HEAD, "current": current})
    else:
        out.record({"database": name, "schema": found or "none", "needed": migrate.HEAD, "current": current})
        if not current:
            out.styled(("try: functory db upgrade", ""))
    return 0 if current else 5


@contextmanager
def _database() -> Iterator[Database]:
    """The database alone, whatever its schema."""
    from engine.database import Database
    from engine.errors import Invalid
    from engine.settings import load_settings

    session.log_to_stderr()
    settings = load_settings()
    if settings.database_url is None:
        try:
            settings.home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Invalid(
                f"the folder {settings.home} cannot be made",
                error.strerror or str(error),
                "set FUNCTORY_HOME to a folder that you may write",
            ) from None
    database = Database(settings.database, pool_size=1)
    try:
        yield database
    finally:
        database.close()
