"""The rows of attempts, as those who decide about them read them."""

from __future__ import annotations

from datetime import datetime

from functory.engine.database.schema import attempt
from functory.engine.database.typed_rows import TypedRow, columns


class AttemptEnd(TypedRow, frozen=True):
    """How an attempt ended (columns of table ``attempt``). All but its key is None while it runs."""

    execution_id: str
    fence: int
    outcome: str | None
    duration_seconds: float | None
    waited_seconds: float | None


class AttemptRow(AttemptEnd, frozen=True):
    """An attempt with its number and its times."""

    number: int
    queued_seconds: float | None
    started_at: datetime
    ended_at: datetime | None


END_COLUMNS = columns(AttemptEnd, attempt)
ATTEMPT_COLUMNS = columns(AttemptRow, attempt)
