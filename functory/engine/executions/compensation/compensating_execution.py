"""The compensating execution: the queued execution of the function that undoes a step, and its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import execution, span
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, Invalid, NotFound
from functory.engine.executions.execution_row import LockedExecution
from functory.engine.executions.start import new_row, write
from functory.engine.functions import arguments, dependencies, versions
from functory.engine.functions.version_row import StartVersion
from functory.engine.serialization import json_schema


def start(tx: Tx, saga: LockedExecution, row: Mapping[str, Any]) -> str:
    """Queue the execution that undoes a step. Return its id. Raises :class:`FunctoryError` when it cannot start."""
    name, pin = dependencies.parse_reference(row["compensate"])
    version = versions.load_start(tx, name, pin)
    if version is None:
        raise NotFound(f"the compensation {row['compensate']} does not exist", try_="save it")
    if version.state != "enabled":
        raise Conflict(
            f"the compensation {name} is {version.state}",
            "no executions are started",
            f"functory function activate {name} {version.number}",
        )
    input_ = _input(tx, saga, row, version)
    json_schema.check(version.input_schema, input_, f"input of {name} v{version.number}")
    new = new_row(
        tx,
        version,
        input_,
        cause="compensation",
        root_id=saga.root_id,
        depth=saga.depth + 1,
        chain=saga.chain,
        parent_id=saga.id,
    )
    # No start deadline: a late compensation is better than none.
    write(tx, [new | {"expires_at": None}])
    tx.wake("executions")
    return new["id"]


def _input(tx: Tx, saga: LockedExecution, row: Mapping[str, Any], version: StartVersion) -> dict[str, Any]:
    """Return the arguments of the compensation: the values of the names that it declares as parameters."""
    missing = arguments.missing_compensation_arguments(version.parameters)
    if missing:
        raise Invalid(
            f"the compensation {row['compensate']} needs {', '.join(missing)}",
            f"it is given {', '.join(arguments.COMPENSATION_ARGUMENTS)} and nothing else",
            f"save {version.name} with parameters of these names",
        )
    if row["step_seq"]:
        step = tx.first(
            sa.select(span.c.input, span.c.output.label("result")).where(
                span.c.execution_id == row["step_id"],
                span.c.fence == row["step_fence"],
                span.c.seq == row["step_seq"],
            )
        )
    else:
        step = tx.first(
            sa.select(execution.c.input, execution.c.result).where(execution.c.id == row["step_id"])
        )
    if step is None:
        raise NotFound(f"the input and the result of {row['function']} no longer exist")
    known = {
        "input": step["input"],
        "result": step["result"],
        "execution_id": row["step_id"],
        "error": saga.error,
    }
    wanted = arguments.accepted_compensation_arguments(version.parameters)
    for name in ("input", "result"):
        if name in wanted and not arguments.is_complete(known[name]):
            raise Invalid(
                f"the {name} of {row['function']} was not recorded whole",
                "it was too large, was not JSON, or held a secret",
                f'undo it by hand and skip it; next time call("{row["function"]}", …, durable=True), '
                "and return what the compensation needs as JSON",
            )
    return {name: known[name] for name in wanted}
