"""Question expiry: a service that ends the questions of runs that were not answered in time."""

from __future__ import annotations

from functory.engine.database.connection import Database
from functory.engine.executions.runs import answers
from functory.engine.executions.runs.service import Runs
from functory.engine.service import Service
from functory.engine.settings import Settings


class QuestionExpiry(Service):
    """Ends them in small transactions; their runs go on."""

    name, topic, poll_seconds = "question_expiry", None, 10.0

    def __init__(self, database: Database, settings: Settings) -> None:
        self._runs = Runs(database, settings)

    def run_once(self) -> bool:
        """End some of them. True when there may be more. Raises :class:`Unavailable`."""
        return self._runs.expire_questions() >= answers.PAGE
