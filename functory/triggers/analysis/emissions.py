"""The events that a function may cause, read from what is stored of it.

They come from its source (``emit("…")``, ``functions.update(…)``), its declaration (``metadata={"emits": […]}``, output
patterns), its dependencies and the functions that it calls, the engine's events about every execution, and observed
events. An ``emit`` of a computed type may be anything.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from functory.engine import python_syntax
from functory.engine.functions import dependencies

# Events of the engine about every execution.
LIFECYCLE_EVENTS = (
    "execution.started",
    "execution.succeeded",
    "execution.failed",
    "execution.timed_out",
    "execution.dead",
    "execution.attempt_failed",
    "execution.cancelled",
)

# Operations of `functory.functions` and the events that they cause.
FUNCTION_CHANGE_EVENTS = {
    "save": ("function.created", "function.updated"),
    "update": ("function.updated",),
    "activate": ("function.activated",),
    "rollback": ("function.activated", "version.marked"),
}

ANY_TYPE = "*"


@dataclass(frozen=True)
class Emission:
    """An event that a function may cause. ``subject`` None: unknown; ``type`` ``*``: computed, may be anything."""

    type: str
    subject: str | None = None

    @property
    def certain(self) -> bool:
        """False for a computed type."""
        return self.type != ANY_TYPE


def emissions(
    name: str, functions: Mapping[str, Mapping[str, Any]], observed: Mapping[str, Iterable[str]]
) -> set[Emission]:
    """The possible events of an execution of ``name``, with its calls. Unknown functions have none."""
    found: set[Emission] = set()
    waiting = [name]
    seen: set[str] = set()
    while waiting:
        current = waiting.pop()
        row = functions.get(current)
        if current in seen:
            continue
        seen.add(current)
        found |= {Emission(type_, current) for type_ in LIFECYCLE_EVENTS}
        found |= {Emission(type_) for type_ in observed.get(current, ())}
        if row is None:
            continue
        if row["output_patterns"]:
            found.add(Emission("output.matched", current))
        for version in _linked(row, functions):
            own, called = _read(version)
            found |= own
            waiting.extend(called)
    return found


def _linked(row: Mapping[str, Any], functions: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A function and its dependencies: they run in the same execution."""
    found: dict[str, Mapping[str, Any]] = {row["name"]: row}
    waiting = [row]
    while waiting:
        for dependency in dependencies.parse(waiting.pop()["dependencies"]):
            other = functions.get(dependency.name)
            if other is not None and dependency.name not in found:
                found[dependency.name] = other
                waiting.append(other)
    return list(found.values())


def _read(row: Mapping[str, Any]) -> tuple[set[Emission], frozenset[str]]:
    """What one source emits by itself, and the functions that it calls as executions."""
    declared = row["metadata"].get("emits", [])
    own, called = _read_source(row["source"])
    if not isinstance(declared, list):
        return set(own), called
    return set(own) | {Emission(type_) for type_ in declared if isinstance(type_, str)}, called


# Parsing is most of the time of a graph, and its sources seldom change.
@functools.lru_cache(maxsize=1024)
def _read_source(source: str) -> tuple[frozenset[Emission], frozenset[str]]:
    found: set[Emission] = set()
    called: set[str] = set()
    for node in ast.walk(python_syntax.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        word = (
            node.func.attr
            if isinstance(node.func, ast.Attribute)
            else node.func.id
            if isinstance(node.func, ast.Name)
            else ""
        )
        first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        text = first if isinstance(first, str) else None
        if word == "emit":
            found.add(Emission(text if text is not None else ANY_TYPE))
        elif word == "emit_many":
            found.add(Emission(ANY_TYPE))
        elif word in ("call", "submit", "acall"):
            if text is not None:
                called.add(text.split("@")[0])
        elif (
            word in FUNCTION_CHANGE_EVENTS
            and isinstance(node.func, ast.Attribute)
            and _is_functions(node.func.value)
        ):
            about = text if word != "save" else None
            found |= {Emission(type_, about) for type_ in FUNCTION_CHANGE_EVENTS[word]}
    return frozenset(found), frozenset(called)


def _is_functions(node: ast.expr) -> bool:
    return (isinstance(node, ast.Name) and node.id == "functions") or (
        isinstance(node, ast.Attribute) and node.attr == "functions"
    )
