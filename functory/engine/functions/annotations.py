"""Annotations: what is known about a function besides its versions, such as its description for models and people.

An annotation changes without a new version: the content that an operator has granted rights to stays the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database import audit, counters
from functory.engine.database.connection import Database
from functory.engine.database.schema import annotation, embedding, function
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid
from functory.engine.events import causation
from functory.engine.events.causation import Cause
from functory.engine.functions import function_events, versions

DESCRIPTION = "description"
# What a model gets of it (functory.engine.agents.tools).
MAX_DESCRIPTION = 1_024


class Annotations:
    """The annotations of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(
        self, name: str, text: str, *, author: str = "", cause: Cause | None = None
    ) -> dict[str, Any] | None:
        """Say what a function does, for models that choose tools and for people. An empty text removes the description;
        then that of the active version is shown. Returns the row. Raises :class:`NotFound`, :class:`Invalid`.
        """
        if not isinstance(text, str) or len(text) > MAX_DESCRIPTION:
            raise Invalid("wrong description", f"it must be a text of at most {MAX_DESCRIPTION:,} characters")
        text = text.strip()
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            # Readers of functions know by it that something has changed.
            counters.bump(tx, counters.FUNCTIONS)
            known = tx.scalar(
                sa.select(function.c.id).where(function.c.name == name, function.c.state != "deleted")
            )
            if known is None:
                raise versions.missing_error(tx, name, None)
            before = load(tx, [name]).get(name)
            if text == (before["value"] if before else ""):
                return before
            row = _store(tx, name, text, author, cause)
            data = {"function": name, "key": DESCRIPTION, "author": author, "removed": row is None}
            function_events.append_event(tx, "function.described", name, data, cause)
            audit.append(
                tx,
                author,
                "function.describe",
                name,
                {} if cause is None else {"execution": cause.execution_id},
                before=audit.digest(before["value"] if before else None),
                after=audit.digest(text or None),
            )
            return row

    def get(self, name: str) -> dict[str, Any] | None:
        """Return the description of a function: ``value``, ``author``, ``source_execution_id`` and ``at``."""
        with self._database.read() as tx:
            return load(tx, [name]).get(name)


def load(tx: Tx, names: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the descriptions of functions, by name."""
    found: dict[str, dict[str, Any]] = {}
    wanted = sorted(names)
    for start in range(0, len(wanted), 500):
        of = annotation.c.key == DESCRIPTION, annotation.c.function.in_(wanted[start : start + 500])
        found.update((row["function"], row) for row in tx.rows(sa.select(annotation).where(*of)))
    return found


def description_of(tx: Tx, name: str) -> str | None:
    """Return the description of a function; None without one."""
    return (load(tx, [name]).get(name) or {}).get("value")


def delete_of(tx: Tx, row: Mapping[str, Any]) -> None:
    """Delete the annotations and vectors of a function that is deleted: another one of the same name begins without."""
    tx.execute(sa.delete(annotation).where(annotation.c.function == row["name"]))
    tx.execute(sa.delete(embedding).where(embedding.c.kind == "function", embedding.c.owner_id == row["id"]))


def _store(tx: Tx, name: str, text: str, author: str, cause: Cause | None) -> dict[str, Any] | None:
    mine = annotation.c.function == name, annotation.c.key == DESCRIPTION
    tx.execute(sa.delete(annotation).where(*mine))
    if not text:
        return None
    row = {
        "function": name,
        "key": DESCRIPTION,
        "value": text,
        "author": author,
        "source_execution_id": None if cause is None else cause.execution_id,
        "at": tx.now,
    }
    tx.insert(annotation, [row])
    return row
