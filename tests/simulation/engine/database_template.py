"""The database of a deck: its functions and triggers are saved once, and restored before each seed.

SQLite triggers on the engine's tables keep a journal: each state change, with the number of its transaction. The
journal holds no change that was rolled back, and it misses no committed change.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from functory.engine.database import schema
from functory.engine.database.clock import ManualClock
from functory.engine.firings.trigger_store import Triggers
from functory.engine.functions.registry import Functions
from functory.triggers import definition
from functory.triggers.routing.router import Router
from tests.simulation.engine.scenario import Deck
from tests.simulation.engine.world import START, SimulatedDatabase

JOURNAL = """
CREATE TABLE sim_journal (seq INTEGER PRIMARY KEY, tx INTEGER, what TEXT, id TEXT, a, b, c, d, e, f);
CREATE TRIGGER sim_execution_new AFTER INSERT ON execution BEGIN
    INSERT INTO sim_journal (tx, what, id, a, b, c, d, e, f)
    VALUES (sim_tx(), 'execution', NEW.id, NULL, NEW.state, 0, NEW.fence, 0, NEW.attempt);
END;
CREATE TRIGGER sim_execution AFTER UPDATE ON execution
WHEN OLD.state <> NEW.state OR OLD.fence <> NEW.fence OR OLD.attempt <> NEW.attempt BEGIN
    INSERT INTO sim_journal (tx, what, id, a, b, c, d, e, f)
    VALUES (sim_tx(), 'execution', NEW.id, OLD.state, NEW.state, OLD.fence, NEW.fence, OLD.attempt, NEW.attempt);
END;
CREATE TRIGGER sim_event_new AFTER INSERT ON event BEGIN
    INSERT INTO sim_journal (tx, what, id, a, b, c, d)
    VALUES (sim_tx(), 'event', NEW.id, NULL, NEW.state, NEW.type, CASE NEW.state WHEN 'routed' THEN
        (SELECT group_concat(name || ' ' || state || ' ' || version, ',') FROM trigger
        WHERE state <> 'deleted') END);
END;
CREATE TRIGGER sim_event AFTER UPDATE OF state ON event WHEN OLD.state <> NEW.state BEGIN
    INSERT INTO sim_journal (tx, what, id, a, b, c, d)
    VALUES (sim_tx(), 'event', NEW.id, OLD.state, NEW.state, NEW.type,
        (SELECT group_concat(name || ' ' || state || ' ' || version, ',') FROM trigger
        WHERE state <> 'deleted'));
END;
"""

# Changes the tables for a mutant before the journal is attached.
Alter = Callable[[Any], None]


@functools.cache
def _schema() -> list[str]:
    """The statements that create the tables. They are computed once, because that takes as long as two seeds."""
    database = SimulatedDatabase()
    with database.connection(write=True) as connection, connection.begin():
        schema.metadata.create_all(connection)
    made = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC, rowid"
    return [statement for (statement,) in database.raw.execute(made).fetchall()]


class Template:
    """A deck's database, which :meth:`reset` restores for the next seed."""

    def __init__(self, deck: Deck, alter: Alter | None = None, *, usual: bool = False) -> None:
        self.deck = deck
        self.database = database = SimulatedDatabase(usual=usual)
        database.clock = ManualClock(START)
        numbers = itertools.count(1)
        # These ids sort before all ids of a run, and are the same in every process.
        database.new_id = lambda: f"01000000-0000-7000-8000-{next(numbers):012x}"
        raw = self.database.raw
        for statement in _schema():
            raw.execute(statement)
        if alter is not None:
            alter(raw)
        self._save()
        # Rows that refer to others are deleted before them and restored after them. With foreign keys turned off for
        # a time, SQLite would prepare every statement anew.
        order = [table.name for table in schema.metadata.sorted_tables]
        kept = [table for table in order if raw.execute(f"SELECT 1 FROM {table}").fetchone()]
        for table in kept:
            raw.execute(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")
        raw.executescript(JOURNAL)
        self._kept = kept
        self._reset = [f"DELETE FROM {table}" for table in reversed(order)]

    def _save(self) -> None:
        database, deck = self.database, self.deck
        functions, triggers = Functions(database, settings=deck.settings), Triggers(database)
        for name, behaviour in sorted(
            deck.behaviours.items(), key=lambda item: item[1].compensate is not None
        ):
            more: dict[str, Any] = {"compensate": behaviour.compensate} if behaviour.compensate else {}
            functions.save(
                f"def {name}(*given, **named):\n    return None\n", limits=dict(behaviour.limits), **more
            )
        for name, rule in deck.rules.items():
            triggers.save(
                name,
                definition.define(
                    on=rule.on(), function=rule.function, guards=rule.guards or None, flow=rule.flow or None
                ),
            )
        router = Router(database, deck.settings)
        while router.route_batch().events:
            pass
        with database.read() as tx:
            router._triggers.refresh(tx)
        deck.triggers = router._triggers
        with database.write() as tx:
            tx.execute(schema.outbox.delete())

    def reset(self) -> SimulatedDatabase:
        """Restore the database to its first state."""
        database, raw = self.database, self.database.raw
        database.world = None
        raw.execute("BEGIN")
        for statement in self._reset:
            raw.execute(statement)
        for table in self._kept:
            raw.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")
        raw.execute("DELETE FROM sim_journal")
        raw.execute("COMMIT")
        return database
