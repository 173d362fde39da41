"""Labels of functions and triggers, by which :mod:`functory.engine.access.scopes` decides who sees them."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database import audit, counters
from functory.engine.database.connection import Database
from functory.engine.database.schema import function, trigger
from functory.engine.database.transaction import Tx
from functory.engine.errors import NotFound, Refused


class Labels:
    """Adds and removes labels; each change is in the audit."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def function(
        self,
        name: str,
        add: Iterable[str] = (),
        remove: Iterable[str] = (),
        *,
        author: str = "",
        scope: Scope = None,
    ) -> list[str]:
        """Change the labels of a function. Returns all it has then. A caller with a ``scope`` gives and takes only
        labels of its own. Raises :class:`NotFound`, :class:`Invalid`, :class:`Refused`.
        """
        with self._database.write() as tx:
            # Another change of this function waits for the same lock.
            counters.bump(tx, counters.FUNCTIONS)
            return _change(tx, function, name, (add, remove), scopes.functions(scope), scope, author)

    def trigger(
        self,
        name: str,
        add: Iterable[str] = (),
        remove: Iterable[str] = (),
        *,
        author: str = "",
        scope: Scope = None,
    ) -> list[str]:
        """Change the labels of a trigger, as :meth:`function` does."""
        with self._database.write() as tx:
            return _change(tx, trigger, name, (add, remove), scopes.triggers(scope), scope, author)


def _change(
    tx: Tx,
    table: sa.Table,
    name: str,
    change: tuple[Iterable[str], Iterable[str]],
    seen: scopes.Conditions,
    scope: Scope,
    author: str,
) -> list[str]:
    statement = sa.select(table.c.id, table.c.labels).where(
        table.c.name == name, table.c.state != "deleted", *seen
    )
    found = tx.first(statement.with_for_update())
    if found is None:
        raise NotFound(f"{table.name} {name!r} not found", try_=f"functory {table.name} list")
    add, remove = (scopes.check_labels(labels) for labels in change)
    foreign = set() if scope is None else {*add, *remove} - set(scope)
    if foreign:
        raise Refused(
            f"the label {min(foreign)} is not yours", f"yours are {', '.join(scope or ()) or 'none'}"
        )
    before: list[str] = found["labels"]
    after = scopes.check_labels({*before, *add} - set(remove))
    if scope is not None and not set(after) & set(scope):
        raise Refused(f"{name} would have none of your labels", "you would not see it any more")
    if after != sorted(before):
        # The time of the last change stays: each of those has an event, labels have an entry in the audit.
        tx.execute(sa.update(table).where(table.c.id == found["id"]).values(labels=after))
        audit.append(
            tx,
            author,
            f"{table.name}.label",
            name,
            {"before": before, "after": after},
            before=audit.digest(before),
            after=audit.digest(after),
        )
    return after
