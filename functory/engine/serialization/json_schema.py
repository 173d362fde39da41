"""JSON Schemas of inputs and outputs: read as declared, and checked before a run.

Checked with jsonschema-rs. Remote references are refused: a schema comes from outside, and the
validator would otherwise fetch ``http:`` and read ``file:`` references while compiling.

The work of a check is bounded (see :mod:`~functory.engine.serialization.schema_cost`): a schema that could be too
costly is refused where it is saved, and a value for which a check could be too costly does not fit. Only what does not
fit has its faults collected, and only where there cannot be many: that takes far more time and memory than the check.
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
from functory.engine.serialization.schema_cost import MAX_WORK, SchemaCost

# The type names of annotations that BabyAGI-style parameter lists use.
TYPES = {
    "str": "string", "string": "string", "int": "integer", "integer": "integer", "float": "number", "number": "number",
    "bool": "boolean", "boolean": "boolean", "list": "array", "array": "array", "dict": "object", "object": "object",
}  # fmt: skip


# Faults of one value that an error names.
MAX_FAULTS = 10
# Faults that may be collected to name the first ones: 35 MB and 0.2 s.
_MAX_COLLECTED = 5_000
# Looks at parts of a value to find the first fault alone.
_MAX_LOOKS = 5_000_000
# Memory of one compiled regular expression, of all of a schema, and the steps that one with look-around may go back.
_PATTERN_BYTES, _ALL_PATTERN_BYTES = 32 << 10, 8 << 20
_MAX_BACKTRACKING = 10_000


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
    _compiled(json_codec.dumps(schema), what)
    return schema


def check_cost(schema: Mapping[str, Any] | None, what: str) -> None:
    """Raise :class:`Invalid` for a schema whose check could be too costly. It is not compiled."""
    if schema is not None:
        SchemaCost(json_codec.loads(json_codec.dumps(schema)), what)


def check(schema: Mapping[str, Any] | None, value: Any, what: str) -> None:
    """Check a ``value`` against a schema. ``what`` names it in the error ("input of parse v3").

    Raises :class:`SchemaMismatch` that lists each fault with its place.
    """
    if schema is None:
        return
    found = faults(schema, value, what)
    if found and found[0].keyword == TOO_COSTLY:
        raise SchemaMismatch(
            f"the {what} cannot be checked by its schema",
            found[0].message,
            "pass a smaller or flatter value, or save a simpler schema",
            places=_pointers(found),
        )
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


# The keyword of a fault that stands for a check that was not made, and of one for faults that were not collected.
TOO_COSTLY = "too costly"
NOT_LISTED = "not listed"
# Of a fault that stands for a value which the validator cannot read.
NOT_TEXT = "not text"


def faults(schema: Mapping[str, Any], value: Any, what: str) -> list[Fault]:
    """Return the first faults of a value. Raises :class:`Invalid` for a schema that is none, or is too costly.

    A value whose check could be too costly has one fault with the keyword :data:`TOO_COSTLY`. One whose faults could
    be too many has the first one, or one with the keyword :data:`NOT_LISTED`. One with half of a character has one with
    the keyword :data:`NOT_TEXT`.
    """
    compiled = _compiled(json_codec.dumps(schema), what)
    measured = None
    if not compiled.cost.is_flat:
        measured = compiled.cost.measure(value)
        if measured is None or measured.work > MAX_WORK:
            why = "the check could take more than half a second: its schema looks too often at the same part of it"
            return [Fault((), TOO_COSTLY, why, ())]
    try:
        is_valid = compiled.validator.is_valid(value)
    except UnicodeEncodeError:
        why = "it has half of a character (an unpaired surrogate), which no schema can be compared with"
        return [Fault((), NOT_TEXT, why, ())]
    if is_valid:
        return []
    measured = measured or compiled.cost.measure(value)
    if measured is not None and measured.errors <= _MAX_COLLECTED:
        found = itertools.islice(compiled.validator.iter_errors(value), MAX_FAULTS)
    elif (compiled.cost.is_flat and not compiled.cost.has_branches) or (
        measured is not None and measured.branch_errors <= _MAX_COLLECTED and measured.errors <= _MAX_LOOKS
    ):
        found = _first_error(compiled.validator, value)
    else:
        found = ()
    return [_fault(error) for error in found] or [
        Fault((), NOT_LISTED, "it does not fit; the places are not listed, for there could be too many", ())
    ]


def _first_error(validator: Any, value: Any) -> Iterator[jsonschema_rs.ValidationError]:
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        yield error


def _fault(error: jsonschema_rs.ValidationError) -> Fault:
    keyword = error.kind.name
    # Each kind of error has attributes of its own.
    kind: Any = error.kind
    names = (kind.property,) if keyword == "required" else getattr(kind, "unexpected", ())
    return Fault(
        tuple(error.instance_path), keyword, error.message[:300], tuple(error.schema_path), tuple(names)
    )


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


@dataclass(frozen=True, slots=True)
class _Compiled:
    validator: Any
    cost: SchemaCost


@functools.lru_cache(maxsize=1024)
def _compiled(text: str, what: str) -> _Compiled:
    schema = json_codec.loads(text)
    cost = SchemaCost(schema, what)
    options = jsonschema_rs.FancyRegexOptions(
        size_limit=max(_PATTERN_BYTES, _ALL_PATTERN_BYTES // max(cost.patterns, 1)),
        backtrack_limit=_MAX_BACKTRACKING,
    )
    try:
        validator = jsonschema_rs.validator_for(schema, retriever=_refuse, pattern_options=options)
    except Exception as error:
        reason = str(error).split("\n")[0][:300]
        raise Invalid(
            f"the schema of the {what} is wrong", reason, "see json-schema.org; remote references are refused"
        ) from None
    return _Compiled(validator, cost)


def _refuse(uri: str) -> Any:
    raise ValueError(f"remote references are refused: {uri}")
