"""The errors of the module ``functory`` that code inside an execution imports."""

from __future__ import annotations

from functory.workers.sandbox.protocol.frames import ReplyError


class FunctoryError(Exception):
    """An error that the engine answered with; the message gives what, why and what to try."""


class Invalid(FunctoryError):
    """The input is not acceptable."""


class NotFound(FunctoryError):
    """The requested object does not exist."""


class Refused(FunctoryError):
    """This execution may not do that."""


class BudgetExceeded(Refused):
    """A limit of what may be spent does not allow it."""


class ModelFailed(FunctoryError):
    """A language model gave no answer."""


class Conflict(FunctoryError):
    """The state does not allow it, for example a stale ``expected_version``."""


class Unavailable(FunctoryError):
    """The engine cannot reach its database or broker."""


class WaitTimeout(FunctoryError, TimeoutError):
    """The wait ended before the executions did; they continue."""


class CallFailed(FunctoryError):
    """A child execution did not succeed: its ``execution_id``, final ``state`` and recorded ``error``."""

    def __init__(
        self, message: str, *, state: str = "failed", error: dict | None = None, execution_id: str = ""
    ) -> None:
        super().__init__(message)
        self.state = state
        self.error = error or {}
        self.execution_id = execution_id


ERRORS = (
    FunctoryError,
    Invalid,
    NotFound,
    Refused,
    BudgetExceeded,
    ModelFailed,
    Conflict,
    Unavailable,
    WaitTimeout,
)
_BY_KIND = {kind.__name__: kind for kind in ERRORS}


def raised(error: ReplyError) -> FunctoryError:
    """Return the exception for an error that the engine answered with."""
    if error.kind == "ExecutionFailed":
        return CallFailed(
            error.message,
            state=error.state or "failed",
            error=error.error,
            execution_id=error.execution_id or "",
        )
    return _BY_KIND.get(error.kind, FunctoryError)(error.message)
