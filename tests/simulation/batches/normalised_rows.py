"""All rows of a database as texts that do not depend on the batch size.

- An id becomes a name by what caused it: an event by its type, its data and the execution that emitted it, an
  execution by its trigger and event, or by its parent. Rows with the same name are numbered in the order of their ids.
- A time is seconds after the start of the clock.
- Rows of a table are in the order of their texts.

What may depend on the batch size is named below, each with its reason.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.database.packed_ids import unpack
from functory.engine.firings import failures
from tests.support.world import World

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}")
# Where the clock of a scenario starts.
START = datetime(2026, 1, 1, tzinfo=UTC)
Rows = dict[str, list[dict[str, Any]]]

# What may differ, by (table, column), with the reason.
LEFT_OUT: Mapping[tuple[str, str], str] = {
    (
        "trigger_failure",
        "unreported",
    ): "an event reports all failures of its batch; later ones wait for the next",
}
# An event about failed matches speaks of the last one in its batch, and has the place of that one in the causal tree.
# When it is sent, and its reason, must agree.
OF_THE_LAST_FAILURE = ("root_id", "cause_execution_id", "depth", "chain")
DATA_OF_THE_LAST_FAILURE = ("event_id", "error", "count")


def read(world: World, published: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """All rows by table, and what was published as the table ``published``."""
    rows = _all_rows(world)
    names = _Names(rows)
    found: dict[str, list[str]] = {}
    for table, listed in rows.items():
        found[table] = sorted(names.text(_comparable(table, row)) for row in listed)
    # Published at least once: how often is no part of the promise.
    found["published"] = sorted({names.text(_comparable("event", row)) for row in published})
    return found


def _comparable(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a row that may not depend on the batch size."""
    kept = {column: value for column, value in row.items() if (table, column) not in LEFT_OUT}
    if table == "event" and row["type"] == failures.EVENT_TYPE:
        kept = {column: value for column, value in kept.items() if column not in OF_THE_LAST_FAILURE}
        kept["data"] = {key: kept["data"][key] for key in kept["data"] if key not in DATA_OF_THE_LAST_FAILURE}
    return kept


def differences(one: Mapping[str, Sequence[str]], other: Mapping[str, Sequence[str]]) -> str:
    """What differs between two states: a line for each row that only one has, and for each value. Empty when nothing
    does."""
    lines: list[str] = []
    for table in sorted(one.keys() | other.keys()):
        here, there = Counter(one.get(table, [])), Counter(other.get(table, []))
        left, right = (
            _by_key(table, (here - there).elements()),
            _by_key(table, (there - here).elements()),
        )
        for key in sorted(left.keys() | right.keys()):
            lines += _row_differences(f"{table} {key}", left.get(key), right.get(key))
    return "\n".join(lines)


def _by_key(table: str, rows: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The rows of these texts by their primary key, and by a number where several have the same."""
    columns = [c.name for c in schema.metadata.tables[table].primary_key] if table != "published" else ["id"]
    found: dict[str, dict[str, Any]] = {}
    used: Counter[str] = Counter()
    for text in sorted(rows):
        row = json.loads(text)
        key = " ".join(str(row.get(name)) for name in columns)
        used[key] += 1
        found[f"{key} #{used[key]}"] = row
    return found


def _row_differences(
    name: str, left: Mapping[str, Any] | None, right: Mapping[str, Any] | None
) -> Iterator[str]:
    if left is None or right is None:
        yield f"{'+' if left is None else '-'} {name}: {json.dumps(left or right)}"
        return
    for column in sorted(left.keys() | right.keys()):
        if left.get(column) != right.get(column):
            yield f"  {name}, {column}: {left.get(column)!r} → {right.get(column)!r}"


def _all_rows(world: World) -> Rows:
    with world.database.read() as tx:
        found = {table.name: tx.rows(sa.select(table)) for table in schema.metadata.sorted_tables}
    # How events share a row of the outbox is its batch size.
    found["outbox"] = [
        {"id": id_, "time": row["time"], "claimed_until": row["claimed_until"]}
        for row in found["outbox"]
        for id_ in unpack(row["event_ids"])
    ]
    return found


class _Names:
    """The names of all ids of a database."""

    def __init__(self, rows: Rows) -> None:
        self._events = {row["id"]: row for row in rows["event"]}
        self._executions = {row["id"]: row for row in rows["execution"]}
        functions = {row["id"]: row["name"] for row in rows["function"]}
        self._names: dict[str, str] = {row["id"]: f"<trigger {row['name']}>" for row in rows["trigger"]}
        self._names |= {id_: f"<function {name}>" for id_, name in functions.items()}
        self._names |= {
            row["id"]: f"<version {functions[row['function_id']]}@{row['number']}>"
            for row in rows["function_version"]
        }
        # An event or execution is created after what caused it, and has a higher id.
        used: Counter[str] = Counter()
        for id_ in sorted([*self._events, *self._executions]):
            name = self._event(id_) if id_ in self._events else self._execution(id_)
            used[name] += 1
            self._names[id_] = f"<{name}>" if used[name] == 1 else f"<{name} #{used[name]}>"

    def _name(self, id_: str | None) -> str:
        return "" if id_ is None else self._names.get(id_, "?")

    def _event(self, id_: str) -> str:
        row = self._events[id_]
        source = UUID.sub(lambda found: self._name(found[0]), row["source"])
        if row["type"].startswith(("execution.", "output.")):
            return f"{row['type']} {source}"
        data = json.dumps(_comparable("event", row)["data"], sort_keys=True)
        data = UUID.sub(lambda found: self._name(found[0]), data)
        cause = self._name(row["cause_execution_id"])
        if row["type"] == failures.EVENT_TYPE:
            cause = ""
        return " ".join(filter(None, (row["type"], row["subject"], data, source, cause)))

    def _execution(self, id_: str) -> str:
        row = self._executions[id_]
        if row["replay_of"]:
            return f"{row['function']} again {self._name(row['replay_of'])}"
        if row["trigger_id"]:
            return f"{row['function']} by {self._name(row['trigger_id'])} for {self._name(row['event_id'])}"
        parent = self._name(row["parent_id"])
        given = UUID.sub(lambda found: self._name(found[0]), json.dumps(row["input"], sort_keys=True))
        return " ".join(filter(None, (row["function"], given, parent)))

    def text(self, row: Mapping[str, Any]) -> str:
        """A row as one line of JSON, with names for ids and seconds for times."""

        def plain(value: Any) -> Any:
            if isinstance(value, datetime):
                return f"{(value - START).total_seconds():.6f} s"
            return str(value)

        line = json.dumps(dict(row), sort_keys=True, default=plain)
        return UUID.sub(lambda found: self._name(found[0]).replace('"', "'"), line)
