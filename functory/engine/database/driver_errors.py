"""Driver errors: translates the errors of database drivers into the errors of the engine."""

from __future__ import annotations

from typing import Any

from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from functory.engine.errors import FunctoryError, Invalid, Unavailable, Uncertain

# Classes of PostgreSQL errors (manual, appendix A) that end a connection: server shutdown or crash (57P) and connection
# failure (08x).
_CUT_OFF = frozenset({"57P", "080"})


class DriverErrorTranslation:
    """A context that translates driver errors: a database that cannot be used becomes :class:`Unavailable`, and a value
    that it cannot store (a NUL or a lone surrogate in a key, a number beyond 64 bits) becomes :class:`Invalid`.

    Stateless, so that one object serves all transactions of a database.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if error is not None:
            meant = translate_driver_error(self._name, error)
            if meant is not None:
                raise meant from (None if isinstance(error, PoolTimeout) else error)


def translate_driver_error(name: str, error: BaseException) -> FunctoryError | None:
    """Return the engine's error for a driver's ``error``; None when there is no translation."""
    if isinstance(error, PoolTimeout):
        return Unavailable(
            f"no free connection to {name}",
            "all connections of the pool are in use",
            "lower FUNCTORY_WORKER_SLOTS or look for long transactions",
        )
    if isinstance(error, UnicodeEncodeError | OverflowError):
        return Invalid("the database cannot hold that value", str(error))
    if not isinstance(error, DBAPIError):
        return None
    reason = str(error.orig).strip().splitlines()[0] if error.orig and str(error.orig).strip() else str(error)
    if isinstance(error, OperationalError | InterfaceError):
        return Unavailable(f"the database {name} cannot be used", reason, _hint(reason))
    if isinstance(error, DataError):
        return Invalid("the database cannot hold that value", reason)
    if error.connection_invalidated:
        return Unavailable(f"the connection to {name} was lost", str(error.orig), "it is retried")
    if isinstance(error, ProgrammingError) and "does not exist" in reason:
        return Unavailable(f"the database {name} cannot be used", reason, _hint(reason))
    return None


def unknown_commit_outcome(name: str, error: BaseException) -> Uncertain | None:
    """Return the error for a commit without an answer from the server; None when the commit certainly failed."""
    if not isinstance(error, OperationalError | InterfaceError):
        return None
    state = getattr(error.orig, "sqlstate", None) or ""
    if getattr(error.orig, "sqlite_errorcode", None) or (state and state[:3] not in _CUT_OFF):
        return None
    return Uncertain(
        f"it is not known whether the database {name} has stored it",
        (str(error.orig).strip() or "no answer").splitlines()[0],
        "check before you repeat it; with the same idempotency key or dedup_key it is stored once",
    )


def is_deadlock(error: BaseException | None) -> bool:
    """Return True for PostgreSQL's deadlock_detected and serialization_failure (manual, appendix A)."""
    cause = error.__cause__ if isinstance(error, Unavailable) else None
    return isinstance(cause, DBAPIError) and getattr(cause.orig, "sqlstate", None) in ("40P01", "40001")


def _hint(reason: str) -> str:
    lowered = reason.lower()
    if "full" in lowered or "no space" in lowered:
        return "free disk space; nothing was written"
    if "no such table" in lowered or "does not exist" in lowered:
        return "functory db upgrade"
    if "deadlock" in lowered:
        return "it is tried again; nothing was written"
    if "locked" in lowered:
        return "another process holds the file; try again"
    return "check that the server runs and that FUNCTORY_DATABASE_URL is right"
