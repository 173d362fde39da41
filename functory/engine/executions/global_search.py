"""Search for one text everywhere: ids by their beginning, and names by a part of them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database.connection import Database
from functory.engine.database.schema import function, model, source, trigger
from functory.engine.database.transaction import Tx
from functory.engine.executions import id_lookup

MAX_RESULTS = 20
_ID_KINDS: tuple[id_lookup.Kind, ...] = (
    "execution",
    "event",
    "trigger",
    "version",
    "call",
    "approval",
    "proposal",
)


def search(database: Database, text: str, scope: Scope = None) -> list[dict[str, Any]]:
    """Return up to 20 rows with ``kind``, ``id``, ``name`` and ``time``: names that begin so, other names, then ids.

    ``id`` and ``time`` are None where the name is the key. Someone with a scope finds neither sources nor
    models.
    """
    text = text.strip()
    if not text:
        return []
    with database.read() as tx:
        names = [
            *_names(tx, "function", function, text, scopes.functions(scope)),
            *_names(tx, "trigger", trigger, text, scopes.triggers(scope)),
            *(_names(tx, "source", source, text, ()) if scope is None else ()),
            *(_names(tx, "model", model, text, ()) if scope is None else ()),
        ]
        ids = id_lookup.candidates(tx, text, _ID_KINDS, scope, MAX_RESULTS)
    lower = text.lower()
    names.sort(key=lambda row: (not row["name"].lower().startswith(lower), len(row["name"]), row["name"]))
    found = [*names, *({"kind": i.kind, "id": i.id, "name": i.name, "time": i.time} for i in ids)]
    # A short word is also the beginning of ids; the names must not push a whole id out.
    if len(found) > MAX_RESULTS:
        found = [*found[: max(MAX_RESULTS - len(ids), MAX_RESULTS // 2)], *found[len(names) :]][:MAX_RESULTS]
    return found


def _names(
    tx: Tx, kind: str, table: sa.Table, text: str, visible: tuple[sa.ColumnElement[bool], ...]
) -> list[dict[str, Any]]:
    kinds = (table.c.kind,) if kind == "source" else ()
    statement = (
        sa.select(table.c.name, *kinds)
        .where(table.c.state != "deleted", table.c.name.icontains(text, autoescape=True), *visible)
        .order_by(table.c.name)
        .limit(MAX_RESULTS * 5)
    )
    return [
        {"kind": row.get("kind", kind), "id": None, "name": row["name"], "time": None}
        for row in tx.rows(statement)
    ]
