"""Proposals and policies of the gate, as commands print them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from functory.terminal.console import format_time

_PROPOSAL = (
    "id", "function", "version", "base_version", "state", "reason", "description", "tests", "is_ephemeral", "rules",
    "policies", "rights", "author", "root_id", "run_id", "execution_id", "created_at", "expires_at", "ended_at",
)  # fmt: skip
_CHECK = ("name", "state", "report", "tries", "seconds", "updated_at")
_DECISION = ("id", "state", "decided_by", "feedback", "requested_at", "decided_at")
_POLICY = ("name", "number", "applies_to", "rules", "author", "created_at")
# Lines of one check: a report may have a hundred tests.
MAX_LINES = 12
_STYLES = {
    "passed": "green", "active": "green", "failed": "red", "rejected": "red", "rolled_back": "red",
    "warned": "yellow", "waiting": "yellow",
}  # fmt: skip


def public(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a proposal as JSON."""
    found = {name: row[name] for name in _PROPOSAL if name in row}
    if "checks" in row:
        found["checks"] = [{name: one[name] for name in _CHECK} for one in row["checks"]]
        found["decisions"] = [{name: one[name] for name in _DECISION} for one in row["decisions"]]
    return found


def public_policy(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy as JSON."""
    return {name: row[name] for name in _POLICY}


def in_list(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a proposal as a row of a list."""
    base = f"v{row['base_version']}" if row["base_version"] else "new"
    return {
        **row,
        "change": f"{base} → v{row['version']}",
        "state": row["state"].replace("_", " "),
        "effect": row["rights"]["effect"],
        "description": (row["reason"] or row["description"]).split("\n")[0],
    }


def record(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the head of a proposal."""
    rights = row["rights"]
    shown = {
        "id": row["id"],
        "function": f"{row['function']} v{row['version']}",
        "replaces": f"v{row['base_version']}" if row["base_version"] else None,
        "state": row["state"].replace("_", " "),
        "reason": row["reason"],
        "description": row["description"] or None,
        "effect": rights["effect"],
        "new rights": _rights(rights["adds"]),
        "given up": _rights(rights["removes"]),
        "new packages": ", ".join(rights["packages"]) or None,
        "linked into": ", ".join(rights["dependents"]) or None,
        "author": row["author"],
        "run": row["run_id"],
        "made": format_time(row["created_at"]),
        "until": None if row["ended_at"] else format_time(row["expires_at"]),
        "decided": ", ".join(map(_decision, row["decisions"])) or None,
    }
    return {name: value for name, value in shown.items() if value is not None}


def check_lines(check: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the lines of a check, each with its style."""
    report = check["report"]
    yield (
        f"{check['state']:<8} {check['name']}{_summary(check['name'], report)}",
        _STYLES.get(check["state"], "dim"),
    )
    lines = list(_details(check["name"], report))
    for line in lines[:MAX_LINES]:
        yield f"         {line}", ""
    if len(lines) > MAX_LINES:
        yield f"         … and {len(lines) - MAX_LINES} more", "dim"


def rules_record(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return rules as fields."""
    canary = rules["canary"]
    return {
        "tests": rules["tests"],
        "mutants": f"{rules['mutants']:.0%} must be seen",
        **{f"approval {name}": value for name, value in rules["approval"].items()},
        "canary": f"{canary:.0%} first" if canary else "none",
        "days": rules["days"],
    }


def applies_to(row: Mapping[str, Any]) -> str:
    """Say to which functions a policy applies."""
    named = row["applies_to"]
    found = [*named.get("functions", []), *(f"label {label}" for label in named.get("labels", []))]
    return ", ".join(found) or "all functions"


def _summary(name: str, report: Mapping[str, Any]) -> str:
    if name == "tests" and "passed" in report:
        total = report["passed"] + report["failed"] + report["unknown"]
        base = report.get("base") or {}
        known = "passed" in base
        before = f"; v{base['version']} passes {base['passed']}" if known else ""
        return f": {report['passed']} of {total} pass{before}"
    if name == "mutants" and "made" in report:
        return f": {report['seen']} of {report['made']} faults are seen, {report['needed']:.0%} are needed"
    return f": {report['problem']}" if "problem" in report else ""


def _details(name: str, report: Mapping[str, Any]) -> Iterator[str]:
    if name == "tests":
        for one in report.get("tests", ()):
            if one["verdict"] != "passed":
                yield f"{one['verdict']}: {one['name']}: {one['message']}"
    elif name == "mutants":
        if "problem" in report and "made" in report:
            yield report["problem"]
        for one in report.get("unseen", ()):
            yield f"not seen: line {one['line']}: {one['fault']}"
    elif name == "static":
        yield from report.get("warnings", ())
        for one in report.get("findings", ()):
            yield f"{one['kind']}: {one['message']}"


def _rights(items: Sequence[Sequence[str]]) -> str | None:
    return ", ".join(f"{kind} {value}".rstrip() for kind, value in items) or None


def _decision(row: Mapping[str, Any]) -> str:
    if row["state"] == "pending":
        return "waits for a person"
    words = f"{row['state']} by {row['decided_by']}" if row["decided_by"] else row["state"]
    return f"{words} ({row['feedback']})" if row["feedback"] else words
