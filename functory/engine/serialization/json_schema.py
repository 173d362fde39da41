"""JSON Schemas of inputs and outputs: read as declared, and checked before a run.

Checked with jsonschema-rs. Remote references are refused: a schema comes from outside, and the
validator would otherwise fetch ``http:`` and read ``file:`` references while compiling.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec

# The type names of annotations that BabyAGI-style parameter lists use.
TYPES = {
    "str": "string", "string": "string", "int": "integer", "integer": "integer", "float": "number", "number": "number",
    "bool": "boolean", "boolean": "boolean", "list": "array", "array": "array", "dict": "object", "object": "object",
}  # fmt: skip


# Faults of one value that an error names.
MAX_FAULTS = 10


def from_parameters(parameters: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schema that parameter names alone give: the names, and which are required; no types."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    more = False
    for parameter in parameters:
        if parameter["kind"] == "var_keyword":
            more = True
            continue
        properties[parameter["name"]] = {"type": "array"} if parameter["kind"] == "var_positional" else {}
        if parameter["required"]:
            required.append(parameter["name"])
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": more}


def parse_declared(value: Any, what: str) -> dict[str, Any] | None:
    """Read a declaration: a JSON Schema, or a list ``[{"name": …, "type": …}]``. Raises :class:`Invalid`."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        properties: dict[str, Any] = {}
        required: list[str] = []
        for item in value:
            if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
                raise Invalid(
                    f"wrong {what}", f"{item!r} has no name", 'write [{"name": "rows", "type": "list"}]'
                )
            kind = TYPES.get(str(item.get("type", "")).lower())
            properties[item["name"]] = {"type": kind} if kind else {}
            if item.get("required", True):
                required.append(item["name"])
        value = {"type": "object", "properties": properties, "required": required}
    if not isinstance(value, Mapping | bool):
        raise Invalid(f"wrong {what}", f"a JSON Schema is an object, got {type(value).__name__}")
    schema = dict(value) if isinstance(value, Mapping) else {"not": {}} if value is False else {}
    _validator(json_codec.dumps(schema), what)
    return schema


def check(schema: Mapping[str, Any] | None, value: Any, what: str) -> None:
    """Check a ``value`` against a schema. ``what`` names it in the error ("input of parse v3").

    Raises :class:`SchemaMismatch` that lists each fault with its place.
    """
    if schema is None:
        return
    found = faults(schema, value, what)
    if found:
        texts = [f"{_place(fault)}{fault.message}" for fault in found]
        raise SchemaMismatch(
            f"the {what} does not fit its schema",
            "\n".join(texts),
            shape_text(schema),
            places=_pointers(found),
        )


class SchemaMismatch(Invalid):
    """A value does not fit its schema. ``places``: the JSON pointer (RFC 6901) and the text of each fault."""

    def __init__(
        self, what: str, why: str = "", try_: str = "", *, places: Iterable[tuple[str, str]] = ()
    ) -> None:
        super().__init__(what, why, try_)
        self.places = tuple(places)


def _place(fault: Fault) -> str:
    place = ".".join(str(part) for part in fault.place)
    return f"{place}: " if place else ""


def _pointers(found: Iterable[Fault]) -> Iterator[tuple[str, str]]:
    """The places of faults. A missing member is a fault at the member, where a form has its field."""
    for fault in found:
        missing = fault.names if fault.keyword == "required" else ()
        for place in [(*fault.place, name) for name in missing] or [fault.place]:
            parts = (str(part).replace("~", "~0").replace("/", "~1") for part in place)
            yield "".join(f"/{part}" for part in parts), fault.message


@dataclass(frozen=True)
class Fault:
    """A place in a value that does not fit a schema.

    ``names``: the missing members for the keyword ``required``, the members too many for ``additionalProperties``.
    """

    place: tuple[str | int, ...]
    keyword: str
    message: str
    schema_path: tuple[str | int, ...]
    names: tuple[str, ...] = ()


def faults(schema: Mapping[str, Any], value: Any, what: str) -> list[Fault]:
    """Return the first faults of a value. Raises :class:`Invalid` for a schema that is none."""
    found = []
    for error in itertools.islice(_validator(json_codec.dumps(schema), what).iter_errors(value), MAX_FAULTS):
        keyword = error.kind.name
        names = (error.kind.property,) if keyword == "required" else getattr(error.kind, "unexpected", ())
        found.append(
            Fault(
                tuple(error.instance_path),
                keyword,
                error.message[:300],
                tuple(error.schema_path),
                tuple(names),
            )
        )
    return found


def shape_text(schema: Mapping[str, Any]) -> str:
    """Return the members of an object's schema in words; empty when it names none."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return ""
    required = schema.get("required", [])
    parts = [
        name + (": " + _type(kind) if _type(kind) else "") + ("" if name in required else "?")
        for name, kind in properties.items()
    ]
    return "it takes {" + ", ".join(parts) + "}"


def _type(schema: Any) -> str:
    kind = schema.get("type", "") if isinstance(schema, Mapping) else ""
    return kind if isinstance(kind, str) else "|".join(kind)


@functools.lru_cache(maxsize=1024)
def _validator(text: str, what: str) -> Any:
    try:
        return jsonschema_rs.validator_for(json_codec.loads(text), retriever=_refuse)
    except Exception as error:
        reason = str(error).split("\n")[0][:300]
        raise Invalid(
            f"the schema of the {what} is wrong", reason, "see json-schema.org; remote references are refused"
        ) from None


def _refuse(uri: str) -> Any:
    raise ValueError(f"remote references are refused: {uri}")
