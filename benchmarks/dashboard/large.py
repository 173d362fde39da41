"""The largest that a page has to show: a tree of 5,000 nodes, payloads of a megabyte, a map of almost 400 boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from functory.client.functory import Functory

# An event and an execution each, below one execution.
PIECES = 2500
NODES = 1 + 2 * PIECES
PAYLOAD_BYTES = 1_000_000
# A function, a trigger and an event type each. Beyond 400 boxes the map shows a neighbourhood.
LINKS = 122

FUNCTIONS = {
    "burst": (
        "import functory\n\n"
        "def burst(pieces: int) -> int:\n"
        "    for number in range(pieces):\n"
        "        functory.emit('piece.made', {'number': number})\n"
        "    return pieces\n"
    ),
    "weigh_piece": (
        "def weigh_piece(number: int) -> float:\n"
        "    if number % 100 == 0:\n"
        "        raise ValueError(f'piece {number} is too heavy')\n"
        "    return number / 7\n"
    ),
    "copy_items": "def copy_items(items: list) -> list:\n    return items\n",
}


@dataclass(frozen=True)
class Large:
    """Ids of what is large."""

    tree: str
    event: str
    execution: str


def settings() -> dict[str, Any]:
    """What the engine needs so that no guard stops the tree."""
    return {"root_budget": 10 * PIECES, "trigger_rate": 0, "trigger_source_rate": 0, "source_rate": 0}


def make(engine: Functory) -> Large:
    """Make all of it with an engine that runs."""
    for source in FUNCTIONS.values():
        engine.functions.save(source)
    engine.save_trigger(
        "on-piece",
        on={"type": ["piece.made"]},
        function="weigh_piece",
        input={"number": "{{ event.data.number }}"},
    )
    for number in range(LINKS):
        name = f"step_{number:03}"
        engine.functions.save(f"def {name}() -> int:\n    return {number}\n")
        engine.save_trigger(f"on-{name}", on={"type": [f"step.ended_{number:03}"]}, function=name, input={})
    tree = engine.executions.start("burst", {"pieces": PIECES})["id"]
    items = [{"number": number, "text": "x" * 72} for number in range(PAYLOAD_BYTES // 100)]
    execution = engine.executions.start("copy_items", {"items": items})["id"]
    event = engine.emit("large.made", {"items": items})
    engine.settle(600)
    return Large(tree, event, execution)
