"""``/trees``: the causal tree of an execution or event, in parts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from functory.api.access.rights import Caller, Operator, Viewer
from functory.api.engine import Engine
from functory.api.paging import StrictRoute
from functory.api.path_ids import TreeId, whole
from functory.api.problem_details import Forbidden
from functory.api.redaction import hide
from functory.engine.executions import root_budget, tree_reads
from functory.rows.trees import Budget, BudgetChange, Children, Outline, Tree, WholeTree

router = APIRouter(prefix="/trees", tags=["trees"], route_class=StrictRoute)

# What a node of the whole tree may hold of payloads, beside its error.
_PAYLOADS = (
    "subject",
    "data",
    "extensions",
    "dedup_key",
    "problem",
    "pattern",
    "detail",
    "input",
    "output",
    "result",
    "warnings",
    "idempotency_key",
)


@router.get("/{id_}", operation_id="trees.get", response_model=Tree)
def get(id_: TreeId, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """What the tree of an execution or event has started and touched, in numbers."""
    root = tree_reads.root_of(engine.database, id_, caller.labels)
    return tree_reads.summary(engine.database, root, caller.labels)


@router.get("/{id_}/nodes", operation_id="trees.nodes", response_model=WholeTree)
def nodes(id_: TreeId, engine: Engine, caller: Viewer, below: bool = False) -> dict[str, Any]:
    """The whole tree of an execution or event, or with ``below`` only what it caused: at most 5,000 rows of a kind."""
    if caller.labels is not None:
        raise Forbidden(
            "no labels", what="this shows the whole tree", why="you see a part of it", try_="read its outline"
        )
    found = engine.lineage.tree(id_, whole=not below)
    used, maximum = found.budget or (None, None)
    return {
        "root_id": found.root_id,
        "cut": found.truncated,
        "budget": {"used": used, "maximum": maximum} if found.budget else None,
        "nodes": [_whole_node(caller, node.as_json()) for node in found.nodes],
    }


@router.get("/{id_}/outline", operation_id="trees.outline", response_model=Outline)
def outline(
    id_: TreeId,
    engine: Engine,
    caller: Viewer,
    at: Annotated[
        str | None, Query(description="Only this event or execution and what is below it.", max_length=64)
    ] = None,
    budget: Annotated[int, Query(ge=1, le=tree_reads.MAX_BUDGET, description="Number of nodes.")] = 200,
) -> dict[str, Any]:
    """The tree from the top, or from a node, level by level; equal siblings beyond the first ones are one group."""
    at = whole(engine, caller, at, "execution", "event")
    found = tree_reads.outline(engine.database, id_, at=at, limit=budget, scope=caller.labels)
    return found | {name: _hidden(caller, found[name]) for name in ("path", "nodes")}


@router.get("/{id_}/children", operation_id="trees.children", response_model=Children)
def children(
    id_: TreeId,
    engine: Engine,
    caller: Viewer,
    of: Annotated[str, Query(description="The id of a node or group of the outline.", max_length=500)],
    after: Annotated[str | None, Query(description="The child to go on after.", max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """The direct children of a node, or the members of a group."""
    of = of if ":" in of else whole(engine, caller, of, "execution", "event") or of
    items, following = tree_reads.children(
        engine.database, id_, of=of, after=after, limit=limit, scope=caller.labels
    )
    return {"items": _hidden(caller, items), "next": following}


@router.patch("/{id_}/budget", operation_id="trees.budget", response_model=Budget)
def budget(id_: TreeId, body: BudgetChange, engine: Engine, caller: Operator) -> dict[str, Any]:
    """Change how many executions the tree may cause. What was suppressed stays suppressed."""
    root = tree_reads.root_of(engine.database, id_, caller.labels)
    return root_budget.change(engine.database, root, body.maximum, author=caller.name)


def _hidden(caller: Caller, nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [hide(caller, node, "about") for node in nodes]


def _whole_node(caller: Caller, node: dict[str, Any]) -> dict[str, Any]:
    shown = hide(caller, node, *_PAYLOADS)
    if not caller.reads_payloads and node.get("error"):
        shown["error"] = hide(caller, node["error"], *(set(node["error"]) - {"type"}))
    return shown | {"children": [_whole_node(caller, child) for child in node["children"]]}
