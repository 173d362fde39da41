"""Makes the modules of :mod:`functory.remote` that follow from others, and of :mod:`functory.aio`.

``python -m tests.support.remote_client`` writes them from ``dashboard/openapi.json``; a test compares.
"""

from __future__ import annotations

import json
import keyword
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from functory.api import sparse_fields
from tests.support.remote_client_async import async_module

ROOT = Path(__file__).parents[2]
DESCRIPTION = ROOT / "dashboard" / "openapi.json"
PREFIX = "/api/v1"

Schema = Mapping[str, Any]

_ROWS_HEAD = '''"""Rows as the API returns them: made from its description by ``python -m tests.support.remote_client``.

A value that the caller may not read is a :class:`Redacted`, or a mapping with ``redacted`` where mappings are expected.
"""

# ruff: noqa: E501

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

'''
_OPERATIONS_HEAD = '''"""The operations of the API, a class for each noun: made from its description by
``python -m tests.support.remote_client``.
"""

# ruff: noqa: A002, E501

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from msgspec import UNSET, UnsetType

from functory.remote import rows
from functory.remote.pages import Rows
from functory.remote.sender import Sender, given, if_match, quoted

'''
# The stream is read by functory.remote.stream, not row by row.
_LEFT_OUT = ("stream.open",)
_PAGING = ("limit", "before", "after")


def modules(description: Mapping[str, Any]) -> dict[Path, str]:
    """The text of each module by its path in the repository."""
    schemas = _Schemas(description["components"]["schemas"])
    operations = sorted(_operations(description), key=lambda one: one.id)
    made = {
        Path("functory/remote/rows.py"): _rows_module(schemas, operations),
        Path("functory/remote/operations.py"): _operations_module(schemas, operations),
    }
    client = (ROOT / "functory/remote/client.py").read_text()
    made[Path("functory/remote/aio.py")] = async_module(made[Path("functory/remote/operations.py")], client)
    return {path: _formatted(text, path) for path, text in made.items()}


class _Schemas:
    """The schemas of the description, with the names of their classes."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self.by_name = schemas
        short = [_short(name) for name in schemas]
        self._classes = {
            name: _short(name) if short.count(_short(name)) == 1 else _qualified(name) for name in schemas
        }

    def find(self, schema: Schema) -> tuple[str, Schema]:
        """The name and the content behind a reference; no name for a schema in place."""
        if "$ref" not in schema:
            return "", schema
        name = schema["$ref"].rsplit("/", 1)[1]
        return name, self.by_name[name]

    def class_of(self, name: str) -> str:
        return self._classes[name]

    def item(self, name: str) -> Schema | None:
        """The schema of the rows of a page; None when it is no page."""
        properties = self.by_name[name].get("properties", {})
        if "items" in properties and set(properties) <= {"items", "next"}:
            return properties["items"]["items"]
        return None

    def type_of(self, schema: Schema, prefix: str = "") -> str:
        """The Python type of a schema."""
        name, found = self.find(schema)
        if name:
            return found["type"] if found.get("enum") else prefix + self.class_of(name)
        if "anyOf" in schema:
            return self._union([*schema["anyOf"]], prefix)
        kind = schema.get("type")
        if kind == "string":
            return "datetime" if schema.get("format") == "date-time" else "str"
        if kind == "array":
            return f"list[{self.type_of(schema.get('items', {}), prefix)}]"
        if kind == "object":
            more = schema.get("additionalProperties")
            return f"dict[str, {self.type_of(more, prefix) if isinstance(more, dict) else 'Any'}]"
        return {"integer": "int", "number": "float", "boolean": "bool", "null": "None"}.get(str(kind), "Any")

    def _union(self, options: list[Schema], prefix: str) -> str:
        types = list(dict.fromkeys(self.type_of(option, prefix) for option in options))
        objects = [one for one in types if one.startswith(("dict", prefix or "\0")) or self._is_class(one)]
        lists = [one for one in types if one.startswith("list")]
        if "Any" in types or len(objects) > 1 or len(lists) > 1:
            return "Any"
        return " | ".join(sorted(types, key=lambda one: one == "None"))

    def _is_class(self, type_: str) -> bool:
        return type_.rsplit(".", 1)[-1] in self._classes.values()

    def used(self, schema: Schema, seen: dict[str, None]) -> None:
        """Add the names of all schemas that this one needs."""
        if "$ref" in schema:
            name, found = self.find(schema)
            if name not in seen:
                if self.item(name) is None:
                    seen[name] = None
                self.used(found, seen)
            return
        for part in (*schema.get("anyOf", ()), *schema.get("properties", {}).values()):
            self.used(part, seen)
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                self.used(schema[key], seen)


class _Operation:
    """One operation of the description."""

    def __init__(self, method: str, path: str, operation: Mapping[str, Any]) -> None:
        self.id: str = operation["operationId"]
        self.noun, _, verb = self.id.partition(".")
        self.verb = _python_name(verb.replace(".", "_"))
        self.method = method.upper()
        self.path = path.removeprefix(PREFIX)
        self.doc = operation.get("description") or operation.get("summary", "")
        self.parameters = operation.get("parameters", [])
        body = operation.get("requestBody")
        self.body: Schema | None = body and body["content"]["application/json"]["schema"]
        answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
        content = answers[0].get("content", {}) if answers else {}
        self.answer: Schema | None = (
            content["application/json"].get("schema", {}) if "application/json" in content else None
        )

    def named(self, place: str) -> list[Mapping[str, Any]]:
        return [one for one in self.parameters if one["in"] == place]

    def header(self, name: str) -> bool:
        return any(one["name"].lower() == name for one in self.named("header"))


def _operations(description: Mapping[str, Any]) -> Iterator[_Operation]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            id_ = operation.get("operationId", "")
            if path.startswith(PREFIX) and "." in id_ and id_ not in _LEFT_OUT:
                yield _Operation(method, path, operation)


def _rows_module(schemas: _Schemas, operations: list[_Operation]) -> str:
    used: dict[str, None] = {}
    for operation in operations:
        if operation.answer is not None:
            schemas.used(operation.answer, used)
    classes = [
        _struct(schemas, name)
        for name in sorted(used, key=schemas.class_of)
        if "properties" in schemas.by_name[name]
    ]
    return _ROWS_HEAD + "\n".join(classes)


def _struct(schemas: _Schemas, name: str) -> str:
    schema = schemas.by_name[name]
    required = schema.get("required", [])
    lines = [f"class {schemas.class_of(name)}(msgspec.Struct, frozen=True, kw_only=True):"]
    lines += [f'    """{_sentence(schema.get("description", ""), name)}"""', ""]
    for field, kind in schema["properties"].items():
        python, type_ = _python_name(field), schemas.type_of(kind)
        if "enum" in kind or "const" in kind:
            type_ = "str" if kind.get("type", "string") == "string" else type_
        parts = [f"name={field!r}"] if python != field else []
        if field not in required:
            default = kind.get("default")
            if isinstance(default, list | dict):
                parts.append(f"default_factory={type(default).__name__}")
            else:
                parts.append(f"default={default!r}")
                if default is None and type_ != "Any" and "None" not in type_:
                    type_ += " | None"
        plain = len(parts) == 1 and parts[0].startswith("default=")
        value = (
            "" if not parts else f" = {parts[0][8:]}" if plain else f" = msgspec.field({', '.join(parts)})"
        )
        lines.append(f"    {python}: {type_}{value}")
    return "\n".join(lines) + "\n\n"


def _operations_module(schemas: _Schemas, operations: list[_Operation]) -> str:
    nouns = list(dict.fromkeys(operation.noun for operation in operations))
    text = _OPERATIONS_HEAD
    for noun in nouns:
        text += f'class {_class_name(noun)}:\n    """Operations of {noun.replace("_", " ")}."""\n\n'
        text += "    def __init__(self, sender: Sender) -> None:\n        self._sender = sender\n\n"
        methods = [_method(schemas, one) for one in operations if one.noun == noun]
        # Within a class, a method called list would hide the type in the annotations after it.
        text += "\n".join(sorted(methods, key=lambda one: "    def list(" in one)) + "\n\n"
    text += 'class Operations:\n    """All operations, by the noun that they are about."""\n\n'
    text += "    def __init__(self, sender: Sender) -> None:\n        self._sender = sender\n"
    for noun in nouns:
        text += f"\n    @cached_property\n    def {noun}(self) -> {_class_name(noun)}:\n"
        text += f'        """Operations of {noun.replace("_", " ")}."""\n'
        text += f"        return {_class_name(noun)}(self._sender)\n"
    return text


def _method(schemas: _Schemas, one: _Operation) -> str:
    page = None
    answer = "None"
    if one.answer is not None:
        name, _ = schemas.find(one.answer)
        page = schemas.item(name) if name else None
        answer = f"Rows[{schemas.type_of(page, 'rows.')}]" if page else schemas.type_of(one.answer, "rows.")
    paged = page is not None and any(p["name"] == "before" for p in one.parameters)
    in_path = sorted(one.named("path"), key=lambda p: one.path.index("{" + p["name"] + "}"))
    positional = [f"{_parameter(p['name'])}: {schemas.type_of(p['schema'])}" for p in in_path]
    keywords, query = [], []
    for parameter in one.named("query"):
        # Its rows have a type: all of their fields.
        if (paged and parameter["name"] in _PAGING) or parameter["name"] == sparse_fields.NAME:
            continue
        python = _free(_parameter(parameter["name"]), positional)
        keywords.append(_keyword(schemas, python, parameter))
        query.append(f"{parameter['name']!r}: {python}")
    fields = _body_fields(schemas, one, [*positional, *keywords])
    keywords += [field for field, _ in fields if field]
    keyed, versioned = one.header("idempotency-key"), one.header("if-match")
    if versioned:
        keywords.append("expected_version: int | None = None")
    if keyed:
        keywords.append("idempotency_key: str | None = None")
    keywords.sort(key=lambda text: " = " in text)
    signature = ", ".join(
        ["self", *positional, *(["/"] if positional else []), *(["*", *keywords] if keywords else [])]
    )
    lines = [f"    def {one.verb}({signature}) -> {answer}:", f'        """{_sentence(one.doc, one.id)}"""']
    path = re.sub(r"\{(\w+)\}", lambda m: "{quoted(" + _parameter(m[1]) + ")}", one.path)
    path = f'f"{path}"' if "{" in path else f'"{path}"'
    asked = "{" + ", ".join(query) + "}"
    if page is not None and one.method == "GET":
        way = "rows" if paged else "whole"
        lines.append(f"        return self._sender.{way}({schemas.type_of(page, 'rows.')}, {path}, {asked})")
        return "\n".join(lines) + "\n"
    call = [answer.replace(" | None", "") if one.answer is not None else "None", f'"{one.method}"', path]
    if query:
        call.append(f"query={asked}")
    if body := next((made for field, made in fields if not field), None):
        call.append(f"body={body}")
    if versioned:
        call.append('headers={"if-match": if_match(expected_version)}')
    if keyed:
        call.append("key=idempotency_key")
    lines.append(f"        return self._sender.{'keyed' if keyed else 'one'}({', '.join(call)})")
    return "\n".join(lines) + "\n"


def _body_fields(schemas: _Schemas, one: _Operation, taken: list[str]) -> list[tuple[str, str]]:
    """The parameters that make the body, and at the end the body that they make."""
    if one.body is None:
        return []
    options = [option for option in one.body.get("anyOf", [one.body]) if option.get("type") != "null"]
    found = [schemas.find(option)[1] for option in options]
    if any("properties" not in option for option in found):
        return [("body: Any", ""), ("", "body")]
    needed = set.intersection(*(set(option.get("required", ())) for option in found))
    optional_body = len(options) < len(one.body.get("anyOf", [one.body]))
    fields, made = [], []
    for option in found:
        for name, kind in option["properties"].items():
            python = _free(_parameter(name), taken)
            if any(field.startswith(f"{python}:") for field, _ in fields):
                continue
            type_ = schemas.type_of(kind) if not _names_class(schemas, kind) else "Any"
            type_ = type_.replace("list[", "Sequence[").replace("dict[", "Mapping[")
            if "writeOnly" in kind or kind.get("format") == "password":
                type_ = "str"
            fields.append(
                (f"{python}: {type_}", "")
                if name in needed and not optional_body
                else (f"{python}: {_or_unset(type_)} = UNSET", "")
            )
            made.append(f"{name if not keyword.iskeyword(name) else name + '_'}={python}")
    return [*fields, ("", f"given({', '.join(made)})")]


def _or_unset(type_: str) -> str:
    return f"{type_.removesuffix(' | None')} | UnsetType" + (" | None" if type_.endswith(" | None") else "")


def _names_class(schemas: _Schemas, schema: Schema) -> bool:
    seen: dict[str, None] = {}
    schemas.used(schema, seen)
    return bool(seen)


def _keyword(schemas: _Schemas, python: str, parameter: Mapping[str, Any]) -> str:
    schema = parameter["schema"]
    options = schema.get("anyOf", [schema])
    if any(option.get("type") == "array" for option in options):
        return f"{python}: str | Sequence[str] = ()"
    type_ = schemas.type_of(schema)
    if parameter.get("required"):
        return f"{python}: {type_}"
    if parameter["name"] in ("since", "until"):
        type_ = "str | datetime | None"
    return f"{python}: {type_ if 'None' in type_ else f'{type_} | None'} = None"


def _parameter(name: str) -> str:
    return _python_name(name.rstrip("_").replace("-", "_"))


def _free(name: str, taken: list[str]) -> str:
    return f"{name}_" if any(one.startswith(f"{name}:") for one in taken) else name


def _python_name(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def _class_name(noun: str) -> str:
    return "".join(part.capitalize() for part in noun.split("_"))


def _short(name: str) -> str:
    return name.rsplit("__", 1)[-1]


def _qualified(name: str) -> str:
    *_, module, short = name.split("__")
    return _class_name(module) + short


def _sentence(text: str, name: str) -> str:
    lines = [line.strip() for line in (text or f"{name}.").strip().splitlines() if line.strip()]
    return (
        re.sub(r":\w+:`~?\.?(?:[\w.]*\.)?(\w+)`", r"``\1``", " ".join(lines))
        .replace("\\", "\\\\")
        .replace('"""', "'''")
    )


def _formatted(text: str, path: Path) -> str:
    for command in (["check", "-q", "--fix", "--select", "F401,I"], ["format", "-q"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"],
            input=text, capture_output=True, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
        if done.returncode and not done.stdout:
            raise RuntimeError(f"{path}: {done.stderr}")
        text = done.stdout
    return text


def main() -> None:
    """Write the modules."""
    for path, text in modules(json.loads(DESCRIPTION.read_text())).items():
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
