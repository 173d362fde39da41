"""Dependencies of a function as a tree, as they resolve now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from functory.engine.errors import NotFound
from functory.terminal.console import CommandOutput

if TYPE_CHECKING:
    from functory.client.functory import Functory


def build_tree(
    engine: Functory, row: Mapping[str, Any], pin: int | None = None, ancestors: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the tree below a version: ``name``, ``version`` (None: it does not exist), ``pin``, ``needs``.

    ``ancestors`` are the names above it: a cycle, which only an old version can be part of, is cut.
    """
    found: list[dict[str, Any]] = []
    for needed in row["dependencies"]:
        if needed["name"] in ancestors:
            continue
        try:
            below = engine.functions.get(needed["name"], needed["pin"])
        except NotFound:
            found.append({"name": needed["name"], "version": None, "pin": needed["pin"], "needs": []})
            continue
        found.append(build_tree(engine, below, needed["pin"], (*ancestors, row["name"])))
    return {"name": row["name"], "version": row["number"], "pin": pin, "needs": found}


def walk(node: Mapping[str, Any], depth: int = 0) -> list[tuple[int, Mapping[str, Any]]]:
    """Return (depth, node) of the whole tree, parents first."""
    return [(depth, node), *(pair for below in node["needs"] for pair in walk(below, depth + 1))]


def dependency_exists(engine: Functory, dependency: Mapping[str, Any]) -> bool:
    """True when a stored dependency resolves now."""
    try:
        engine.functions.get(dependency["name"], dependency["pin"])
    except NotFound:
        return False
    return True


def print_tree(top: Mapping[str, Any], users: Sequence[str], out: CommandOutput) -> None:
    """Print the tree below ``top``, and its dependents."""
    if out.json:
        out.value(dict(top) | {"used_by": users})
        return
    for depth, node in walk(top):
        missing = (" does not exist", "red") if node["version"] is None else (f" v{node['version']}", "dim")
        out.styled(
            ("   " * depth + ("└▶ " if depth else "") + node["name"], ""),
            missing,
            (" pinned" if node.get("pin") else "", "yellow"),
        )
    if users:
        out.styled(("used by: " + ", ".join(users), "dim"))
