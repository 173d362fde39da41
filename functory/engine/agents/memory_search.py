"""Search in memories: by the words of a query, by its vector, and by importance and age. Bounded, and deterministic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.agents import embeddings, ranking, vectors
from functory.engine.agents.memory_fields import Place
from functory.engine.database.schema import memory
from functory.engine.database.transaction import Tx

# What a search reads, newest first: a few owners' memories of the usual length, in about a second.
MAX_TEXTS, MAX_CHARACTERS = 30_000, 16_000_000
PAGE = 1_000
# The results of each way that are ranked together.
DEPTH = 100


def alive(now: datetime) -> sa.ColumnElement[bool]:
    """Return the condition that a memory's time is not over."""
    return sa.or_(memory.c.expires_at.is_(None), memory.c.expires_at > now)


def within(places: Sequence[Place]) -> sa.ColumnElement[bool]:
    """Return the condition that a memory is in one of the places."""
    found = [sa.and_(memory.c.scope == one.scope, memory.c.owner == one.owner) for one in places]
    return sa.or_(sa.false(), *found)


def search(
    tx: Tx,
    query: str,
    k: int,
    conditions: Sequence[sa.ColumnElement[bool]],
    vector: tuple[str, bytes] | None,
) -> list[dict[str, Any]]:
    """Return the ``k`` best memories that meet the conditions, with their ``score``, best first."""
    wanted = (alive(tx.now), *conditions)
    rankings = [ranking.by_words(query, _texts(tx, wanted))[:DEPTH]]
    if vector is not None:
        model, meaning = vector
        rankings.append(vectors.nearest(meaning, embeddings.batches(tx, "memory", model, *wanted), DEPTH))
    fused = ranking.fused(*rankings)
    rows = {
        row["id"]: row for row in tx.rows(sa.select(memory).where(memory.c.id.in_([id_ for id_, _ in fused])))
    }
    facts = {id_: (row["importance"], row["created_at"]) for id_, row in rows.items()}
    best = ranking.weighted(fused, facts, tx.now)[:k]
    return [rows[id_] | {"score": round(score, 6)} for id_, score in best]


def _texts(tx: Tx, wanted: Sequence[sa.ColumnElement[bool]]) -> Iterator[tuple[str, str]]:
    statement = sa.select(memory.c.id, memory.c.text).where(*wanted).order_by(memory.c.id.desc()).limit(PAGE)
    texts = characters = 0
    last: str | None = None
    while texts < MAX_TEXTS and characters < MAX_CHARACTERS:
        page = statement if last is None else statement.where(memory.c.id < last)
        found = [(row["id"], row["text"]) for row in tx.rows(page)]
        yield from found
        if len(found) < PAGE:
            return
        last = found[-1][0]
        texts, characters = texts + len(found), characters + sum(len(text) for _, text in found)
