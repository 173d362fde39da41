"""The inputs of matches that fire: rendered between the choice of their functions and the guards that count.

:mod:`functory.engine.firings.admission` chooses the functions, and has those guards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functory.engine.errors import FunctoryError
from functory.engine.events import store as event_store
from functory.engine.events.event_row import EventRow
from functory.engine.firings.admission import Admitted, Fire, Suppress, SuppressedMatch, Target
from functory.engine.functions.version_row import StartVersion
from functory.engine.serialization import json_schema
from functory.triggers.definition import CompiledTrigger

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TemplatedFire(Fire):
    """A match with what its input is rendered from: the trigger's template, the deciding event (its envelope), and the
    rows of all events where the function gets a list (None: it gets the one event).
    """

    compiled: CompiledTrigger
    event: Row
    rows: Sequence[EventRow] | None

    def render(self, parameters: Sequence[Row]) -> Row:
        """Return the input for a function with these parameters. Raises :class:`Invalid` when the events do not fit."""
        events = None if self.rows is None else [event_store.envelope(row) for row in self.rows]
        return self.compiled.make_input(self.event, parameters, events)


def render_inputs(
    fires: Sequence[tuple[EventRow, TemplatedFire]], targets: Sequence[Target | Suppress]
) -> tuple[list[Admitted], list[SuppressedMatch]]:
    """Make the input of each match for its target. Returns the matches that are ready, and for each event of the others
    why they are not: without a function, or with an input that does not fit it.
    """
    ready: list[Admitted] = []
    refused: list[SuppressedMatch] = []
    for (event, fire), target in zip(fires, targets, strict=True):
        found = _render(event, fire, target)
        if isinstance(found, Admitted):
            ready.append(found)
        else:
            refused += [(each, found) for each in fire.events or (event,)]
    return ready, refused


def _render(event: EventRow, fire: TemplatedFire, target: Target | Suppress) -> Admitted | Suppress:
    if isinstance(target, Suppress):
        return target
    try:
        input_ = fire.render(target.version.parameters)
        check_input(target.version, input_)
    except FunctoryError as error:
        return Suppress(fire.trigger, "input_error", detail=str(error))
    return Admitted(event, fire, target, input_)


def check_input(version: StartVersion, input_: Row) -> None:
    """Raise :class:`SchemaMismatch` for an input that does not fit a function version."""
    json_schema.check(version.input_schema, input_, f"input of {version.name} v{version.number}")
