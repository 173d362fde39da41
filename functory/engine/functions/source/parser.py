"""The source parser: parses and checks the source text of a function, and never executes it.

A source is a small module: imports, constants, classes, and exactly one top-level function whose
name is the function's. :func:`parse` checks this and reads everything that is known without running
it: its parameters, whether it is async, the packages that it imports.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from dataclasses import dataclass
from typing import Any

from functory.engine import python_syntax
from functory.engine.errors import Invalid
from functory.engine.names import check_name
from functory.engine.serialization import combining_marks

MAX_BYTES = 1_048_576
# Words and signs of a source. A megabyte of code that people write has about 200,000; a tree of a million takes a
# gigabyte.
MAX_TOKENS = 300_000

_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Parameter:
    """One parameter. ``kind``: ``positional_only``, ``positional``, ``var_positional``, ``keyword``,
    ``var_keyword``.
    """

    name: str
    kind: str
    required: bool

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "required": self.required}


@dataclass(frozen=True)
class Source:
    """A checked source text."""

    name: str
    text: str
    sha256: str
    is_async: bool
    parameters: tuple[Parameter, ...]
    imports: tuple[str, ...]
    description: str


def parse(text: str, name: str | None = None) -> Source:
    """Parse and check ``text``. ``name``, when given, must be the name of its function.

    Raises :class:`Invalid` for a syntax error (with line and mark), no or several functions,
    another name, a reserved name, or statements that a source may not hold at its top level.
    """
    if not isinstance(text, str):
        raise Invalid(
            "the source is not text",
            f"got a {type(text).__name__}",
            "pass the function's source as a string",
        )
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise Invalid(
            "the source is too large", f"at most {MAX_BYTES} bytes are stored", "split it into dependencies"
        )
    if len(text) > MAX_TOKENS and sum(1 for _ in _TOKEN.finditer(text)) > MAX_TOKENS:
        raise Invalid(
            "the source is too large",
            f"at most {MAX_TOKENS:,} words and signs are taken",
            "keep data in a file, a secret or the state, or split the source into dependencies",
        )
    module = parse_tree(text)
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if not functions:
        raise Invalid("the source holds no function", "one top-level `def` is needed", "write def name(…): …")
    if len(functions) > 1:
        names = ", ".join(f"{node.name} (line {node.lineno})" for node in functions)
        raise Invalid(
            "the source holds several functions",
            f"found {names}",
            "save each one on its own and name the others in dependencies=[…]",
        )
    node = functions[0]
    if name is not None and node.name != name:
        raise Invalid(
            f"the source defines {node.name}, not {name}", f"line {node.lineno}", f"rename it to {name}"
        )
    check_name(node.name)
    for statement in module.body:
        _check_statement(statement)
    return Source(
        name=node.name,
        text=text,
        sha256=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        is_async=isinstance(node, ast.AsyncFunctionDef),
        parameters=_parameters(node.args),
        imports=_imports(module),
        description=(ast.get_docstring(node) or "").strip().split("\n")[0],
    )


def parse_tree(text: str) -> ast.Module:
    """Parse a text. Raises :class:`Invalid` with the line and a mark below the error."""
    if combining_marks.has_too_many(text):
        raise Invalid(
            "the source has too many combining marks in a row",
            f"at most {combining_marks.MAX_IN_A_ROW} are taken; Python would need minutes to read them as a name",
            "write them in a text as escapes, for example \\u0301",
        )
    try:
        return python_syntax.parse(text)
    except SyntaxError as error:
        mark = (
            f"\n    {error.text.rstrip()}\n    {' ' * max((error.offset or 1) - 1, 0)}^" if error.text else ""
        )
        raise Invalid("the source has a syntax error", f"line {error.lineno}: {error.msg}{mark}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Invalid("the source cannot be read as Python", str(error) or type(error).__name__) from None


def is_allowed_at_top_level(node: ast.stmt) -> bool:
    """Return True for a statement that is allowed at the top level of a source: it only binds names."""
    allowed = (
        ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign,
    )  # fmt: skip
    type_alias = getattr(ast, "TypeAlias", None)
    if isinstance(node, allowed) or (type_alias is not None and isinstance(node, type_alias)):
        return True
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _check_statement(node: ast.stmt) -> None:
    if is_allowed_at_top_level(node) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return
    raise Invalid(
        "the source does something at its top level",
        f"line {node.lineno}: {ast.unparse(node)[:80]}",
        "keep imports, constants, classes and the one function; move the rest into the function",
    )


def _parameters(arguments: ast.arguments) -> tuple[Parameter, ...]:
    found: list[Parameter] = []
    positional = [(a, "positional_only") for a in arguments.posonlyargs] + [
        (a, "positional") for a in arguments.args
    ]
    first_default = len(positional) - len(arguments.defaults)
    for index, (argument, kind) in enumerate(positional):
        found.append(Parameter(argument.arg, kind, index < first_default))
    if arguments.vararg:
        found.append(Parameter(arguments.vararg.arg, "var_positional", False))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(Parameter(argument.arg, "keyword", default is None))
    if arguments.kwarg:
        found.append(Parameter(arguments.kwarg.arg, "var_keyword", False))
    return tuple(found)


def _imports(module: ast.Module) -> tuple[str, ...]:
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return tuple(sorted(found - {"functory", "__future__"} - set(sys.stdlib_module_names)))
