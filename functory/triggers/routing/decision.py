"""The decision of one trigger about one event that it matches, or about several events that waited for each other.

Decisions read no rows. Conditions and the guards that need no rows are evaluated here, for each event when it is routed
and for all events of a firing together. The engine does the checks that need rows, in this order:
``functory.engine.firings.idempotency``, ``functory.engine.flow_control.buffers``,
``functory.engine.firings.admission`` (its inputs come from ``functory.triggers.routing.inputs``),
``functory.engine.firings.launch``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from functory.engine.errors import Invalid
from functory.engine.events import store as event_store
from functory.engine.events.event_row import EventRow
from functory.engine.firings.admission import Suppress
from functory.engine.firings.cancel_on import Cancel
from functory.engine.flow_control.buffers import BufferedMatch
from functory.engine.flow_control.controls import Controls, Key
from functory.engine.serialization import json_codec
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics
from functory.triggers.definition import CompiledTrigger
from functory.triggers.expressions.conditions import ConditionResult
from functory.triggers.flow_control.buffered_match import BufferPolicy
from functory.triggers.flow_control.debounce_batch import Batch, Debounce, key_of_event
from functory.triggers.routing.guards import Guards, check_guards, effective_guards, rate_guards
from functory.triggers.routing.inputs import TemplatedFire
from functory.triggers.routing.trigger_set import TriggerMatch

Row = Mapping[str, Any]
Decision = TemplatedFire | Suppress | BufferedMatch | Cancel


class TriggerEvaluator:
    """Decides with the guards of the settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known_guards: dict[str, tuple[CompiledTrigger, Guards]] = {}

    def decide(
        self, compiled: CompiledTrigger, row: EventRow, event: Row, now: datetime, parts: Sequence[int] = ()
    ) -> TemplatedFire | Suppress | BufferedMatch | None:
        """Decide about an event row (and its envelope) that matches the pattern, or these ``parts`` of a composite.

        None when a condition does not hold.
        """
        if compiled.composite is not None:
            return self._part(compiled, row, event, now, parts)
        result = compiled.evaluate_conditions(event, now)
        if result is not None and not result.matched:
            return _unmatched(compiled, result)
        guards = self._guards(compiled)
        suppressed = self._suppression(compiled, guards, row)
        if suppressed is not None:
            return suppressed
        try:
            controls = compiled.flow.evaluate(event)
            buffered = _buffer_if_needed(compiled, row, event, now, controls)
        except Invalid as error:
            return Suppress(compiled.row, "condition_error", detail=str(error))
        return buffered or _fire(compiled, guards, [row], event, controls)

    def _part(
        self, compiled: CompiledTrigger, row: EventRow, event: Row, now: datetime, parts: Sequence[int]
    ) -> Suppress | BufferedMatch | None:
        composite = compiled.composite
        assert composite is not None
        matched: list[int] = []
        failed: ConditionResult | None = None
        for number in parts:
            condition = composite.parts[number].condition
            result = None if condition is None else condition.evaluate(event, now, {})
            if result is None or result.matched:
                matched.append(number)
            elif result.problem is not None:
                failed = result
        if not matched:
            return None if failed is None else _unmatched(compiled, failed)
        # An event whose absence is awaited starts nothing. It ends a wait, also when the trigger's own execution wrote
        # it.
        guards = self._guards(compiled) if composite.can_fire(matched) else None
        suppressed = self._suppression(compiled, guards, row)
        if suppressed is not None:
            return suppressed
        try:
            key, mask = composite.key_and_parts(event, matched)
            controls = compiled.flow.evaluate(event)
        except Invalid as error:
            return Suppress(compiled.row, "condition_error", detail=str(error))
        return _make_buffered_match(compiled, composite, key, row, controls, mask)

    def fire(
        self, compiled: CompiledTrigger, rows: Sequence[EventRow], by: EventRow
    ) -> tuple[EventRow, TemplatedFire | Suppress]:
        """Let these event rows fire together; ``by`` is the deciding one.

        Returns the decision and the event row that causes the execution: the deciding one with the depth of the deepest
        event, so that no loop hides among events of other origins.
        """
        deepest = msgspec.structs.replace(by, depth=max(row.depth for row in rows))
        guards = self._guards(compiled)
        suppressed = self._suppression(compiled, guards, deepest)
        if suppressed is not None:
            return deepest, suppressed
        event = event_store.envelope(by)
        try:
            controls = compiled.flow.evaluate(event)
        except Invalid as error:
            return deepest, Suppress(compiled.row, "condition_error", detail=str(error))
        return deepest, _fire(compiled, guards, rows, event, controls)

    def _guards(self, compiled: CompiledTrigger) -> Guards:
        known = self._known_guards.get(compiled.id)
        if known is not None and known[0] is compiled:
            return known[1]
        by_agent = compiled.row.origin == "agent"
        guards = effective_guards(compiled.guards, by_agent=by_agent, settings=self._settings)
        self._known_guards[compiled.id] = compiled, guards
        return guards

    def _suppression(
        self, compiled: CompiledTrigger, guards: Guards | None, row: EventRow
    ) -> Suppress | None:
        """The suppression of a match before anything is counted. ``guards`` None: it cannot start an execution."""
        if compiled.row.state == "paused":
            return Suppress(compiled.row, "trigger_paused", detail=compiled.row.note or "")
        tripped = guards and check_guards(compiled.id, compiled.name, guards, row, self._settings.max_depth)
        if tripped is not None:
            return Suppress(compiled.row, tripped.guard, tripped.limit, tripped.value, tripped.detail)
        return None


def decide_match(
    evaluator: TriggerEvaluator, match: TriggerMatch, row: EventRow, event: Row, now: datetime
) -> list[Decision]:
    """The decisions of one trigger about an event row (and its envelope) that some of its patterns match."""
    decisions: list[Decision] = [Cancel(match.compiled.row, rule) for rule in match.cancel_rules]
    if match.fires:
        decision = evaluator.decide(match.compiled, row, event, now, match.parts)
        decisions += [] if decision is None else [decision]
    elif match.problem is not None:
        metrics.condition_errors.labels(metrics.trigger_label(match.compiled.name), "budget").inc()
        decisions.append(Suppress(match.compiled.row, "condition_error", detail=match.problem))
    return decisions


def matching_parts(compiled: CompiledTrigger, event: Row) -> list[int] | None:
    """The numbers of the composite's parts whose patterns an event matches, [] for a trigger without parts; None
    without a match. The index is faster: this is for an event that it has matched before."""
    if compiled.composite is None:
        assert compiled.pattern is not None
        return [] if compiled.pattern.matches(event) else None
    parts = enumerate(compiled.composite.parts)
    return [number for number, part in parts if part.pattern.matches(event)] or None


def _unmatched(compiled: CompiledTrigger, result: ConditionResult) -> Suppress | None:
    if result.problem is None:
        return None
    metrics.condition_errors.labels(metrics.trigger_label(compiled.name), result.kind or "error").inc()
    return Suppress(compiled.row, "condition_error", detail=result.problem)


def _buffer_if_needed(
    compiled: CompiledTrigger, row: EventRow, event: Row, now: datetime, controls: Controls
) -> BufferedMatch | None:
    control: Debounce | Batch | None = compiled.flow.debounce or compiled.flow.batch
    if control is None or (isinstance(control, Batch) and not control.accepts(event, now)):
        return None
    return _make_buffered_match(compiled, control, key_of_event(control.key, event), row, controls)


def _make_buffered_match(
    compiled: CompiledTrigger,
    control: BufferPolicy,
    key: Key,
    row: EventRow,
    controls: Controls,
    parts: int = 1,
) -> BufferedMatch:
    size = len(json_codec.encode(row.data)) if control.delivers_list else 0
    return BufferedMatch(compiled.row, key, control.kind, parts, size, controls)


def _fire(
    compiled: CompiledTrigger, guards: Guards, rows: Sequence[EventRow], event: Row, controls: Controls
) -> TemplatedFire:
    """The execution of these event rows; ``event`` is the envelope of the deciding one."""
    control = compiled.buffer_policy
    listed = control is not None and control.delivers_list
    return TemplatedFire(
        compiled.row,
        compiled.function,
        budget=guards.budget,
        rate_guards=rate_guards(guards, rows[-1]),
        controls=controls,
        events=rows if len(rows) > 1 else (),
        is_step=compiled.compensate,
        compiled=compiled,
        event=event,
        rows=rows if listed else None,
    )
