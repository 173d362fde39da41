"""Pages of the audit log, newest first, with filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database import id_pages
from functory.engine.database.clock import lowest_id
from functory.engine.database.connection import Database
from functory.engine.database.id_pages import Way
from functory.engine.database.schema import audit


@dataclass(frozen=True)
class AuditFilter:
    """Which entries a list has. Of several values of a field, one has to fit. ``action`` may end with ``.*``."""

    authors: Sequence[str] = ()
    actions: Sequence[str] = ()
    subject: str | None = None
    refused: bool | None = None
    since: datetime | None = None
    until: datetime | None = None


def page(
    database: Database, wanted: AuditFilter, *, before: str | None = None, limit: int = 50
) -> tuple[list[dict[str, Any]], str | None]:
    """Return entries, newest first, and the key of the next page. A page looks at a bounded number of entries."""
    within: list[sa.ColumnElement[bool]] = []
    if wanted.since is not None:
        within.append(audit.c.id >= lowest_id(wanted.since))
    if wanted.until is not None:
        within.append(audit.c.id < lowest_id(wanted.until))
    with database.read() as tx:
        found = id_pages.find(
            tx, audit.c.id, [Way(audit.c.id, within)], _tested(wanted), before=before, limit=limit
        )
        rows = {row["id"]: row for row in tx.rows(sa.select(audit).where(audit.c.id.in_(found.ids)))}
    return [rows[id_] for id_ in found.ids if id_ in rows], found.next


def _tested(wanted: AuditFilter) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    if wanted.authors:
        found.append(audit.c.author.in_(list(wanted.authors)))
    if wanted.actions:
        found.append(sa.or_(*(_action(one) for one in wanted.actions)))
    if wanted.subject is not None:
        found.append(audit.c.subject == wanted.subject)
    if wanted.refused is not None:
        found.append(audit.c.refused.is_(wanted.refused))
    return found


def _action(name: str) -> sa.ColumnElement[bool]:
    if name.endswith(".*"):
        return audit.c.action.startswith(name[:-1], autoescape=True)
    return audit.c.action == name
