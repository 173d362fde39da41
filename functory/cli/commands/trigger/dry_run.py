"""``functory trigger test``: the decision of a trigger about an event, clause by clause. Nothing is started."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from functory.cli.input import ids, values
from functory.engine.database import short_ids
from functory.terminal import console
from functory.terminal.console import CommandOutput

if TYPE_CHECKING:
    from functory.client.functory import Functory


def read_event(engine: Functory, reference: str) -> str | dict[str, Any]:
    """Return the id of a stored event, or the members of an envelope: JSON text, a file, or stdin."""
    if short_ids.is_full(reference) or (short_ids.ranges(reference) and not Path(reference).exists()):
        return ids.event_id(engine, reference)
    is_path = not reference.lstrip().startswith("{") and not reference.startswith("@") and reference != "-"
    return values.read_json_object(f"@{reference}" if is_path else reference, "the event")


def draw(out: CommandOutput, answer: Mapping[str, Any]) -> None:
    """Print the decision for people."""
    out.styled(
        (f"{answer['trigger']} v{answer['version']} ", "bold"),
        (f"would run {answer['function']}", "green") if answer["fires"] else ("would not fire", "yellow"),
    )
    for clause in answer["clauses"]:
        out.clause(clause)
    condition = answer["condition"]
    if condition is not None:
        found = condition["problem"] or ("true" if condition["holds"] else "false")
        out.clause(
            {"matched": condition["holds"], "path": "when", "expected": condition["text"], "found": found}
        )
    if answer["fires"] and answer["undecided"]:
        controls = ", ".join(answer["undecided"])
        out.styled(
            ("  not tested ", "bold"),
            (
                f"{controls}: these look at other events too; functory trigger backtest {answer['trigger']}",
                "",
            ),
        )
    if answer["problem"]:
        out.styled(("  ✗ ", "red"), (answer["problem"], ""))
    if answer["input"] is not None:
        out.styled(("  input ", "bold"), (console.short_json(answer["input"], 2000), ""))
