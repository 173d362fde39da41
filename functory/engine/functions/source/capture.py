"""Captured source: the text that is stored for a function of a running program.

A stored source is complete: the imports, constants and classes that the function uses are stored in front of it, and
its registration decorator is left out. A statement that cannot be stored is refused with its line; it would be a
NameError at run time. Names are resolved with the compiler's symbol tables, so a local variable is never taken for a
name of the file.
"""

from __future__ import annotations

import ast
import inspect
import symtable
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.functions.source import parser
from functory.engine.names import NAME


def capture_source(function: Callable[..., Any], dependency_names: frozenset[str]) -> str:
    """Return the source to store: the parts of its file that a function uses, then the function without the decorator.

    Raises :class:`Invalid` for a method, and when there is no source text (a lambda, a function typed at a prompt).
    """
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    if owner and not owner.endswith("<locals>"):
        raise Invalid(
            f"{name} is a method of the class {owner.rpartition('.')[2]}",
            "only the one function is stored, without its class and its objects",
            "define it at the top level of the file, and pass what it needs as arguments",
        )
    try:
        own = textwrap.dedent(inspect.getsource(function))
        module_file = inspect.getsourcefile(function)
    except (OSError, TypeError):
        raise Invalid(
            f"the source of {name or function!r} cannot be read",
            "it was not defined in a file",
            "define it in a file, or save its source text: functory function add FILE",
        ) from None
    body = without_decorators(own, name)
    nested = getattr(function, "__code__", None) is not None and function.__code__.co_freevars
    if nested:
        raise Invalid(
            f"{name} uses variables of the function around it",
            ", ".join(function.__code__.co_freevars),
            "move it to the top level of the file, or pass them as arguments",
        )
    try:
        module = Path(module_file).read_text() if module_file else ""
    except OSError:
        module = ""
    before = required_statements(module, name, dependency_names) if module else ""
    return f"{before}\n\n{body}" if before else body


def without_decorators(text: str, name: str) -> str:
    """Return the source of a decorated function without its registration decorator.

    Other decorators stay.
    """
    for node in parser.parse_tree(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            lines = text.splitlines(keepends=True)
            gone: set[int] = set()
            for decorator in node.decorator_list:
                if is_registration(decorator):
                    gone.update(range(decorator.lineno, (decorator.end_lineno or decorator.lineno) + 1))
            return "".join(line for number, line in enumerate(lines, 1) if number not in gone)
    return text


def required_statements(module: str, name: str, dependencies: frozenset[str]) -> str:
    """Return the statements of a file that its function ``name`` needs, in their order, without its ``dependencies``.

    Raises :class:`Invalid` when it needs another function of the file, or a name that is not bound by an import, an
    assignment or a class.
    """
    body = parser.parse_tree(module).body
    target = next(
        (n for n in body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name == name), None
    )
    if target is None:
        return ""
    target.decorator_list = [d for d in target.decorator_list if not is_registration(d)]
    providers: dict[str, list[ast.stmt]] = {}
    for statement in body:
        for bound in _bound(statement):
            providers.setdefault(bound, []).append(statement)
    needed: list[ast.stmt] = []
    pending = _used(target)
    seen = {name, *dependencies}
    while pending:
        used = min(pending)
        pending.discard(used)
        if used in seen:
            continue
        seen.add(used)
        for statement in providers.get(used, ()):
            _check(statement, name, used)
            if statement not in needed and not _is_future(statement):
                needed.append(statement)
                pending |= _used(statement)
    needed.sort(key=lambda statement: (statement.lineno, statement.col_offset))
    return "".join(f"{_segment(module, statement)}\n" for statement in needed)


def _check(statement: ast.stmt, name: str, used: str) -> None:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        raise Invalid(
            f"{name} uses the function {used} of its file",
            "only the one function is stored",
            f"register {used} too and name it in dependencies=[…], or move it into {name}",
        )
    if not parser.is_allowed_at_top_level(statement):
        first = ast.unparse(statement).split("\n")[0][:80]
        raise Invalid(
            f"{name} uses {used}, which its file defines in a way that cannot be stored",
            f"line {statement.lineno}: {first}",
            f"use a plain import or assignment, or move it into {name}",
        )


def _segment(module: str, statement: ast.stmt) -> str:
    """Return the text of a statement with its decorators, which ``ast.get_source_segment`` leaves out."""
    decorators = getattr(statement, "decorator_list", [])
    if not decorators:
        return ast.get_source_segment(module, statement) or ""
    first = min(decorator.lineno for decorator in decorators)
    return "\n".join(module.split("\n")[first - 1 : statement.end_lineno])


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds in the file, without those inside functions and classes."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {statement.name}
    names: set[str] = set()
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif not isinstance(node, ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))
    return names


def _used(statement: ast.stmt) -> set[str]:
    """Return the names of the file that a statement uses, also in string annotations."""
    table = symtable.symtable(ast.unparse(statement), "<file>", "exec")
    names = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    pending = list(table.get_children())
    while pending:
        inner = pending.pop()
        names.update(symbol.get_name() for symbol in inner.get_symbols() if symbol.is_global())
        pending.extend(inner.get_children())
    for node in ast.walk(statement):
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            for part in ast.walk(annotation) if isinstance(annotation, ast.AST) else ():
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    names.update(NAME.findall(part.value))
    return names


def _is_future(statement: ast.stmt) -> bool:
    # Stored sources never evaluate annotations at import: this import is implied.
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def is_registration(decorator: ast.expr) -> bool:
    """Return True for ``@register_function``, called or not, by whatever name its module has."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    last = (
        called.attr
        if isinstance(called, ast.Attribute)
        else called.id
        if isinstance(called, ast.Name)
        else ""
    )
    return last == "register_function"
