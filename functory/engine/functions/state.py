"""State: a small key-value store for each function, shared by all its versions."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.schema import state
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, Invalid, VersionChanged
from functory.engine.events import causation
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.serialization import json_codec

MAX_BYTES = 65_536


class State:
    """Values by function and key. A write by an attempt that lost its lease is refused."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def row(self, function: str, key: str) -> dict[str, Any] | None:
        """Return the row of a value, with its size as JSON in ``bytes``; None without the key."""
        with self._database.read() as tx:
            row = tx.first(sa.select(state).where(state.c.function == function, state.c.key == key))
        return None if row is None else _sized(row)

    def get(self, function: str, key: str) -> tuple[Any, int] | None:
        """Return the value and its version; None without the key."""
        row = self.row(function, key)
        return None if row is None else (row["value"], row["version"])

    def list(self, function: str, *, after: str | None = None, limit: int = 50) -> list[dict[str, Any]]:
        """Return values of a function by their keys, as :meth:`row`: one more than ``limit`` when there are more."""
        statement = (
            sa.select(state).where(state.c.function == function).order_by(state.c.key).limit(limit + 1)
        )
        if after is not None:
            statement = statement.where(state.c.key > after)
        with self._database.read() as tx:
            return [_sized(row) for row in tx.rows(statement)]

    def set(
        self,
        function: str,
        key: str,
        value: Any,
        *,
        expected_version: int | None = None,
        author: str = "",
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
            before = None if cause is not None else self._digest(tx, function, key)
            version = self._write(tx, function, key, value, expected_version)
            if cause is None:
                # What functions themselves write is no change by an operator, and would fill the audit.
                data = {"version": version}
                after = audit.digest([value])
                audit.append(tx, author, "state.set", f"{function}/{key}", data, before=before, after=after)
        return version

    def delete(self, function: str, key: str, *, author: str = "", cause: Cause | None = None) -> bool:
        """Delete a key. False when it did not exist."""
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            before = None if cause is not None else self._digest(tx, function, key)
            statement = sa.delete(state).where(state.c.function == function, state.c.key == key)
            deleted = tx.execute(statement).rowcount > 0
            if deleted and cause is None:
                audit.append(tx, author, "state.delete", f"{function}/{key}", before=before)
        return deleted

    def _write(self, tx: Tx, function: str, key: str, value: Any, expected_version: int | None) -> int:
        place = sa.and_(state.c.function == function, state.c.key == key)
        row = tx.first(sa.select(state.c.version).where(place).with_for_update())
        version = row["version"] if row else 0
        if expected_version is not None and expected_version != version:
            raise VersionChanged(
                f"the state {key!r} was changed meanwhile",
                f"it is at version {version}, you expected {expected_version}",
                base=expected_version,
                current=version,
            )
        if row is None:
            new = {"function": function, "key": key, "value": value, "version": 1, "updated_at": tx.now}
            if tx.insert_missing(state, [new]):
                return 1
            if expected_version is not None:
                raise Conflict(f"the state {key!r} was changed meanwhile", "the key was created meanwhile")
        new_version = tx.scalar(
            sa.update(state)
            .where(place)
            .values(value=value, version=state.c.version + 1, updated_at=tx.now)
            .returning(state.c.version)
        )
        return int(new_version)

    def _digest(self, tx: Tx, function: str, key: str) -> str | None:
        """Return the hash of a value in a list, so that a stored null is not the same as no value."""
        row = tx.first(sa.select(state.c.value).where(state.c.function == function, state.c.key == key))
        return None if row is None else audit.digest([row["value"]])


def _sized(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"bytes": len(json_codec.encode(row["value"]))}
