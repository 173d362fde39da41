"""Inspects a function in a child: its signature and hints as JSON Schema.

Names, order and requiredness come from the syntax alone and are sent first, so that they are known even if
the source never finishes executing. Then the source is executed, the hints are evaluated and pydantic makes
schemas of them; a hint that fails costs only its parameter the schema, and is reported.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import sys
import typing
from collections.abc import Callable
from typing import Any, Literal

from pydantic import TypeAdapter

from functory.workers.sandbox.guest import functory_module
from functory.workers.sandbox.guest.channel import Channel
from functory.workers.sandbox.guest.json_values import escape_surrogates, to_json_value
from functory.workers.sandbox.guest.linker import execute
from functory.workers.sandbox.protocol.frames import Described, Inspect, pack
from functory.workers.sandbox.protocol.job import Job

_DEFAULT_BYTES = 4096
_SCHEMA_BYTES = 900_000  # below what the runner accepts
_RETURN = "return"
# Errors of what only a real run has: grants, its own limits, an engine that answers.
_WITHHELD = (OSError, MemoryError, functory_module.Unavailable)
_Mode = Literal["validation", "serialization"]
_SAMPLE = """
import dataclasses, datetime, decimal, enum, pathlib, typing, uuid
import pydantic
class Colour(enum.Enum): RED = 1
@dataclasses.dataclass
class Point:
    x: int
class Row(typing.TypedDict):
    name: str
class Model(pydantic.BaseModel):
    at: datetime.datetime
    price: decimal.Decimal
    where: pathlib.Path
    id: uuid.UUID
    link: pydantic.HttpUrl
def sample(a: Colour, b: Point, c: Row, d: Model, e: typing.Literal["x"] = "x") -> list[dict[str, int | None]]: ...
"""
# A decorated function is stored without the imports of its file; the usual names of hints still work.
_TYPING = {name: getattr(typing, name) for name in typing.__all__}


def warm_up() -> None:
    """Make schemas of all common types once, so that nothing of pydantic is left to be loaded later."""
    namespace = execute(_SAMPLE, "sample@0", (), {})
    _schemas(namespace["sample"], {**_TYPING, **namespace}, [])
    del sys.modules["sample@0"]


def describe(task: Inspect, channel: Channel) -> Described:
    """Return the final answer to an inspection; sends a first one, from the syntax, on the way."""
    try:
        stub = _stub(task.source, task.name)
    except Exception as error:
        return _answer({}, None, [f"{task.name}: {_error_text(error)}"])
    plain = _object(stub, {})
    channel.send(Described(input_schema=plain, output_schema=None, problems=[], final=False))
    problems: list[str] = []
    failed: str | None = None
    key = f"{task.name}@0"
    no_execution = Job(execution_id="", function=task.name, version=0, root_id="", entry=key, codes={})
    sys.modules["functory"] = functory_module.make_module(
        no_execution, functory_module.InspectionEngineClient(channel, no_execution)
    )
    try:
        namespace = execute(task.source, key, task.imports, {})
        function = inspect.unwrap(namespace[task.name])
        inspect.signature(function)
    except BaseException as error:
        # Also SystemExit: a module that ends the interpreter still has a function with hints.
        problems.append(f"{task.name}: executing its source failed: {_error_text(error)}")
        if not isinstance(error, _WITHHELD):
            failed = _error_text(error)
        namespace = vars(sys.modules[key]) if key in sys.modules else {}
        function = stub
    schemas, definitions = _schemas(function, {**_TYPING, **namespace}, problems)
    output = schemas.pop(_RETURN, None)
    found = {**_object(function, schemas), **definitions}
    return (
        _answer(found, output, problems, failed)
        if _fits(found, output)
        else _answer(plain, None, [*problems, f"{task.name}: its schema is not JSON or too large"], failed)
    )


def _answer(
    found: dict[str, Any], output: dict[str, Any] | None, problems: list[str], failed: str | None = None
) -> Described:
    texts = [escape_surrogates(text)[:2000] for text in problems[:100]]
    return Described(
        input_schema=found or {"type": "object"},
        output_schema=output,
        problems=texts,
        final=True,
        import_error=escape_surrogates(failed)[:2000] if failed else None,
    )


def _fits(*schemas: Any) -> bool:
    try:
        carried, _, _ = to_json_value(list(schemas), _SCHEMA_BYTES, strict=True)
        return len(pack(carried)) <= _SCHEMA_BYTES
    except Exception:
        return False


def _stub(source: str, name: str) -> Callable:
    """Build a function with the parameters and hints of ``name`` in ``source``, and none of its code."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            break
    else:
        raise NameError(f"the source does not define a function {name!r}")
    node.decorator_list = []
    node.body = [ast.copy_location(ast.Pass(), node)]
    placeholder = ast.copy_location(ast.Constant(value=...), node)
    node.args.defaults = [placeholder for _ in node.args.defaults]
    node.args.kw_defaults = [default and placeholder for default in node.args.kw_defaults]
    flags = __future__.annotations.compiler_flag
    namespace: dict[str, Any] = {}
    code = compile(ast.Module([node], []), "<signature>", "exec", flags=flags, dont_inherit=True)
    exec(code, namespace)  # noqa: S102 - a definition without decorators, defaults and body, in the child
    return namespace[name]


def _object(function: Callable, schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Build the schema of the input object: one property for each parameter."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    additional: Any = False
    for name, parameter in inspect.signature(function).parameters.items():
        schema = schemas.get(name, {})
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            additional = schema or True
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            properties[name] = {"type": "array", "items": schema}
        else:
            properties[name] = schema
            if parameter.default is inspect.Parameter.empty:
                required.append(name)
            elif parameter.default is not ...:
                properties[name] = {**schema, **_default(parameter.default)}
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": additional,
    }


def _default(value: Any) -> dict[str, Any]:
    try:
        return {"default": to_json_value(value, _DEFAULT_BYTES, strict=True)[0]}
    except Exception:
        return {}


def _schemas(
    function: Callable, names: dict[str, Any], problems: list[str]
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Build the schemas by parameter name (``return`` for the result), and the definitions that they share."""
    adapters: list[tuple[str, _Mode, TypeAdapter]] = []
    schemas: dict[str, dict[str, Any]] = {}
    parameters = inspect.signature(function).parameters
    hints = {name: parameter.annotation for name, parameter in parameters.items()}
    hints[_RETURN] = inspect.signature(function).return_annotation
    for name, hint in hints.items():
        if hint is inspect.Signature.empty:
            continue
        mode: _Mode = "serialization" if name == _RETURN else "validation"
        try:
            adapter = TypeAdapter(_evaluated(hint, names))
            schemas[name] = adapter.json_schema(mode=mode)
        except Exception as error:
            what = "what it returns" if name == _RETURN else f"parameter {name!r}"
            problems.append(f"{what}: the hint {_shown(hint)} has no JSON Schema: {_error_text(error)}")
        else:
            if name != _RETURN:
                adapters.append((name, mode, adapter))
    made, shared = TypeAdapter.json_schemas(adapters)
    schemas.update({name: schema for (name, _), schema in made.items()})
    return schemas, shared


def _evaluated(hint: Any, names: dict[str, Any]) -> Any:
    def holder() -> None: ...

    holder.__annotations__ = {"hint": hint}
    return typing.get_type_hints(holder, globalns=names, include_extras=True)["hint"]


def _shown(hint: Any) -> str:
    return hint if isinstance(hint, str) else repr(hint)


def _error_text(error: BaseException) -> str:
    try:
        text = str(error).split("\n", 1)[0]
    except Exception:
        text = "<str failed>"
    return f"{type(error).__name__}: {text}"[:1000]
