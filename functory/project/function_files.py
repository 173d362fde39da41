"""Reads the functions of a Python file and what is declared for them. Nothing of the file is executed.

A file has one of two forms:

* functions with the decorator ``@register_function(…)``: each one is an entry. The values of the decorator are
  literals. What an entry uses of its file comes along
  (:func:`functory.engine.functions.source.capture.required_statements`).
* exactly one function without it, and imports, constants and classes: the whole file is the source. Its fields may
  stand in a block of comments, in TOML, written as the metadata of a script (PEP 723)::

      # /// functory
      # timeout = 30
      # secrets = ["SHOP_KEY"]
      # ///
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.functions import decorated_function, dependencies
from functory.engine.functions.source import capture, parser

DECORATOR = "register_function"
_BLOCK = re.compile(r"(?m)^# /// functory[ \t]*\n(?P<lines>(?:#(?: .*)?\n)*?)# ///[ \t]*$")
_OPENING = re.compile(r"(?m)^# /// functory\b")
# Fields that a file cannot set: the folder or the saving program decides them.
_NOT_IN_A_FILE = frozenset({"source", "modules", "name", "author", "activate", "force", "cause", "labels"})


@dataclass(frozen=True)
class FunctionEntry:
    """A function of a file, as a save takes it: the ``text`` of its source and its declared ``fields``.

    ``line`` is that of its ``def`` in the file, counted from 1.
    """

    name: str
    text: str
    fields: Mapping[str, Any]
    line: int


class FileProblem(Exception):
    """A file that cannot be read as functions: the ``error``, and the ``line`` and ``column`` of it, from 1."""

    def __init__(self, error: Invalid, line: int = 1, column: int = 1) -> None:
        super().__init__(str(error))
        self.error = error
        self.line = line
        self.column = column


def read(text: str) -> list[FunctionEntry]:
    """Return the functions of a file in their order. Raises :class:`FileProblem`."""
    tree = _parsed(text)
    functions = [one for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    registered = [(one, found) for one in functions if (found := _registration(one)) is not None]
    block = _block(text)
    if registered:
        if block is not None:
            raise FileProblem(
                Invalid(
                    "the file has a block of fields and a decorator",
                    f"the fields of {registered[0][0].name} stand at its decorator",
                    "keep one of the two",
                ),
                block[1],
            )
        entries = [_decorated(text, function, decorator) for function, decorator in registered]
        _check_once(entries)
        return entries
    if len(functions) != 1:
        names = ", ".join(f"{one.name} (line {one.lineno})" for one in functions)
        raise FileProblem(
            Invalid(
                "the file has no function" if not functions else "it is not said which functions are stored",
                f"it has {names}" if functions else "a file of functions/ defines one",
                f"write @{DECORATOR}() above each that is stored" if functions else "write def name(…): …",
            ),
            functions[1].lineno if functions else 1,
        )
    function = functions[0]
    fields = {} if block is None else _of_block(*block)
    return [_checked(FunctionEntry(function.name, text, fields, function.lineno))]


def _parsed(text: str) -> ast.Module:
    try:
        return parser.parse_tree(text)
    except Invalid as error:
        try:
            ast.parse(text)
        except SyntaxError as found:
            raise FileProblem(
                Invalid(f"syntax error: {found.msg}"), found.lineno or 1, found.offset or 1
            ) from None
        except (ValueError, RecursionError, MemoryError):
            pass
        raise FileProblem(error) from None


def _registration(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.expr | None:
    """Return the registering decorator of a function; None without one."""
    return next((one for one in function.decorator_list if capture.is_registration(one)), None)


def _decorated(
    text: str, function: ast.FunctionDef | ast.AsyncFunctionDef, decorator: ast.expr
) -> FunctionEntry:
    fields = _literals(decorator) if isinstance(decorator, ast.Call) else {}
    try:
        named = frozenset(one.name for one in dependencies.parse(fields.get("dependencies")))
        before = capture.required_statements(text, function.name, named)
    except Invalid as error:
        raise FileProblem(error, function.lineno) from None
    own = capture.without_decorators(_segment(text, function), function.name)
    source = f"{before}\n\n{own}" if before else own
    return _checked(FunctionEntry(function.name, source, fields, function.lineno))


def _segment(text: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the lines of a function, with those of its decorators."""
    first = min([function.lineno, *(one.lineno for one in function.decorator_list)])
    return "\n".join(text.splitlines()[first - 1 : function.end_lineno]) + "\n"


def _literals(decorator: ast.Call) -> dict[str, Any]:
    """Return the arguments of a decorator. They are not executed, so that each one is a literal."""
    if decorator.args:
        raise FileProblem(
            Invalid("the decorator takes fields by name", "it has a value without a name", "timeout=30"),
            decorator.args[0].lineno,
            decorator.args[0].col_offset + 1,
        )
    found: dict[str, Any] = {}
    for keyword in decorator.keywords:
        at = keyword.value.lineno, keyword.value.col_offset + 1
        try:
            if keyword.arg is None:
                raise ValueError
            found[keyword.arg] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, MemoryError, RecursionError):
            raise FileProblem(
                Invalid(
                    f"the value of {keyword.arg or '**'} is computed",
                    "the file is read and not executed, so that a value is written out",
                    "write the text, number, list or dict itself",
                ),
                *at,
            ) from None
    return _known(found, decorator.lineno)


def _block(text: str) -> tuple[str, int] | None:
    """Return the TOML of the block of fields, and the line on which it begins; None without one."""
    opened = [text.count("\n", 0, one.start()) + 1 for one in _OPENING.finditer(text)]
    if not opened:
        return None
    if len(opened) > 1:
        raise FileProblem(Invalid("the file has two blocks of fields", try_="join them"), opened[1])
    found = _BLOCK.search(text)
    if found is None:
        raise FileProblem(
            Invalid(
                "the block of fields is not ended", "each of its lines begins with #", "end it with: # ///"
            ),
            opened[0],
        )
    lines = [line[2:] for line in found["lines"].splitlines()]
    return "\n".join(lines), opened[0]


def _of_block(toml: str, line: int) -> dict[str, Any]:
    try:
        return _known(tomllib.loads(toml), line)
    except tomllib.TOMLDecodeError as error:
        raise FileProblem(Invalid("the block of fields is no TOML", str(error)), line) from None


def _known(fields: dict[str, Any], line: int) -> dict[str, Any]:
    wrong = sorted(_NOT_IN_A_FILE & fields.keys())
    if wrong:
        raise FileProblem(
            Invalid(f"a file cannot set {wrong[0]}", "the function has the name of its def", "leave it out"),
            line,
        )
    return decorated_function.collect_limits(fields)


def _checked(entry: FunctionEntry) -> FunctionEntry:
    """Return an entry that a save takes, as far as that needs no database."""
    fields = {name: value for name, value in entry.fields.items() if name != "lib"}
    try:
        decorated_function.check(entry.text, {**fields, "name": entry.name})
    except Invalid as error:
        raise FileProblem(error, entry.line) from None
    return entry


def _check_once(entries: list[FunctionEntry]) -> None:
    seen: set[str] = set()
    for entry in entries:
        if entry.name in seen:
            raise FileProblem(Invalid(f"the function {entry.name} is there twice"), entry.line)
        seen.add(entry.name)
