"""Every error that Functory raises on purpose: one small tree.

Each error says *what* happened, *why*, and what to *try*, so that the CLI, the HTTP API and a
traceback all read the same. ``code`` is the CLI's exit status for it (see ``docs/reference/cli.md``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any


class FunctoryError(Exception):
    """Base of the tree: ``what`` happened, ``why``, and what to ``try_`` next."""

    code = 1

    def __init__(self, what: str, why: str = "", try_: str = "") -> None:
        self.what = what
        self.why = why
        self.try_ = try_
        lines = [what]
        if why:
            lines.append(why)
        if try_:
            lines.append(f"try: {try_}")
        super().__init__("\n".join(lines))

    @property
    def reason(self) -> str:
        """``what`` and ``why`` on one line."""
        return ": ".join(part for part in (self.what, self.why) if part)


class Invalid(FunctoryError):
    """The input is not acceptable: source, pattern, template, schema, settings, size."""

    code = 2


class NotFound(FunctoryError):
    """A function, version, trigger, event, execution or secret that does not exist. When it may have been pruned,
    ``pruned_before`` is the time before which all that ended was.
    """

    code = 3

    def __init__(
        self, what: str, why: str = "", try_: str = "", *, pruned_before: datetime | None = None
    ) -> None:
        super().__init__(what, why, try_)
        self.pruned_before = pruned_before


class AmbiguousId(NotFound):
    """Several ids begin as the given one. ``candidates`` are the first of them: ``kind``, ``id`` and ``name``."""

    def __init__(
        self, what: str, why: str = "", try_: str = "", *, candidates: Sequence[Mapping[str, str]] = ()
    ) -> None:
        super().__init__(what, why, try_)
        self.candidates = [dict(one) for one in candidates]


class Refused(FunctoryError):
    """The caller may not do this: a missing permission or grant."""

    code = 4


class BudgetExceeded(Refused):
    """A limit of what may be spent does not allow it. ``limit`` says which one and how far it was used."""

    def __init__(
        self, what: str, why: str = "", try_: str = "", *, limit: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(what, why, try_)
        self.limit = dict(limit or {})


class ModelFailed(FunctoryError):
    """A language model gave no answer. ``state`` is ``failed``, or ``unknown`` when the answer was lost on its way."""

    def __init__(self, what: str, why: str = "", try_: str = "", *, state: str = "failed") -> None:
        super().__init__(what, why, try_)
        self.state = state


class Conflict(FunctoryError):
    """The state does not allow it: a stale ``expected_version``, dependents, a finished execution."""

    code = 5


class VersionChanged(Conflict):
    """Somebody saved a newer version than ``base``, the one that a change starts from. ``current`` is its number. Both
    are 0 where there is none.
    """

    def __init__(self, what: str, why: str = "", try_: str = "", *, base: int = 0, current: int = 0) -> None:
        super().__init__(what, why, try_)
        self.base = base
        self.current = current


class AlreadyDecided(Conflict):
    """Another person has decided before: ``decided_by``, at ``decided_at``. Both are None when its time was over."""

    def __init__(
        self,
        what: str,
        why: str = "",
        try_: str = "",
        *,
        decided_by: str | None = None,
        decided_at: datetime | None = None,
    ) -> None:
        super().__init__(what, why, try_)
        self.decided_by = decided_by
        self.decided_at = decided_at


class Unavailable(FunctoryError):
    """A database or broker cannot be reached."""

    code = 6


class ReadTooLong(Unavailable):
    """A read took longer than its caller may wait, and was ended. The database can be used."""


class DatabaseLost(Unavailable):
    """The file of the database was deleted or replaced while this process had it open. The process ends."""


class Uncertain(Unavailable):
    """A commit got no answer: its outcome is unknown."""


class Stale(FunctoryError):
    """An attempt that no longer owns its execution tried to write: its fence is not the current one."""

    code = 5


class Stalled(FunctoryError):
    """A part of this process makes no progress. The process ends, to be started again (sysexits.h, EX_TEMPFAIL)."""

    code = 75


class ExecutionFailed(FunctoryError):
    """An awaited execution did not succeed. ``error`` holds its recorded error, ``state`` its final state."""

    def __init__(
        self,
        what: str,
        why: str = "",
        try_: str = "",
        *,
        state: str = "failed",
        error: dict | None = None,
        execution_id: str = "",
    ) -> None:
        super().__init__(what, why, try_)
        self.state = state
        self.error = error or {}
        self.execution_id = execution_id


class WaitTimeout(FunctoryError):
    """The wait ended before the execution did; the execution goes on."""

    code = 124
