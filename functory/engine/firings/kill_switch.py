"""The kill switch: an operator stops a part of the engine, and nothing is lost meanwhile.

``triggers`` halts routing: events stay pending and are routed when the switch is released. Functions that are started
by hand still run. Who reads it asks :mod:`functory.engine.events.kill_switch`.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.schema import switch
from functory.engine.errors import Invalid
from functory.engine.events.kill_switch import TRIGGERS

KNOWN = (TRIGGERS,)


class Switches:
    """Throws, releases and lists switches."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def throw(self, name: str, *, note: str = "", author: str = "") -> None:
        """Throw a switch. Raises :class:`Invalid` for an unknown one."""
        _check(name)
        with self._database.write() as tx:
            tx.insert_missing(
                switch, [{"name": name, "note": note or None, "author": author, "time": tx.now}]
            )
            audit.append(tx, author, "switch.throw", name, {"note": note}, after=audit.digest({"note": note}))

    def release(self, name: str, *, author: str = "") -> None:
        """Release a switch; pending events are routed at once."""
        _check(name)
        with self._database.write() as tx:
            note = tx.scalar(sa.select(switch.c.note).where(switch.c.name == name))
            tx.execute(sa.delete(switch).where(switch.c.name == name))
            audit.append(tx, author, "switch.release", name, before=audit.digest({"note": note or ""}))
            tx.wake("events")

    def list(self) -> list[dict[str, Any]]:
        """Return the rows of the thrown switches."""
        with self._database.read() as tx:
            return tx.rows(sa.select(switch).order_by(switch.c.name))


def _check(name: str) -> None:
    if name not in KNOWN:
        raise Invalid(f"unknown switch {name!r}", "the switches are " + ", ".join(KNOWN))
