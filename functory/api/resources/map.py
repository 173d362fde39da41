"""The map: what can start what, as a whole or around one thing."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query

from functory.api.access.rights import Caller, Viewer
from functory.api.engine import Engine
from functory.api.paging import StrictRoute
from functory.client.functory import Functory
from functory.client.schedules import KIND as SCHEDULE
from functory.engine.errors import FunctoryError, NotFound
from functory.engine.functions import listing
from functory.engine.settings import Settings
from functory.rows.map import Map
from functory.triggers.analysis import trigger_map
from functory.triggers.analysis.cycle_guards import find_stop
from functory.triggers.analysis.cycles import Graph
from functory.triggers.analysis.emissions import Emission
from functory.triggers.analysis.trigger_map import SourceNode, TriggerMap
from functory.triggers.sources.registry import find_plugin

router = APIRouter(prefix="/map", tags=["map"], route_class=StrictRoute)


@router.get("", operation_id="map.get", response_model=Map)
def get(
    engine: Engine,
    caller: Viewer,
    around: Annotated[
        str | None,
        Query(description="The id of a node: trigger:NAME, function:NAME, event:TYPE, source:KIND/NAME."),
    ] = None,
    depth: Annotated[int, Query(ge=1, le=10, description="Steps from that node.")] = 2,
) -> dict[str, Any]:
    """Functions, triggers, event types and sources, and which of them may start which."""
    graph = engine.trigger_saves.stored_graph()
    sources = () if caller.labels is not None else tuple(_sources(engine))
    whole = _whole(graph, tuple(sorted(engine.trigger_saves.function_states().items())), sources)
    hidden = _hidden(engine, caller, whole)
    if around is not None and (around not in whole.nodes or around in hidden):
        raise NotFound(
            f"{around[:80]!r} is not on the map", "an id is a kind and a name", "for example trigger:NAME"
        )
    found = trigger_map.around(whole, around, depth, hidden)
    return {
        "nodes": [
            {"id": id_, "kind": kind, "name": name, "state": state}
            for id_, (kind, name, state) in found.nodes.items()
        ],
        "edges": [
            {"from": one.source, "to": one.target, "kind": one.kind, "certain": one.certain}
            for one in found.edges
        ],
        "cycles": [_cycle(ring, graph, engine.settings) for ring in found.cycles],
        "truncated": found.truncated,
    }


def _cycle(ids: Sequence[str], graph: Graph, settings: Settings) -> dict[str, Any]:
    """A cycle with the guards that stop it."""
    ring = [graph.triggers[id_.removeprefix("trigger:")] for id_ in ids if id_.startswith("trigger:")]
    return {
        "nodes": ids,
        "same_subject": asdict(find_stop(ring, settings, same_subject=True)),
        "other_subjects": asdict(find_stop(ring, settings, same_subject=False)),
    }


# The graph is the same object until a trigger or function changes.
@functools.lru_cache(maxsize=2)
def _whole(graph: Graph, states: tuple[tuple[str, str], ...], sources: tuple[SourceNode, ...]) -> TriggerMap:
    return trigger_map.build(graph, dict(states), sources)


def _sources(engine: Functory) -> Iterator[SourceNode]:
    for row in engine.sources.list():
        try:
            types = find_plugin(row["kind"]).types
        except FunctoryError:
            types = ()
        about = row["name"] if row["kind"] == SCHEDULE else None
        emissions = tuple(Emission(type_, about) for type_ in types if type_ != "*")
        yield SourceNode(row["kind"], row["name"], row["state"], emissions)


def _hidden(engine: Functory, caller: Caller, whole: TriggerMap) -> set[str]:
    """The functions and triggers outside of the caller's scope, and the events about such functions."""
    if caller.labels is None:
        return set()
    named = {
        kind: [name for one, name, _ in whole.nodes.values() if one == kind]
        for kind in ("function", "trigger")
    }
    functions = listing.visible_names(engine.database, named["function"], caller.labels)
    triggers = engine.triggers.visible_names(named["trigger"], caller.labels)
    hidden = {f"function:{name}" for name in named["function"] if name not in functions}
    hidden |= {f"trigger:{name}" for name in named["trigger"] if name not in triggers}
    return hidden | {
        id_
        for id_, (kind, _, _) in whole.nodes.items()
        if kind == "event" and "@" in id_ and id_.rpartition("@")[2] not in functions
    }
