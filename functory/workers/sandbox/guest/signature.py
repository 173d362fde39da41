"""Inspects a function in a child: its signature and hints as JSON Schema.

Names, order and requiredness come from the syntax alone and are sent first, so that they are known even if
the source never finishes executing. Then the source is executed, the hints are evaluated and schemas are made
of them; a hint that fails costs only its parameter the schema, and is reported.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from functory.engine.serialization.python_values import escape_surrogates
from functory.workers.sandbox.guest import functory_module, hints
from functory.workers.sandbox.guest.channel import Channel
from functory.workers.sandbox.guest.json_values import to_json_value
from functory.workers.sandbox.guest.linker import execute
from functory.workers.sandbox.guest.schemas import SchemaBuilder, default_of
from functory.workers.sandbox.protocol.frames import Described, Inspect, pack
from functory.workers.sandbox.protocol.job import Job

_SCHEMA_BYTES = 900_000  # below what the runner accepts
# Errors of what only a real run has: grants, its own limits, an engine that answers.
_WITHHELD = (OSError, MemoryError, functory_module.Unavailable)
_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_SAMPLE = """
import dataclasses, datetime, decimal, enum, pathlib, typing, uuid
class Colour(enum.Enum): RED = 1
@dataclasses.dataclass
class Point:
    x: int
class Row(typing.TypedDict):
    name: str
    at: datetime.datetime
    price: decimal.Decimal
    where: pathlib.Path
    id: uuid.UUID
def sample(a: Colour, b: Point, c: Row, e: typing.Literal["x"] = "x") -> list[dict[str, int | None]]: ...
"""


def warm_up() -> None:
    """Make schemas of all common types once, so that nothing is left to be loaded later."""
    namespace = execute(_SAMPLE, "sample@0", (), {})
    _schemas(namespace["sample"], namespace, [])
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
        namespace = execute(task.source, key, task.imports, {}, task.modules)
        function = inspect.unwrap(namespace[task.name])
        inspect.signature(function)
    except BaseException as error:
        # Also SystemExit: a module that ends the interpreter still has a function with hints.
        problems.append(f"{task.name}: executing its source failed: {_error_text(error)}")
        if not isinstance(error, _WITHHELD):
            failed = _error_text(error)
        namespace = vars(sys.modules[key]) if key in sys.modules else {}
        function = stub
    made = _schemas(function, namespace, problems)
    found = {
        **_object(function, made.parameters),
        **({"$defs": made.definitions} if made.definitions else {}),
    }
    if not _fits(found, made.output):
        found, made.output = plain, None
        problems.append(f"{task.name}: its schema is not JSON or too large")
    return _answer(found, made.output, problems, failed, made.unconvertible)


def _answer(
    found: dict[str, Any],
    output: dict[str, Any] | None,
    problems: list[str],
    failed: str | None = None,
    unconvertible: Sequence[str] = (),
) -> Described:
    texts = [escape_surrogates(text)[:2000] for text in problems[:100]]
    return Described(
        input_schema=found or {"type": "object"},
        output_schema=output,
        problems=texts,
        final=True,
        import_error=escape_surrogates(failed)[:2000] if failed else None,
        unconvertible=[escape_surrogates(text)[:2000] for text in unconvertible[:20]],
    )


def _fits(*schemas: Any) -> bool:
    try:
        carried, _ = to_json_value(list(schemas), _SCHEMA_BYTES)
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
                properties[name] = {**schema, **default_of(parameter.default)}
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": additional,
    }


@dataclass
class _Schemas:
    """The schemas of parameters and of the result, and the parts that have none."""

    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    definitions: dict[str, Any] = field(default_factory=dict)
    output: dict[str, Any] | None = None
    unconvertible: list[str] = field(default_factory=list)


def _schemas(function: Callable, module: dict[str, Any], problems: list[str]) -> _Schemas:
    """Make the schemas of a function's hints; ``problems`` gets the hints that have none."""
    names = hints.namespace(module)
    signature = inspect.signature(function)
    made = _Schemas()
    inputs = SchemaBuilder("validation")

    def add(what: str, hint: Any, builder: SchemaBuilder) -> tuple[dict[str, Any] | None, str | None]:
        """Return the schema of a hint, or the reason why a type has no JSON form."""
        try:
            resolved = hints.resolve(hint, names)
            if builder is not inputs and (resolved is NoReturn or hints.is_generator(resolved)):
                return None, None
            evaluated = hints.substituted(resolved)
            reason = hints.problem(evaluated)
            if reason is None:
                return builder.schema(evaluated), None
        except Exception as error:
            problems.append(f"{what}: the hint {_shown(hint)} has no JSON Schema: {_error_text(error)}")
            return None, None
        problems.append(f"{what}: {reason}")
        return None, reason if hints.is_type(resolved) else None

    for name, parameter in signature.parameters.items():
        if parameter.annotation is inspect.Parameter.empty:
            continue
        what = f"parameter {name!r}"
        schema, reason = add(what, parameter.annotation, inputs)
        if reason is not None and _is_required(parameter):
            made.unconvertible.append(f"{what}: {reason}")
        elif reason is not None:
            # An execution may leave it out, and give nothing else.
            schema = {"description": reason, **_only(parameter)}
        if schema is not None:
            made.parameters[name] = schema
    made.definitions = inputs.definitions
    if signature.return_annotation is not inspect.Signature.empty:
        outputs = SchemaBuilder("serialization")
        schema, reason = add("what it returns", signature.return_annotation, outputs)
        if schema is not None:
            made.output = {**schema, **({"$defs": outputs.definitions} if outputs.definitions else {})}
        if reason is not None:
            made.unconvertible.append(f"what it returns: {reason}")
    return made


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.kind not in _STARRED and parameter.default is inspect.Parameter.empty


def _only(parameter: inspect.Parameter) -> dict[str, Any]:
    """Return the schema of a parameter that an execution must leave out: its default is the same, where JSON has it."""
    default = default_of(parameter.default) if parameter.kind not in _STARRED else {}
    return {"enum": [default["default"]]} if default else {"not": {}}


def _shown(hint: Any) -> str:
    return hint if isinstance(hint, str) else repr(hint)


def _error_text(error: BaseException) -> str:
    try:
        text = str(error).split("\n", 1)[0]
    except Exception:
        text = "<str failed>"
    return f"{type(error).__name__}: {text}"[:1000]
