"""Child executions of a running function: start them, run them inline, wait for their results."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from functory.engine.errors import ExecutionFailed, FunctoryError, Refused, WaitTimeout
from functory.engine.executions import outcomes
from functory.engine.executions.claims import Claim
from functory.engine.executions.store import Executions
from functory.engine.functions import arguments as argument_binding
from functory.engine.serialization import json_codec
from functory.workers.execution.unavailable_retry import retry_while_unavailable

# A waiting parent checks after this time whether its own run has ended.
WAIT_SECONDS = 1.0

# Results of children that a waiting parent gets are read from the database in parts of this size.
PART_CHARACTERS = 262_144

T = TypeVar("T")


class ChildCalls:
    """The child executions of one claim. ``run_inline`` runs those that the parent waits for in this worker."""

    def __init__(
        self,
        claim: Claim,
        executions: Executions,
        run_inline: Callable[[Sequence[str]], None],
        ended: threading.Event,
    ) -> None:
        self._cause = claim.cause
        self._executions = executions
        self._run_inline = run_inline
        self._ended = ended
        self._lock = threading.Lock()
        self._durable: dict[str, set[int]] = {}
        self._children: set[str] = set()

    def call(
        self,
        name: str,
        version: int | None,
        input_: dict[str, Any] | None,
        args: list[Any],
        kwargs: dict[str, Any],
        step_key: str | None = None,
        *,
        abandon: bool = False,
    ) -> Any:
        """The result of a child execution. Raises :class:`ExecutionFailed`."""
        id_ = self._start(
            name, version, input_, args, kwargs, dispatched=True, step_key=step_key, abandon=abandon
        )
        self._run_inline([id_])
        return outcomes.result_or_raise(self._wait([id_], None)[0])

    def call_durable(
        self,
        name: str,
        version: int | None,
        input_: dict[str, Any] | None,
        args: list[Any],
        kwargs: dict[str, Any],
        *,
        abandon: bool = False,
    ) -> Any:
        """The result of a child execution that all attempts of the parent share. Raises :class:`ExecutionFailed`.

        The *n*-th call with the same content in one attempt is the *n*-th in every attempt. A call that failed frees
        its number, in this attempt and in every other.
        """
        content = json_codec.digest([name, version, input_, args, kwargs])
        with self._lock:
            taken = self._durable.setdefault(content, set())
            nth = next(n for n in itertools.count(1) if n not in taken)
            taken.add(nth)
        key = json_codec.digest([content, nth])
        try:
            return self.call(name, version, input_, args, kwargs, step_key=key, abandon=abandon)
        except FunctoryError:
            with self._lock:
                taken.discard(nth)
            raise

    def submit(
        self, name: str, version: int | None, args: list[Any], kwargs: dict[str, Any], abandon: bool = False
    ) -> str:
        """Start a child execution on any worker. Returns its id."""
        return self._start(name, version, None, args, kwargs, dispatched=False, abandon=abandon)

    def gather(self, ids: list[str], timeout: float | None) -> Iterator[dict[str, Any]]:
        """Wait up to ``timeout`` seconds for children, and yield each result in order, read when it is asked for.

        Raises :class:`Refused` for an execution that is no child.
        """
        strangers = [id_ for id_ in ids if id_ not in self._children]
        if strangers:
            raise Refused(
                f"execution {strangers[0]} is not a child of this one", "only own children can be awaited"
            )
        self._run_inline(ids)
        lengths = self._until_ended(timeout, partial(self._executions.wait_for_lengths, ids))
        for part in in_parts(ids, lengths):
            yield from map(_gathered, self._wait(part, None))

    def _wait(self, ids: Sequence[str], timeout: float | None) -> list[dict[str, Any]]:
        """Finished rows."""
        return self._until_ended(timeout, partial(self._executions.wait, ids))

    def _until_ended(self, timeout: float | None, wait: Callable[[float], T]) -> T:
        """What ``wait`` returns. Stops when the parent's run has ended: this thread cannot be killed."""
        left = timeout
        while True:
            slice_ = WAIT_SECONDS if left is None else min(WAIT_SECONDS, left)
            try:
                return self._retry_while_unavailable(partial(wait, slice_))
            except WaitTimeout:
                left = None if left is None else left - slice_
                if self._ended.is_set() or (left is not None and left <= 0):
                    raise

    def _retry_while_unavailable(self, operation: Callable[[], T]) -> T:
        return retry_while_unavailable(operation, self._ended)

    def _start(
        self,
        name: str,
        version: int | None,
        input_: dict[str, Any] | None,
        args: list[Any],
        kwargs: dict[str, Any],
        *,
        dispatched: bool,
        step_key: str | None = None,
        abandon: bool = False,
    ) -> str:
        def make_input(parameters: Sequence[Mapping[str, Any]], _: Any) -> Mapping[str, Any]:
            return input_ if input_ is not None else argument_binding.bind(name, parameters, args, kwargs)

        id_: str | None = None

        def start() -> dict[str, Any]:
            nonlocal id_
            # A retry uses the same id: the child starts once, even when the first commit's outcome is unknown.
            again, id_ = id_ is not None, id_ or self._executions.new_id()
            return self._executions.start(
                name,
                make_input,
                version=version,
                parent=self._cause,
                dispatched=dispatched,
                step_key=step_key,
                abandon=abandon,
                id_=id_,
                maybe_committed=again,
            )

        row = self._retry_while_unavailable(start)
        self._children.add(row["id"])
        return row["id"]


def in_parts(ids: Sequence[str], lengths: Mapping[str, int]) -> Iterator[list[str]]:
    """Split ids into parts whose lengths add up to ``PART_CHARACTERS`` at most, or that have one id."""
    part: list[str] = []
    total = 0
    for id_ in ids:
        if part and total + lengths[id_] > PART_CHARACTERS:
            yield part
            part, total = [], 0
        part.append(id_)
        total += lengths[id_]
    if part:
        yield part


def _gathered(row: Mapping[str, Any]) -> dict[str, Any]:
    """A finished child as ``gather`` returns it: its value, or its error."""
    try:
        return {"ok": True, "value": outcomes.result_or_raise(row)}
    except ExecutionFailed as error:
        return {
            "ok": False,
            "state": error.state,
            "execution_id": error.execution_id,
            "error": {"type": "ExecutionFailed", "message": str(error)} | dict(error.error),
        }
