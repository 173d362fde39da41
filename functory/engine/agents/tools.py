"""Functions as tools of a model: their descriptions, which ones a run may use, their arguments. Pure."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from functory.engine import python_syntax
from functory.engine.access.grants import Grants
from functory.engine.errors import Invalid, Refused
from functory.engine.functions.version_row import VersionRow
from functory.engine.serialization import json_codec, json_schema

Effect = Literal["none", "reads", "acts"]
EFFECTS = ("none", "reads", "acts")

MAX_DESCRIPTION = 1_024


class Describable(Protocol):
    """What a version says about itself as a tool."""

    @property
    def name(self) -> str: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...
    @property
    def input_schema(self) -> Mapping[str, Any] | None: ...
    @property
    def parameters(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def source(self) -> str: ...


def described(version: Describable, description: str | None = None) -> dict[str, Any]:
    """Return the tool that a function's version is: its name, its description and the schema of its arguments.

    ``description`` is that of its annotation; without one the version describes itself, by its metadata or the text
    under its first line.
    """
    metadata = version.metadata or {}
    description = (
        description or metadata.get("description") or metadata.get("doc") or _docstring(version.source)
    )
    schema = version.input_schema or json_schema.from_parameters(version.parameters)
    return {
        "name": version.name[:64],
        "description": str(description)[:MAX_DESCRIPTION],
        "parameters": schema,
    }


def _docstring(source: str) -> str:
    functions = (
        node
        for node in python_syntax.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    found = next(functions, None)
    return "" if found is None else (ast.get_docstring(found) or "")


def check_allowed(definition: Mapping[str, Any], name: str) -> None:
    """Raise :class:`Refused` for a function that a run may not use."""
    if name not in definition.get("tools", []):
        allowed = ", ".join(definition.get("tools", []))[:400]
        raise Refused(
            f"this run may not use {name[:80]!r}",
            f"its tools are {allowed}" if allowed else "it has no tools",
        )


def effect_of(grants: Grants) -> Effect:
    """Return what a function with these grants may do at most: ``acts`` for one that reaches hosts, gets secrets,
    writes files, starts programs, or changes functions or memories; ``reads`` for one that reads files, functions or
    memories, or asks models; ``none`` for one that only computes.
    """
    if grants.hosts or grants.secrets or grants.write or grants.subprocess:
        return "acts"
    if any(not permission.endswith(":read") for permission in grants.permissions):
        return "acts"
    return "reads" if grants.read or grants.permissions or grants.models else "none"


def is_always_allowed(rules: Sequence[Mapping[str, Any]], name: str, arguments: Mapping[str, Any]) -> bool:
    """Return True for a call that a person has allowed for the rest of its run: a rule names a tool and the exact
    values of arguments. An argument that a rule does not name may have any value.
    """
    return any(
        rule["tool"] == name
        and all(
            key in arguments and json_codec.digest(arguments[key]) == json_codec.digest(value)
            for key, value in rule["arguments"].items()
        )
        for rule in rules
    )


def checked_arguments(version: VersionRow, arguments: Any) -> dict[str, Any]:
    """Return the arguments of a call, as the function takes them. Raises :class:`Invalid` for wrong ones, also for a
    text that is no JSON object: models write such.
    """
    if not isinstance(arguments, Mapping):
        raise Invalid(f"wrong arguments of {version.name}", "they are no JSON object")
    json_schema.check(version.input_schema, arguments, f"input of {version.name}")
    return dict(arguments)
