"""A function version on the terminal: as ``functory function show`` prints it, and after it was saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from functory.cli import session
from functory.cli.output import execution_result, hints
from functory.terminal import console
from functory.terminal.console import CommandOutput

if TYPE_CHECKING:
    from functory.client.functory import Functory


def draw(
    out: CommandOutput,
    row: Mapping[str, Any],
    versions: Sequence[Mapping[str, Any]],
    *,
    dependencies: Sequence[Mapping[str, Any]],
    missing_secrets: Sequence[str],
    granted: Iterable[str],
    pending: Iterable[str],
    used_by: Sequence[str],
    annotation: Mapping[str, Any] | None,
    record: str | None,
) -> None:
    """Print one version, and the list of all versions.

    ``dependencies`` have ``exists``; ``granted`` and ``pending`` are grants in force and grants that an operator must
    allow first. ``annotation`` is its description besides the version, ``record`` its track record."""
    active = (
        "active"
        if row["active"] == row["number"]
        else f"active is v{row['active']}"
        if row["active"]
        else "none is active"
    )
    out.styled((f"{row['name']} v{row['number']}", "bold"), (f"   {row['state']}, {active}", ""))
    out.record(
        {
            "saved": f"{console.format_time(row['created_at'])} by {row['author']}",
            "description": _described(row, annotation),
            "record": record,
            "sha256": row["sha256"],
            "imports": ", ".join(map(str, row["imports"])) or None,
            "requirements": ", ".join(row["requirements"]) or None,
            "modules": ", ".join(row["modules"]) or None,
            "environment": row["environment_error"] or row["environment"],
            "needs": ", ".join(
                dependency_name(d) + ("" if d["exists"] else " (does not exist)") for d in dependencies
            )
            or None,
            "used by": ", ".join(used_by) or None,
            "compensated by": row["compensate"],
            "secrets": ", ".join(s + (" (not set)" if s in missing_secrets else "") for s in row["secrets"])
            or None,
            "permissions": ", ".join(row["permissions"]) or None,
            "may use": "\n".join(granted) or None,
            "waits for approval": "\n".join(pending) or None,
            "process": _process(row),
            "log policy": row["log_policy"],
            "metadata": row["metadata"] or None,
            "limits": row["limits"] or None,
            "patterns": row["output_patterns"] or None,
            "input": _schema(row["input_schema"]),
            "output": _schema(row["output_schema"]),
        }
    )
    for warning in row["warnings"]:
        out.styled(("warning when it was saved: ", "yellow"), (warning, ""))
    _findings(out, row["findings"])
    out.title("source")
    out.code(row["source"])
    out.title("versions")
    for version in versions:
        mark = "active" if version["number"] == version["active"] else ""
        bad = f" {version['mark']['mark']}: {version['mark']['reason']}" if version["mark"] else ""
        out.styled(
            (f"v{version['number']:<5}", ""),
            (f"{console.format_time(version['created_at'])}  {version['author']:<12} ", "dim"),
            (mark, "green"),
            (bad, "red" if bad.startswith(" bad") else "green"),
        )


def _findings(out: CommandOutput, findings: Sequence[Mapping[str, Any]]) -> None:
    from functory.engine.functions.analysis.findings import summary

    if not findings:
        return
    out.title("findings")
    styles = {"danger": "bold red", "warning": "yellow"}
    explained: set[str] = set()
    for finding in findings:
        out.styled(
            (f"{finding['severity']:<9}", styles.get(finding["severity"], "dim")),
            (summary(finding), ""),
        )
        # The advice is the same for all of a kind: it is said once.
        if finding["kind"] not in explained:
            explained.add(finding["kind"])
            for line in hints.in_message(finding["message"]).split("\n")[1:]:
                out.styled((f"{'':<9}{line}", "dim"))


def _process(row: Mapping[str, Any]) -> str:
    """Say whether the process of an execution runs the next one."""
    from functory.engine.access.grants import RIGHTS, Grants
    from functory.engine.functions.process_reuse import declared_reuse

    reuse = declared_reuse(row["reuse"], row["declared"])
    if reuse:
        return "kept for the next execution (reuse=True)"
    if reuse is False:
        return "a new one for each execution (reuse=False)"
    if Grants.declared(row["grants"], row["secrets"], row["permissions"]).only(RIGHTS):
        return "a new one for each execution, for its rights"
    return "kept for the next execution if it was left as it was"


def dependency_name(dependency: Mapping[str, Any]) -> str:
    """A stored dependency as users write it: name, or name@3."""
    return dependency["name"] + (f"@{dependency['pin']}" if dependency["pin"] else "")


def _described(row: Mapping[str, Any], annotation: Mapping[str, Any] | None) -> str | None:
    if annotation is None:
        return description(row) or None
    return f"{annotation['value']} (by {annotation['author']})"


def description(row: Mapping[str, Any]) -> str:
    """Return the description from the metadata."""
    found = row["metadata"].get("description")
    return found if isinstance(found, str) else ""


def _schema(schema: Mapping[str, Any] | None) -> str | None:
    """A schema on one line: its parameters when it has some, else the JSON."""
    if not schema:
        return None
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return console.short_json(schema, 200)
    needed = schema.get("required", ())
    words = []
    for name, kind in properties.items():
        type_ = kind.get("type") if isinstance(kind, Mapping) else None
        words.append(
            name
            + (f": {type_ if isinstance(type_, str) else '|'.join(type_)}" if type_ else "")
            + ("" if name in needed else " (optional)")
        )
    return ", ".join(words) or "nothing"


def as_json(engine: Functory, name: str, number: int | None = None) -> dict[str, Any]:
    """A version of a function as the API has it; without a number the active one, or the newest."""
    from functory.rows.functions import Function

    return Function.as_json(session.read_models(engine).function(name, number))


def print_saved(engine: Functory, row: Mapping[str, Any], out: CommandOutput) -> None:
    """Print a saved version with its warnings. Raises :class:`FunctoryError` when it could not be activated."""
    from functory.engine.errors import FunctoryError
    from functory.engine.functions.analysis.findings import summary

    for warning in (*row["warnings"], *engine.pending(row), *engine.trigger_saves.broken_by(row)):
        console.warn(warning)
    for finding in row["findings"]:
        console.warn(summary(finding))
    if row["findings"]:
        console.note(f"why, and what to do: functory function show {row['name']}@{row['number']}")
    other = f"active is v{row['active']}" if row["active"] else "none is active"
    active = "" if row["active"] == row["number"] else f" ({other})"
    if out.json:
        out.value(as_json(engine, row["name"], row["number"]) | {"created": row["created"]})
    elif out.quiet:
        out.lines([f"{row['name']}@{row['number']}"])
    elif row["created"]:
        out.styled((f"saved {row['name']} v{row['number']}{active}", ""))
    else:
        out.styled((f"{row['name']} v{row['number']} is unchanged{active}", ""))
    if row["environment_error"]:
        raise FunctoryError(
            f"{row['name']} v{row['number']} is saved, but its packages are missing: it cannot be activated",
            row["environment_error"],
            f"functory environment build {row['name']}@{row['number']}",
        )
    if row["inactive_reason"]:
        imports = [
            found["detail"]
            for found in row["findings"]
            if found["kind"] == "undeclared_import" and not found["detail"].startswith(".")
        ]
        options = " ".join(f"--import {module}" for module in dict.fromkeys(imports))
        mend = f"save it with {options}" if imports else "mend it and save it again"
        raise FunctoryError(
            f"{row['name']} v{row['number']} is saved, but not active",
            row["inactive_reason"],
            f"{mend}, or functory function activate {row['name']}@{row['number']} --force",
        )
    if row["created"] and not engine.workers_alive() and _fires_trigger(engine, row["name"]):
        execution_result.warn_without_workers(engine, "no trigger fires on this")


def _fires_trigger(engine: Functory, name: str) -> bool:
    """True when a trigger that is not paused takes the events of a save of this function."""
    from functory.engine.flow_control import trigger_row
    from functory.triggers.analysis.cycles import Graph
    from functory.triggers.analysis.emissions import Emission
    from functory.triggers.definition import compile_definition

    rows = [row for row in engine.triggers.list() if row["state"] == "enabled"]
    graph = Graph([compile_definition(trigger_row.from_mapping(row)) for row in rows], {}, {})
    types = ("function.created", "function.updated", "function.activated")
    return any(graph.listeners(Emission(type_, name)) for type_ in types)
