"""Host functions that the worker offers to running code: the engine's side of ``from functory import call,
emit, …``.

The engine implements ``Host`` for one execution and gives it to ``Runner.run``. Each method may block (it
runs on a thread of that execution, up to eight at the same time) and may raise any
``functory.engine.errors.FunctoryError``, which reaches the code as an exception of the same name. The host
checks rights and budgets; the child is not trusted to have done so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol


class OutputFilter(Protocol):
    """Removes secrets from one stream of output."""

    def feed(self, text: str) -> str:
        """What may be stored of the text so far; the rest waits for the next chunk."""
        ...

    def close(self) -> str:
        """The rest, at the end of the stream."""
        ...


class UnfilteredOutput:
    """Lets everything through: for a run without secrets."""

    def feed(self, text: str) -> str:
        return text

    def close(self) -> str:
        return ""


class Host(Protocol):
    """Answers the requests of one execution. Values are JSON values in both directions."""

    def output_filter(self) -> OutputFilter:
        """Make the filter of one stream of output. It removes the secrets that :meth:`secret` has given so far."""
        ...

    def call(
        self,
        name: str,
        version: int | None,
        input: dict[str, Any] | None,  # noqa: A002 - the word of the design
        args: list[Any],
        kwargs: dict[str, Any],
        durable: bool,
        abandon: bool,
    ) -> Any:
        """Run another function as a child execution, wait, and return its result.

        ``input`` is None when the arguments come as ``args`` and ``kwargs``. A ``durable`` one that another attempt has
        made already is not made again. One to ``abandon`` goes on when this execution ends without success. Raises
        ``ExecutionFailed``.
        """
        ...

    def submit(
        self, name: str, version: int | None, args: list[Any], kwargs: dict[str, Any], abandon: bool
    ) -> str:
        """Start a child execution and return its id at once."""
        ...

    def gather(self, ids: list[str], timeout: float | None) -> Iterable[dict[str, Any]]:
        """Wait for child executions, at most ``timeout`` seconds; one entry for each id, in order.

        The entries are read one after another, as the child takes them: together they may be too large.
        ``{"ok": True, "value": …}`` or ``{"ok": False, "error": {"type", "message", …}, "state": …}``.
        """
        ...

    def emit(self, type: str, data: Any, subject: str | None) -> str:  # noqa: A002 - the word of CloudEvents
        """Write an event and return its id."""
        ...

    def emit_many(self, events: Sequence[tuple[str, Any, str | None]]) -> list[str]:
        """Write events, given as type, data and subject, all of them or none. Return their ids in order."""
        ...

    def secret(self, name: str) -> str:
        """The value of a secret that the execution's functions declare."""
        ...

    def state_get(self, key: str) -> tuple[Any, int] | None:
        """The value under ``key`` and its version, or None."""
        ...

    def state_set(self, key: str, value: Any, expected_version: int | None) -> int:
        """Store a value and return its new version; ``Conflict`` when the expected one is not current."""
        ...

    def state_delete(self, key: str) -> None:
        """Forget a key; forgetting an absent one is no error."""
        ...

    def functions(self, op: str, arguments: dict[str, Any]) -> Any:
        """An operation on stored functions: get, save, describe and so on."""
        ...

    def llm(self, op: str, arguments: dict[str, Any]) -> Any:
        """Ask a language model: chat or embed; or list the models that may be asked: models."""
        ...

    def memory(self, op: str, arguments: dict[str, Any]) -> Any:
        """An operation on memories: add, search or forget."""
        ...

    def tools(self, op: str, arguments: dict[str, Any]) -> Any:
        """Functions as tools: search, or the schema of one."""
        ...
