"""What holds for executions in every state, for tests that move them from state to state."""

from typing import TYPE_CHECKING, Any

from functory.engine.database import schema
from functory.engine.executions.outcomes import TERMINAL

if TYPE_CHECKING:
    from tests.support.world import World

LEASE = 30.0
ENDINGS = {f"execution.{state}" for state in TERMINAL}


def check(world: "World") -> None:
    """What holds in every state: attempts are counted, and each finished execution has exactly one event of its end."""
    for row in world.rows(schema.execution):
        attempts = world.executions.attempts(row["id"])
        counted = [a for a in attempts if a["outcome"] != "released"]
        assert len(counted) == row["attempt"] <= row["max_attempts"]
        assert [a["fence"] for a in attempts if a["ended_at"] is None] == (
            [row["fence"]] if row["state"] == "running" else []
        )
        types = [e["type"] for e in world.rows(schema.event, schema.event.c.cause_execution_id == row["id"])]
        ends = [type_ for type_ in types if type_ in ENDINGS]
        assert ends == ([f"execution.{row['state']}"] if row["state"] in TERMINAL else [])
        assert (row["finished_at"] is not None) == (row["state"] in TERMINAL)


def refuse_connection(*_: Any, **__: Any) -> None:
    """Stand in for anything that needs a connection, while there is none."""
    raise ConnectionError
