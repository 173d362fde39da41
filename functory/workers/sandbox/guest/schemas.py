"""Makes JSON Schemas (2020-12) of evaluated hints.

They are made of the types that msgspec finds in a hint, and describe what the conversion takes: a ``datetime`` has an
offset, unless it is ``Naive``; ``bytes`` are bounded; a default may be of any type that has a JSON form. pydantic makes
the schemas of its own models. Classes are shared definitions.
"""

from __future__ import annotations

import enum
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any, Literal, get_args

from functory.engine.serialization.python_values import MAX_BYTES, is_pydantic
from functory.workers.sandbox.guest import hints
from functory.workers.sandbox.guest.json_values import to_json_value

Mode = Literal["validation", "serialization"]

_DEFAULT_BYTES = 4096
_TEMPLATE = "#/$defs/{name}"
_BINARY_SCHEMA = {
    "type": "string",
    "contentEncoding": "base64",
    "maxLength": 4 * ((MAX_BYTES + 2) // 3),
}
_SIMPLE: dict[str, dict[str, Any]] = {
    "Any": {},
    "Raw": {},
    "None": {"type": "null"},
    "Bool": {"type": "boolean"},
    "Int": {"type": "integer"},
    "Float": {"type": "number"},
    "Str": {"type": "string"},
    "Bytes": _BINARY_SCHEMA,
    "ByteArray": _BINARY_SCHEMA,
    "MemoryView": _BINARY_SCHEMA,
    "Date": {"type": "string", "format": "date"},
    "Time": {"type": "string", "format": "time"},
    "TimeDelta": {"type": "string", "format": "duration"},
    "UUID": {"type": "string", "format": "uuid"},
    "Decimal": {"type": "string", "format": "decimal"},
}
_WITH_OFFSET = {"type": "string", "format": "date-time"}
_WITHOUT_OFFSET = {"type": "string", "description": "a date and time without an offset"}
# Constraints of msgspec.Meta, and the keywords for them.
_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_LENGTHS = {"Str": "Length", "Dict": "Properties", "Collection": "Items"}


class SchemaBuilder:
    """Makes schemas that share ``definitions``. ``mode`` is pydantic's: what a model takes, or what it becomes."""

    def __init__(self, mode: Mode) -> None:
        self.definitions: dict[str, Any] = {}
        self._mode: Mode = mode
        self._names: dict[Any, str] = {}

    def schema(self, hint: Any) -> dict[str, Any]:
        """Return the schema of an evaluated hint that has a JSON form."""
        return self._of(hints.type_info(hint))

    def _of(self, node: Any) -> dict[str, Any]:
        kind = hints.kind_of(node)
        if kind in _SIMPLE:
            return {**_SIMPLE[kind], **_bounds(node)}
        match kind:
            case "Metadata":
                return {**self._of(node.type), **(node.extra_json_schema or {})}
            case "DateTime":
                return dict(_WITHOUT_OFFSET if node.tz is False else _WITH_OFFSET)
            case "Collection":
                unique = {"uniqueItems": True} if "Set" in type(node).__name__ else {}
                return {"type": "array", "items": self._of(node.item_type), **unique, **_bounds(node)}
            case "Tuple":
                items = [self._of(item) for item in node.item_types]
                length = {"minItems": len(items), "maxItems": len(items)}
                return {"type": "array", "prefixItems": items, "items": False, **length}
            case "Dict":
                values = self._of(node.value_type) or True
                return {"type": "object", "additionalProperties": values, **_bounds(node)}
            case "Union":
                return {"anyOf": [self._of(member) for member in node.types]}
            case "Literal":
                return {"enum": list(node.values)}
            case "Enum":
                return self._shared(node.cls, self._enum)
            case "Custom":
                return self._custom(node.cls)
        return self._shared(node.cls, lambda _: self._record(node))

    def _shared(self, kind: Any, make: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Return a reference to the definition of a class, which is made at its first use."""
        name = self._names.get(kind)
        if name is None:
            name = self._names[kind] = self._free_name(kind)
            self.definitions[name] = {}
            self.definitions[name] = make(kind)
        return {"$ref": _TEMPLATE.format(name=name)}

    def _free_name(self, kind: Any) -> str:
        arguments = ", ".join(getattr(one, "__name__", str(one)) for one in get_args(kind))
        name = _origin(kind).__name__ + (f"[{arguments}]" if arguments else "")
        name = re.sub(r"[^a-zA-Z0-9.\-_]", "_", name)
        free, number = name, 1
        while free in self.definitions:
            number += 1
            free = f"{name}_{number}"
        return free

    def _enum(self, kind: Any) -> dict[str, Any]:
        values = [member.value for member in kind]
        of_text = all(isinstance(value, str) for value in values)
        return {**_described(kind), "enum": values, "type": "string" if of_text else "integer"}

    def _record(self, node: Any) -> dict[str, Any]:
        """Return the schema of a struct, dataclass, attrs class, TypedDict or NamedTuple."""
        names: list[str] = []
        members: list[dict[str, Any]] = []
        if getattr(node, "tag_field", None) is not None:
            names, members = [node.tag_field], [{"enum": [node.tag]}]
        required = list(names)
        for field in node.fields:
            default = field.default
            if field.default_factory in (list, dict, set):
                default = field.default_factory()
            names.append(field.encode_name)
            members.append({**self._of(field.type), **default_of(default, hints.library().NODEFAULT)})
            if field.required:
                required.append(field.encode_name)
        named_tuple = hints.kind_of(node) == "NamedTuple"
        if named_tuple or getattr(node, "array_like", False):
            last = named_tuple or node.forbid_unknown_fields
            shape = {"type": "array", "prefixItems": members, "minItems": len(required)}
            return {**_described(node.cls), **shape, **({"maxItems": len(members)} if last else {})}
        return {
            **_described(node.cls),
            "type": "object",
            "properties": dict(zip(names, members, strict=True)),
            "required": required,
            **({"additionalProperties": False} if getattr(node, "forbid_unknown_fields", False) else {}),
        }

    def _custom(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type that only :func:`hints.decode` knows."""
        if kind is object:
            return {}
        if isinstance(kind, hints.Substitute):
            if kind.members:
                return {"anyOf": [self.schema(member) for member in kind.members]}
            return dict(kind.schema) if kind.checked is None else self._pydantic(kind.checked)
        if is_pydantic(kind):
            return self._pydantic(kind)
        if hints.is_iterable(kind):
            return {"type": "array", "items": self.schema((get_args(kind) or (Any,))[0])}
        return {"type": "string", "format": "path"}

    def _pydantic(self, kind: Any) -> dict[str, Any]:
        """Return pydantic's schema; its definitions get a number where other ones have their names."""
        adapter = hints.adapter(kind)
        number, name = 1, "{model}"
        while True:
            found, shared = type(adapter).json_schemas(
                [(0, self._mode, adapter)], ref_template=_TEMPLATE.format(name=name)
            )
            made = {name.format(model=model): schema for model, schema in shared.get("$defs", {}).items()}
            if all(self.definitions.get(model, schema) == schema for model, schema in made.items()):
                self.definitions.update(made)
                return found[0, self._mode]
            number += 1
            name = f"{{model}}_{number}"


def default_of(value: Any, none: Any = inspect.Parameter.empty) -> dict[str, Any]:
    """Return the keyword ``default`` for a value; nothing for ``none``, a large value or one without a JSON form."""
    if value is none or type(value).__name__ == "UnsetType":
        return {}
    try:
        return {"default": to_json_value(value, _DEFAULT_BYTES)[0]}
    except Exception:
        return {}


def _origin(kind: Any) -> Any:
    return getattr(kind, "__origin__", kind)


def _described(kind: Any) -> dict[str, Any]:
    """Return title and description of a class; none where Python made its docstring."""
    name = _origin(kind).__name__
    text = textwrap.dedent(_origin(kind).__doc__ or "").strip()
    made = (
        text.startswith(f"{name}(") or text == "An enumeration." or text == (enum.Enum.__doc__ or "").strip()
    )
    return {"title": name, **({"description": text} if text and not made else {})}


def _bounds(node: Any) -> dict[str, Any]:
    found = {keyword: getattr(node, name, None) for name, keyword in _BOUNDS.items()}
    what = _LENGTHS.get(hints.kind_of(node))
    if what:
        found |= {f"min{what}": node.min_length, f"max{what}": node.max_length}
    return {keyword: value for keyword, value in found.items() if value is not None}
