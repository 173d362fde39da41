"""Fields of a function from the command line: changed by a save, or kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from functory.cli.input import limit_options, values
from functory.engine.errors import Invalid

if TYPE_CHECKING:
    from functory.client.functory import Functory


def save(
    engine: Functory,
    text: str,
    *,
    name: str | None,
    fields: Mapping[str, Any],
    expected_version: int | None,
    activate: bool,
    force: bool,
    author: str | None,
) -> dict[str, Any]:
    """Save a source text. Returns the version's row with ``created``.

    A new function has exactly ``fields``. An existing one keeps every field that is not given;
    metadata, limits, output patterns and files are merged by name into what it has.
    """
    from functory.engine.errors import NotFound
    from functory.engine.functions.source import parser

    name = parser.parse(text, name).name
    by = author or engine.author
    try:
        base = engine.functions.get(name)
    except NotFound:
        return engine.functions.save(
            text,
            name=name,
            author=by,
            expected_version=expected_version,
            activate=activate,
            force=force,
            **fields,
        )
    changes = dict(fields)
    merged = {field: base[field] for field in ("metadata", "limits", "output_patterns")}
    for field, had in (merged | {"files": base["grants"].get("files", {})}).items():
        if field in changes:
            changes[field] = had | changes[field]
            # Merged fields are valid only on top of the version that they were merged with.
            expected_version = (base["active"] or 0) if expected_version is None else expected_version
    return engine.functions.update(
        name,
        source=text,
        author=by,
        expected_version=expected_version,
        activate=activate,
        force=force,
        **changes,
    )


def _absolute(path: str) -> str:
    """A path that begins in the current folder, from the root. One that goes up by .. is refused as it is written."""
    return path if path.startswith("/") or not path else os.path.join(os.getcwd(), os.path.normpath(path))  # noqa: PTH109, PTH118


def fields(
    *,
    dependencies: list[str] | None,
    secrets: list[str] | None,
    imports: list[str] | None,
    requirements: list[str] | None,
    permissions: list[str] | None,
    hosts: list[str] | None,
    models: list[str] | None,
    read: list[str] | None,
    write: list[str] | None,
    subprocess: bool | None,
    metadata: list[str] | None,
    patterns: list[str] | None,
    compensate: str | None,
    timeout: float | None,
    retries: int | None,
    limits: list[str] | None,
) -> dict[str, Any]:
    """The fields that were named; ``none`` as the only entry of a list empties it."""
    found: dict[str, Any] = {}
    for field, listed in (
        ("dependencies", dependencies),
        ("secrets", secrets),
        ("imports", imports),
        ("requirements", requirements),
        ("permissions", permissions),
        ("hosts", hosts),
        ("models", models),
    ):
        if listed:
            found[field] = [] if listed == ["none"] else listed
    files = {
        mode: [] if listed == ["none"] else [_absolute(path) for path in listed]
        for mode, listed in (("read", read), ("write", write))
        if listed
    }
    if files:
        found["files"] = files
    if subprocess is not None:
        found["subprocess"] = subprocess
    if metadata:
        found["metadata"] = values.parse_pairs(metadata, "--metadata")
    if patterns:
        found["output_patterns"] = values.parse_pairs(patterns, "--pattern")
    if compensate:
        found["compensate"] = None if compensate == "none" else compensate
    declared = limit_options.parse(limits or ())
    for name, value in (("timeout", timeout), ("retries", retries)):
        if value is not None and name in declared:
            raise Invalid(
                f"the limit {name} is given twice", f"by --{name} and by --limit", f"--{name} {value:g}"
            )
        if value is not None:
            declared[name] = value
    if declared:
        found["limits"] = declared
    return found
