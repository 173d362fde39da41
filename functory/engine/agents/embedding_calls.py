"""Calls for embeddings: of what is searched for, and of all memories and functions that have no vector yet.

They are ordinary calls of the model in the setting ``embedding_model``. Those of memories and functions have trees of
their own, so no run pays for what another one has stored; the limits of the day hold for them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.agents import calls, embeddings, models, redaction, requests, tool_texts, vectors
from functory.engine.agents.calls import Caller, Calls
from functory.engine.agents.requests import Request
from functory.engine.database import counters
from functory.engine.database.clock import lowest_id
from functory.engine.database.connection import Database
from functory.engine.database.schema import embedding, llm_call, memory
from functory.engine.database.transaction import Tx
from functory.engine.errors import FunctoryError, WaitTimeout
from functory.engine.settings import Settings

# Texts of one call: providers take more, but a failed call is made anew as a whole.
BATCH = 64
# Characters of one call: within the context of the usual models, whatever the script.
MAX_CHARACTERS = 100_000
# A search waits no longer than this for the vector of its query; then the words alone decide.
QUERY_SECONDS = 10.0
# Memories are written by transactions that end within this time; older ones are looked at once.
SETTLED = timedelta(minutes=10)


class EmbeddingCalls:
    """Makes embeddings for one process."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._calls = Calls(database, settings)
        self._redact = redaction.redaction(settings.llm_redact)
        self._after: str | None = None
        self._functions_seen: tuple[str, int] | None = None

    def model_of(self, kind: str) -> str | None:
        """Return the model that a query must be asked of: None when none is set, or no vectors of it exist."""
        name = self._settings.embedding_model
        if name is None:
            return None
        with self._database.read() as tx:
            return name if _usable(tx, name) is not None and embeddings.exist(tx, kind, name) else None

    def of_query(self, kind: str, query: str) -> tuple[str, bytes] | None:
        """Return the model's name and the vector of what a person searches for; None without an answer in time."""
        name = self.model_of(kind)
        if name is None:
            return None
        try:
            caller = Caller(self._calls.new_root(), "")
            asked = self._calls.ask(query_request(name, query), caller, number=1, nth=1)
        except FunctoryError:
            return None
        try:
            row = self._calls.wait(asked["id"], QUERY_SECONDS)
        except WaitTimeout:
            self.cancel(asked["id"])
            return None
        vector = vector_of(row)
        return None if vector is None else (name, vector)

    def cancel(self, call_id: str) -> None:
        """Cancel a call whose answer came too late, if it is not sent yet."""
        with self._database.write() as tx:
            calls.cancel_queued(tx, llm_call.c.id == call_id)

    def store_ended(self) -> tuple[int, int]:
        """Store the vectors of calls that have ended. Returns how many calls gave vectors, and how many failed."""
        with self._database.read() as tx:
            if not embeddings.ended_calls(tx):
                return 0, 0
        with self._database.write() as tx:
            ended = embeddings.ended_calls(tx)
            good = sum(embeddings.store(tx, call) > 0 for call in ended)
        if good < len(ended):
            self.look_at_all()
        return good, len(ended) - good

    def open_calls(self) -> int:
        """Return how many calls for vectors have not ended."""
        with self._database.read() as tx:
            return embeddings.open_calls(tx)

    def look_at_all(self) -> None:
        """Look for texts without vectors among all of them the next time, and not among new ones alone."""
        self._after, self._functions_seen = None, None

    def queue_missing(self) -> int:
        """Queue a call for memories, and one for functions, that have no vector. Returns the number of texts."""
        name = self._settings.embedding_model
        if name is None:
            return 0
        with self._database.read() as tx:
            if not any(self._missing(tx, name).values()):
                return 0
        with self._database.write() as tx:
            # Two processes must not pay for the same vectors: the second one finds the calls of the first.
            counters.bump(tx, counters.EMBEDDINGS)
            missing = self._missing(tx, name)
            for kind, texts in missing.items():
                if texts:
                    self._queue(tx, kind, name, texts)
        return sum(map(len, missing.values()))

    def _missing(self, tx: Tx, name: str) -> dict[str, dict[str, str]]:
        dimensions = _usable(tx, name)
        if dimensions is None:
            return {}
        memories = _missing_memories(tx, name, dimensions, self._after)
        if not memories:
            self._after = lowest_id(tx.now - SETTLED)
        changes, functions = (name, counters.read(tx, counters.FUNCTIONS)), dict[str, str]()
        if self._functions_seen != changes:
            functions = _missing_functions(tx, name, dimensions)
            if not functions:
                self._functions_seen = changes
        return {"memory": memories, "function": functions}

    def _queue(self, tx: Tx, kind: str, name: str, texts: Mapping[str, str]) -> None:
        order = embeddings.in_order(texts)
        request = requests.embed({"texts": [texts[owner] for owner in order], "model": name})
        caller = Caller(tx.new_id(), "")
        call = calls.queue(tx, request, caller, self._settings, self._redact, number=1)
        hashes = {owner: tool_texts.sha256(text) for owner, text in texts.items()}
        embeddings.reserve(tx, kind, name, call["id"], hashes)


def query_request(model: str, query: str) -> Request:
    """Return the request for the vector of a query."""
    return requests.embed({"texts": [query], "model": model})


def vector_of(row: Mapping[str, Any]) -> bytes | None:
    """Return the vector of an ended call of one text; None without one."""
    found = (row["response"] or {}).get("vectors") if row["state"] == "succeeded" else None
    return None if not found else vectors.unit(base64.b64decode(found[0]))


def _usable(tx: Tx, name: str) -> int | None:
    """Return the dimensions of a model that makes embeddings now; None for every other one."""
    row = models.load_all(tx).get(name)
    return None if row is None or row["state"] != "enabled" else row["capabilities"]["dimensions"]


def _missing_memories(tx: Tx, model: str, dimensions: int, after: str | None) -> dict[str, str]:
    """Return the texts of memories that have no vector, and no call for one, by their ids."""
    has = sa.exists().where(
        embedding.c.kind == "memory",
        embedding.c.owner_id == memory.c.id,
        embedding.c.model == model,
        sa.or_(embedding.c.call_id.is_not(None), embedding.c.dim == dimensions),
    )
    statement = sa.select(memory.c.id, memory.c.text).where(~has).order_by(memory.c.id).limit(BATCH)
    if after is not None:
        statement = statement.where(memory.c.id > after)
    return _fitting(tx.pairs(statement))


def _missing_functions(tx: Tx, model: str, dimensions: int) -> dict[str, str]:
    """Return the texts of functions that have no vector of their present text, by the functions' ids."""
    known = {
        row["owner_id"]: row
        for row in tx.rows(
            sa.select(
                embedding.c.owner_id, embedding.c.text_sha256, embedding.c.call_id, embedding.c.dim
            ).where(embedding.c.kind == "function", embedding.c.model == model)
        )
    }
    missing = {}
    for one in tool_texts.load(tx, None):
        row = known.get(one.id)
        is_stored = row is not None and row["dim"] == dimensions and row["text_sha256"] == one.sha256
        if not is_stored and (row is None or row["call_id"] is None):
            missing[one.id] = one.text
    return _fitting(missing)


def _fitting(texts: Mapping[str, str]) -> dict[str, str]:
    """Return those texts of which one call is made."""
    found: dict[str, str] = {}
    size = 0
    for owner, text in list(texts.items())[:BATCH]:
        size += len(text)
        if found and size > MAX_CHARACTERS:
            break
        found[owner] = text
    return found
