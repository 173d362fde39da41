"""The map: functions, triggers, event types and sources as nodes, and which of them may start which. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from functory.triggers.analysis.cycles import Graph
from functory.triggers.analysis.emissions import ANY_TYPE, Emission

# More boxes than this cannot be read: the neighbourhood of one of them is shown instead.
MAX_NODES = 400
COMPUTED = "event:*"

# Adds an edge: source, target, kind.
AddEdge = Callable[[str, str, str], None]


@dataclass(frozen=True)
class MapEdge:
    """``source`` runs, emits, or starts ``target``. Not ``certain``: the code may do it."""

    source: str
    target: str
    kind: str
    certain: bool = True


@dataclass(frozen=True)
class SourceNode:
    """A source of events, with the events that it writes."""

    kind: str
    name: str
    state: str
    emissions: Sequence[Emission]


@dataclass
class TriggerMap:
    """Nodes by id (``function:ship``, ``event:order.placed``) with their kind, name and state; edges; cycles of ids."""

    nodes: dict[str, tuple[str, str, str | None]] = field(default_factory=dict)
    edges: list[MapEdge] = field(default_factory=list)
    cycles: list[list[str]] = field(default_factory=list)
    truncated: bool = False


def build(graph: Graph, function_states: Mapping[str, str], sources: Iterable[SourceNode] = ()) -> TriggerMap:
    """Return the whole map of a graph of triggers. A function that does not exist has the state ``missing``."""
    found = TriggerMap()
    edges: dict[tuple[str, str, str], bool] = {}

    def add(source: str, target: str, kind: str, certain: bool = True) -> None:
        edges[source, target, kind] = edges.get((source, target, kind), False) or certain

    for name, compiled in sorted(graph.triggers.items()):
        function = compiled.function.split("@")[0]
        found.nodes[f"trigger:{name}"] = ("trigger", name, compiled.row.state)
        found.nodes[f"function:{function}"] = ("function", function, function_states.get(function, "missing"))
        add(f"trigger:{name}", f"function:{function}", "runs")
    for steps in graph.edges.values():
        for step in steps:
            event = _event(found, step.emission)
            add(f"function:{step.function}", event, "emits", step.emission.certain)
            if step.emission.type != ANY_TYPE:
                add(event, f"trigger:{step.target}", "starts")
    for one in sources:
        id_ = f"source:{one.kind}/{one.name}"
        found.nodes[id_] = ("source", f"{one.kind}/{one.name}", one.state)
        for emission in one.emissions:
            for target in graph.listeners(emission):
                event = _event(found, emission)
                add(id_, event, "emits")
                add(event, f"trigger:{target}", "starts")
    _add_awaited(found, graph, {target for _, target, kind in edges if kind == "starts"}, add)
    found.edges = [
        MapEdge(source, target, kind, certain) for (source, target, kind), certain in edges.items()
    ]
    found.cycles = [
        [
            id_
            for step in ring
            for id_ in (f"trigger:{step.trigger}", f"function:{step.function}", _event_id(step.emission))
        ]
        for ring in graph.cycles()
    ]
    return found


def around(whole: TriggerMap, center: str | None, depth: int, hidden: Collection[str] = ()) -> TriggerMap:
    """Return the part of a map within ``depth`` steps of ``center``; all of it for None. Never more than
    :data:`MAX_NODES` nodes, the nearest first; ``hidden`` ones and events that only they have are left out.
    """
    edges = [one for one in whole.edges if one.source not in hidden and one.target not in hidden]
    neighbours: dict[str, list[str]] = defaultdict(list)
    for one in edges:
        neighbours[one.source].append(one.target)
        neighbours[one.target].append(one.source)
    if center is None:
        reached = [
            id_ for id_ in whole.nodes if id_ not in hidden and (id_ in neighbours or not _is_event(id_))
        ]
    else:
        reached = _within(center, depth, neighbours)
    kept = set(reached[:MAX_NODES])
    return TriggerMap(
        {id_: whole.nodes[id_] for id_ in whole.nodes if id_ in kept},
        [one for one in edges if one.source in kept and one.target in kept],
        [ring for ring in whole.cycles if kept.issuperset(ring)],
        len(reached) > MAX_NODES,
    )


def _within(center: str, depth: int, neighbours: Mapping[str, Sequence[str]]) -> list[str]:
    distance = {center: 0}
    waiting = deque([center])
    while waiting:
        here = waiting.popleft()
        if distance[here] == depth:
            continue
        for other in neighbours.get(here, ()):
            if other not in distance:
                distance[other] = distance[here] + 1
                waiting.append(other)
    return list(distance)


def _add_awaited(found: TriggerMap, graph: Graph, started: set[str], add: AddEdge) -> None:
    """Add the types that a trigger lists and that nothing here emits: they come from outside."""
    for name, compiled in graph.triggers.items():
        if f"trigger:{name}" not in started:
            for type_ in sorted(compiled.types or ()):
                add(_event(found, Emission(type_)), f"trigger:{name}", "starts")


def _event(found: TriggerMap, emission: Emission) -> str:
    id_ = _event_id(emission)
    name = emission.type if emission.subject is None else f"{emission.type} ({emission.subject})"
    found.nodes.setdefault(id_, ("event", "computed type" if id_ == COMPUTED else name, None))
    return id_


def _event_id(emission: Emission) -> str:
    about = "" if emission.subject is None or emission.type == ANY_TYPE else f"@{emission.subject}"
    return f"event:{emission.type}{about}"


def _is_event(id_: str) -> bool:
    return id_.startswith("event:")
