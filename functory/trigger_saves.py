"""Saves triggers: reads either spelling, checks what can never work, refuses cycles, stores.

:class:`functory.client.Functory` composes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from functory.engine.errors import Invalid, NotFound
from functory.engine.events.store import Events
from functory.engine.executions.lineage import Lineage
from functory.engine.functions import dependencies
from functory.engine.functions.registry import Functions
from functory.engine.settings import Settings
from functory.engine.triggers.store import Triggers
from functory.triggers import definition, save_checks
from functory.triggers.analysis import cycles

# Functions that the analysis of triggers looks at.
MAX_FUNCTIONS = 100_000


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

    def save(
        self,
        name: str | None,
        fields: Mapping[str, Any],
        *,
        author: str,
        shadow: bool = False,
        expected_version: int | None = None,
    ) -> dict[str, Any]:
        """Save a trigger; BabyAGI's spelling has no name, so one is made from its parts.

        Returns its row with ``warnings``. Raises :class:`Invalid`, :class:`Conflict`.
        """
        made = definition.parse(fields)
        if name is None:
            if "event_type" not in fields:
                raise Invalid(
                    "the trigger has no name", try_='register_trigger("name", on={…}, function="…")'
                )
            parts = [
                fields["trigger_function"],
                "on",
                fields["event_type"].replace(".", "_"),
                fields.get("target_function") or "any",
            ]
            name = "-".join(str(part) for part in parts)
        compiled = definition.compile_definition({"id": "", "name": name, "version": 0, "definition": made})
        functions = self._active_functions()
        warnings = save_checks.check(compiled, self._surroundings(functions, compiled.function))
        cycles.check(self.graph({"name": name, "definition": made}, functions), name, self._settings)
        row = self._triggers.save(name, made, author=author, shadow=shadow, expected_version=expected_version)
        return row | {"warnings": warnings}

    def graph(
        self,
        draft: Mapping[str, Any] | None = None,
        functions: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> cycles.Graph:
        """The graph of all triggers, with ``draft`` (name, definition) as if it were saved. ``functions``: the active
        versions by name, when the caller has them."""
        rows = {row["name"]: row for row in self._triggers.list()}
        if draft is not None:
            rows[draft["name"]] = {"id": "", "version": 0, "state": "enabled", "origin": "user"} | dict(draft)
        compiled = [definition.compile_definition(row) for row in rows.values()]
        names = [dependencies.parse_reference(one.function)[0] for one in compiled]
        known = self._active_functions() if functions is None else functions
        return cycles.Graph(compiled, known, self._lineage.emitted_types(names))

    def broken_by(self, version: Mapping[str, Any]) -> list[str]:
        """Return a warning for each stored trigger that can no longer work with this active version of a function."""
        if version["active"] != version["number"]:
            return []
        functions = self._active_functions()
        found: list[str] = []
        for row in self._triggers.list():
            compiled = definition.compile_definition(row)
            if dependencies.parse_reference(compiled.function) == (version["name"], None):
                around = replace(self._surroundings(functions, compiled.function), target=version)
                problems = save_checks.find_problems(compiled, around)
                found += [
                    f"the trigger {row['name']} fails from now on: {one.text}"
                    for one in problems
                    if one.certain
                ]
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
