"""The schema check of a process that lives on: whether the database still has a schema that this code works on.

The check costs statements, so it is not repeated with each operation: only after an error that another schema may
have caused, and once a minute. :meth:`SchemaCheck.clarify` gives a failed operation the clear error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from functory.engine.database import migrations
from functory.engine.database.connection import Database

# A schema that was found compatible is checked again after this number of seconds.
CHECK_SECONDS = 60.0


class SchemaCheck:
    """Checks the schema of one database as rarely as is safe. Threads share it."""

    def __init__(self, database: Database, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._checked_at: float | None = None
        self._errors_seen = 0

    def check(self) -> None:
        """Refuse a database whose schema does not fit this code. Raises :class:`Conflict`.

        It asks the database at the first call, after an error that another schema may have caused, and a minute
        after it last asked.
        """
        now, errors = self._monotonic(), self._database.schema_errors
        fresh = self._checked_at is not None and now - self._checked_at < CHECK_SECONDS
        if fresh and errors == self._errors_seen:
            return
        migrations.check(self._database)
        self._checked_at, self._errors_seen = now, errors

    @contextmanager
    def clarify(self) -> Iterator[None]:
        """Replace an error of the block by :class:`Conflict` when another schema has caused it."""
        before = self._database.schema_errors
        try:
            yield
        except Exception:
            if self._database.schema_errors != before:
                self.check()
            raise
