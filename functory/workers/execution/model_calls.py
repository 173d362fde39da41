"""Calls of language models by a running function: granted, counted, asked once for all attempts, waited for.

While the code waits for a model its wall clock stands still, and its slot is lent to other executions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from functory.engine.access import grants
from functory.engine.agents import calls, embedding_calls, requests
from functory.engine.agents.calls import Caller, Calls
from functory.engine.agents.embedding_calls import EmbeddingCalls
from functory.engine.agents.models import Models
from functory.engine.agents.requests import Request
from functory.engine.errors import Invalid, Refused, WaitTimeout
from functory.engine.executions.claims import Claim
from functory.workers.execution.unavailable_retry import retry_while_unavailable

# Code that waits for a model checks after this time (seconds) whether its own run has ended.
WAIT_SECONDS = 1.0

T = TypeVar("T")


class ModelCalls:
    """The model calls of one claim. ``lend_slot`` frees its slot inside the block."""

    def __init__(
        self,
        claim: Claim,
        services: Calls,
        models: Models,
        ended: threading.Event,
        lend_slot: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._claim = claim
        self._calls = services
        self._models = models
        self._ended = ended
        self._lend_slot = lend_slot
        self._lock = threading.Lock()
        self._number = 0
        self._asked: dict[str, int] = {}
        self._waiting = 0
        self._lent = ExitStack()

    def chat(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Ask a model, and wait for its answer. Raises :class:`Refused` without a grant, and what
        :func:`functory.engine.agents.calls.answer` raises.
        """
        return self._ask(requests.chat(arguments))

    def embed(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Ask a model for embeddings, and wait for them."""
        return self._ask(requests.embed(arguments))

    def query_vector(self, model: str, query: str, embeddings: EmbeddingCalls) -> bytes | None:
        """The vector of a search's query. None when no gateway answers in time, and when a limit does not allow the
        call: then the words alone decide.
        """
        request = embedding_calls.query_request(model, query)
        try:
            number, nth = self._count(request)
            caller = Caller.of(self._claim.cause)
            row = self._retry(lambda: self._calls.ask(request, caller, number=number, nth=nth))
        except (Refused, Invalid):
            return None
        if row["state"] != "succeeded":
            id_ = row["id"]
            try:
                with self._slot_lent():
                    row = self._retry(lambda: self._calls.wait(id_, embedding_calls.QUERY_SECONDS))
            except WaitTimeout:
                self._retry(lambda: embeddings.cancel(id_))
                return None
        return embedding_calls.vector_of(row)

    def models(self) -> list[dict[str, Any]]:
        """The models that this function may ask: what code needs to choose one."""
        rows = self._retry(self._models.list)
        return [
            {
                "name": row["name"],
                "capabilities": row["capabilities"],
                "context": row["context"],
                "max_output": row["max_output"],
                "note": row["note"],
            }
            for row in rows
            if row["state"] == "enabled" and self._claim.grants.allows_model(row["name"])
        ]

    def _ask(self, request: Request) -> dict[str, Any]:
        request = self._with_model(request)
        number, nth = self._count(request)
        caller = Caller.of(self._claim.cause)
        row = self._retry(lambda: self._calls.ask(request, caller, number=number, nth=nth))
        replayed = row["state"] == "succeeded"
        if not replayed:
            with self._slot_lent():
                row = self._wait(row["id"])
        return calls.answer(row, replayed=replayed)

    def _with_model(self, request: Request) -> Request:
        """Name the model of a request that names none: the one that the function declares."""
        named, granted = request.model, self._claim.grants.models
        if named is None:
            single = [name for name in granted if name != grants.ANY_MODEL]
            if len(single) != 1:
                raise Invalid(
                    "the request names no model",
                    f"the function may ask {', '.join(granted)}" if granted else "the function declares none",
                    'llm(messages, model="small")',
                )
            return replace(request, model=single[0])
        return request

    def _count(self, request: Request) -> tuple[int, int]:
        limit = self._claim.limits.llm_calls
        with self._lock:
            if self._number >= limit:
                raise Refused(
                    f"this execution has asked language models {limit} times",
                    "the limit llm_calls ends loops around a model that does not answer as expected",
                    "raise llm_calls",
                )
            self._number += 1
            key = request.sha256
            self._asked[key] = self._asked.get(key, 0) + 1
            return self._number, self._asked[key]

    @contextmanager
    def _slot_lent(self) -> Iterator[None]:
        """Lend the slot inside the block. Requests that wait side by side lend it once: the claim has only one."""
        with self._lock:
            self._waiting += 1
            if self._waiting == 1:
                self._lent.enter_context(self._lend_slot())
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                if not self._waiting:
                    self._lent.close()

    def _wait(self, id_: str) -> dict[str, Any]:
        while True:
            try:
                return self._retry(lambda: self._calls.wait(id_, WAIT_SECONDS))
            except WaitTimeout:
                if self._ended.is_set():
                    # Another attempt would ask it again.
                    self._retry(lambda: self._calls.cancel_queued(self._claim.id))
                    raise

    def _retry(self, operation: Callable[[], T]) -> T:
        return retry_while_unavailable(operation, self._ended)
