"""Whether a loop may end, and whether somebody waits around it for an exception. For
``engine.functions.analysis.checks``.
"""

from __future__ import annotations

import ast

from functory.engine.functions.analysis.scopes import NameResolver

_ENDS = (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Assert)
_INSIDE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_EXITS = frozenset({"exit", "quit", "_exit", "abort", "next", "send", "throw"})


def can_end(loop: ast.While | ast.For) -> bool:
    """Whether the body of an endless loop has a way out: leaving it, raising, or giving others a turn.

    ``next(…)`` and the like count: they end a loop by their exception.
    """
    waiting: list[tuple[ast.AST, bool]] = [(node, True) for node in loop.body]
    while waiting:
        node, own = waiting.pop()
        if isinstance(node, _ENDS) or (own and isinstance(node, ast.Break)) or _exits(node):
            return True
        if isinstance(node, _INSIDE):
            continue
        if isinstance(node, ast.For | ast.While):
            # A break in the body of another loop leaves that one; in its else it leaves ours.
            waiting.extend((child, False) for child in node.body)
            waiting.extend((child, own) for child in node.orelse)
        else:
            waiting.extend((child, own) for child in ast.iter_child_nodes(node))
    return False


def is_exception_caught(node: ast.AST, names: NameResolver, exceptions: tuple[str, ...] = ()) -> bool:
    """Whether an exception at ``node`` is caught in its own function: of one of ``kinds``, or of any."""
    child = node
    while (parent := names.parents.get(child)) is not None and not isinstance(parent, _INSIDE):
        for handler in names.handlers.get(child, ()):
            if not exceptions or handler.type is None or _names(handler.type) & set(exceptions):
                return True
        if isinstance(parent, ast.With) and any(
            _names(item.context_expr) & {"suppress"} for item in parent.items
        ):
            return True
        child = parent
    return False


def _exits(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and bool(_names(node.func) & _EXITS)


def _names(node: ast.expr) -> set[str]:
    """The last names of an expression: of a dotted name, of each in a tuple, of what is called."""
    if isinstance(node, ast.Call):
        node = node.func
    found = node.elts if isinstance(node, ast.Tuple) else [node]
    return {
        n.attr if isinstance(n, ast.Attribute) else n.id
        for n in found
        if isinstance(n, ast.Attribute | ast.Name)
    }
