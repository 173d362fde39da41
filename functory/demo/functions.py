"""The functions of the licence watch, as a user would write them: ordinary Python, importable and testable.

:mod:`functory.demo.licence_watch` stores them. Inside an execution ``functory`` is the engine's own small module,
and ``read_headers`` is there by name because ``parse_metadata`` declares it as a dependency.
"""

from __future__ import annotations

from email.parser import HeaderParser
from pathlib import Path
from typing import Any


def read_headers(text: str) -> dict[str, list[str]]:
    """The header fields of a METADATA file, names in lower case, every value of each.

    The file has the form of an e-mail's head (Python packaging guide, "Core metadata specifications").
    """
    fields: dict[str, list[str]] = {}
    for name, value in HeaderParser().parsestr(text).items():
        fields.setdefault(name.lower(), []).append(str(value).strip())
    return fields


def parse_metadata(path: str) -> dict[str, Any]:
    """Name, version and licence of the package that a METADATA file is about; ``said_in`` names the field that
    contains the licence."""
    fields = read_headers(Path(path).read_text(encoding="utf-8", errors="replace"))
    found = {"package": fields["name"][0], "version": fields["version"][0], "licence": None, "said_in": None}
    for field in ("license-expression", "license"):
        # Some packages put the whole text of the licence here: its first line names it.
        lines = fields.get(field, [""])[0].splitlines()
        if lines and lines[0].strip() and lines[0].strip().upper() != "UNKNOWN":
            return found | {"licence": lines[0].strip()[:80], "said_in": field}
    for classifier in fields.get("classifier", []):
        if classifier.startswith("License :: "):
            return found | {"licence": classifier.split(" :: ")[-1], "said_in": "classifier"}
    return found


# Patterns of outputs of parse_metadata that become output.matched events.
PATTERNS = {
    "copyleft": {
        "licence": [
            {"wildcard": f"*{word}*"}
            for word in ("GPL", "GNU", "MPL", "Mozilla", "EPL", "Eclipse", "EUPL", "CDDL")
        ]
    },
    "missing": {"licence": [None]},
}


def review_licence(found: dict[str, Any], pattern: str) -> dict[str, Any]:
    """Return a verdict about a licence that a pattern has found: one row of the report."""
    licence = found["licence"] or "none named"
    if pattern == "missing":
        verdict = "ask the author before you use it"
    elif any(word in licence for word in ("LGPL", "Lesser", "MPL", "Mozilla", "EPL", "Eclipse", "CDDL")):
        verdict = "use it as it is; publish changes of its files"
    else:
        verdict = "ask before you distribute a work with it"
    return {"package": found["package"], "version": found["version"], "licence": licence, "verdict": verdict}


def validate_parse_metadata(event: dict[str, Any]) -> dict[str, Any]:
    """Run the version of an event on the stored samples. Raises at the first wrong result."""
    from functory import call, state

    version = event["data"]["version"]
    samples = state.get("samples", [])
    if not samples:
        raise LookupError("no samples are stored, so nothing can be said about this version")
    for sample in samples:
        found = call(f"parse_metadata@{version}", sample["path"])
        if found != sample["expected"]:
            raise ValueError(f"version {version} reads {found}, expected {sample['expected']}")
    return {"version": version, "samples": len(samples)}


def roll_back(event: dict[str, Any]) -> dict[str, Any]:
    """Activate the previous version of a function whose validation has failed."""
    from functory import functions

    back = functions.rollback(event["data"]["function"].removeprefix("validate_"))
    return {"function": back["name"], "active": back["active"]}


def licence_report(event: dict[str, Any]) -> dict[str, Any]:
    """Store each review; when the schedule is due, write all reviews into a file as a table."""
    from functory import state

    rows = state.get("rows", {})
    if event["type"] != "schedule.due":
        row = event["data"]["output"]
        state.set("rows", rows | {row["package"]: row})
        return {"packages": len(rows | {row["package"]: row})}
    table = [["package", "version", "licence", "verdict"]]
    table += [
        [str(cell).replace("|", "\\|") for cell in rows[name].values()]
        for name in sorted(rows, key=str.lower)
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    table.insert(1, ["-" * width for width in widths])
    lines = ["# Licences that need a look", ""]
    for cells in table:
        lines.append("| " + " | ".join(map(str.ljust, cells, widths)) + " |")
    # Renamed into its place: a reader sees the old file or the new one.
    file = Path(event["data"]["data"]["file"])
    fresh = file.with_name(f"{event['id']}.part")
    fresh.write_text("\n".join(lines) + "\n", encoding="utf-8")
    fresh.replace(file)
    return {"packages": len(rows)}
