"""State: a small key-value store for each function, shared by all its versions."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import state
from functory.engine.errors import Conflict, Invalid
from functory.engine.events import causation
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.serialization import json_codec

MAX_BYTES = 65_536


class State:
    """Values by function and key. A write by an attempt that lost its lease is refused."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, function: str, key: str) -> tuple[Any, int] | None:
        """Return the value and its version; None without the key."""
        with self._database.read() as tx:
            row = tx.first(sa.select(state).where(state.c.function == function, state.c.key == key))
        return None if row is None else (row["value"], row["version"])

    def set(
        self,
        function: str,
        key: str,
        value: Any,
        *,
        expected_version: int | None = None,
        cause: Cause | None = None,
    ) -> int:
        """Store a JSON value of at most 64 KiB. Returns its version.

        ``expected_version`` (0: must not exist) gives compare-and-set; raises :class:`Conflict`.
        """
        if key is None:
            raise Invalid("wrong state key", "a key must be a string of 1 to 255 characters")
        event_store.check_key(key, "state key")
        value = json_codec.from_python(value, f"state value {key!r}")
        event_store.check_data(value, MAX_BYTES, f"state value {key!r}")
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            place = sa.and_(state.c.function == function, state.c.key == key)
            statement = sa.select(state.c.version).where(place)
            row = tx.first(statement.with_for_update())
            version = row["version"] if row else 0
            if expected_version is not None and expected_version != version:
                raise Conflict(
                    f"the state {key!r} was changed meanwhile",
                    f"it is at version {version}, you expected {expected_version}",
                )
            if row is None:
                new = {"function": function, "key": key, "value": value, "version": 1, "updated_at": tx.now}
                if tx.insert_new(state, new):
                    return 1
                if expected_version is not None:
                    raise Conflict(
                        f"the state {key!r} was changed meanwhile", "the key was created meanwhile"
                    )
            new_version = tx.scalar(
                sa.update(state)
                .where(place)
                .values(value=value, version=state.c.version + 1, updated_at=tx.now)
                .returning(state.c.version)
            )
        return int(new_version)

    def delete(self, function: str, key: str, *, cause: Cause | None = None) -> bool:
        """Delete a key. False when it did not exist."""
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            return (
                tx.execute(sa.delete(state).where(state.c.function == function, state.c.key == key)).rowcount
                > 0
            )
