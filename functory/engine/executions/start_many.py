"""Many executions of one function, started in one transaction: all of them, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from functory.engine.database.connection import Database
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid
from functory.engine.events import store as event_store
from functory.engine.executions import start
from functory.engine.executions.direct_dispatch import OpensRoom
from functory.engine.functions import versions
from functory.engine.serialization import json_codec, json_schema
from functory.engine.settings import Settings

# One call holds its inputs in memory, and one transaction writes them.
MAX_EXECUTIONS = 10_000
MAX_TOTAL_BYTES = 64 * 1024 * 1024

MakeInput = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def start_many(
    database: Database,
    settings: Settings,
    function: str,
    inputs: Iterable[Mapping[str, Any] | MakeInput],
    *,
    version: int | None = None,
    cause: str = "api",
    delay: float = 0.0,
    priority: int | None = None,
    direct: OpensRoom | None = None,
) -> list[str]:
    """Queue one execution for each of ``inputs``. Returns their ids, in order.

    An input is an object, or makes it from the version row (to bind positional arguments). ``delay`` is in seconds.
    With ``direct`` they are sent at once if there is room for all of them.
    Raises :class:`NotFound`, :class:`Conflict` (disabled), and :class:`Invalid` with the number of the first wrong
    input, counted from 1.
    """
    wanted: list[Mapping[str, Any] | MakeInput] = []
    for one in inputs:
        if len(wanted) == MAX_EXECUTIONS:
            raise Invalid(
                "too many executions", f"one call takes at most {MAX_EXECUTIONS:,}", "submit them in parts"
            )
        wanted.append(one)

    def work(tx: Tx) -> list[str]:
        room = direct.room(tx) if direct is not None else None
        found = versions.load(tx, function, version)
        if found is None:
            raise start.missing_version_error(tx, function, version)
        start.check_enabled(found)
        rows = [
            start.new_row(
                tx,
                found,
                input_,
                cause=cause,
                root_id=None,
                depth=0,
                chain=(),
                delay=delay,
                priority=priority,
            )
            for input_ in _check_all(found, wanted, settings.max_event_bytes)
        ]
        sent = room is not None and room.take(rows)
        start.write(tx, rows, sent=sent)
        if not sent:
            tx.wake("executions")
        return [row["id"] for row in rows]

    return database.group_commit(work) if wanted else []


def _check_all(
    version: Mapping[str, Any], wanted: Iterable[Mapping[str, Any] | MakeInput], max_bytes: int
) -> list[Mapping[str, Any]]:
    checked: list[Mapping[str, Any]] = []
    total = 0
    for number, one in enumerate(wanted, 1):
        what = f"input {number} of {version['name']}"
        input_ = json_codec.from_python(one(version) if callable(one) else one, what)
        total += event_store.check_data(input_, max_bytes, what)
        if total > MAX_TOTAL_BYTES:
            raise Invalid(
                "the inputs are too large",
                f"the first {number:,} have {total:,} bytes; one call takes at most {MAX_TOTAL_BYTES:,}",
                "submit them in parts",
            )
        json_schema.check(version["input_schema"], input_, f"{what} v{version['number']}")
        checked.append(input_)
    return checked
