"""Cycle analysis before anything runs: trigger → function → its possible events → the triggers that they may fire.

The possible events are those of :mod:`functory.triggers.analysis.emissions`. Edges of a computed type are shown, but
prove nothing.

The guards at run time stay necessary: code can emit unforeseen events.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functory.engine.errors import Conflict, FunctoryError, Invalid
from functory.engine.functions import dependencies
from functory.engine.settings import Settings
from functory.triggers.analysis.emissions import Emission, emissions
from functory.triggers.definition import CompiledTrigger, Guards
from functory.triggers.index import Index
from functory.triggers.patterns import Pattern, compile_pattern

# Of patterns, for one graph; some seconds. Further ones say nothing new: the guards at run time stop a loop anyway.
MOST_TESTS = 2_000_000
# Of a graph that is shown.
MOST_EDGES = 200_000

# Events of these types say in data.function which function they are about: their subject.
_ABOUT_FUNCTIONS = ("execution.", "function.", "output.")


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


class Graph:
    """The edges between triggers, and the cycles among them. For any thread.

    What a function emits is matched when it is asked for, and once, however many triggers run the function. The tests
    of patterns are bounded by :data:`MOST_TESTS`: the rest is not looked at, and :attr:`complete` is False.
    """

    def __init__(
        self,
        triggers: Sequence[CompiledTrigger],
        functions: Mapping[str, Mapping[str, Any]],
        observed: Mapping[str, Iterable[str]],
    ) -> None:
        self.triggers = {compiled.name: compiled for compiled in triggers}
        self.complete = True
        """False when not every event of every function that was asked for was matched."""
        self._functions = functions
        self._observed = observed
        self._parts = {compiled.name: _parts(compiled) for compiled in triggers}
        self._function_of = {
            compiled.name: dependencies.parse_reference(compiled.function)[0] for compiled in triggers
        }
        # Triggers by what their pattern wants of the type; those that want nothing of it.
        self._by_type = Index()
        self._of_any_type: set[str] = set()
        for name, parts in self._parts.items():
            for number, part in enumerate(parts):
                if part.type is None:
                    self._of_any_type.add(name)
                else:
                    self._by_type.add((name, number), part.type)
        self._positions = {name: number for number, name in enumerate(self._parts)}
        self._steps: dict[str, list[tuple[Emission, list[str]]]] = {}
        self._firsts: dict[str, dict[str, list[Emission]]] = {}
        self._tests_left = MOST_TESTS
        self._lock = threading.RLock()

    @functools.cached_property
    def edges(self) -> dict[str, list[Edge]]:
        """All edges by trigger. Raises :class:`Invalid` for more than :data:`MOST_EDGES`."""
        found: dict[str, list[Edge]] = {}
        number = 0
        for name, function in self._function_of.items():
            steps = self._steps_of(function)
            number += sum(len(targets) for _, targets in steps)
            if number > MOST_EDGES or not self.complete:
                raise Invalid(
                    "the graph of all triggers is too large to be shown",
                    f"each type that a function emits leads to all triggers that take it: over {MOST_EDGES:,} edges",
                    "make patterns of the type narrower: an exact type, or a longer prefix",
                )
            found[name] = [
                Edge(name, function, emission, target) for emission, targets in steps for target in targets
            ]
        return found

    def listeners(self, emission: Emission) -> list[str]:
        """The triggers that an event may start."""
        with self._lock:
            return self._listeners(emission)

    def _listeners(self, emission: Emission) -> list[str]:
        if not emission.certain:
            candidates = set(self._parts)
        else:
            by_type = {name for name, _ in self._by_type.match({"type": emission.type})}
            self._tests_left -= self._by_type.tested + 1
            candidates = by_type | self._of_any_type
        if emission.subject is not None:
            candidates = {
                name for name in candidates if any(part.may_match(emission) for part in self._parts[name])
            }
        self._tests_left -= len(candidates)
        return sorted(candidates, key=self._positions.__getitem__)

    def _steps_of(self, function: str) -> list[tuple[Emission, list[str]]]:
        """Return what a function may emit, in order, each with the triggers that it may start."""
        with self._lock:
            if function not in self._steps:
                found: list[tuple[Emission, list[str]]] = []
                emitted = emissions(function, self._functions, self._observed)
                for emission in sorted(emitted, key=lambda one: (one.type, one.subject or "")):
                    if self._tests_left <= 0:
                        self.complete = False
                        break
                    found.append((emission, self._listeners(emission)))
                self._steps[function] = found
            return self._steps[function]

    def _firsts_of(self, function: str) -> dict[str, list[Emission]]:
        """Return the triggers that a function may start, each with its first emission and its first certain one."""
        if function not in self._firsts:
            found: dict[str, list[Emission]] = {}
            for emission, targets in self._steps_of(function):
                for target in targets:
                    known = found.setdefault(target, [])
                    if not known or (emission.certain and not known[-1].certain):
                        known.append(emission)
            self._firsts[function] = found
        return self._firsts[function]

    def cycle(self, name: str, *, certain: bool = True) -> list[Edge] | None:
        """The shortest cycle through trigger ``name``, as its steps; None when there is none.

        With ``certain``, edges of computed types are left out. A trigger that only matches its own events is no cycle:
        the guard for own events stops it at once, unless it has ``allow_self``.
        """
        # The triggers in the order of their distance, each with the edge that led to it.
        came: dict[str, Edge] = {}
        reached = [name]
        for here in reached:
            function = self._function_of[here]
            for target, firsts in self._firsts_of(function).items():
                emission = firsts[-1] if certain else firsts[0]
                if certain and not emission.certain:
                    continue
                if target == name and (here != name or self.triggers[name].guards.allow_self):
                    return _ring(came, Edge(here, function, emission, target))
                if target not in came and target not in (here, name):
                    came[target] = Edge(here, function, emission, target)
                    reached.append(target)
        return None

    def cycles(self) -> list[list[Edge]]:
        """The shortest cycle through each trigger that is part of one; each cycle once."""
        found: dict[frozenset[str], list[Edge]] = {}
        for name in sorted(self.triggers):
            ring = self.cycle(name)
            if ring is not None:
                found.setdefault(frozenset(step.trigger for step in ring), ring)
        return list(found.values())


def _ring(came: Mapping[str, Edge], last: Edge) -> list[Edge]:
    """Return the steps from a trigger back to itself."""
    ring = [last]
    while (before := came.get(ring[-1].trigger)) is not None:
        ring.append(before)
    return ring[::-1]


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
    return [_Wanted.read(compiled.row.definition["on"])]
