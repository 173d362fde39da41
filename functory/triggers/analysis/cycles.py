"""Cycle analysis before anything runs: trigger → function → its possible events → the triggers that they may fire.

The possible events of a function come from its source (``emit("…")``, ``functions.update(…)``), its declaration
(``metadata={"emits": […]}``, output patterns), its dependencies and the functions that it calls, the engine's events
about every execution, and observed events. An ``emit`` of a computed type may be anything: such edges are shown, but
prove nothing.

The guards at run time stay necessary: code can emit unforeseen events.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functory.engine.errors import Conflict, FunctoryError, Invalid
from functory.engine.functions import dependencies
from functory.engine.settings import Settings
from functory.triggers.definition import CompiledTrigger, Guards
from functory.triggers.patterns import Pattern, compile_pattern

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

# Events of these types say in data.function which function they are about: their subject.
_ABOUT_FUNCTIONS = ("execution.", "function.", "output.")


@dataclass(frozen=True)
class Emission:
    """An event that a function may cause. ``subject`` None: unknown; ``type`` ``*``: computed, may be anything."""

    type: str
    subject: str | None = None

    @property
    def certain(self) -> bool:
        """False for a computed type."""
        return self.type != ANY_TYPE


@dataclass(frozen=True)
class Edge:
    """One edge: ``trigger`` runs ``function``, which may emit ``emission``, which may start ``target``."""

    trigger: str
    function: str
    emission: Emission
    target: str

    def text(self) -> str:
        """``trigger → function → event`` for people."""
        what = "anything" if not self.emission.certain else self.emission.type
        about = f" ({self.emission.subject})" if self.emission.subject else ""
        return f"{self.trigger} → {self.function} → {what}{about}"

    def as_json(self) -> dict[str, Any]:
        """The edge as JSON values."""
        return {
            "trigger": self.trigger,
            "function": self.function,
            "event": self.emission.type,
            "subject": self.emission.subject,
            "target": self.target,
            "certain": self.emission.certain,
        }


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
    for node in ast.walk(ast.parse(source)):
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


class Graph:
    """The edges between triggers, and the cycles among them."""

    def __init__(
        self,
        triggers: Sequence[CompiledTrigger],
        functions: Mapping[str, Mapping[str, Any]],
        observed: Mapping[str, Iterable[str]],
    ) -> None:
        self.triggers = {compiled.name: compiled for compiled in triggers}
        self._parts = {compiled.name: _parts(compiled) for compiled in triggers}
        self.edges: dict[str, list[Edge]] = {}
        known: dict[str, set[Emission]] = {}
        for compiled in triggers:
            function = dependencies.parse_reference(compiled.function)[0]
            if function not in known:
                known[function] = emissions(function, functions, observed)
            self.edges[compiled.name] = [
                Edge(compiled.name, function, emission, target)
                for emission in sorted(known[function], key=lambda e: (e.type, e.subject or ""))
                for target, parts in self._parts.items()
                if any(part.may_match(emission) for part in parts)
            ]

    def listeners(self, emission: Emission) -> list[str]:
        """The triggers that an event may start."""
        return [
            name for name, parts in self._parts.items() if any(part.may_match(emission) for part in parts)
        ]

    def cycle(self, name: str, *, certain: bool = True) -> list[Edge] | None:
        """The shortest cycle through trigger ``name``, as its steps; None when there is none.

        With ``certain``, edges of computed types are left out. A trigger that only matches its own events is no cycle:
        the guard for own events stops it at once, unless it has ``allow_self``.
        """
        paths: list[list[Edge]] = [[]]
        seen: set[str] = set()
        while paths:
            longer: list[list[Edge]] = []
            for path in paths:
                here = path[-1].target if path else name
                for step in self.edges.get(here, []):
                    if certain and not step.emission.certain:
                        continue
                    if step.target == name:
                        if not path and not self.triggers[name].guards.allow_self:
                            continue
                        return [*path, step]
                    if step.target not in seen and step.target != here:
                        seen.add(step.target)
                        longer.append([*path, step])
            paths = longer
        return None

    def cycles(self) -> list[list[Edge]]:
        """The shortest cycle through each trigger that is part of one; each cycle once."""
        found: dict[frozenset[str], list[Edge]] = {}
        for name in sorted(self.triggers):
            ring = self.cycle(name)
            if ring is not None:
                found.setdefault(frozenset(step.trigger for step in ring), ring)
        return list(found.values())


def check(graph: Graph, name: str, settings: Settings) -> None:
    """Check a trigger that is being saved against the settings, and against the triggers that it is in a cycle with.

    Raises :class:`Invalid` for a limit that a setting would cap without a word; :class:`Conflict`, with the path, for a
    cycle that a trigger of it does not accept.
    """
    guards = graph.triggers[name].guards
    _check_limits(name, guards, settings)
    ring = graph.cycle(name)
    rounds = guards.acknowledge_cycle
    if ring is None:
        if rounds is not None:
            _check_rounds(name, guards, rounds, 1, settings)
        return
    if rounds is None:
        others = [
            step.trigger
            for step in ring
            if step.trigger != name and graph.triggers[step.trigger].guards.acknowledge_cycle is None
        ]
        also = f"; for more than one round also in {', '.join(sorted(others))}" if others else ""
        raise Conflict(
            f"the trigger {name} closes a cycle",
            format_cycle(ring),
            f'make the pattern narrower, or accept it with a bound: guards={{"acknowledge_cycle": 1}}{also}',
        )
    _check_rounds(name, guards, rounds, len(ring), settings)
    # Any other trigger of the cycle that accepts none stops it at its own bound.
    others = {step.trigger: graph.triggers[step.trigger].guards for step in ring if step.trigger != name}
    lower = {
        other: own.max_revisits
        for other, own in sorted(others.items())
        if own.acknowledge_cycle is None and 0 < own.max_revisits < rounds
    }
    if lower:
        stops = ", ".join(f"{other} stops it after {bound}" for other, bound in lower.items())
        raise Conflict(
            f"the trigger {name} accepts {rounds} rounds of a cycle, but {stops}",
            format_cycle(ring),
            f'first give {", ".join(lower)} the same guards={{"acknowledge_cycle": {rounds}}}',
        )


def _check_limits(name: str, guards: Guards, settings: Settings) -> None:
    """Raise :class:`Invalid` for a limit above the setting that bounds it."""
    for guard, given, setting, most in (
        ("max_depth", guards.max_depth, "FUNCTORY_MAX_DEPTH", settings.max_depth),
        ("budget", guards.budget, "FUNCTORY_ROOT_BUDGET", settings.root_budget),
    ):
        if given is not None and given > most:
            raise Invalid(
                f"the guard {guard} {given} of the trigger {name} would have no effect",
                f"{setting} is {most}, and a trigger's own limit may only be lower",
                f"give at most {most}, or let the operator raise {setting}",
            )


def _check_rounds(name: str, guards: Guards, rounds: int, length: int, settings: Settings) -> None:
    """Raise :class:`Invalid` when the depth guard stops the accepted rounds of a cycle of this many triggers.

    A trigger with a ``max_depth`` of its own says that it is to stop there.
    """
    if guards.max_depth is None and rounds * length > settings.max_depth:
        each = f" of {length} executions each" if length > 1 else ""
        raise Invalid(
            f"the guard acknowledge_cycle {rounds} of the trigger {name} cannot be reached",
            f"{rounds} rounds{each} are deeper than FUNCTORY_MAX_DEPTH, {settings.max_depth}",
            f"give at most {settings.max_depth // length}, or a max_depth of its own, or let the operator raise "
            f"FUNCTORY_MAX_DEPTH to {rounds * length}",
        )


def format_cycle(ring: Sequence[Edge]) -> str:
    """A cycle as one line."""
    return " → ".join([*(step.text() for step in ring), ring[0].trigger])


@dataclass(frozen=True)
class _Wanted:
    """The parts of a pattern that an :class:`Emission` can match; None where the pattern takes anything."""

    type: Pattern | None
    subject: Pattern | None
    function: Pattern | None

    @classmethod
    def read(cls, on: Mapping[str, Any]) -> _Wanted:
        data = on.get("data")
        function = data.get("function") if isinstance(data, Mapping) else None
        return cls(
            _part("type", on.get("type")), _part("subject", on.get("subject")), _part("function", function)
        )

    def may_match(self, emission: Emission) -> bool:
        """Return False if no event of this emission can match."""
        if emission.certain and not _takes(self.type, "type", emission.type):
            return False
        if emission.subject is None:
            return True
        if emission.type.startswith(_ABOUT_FUNCTIONS) and not _takes(
            self.function, "function", emission.subject
        ):
            return False
        return _takes(self.subject, "subject", emission.subject)


def _part(name: str, values: Any) -> Pattern | None:
    try:
        return compile_pattern({name: values}) if isinstance(values, list) else None
    except FunctoryError:
        return None


def _takes(pattern: Pattern | None, name: str, value: str) -> bool:
    return pattern is None or pattern.matches({name: value})


def _parts(compiled: CompiledTrigger) -> list[_Wanted]:
    if compiled.composite is not None:
        return [_Wanted.read(part.on) for part in compiled.composite.firing_parts]
    return [_Wanted.read(compiled.row["definition"]["on"])]
