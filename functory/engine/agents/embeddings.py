"""Rows of embeddings: vectors of memories and functions by model, and the calls that make them.

A vector is made by an ordinary call of the gateway, which holds the texts until it has ended. Then the vectors are
stored and the texts of the call are deleted: the memory itself is their only place.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.agents import calls, vectors
from functory.engine.agents.call_listing import ENDED
from functory.engine.database.schema import embedding, function, llm_call, llm_content, memory
from functory.engine.database.transaction import Tx

# Vectors that are compared at a time.
BATCH = 1_000
# Calls that one round looks at.
PAGE = 100


def in_order(texts: Mapping[str, str]) -> list[str]:
    """Return the owners of texts in the order in which a call has them, which is not stored anywhere else."""
    return sorted(texts)


def reserve(tx: Tx, kind: str, model: str, call_id: str, hashes: Mapping[str, str]) -> None:
    """Note that a call makes vectors: those of the owners in ``hashes``, which has the hashes of their texts."""
    mine = embedding.c.kind == kind, embedding.c.model == model, embedding.c.owner_id.in_(list(hashes))
    tx.execute(sa.delete(embedding).where(*mine))
    rows = [
        {
            "kind": kind,
            "owner_id": owner,
            "model": model,
            "text_sha256": sha256,
            "call_id": call_id,
            "dim": None,
            "vector": None,
        }
        for owner, sha256 in hashes.items()
    ]
    tx.execute(sa.insert(embedding), rows)


def ended_calls(tx: Tx) -> list[dict[str, Any]]:
    """Return the calls for vectors that have ended and whose vectors are not stored yet."""
    waiting = sa.select(embedding.c.call_id).where(embedding.c.call_id.is_not(None)).distinct()
    statement = sa.select(llm_call).where(llm_call.c.id.in_(waiting), llm_call.c.state.in_(ENDED))
    return tx.rows(statement.order_by(llm_call.c.id).limit(PAGE))


def open_calls(tx: Tx) -> int:
    """Return how many calls for vectors have not ended."""
    waiting = sa.select(embedding.c.call_id).where(embedding.c.call_id.is_not(None)).distinct()
    statement = sa.select(sa.func.count()).select_from(llm_call)
    return int(tx.scalar(statement.where(llm_call.c.id.in_(waiting), llm_call.c.state.not_in(ENDED))) or 0)


def store(tx: Tx, call: Mapping[str, Any]) -> int:
    """Store the vectors of an ended call. Returns their number.

    An owner that was deleted meanwhile gets none. After a failure nothing is stored: the texts are without vectors
    again.
    """
    of_call = embedding.c.call_id == call["id"]
    owners = {row["owner_id"]: row["kind"] for row in tx.rows(sa.select(embedding).where(of_call))}
    found = (call["response"] or {}).get("vectors", []) if call["state"] == "succeeded" else []
    there, stored = _existing(tx, owners), 0
    if len(found) == len(owners):
        for owner, encoded in zip(in_order(owners), found, strict=True):
            if owner in there:
                vector = vectors.unit(base64.b64decode(encoded))
                values = {"vector": vector, "dim": vectors.dimensions(vector), "call_id": None}
                tx.execute(sa.update(embedding).where(of_call, embedding.c.owner_id == owner).values(values))
                stored += 1
    tx.execute(sa.delete(embedding).where(of_call))
    empty_call(tx, call)
    return stored


def _existing(tx: Tx, owners: Mapping[str, str]) -> set[str]:
    """Return those of the owners (ids, with their kinds) that are not deleted."""
    statements = (
        sa.select(memory.c.id).where(
            memory.c.id.in_([id_ for id_, kind in owners.items() if kind == "memory"])
        ),
        sa.select(function.c.id).where(
            function.c.id.in_([id_ for id_, kind in owners.items() if kind == "function"]),
            function.c.state != "deleted",
        ),
    )
    return {id_ for statement in statements for id_ in tx.execute(statement).scalars()}


def empty_call(tx: Tx, call: Mapping[str, Any]) -> None:
    """Delete the texts and the answer of an ended call for vectors. What it has cost stays."""
    texts = {"request": sa.null(), "response": sa.null(), "repair": sa.null()}
    tx.execute(sa.update(llm_call).where(llm_call.c.id == call["id"]).values(texts))
    # Its tree is its own: it shares no content with other calls.
    tx.execute(sa.delete(llm_content).where(llm_content.c.root_id == call["root_id"]))


def forget(tx: Tx, kind: str, owners: Sequence[str]) -> None:
    """Delete the vectors of owners that are deleted, and their texts in calls that have not been sent or have ended.

    A call that is on its way keeps its texts until it has ended.
    """
    mine = sa.and_(embedding.c.kind == kind, embedding.c.owner_id.in_(owners))
    ids = list(
        tx.execute(sa.select(embedding.c.call_id).where(mine, embedding.c.call_id.is_not(None))).scalars()
    )
    tx.execute(sa.delete(embedding).where(mine, embedding.c.call_id.is_(None)))
    if not ids:
        return
    calls.cancel_queued(tx, llm_call.c.id.in_(ids))
    for call in tx.rows(sa.select(llm_call).where(llm_call.c.id.in_(ids), llm_call.c.state.in_(ENDED))):
        # Other texts of the call are without vectors again.
        tx.execute(sa.delete(embedding).where(embedding.c.call_id == call["id"]))
        empty_call(tx, call)


def batches(
    tx: Tx, kind: str, model: str, *conditions: sa.ColumnElement[bool]
) -> Iterator[list[tuple[str, bytes]]]:
    """Yield the owners and vectors of a kind and a model, some at a time. ``conditions`` may be about memories."""
    statement = (
        sa.select(embedding.c.owner_id, embedding.c.vector)
        .where(
            embedding.c.kind == kind,
            embedding.c.model == model,
            embedding.c.vector.is_not(None),
            *conditions,
        )
        .order_by(embedding.c.owner_id)
        .limit(BATCH)
    )
    if kind == "memory":
        statement = statement.join(memory, memory.c.id == embedding.c.owner_id)
    last: str | None = None
    while True:
        page = statement if last is None else statement.where(embedding.c.owner_id > last)
        found = [(row["owner_id"], row["vector"]) for row in tx.rows(page)]
        if not found:
            return
        yield found
        last = found[-1][0]


def exist(tx: Tx, kind: str, model: str) -> bool:
    """Return True if there is a vector of this kind and model."""
    of_kind = embedding.c.kind == kind, embedding.c.model == model, embedding.c.vector.is_not(None)
    return tx.scalar(sa.select(embedding.c.dim).where(*of_kind).limit(1)) is not None
