"""Draws a causal tree: events, the triggers that fired or were stopped, executions, and calls in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from functory.engine.names import author_in_words
from functory.engine.serialization.control_characters import one_line
from functory.explanations.executions import error_summary
from functory.terminal import console, json_fields
from functory.terminal.console import STYLES, CommandOutput

if TYPE_CHECKING:
    from functory.client.functory import Functory
    from functory.engine.executions.lineage import Node, Tree

StyledText = tuple[str, str]

_MARKS = {"succeeded": "✓", "running": "▶", "queued": "…"}


def draw(
    engine: Functory, id_: str, out: CommandOutput, *, whole: bool = True, show_all: bool = False
) -> str:
    """Print the tree that an event or execution belongs to; only what is below it unless ``whole``. Returns the id of
    its root.

    ``show_all`` also shows the engine's own events that started nothing, which are most of them.
    Raises :class:`NotFound`.
    """
    found = engine.lineage.tree(id_, whole=whole)
    if out.json:
        out.value(as_json(found))
        return found.root_id
    if out.quiet:
        out.lines(
            node.id for top in found.nodes for node in top.walk() if node.kind in ("event", "execution")
        )
        return found.root_id
    nodes = (
        found.nodes if show_all else [node for node in found.nodes if _is_worth_showing(node)] or found.nodes
    )
    if out.is_terminal:
        _draw_rich(out, nodes, show_all, id_)
    else:
        for node in nodes:
            out.lines(_text_lines(node, show_all, "", ""))
    if found.truncated:
        console.warn("the tree is larger than what is shown")
    if found.budget is not None:
        used, maximum = found.budget
        console.note(f"{used} of at most {maximum} executions caused by root {found.root_id}")
    return found.root_id


def as_json(found: Tree) -> dict[str, Any]:
    """The tree as nested data."""
    used, maximum = found.budget or (None, None)
    return {
        "root_id": found.root_id,
        "cut": found.truncated,
        "budget": {"used": used, "maximum": maximum} if found.budget else None,
        "nodes": [node.as_json() for node in found.nodes],
    }


def label(node: Node) -> list[StyledText]:
    """The text of a node, for one line."""
    row = node.row
    if node.kind == "event":
        return _event(row)
    if node.kind == "execution":
        return _execution(row)
    if node.kind == "suppressed":
        return _suppressed(row)
    if node.kind == "joined":
        return _joined(row)
    return _span(row)


def visible_children(node: Node, show_all: bool) -> Sequence[Node]:
    """Return the children to show: all but the engine's events that started nothing."""
    return node.children if show_all else [child for child in node.children if _is_worth_showing(child)]


def _is_worth_showing(node: Node) -> bool:
    lifecycle = node.kind == "event" and node.row["type"].startswith(("execution.", "trigger.suppressed"))
    return not lifecycle or bool(node.children)


def _event(row: Mapping[str, Any]) -> list[StyledText]:
    parts = [("event ", "dim"), (row["type"], "bold")]
    if row["pattern"]:
        parts.append((f" {row['pattern']}", "bold"))
    if row["subject"]:
        parts.append((f" {row['subject']}", ""))
    if row["state"] != "routed":
        parts.append((f" {row['state']}", STYLES.get(row["state"], "")))
    return [*parts, (f"  {row['id']}", "dim")]


def _execution(row: Mapping[str, Any]) -> list[StyledText]:
    state = row["state"]
    style = STYLES.get(state, "")
    parts = [
        (f"{_MARKS.get(state, '✗')} ", style),
        (row["function"], "bold"),
        (f" v{row['version']}", ""),
        (f" {state}", style),
    ]
    took = json_fields.duration(row)
    if took is not None:
        parts.append((f" in {console.format_duration(took)}", ""))
    if row["attempt"] > 1:
        parts.append((f", attempt {row['attempt']}", "yellow"))
    if row.get("trigger"):
        parts.append((f"  trigger {row['trigger']} v{row['trigger_version']}", "cyan"))
    if row.get("event_count"):
        parts.append((f" by {row['event_count']} events", "cyan"))
    if row["cause"] == "compensation":
        what = (
            f"undoes {row['undoes']} {row['undoes_id']}" if row.get("undoes") else "compensation, tried again"
        )
        parts.append((f"  ↩ {what}", "cyan"))
    if row["cause"] == "replay":
        parts.append((f"  replay of {row['replay_of']}", "cyan"))
    if row.get("resolved_by"):
        parts.append((f"  resolved by {row['resolved_by']}", "green"))
    if row.get("ends_with_parent") is False:
        parts.append(("  abandoned by its parent", "dim"))
    if row.get("cancelled_by") and state == "running":
        parts.append((f"  is being cancelled by {author_in_words(row['cancelled_by'])}", "yellow"))
    if row["error"] and state != "succeeded":
        parts.append((f"  {error_summary(row['error'])}", "red"))
    return [*parts, (f"  {row['id']}", "dim")]


def _suppressed(row: Mapping[str, Any]) -> list[StyledText]:
    parts = [
        ("⊘ ", "yellow"),
        (f"trigger {row['trigger'] or row['trigger_id']} v{row['trigger_version']}", ""),
        (f" suppressed: {row['reason']}", "yellow"),
    ]
    if row["limit_value"] is not None:
        parts.append((f" (limit {row['limit_value']}, value {row['actual_value']})", "yellow"))
    if row["detail"]:
        parts.append((f"  {row['detail'].splitlines()[0]}", ""))
    return parts


def _joined(row: Mapping[str, Any]) -> list[StyledText]:
    """Describe an event of a batch whose execution is shown below another event."""
    return [
        ("→ ", "cyan"),
        (f"trigger {row['trigger'] or row['trigger_id']} v{row['trigger_version']}", "cyan"),
        (" fired with other events: execution ", ""),
        (row["execution_id"], "dim"),
        (" (pruned)" if row.get("pruned") else "", "yellow"),
    ]


def _span(row: Mapping[str, Any]) -> list[StyledText]:
    took = (
        "not finished"
        if row["duration_seconds"] is None
        else console.format_duration(row["duration_seconds"])
    )
    parts = [
        ("call ", "dim"),
        (row["function"], ""),
        (f" v{row['version']}  {took} at +{console.format_duration(row['offset_seconds'])}", "dim"),
    ]
    if row["error"]:
        parts.append((f"  {error_summary(row['error'])}", "red"))
    return parts


def _text_lines(node: Node, show_all: bool, first: str, rest: str) -> list[str]:
    lines = [first + one_line("".join(text for text, _ in label(node)))]
    below = visible_children(node, show_all)
    for place, child in enumerate(below, 1):
        last = place == len(below)
        lines += _text_lines(
            child, show_all, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  ")
        )
    return lines


def _draw_rich(out: CommandOutput, nodes: Sequence[Node], show_all: bool, chosen: str) -> None:
    from rich.text import Text
    from rich.tree import Tree

    def text(node: Node) -> Text:
        drawn = Text.assemble(*((one_line(words), style) for words, style in label(node)))
        if node.id == chosen:
            drawn.append("  ◀", "bold cyan")
        return drawn

    for top in nodes:
        drawn = Tree(text(top), guide_style="dim")
        waiting = [(top, drawn)]
        while waiting:
            node, branch = waiting.pop()
            waiting.extend([(child, branch.add(text(child))) for child in visible_children(node, show_all)])
        out.console().print(drawn)
