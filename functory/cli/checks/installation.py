"""The installation that is checked: its settings, and its database, which is opened once for all checks."""

from __future__ import annotations

from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functory.engine.database.connection import Database
    from functory.engine.settings import Settings


class Installation:
    """Settings and database. Closes the database at the end of the block."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if "database" in self.__dict__:
            self.database.close()

    @cached_property
    def database(self) -> Database:
        """The database, whether it is there or not."""
        from functory.engine.database.connection import Database

        return Database.of(self.settings, pool_size=1)

    @cached_property
    def data(self) -> Database | None:
        """The database when it can be read. None without one, for one that does not answer, and for one of another
        schema: the check ``database`` reports those.
        """
        from functory.engine.database import migrations
        from functory.engine.errors import FunctoryError

        try:
            usable = not migrations.is_missing(self.database) and migrations.is_compatible(self.database)
        except FunctoryError:
            return None
        return self.database if usable else None
