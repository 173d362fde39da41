"""Saves triggers: reads either spelling, checks what can never work, refuses cycles, stores.

:class:`functory.client.functory.Functory` composes it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from functory.engine.errors import Conflict, Invalid, NotFound
from functory.engine.events.store import Events
from functory.engine.executions.lineage import Lineage
from functory.engine.firings.trigger_store import Triggers
from functory.engine.flow_control import trigger_row
from functory.engine.flow_control.trigger_row import TriggerRow
from functory.engine.functions import dependencies
from functory.engine.functions.registry import Functions
from functory.engine.names import made_trigger_name
from functory.engine.serialization import json_codec
from functory.engine.settings import Settings
from functory.triggers import definition, save_checks
from functory.triggers.analysis import cycles
from functory.triggers.analysis.draft_faults import draft_faults
from functory.triggers.save_checks.problems import Problem, pointer
from functory.triggers.save_checks.schema_paths import closed

# Functions that the analysis of triggers looks at.
MAX_FUNCTIONS = 100_000
# How long the types that a function emitted are kept for pages.
EMITTED_SECONDS = 30.0
_CYCLES_UNKNOWN = Problem(
    "not every cycle would be found",
    "the functions of the triggers emit too many types for too many patterns; the guards still stop a loop at run time",
    "an exact type or a longer prefix in the patterns",
    certain=False,
    pointer=pointer("on", "type"),
)


@dataclass(frozen=True)
class DraftReview:
    """What is known about a draft before it is saved. ``compiled`` is None when a problem prevents it. ``cycle`` is the
    shortest one that it would close, and ``graph`` has the triggers of it.
    """

    compiled: definition.CompiledTrigger | None
    problems: list[Problem]
    cycle: list[cycles.Edge] | None = None
    graph: cycles.Graph | None = None


@dataclass(frozen=True)
class BrokenTrigger:
    """A stored trigger, and a problem that it would have."""

    trigger: str
    problem: Problem


class TriggerSaves:
    """Checks triggers against the stored functions and events, and saves them."""

    def __init__(
        self,
        functions: Functions,
        triggers: Triggers,
        events: Events,
        lineage: Lineage,
        settings: Settings,
    ) -> None:
        self._settings = settings
        self._functions = functions
        self._triggers = triggers
        self._events = events
        self._lineage = lineage
        self._emitted = _EmittedTypes(lineage)
        self._lock = threading.Lock()
        self._stored: tuple[tuple[int, int], float, cycles.Graph] | None = None

    def save(
        self,
        name: str | None,
        fields: Mapping[str, Any],
        *,
        author: str,
        shadow: bool = False,
        expected_version: int | None = None,
        labels: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Save a trigger; BabyAGI's spelling has no name, so one is made from its parts.

        ``labels`` are those of a trigger that is new. Returns its row with ``warnings``. Raises :class:`Invalid`,
        :class:`Conflict`.
        """
        made = definition.parse(fields)
        if name is None:
            name = made_trigger_name(fields)
        compiled = definition.compile_definition(TriggerRow("", name, 0, made))
        functions = self._active_functions()
        warnings = save_checks.check(compiled, self._surroundings(functions, compiled.function))
        graph = self.graph({"name": name, "definition": made}, functions)
        cycles.check(graph, name, self._settings)
        if not graph.complete:
            warnings.append(_CYCLES_UNKNOWN.text)
        row = self._triggers.save(
            name, made, author=author, shadow=shadow, expected_version=expected_version, labels=labels
        )
        return row | {"warnings": warnings}

    def graph(
        self,
        draft: Mapping[str, Any] | None = None,
        functions: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        recent: bool = False,
    ) -> cycles.Graph:
        """The graph of all triggers, with ``draft`` (name, definition) as if it were saved. ``functions``: the active
        versions by name, when the caller has them. With ``recent``, the types that functions emitted may be those of
        half a minute ago: for a page that asks again and again."""
        rows = {row["name"]: row for row in self._triggers.list_definitions()}
        if draft is not None:
            rows[draft["name"]] = {"id": "", "version": 0, "state": "enabled", "origin": "user"} | dict(draft)
        compiled = [definition.compile_definition(trigger_row.from_mapping(row)) for row in rows.values()]
        names = [dependencies.parse_reference(one.function)[0] for one in compiled]
        known = self._active_functions() if functions is None else functions
        emitted = self._emitted.get(names) if recent else self._lineage.emitted_types(names)
        return cycles.Graph(compiled, known, emitted)

    def broken_by(self, version: Mapping[str, Any]) -> list[str]:
        """Return a warning for each stored trigger that can no longer work with this active version of a function."""
        if version["active"] != version["number"]:
            return []
        functions = self._active_functions()
        found: list[str] = []
        for row in self._triggers.list_definitions():
            compiled = definition.compile_definition(trigger_row.from_mapping(row))
            if dependencies.parse_reference(compiled.function) == (version["name"], None):
                around = replace(self._surroundings(functions, compiled.function), target=version)
                problems = save_checks.find_problems(compiled, around)
                found += [
                    f"the trigger {row['name']} fails from now on: {one.text}"
                    for one in problems
                    if one.certain
                ]
        return found

    def stored_graph(self) -> cycles.Graph:
        """The graph of all triggers, kept until a trigger or function changes, or for half a minute: executions may
        emit a type that no source names."""
        key = (self._triggers.changes(), self._functions.changes())
        with self._lock:
            known = self._stored
            if known is not None and known[0] == key and known[1] > time.monotonic():
                return known[2]
        graph = self.graph(recent=True)
        with self._lock:
            self._stored = (key, time.monotonic() + EMITTED_SECONDS, graph)
        return graph

    def function_states(self) -> dict[str, str]:
        """The state of each function by its name."""
        return {row["name"]: row["state"] for row in self._functions.list(limit=MAX_FUNCTIONS)}

    def warnings(self, row: Mapping[str, Any]) -> list[str]:
        """Return what may be a mistake in a stored trigger, by the functions and events that there are now."""
        compiled = definition.compile_definition(trigger_row.from_mapping(row))
        around = self._surroundings(self._active_functions(), compiled.function)
        return [one.text for one in save_checks.find_problems(compiled, around)]

    def review(self, name: str, draft: Mapping[str, Any]) -> DraftReview:
        """Check a draft as :meth:`save` does. Nothing is saved, and all problems are returned at once."""
        problems = draft_faults(draft)
        if problems:
            return DraftReview(None, problems)
        made = definition.parse(draft)
        compiled = definition.compile_definition(TriggerRow("", name, 0, made))
        functions = self._active_functions()
        problems = save_checks.find_problems(compiled, self._surroundings(functions, compiled.function))
        graph = self.graph({"name": name, "definition": made}, functions, recent=True)
        try:
            cycles.check(graph, name, self._settings)
        except (Invalid, Conflict) as error:
            problems.append(
                Problem(error.what, error.why, error.try_, certain=True, pointer=pointer("guards"))
            )
        ring = graph.cycle(name)
        if not graph.complete:
            problems.append(_CYCLES_UNKNOWN)
        return DraftReview(compiled, problems, ring, graph)

    def contract(self, version: Mapping[str, Any]) -> list[BrokenTrigger]:
        """Return what a version of a function would break: problems of stored triggers that run the active version or
        read its events, and that they do not have now. ``version`` needs not be stored.

        A field that the output schema named before and does not name any more is a problem, too, when the schema allows
        further fields.
        """
        functions = self._active_functions()
        name = version["name"]
        changed = functions | {name: _only_named_outputs(version) | {"state": "enabled"}}
        if name in functions:
            functions[name] = _only_named_outputs(functions[name])
        found: list[BrokenTrigger] = []
        for row in self._triggers.list_definitions():
            if name not in json_codec.dumps(row["definition"]):
                continue
            compiled = definition.compile_definition(trigger_row.from_mapping(row))
            now, then = (self._surroundings(known, compiled.function) for known in (functions, changed))
            if dependencies.parse_reference(compiled.function) == (name, None):
                then = replace(then, target=changed[name])
            known = {one.what for one in save_checks.find_problems(compiled, now)}
            problems = save_checks.find_problems(compiled, then)
            found += [BrokenTrigger(row["name"], one) for one in problems if one.what not in known]
        return found

    def _active_functions(self) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self._functions.list(limit=MAX_FUNCTIONS, payloads=True)}

    def _surroundings(
        self, functions: Mapping[str, Mapping[str, Any]], function: str
    ) -> save_checks.Surroundings:
        """What a trigger that runs ``function`` is checked against."""
        try:
            target = self._functions.get(*dependencies.parse_reference(function))
        except NotFound:
            target = None
        return save_checks.Surroundings(functions, target, self._events.has_type, self._events.types)


class _EmittedTypes:
    """The types that functions have emitted, each function read at most twice a minute."""

    def __init__(self, lineage: Lineage) -> None:
        self._lineage = lineage
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, list[str]]] = {}

    def get(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Return the types by function, as :meth:`Lineage.emitted_types` does."""
        now = time.monotonic()
        with self._lock:
            wanted = set(names)
            old = [name for name in wanted if self._known.get(name, (0.0, []))[0] <= now]
            if old:
                found = self._lineage.emitted_types(old)
                self._known = {name: one for name, one in self._known.items() if one[0] > now}
                self._known |= {name: (now + EMITTED_SECONDS, found.get(name, [])) for name in old}
            return {name: self._known[name][1] for name in wanted}


def _only_named_outputs(row: Mapping[str, Any]) -> dict[str, Any]:
    """A version whose results have no members that its output schema does not name."""
    return dict(row) | {"output_schema": closed(row["output_schema"])}
