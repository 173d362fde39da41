"""What the calls of a step came to: exactly one result for each, in the order in which they were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database.id_lists import one_of
from functory.engine.database.schema import execution, run
from functory.engine.database.schema.agents import RUN_OPEN
from functory.engine.database.transaction import Tx
from functory.engine.serialization import json_codec

# A longer result of a tool is cut: it would fill the context of a model.
MAX_RESULT_CHARACTERS = 8_000
# All results of children together, so that they fit into the input of the next step.
MAX_RESULTS_BYTES = 524_288

_EXECUTIONS = sa.select(execution.c.id, execution.c.state, execution.c.result, execution.c.error).where(
    one_of(execution.c.id)
)
_RUNS = sa.select(run.c.id, run.c.state, run.c.reason, run.c.result, run.c.detail).where(one_of(run.c.id))


def gathered(tx: Tx, pending: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the next step gets: the results of the calls of ``pending``. A call that has not ended counts as
    cancelled: it was not needed.
    """
    targets = [call["target"] for call in pending["calls"] if "target" in call]
    found = {row["id"]: row for row in tx.rows(_EXECUTIONS, {"ids": targets})} if targets else {}
    # A run has the id of its first execution, and another result.
    found |= {row["id"]: row for row in tx.rows(_RUNS, {"ids": targets})} if targets else {}
    results = []
    room = MAX_RESULTS_BYTES
    for call in pending["calls"]:
        result = _result(call, found)
        if pending["kind"] == "tools":
            result = shortened(result, MAX_RESULT_CHARACTERS)
        else:
            result = shortened(result, max(0, room))
            room -= len(json_codec.encode(result.get("value")))
        results.append(result)
    return {"kind": pending["kind"], "results": results}


def is_success(tx: Tx, wait: Mapping[str, Any]) -> bool:
    """Return True when what a wait was for has succeeded."""
    table = run if wait["kind"] == "run" else execution
    return tx.scalar(sa.select(table.c.state).where(table.c.id == wait["target_id"])) == "succeeded"


def has_passed(result: Mapping[str, Any]) -> bool:
    """Return True for the result of a check that accepts: true, or an object with ``ok``."""
    value = result.get("value")
    return bool(result["ok"]) and (value is True or (isinstance(value, Mapping) and value.get("ok") is True))


def shortened(result: dict[str, Any], characters: int) -> dict[str, Any]:
    """Return a result whose value is at most so long as JSON; a longer one is replaced by its beginning."""
    if not result["ok"]:
        return result
    text = json_codec.dumps(result["value"])
    if len(text) <= characters:
        return result
    return {**result, "value": text[:characters], "shortened": len(text)}


def _result(call: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    known = {"id": call.get("id"), "name": call["name"]}
    if "recorded" in call:
        return {**known, **call["recorded"]}
    if "target" not in call:
        undecided = {"state": "cancelled", "type": None, "message": "it was not decided, and is not needed"}
        return {**known, "ok": False, "error": call.get("error", undecided)}
    known["execution_id"] = call["target"]
    row = found.get(call["target"])
    state = "cancelled" if row is None or row["state"] in _OPEN else row["state"]
    if row is not None and state == "succeeded":
        return {**known, "ok": True, "value": row["result"]}
    error = (row or {}).get("error") or (row or {}).get("detail") or {}
    message = error.get("message") or f"it has ended as {state}"
    problem = {"state": state, "type": error.get("type"), "message": str(message)[:4_000]}
    if row is not None and row.get("reason"):
        problem["reason"] = row["reason"]
    return {**known, "ok": False, "error": problem}


_OPEN = ("queued", *RUN_OPEN)
