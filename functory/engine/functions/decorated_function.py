"""A decorated function as a save takes it: its source text, its declared fields, and what to warn about afterwards."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from functory.engine.functions import declaration, dependencies
from functory.engine.functions.analysis import findings
from functory.engine.functions.limits import Limits
from functory.engine.functions.source import modules, parser
from functory.engine.functions.source.capture import capture_source


def text_and_fields(target: Callable[..., Any], declared: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the source text of a function and its fields for a save. Raises :class:`Invalid`.

    Limits may be declared plainly. ``lib`` is a folder relative to the function's file: the modules of it that the
    function imports come along.
    """
    named = frozenset(one.name for one in dependencies.parse(declared.get("dependencies")))
    text, made = capture_source(target, named), collect_limits(declared)
    if (lib := made.pop("lib", None)) is not None:
        folder = Path(inspect.getfile(target)).parent / lib
        made["modules"] = modules.reachable(text, modules.ModuleFolder(folder))
    return text, made


def check(text: str, fields: Mapping[str, Any]) -> str:
    """Check what :func:`text_and_fields` has made as a save does, as far as that needs no database. Returns the name
    of the function. Raises :class:`Invalid`.
    """
    # Here: a client of a server needs no database, and uses the rest of this module.
    from functory.engine.functions.registry import Functions

    of_save = inspect.signature(Functions.save).parameters
    declaration.parse({key: value for key, value in fields.items() if key not in of_save})
    return parser.parse(text, fields.get("name")).name


def collect_limits(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``declared`` with the limits that are written plainly (``timeout=30``) in ``limits``."""
    known = {field.name for field in fields(Limits)}
    plain = {key: value for key, value in declared.items() if key in known}
    rest = {key: value for key, value in declared.items() if key not in known}
    if plain:
        rest["limits"] = {**(rest.get("limits") or {}), **plain}
    return rest


def warnings_of(
    row: Mapping[str, Any], pending: Iterable[str], broken: Iterable[str]
) -> Iterator[tuple[str, type[Warning]]]:
    """Give each warning about a saved version: ``pending`` grants, findings, triggers that are ``broken`` by it."""
    called = f"{row['name']} v{row['number']}"
    for text in (*pending, *row["warnings"], *map(findings.summary, row["findings"]), *broken):
        yield f"{called}: {text}", UserWarning
    if row["inactive_reason"]:
        yield f"{called} is saved, but not active: {row['inactive_reason']}", RuntimeWarning
